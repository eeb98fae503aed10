"""One scanner for every input: blocks of text in, rows of numbers out; and lines and texts of blocks.

Tables of scanners may be made beforehand and stand in a file: to make those of a framework's formats takes a quarter of the time that a small
log takes, to read them a hundredth.  A test holds the file and the formats equal.
"""

from __future__ import annotations

import gc
import os
import zlib
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Raw, Struct, msgpack

from memlens import native
from memlens.columns import mix
from memlens.scanner.expressions import TEXT_LENGTH, TEXT_PLACE, Group
from memlens.scanner.plain import ROW, Header, PlainScanner, Rows, Scan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.scanner.formats import LineFormat


# As in _scan.c: what is kept between calls, and what is left to do after them.
_POSITION, _NUMBER, _START, _ROWS, _ODD, _LOOKED, _STATE = 0, 1, 2, 3, 4, 6, 8
_ODD_ORDER, _ODD_LINE, _ODD_HEADER = 1, 2, 4
#: Of the packed searches the one that is fastest on this machine.
_FASTEST = -1
_NOWHERE = (1 << 63) - 1  # where a format is looked for next that is not looked for
_MOST_FORMATS = 127  # of a column of int8
#: Room for rows that is made at first, and at most before more is needed: numbers of 8 bytes.
_ROOM, _MOST_ROOM = 1 << 16, 1 << 20


#: Bytes looked at at once: they stay in the second-level cache while several passes go over them.
PIECE = 1 << 19

_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)], np.uint64)
#: Which texts share a word of 64 bits is chance, so that no log can be made up in which they do.
_SEED = np.uint64(int.from_bytes(os.urandom(8), "little"))


class Prepared(Struct, frozen=True, array_like=True):
    """The groups and tables of one scanner.

    Attributes:
        groups: Of each scan the groups in the order of the value columns.
        modes: How each format is looked for (:class:`~memlens.scanner.tables.Mode`).
        tables: The tables of the compiled scanner; empty where it cannot be used.
        header: The groups of the header, and the byte that it ends with (:class:`~memlens.scanner.plain.Header`).
    """

    groups: tuple[tuple[Group, ...], ...]
    modes: tuple[int, ...]
    tables: bytes
    header: tuple[tuple[Group, ...], bytes | None] = ((), None)


def checksum(scans: Sequence[Scan], header: LineFormat | None, header_values: Sequence[str]) -> int:
    """A number that tells what is looked for from anything else that a file may have been made for."""
    looked_for = [
        (
            one.format.literal,
            one.format.regex,
            one.header,
            one.covers,
            one.uncovered,
            one.once,
            one.values,
            sorted(one.texts),
            one.latest,
        )
        for one in scans
    ]
    return zlib.crc32(repr((looked_for, header and header.regex, tuple(header_values))).encode())


def prepared_scanner(path: str, number: int) -> Prepared | None:
    """The scanner of a checksum, from a file; ``None`` where it has none."""
    raw = _scanners_in(path).get(number)
    return None if raw is None else msgpack.decode(raw, type=Prepared)


@cache
def _scanners_in(path: str) -> dict[int, Raw]:
    try:
        with open(path, "rb") as file:
            return msgpack.decode(zlib.decompress(file.read()), type=dict[int, Raw])
    except OSError:
        return {}


def packed(scanners: Mapping[int, Prepared]) -> bytes:
    """The content of a file."""
    return zlib.compress(msgpack.encode(scanners), 9)


