"""Everything that is looked for in a log of Paddle, as one list of formats for one scanner; and what it found in a block, by format and by line.

Below: its out-of-memory messages, and the stamps of its lines as times.
"""

from __future__ import annotations

import os
import re
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from memlens.columns import distinct
from memlens.facts import MAX_SIZE, MessageLines, OutOfMemory, RequestLine, RequestLines
from memlens.inputs.builder import Text
from memlens.inputs.input_format import HolderLines
from memlens.inputs.paddle import context, events, message_formats
from memlens.inputs.paddle import other_events as others
from memlens.scanner import Scanner, distinct_texts
from memlens.scanner.expressions import TEXT_LENGTH, TEXT_PLACE
from memlens.scanner.formats import LineFormat
from memlens.scanner.plain import Header, Scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.inputs.blocks import Block
    from memlens.scanner.plain import Rows


_LONGEST_TEXT = 4096
_NONE = np.empty(0, np.int64)
#: The tables of the scanners below; tests/scanner/test_prepared.py makes it.
PREPARED = os.path.join(os.path.dirname(__file__), "scanners.bin")
#: The groups that are read of the header of an event; the last three only where times are wanted.
HEADER_VALUES = ("thread", "year", "date", "time")


#: The formats of events; the number of a format is its index here.
EVENTS = (*events.EVENTS, *others.EVENTS)
#: Lines that tell of the next ALLOC of their thread: of the auto-growth layer, of the stream-safe one, of naive best fit.
OF_NEXT_ALLOC = (events.REQUEST, others.STREAM_REQUEST, others.NAIVE_SIZE)


#: What an out-of-memory message may say: texts, whatever number they are.
_FAILURE_GROUPS = frozenset({"device", "requested", "used", "free", "total", "limit"})
#: Texts whose lines may hold figures: they are read in another way.
_MESSAGES = tuple(
    LineFormat(text.decode(), "message", text, re.escape(text).decode(), {}) for text in message_formats.LITERALS
)
_SCANS = (
    *(Scan(form, "before", covers=form not in others.RARE) for form in EVENTS),
    # Of requests, and of operators, an event has the latest one of its thread; an operator that of the program's lines, maybe of another thread.
    *(Scan(form, "before", latest=group) for group, form in enumerate(OF_NEXT_ALLOC, 2)),
    *(Scan(form, "nearest", latest=0 if form is context.PROGRAM else 1) for form in context.FORMATS),
    *(Scan(form, uncovered=True) for form in (*events.LOOK_ALIKES, *others.LOOK_ALIKES)),
    Scan(others.STREAM_DEFERRED),
    Scan(events.PREALLOC, "before"),
    Scan(context.HOLDER),
    *(Scan(form, once=True) for form in _MESSAGES),
    *(Scan(form, once=True, texts=_FAILURE_GROUPS & form.means.keys()) for form in message_formats.OUT_OF_MEMORY),
)
#: What only a replay needs follows all others; it needs every request, too.
_ALL_SCANS = (
    *(structs.replace(scan, latest=0) if scan.format is events.REQUEST else scan for scan in _SCANS),
    *(Scan(form, "before") for form in events.OF_REPLAYS),
)
#: What is looked for at the least, and with what a replay needs.
SCANS: tuple[tuple[Scan, ...], ...] = (_SCANS, _ALL_SCANS)
_NUMBERS = {scan.format.name: number for number, scan in enumerate(_ALL_SCANS)}


def number_of(form: LineFormat) -> int:
    """The number of a format."""
    return _NUMBERS[form.name]


def _numbers(forms: Sequence[LineFormat]) -> range:
    return range(number_of(forms[0]), number_of(forms[-1]) + 1)


#: Numbers of the formats of context lines; of what looks like an event, of the auto-growth layer and of the others; of lines with figures; of
#: out-of-memory messages.
CONTEXTS = _numbers(context.FORMATS)
ALIKE = _numbers(events.LOOK_ALIKES)
ALIKE_OTHERS = _numbers(others.LOOK_ALIKES)
MESSAGES = _numbers(_MESSAGES)
_FAILURES = _numbers(message_formats.OUT_OF_MEMORY)
#: Those of other layers than auto-growth that tell nothing where these are not read: they are not looked for then.
OF_OTHER_LAYERS = (*map(number_of, OF_NEXT_ALLOC[1:]), *ALIKE_OTHERS[:3])


