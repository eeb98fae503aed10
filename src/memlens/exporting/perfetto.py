"""A trace for Perfetto (https://ui.perfetto.dev): the levels as counters, each block as a slice, steps as slices, peak and failures as instants.

It is Perfetto's own format, a protocol buffer of the message ``Trace``, made of track events
(https://perfetto.dev/docs/reference/synthetic-track-event; the messages are in ``protos/perfetto/trace/`` of Perfetto's source): a quarter of the
size of the JSON that Chrome traces are, made by NumPy, a batch of events at a time, and compressed as the format has it: to three tenths of that.

The wire format is https://protobuf.dev/programming-guides/encoding: a field is a varint of its number and type, then a varint, or a length and so many bytes.
A library for it (``protobuf``) makes an object of each message, which takes a minute for a million events; here many messages of one shape are made at once.

* A block is a slice on a lane of its size class, of which there are as many as blocks of the class are ever live at once.  Lanes of one class
  have one name, and Perfetto shows them as one.  A slice of a block that is never freed, or not in the part that is shown, has no end: its ``dur`` is -1.
* ``allocated`` and ``reserved`` are counters in bytes, with a value at each event that changes them.
* Steps (or the windows asked for) are slices on the track ``windows``.
"""

from __future__ import annotations

import zlib
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.analyzers.peak import peak
from memlens.analyzers.places import rising_us
from memlens.exporting.tables import NO_BLOCKS, Counted, Lives, Wanted, Written, line_numbers, lives_of_windows
from memlens.facts import Kind
from memlens.folding import power_of_two
from memlens.text import clipped, format_bytes, innermost, visible
from memlens.trust.failures import failures_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window


_VARINT, _LENGTH = 0, 2


def varint(value: int) -> bytes:
    """A whole number of at most 64 bits; a negative one as its two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field that is a whole number."""
    return varint(field << 3 | _VARINT) + varint(value)


def message(field: int, *parts: bytes) -> bytes:
    """A field that is a message of some fields, or bytes."""
    inner = b"".join(parts)
    return varint(field << 3 | _LENGTH) + varint(len(inner)) + inner


def text(field: int, value: str) -> bytes:
    """A field that is text; what is no Unicode in it becomes ``?``."""
    return message(field, value.encode("utf-8", "replace"))


class Rows(Struct, frozen=True):
    """A part of many messages: some bytes of each.

    Attributes:
        data: uint8, a row a message.
        size: How many bytes of its row each has, from the left, int64.
    """

    data: NDArray[np.uint8]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.size)

    def tobytes(self) -> bytes:
        """All messages, one after the other."""
        return self.data[np.arange(self.data.shape[1]) < self.size[:, None]].tobytes()

    def only(self, wanted: NDArray[np.bool_]) -> Rows:
        """The same in some messages, and nothing in the others."""
        return Rows(self.data, self.size * wanted)


def numbers(field: int, values: NDArray[np.integer]) -> Rows:
    """A field that is a whole number, in each of many messages."""
    return _joined([_same(varint(field << 3 | _VARINT), len(values)), _varints(values)])


def rows_message(field: int, count: int, *parts: Rows | bytes) -> Rows:
    """A field that is a message, in each of many messages.

    Args:
        field: Its number.
        count: How many messages.
        parts: Its fields; bytes are alike in all.
    """
    inner = _joined([_same(part, count) if isinstance(part, bytes) else part for part in parts])
    return _joined([_same(varint(field << 3 | _LENGTH), count), _varints(inner.size), inner])


def _same(data: bytes, count: int) -> Rows:
    alike = np.broadcast_to(np.frombuffer(data, np.uint8), (count, len(data)))
    return Rows(alike, np.full(count, len(data), np.int64))