class Scanner:
    r"""Finds all matches of some formats in text.

    What it finds is what ``re`` finds: of every line (lines end at ``\n``, a ``\r`` is part of its line) that holds the literal of a
    format all matches of its expression, left to right, not overlapping within one format.  Formats do not hide each other, but
    for :attr:`Scan.covers`.  Threads may share a scanner.

    Args:
        scans: What to look for.
        header: What may stand right before a match.  It must end where the match starts; it is looked for in the 400 bytes of the line
            before, colours taken out.
        header_values: The groups wanted of the header, in the order of the columns; numbers, no text.
        prepared: A file that may have its tables (:func:`packed`).

    Attributes:
        groups: Of each scan the groups in the order of the value columns.
        columns: Of each scan the value columns by the names of the groups.

    Raises:
        ValueError: A format may match the empty text, its literal holds a line end, or it has no group of a name wanted.
    """

    def __init__(
        self,
        scans: Sequence[Scan | LineFormat],
        *,
        header: LineFormat | None = None,
        header_values: Sequence[str] = (),
        prepared: str = "",
    ) -> None:
        self._scans = tuple(scan if isinstance(scan, Scan) else Scan(scan) for scan in scans)
        if len(self._scans) > _MOST_FORMATS:
            raise ValueError(f"a scanner looks for {_MOST_FORMATS} formats at most, not {len(self._scans)}")
        made = prepared_scanner(prepared, checksum(self._scans, header, header_values)) if prepared else None
        if made is None:
            from memlens.scanner.tables import prepare

            made = prepare(self._scans, None if header is None else Header.of(header, header_values))
        self._header = None if header is None else Header(header, *made.header)
        if any(scan.header == "nearest" for scan in self._scans):
            self._with_last_byte()
        self.groups = made.groups
        self.columns = [{group.name: column for column, group in enumerate(groups)} for groups in made.groups]
        self._room = _ROOM
        self._plain = PlainScanner(self._scans, self.groups, self._header)
        self._compiled = native.load("memlens.scanner._scan") if made.tables else None
        if self._compiled is not None:
            self._tables = np.frombuffer(made.tables, np.uint8).copy()  # NumPy aligns what it allocates
            self._search = _FASTEST
        # The compiled scanner goes over a line from left to right, but for formats that it tries at all places of a line.
        self._to_finish = any(
            mode and (scan.covers or scan.uncovered) for mode, scan in zip(made.modes, self._scans, strict=True)
        )

    def scan(self, block: NDArray[np.uint8], begin: int, end: int, without: Collection[int] = ()) -> Rows:
        """All rows of ``block[begin:end]``, which is whole lines; the last one may lack its line end.

        Formats of the numbers in ``without`` are not looked for.
        """
        if self._compiled is None:
            with no_collection():
                return self._plain.scan(block, begin, end, without)
        columns = ROW + self._plain.width + self._plain.header_width
        state, buffer = self._state(begin), np.empty(self._room, np.int64)
        for number in without:
            state[_STATE + self._plain.header_width + number] = _NOWHERE
        while not self._call(self._compiled.scan, block, state, buffer, begin, end):
            full, buffer = buffer, np.empty(2 * len(buffer), np.int64)
            count = int(state[_ROWS])
            _in_columns(buffer, columns)[:, :count] = _in_columns(full, columns)[:, :count]
            self._room = min(len(buffer), _MOST_ROOM)
        rows = _in_columns(buffer, columns)[:, : state[_ROWS]]
        flags = int(state[_ODD])
        if flags & (_ODD_LINE | _ODD_HEADER) or (self._to_finish and rows.shape[1]):
            return self._finish(rows, block, begin, end)
        if flags & _ODD_ORDER:
            rows = rows[:, np.lexsort((rows[0], rows[1]))]
        return self._plain.to_rows(rows, int(state[_NUMBER]))

    def last_header(self, block: NDArray[np.uint8], begin: int, end: int) -> NDArray[np.int64] | None:
        """The values of the last header that ends in ``block[begin:end]``, trailing blanks not counted; ``None`` without one."""
        self._with_last_byte()
        if self._compiled is not None:
            state = self._state(begin)
            found = self._call(self._compiled.last_header, block, state, np.empty(0, np.int64), begin, end)
            if found >= 0:
                return state[_STATE : _STATE + self._plain.header_width] if found else None
        return self._plain.last_header(block, begin, end)

    def _call(
        self, function: Callable[..., None], block: NDArray[np.uint8], state: Ints, rows: Ints, begin: int, end: int
    ) -> int:
        """What a compiled function says of ``block[begin:end]``; it goes on where the state says, and adds rows."""
        numbers = np.array([begin, end, self._search, 0])
        function(block, self._tables, state, rows, numbers)
        return int(numbers[3])

    def _with_last_byte(self) -> None:
        if self._header is None or self._header.last is None:
            raise ValueError("headers are looked for from behind by the byte that they end with, and none is known")

    def _state(self, begin: int) -> NDArray[np.int64]:
        """The state that the compiled scanner keeps between its calls for one block, int64, as ``_scan.c`` lays it out."""
        state = np.zeros(_STATE + self._plain.header_width + 2 * len(self._scans), np.int64)
        state[[_POSITION, _START, _LOOKED]] = begin
        return state

    def _finish(self, rows: NDArray[np.int64], block: NDArray[np.uint8], begin: int, end: int) -> Rows:
        """Let ``re`` read the lines that are left to it, and put everything in order."""
        text = block[begin:end].tobytes()
        left = rows[2] < 0
        parts = [rows]
        for index in np.unique(rows[0, left]).tolist():
            lines = rows[3, left & (rows[0] == index)]
            left |= (rows[0] == index) & np.isin(rows[3], lines)
            parts.append(self._plain.rows_of(index, text, begin, (lines - begin).tolist()))
        parts[0] = rows[:, ~left]
        return self._plain.finish(np.concatenate(parts, 1), text, begin)


@contextmanager
def no_collection() -> Iterator[None]:
    """Without the search for cycles of objects: thousands of matches, say, have none, and it would go over them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _in_columns(buffer: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    """The rows in a buffer, a view of shape (columns, rows)."""
    capacity = len(buffer) // columns
    return buffer[: columns * capacity].reshape(columns, capacity)


# Lines and texts of blocks: how many lines there are, where to cut between them, and which of some texts are alike.


def line_start_before(block: NDArray[np.uint8], begin: int, end: int) -> int:
    """The position after the last line end in ``begin … end``, or 0."""
    step = 1024
    while begin < end:
        low = max(end - step, begin)
        at = block[low:end].tobytes().rfind(b"\n")
        if at >= 0:
            return low + at + 1
        end = low
        step *= 4
    return 0


def count_lines(block: NDArray[np.uint8]) -> int:
    """Line ends in a block."""
    return sum(
        int(np.count_nonzero(block[begin : begin + PIECE] == ord("\n"))) for begin in range(0, len(block), PIECE)
    )


def distinct_texts(block: NDArray[np.uint8], texts: NDArray[np.int64]) -> tuple[list[bytes], NDArray[np.int64]]:
    """The different ones of some texts, in no order, and which of them each is, int64.

    Args:
        block: uint8, at least seven bytes longer than the texts need.
        texts: Where they stand, int64, as :attr:`~memlens.scanner.expressions.Conversion.TEXT` says.
    """
    start, length = texts & TEXT_PLACE, texts >> TEXT_LENGTH
    windows = np.ndarray((len(block) - 7,), "<u8", block, 0, (1,))
    keys = length.view(np.uint64) ^ _SEED
    rows = np.arange(len(texts))
    done = 0
    while len(rows):
        left = length[rows] - done
        word = windows[start[rows] + done]
        keys[rows] = mix(keys[rows] ^ np.where(left < 8, word & _MASKS[np.minimum(left, 7)], word))
        rows, done = rows[left > 8], done + 8
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    places = zip(start[first].tolist(), length[first].tolist(), strict=True)
    return [block[at : at + size].tobytes() for at, size in places], index.reshape(-1)