@lru_cache(maxsize=4)
def scanner(*, times: bool, replays: bool = False) -> Scanner:
    """The scanner for all of it, with the time stamps of the headers or without, and with what only a replay needs."""
    scans = SCANS[replays]
    values = HEADER_VALUES if times else HEADER_VALUES[:1]
    return Scanner(scans, header=events.HEADER, header_values=values, prepared=PREPARED)


@lru_cache(maxsize=1)
def events_scanner() -> Scanner:
    """The scanner for the events of the auto-growth layer alone; their size is the only value."""
    return Scanner([Scan(form, values=("size",)) for form in events.EVENTS])


class BlockRows:
    """The rows of one block.

    Attributes:
        block: The block.
        found: What the scanner found in it.
        columns: Of each format the value columns of its groups, by name.
        counts: How many rows each format has.
        to_input: What makes a byte offset of a position.
    """

    def __init__(self, block: Block, found: Rows, columns: Sequence[Mapping[str, int]]) -> None:
        self.block, self.found, self.columns = block, found, columns
        self.to_input = block.offset - block.begin
        self.counts: list[int] = np.bincount(found.format, minlength=len(_ALL_SCANS)).tolist()

    def of(self, *numbers: int) -> Ints:
        """The rows of some formats, in order."""
        present = [number for number in numbers if self.counts[number]]
        if not present:
            return _NONE
        if sum(self.counts[number] for number in present) == len(self.found.format):
            return np.arange(len(self.found.format))
        order, ends = self._by_format
        parts = [order[ends[number] - self.counts[number] : ends[number]] for number in present]
        return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    @cached_property
    def _by_format(self) -> tuple[Ints, list[int]]:
        """All rows by format, and where those of each format end."""
        return self.found.format.argsort(kind="stable"), np.cumsum(self.counts).tolist()

    def take(self, column: NDArray[Any], rows: Ints) -> NDArray[Any]:
        """The entries of some rows, in order."""
        return column if len(rows) == len(column) else column[rows]

    def values(self, number: int, group: str, rows: Ints | None = None) -> Ints:
        """A group of the rows of a format, or of some of them, in order."""
        found: Ints = self.take(
            self.found.values[:, self.columns[number][group]], self.of(number) if rows is None else rows
        )
        return found

    def sound(self, number: int, size: str = "size") -> Ints:
        """The rows of a format whose size is to be believed."""
        rows = self.of(number)
        return rows[self.values(number, size, rows) <= MAX_SIZE] if len(rows) else rows

    def lines_of(self, rows: Ints) -> Ints:
        """One row for each line that holds some rows, in order."""
        return self.found.first_of_lines(np.sort(rows))

    def texts(self, rows: Ints) -> tuple[Text, ...]:
        """The lines of some rows."""
        places = zip(self.found.line_start[rows].tolist(), self.found.line[rows].tolist(), strict=True)
        return tuple(Text.of(self.block, start, line, _LONGEST_TEXT) for start, line in places)


#: The formats of request lines, by what they are, and the groups that are their values.
_FORMATS = {
    RequestLine.REQUEST: (events.REQUEST, ("requested", "aligned")),
    RequestLine.STREAM_REQUEST: (others.STREAM_REQUEST, ("requested",)),
    RequestLine.SERVED: (events.SERVED, ("size", "free")),
    RequestLine.CHUNK_SIZE: (events.CHUNK_SIZE, ("size",)),
    RequestLine.PREALLOC: (events.PREALLOC, ("pool", "megabytes")),
    RequestLine.PADDED: (events.PADDED, ("extra",)),
    RequestLine.CUSTOM_DEVICE: (events.CUSTOM_DEVICE, ()),
    RequestLine.STRICT: (events.STRICT, ()),
}