def _varints(values: NDArray[np.integer]) -> Rows:
    unsigned = values.astype(np.int64).view(np.uint64) if values.dtype != np.uint64 else values
    most = int(unsigned.max(initial=0))
    width = max(-(-most.bit_length() // 7), 1)
    shifts = np.arange(0, 7 * width, 7, dtype=np.uint64)
    data = (unsigned[:, None] >> shifts & np.uint64(0x7F)).astype(np.uint8)
    # Bytes up to the highest one that is not 0.
    size = 1 + (unsigned[:, None] >> shifts[1:] != 0).sum(axis=1, dtype=np.int64)
    data[np.arange(width) < size[:, None] - 1] |= 0x80
    return Rows(data, size)


def _joined(parts: list[Rows]) -> Rows:
    """The bytes of several parts, one after the other in each message."""
    width = sum(part.data.shape[1] for part in parts)
    mask = np.concatenate([np.arange(part.data.shape[1]) < part.size[:, None] for part in parts], axis=1)
    data = np.concatenate([part.data for part in parts], axis=1)
    size = np.add.reduce([part.size for part in parts])
    if bool((size == width).all()):
        return Rows(data, size)
    # To the left, in their order.
    left = np.zeros((len(size), int(size.max(initial=0))), np.uint8)
    left[np.arange(left.shape[1]) < size[:, None]] = data[mask]
    return Rows(left, size)


# Fields of TracePacket.
_TIMESTAMP, _SEQUENCE, _EVENT, _INTERNED, _FLAGS, _COMPRESSED, _TRACK = 8, 10, 11, 12, 13, 50, 60
# Fields of TrackEvent, and what its type may be.
_ANNOTATION, _TYPE, _NAME_IID, _TRACK_UUID, _NAME, _COUNTER_VALUE = 4, 9, 10, 11, 23, 30
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
# Fields of DebugAnnotation.
_ARGUMENT_IID, _ARGUMENT_INT, _ARGUMENT_TEXT, _ARGUMENT_NAME, _ARGUMENT_TEXT_IID = 1, 4, 6, 10, 17
# Fields of InternedData.
_NAMES, _ARGUMENT_NAMES, _TEXTS = 2, 3, 29
# Fields of TrackDescriptor; a counter's unit is bytes, and the order of its children is the one of their ranks.
_UUID, _TRACK_NAME, _PARENT, _COUNTER_OF, _ORDER, _RANK = 1, 2, 5, 8, 11, 12
_BYTES, _EXPLICIT = number(3, 3), 3
#: Tracks by their uuids; those of blocks follow.
_ROOT, _ALLOCATED, _RESERVED, _WINDOWS, _MOMENTS, _FIRST_OF_BLOCKS = 1, 2, 3, 4, 5, 16
#: What all packets of ours are of, and that they need the names at the beginning.
_OURS = number(_SEQUENCE, 1)
_CLEARED, _NEEDS_NAMES = number(_FLAGS, 1), number(_FLAGS, 2)
#: Arguments of a slice, by their numbers from 1, each with the column that it is.
_ARGUMENTS = {
    "size_bytes": "size_bytes",
    "line": "alloc_line",
    **{name: name for name in ("free_line", "owner", "fate", "requested_bytes", "thread", "stream", "pool")},
}
_BATCH = 1 << 16


class Axis(NamedTuple):
    """Where the events of a log, or of a part of it, stand on the axis.

    Attributes:
        ns: Nanoseconds, from 0, one entry an event, rising, int64.
        words: What the axis is.
    """

    ns: Ints
    words: str


def axis(log: EventLog, lo: int, hi: int) -> Axis:
    """The axis of events ``lo … hi-1``.

    Events stand in the order of the log, each at a time of its own: one whose time is not later than that of the event before comes a nanosecond
    after that.  An event without a time stands where the one before it does.
    """
    count = np.arange(hi - lo, dtype=np.int64)
    time = None if log.time_us is None else rising_us(log.time_us[lo:hi])
    if time is None:
        return Axis(count * 1000, "event numbers, 1 µs an event, for no event in it has a time")
    ns = np.maximum.accumulate((time - time[0]) * 1000 - count) + count
    return Axis(ns, "the log's times, from the first event on")


def write_perfetto(wanted: Wanted, out: Counted) -> Written:
    """Write a trace of a log, or of its windows from the first to the last."""
    log, windows = wanted.log, wanted.windows
    lo, hi = (windows[0].lo, windows[-1].hi) if wanted.given else (0, len(log))
    times = axis(log, lo, hi)
    lives = lives_of_windows(log, [(lo, hi)], whole=not wanted.given)
    blocks = _Blocks(log, lives, times, lo, hi)
    # In any order but that names come before what uses them: a trace is sorted by time when it is opened.
    names, levels = (_head(log, times), blocks.head()), _counters(log, times, lo, hi)
    for part in chain(*names, _moments(wanted, times, lo, hi), levels, blocks.slices()):
        out.write(message(1, message(_COMPRESSED, zlib.compress(part, 1))))
    return Written(len(lives), (f"the time axis is {times.words}", *([] if log.facts.addresses else [NO_BLOCKS])))


def _packet(*parts: bytes) -> bytes:
    return message(1, _OURS, *parts)


def _track(uuid: int, name: str, rank: int, *more: bytes) -> bytes:
    fields = (number(_UUID, uuid), text(_TRACK_NAME, name), number(_PARENT, _ROOT), number(_RANK, rank), *more)
    return _packet(message(_TRACK, *fields))


def _head(log: EventLog, times: Axis) -> Iterator[bytes]:
    """The tracks but for those of blocks."""
    name = f"memlens: {visible(PurePath(log.source.name).name)} (time axis: {times.words})"
    root = number(_UUID, _ROOT), text(_TRACK_NAME, name), number(_ORDER, _EXPLICIT)
    yield _packet(_CLEARED, message(_TRACK, *root))
    yield _track(_ALLOCATED, "allocated", 0, message(_COUNTER_OF, _BYTES))
    if log.tells_of_chunks:
        yield _track(_RESERVED, "reserved", 1, message(_COUNTER_OF, _BYTES))
    yield _track(_WINDOWS, "windows", 2)
    yield _track(_MOMENTS, "peak and failures", 3)


def _counters(log: EventLog, times: Axis, lo: int, hi: int) -> Iterator[bytes]:
    """The levels at the beginning and after each event that changes them."""
    for track, level in zip((_ALLOCATED, _RESERVED), log.level_before(lo), strict=True):
        if track == _ALLOCATED or log.tells_of_chunks:
            event = number(_TYPE, _COUNTER), number(_TRACK_UUID, track), number(_COUNTER_VALUE, level)
            yield _packet(number(_TIMESTAMP, 0), message(_EVENT, *event))
    for batch in log.batches(lo, hi, size=_BATCH):
        of_blocks = batch.kind <= Kind.FREE
        known = (_ALLOCATED, of_blocks, batch.allocated), (_RESERVED, ~of_blocks, batch.reserved)
        for track, changes, levels in known:
            at = np.flatnonzero(changes)
            if len(at):
                change = number(_TYPE, _COUNTER), number(_TRACK_UUID, track), numbers(_COUNTER_VALUE, levels[at])
                yield _packets(times.ns[batch.lo - lo + at], *change)


def _packets(ns: Ints, *event: Rows | bytes, flags: bytes = b"") -> bytes:
    """Packets of one track event each."""
    count = len(ns)
    inner = rows_message(_EVENT, count, *event)
    return rows_message(1, count, numbers(_TIMESTAMP, ns), _OURS + flags, inner).tobytes()


def lanes(alloc: Ints, free: Ints, group: Ints) -> Ints:
    """The lane of each block among those of its group, from 0: that of the block freed longest ago, or a further one where all are taken.

    Args:
        alloc: Where each begins, no two at one place, int64.
        free: Where it ends, -1 where it does not.
        group: Its group, not negative.
    """
    freed = np.flatnonzero(free >= 0)
    block, step = np.append(np.arange(len(alloc)), freed), np.repeat([1, -1], [len(alloc), len(freed)])
    order = np.lexsort((np.append(alloc, free[freed]), group[block]))
    block, step = block[order], step[order]
    begins = np.flatnonzero(np.diff(group[block], prepend=-1))
    of_group = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(block))))
    live = np.cumsum(step)
    live -= np.append(0, live)[begins][of_group]
    apart = of_group * (len(alloc) + 1)
    taken = np.maximum.accumulate(live + apart) - apart
    before = np.append(0, taken)[:-1]
    before[begins] = 0
    opens = (step > 0) & (live > before)
    lane, came_from = np.zeros(len(alloc), np.int64), np.arange(len(alloc))
    lane[block[opens]] = before[opens]
    # In each group the n-th block that finds a lane takes that of the n-th one that is freed.
    takes, gives = np.flatnonzero((step > 0) & ~opens), np.flatnonzero(step < 0)
    first, start = (of_group[some].searchsorted(np.arange(len(begins))) for some in (takes, gives))
    nth = np.arange(len(takes)) - first[of_group[takes]]
    came_from[block[takes]] = block[gives[start[of_group[takes]] + nth]]
    while not np.array_equal(further := came_from[came_from], came_from):
        came_from = further
    found: Ints = lane[came_from]
    return found


