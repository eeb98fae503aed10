"""Events and lifetimes as tables: columns of whole numbers and of names, in batches of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct

from memlens.analyzers.fates import released_events
from memlens.analyzers.places import all_elapsed_us
from memlens.facts import Kind
from memlens.windows.anchors import text_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.exporting.forms import Wanted


#: Rows that are written at once.
BATCH = 1 << 17
_KINDS = tuple(kind.name for kind in Kind)


class Column(Struct, frozen=True):
    """One column of a table.

    Attributes:
        name: Its name.
        values: Whole numbers, one entry a row; of names the numbers of them.
        unknown: The number that stands for nothing; ``None`` where every row has a value.
        names: The names; ``None`` for a column of numbers.
    """

    name: str
    values: NDArray[Any]
    unknown: int | None = -1
    names: tuple[str, ...] | None = None

    def known(self) -> NDArray[np.bool_]:
        """Which rows have a value, bool."""
        if self.unknown is None:
            return np.ones(len(self.values), np.bool_)
        known: NDArray[np.bool_] = self.values != self.unknown
        return known

    def take(self, rows: Any) -> Column:
        """Some of its rows."""
        return Column(self.name, self.values[rows], self.unknown, self.names)


class Table(Struct, frozen=True):
    """Columns, and which of their entries are its rows.

    Attributes:
        columns: Columns of one length, in the order in which they are written.
        rows: The entries that are its rows, int64; ``None`` for all.
        own: Columns that have an entry a row; they are written first.
    """

    columns: tuple[Column, ...]
    rows: Ints | None = None
    own: tuple[Column, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0].values if self.rows is None else self.rows)

    def batches(self, size: int = BATCH) -> Iterator[tuple[Column, ...]]:
        """The rows in batches; one without rows where there are none."""
        for start in range(0, max(len(self), 1), size):
            here = slice(start, start + size)
            rows = here if self.rows is None else self.rows[here]
            yield (*(column.take(here) for column in self.own), *(column.take(rows) for column in self.columns))


def table_of(wanted: Wanted) -> Table:
    """The table that was asked for."""
    return events_table(wanted) if wanted.table == "events" else lifetimes_table(wanted)


def events_table(wanted: Wanted) -> Table:
    """The events of windows, a row an event, in the order of the log; with a series a column says which window each is in."""
    log, windows = wanted.log, wanted.windows
    columns = [
        Column("event", np.arange(len(log), dtype=np.int64), None),
        Column("kind", log.kind, None, _KINDS),
        Column("size_bytes", log.size, None),
        Column("addr", log.addr, None),
    ]
    if (line := line_numbers(log)) is not None:
        columns.append(Column("line", line, 0))
    columns += _numbers(log, ("time_us", "thread", "stream", "requested_bytes"))
    columns += _named(log, ("owner", "pool", "user_metadata"))
    columns += _device(log, len(log))
    columns.append(Column("offset", log.offset, None))
    if not wanted.given:
        return Table(tuple(columns))
    rows = np.concatenate([np.arange(window.lo, window.hi, dtype=np.int64) for window in windows])
    return Table(tuple(columns), rows, _window_column(wanted, np.array([len(window) for window in windows])))


def lifetimes_table(wanted: Wanted) -> Table:
    """The blocks of windows, a row a block and window, by their ALLOCs."""
    log, windows = wanted.log, wanted.windows
    lives = lives_of_windows(log, [(window.lo, window.hi) for window in windows], whole=not wanted.given)
    alloc, free = lives.alloc, lives.free
    columns = [
        Column("size_bytes", log.size[alloc], None),
        Column("addr", log.addr[alloc], None),
        *_ends(log, lives),
        Column("fate", lives.fate, None, Lives.FATES),
        Column("life_events", lives.life_events(len(log)), None),
    ]
    if log.time_us is not None:
        columns.append(Column("life_us", lives.life_us(log.time_us)))
    columns += [column.take(alloc) for column in _numbers(log, ("requested_bytes", "thread", "stream"))]
    for column in _named(log, ("owner", "pool", "user_metadata")):
        columns.append(column.take(alloc))
        if column.name == "owner":
            columns.append(Column("freed_by", np.where(free >= 0, column.values[free], -1), -1, column.names))
    columns += _device(log, len(alloc))
    return Table(tuple(columns), own=_window_column(wanted, lives.counts))


def _ends(log: EventLog, lives: Lives) -> Iterator[Column]:
    """Where blocks begin and end: events, lines and times."""
    line, time = line_numbers(log), log.time_us
    for name, events in (("alloc", lives.alloc), ("free", lives.free)):
        yield Column(f"{name}_event", events)
        if line is not None:
            yield Column(f"{name}_line", np.where(events >= 0, line[events], 0), 0)
        if time is not None:
            yield Column(f"{name}_time_us", np.where(events >= 0, time[events], -1))


def _numbers(log: EventLog, names: Sequence[str]) -> list[Column]:
    columns = ((name, getattr(log, "requested" if name == "requested_bytes" else name)) for name in names)
    return [Column(name, values) for name, values in columns if values is not None]


def _named(log: EventLog, names: Sequence[str]) -> list[Column]:
    columns = ((name, getattr(log, name), getattr(log, f"{name}_names")) for name in names)
    return [Column(name, values, -1, known) for name, values, known in columns if values is not None]


def _device(log: EventLog, rows: int) -> list[Column]:
    return [] if log.device is None else [Column("device", np.full(rows, log.device, np.int32), None)]


def _window_column(wanted: Wanted, counts: Ints) -> tuple[Column, ...]:
    if not wanted.series:
        return ()
    names = tuple(window.name for window in wanted.windows)
    return (Column("window", np.repeat(np.arange(len(names), dtype=np.int32), counts), None, names),)


def line_numbers(log: EventLog) -> Ints | None:
    """The 1-based line of every event, int64, 0 where it is not known; ``None`` where no line is.

    A text is gone through once more, and its line ends are counted.
    """
    if log.line is not None:
        return log.line
    if log.marks is not None or not log.source.rereadable:
        return None
    lines, before, done = np.zeros(len(log), np.int64), 1, 0
    for offset, block in text_blocks(log):
        ends = np.flatnonzero(block == ord("\n")) + offset
        upto = int(np.searchsorted(log.offset, offset + len(block)))
        lines[done:upto] = before + np.searchsorted(ends, log.offset[done:upto])
        before, done = before + len(ends), upto
    return lines


class Lives(Struct, frozen=True, eq=False):
    """Blocks of one window or of several, those of one after those of another, by their ALLOCs.

    Attributes:
        alloc: The ALLOC of each, int64.
        free: Its FREE, wherever in the log, int64, -1 where there is none.
        fate: The number of its fate in :attr:`FATES`, int8: born and freed in the window; born in it and not freed in it; freed in it and
            born before it.
        counts: How many blocks each window has, int64.
    """

    FATES: ClassVar[tuple[str, ...]] = ("temporary", "held", "released")

    alloc: Ints
    free: Ints
    fate: NDArray[np.int8]
    counts: Ints

    def __len__(self) -> int:
        return len(self.alloc)

    def life_events(self, end: int) -> Ints:
        """Events from each ALLOC to its FREE, or to the end of a log of so many events, int64."""
        return np.where(self.free >= 0, self.free, end) - self.alloc

    def life_us(self, time: Ints) -> Ints:
        """Microseconds between the two by the rules of :func:`memlens.analyzers.places.elapsed_us`, int64, -1 where one is unknown.

        Args:
            time: The time of every event of the log, int64, -1 where unknown.
        """
        return all_elapsed_us(time[self.alloc], np.where(self.free >= 0, time[self.free], -1))


def lives_of_windows(log: EventLog, windows: Sequence[tuple[int, int]], *, whole: bool) -> Lives:
    """The blocks that are born or freed in each of some windows.

    What is live throughout a window, born before it and not freed in it, is no block of it.

    Args:
        log: The log.
        windows: The first event of each window, and the event after its last one.
        whole: They are the whole log, which has the opening blocks that are never freed too: they are held.
    """
    found = [_lives(log, lo, hi, whole=whole) for lo, hi in windows]
    alloc, free, fate = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Lives(alloc, free, fate, np.array([len(part[0]) for part in found], np.int64))


def _lives(log: EventLog, lo: int, hi: int, *, whole: bool) -> tuple[Ints, Ints, NDArray[np.int8]]:
    """The ALLOCs of the blocks of one window, their FREEs and their fates."""
    partner = log.lifetimes.partner
    if not log.facts.addresses:
        none = np.zeros(0, np.int64)
        return none, none, np.zeros(0, np.int8)
    first = 0 if whole else lo
    born = np.flatnonzero(log.kind[first:hi] == Kind.ALLOC) + first
    earlier = np.zeros(0, np.int64) if whole else np.sort(partner[released_events(log, lo, hi)].astype(np.int64))
    earlier = earlier[earlier >= 0]
    alloc = np.concatenate((earlier, born))
    free = partner[alloc].astype(np.int64)
    # 0, 1 and 2: temporary, held, released.
    inside = (free >= 0) & (free < hi)
    fate = np.where(inside, np.where(alloc < lo, 2, 0), 1).astype(np.int8)
    return alloc, free, fate