def request_lines(rows: BlockRows, event_rows: NDArray[np.int64]) -> RequestLines:
    """The lines of requests in a block, those whose sizes are all to be believed.

    Args:
        rows: What the scanner found.
        event_rows: The rows of the events, int64, rising.
    """
    parts = []
    for what, (form, groups) in _FORMATS.items():
        number = number_of(form)
        at = rows.of(number)
        values = np.zeros((2, len(at)), np.int64)
        for value, group in zip(values, groups, strict=False):
            value[:] = rows.values(number, group, at)
        if what == RequestLine.PREALLOC:
            values[1] <<= 20
        parts.append((at, np.full(len(at), what, np.int8), *values))
    at, kind, first, second = map(np.concatenate, zip(*parts, strict=True))
    order = at.argsort(kind="stable")
    order = order[(first[order] <= MAX_SIZE) & (second[order] <= MAX_SIZE)]
    at = at[order]
    return RequestLines(
        kind[order],
        rows.found.line_start[at] + rows.to_input,
        event_rows.searchsorted(at),
        rows.found.header[at, 0],
        first[order],
        second[order],
    )


def holder_lines(rows: BlockRows, event_rows: Ints) -> HolderLines | None:
    """The lines in a block that name who holds a block of memory, given the rows of its events."""
    number = number_of(context.HOLDER)
    at = rows.of(number)
    if not len(at):
        return None
    texts, name = distinct_texts(rows.block.data, rows.values(number, "holder", at))
    names = tuple(text.decode("utf-8", "replace") for text in texts)
    return HolderLines(event_rows.searchsorted(at), rows.values(number, "addr", at).view(np.uint64), name, names)


# Out-of-memory messages as columns: a run that goes on after each may print as many as there are events.

#: So many messages of a log are looked into: their texts, and what stands above them.
MOST_LOOKED_INTO = 100
#: Bytes of a line that are kept of it, and that are looked at for that from the message on where the line is long.
_SHOWN, _LOOKED_AT = 300, 1200
#: No longer text holds more digits than a number of 64 bits.
_MOST_DIGITS = 18
#: The power of 1,024 that a letter stands for, by its byte.
_POWERS = np.array([max(b"BKMGTP".find(chr(byte).upper().encode()), 0) for byte in range(256)], np.int64)


def messages_of(rows: BlockRows) -> tuple[MessageLines, tuple[str, ...]] | None:
    """The out-of-memory messages of a block, a line each, whose lines count from 0; and the names of their devices.

    Returns:
        ``None`` where there is none.
    """
    if not any(rows.counts[number] for number in _FAILURES):
        return None
    at, number = _rows(rows)
    groups = {name: np.full(len(at), -1, np.int64) for name in _FAILURE_GROUPS}
    for form in distinct(number).tolist():
        mine = number == form
        for name in _FAILURE_GROUPS & rows.columns[form].keys():
            groups[name][mine] = rows.values(form, name, at[mine])
    device = groups.pop("device")
    named = device >= 0
    devices, device[named] = distinct_texts(rows.block.data, device[named])
    size = {name: sizes(rows.block.data, places) for name, places in groups.items()}
    total, used, free, limit = size["total"], size["used"], size["free"], size["limit"]
    total = np.where(total >= 0, total, limit)
    total = np.where((total < 0) & (used >= 0) & (free >= 0), used + free, total)
    lines = MessageLines(
        offset=rows.found.line_start[at] + rows.to_input,
        line=rows.found.line[at],
        device=device.astype(np.int32),
        requested=size["requested"],
        free=free,
        total=total,
        limit=limit,
    )
    return lines, tuple(name.decode() for name in devices)


def first_of(lines: MessageLines, devices: tuple[str, ...], rows: BlockRows, most: int) -> list[OutOfMemory]:
    """The first few of the messages of a block, with their texts."""
    begins = rows.found.start[_rows(rows)[0][:most]].tolist()
    found = []
    for k, begin in enumerate(begins):
        start = lines.offset.item(k) - rows.to_input
        line = Text.of(rows.block, start, 0, max(begin - start, 0) + _LOOKED_AT).text
        shown = line if len(line) <= _SHOWN else line[begin - start :]
        found.append(lines.message(k, devices, shown.decode("utf-8", "replace").strip()[:_SHOWN]))
    return found


def _rows(rows: BlockRows) -> tuple[Ints, Ints]:
    """One row for each line that is a message, in order, and the number of its format: the first one that a line matches counts."""
    at = np.concatenate([rows.of(number) for number in _FAILURES])
    number = rows.found.format[at].astype(np.int64)
    line = rows.found.line[at]
    order = line.argsort(kind="stable")  # formats are in the order in which they count
    first = order[np.append(True, line[order[1:]] != line[order[:-1]])]
    return at[first], number[first]