class _Blocks:
    """The slices of blocks.

    Args:
        log: The log.
        lives: The blocks.
        times: The axis of its events from ``lo`` to before ``hi``.
        lo: The first event that is shown.
        hi: The event after the last one.
    """

    def __init__(self, log: EventLog, lives: Lives, times: Axis, lo: int, hi: int) -> None:
        self._log, self._lives, self._ns, self._lo, self._hi = log, lives, times.ns, lo, hi
        self._line = line_numbers(log)
        size = log.size[lives.alloc]
        # The power of two up to the size; and tracks by lane and class.
        self._class = power_of_two(np.maximum(size, 1)) - 1
        lane = lanes(lives.alloc, np.where(lives.free < hi, lives.free, -1), self._class)
        self._tracks, track = np.unique(lane * 64 + self._class, return_inverse=True)
        self._uuid = track.reshape(-1) + _FIRST_OF_BLOCKS
        owners = len(log.owner_names) + 1
        sizes, number_of = np.unique(size, return_inverse=True)
        owner = np.full(len(size), -1) if log.owner is None else log.owner[lives.alloc].astype(np.int64)
        pairs, name = np.unique(number_of.reshape(-1) * owners + owner + 1, return_inverse=True)
        self._name = name.reshape(-1) + 1
        labels = ["", *(f" {visible(clipped(innermost(one)))}" for one in log.owner_names)]
        self._names = [f"{format_bytes(int(sizes[pair // owners]))}{labels[pair % owners]}" for pair in pairs.tolist()]
        #: Texts of arguments, and the number of the first one of each.
        self._texts = (*Lives.FATES, *map(visible, log.owner_names), *map(visible, log.pool_names))
        first = 1 + len(Lives.FATES)
        self._first_text = {"fate": 1, "owner": first, "pool": first + len(log.owner_names)}

    def head(self) -> Iterator[bytes]:
        """The tracks, and the names that the slices use."""
        for start in range(0, len(self._tracks), _BATCH):
            tracks = self._tracks[start : start + _BATCH]
            uuid = np.arange(start, start + len(tracks), dtype=np.int64) + _FIRST_OF_BLOCKS
            for power in np.unique(tracks % 64).tolist():
                own = uuid[tracks % 64 == power]
                name = text(_TRACK_NAME, f"blocks from {format_bytes(1 << power)}")
                fields = number(_PARENT, _ROOT) + number(_RANK, 80 - power)
                track = rows_message(_TRACK, len(own), numbers(_UUID, own), name + fields)
                yield rows_message(1, len(own), _OURS, track).tobytes()
        for field, names in ((_NAMES, self._names), (_ARGUMENT_NAMES, tuple(_ARGUMENTS)), (_TEXTS, self._texts)):
            for start in range(0, len(names), 1000):
                listed = enumerate(names[start : start + 1000], start + 1)
                entries = (message(field, number(1, iid), text(2, name)) for iid, name in listed)
                yield _packet(_NEEDS_NAMES, message(_INTERNED, *entries))

    def slices(self) -> Iterator[bytes]:
        """The beginnings and the ends, in batches."""
        alloc, free = self._lives.alloc, self._lives.free
        for start in range(0, len(alloc), _BATCH):
            yield self._begins(np.arange(start, min(start + _BATCH, len(alloc))))
        ending = np.flatnonzero((free >= 0) & (free < self._hi))
        for start in range(0, len(ending), _BATCH):
            rows = ending[start : start + _BATCH]
            event = number(_TYPE, _END), numbers(_TRACK_UUID, self._uuid[rows])
            yield _packets(self._ns[free[rows] - self._lo], *event)

    def _begins(self, rows: Ints) -> bytes:
        columns = {column.name: column for column in self._lives.columns(self._log, self._line, rows)}
        fields: list[Rows | bytes] = [number(_TYPE, _BEGIN), numbers(_TRACK_UUID, self._uuid[rows])]
        fields.append(numbers(_NAME_IID, self._name[rows]))
        for argument, name in enumerate(_ARGUMENTS.values(), 1):
            if (column := columns.get(name)) is not None and (known := column.known()).any():
                field = _ARGUMENT_INT if column.names is None else _ARGUMENT_TEXT_IID
                values = np.where(known, column.values, 0).astype(np.int64) + self._first_text.get(name, 0)
                annotation = rows_message(
                    _ANNOTATION, len(rows), number(_ARGUMENT_IID, argument), numbers(field, values)
                )
                fields.append(annotation.only(known))
        # What was there before begins with the trace.
        begins = self._ns[np.maximum(self._lives.alloc[rows] - self._lo, 0)]
        return _packets(begins, *fields, flags=_NEEDS_NAMES)


