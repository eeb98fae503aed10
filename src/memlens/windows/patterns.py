r"""Find the lines that a pattern marks.

The definition is plain: take a line without its line end, take terminal escape sequences (colours) out of it, search it with
a regular expression.  That is what :meth:`Pattern.match_line` does.  :class:`Matcher` gets the same lines out of a whole block of text through
the scanner.  Only an expression that may match without any text (``^``, ``\d*``) goes line by line.
"""

from __future__ import annotations

import re
import warnings
from array import array
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.errors import UsageError
from memlens.scanner import Scanner
from memlens.scanner.expressions import longest_text
from memlens.scanner.formats import LineFormat
from memlens.scanner.plain import Scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray


#: A name taken from a line that matched without any text (``--by '^'``) is at most this long.
_LONGEST_NAME = 80

#: CSI (colours, cursor), OSC (titles, links), other two- and three-byte sequences; none of them spans lines.
_ESCAPES = rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])"
_LINE_ENDS = rb"(?m)\r+$"


class Pattern(Struct, frozen=True, dict=True):
    r"""The mark of a line: a literal that stands in it as whole words, or a regular expression (``re`` syntax).

    A literal is not followed or preceded by a further word character (``A-Za-z0-9_``) where its own edge is one, so
    ``START SOT_CALL_4`` does not match ``START SOT_CALL_42``.  An expression is searched for in one line, as bytes: ``\w`` and
    ignored case know ASCII only.
    """

    text: str
    regex: bool = False

    def __str__(self) -> str:
        return f"/{self.text}/" if self.regex else f"'{self.text}'"

    @cached_property
    def compiled(self) -> re.Pattern[bytes]:
        """The expression to search one clean line for.

        Raises:
            UsageError: The pattern is empty, spans lines, or is not a regular expression.
        """
        if not self.text:
            raise UsageError("an anchor pattern is empty", "Name some text of the lines to find.")
        text = self.text.encode("utf-8", "surrogateescape")  # undecodable bytes of a command line stay as they were
        if self.regex:
            return _compile(text, self.text)
        if b"\n" in text:
            raise UsageError(f"the anchor pattern {self} spans lines", "A pattern is looked for in one line.")
        before = rb"(?<![A-Za-z0-9_])" if _is_word(text[:1]) else b""
        after = rb"(?![A-Za-z0-9_])" if _is_word(text[-1:]) else b""
        return re.compile(before + re.escape(text) + after)

    def match_line(self, line: bytes) -> str | None:
        """The plain definition: the name that a line gets, or ``None`` where it does not match.

        Args:
            line: A line with or without its line end.
        """
        return self.name_in(clean_line(line))

    def name_in(self, clean: bytes) -> str | None:
        """The same for a clean line (see :func:`clean_line`)."""
        match = self.compiled.search(clean)
        if match is None:
            return None
        if not self.regex:
            return self.text
        name = match[0]
        if match.re.groups and match[1]:
            name = match[1]
        return (name or clean[:_LONGEST_NAME]).decode("utf-8", "replace")


class Match(NamedTuple):
    """One line that matches: where it starts, its number, and the name that it gives."""

    start: int
    line: int
    name: str


class Anchor(Struct, frozen=True):
    """All lines of a log that match one pattern: line starts (byte offsets), line numbers and names, in file order."""

    pattern: Pattern
    offsets: Sequence[int]
    lines: Sequence[int]
    names: Sequence[str]

    @classmethod
    def of(cls, pattern: Pattern, matches: Sequence[Match]) -> Anchor:
        """The lines that match, by byte offsets and 1-based numbers."""
        found = Matches()
        found.add(matches)
        return found.anchor(pattern)

    def __len__(self) -> int:
        return len(self.offsets)


class Matches:
    """Matches in columns, as they are found: there may be very many.

    Attributes:
        starts: Where the lines begin.
    """

    def __init__(self) -> None:
        self.starts, self._lines, self._names = array("q"), array("q"), list[str]()

    def add(self, matches: Iterable[Match], first_line: int = 0) -> None:
        """Add some, whose lines are counted from a first one."""
        starts, lines, names = zip(*matches, strict=True) if (matches := [*matches]) else ((), (), ())
        self.starts.extend(starts)
        self._lines.extend(map(first_line.__add__, lines))
        self._names.extend(names)

    def each(self) -> list[Match]:
        """They."""
        return list(map(Match, self.starts, self._lines, self._names))

    def anchor(self, pattern: Pattern) -> Anchor:
        """They as the lines of a pattern; nothing may be added then."""
        return Anchor(pattern, self.starts, self._lines, tuple(self._names))


