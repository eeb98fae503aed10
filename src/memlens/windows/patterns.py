r"""Find the lines that a pattern marks.

The definition is plain: take a line without its line end, take terminal escape sequences (colours) out of it, search it with
a regular expression.  That is what :meth:`Pattern.match_line` does.  :class:`Matcher` gets the same lines out of a whole block of text through
the scanner.  Only an expression that may match without any text (``^``, ``\d*``) goes line by line.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.errors import InputError, UsageError
from memlens.scanner.expressions import longest_text
from memlens.scanner.formats import LineFormat
from memlens.scanner.lines import count_lines
from memlens.scanner.scan import Scan, Scanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.facts import Mark

__all__ = [
    "Anchor",
    "Match",
    "Matcher",
    "Pattern",
    "anchors_in_block",
    "clean_line",
    "find_anchor",
    "find_anchors",
]

#: A name taken from a line that matched without any text (``--by '^'``) is at most this long.
_LONGEST_NAME = 80

#: CSI (colours, cursor), OSC (titles, links), other two- and three-byte sequences; none of them spans lines.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
_LINE_ENDS = re.compile(rb"(?m)\r+$")


@dataclass(frozen=True)
class Pattern:
    r"""What marks a line: a literal that stands in it as whole words, or a regular expression (``re`` syntax).

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


@dataclass(frozen=True)
class Anchor:
    """All lines of a log that match one pattern: line starts (byte offsets), line numbers and names, in file order."""

    pattern: Pattern
    offsets: tuple[int, ...]
    lines: tuple[int, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.offsets)


class Match(NamedTuple):
    """One line that matches: where it starts in the block, its number there, counted from 0, and the name that it gives."""

    start: int
    line: int
    name: str


def clean_line(line: bytes) -> bytes:
    """A line as patterns see it: without escape sequences and without its line end."""
    if b"\x1b" in line:
        line = _ESCAPES.sub(b"", line)
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

    def find(self, block: NDArray[np.uint8]) -> list[Match]:
        """The matching lines of a block.

        Args:
            block: uint8, contiguous; begins at a line start and ends after a line end or with the input.

        Returns:
            One match a line, in order, with line starts as positions in the block.
        """
        text = block.tobytes()
        if self._scanner is None:
            return self._line_by_line(text)
        ends_in_cr = b"\r" in text and (b"\r\n" in text or text.endswith(b"\r"))  # single bytes are found fastest
        if not ends_in_cr and b"\x1b" not in text:
            rows = self._scanner.scan(block, 0, len(block))
            starts = rows.line_start
        else:
            # No escape sequence spans lines, so the lines keep their numbers.
            text = _LINE_ENDS.sub(b"", _ESCAPES.sub(b"", text))
            rows = self._scanner.scan(np.frombuffer(text, np.uint8), 0, len(text))
            starts = np.concatenate(([0], np.flatnonzero(block == ord("\n")) + 1))[rows.line]
        found = zip(starts.tolist(), rows.line.tolist(), rows.line_start.tolist(), strict=True)
        named = ((start, line, self._name(text, clean_start)) for start, line, clean_start in found)
        return [Match(start, line, name) for start, line, name in named if name is not None]

    def _name(self, text: bytes, start: int) -> str | None:
        """The name that a line of clean text gives; ``None`` where the scanner looked for less than the pattern."""
        if not self.pattern.regex:
            return self.pattern.text
        end = text.find(b"\n", start)
        return self.pattern.name_in(text[start : None if end < 0 else end])

    def _line_by_line(self, text: bytes) -> list[Match]:
        """The same without a scanner."""
        found, start = [], 0
        lines = text.split(b"\n")
        if not lines[-1]:
            lines.pop()  # what follows the last line end is no line
        for number, line in enumerate(lines):
            if (name := self.pattern.match_line(line)) is not None:
                found.append(Match(start, number, name))
            start += len(line) + 1
        return found


def anchors_in_block(
    matcher: Matcher, block: NDArray[np.uint8], offset: int, first_line: int
) -> tuple[list[int], list[int], list[str]]:
    """The anchor lines of one block, for a reader that goes through a log block by block.

    Args:
        matcher: What to look for.
        block: uint8; whole lines.
        offset: Byte offset of the block in the input.
        first_line: 1-based number of the block's first line.

    Returns:
        Byte offsets of the lines, their 1-based numbers, their names.
    """
    found = matcher.find(block)
    return (
        [offset + match.start for match in found],
        [first_line + match.line for match in found],
        [match.name for match in found],
    )


def find_anchor(log: EventLog, pattern: Pattern) -> Anchor:
    """All lines of a log that match a pattern: as found when the log was read, or by going through its text again.

    Raises:
        InputError: The pattern was not asked for when the log was read, and its text cannot be read again.
        UsageError: The pattern is empty or is not a regular expression.
    """
    return find_anchors(log, [pattern])[0]


def find_anchors(log: EventLog, patterns: Sequence[Pattern]) -> tuple[Anchor, ...]:
    """The same for several patterns, in one pass over the text."""
    known = {anchor.pattern: anchor for anchor in log.anchors}
    missing = [pattern for pattern in dict.fromkeys(patterns) if pattern not in known]
    if missing:
        known.update(_scan(log, [Matcher(pattern) for pattern in missing]))
    return tuple(known[pattern] for pattern in patterns)


def _scan(log: EventLog, matchers: Sequence[Matcher]) -> dict[Pattern, Anchor]:
    if log.marks is not None:
        return {matcher.pattern: _among(log.marks, matcher.pattern) for matcher in matchers}
    if not log.source.rereadable:
        raise InputError(
            f"the text of {log.source.name} cannot be searched again",
            "Name the anchors when reading: memlens.read(…, patterns=[Pattern(…)]).",
        )
    found: list[tuple[list[int], list[int], list[str]]] = [([], [], []) for _ in matchers]
    line, end = 1, log.facts.bytes or None
    for offset, text in log.source.blocks(0, end):
        # What was written to the log after it was read is no part of it.
        block = np.frombuffer(text, np.uint8)[: None if end is None else end - offset]
        for matcher, (offsets, lines, names) in zip(matchers, found, strict=True):
            more = anchors_in_block(matcher, block, offset, line)
            offsets.extend(more[0])
            lines.extend(more[1])
            names.extend(more[2])
        line += count_lines(block)
    return {
        matcher.pattern: Anchor(matcher.pattern, tuple(offsets), tuple(lines), tuple(names))
        for matcher, (offsets, lines, names) in zip(matchers, found, strict=True)
    }


def _among(marks: Sequence[Mark], pattern: Pattern) -> Anchor:
    """The marks that match, for inputs without lines of text."""
    named = [(mark, pattern.match_line(mark.text.encode("utf-8", "surrogatepass"))) for mark in marks]
    found = [(mark.offset, mark.line, name) for mark, name in named if name is not None]
    offsets, lines, names = zip(*found, strict=True) if found else ((), (), ())
    return Anchor(pattern, offsets, lines, names)


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
