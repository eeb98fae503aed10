"""Events and lifetimes as tables: columns of whole numbers and of names, a batch of rows at a time; and the tables as CSV, as JSON lines and as Parquet.

Other forms show the same columns.  Events of a whole log as Parquet are read again by :mod:`memlens.inputs.parquet`.  The texts are made column by column and put
together by compiled code.  Names are log text: in CSV they are made harmless for terminals and spreadsheets (:func:`memlens.reports.machine.cell`), in JSON they are
exact, with every character beyond ASCII escaped.
"""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from memlens.analyzers.composition import Roles
from memlens.analyzers.fates import released_events
from memlens.analyzers.places import elapsed_us
from memlens.claims.roles import ROLES
from memlens.facts import Kind
from memlens.inputs.parquet.metadata import KEY, metadata_of
from memlens.reports.machine import cell
from memlens.windows.anchors import text_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window


#: Rows that are written at once, and in a group of Parquet, where names are written once a group.
_BATCH, _GROUP = 1 << 17, 1 << 20
#: Bytes of names that are kept as such in Parquet; of more, each row has its own.
_MOST_NAMES = 1 << 26
#: Columns whose values mostly rise, which differences pack best, and those whose values come again and again, as names do.
_RISING = ("event", "line", "offset", "time_us", "alloc_event", "alloc_line", "alloc_time_us")
_KINDS = tuple(kind.name for kind in Kind)
#: What is said of a profile or a trace of a log that tells of no single block.
NO_BLOCKS = "this log does not say which block a line is about, so that nothing is said of blocks"


class Wanted(NamedTuple):
    """A log to be written, and how.

    Attributes:
        log: The log.
        windows: The windows of it that were asked for, one or a series; the whole log where none was.
        table: ``events`` or ``lifetimes``.
        given: Windows were asked for.
        series: … and they are a series.
    """

    log: EventLog
    windows: Sequence[Window]
    table: str = "events"
    given: bool = False
    series: bool = False


class Written(NamedTuple):
    """Rows that a writer wrote; see :class:`~memlens.exporting.export.Exported`."""

    rows: int
    remarks: tuple[str, ...] = ()


class Counted:
    """An output that knows how far it is written, also where the system cannot tell, as of a pipe.

    Args:
        out: Where to write.
    """

    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._written = 0

    def write(self, data: bytes) -> int:
        """Write all of some bytes."""
        view = memoryview(data).cast("B")
        self._out.write(view)
        self._written += len(view)
        return len(view)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._written

    def flush(self) -> None:
        """Nothing waits here."""


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


class Table(NamedTuple):
    """A table.

    Attributes:
        rows: How many rows it has.
        columns: Gives the columns of some neighbouring rows.
    """

    rows: int
    columns: Callable[[slice], list[Column]]

    def batches(self, size: int = _BATCH) -> Iterator[list[Column]]:
        """The rows in batches; one without rows where there are none."""
        for start in range(0, max(self.rows, 1), size):
            yield self.columns(slice(start, min(start + size, self.rows)))


def table_of(wanted: Wanted) -> Table:
    """The table that was asked for: events, in the order of the log, or the blocks of windows, by their ALLOCs.

    With a series the first column says which window each row is in.
    """
    log, windows, line, role = wanted.log, wanted.windows, line_numbers(wanted.log), Roles(wanted.log).of_event
    if wanted.table == "events":
        counts = np.array([len(window) for window in windows])
        parts = [np.arange(window.lo, window.hi, dtype=np.int64) for window in windows]
        events = np.concatenate(parts) if wanted.given else np.arange(len(log), dtype=np.int64)
        rows = len(events)
    else:
        lives = lives_of_windows(log, [(window.lo, window.hi) for window in windows], whole=not wanted.given)
        counts, rows = lives.counts, len(lives)
    own = []
    if wanted.series:
        number = np.repeat(np.arange(len(windows), dtype=np.int32), counts)
        own.append(Column("window", number, None, tuple(window.name for window in windows)))

    def columns(part: slice) -> list[Column]:
        alloc = events[part] if wanted.table == "events" else lives.alloc[part]
        found = event_columns(log, line, alloc) if wanted.table == "events" else lives.columns(log, line, part)
        roles = (
            [] if role is None else [Column("role", np.where(role[alloc] < len(ROLES), role[alloc], -1), -1, (*ROLES,))]
        )
        return [*(Column(one.name, one.values[part], one.unknown, one.names) for one in own), *found, *roles]

    return Table(rows, columns)


def event_columns(log: EventLog, line: Ints | None, at: Ints) -> Iterator[Column]:
    """The columns of some events, whose lines may be known."""
    yield Column("event", at, None)
    yield Column("kind", log.kind[at], None, _KINDS)
    yield Column("size_bytes", log.size[at], None)
    yield Column("addr", log.addr[at], None)
    if line is not None:
        yield Column("line", line[at], 0)
    yield from _numbers(log, at, ("time_us", "thread", "stream", "requested"))
    yield from _named(log, at)
    yield Column("offset", log.offset[at], None)


def _numbers(log: EventLog, at: Ints, names: Sequence[str]) -> Iterator[Column]:
    for name in names:
        if (values := getattr(log, name)) is not None:
            yield Column("requested_bytes" if name == "requested" else name, values[at])


