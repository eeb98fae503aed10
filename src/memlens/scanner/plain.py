"""The rows that the scanner finds, and the plain way to find them: every format's regular expression, line by line.

This is the reference implementation, and what runs without the compiled module.  The literal of a format is searched in the whole block,
so that only the lines that hold it cost anything.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.scanner.expressions import Conversion, Group, can_be_empty, groups_of, looks_within_lines, parse, runs_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.scanner.formats import LineFormat


#: Colours and other escape sequences of terminals: a header may hold them.
ANSI = rb"\x1b\[[0-9;?]*[ -/]*[@-~]"
#: Bytes before a match in which its header is looked for.
WINDOW = 400
_MOST = (1 << 63) - 1
_MOST_BITS = (1 << 64) - 1
#: Where a literal stands more often than once in so many bytes, its lines are not looked for one by one.
_CROWDED = 500
_LONGEST = (1 << 23) - 1
#: Columns of rows before the values.
ROW = 5
_NO_DIGITS = bytes(byte for byte in range(256) if byte not in b"0123456789")


class Scan(Struct, frozen=True):
    """One format, and how it is looked for.

    Attributes:
        format: The format: lines that hold its literal and match its expression.
        header: Of which header a match has the values: ``before``: the one that ends right at its start; ``nearest``: the last one
            of the block that ends at or before its start.
        covers: A match covers its text, in which no match of an ``uncovered`` format is reported.
        uncovered: Matches that start in covered text are left out (text that looks like an event, and is part of one); not of a format
            that covers itself.
        once: Only the first match of a line.
        values: The groups wanted, in the order of the value columns; all named groups where it is ``None``.
        texts: Groups whose text is wanted, whatever number it may be.
        latest: The number of a group, 1 to 7, of formats of which only the latest match of a thread counts (its number is the first value of the
            header): one of the same group and thread may take its row, unless a match of a format without a group stands between that is of this
            thread, or of one that had none of the group before.
    """

    format: LineFormat
    header: Literal["none", "before", "nearest"] = "none"
    covers: bool = False
    uncovered: bool = False
    once: bool = False
    values: tuple[str, ...] | None = None
    texts: frozenset[str] = frozenset()
    latest: int = 0

    def groups(self) -> tuple[Group, ...]:
        """The groups wanted, in the order of the value columns.

        Raises:
            ValueError: The expression has no such group, or may match the empty text, or the literal holds a line end.
        """
        regex = self.format.regex.encode()
        if can_be_empty(regex):
            raise ValueError(f"{self.format.name}: the expression may match the empty text: {self.format.regex}")
        if b"\n" in self.format.literal:
            raise ValueError(f"{self.format.name}: the literal holds a line end: {self.format.literal!r}")
        return tuple(
            replace(group, conversion=Conversion.TEXT, words=()) if group.name in self.texts else group
            for group in _named(groups_of(regex), self.values, self.format.name)
        )


class Rows(Struct, frozen=True):
    """Matches, in the order of their starts, at the same start in the order of the formats; positions are those of the block.

    One that took the row of an earlier one (:attr:`Scan.latest`) may stand there instead.

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

    def first_of_lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of some rows the first one of each line, by line."""
        first: NDArray[np.int64] = rows[np.unique(self.line[rows], return_index=True)[1]]
        return first


def _named(groups: Sequence[Group], names: Sequence[str] | None, whose: str) -> tuple[Group, ...]:
    by_name = {group.name: group for group in groups}
    strangers = [name for name in names or () if name not in by_name]
    if strangers:
        raise ValueError(f"{whose}: no group is called {strangers[0]!r}; there are {', '.join(by_name)}")
    return tuple(groups) if names is None else tuple(by_name[name] for name in names)


class Header:
    """The expression of a header, which must end exactly where the text of a match starts.

    Attributes:
        groups: The groups that are wanted, in the order of their columns.
        last: The byte that every header ends with, trailing blanks not counted; ``None`` where that cannot be said.
    """

    def __init__(self, form: LineFormat, groups: tuple[Group, ...], last: bytes | None) -> None:
        self.regex = b"(?:" + form.regex.encode() + rb")\Z"
        self.groups, self.last = groups, last

    @classmethod
    def of(cls, form: LineFormat, values: Sequence[str]) -> Header:
        """The header of a format, of which the groups of some names are wanted.

        Raises:
            ValueError: The format may match the empty text, has no such group, or one of them is text.
        """
        regex = form.regex.encode()
        if can_be_empty(regex):
            raise ValueError(f"{form.name}: the expression may match the empty text: {form.regex}")
        groups = _named(groups_of(regex), tuple(values), form.name)
        texts = [group.name for group in groups if group.conversion is Conversion.TEXT]
        if texts:
            raise ValueError(f"{form.name}: {texts[0]} is text, and a header gives numbers alone")
        return cls(form, groups, _last_byte(regex))

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The expression, with the end of the text after it."""
        return re.compile(self.regex)

    def before(self, text: bytes) -> re.Match[bytes] | None:
        """The header that ends right at the end of ``text``, colours ignored."""
        window = text[-WINDOW:]
        return self.pattern.search(re.sub(ANSI, b"", window) if b"\x1b" in window else window)

    def values(self, matches: Sequence[re.Match[bytes] | None]) -> NDArray[np.int64]:
        """The values of headers, int64 of shape (groups, matches); -1 where there is none."""
        columns = [numbers([match and match[group.number] for match in matches], group) for group in self.groups]
        return np.stack(columns) if columns else np.empty((0, len(matches)), np.int64)

    def nearest(self, text: bytes, low: int, high: int) -> re.Match[bytes] | None:
        """The last header that ends in ``text[low + 1 : high + 1]``, searched from the end."""
        assert self.last is not None
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
    while items and items[-1].kind == "MAX_REPEAT" and not items[-1].least:
        items = items[:-1]
    return items[-1].letters if items and len(items[-1].letters) == 1 else None


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
        numbers_of = [int(text, 16) if len(text.removeprefix(b"0x")) <= 16 else _MOST_BITS for text in given]
        return np.array(numbers_of, np.uint64).view(np.int64)
    if group.conversion is Conversion.DIGITS:
        given = [text.translate(None, _NO_DIGITS) for text in given]
    elif max(map(len, given), default=0) > 18:
        return np.array([_decimal(text) for text in given], np.int64)
    return np.array(list(map(int, given)), np.int64)