def clean_line(line: bytes) -> bytes:
    """A line as patterns see it: without escape sequences and without its line end."""
    if b"\x1b" in line:
        line = re.sub(_ESCAPES, b"", line)
    return line.rstrip(b"\r\n")


class Matcher:
    """Finds the lines of a block that match a pattern; holds no state of a log, so threads may share it.

    Args:
        pattern: What to look for.

    Raises:
        UsageError: The pattern is empty or is not a regular expression.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        regex = pattern.compiled.pattern  # a wrong pattern is said before any log is read
        self._scanner: Scanner | None = None
        # It may match the empty text, or be no UTF-8: no format does and is.
        with suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = longest_text(regex)
            if pattern.compiled.flags & re.IGNORECASE:
                regex = b"".join(
                    b"[%c%c]" % (c, c ^ 0x20) if bytes([c]).isalpha() else re.escape(bytes([c])) for c in text
                )
                text = b""
            form = LineFormat("anchor", "", text, regex.decode(), {})
            self._scanner = Scanner([Scan(form, once=True, values=())])

    def find(self, block: NDArray[np.uint8], offset: int = 0, first_line: int = 0) -> list[Match]:
        """The matching lines of a block.

        Args:
            block: uint8, contiguous; begins at a line start and ends after a line end or with the input.
            offset: What its first byte counts as.
            first_line: What its first line counts as.

        Returns:
            One match a line, in order.
        """
        text = block.tobytes()
        if self._scanner is None:
            return [Match(offset + start, first_line + line, name) for start, line, name in self._line_by_line(text)]
        ends_in_cr = b"\r" in text and (b"\r\n" in text or text.endswith(b"\r"))  # single bytes are found fastest
        if not ends_in_cr and b"\x1b" not in text:
            rows = self._scanner.scan(block, 0, len(block))
            starts = rows.line_start
        else:
            # No escape sequence spans lines, so the lines keep their numbers.
            text = re.sub(_LINE_ENDS, b"", re.sub(_ESCAPES, b"", text))
            rows = self._scanner.scan(np.frombuffer(text, np.uint8), 0, len(text))
            starts = np.concatenate(([0], np.flatnonzero(block == ord("\n")) + 1))[rows.line]
        names = self._names(text, rows.line_start)
        each = zip((starts + offset).tolist(), (rows.line + first_line).tolist(), names, strict=True)
        return [Match(start, line, name) for start, line, name in each if name is not None]

    def _names(self, text: bytes, starts: NDArray[np.int64]) -> Iterable[str | None]:
        """The names that lines of clean text give; ``None`` where the scanner looked for less than the pattern."""
        if not self.pattern.regex:
            return [self.pattern.text] * len(starts)
        text = text if text.endswith(b"\n") else text + b"\n"
        find, name_in = text.find, self.pattern.name_in
        return (name_in(text[start : find(b"\n", start)]) for start in starts.tolist())

    def _line_by_line(self, text: bytes) -> Iterator[tuple[int, int, str]]:
        """The same without a scanner: starts, numbers and names."""
        start = 0
        for number, line in enumerate(text.removesuffix(b"\n").split(b"\n") if text else ()):
            if (name := self.pattern.match_line(line)) is not None:
                yield start, number, name
            start += len(line) + 1


def _is_word(byte: bytes) -> bool:
    return byte == b"_" or byte.isalnum()


def _compile(pattern: bytes, shown: str) -> re.Pattern[bytes]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "possible nested set" and the like: of no use to who reads a log
            return re.compile(pattern)
    except re.error as error:
        place = "" if error.pos is None else f" at position {len(pattern[: error.pos].decode('utf-8', 'replace')) + 1}"
        problem = error.msg
    except (RecursionError, OverflowError, ValueError) as error:
        place, problem = "", str(error)
    raise UsageError(f"{shown!r} is not a regular expression: {problem}{place}", "Python's re syntax is expected.")