def _moments(wanted: Wanted, times: Axis, lo: int, hi: int) -> Iterator[bytes]:
    """Windows, the peak and failures."""
    log = wanted.log
    if not len(times.ns):
        return

    def moment(track: int, kind: int, at: int, name: str = "", *arguments: tuple[str, int | str | None]) -> bytes:
        """A beginning, an end or an instant on a track at an event, with its annotations."""
        ns = int(times.ns[at - lo]) if at < hi else int(times.ns[-1]) + 1000
        fields = [number(_TYPE, kind), number(_TRACK_UUID, track)]
        if name:
            fields.append(text(_NAME, visible(name)))
        for known, value in arguments:
            if value is not None:
                given = number(_ARGUMENT_INT, value) if isinstance(value, int) else text(_ARGUMENT_TEXT, visible(value))
                fields.append(message(_ANNOTATION, text(_ARGUMENT_NAME, known), given))
        return _packet(number(_TIMESTAMP, ns), message(_EVENT, *fields))

    windows: Sequence[Window] = wanted.windows
    if not wanted.given:
        from memlens.windows.anchor_discovery import find_steps

        found = find_steps(log)
        windows = () if found is None else found.windows
    for window in windows:
        lines = ("start_line", window.start_line), ("end_line", window.end_line)
        yield moment(_WINDOWS, _BEGIN, window.lo, window.name, *lines)
        yield moment(_WINDOWS, _END, window.hi)
    window, highest = max(zip(wanted.windows, peak(wanted.windows), strict=True), key=lambda one: one[1].peak_bytes)
    if log.tells_of_blocks:
        name = f"peak: {format_bytes(highest.peak_bytes)} allocated"
        at = window.lo if highest.event is None else highest.event
        yield moment(_MOMENTS, _INSTANT, at, name, ("peak_bytes", highest.peak_bytes), ("line", highest.line))
    for failure in failures_of(log):
        if wanted.windows[0].start_offset <= failure.offset < wanted.windows[-1].end_offset:
            # At the last event before it, as in all pictures: the levels there are those that it met.
            event = max(int(np.searchsorted(log.offset, failure.offset)) - 1, lo)
            size = failure.asked_bytes
            name = "out of memory" if size is None else f"out of memory: {format_bytes(size)} asked for"
            known = ("requested_bytes", size), ("line", failure.line), ("text", failure.text)
            yield moment(_MOMENTS, _INSTANT, event, name, *known)
