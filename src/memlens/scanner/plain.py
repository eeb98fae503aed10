"""What the scanner finds, and the plain way to find it: every format's regular expression, line by line.

This is the reference implementation, and what runs without the compiled module.  The literal of a format is searched in the whole block,
so that only the lines that hold it cost anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from memlens.scanner.expressions import Conversion, Group, can_be_empty, groups_of, parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.scanner.formats import LineFormat

__all__ = ["ANSI", "WINDOW", "Header", "PlainScanner", "Rows", "Scan", "matches_in"]

#: Colours and other escape sequences of terminals: a header may hold them.
ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Bytes before a match in which its header is looked for.
WINDOW = 400
_MOST = (1 << 63) - 1
_LONGEST = (1 << 23) - 1
_NO_DIGITS = bytes(byte for byte in range(256) if byte not in b"0123456789")


@dataclass(frozen=True)
class Scan:
    """One format, and how it is looked for.

    Attributes:
        format: The format: lines that hold its literal and match its expression.
        header: Of which header a match has the values: ``before``: the one that ends right at its start; ``nearest``: the last one
            of the block that ends at or before its start.
        covers: A match covers its text, in which no match of an ``uncovered`` format is reported.
        uncovered: Matches that start in covered text are left out (text that looks like an event, and is part of one).
        once: Only the first match of a line.
        values: The groups wanted, in the order of the value columns; all named groups where it is ``None``.
    """

    format: LineFormat
    header: Literal["none", "before", "nearest"] = "none"
    covers: bool = False
    uncovered: bool = False
    once: bool = False
    values: tuple[str, ...] | None = None

    def groups(self) -> tuple[Group, ...]:
        """The groups wanted, in the order of the value columns.

        Raises:
            ValueError: The expression has no such group, or may match the empty text.
        """
        regex = self.format.pattern.pattern
        if can_be_empty(regex):
            raise ValueError(f"{self.format.name}: the expression may match the empty text: {self.format.regex}")
        return _named(groups_of(regex), self.values, self.format.name)


class Rows(NamedTuple):
    """Matches, in the order of their starts, at the same start in the order of the formats; positions are those of the block.

    Attributes:
        format: Index into the scans of the scanner, int8.
        start: Where the match starts, int64.
        end: Where it ends, int64.
        line_start: Where its line starts, int64.
        line: Number of its line, from 0 at ``begin``, int64.
        values: Groups, int64 of shape (matches, most groups of any scan); column ``k`` is that of ``Scanner.groups[format][k]``; -1
            where the group took no part, and in columns that the format does not have.
        header: Groups of its header, int64 of shape (matches, groups wanted of the header); -1 where it has none; -2 where the
            nearest one is looked for and the block has none before it.
        lines: Line ends in the text.
    """

    format: NDArray[np.int8]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    line_start: NDArray[np.int64]
    line: NDArray[np.int64]
    values: NDArray[np.int64]
    header: NDArray[np.int64]
    lines: int


def _named(groups: Sequence[Group], names: Sequence[str] | None, whose: str) -> tuple[Group, ...]:
    by_name = {group.name: group for group in groups}
    strangers = [name for name in names or () if name not in by_name]
    if strangers:
        raise ValueError(f"{whose}: no group is called {strangers[0]!r}; there are {', '.join(by_name)}")
    return tuple(groups) if names is None else tuple(by_name[name] for name in names)


class Header:
    """The expression of a header, which must end exactly where the text of a match starts.

    Attributes:
        last: The byte that every header ends with, trailing blanks not counted; ``None`` where that cannot be said.
    """

    def __init__(self, form: LineFormat, values: Sequence[str]) -> None:
        regex = form.pattern.pattern
        self.regex = b"(?:" + regex + rb")\Z"
        self.pattern = re.compile(self.regex)
        self.groups = _named(groups_of(regex), tuple(values), form.name)
        texts = [group.name for group in self.groups if group.conversion is Conversion.TEXT]
        if texts:
            raise ValueError(f"{form.name}: {texts[0]} is text, and a header gives numbers alone")
        self.last = _last_byte(regex)

    def before(self, text: bytes) -> re.Match[bytes] | None:
        """The header that ends right at the end of ``text``, colours ignored."""
        window = text[-WINDOW:]
        return self.pattern.search(ANSI.sub(b"", window) if b"\x1b" in window else window)

    def values(self, matches: Sequence[re.Match[bytes] | None]) -> NDArray[np.int64]:
        """The values of headers, int64 of shape (matches, groups); -1 where there is none."""
        none = (None,) * self.pattern.groups
        texts: list[tuple[bytes | None, ...]] = [none if match is None else match.groups() for match in matches]
        columns = [numbers([of_match[group.number - 1] for of_match in texts], group) for group in self.groups]
        return np.stack(columns, 1) if columns else np.empty((len(texts), 0), np.int64)

    def nearest(self, text: bytes, low: int, high: int) -> re.Match[bytes] | None:
        """The last header that ends in ``text[low + 1 : high + 1]``, searched from the end."""
        if self.last is None:
            raise ValueError(f"what a header ends with cannot be told from {self.pattern.pattern!r}")
        end = high
        while (end := text.rfind(self.last, low, end)) >= low:
            window = text[max(end + 1 - WINDOW, 0) : end + 1]
            match = self.before(window[window.rfind(b"\n") + 1 :])
            if match is not None:
                return match
        return None


def _last_byte(regex: bytes) -> bytes | None:
    try:
        items, _ = parse(regex)
    except NotImplementedError:
        return None
    while items and str(items[-1][0]) == "MAX_REPEAT" and items[-1][1][0] == 0:
        items.pop()
    return bytes([items[-1][1]]) if items and str(items[-1][0]) == "LITERAL" else None


def numbers(texts: Sequence[bytes | None], group: Group) -> NDArray[np.int64]:
    """The values of the texts of a group that is no :attr:`~Conversion.TEXT`, int64."""
    given = [text for text in texts if text is not None]
    if len(given) < len(texts):
        found = np.full(len(texts), -1, np.int64)
        found[[text is not None for text in texts]] = numbers(given, group)
        return found
    if group.conversion is Conversion.WORD:
        words = {word: index for index, word in enumerate(group.words)}
        return np.array([words[text] for text in given], np.int64)
    if group.conversion is Conversion.HEXADECIMAL:
        return np.array([int(text, 16) for text in given], np.uint64).view(np.int64)
    if group.conversion is Conversion.DIGITS:
        given = [text.translate(None, _NO_DIGITS) for text in given]
    elif max(map(len, given), default=0) > 18:
        return np.array([_decimal(text) for text in given], np.int64)
    return np.array(list(map(int, given)), np.int64)


def _decimal(text: bytes) -> int:
    """A number of any length, at most 2**63-1; ``int`` refuses thousands of digits."""
    number = min(int(text.lstrip(b"-0")[:20] or b"0"), _MOST)
    return -number if text.startswith(b"-") else number


def matches_in(text: bytes, form: LineFormat, *, once: bool) -> Iterator[tuple[int, re.Match[bytes]]]:
    """All matches of a format in whole lines, in order: where the line of each starts, and the match in that line."""
    find_all, literal = form.pattern.finditer, form.literal
    at = text.find(literal)
    while 0 <= at < len(text):
        low = text.rfind(b"\n", 0, at) + 1
        high = text.find(b"\n", at)
        high = len(text) if high < 0 else high
        for match in find_all(text[low:high]):
            yield low, match
            if once:
                break
        at = text.find(literal, high + 1)


def _values(found: Sequence[tuple[int, re.Match[bytes]]], group: Group) -> NDArray[np.int64]:
    """The values of one group of matches in lines that start where is given, int64."""
    number = group.number
    if group.conversion is Conversion.TEXT:
        spans = ((low, *match.span(number)) for low, match in found)
        texts = [-1 if a < 0 else low + a | min(b - a, _LONGEST) << 40 for low, a, b in spans]
        return np.array(texts, np.int64)
    return numbers([match[number] for _, match in found], group)


class PlainScanner:
    """The scanner through :mod:`re`; see :class:`memlens.scanner.scan.Scanner`."""

    def __init__(self, scans: Sequence[Scan], header: Header | None) -> None:
        self._scans, self._header = scans, header
        self._groups = [scan.groups() for scan in scans]
        self._width = max(map(len, self._groups), default=0)
        self._header_width = 0 if header is None else len(header.groups)

    def scan(self, block: NDArray[np.uint8], begin: int, end: int) -> Rows:
        """All rows of ``block[begin:end]``, which is whole lines."""
        text = block[begin:end].tobytes()
        parts = [self._rows_of(index, text) for index in range(len(self._scans))]
        rows = np.concatenate([np.empty((0, 4 + self._width + self._header_width), np.int64), *parts])
        rows = rows[np.lexsort((rows[:, 0], rows[:, 1]))]
        rows = rows[~self._covered(rows)]
        self._add_nearest(rows, text)
        return to_rows(rows, np.flatnonzero(block[begin:end] == ord("\n")), begin, self._width, self._groups)

    def last_header(self, block: NDArray[np.uint8], begin: int, end: int) -> NDArray[np.int64] | None:
        """The values of the last header of ``block[begin:end]``."""
        assert self._header is not None
        text = block[begin:end].tobytes()
        header = self._header.nearest(text, 0, len(text))
        return None if header is None else self._header.values([header])[0]

    def _rows_of(self, index: int, text: bytes) -> NDArray[np.int64]:
        """Rows of one scan: format, start, end, start of the line, values, header; positions are those of the text."""
        scan = self._scans[index]
        found = list(matches_in(text, scan.format, once=scan.once))
        rows = np.full((len(found), 4 + self._width + self._header_width), -1, np.int64)
        if not found:
            return rows
        rows[:, 0] = index
        rows[:, 3] = [low for low, _ in found]
        rows[:, 1:3] = [match.span() for _, match in found]
        rows[:, 1:3] += rows[:, 3:4]
        for column, group in enumerate(self._groups[index], 4):
            rows[:, column] = _values(found, group)
        if scan.header == "before" and self._header is not None:
            headers = [self._header.before(match.string[: match.start()]) for _, match in found]
            rows[:, 4 + self._width :] = self._header.values(headers)
        return rows

    def _covered(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows of ``uncovered`` formats that start in the text of a match that covers."""
        covers, uncovered = (
            np.array([getattr(scan, name) for scan in self._scans], bool)[rows[:, 0]]
            for name in ("covers", "uncovered")
        )
        if not (covers.any() and uncovered.any()):
            return np.zeros(len(rows), bool)
        # Of rows that start at the same byte the later ones cover, too.
        until = np.maximum.accumulate(np.where(covers, rows[:, 2], 0))
        until = until[np.searchsorted(rows[:, 1], rows[:, 1], "right") - 1]
        return uncovered & (rows[:, 1] < until)

    def _add_nearest(self, rows: NDArray[np.int64], text: bytes) -> None:
        wanted = [index for index, scan in enumerate(self._scans) if scan.header == "nearest"]
        if self._header is None or not wanted:
            return
        row_numbers, low = np.flatnonzero(np.isin(rows[:, 0], wanted)), 0
        headers: list[re.Match[bytes] | None] = [None]
        for high in rows[row_numbers, 1].tolist():
            headers.append(self._header.nearest(text, low, high) or headers[-1])
            low = high
        values = self._header.values(headers[1:])
        values[[header is None for header in headers[1:]]] = -2
        rows[row_numbers, 4 + self._width :] = values


def to_rows(
    rows: NDArray[np.int64], line_ends: NDArray[np.int64], begin: int, width: int, groups: Sequence[Sequence[Group]]
) -> Rows:
    """Columns of rows whose positions are those of a text that stands at ``begin`` of the block."""
    values = rows[:, 4 : 4 + width]
    for index, of_format in enumerate(groups):
        for column, group in enumerate(of_format):
            if group.conversion is Conversion.TEXT:
                values[(rows[:, 0] == index) & (values[:, column] >= 0), column] += begin
    return Rows(
        rows[:, 0].astype(np.int8),
        rows[:, 1] + begin,
        rows[:, 2] + begin,
        rows[:, 3] + begin,
        np.searchsorted(line_ends, rows[:, 3], "right"),
        values,
        rows[:, 4 + width :],
        len(line_ends),
    )