def _named(log: EventLog, at: Ints, free: Ints | None = None) -> Iterator[Column]:
    """Owners, those of FREEs too, holders, pools, what users noted, and the device."""
    for name in ("owner", "holder", "pool", "user_metadata"):
        if (values := getattr(log, name)) is not None:
            names = getattr(log, f"{name}_names")
            yield Column(name, values[at], -1, names)
            if name == "owner" and free is not None:
                yield Column("freed_by", np.where(free >= 0, values[free], -1), -1, names)
    if log.device is not None:
        yield Column("device", np.full(len(at), log.device, np.int32), None)


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

    def columns(self, log: EventLog, line: Ints | None, part: slice | Ints) -> Iterator[Column]:
        """The columns of some of the blocks; the lines of all events may be known."""
        alloc, free = self.alloc[part], self.free[part]
        yield Column("size_bytes", log.size[alloc], None)
        yield Column("addr", log.addr[alloc], None)
        for name, events in (("alloc", alloc), ("free", free)):
            yield Column(f"{name}_event", events)
            if line is not None:
                yield Column(f"{name}_line", np.where(events >= 0, line[events], 0), 0)
            if log.time_us is not None:
                yield Column(f"{name}_time_us", np.where(events >= 0, log.time_us[events], -1))
        yield Column("fate", self.fate[part], None, self.FATES)
        # What was there before the input begins right before its first event.
        born = np.maximum(alloc, log.facts.opening - 1)
        yield Column("life_events", np.where(free >= 0, free, len(log)) - born, None)
        if log.time_us is not None:
            ends = log.time_us[alloc], np.where(free >= 0, log.time_us[free], -1)
            yield Column("life_us", elapsed_us(*ends))
        yield from _numbers(log, alloc, ("requested", "thread", "stream"))
        yield from _named(log, alloc, free)


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


def write_csv(wanted: Wanted, out: Counted) -> Written:
    """Write a table as CSV: a heading, a row a line; what is not known is empty."""
    table = table_of(wanted)
    names: dict[str, Any] = {}
    for number, columns in enumerate(table.batches()):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not number:
            writer.writerow([column.name for column in columns])
        writer.writerows(zip(*(_values(column, names, cell, "") for column in columns), strict=True))
        out.write(text.getvalue().encode())
    return Written(table.rows)


def write_jsonl(wanted: Wanted, out: Counted) -> Written:
    """Write a table as JSON lines: an object a row; what is not known is ``null``."""
    table = table_of(wanted)
    names: dict[str, Any] = {}
    encode = msgspec.json.Encoder().encode_lines
    row: Any = None
    for columns in table.batches():
        # An object of a class of its own is made and written in a third of the time of a dict.
        row = row or msgspec.defstruct("Row", [(column.name, Any) for column in columns], gc=False)
        out.write(encode(list(map(row, *(_values(column, names, _quoted, None) for column in columns)))))
    return Written(table.rows)


def _quoted(name: str) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(name).encode("ascii"))


def _values(column: Column, known: dict[str, Any], made: Callable[[str], Any], nothing: Any) -> list[Any]:
    """The values of a column as Python's own, one a row.

    Args:
        column: The column.
        known: Names that were made what is written, by columns: each is made once.
        made: Makes a name what is written.
        nothing: What stands for no value.
    """
    values = column.values
    if column.names is not None:
        if column.name not in known:
            known[column.name] = np.empty(len(column.names) + 1, object)
            known[column.name][:] = [*map(made, column.names), nothing]
        values = known[column.name][values]
    elif (missing := ~column.known()).any():
        values = values.astype(object)
        values[missing] = nothing
    found: list[Any] = values.tolist()
    return found


def write_parquet(wanted: Wanted, out: Counted) -> Written:
    """Write a table as Parquet, compressed by zstd, with check sums of its pages."""
    import pyarrow as pa
    from pyarrow import parquet

    table = table_of(wanted)
    metadata = {}
    if wanted.table == "events":
        part = f"the window {wanted.windows[0].name}" if wanted.given else None
        if wanted.series:
            part = f"the {len(wanted.windows):,} windows of a series"
        metadata = {KEY: metadata_of(wanted.log, part)}
    names: dict[str, Any] = {}
    writer = None
    for columns in table.batches(_GROUP):
        batch = pa.RecordBatch.from_arrays([_array(column, names) for column in columns], [one.name for one in columns])
        if writer is None:
            rising = [column.name for column in columns if column.name in _RISING]
            writer = parquet.ParquetWriter(
                pa.PythonFile(out, mode="w"),
                batch.schema.with_metadata(metadata),
                compression="zstd",
                use_dictionary=[column.name for column in columns if column.name not in rising],
                column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
                dictionary_pagesize_limit=_MOST_NAMES,
                write_page_checksum=True,
            )
        writer.write_batch(batch, row_group_size=_GROUP)
    assert writer is not None  # there is a batch without rows at least
    writer.close()
    return Written(table.rows)


def _array(column: Column, names: dict[str, Any]) -> Any:
    import pyarrow as pa

    missing = None if column.unknown is None else ~column.known()
    if column.names is None:
        return pa.array(column.values, mask=missing)
    if column.name not in names:
        names[column.name] = pa.array([name.encode("utf-8", "replace").decode() for name in column.names], pa.string())
    codes = pa.array(column.values.astype("int32"), mask=missing)
    return pa.DictionaryArray.from_arrays(codes, names[column.name])