def _decimal(text: bytes) -> int:
    """A number of any length, at most 2**63-1; ``int`` refuses thousands of digits."""
    number = min(int(text.lstrip(b"-0")[:20] or b"0"), _MOST)
    return -number if text.startswith(b"-") else number


def _begins(form: LineFormat) -> bool:
    """Whether each match begins with the literal, of which no two overlap."""
    try:
        items, _ = parse(form.regex.encode())
    except NotImplementedError:
        return False
    while items and items[0].takes_no_text:
        items = items[1:]
    return runs_of(items)[0].startswith(form.literal) and form.literal.rfind(form.literal[:1]) == 0


def lines_with(text: bytes, literal: bytes) -> Iterator[int]:
    """Where the lines start that hold a literal."""
    at = text.find(literal)
    while 0 <= at < len(text):
        yield text.rfind(b"\n", 0, at) + 1
        end = text.find(b"\n", at)
        at = -1 if end < 0 else text.find(literal, end + 1)


class PlainScanner:
    """The scanner through :mod:`re`; see :class:`memlens.scanner.Scanner`.

    Rows are kept in columns, int64 of shape (columns, rows): format, start, end, start of the line, number of the line, values, header.
    Positions are those of the block.
    """

    def __init__(self, scans: Sequence[Scan], groups: Sequence[Sequence[Group]], header: Header | None) -> None:
        self._scans, self._groups, self._header = scans, groups, header
        self.width = max(map(len, groups), default=0)
        self.header_width = 0 if header is None else len(header.groups)

    @cached_property
    def _at_once(self) -> list[bool]:
        """Of each scan whether a text may be searched without looking for its lines."""
        return [looks_within_lines(scan.format.regex.encode(), scan.format.literal) for scan in self._scans]

    @cached_property
    def _left_out(self) -> list[bool]:
        """Of each scan whether its matches begin with its literal and are left out where that is covered, which is known by then."""
        return [
            scan.uncovered and not any(later.covers for later in self._scans[index:]) and _begins(scan.format)
            for index, scan in enumerate(self._scans)
        ]

    def scan(self, block: NDArray[np.uint8], begin: int, end: int, without: Collection[int] = ()) -> Rows:
        """All rows of ``block[begin:end]``, which is whole lines, but those of some formats."""
        text = block[begin:end].tobytes()
        columns = [np.empty((ROW + self.width + self.header_width, 0), np.int64)]
        covered: bytes | None = None
        for index, scan in enumerate(self._scans):
            literal = scan.format.literal
            if index in without or literal not in text:
                continue
            if self._left_out[index]:  # in a dense log all that looks like an event is part of one
                covered = self._covered_text(np.concatenate(columns, 1), text, begin) if covered is None else covered
                if text.count(literal) == covered.count(literal):
                    continue
            if self._at_once[index] and text.count(literal) * _CROWDED > len(text):
                columns.append(self._rows_at_once(index, text, begin))
            else:
                columns.append(self.rows_of(index, text, begin, lines_with(text, literal)))
        return self.finish(np.concatenate(columns, 1), text, begin)

    def last_header(self, block: NDArray[np.uint8], begin: int, end: int) -> NDArray[np.int64] | None:
        """The values of the last header of ``block[begin:end]``."""
        assert self._header is not None
        text = block[begin:end].tobytes()
        header = self._header.nearest(text, 0, len(text))
        return None if header is None else self._header.values([header])[:, 0]

    def rows_of(self, index: int, text: bytes, begin: int, line_starts: Iterable[int]) -> NDArray[np.int64]:
        """All rows of one scan in some lines, without their lines' numbers and their headers."""
        scan = self._scans[index]
        found: list[tuple[int, re.Match[bytes]]] = []
        for low in line_starts:
            high = text.find(b"\n", low)
            for match in scan.format.pattern.finditer(text[low : None if high < 0 else high]):
                found.append((begin + low, match))
                if scan.once:
                    break
        rows = self._rows(index, found)
        rows[3] = [low for low, _ in found]
        return rows

    def _rows_at_once(self, index: int, text: bytes, begin: int) -> NDArray[np.int64]:
        """The same for a whole text that is searched without looking for its lines first."""
        scan = self._scans[index]
        rows = self._rows(index, [(begin, match) for match in scan.format.pattern.finditer(text)])
        line_starts = np.append(0, np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1) + begin
        rows[3] = line_starts[np.searchsorted(line_starts, rows[1], "right") - 1]
        return rows[:, np.unique(rows[3], return_index=True)[1]] if scan.once else rows

    def _rows(self, index: int, found: Sequence[tuple[int, re.Match[bytes]]]) -> NDArray[np.int64]:
        """Rows of matches in texts that begin where is given, without what tells of their lines."""
        rows = np.full((ROW + self.width + self.header_width, len(found)), -1, np.int64)
        if found:
            rows[0] = index
            rows[1:3] = np.array([match.span() for _, match in found]).T + [low for low, _ in found]
            for column, group in enumerate(self._groups[index], ROW):
                rows[column] = _values(found, group)
        return rows

    def finish(self, rows: NDArray[np.int64], text: bytes, begin: int) -> Rows:
        """Put rows in order, leave out those that are covered, and add headers and line numbers."""
        rows = rows[:, np.lexsort((rows[0], rows[1]))]
        rows = rows[:, ~self._covered(rows)]
        if self._header is not None and rows.shape[1]:
            self._add_headers(self._header, rows, text, begin)
        line_ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + begin
        rows[4] = np.searchsorted(line_ends, rows[3])
        return self.to_rows(rows, len(line_ends))

    def to_rows(self, rows: NDArray[np.int64], lines: int) -> Rows:
        """Rows as callers get them."""
        format_, start, end, line_start, line, *_ = rows
        values, header = rows[ROW : ROW + self.width].T, rows[ROW + self.width :].T
        return Rows(format_.astype(np.int8), start, end, line_start, line, values, header, lines)

    def _covered(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Rows of ``uncovered`` formats that start in the text of a match that covers."""
        covers, uncovered = (
            self._is(rows, [getattr(scan, name) for scan in self._scans]) for name in ("covers", "uncovered")
        )
        if not (covers.any() and uncovered.any()):
            return np.zeros(rows.shape[1], bool)
        # Of rows that start at the same byte the later ones cover, too.
        until = np.maximum.accumulate(np.where(covers, rows[2], 0))
        until = until[np.searchsorted(rows[1], rows[1], "right") - 1]
        left_out: NDArray[np.bool_] = uncovered & (rows[1] < until)
        return left_out

    def _covered_text(self, rows: NDArray[np.int64], text: bytes, begin: int) -> bytes:
        """The texts of matches that cover, a line each; nothing where some overlap."""
        start, end = rows[1:3, self._is(rows, [scan.covers for scan in self._scans])] - begin
        order = np.argsort(start)
        start, end = start[order], end[order]
        if (start[1:] < end[:-1]).any():
            return b""
        return b"\n".join([text[low:high] for low, high in zip(start.tolist(), end.tolist(), strict=True)])

    def _is(self, rows: NDArray[np.int64], of_scans: Sequence[bool]) -> NDArray[np.bool_]:
        """Of each row whether something is so of its scan."""
        found: NDArray[np.bool_] = np.array(of_scans, bool)[rows[0]]
        return found

    def _add_headers(self, header: Header, rows: NDArray[np.int64], text: bytes, begin: int) -> None:
        first = ROW + self.width
        at = np.flatnonzero(self._is(rows, [scan.header == "before" for scan in self._scans]))
        spans = (rows[[3, 1]][:, at] - begin).T.tolist()
        rows[first:, at] = header.values([header.before(text[max(low, high - WINDOW) : high]) for low, high in spans])
        at = np.flatnonzero(self._is(rows, [scan.header == "nearest" for scan in self._scans]))
        found: list[re.Match[bytes] | None] = [None]
        low = 0
        for high in (rows[1, at] - begin).tolist():
            found.append(header.nearest(text, low, high) or found[-1])
            low = high
        rows[first:, at] = np.where([match is None for match in found[1:]], -2, header.values(found[1:]))


def _values(found: Sequence[tuple[int, re.Match[bytes]]], group: Group) -> NDArray[np.int64]:
    """The values of one group of matches in lines that start where is given, int64."""
    number = group.number
    if group.conversion is Conversion.TEXT:
        spans = ((low, *match.span(number)) for low, match in found)
        texts = [-1 if a < 0 else low + a | min(b - a, _LONGEST) << 40 for low, a, b in spans]
        return np.array(texts, np.int64)
    return numbers([match[number] for _, match in found], group)