def sizes(data: NDArray[np.uint8], places: Ints) -> Ints:
    """The bytes that each text says, as :func:`_size` reads it; -1 where there is none.

    Args:
        data: uint8.
        places: Where the texts stand, int64, as :attr:`~memlens.scanner.expressions.Conversion.TEXT` says.
    """
    found = np.full(len(places), -1, np.int64)
    known = places >= 0
    begin, length = places[known] & TEXT_PLACE, places[known] >> TEXT_LENGTH
    number, decimals, power = np.zeros((3, len(begin)), np.int64)
    behind = np.zeros(len(begin), np.bool_)
    for k in range(min(length.max(initial=0), _MOST_DIGITS)):
        byte = np.where(k < length, data[begin + np.minimum(k, length - 1)], 0)
        digit = byte - np.uint8(ord("0"))
        is_digit = digit < 10
        number = np.where(is_digit, 10 * number + digit, number)
        decimals += is_digit & behind
        behind |= byte == ord(".")
        power += _POWERS[byte]
    scale, ten = 1 << 10 * power, 10**decimals
    whole, part = np.divmod(number, ten)
    size, rest = np.divmod(part * scale, ten)
    size += whole * scale
    size += (2 * rest + (size & 1)) > ten  # halves go to the even one
    # What would not fit is read by itself.
    for at in np.flatnonzero((length > _MOST_DIGITS) | ((whole | part) >> (61 - 10 * power) > 0)).tolist():
        size[at] = _size(data[begin[at] : begin[at] + length[at]].tobytes())
    found[known] = size
    return found


def _size(text: bytes) -> int:
    """Bytes of ``98.000244MB``, rounded to the nearest; a bare number is bytes, and -1 stands for more than any 64-bit number holds."""
    number = text.rstrip(b" kKMGTPB")
    whole, _, part = number.partition(b".")
    unit = text[len(number) :].strip()[:1].upper()
    size, rest = divmod(int(whole + part) << 10 * b"BKMGTP".index(unit or b"B"), 10 ** len(part))
    size += (2 * rest, size & 1) > (10 ** len(part), 0)  # halves go to the even one
    return size if size < 1 << 62 else -1


# Time stamps of glog, as microseconds.

#: The year of stamps without one: a leap year, for they may have a 29th of February.
_LEAP_YEAR = 1972


def column_of_times(year: Ints, date: Ints, clock: Ints) -> Ints:
    """Microseconds of glog stamps, int64: since the start of the year, or since 1970 where there is a year; -1 where there is no stamp.

    The clock is the machine's local one; only differences mean something.

    Args:
        year: ``yyyy``, -1 where there is none.
        date: ``mmdd``, -1 where there is no stamp.
        clock: ``hhmmssuuuuuu``, the same.
    """
    # Of most blocks all stamps are of one day.
    if len(date) and (date == date[0]).all() and (year == year[0]).all():
        year, date = year[:1], date[:1]
    month, day = np.divmod(date, 100)
    real = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = np.where(real, 12 * (np.where(year >= 0, year, _LEAP_YEAR) - 1970) + month - 1, 0)
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    days -= np.where(year >= 0, 0, np.datetime64(f"{_LEAP_YEAR}", "D").astype(np.int64))
    # A minute is written as 100 seconds, and an hour as 100 minutes.
    time = clock - clock // 10**8 * 40_000_000 - clock // 10**10 * 2_400_000_000
    return np.where(real, days * 86_400_000_000 + time, -1)


@cache
def _stamp() -> Header:
    return Header.of(events.HEADER, ("year", "date", "time"))


def times_of_lines(lines: Sequence[bytes | None]) -> list[int | None]:
    """When the first event of each line was logged, in microseconds as in :attr:`~memlens.events.EventLog.time_us`; ``None`` where nothing says."""
    headers = []
    for line in lines:
        places = [match.start() for form in EVENTS if line and (match := form.search(line))]
        headers.append(_stamp().before(line[: min(places)]) if line and places else None)
    return [time if time >= 0 else None for time in column_of_times(*_stamp().values(headers)).tolist()]
