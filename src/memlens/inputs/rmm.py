"""RMM's CSV log: what its logging resource adaptor writes, or what Spark prints of it amid other text.

Row order is the order of events: time stamps step back between threads, while the adaptor writes a ``free`` before the memory is given
back and an ``allocate`` after it was taken.  Sizes are those asked for.  A log is of one device, which only the name of the file tells
(``name.dev0.csv``).
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.errors import InputError, NoEventsError
from memlens.events import EventLog
from memlens.facts import Facts, LineSample, OutOfMemory
from memlens.inputs.blocks import Blocks
from memlens.inputs.growing import GrowingColumn
from memlens.inputs.input_format import InputFormat
from memlens.inputs.rmm_rows import FAILURE, HEADER, ROW, Rows, read_rows
from memlens.windows.patterns import Anchor, Matcher, anchors_in_block

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.inputs.blocks import Block
    from memlens.inputs.file_source import FileSource
    from memlens.windows.patterns import Pattern

__all__ = ["FORMAT", "looks_like", "read_rmm"]

_DEVICE = re.compile(r"\.dev(\d{1,4})(?=\.|\Z)")
_OLD_HEADER = b"Event Type,Device ID,Address,Stream,Size (bytes)"
_SAMPLES = 5
_SHOWN = 200
#: Failures that are kept one by one; where memory is spilled and asked for again, they come by the thousand.
_MOST_FAILURES = 10_000
_MOST_BYTES = float(1 << 62)
_HALF_DAY_US, _DAY_US = 12 * 3600 * 10**6, 24 * 3600 * 10**6
_TYPES = {"kind": np.int8, "addr": np.uint64}
_HINT = (
    "To get a log, call rmm.reinitialize(logging=True, log_file_name='run.csv') before the first allocation,"
    " or set spark.rapids.memory.gpu.debug=STDERR."
)


def looks_like(head: bytes) -> bool:
    """Whether an input that begins so is a log of RMM: it has the header, or whole rows."""
    if HEADER.search(head) or head.lstrip().startswith(_OLD_HEADER):
        return True
    return any(ROW.fullmatch(line.rstrip(b"\r")[-512:]) for line in head.split(b"\n")[:-1] if b"," in line)


def read_rmm(
    source: FileSource,
    *,
    patterns: Sequence[Pattern] = (),
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[EventLog]:
    """Read a log.

    Args:
        source: The input; compressed or not.
        patterns: Anchors to find in the same pass.
        strict: Raise where a compressed input is cut short, instead of reading what there is.
        progress: Called now and then with the bytes consumed of the input as it lies on disk.

    Returns:
        One log.

    Raises:
        InputError: It cannot be read, or is a log of RMM's older interface (2019).
        NoEventsError: It has no row.
        UsageError: A pattern is no regular expression.
    """
    collector = _Collector(source, patterns)
    with closing(source.open()) as stream:
        blocks = Blocks(stream)
        for block in blocks:
            collector.add(block)
            blocks.pool.give_back(block)
            if progress is not None:
                progress(stream.consumed)
        if stream.problem and strict:
            raise InputError(f"{source.name}: {stream.problem}", "Leave out --strict to analyze what can be read.")
        return [collector.finish(stream.problem, numbered=bool(stream.compression) or not source.rereadable)]


class _Collector:
    """Takes the blocks of one log in order."""

    def __init__(self, source: FileSource, patterns: Sequence[Pattern]) -> None:
        self._source = source
        self._matchers = [Matcher(pattern) for pattern in patterns]
        self._anchors: list[tuple[list[int], list[int], list[str]]] = [([], [], []) for _ in patterns]
        names = ("kind", "size", "addr", "offset", "time_us", "thread", "stream", "line")
        self._columns = {name: GrowingColumn(_TYPES.get(name, np.int64)) for name in names}
        self._index: list[tuple[int, int]] = []
        self._lines = self._bytes = self._malformed = self._failures = 0
        self._total = 0.0
        self._threads: set[int] = set()
        self._samples: list[LineSample] = []
        self._ooms: list[OutOfMemory] = []
        self._ends_mid_line = self._is_old = False
        device = _DEVICE.search(source.name)
        self._device = int(device[1]) if device else None

    def add(self, block: Block) -> None:
        """Take the next block.

        Raises:
            InputError: The sizes add up to more than 64-bit sums can hold.
        """
        first = self._lines + 1
        self._index.append((block.offset, self._lines))
        if block.offset == 0:
            self._is_old = block.text[:200].tobytes().lstrip().startswith(_OLD_HEADER)
        rows = read_rows(block.data, block.begin, block.end)
        # The line end before each line; the one before the first is no character of the block.
        ends = np.concatenate(([block.begin - 1], np.flatnonzero(block.text == 0x0A) + block.begin))
        places = _Places(block, ends, first)
        self._add_events(rows, places)
        for at in rows.at[rows.kind == FAILURE].tolist()[: _MOST_FAILURES - len(self._ooms)]:
            self._ooms.append(self._failure(at, rows, places))
        for at in rows.malformed[: _SAMPLES - len(self._samples)].tolist():
            self._samples.append(LineSample(*places.sample(at)))
        self._malformed += len(np.unique(places.of(rows.malformed)))
        for matcher, column in zip(self._matchers, self._anchors, strict=True):
            offsets, lines, names = anchors_in_block(matcher, block.text, block.offset, first)
            column[0].extend(offsets)
            column[1].extend(lines)
            column[2].extend(names)
        self._bytes = block.offset + block.end - block.begin
        self._lines += len(ends) - 1
        self._ends_mid_line = block.data[block.end - 1] != 0x0A and not block.cut

    def _add_events(self, rows: Rows, places: _Places) -> None:
        # What has no bytes and no place is no block: RMM gives it for a size of 0.
        chosen = (rows.kind != FAILURE) & ((rows.addr != 0) | (rows.size != 0))
        line = places.of(rows.at[chosen])
        parts = {
            "kind": rows.kind[chosen],
            "size": rows.size[chosen],
            "addr": rows.addr[chosen],
            "offset": places.offsets(line),
            "time_us": rows.time_us[chosen],
            "thread": rows.thread[chosen],
            "stream": rows.stream[chosen],
            "line": line + places.first,
        }
        for name, part in parts.items():
            self._columns[name].append(part, 0.0)
        self._threads.update(np.unique(parts["thread"]).tolist())
        self._total += float(parts["size"].sum(dtype=np.float64))
        if self._total > _MOST_BYTES:
            raise InputError(
                f"{self._source.name}: the sizes add up to more than 4 EiB by line {places.first + len(places.ends) - 1:,}",
                "No run allocates that much: the log is damaged.",
            )

    def _failure(self, at: int, rows: Rows, places: _Places) -> OutOfMemory:
        offset, line, text = places.sample(at)
        row = int(rows.at.searchsorted(at))
        device = "" if self._device is None else f"GPU {self._device}"
        return OutOfMemory(offset, line, device, int(rows.size[row]), None, text)

    def finish(self, cut_short: str, *, numbered: bool) -> EventLog:
        """The log of all blocks.

        Args:
            cut_short: Why the input ended early, or ``""``.
            numbered: Line numbers cannot be looked up later at little cost: keep them.

        Raises:
            InputError: It is a log of RMM's older interface.
            NoEventsError: There was no event.
        """
        name = self._source.name
        lines = self._lines + self._ends_mid_line
        if not len(self._columns["kind"]):
            if self._is_old:
                raise InputError(
                    f"{name}: a log of RMM's interface of 2019, which memlens does not read",
                    "Record it with RMM 0.13 or newer.",
                )
            early = f" ({cut_short})" if cut_short else ""
            raise NoEventsError(f"{name}: no allocate and no free in {lines:,} lines of an RMM log{early}", _HINT)
        index = np.array(self._index, np.int64)
        self._source.index(index[:, 0], index[:, 1])
        columns: dict[str, Any] = {column: grown.entries() for column, grown in self._columns.items()}
        columns["time_us"] = _over_midnight(columns["time_us"])
        if not numbered:
            del columns["line"]
        return EventLog(
            **columns,
            device=self._device,
            source=self._source,
            facts=Facts(
                bytes=self._bytes,
                lines=int(lines),
                malformed=self._malformed,
                malformed_samples=tuple(self._samples),
                ends_mid_line=self._ends_mid_line,
                cut_short=cut_short,
                threads=tuple(sorted(self._threads - {-1})),
                layer="rmm",
                ooms=tuple(self._ooms),
            ),
            anchors=tuple(
                Anchor(matcher.pattern, tuple(offsets), tuple(numbers), tuple(names))
                for matcher, (offsets, numbers, names) in zip(self._matchers, self._anchors, strict=True)
            ),
        )


class _Places:
    """Lines of one block, counted from 0.

    Args:
        block: The block.
        ends: Position of the line end before each line, int64; the last one is that before what follows the last line.
        first: The 1-based number of the block's first line.
    """

    def __init__(self, block: Block, ends: NDArray[np.int64], first: int) -> None:
        self.block, self.ends, self.first = block, ends, first

    def of(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """The lines of some positions, int64."""
        return self.ends.searchsorted(at) - 1

    def offsets(self, line: NDArray[np.int64]) -> NDArray[np.int64]:
        """Byte offsets, in the input, of the starts of some lines."""
        return self.ends[line] + (1 - self.block.begin + self.block.offset)

    def sample(self, at: int) -> tuple[int, int, str]:
        """The line of one position: byte offset, number, text."""
        line = int(self.of(np.array([at]))[0])
        begin = int(self.ends[line]) + 1
        text = self.block.data[begin : min(begin + _SHOWN, self.block.end)].tobytes().partition(b"\n")[0]
        offset = begin - self.block.begin + self.block.offset
        return offset, self.first + line, text.rstrip(b"\r").decode("utf-8", "replace")


def _over_midnight(time_us: NDArray[np.int64]) -> NDArray[np.int64]:
    """Times of day that go on counting where a run goes on after midnight, int64.

    A step back by more than half a day is a new day; one forward is a thread that is late with a row of the day before.
    """
    step = np.diff(time_us, prepend=time_us[0])
    if int(np.abs(step).max()) <= _HALF_DAY_US or int(time_us.max()) >= _DAY_US:  # no times of day at all
        return time_us
    days = np.cumsum((step < -_HALF_DAY_US).astype(np.int64) - (step > _HALF_DAY_US))
    return time_us + days * _DAY_US


FORMAT = InputFormat(
    "rmm",
    "an RMM log",
    "the CSV log of RAPIDS Memory Manager, alone or amid other text",
    "5563,10:29:36.035871,allocate,0x55639e0c6630,4096,0",
    lambda head: "it holds RMM's header or whole rows of its log" if looks_like(head) else "",
    lambda source, request: read_rmm(
        source, patterns=request.patterns, strict=request.strict, progress=request.progress
    ),
    "those that were asked for",
    layers=("rmm",),
)
