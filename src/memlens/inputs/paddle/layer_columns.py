"""What the blocks of a log hold of several layers, put together; and, at the end, which layer is believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Kind
from memlens.inputs.growing import GrowingColumn
from memlens.inputs.paddle.layers import SIZELESS, Layer, choose
from memlens.inputs.paddle.requests import PendingRequests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.facts import LineSample
    from memlens.inputs.paddle.layer_block import LayerPart
    from memlens.inputs.paddle.layer_lines import Streams

    Joined = list[tuple[NDArray[np.int64], NDArray[np.int64]]]

__all__ = ["Chosen", "LayerColumns", "join_streams", "size_frees"]


@dataclass(frozen=True)
class Chosen:
    """What is believed.

    Attributes:
        blocks: The layer of the ALLOCs and FREEs, ``None`` where there are none.
        chunks: The layer of the RESERVEs and RELEASEs, ``None`` where there are none.
        rows: Which events are theirs, bool; ``None`` for all.
        threads: The threads of these events; -1 where a header is missing.
        unstamped: How many of them have no header.
        malformed: Lines of these layers that cannot be read, beside those of the auto-growth layer.
        samples: The first few of them.
        passed_over: Lines of the other layers, by name.
    """

    blocks: Layer | None
    chunks: Layer | None
    rows: NDArray[np.bool_] | None
    threads: frozenset[int]
    unstamped: int
    malformed: int
    samples: tuple[LineSample, ...]
    passed_over: dict[str, int]


@dataclass
class _OfLayer:
    """What is counted of one layer."""

    threads: set[int] = field(default_factory=set)
    unstamped: int = 0
    malformed: int = 0
    samples: list[LineSample] = field(default_factory=list)


class LayerColumns:
    """Takes what blocks hold of the layers, in file order.

    As long as all events are of the auto-growth layer there is no column, and nothing is kept an event.

    Args:
        wanted: The layer that the user asks for.
    """

    def __init__(self, wanted: Layer | None) -> None:
        self._wanted = wanted
        self._counts = np.zeros((len(Layer), 2), np.int64)
        self._of = [_OfLayer() for _ in Layer]
        self._column: GrowingColumn | None = None
        self._events = 0
        self._requests, self._sizes = PendingRequests(), PendingRequests()
        self._streams: list[Streams] = []
        self._lines: dict[str, int] = {}

    def count_lines(self, family: str, count: int) -> None:
        """Take note of some lines of a layer family."""
        if count:
            self._lines[family] = self._lines.get(family, 0) + count

    def add(
        self,
        part: LayerPart | None,
        kind: NDArray[np.int8],
        threads: Sequence[int],
        numbers: NDArray[np.unsignedinteger] | None,
        unstamped: int,
        done: float,
    ) -> Joined:
        """Take the next block.  Sizes that a line of an earlier block gives are written into ``part``.

        Args:
            part: What it holds of other layers.
            kind: The kinds of its events, int8.
            threads: Its threads.
            numbers: For each event which of them it has; ``None`` where there are not two.
            unstamped: How many of its events have no header.
            done: The share of the input read with it, 0 to 1.

        Returns:
            Requested sizes of stream-safe ALLOCs: event numbers in the log, and bytes, int64.
        """
        before, self._events = self._events, self._events + len(kind)
        if part is None:
            blocks = int(np.count_nonzero(kind <= Kind.FREE))
            self._counts[Layer.AUTO_GROWTH] += (blocks, len(kind) - blocks)
            self._of[Layer.AUTO_GROWTH].threads.update(threads)
            self._of[Layer.AUTO_GROWTH].unstamped += unstamped
            if self._column is not None:
                self._column.append(np.zeros(len(kind), np.int8), done)
            return []
        for row, coded in self._sizes.settle(part.sizes):
            part.columns[1][row] = coded >> 1
            part.layer[row] = Layer.HOST_NAIVE_BEST_FIT if coded & 1 else Layer.NAIVE_BEST_FIT
        slots = part.layer.astype(np.int64) * 2 + (kind >= Kind.RESERVE)
        self._counts += np.bincount(slots, minlength=2 * len(Layer)).reshape(-1, 2)
        self._add_threads(part.layer, threads, numbers)
        if self._column is None and part.layer.any():
            self._column = GrowingColumn(np.int8)
            self._column.append(np.zeros(before, np.int8), done)
        if self._column is not None:
            self._column.append(part.layer, done)
        if len(part.streams.at):
            self._streams.append(part.streams)
        for family, count in part.counts.items():
            self.count_lines(family, count)
        malformed = np.unique(np.stack(part.malformed), axis=1)[1]
        for number, count in enumerate(np.bincount(malformed, minlength=len(Layer)).tolist()):
            self._of[number].malformed += count
        joined = [(part.requests.rows + before, part.requests.requested)] if len(part.requests.rows) else []
        if late := self._requests.settle(part.requests):
            rows, values = (np.array(column, np.int64) for column in zip(*late, strict=True))
            joined.append((rows + before, values))
        return joined

    def _add_threads(
        self, layer: NDArray[np.int8], threads: Sequence[int], numbers: NDArray[np.unsignedinteger] | None
    ) -> None:
        if numbers is None:
            numbers = np.zeros(len(layer), np.uint8)
        for number in np.unique(layer).tolist():
            found, counts = np.unique(numbers[layer == number], return_counts=True)
            mine = {threads[k]: count for k, count in zip(found.tolist(), counts.tolist(), strict=True)}
            self._of[number].threads.update(mine)
            self._of[number].unstamped += mine.get(-1, 0)

    def add_sample(self, part: LayerPart, sample: LineSample, most: int) -> bool:
        """Take note of a line that cannot be read; false where it is none of the other layers."""
        lines, layers = part.malformed
        found = layers[lines == sample.offset].tolist()
        for number in found[:1]:
            if len(self._of[number].samples) < most:
                self._of[number].samples.append(sample)
        return bool(found)

    def finish(self, kind: NDArray[np.int8], size: NDArray[np.int64]) -> Chosen:
        """Choose the layers.

        Args:
            kind: The kinds of all events taken, int8.
            size: Their sizes, int64; -1 where no line gives one.
        """
        blocks, chunks = choose(self._counts, self._wanted)
        rows, lost = None, 0
        if self._column is not None or (blocks, chunks) == (None, None):
            layer = np.zeros(len(kind), np.int8) if self._column is None else self._column.entries()
            rows = np.where(kind <= Kind.FREE, layer == _number(blocks), layer == _number(chunks))
            lost = int(np.count_nonzero(rows & (size < 0)))
            rows &= size >= 0
        self._column = None
        used = {layer for layer in (blocks, chunks) if layer is not None}
        # What looks like an event of the chosen layer, wherever its memory is.
        alike = [] if blocks is None else [self._of[layer] for layer in Layer if layer.family == blocks.family]
        return Chosen(
            blocks,
            chunks,
            rows,
            frozenset().union(*(self._of[layer].threads for layer in used)),
            sum(self._of[layer].unstamped for layer in used),
            lost + sum(of.malformed for of in alike),
            tuple(sample for of in alike for sample in of.samples),
            self._passed_over(blocks, used),
        )

    def _passed_over(self, blocks: Layer | None, used: set[Layer]) -> dict[str, int]:
        over = dict(self._lines)
        for layer in used:
            if layer == blocks or layer in (Layer.CUDA_MALLOC, Layer.CHUNK_DUMP):
                over.pop(layer.family, None)
        if blocks is not None:  # what it says of the host, where devices are looked at, or of devices
            for layer in Layer:
                if layer.family == blocks.family and layer not in used and self._counts[layer].any():
                    over[layer.label] = int(self._counts[layer].sum())
        return over

    def streams(self, log: EventLog) -> NDArray[np.int64] | None:
        """The stream of each event of the log, int64, -1 where unknown; ``None`` where no line names one."""
        if not self._streams:
            return None
        return join_streams(
            log, *(np.concatenate([getattr(part, name) for part in self._streams]) for name in ("at", "addr", "stream"))
        )


def _number(layer: Layer | None) -> int:
    return -1 if layer is None else int(layer)


def join_streams(
    log: EventLog, at: NDArray[np.int64], addr: NDArray[np.uint64], stream: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The stream of each event, int64, -1 where unknown.

    A line that names the stream of a block stands after the ALLOC of the block and before its FREE, or is the ALLOC line itself.  So it
    belongs to the nearest ALLOC of its address before it, if nothing of that address stands between them; a FREE has its ALLOC's.

    Args:
        log: The events.
        at: Byte offsets in the lines, int64.
        addr: The addresses that they name, uint64.
        stream: The streams, int64.
    """
    blocks = np.flatnonzero(log.kind <= Kind.FREE)
    n = len(blocks)
    # Events and lines by address, in the order of the file: `event` is the row of an event, -1 for a line.
    event = np.concatenate((blocks, np.full(len(at), -1, np.int64)))
    addrs = np.concatenate((log.addr[blocks], addr))
    order = np.lexsort((event < 0, np.concatenate((log.offset[blocks], at)), addrs))
    event, addrs = event[order], addrs[order]
    named = np.concatenate((np.full(n, -1, np.int64), stream))[order]
    is_event = event >= 0
    alloc = np.zeros(len(event), np.bool_)
    alloc[is_event] = log.kind[event[is_event]] == Kind.ALLOC
    # For each entry the nearest event before it, where that is an ALLOC of the same address; else the entry itself.
    places = np.arange(len(event))
    before = np.maximum.accumulate(np.where(is_event, places, -1))
    before = np.concatenate(([-1], before[:-1]))
    before = np.where((before >= 0) & alloc[before] & (addrs[before] == addrs), before, places)
    told = np.flatnonzero(~is_event & (before < places))
    named[before[told]] = named[told]
    frees = np.flatnonzero(is_event & ~alloc & (before < places))
    named[frees] = named[before[frees]]
    column = np.full(len(log), -1, np.int64)
    column[event[is_event]] = named[is_event]
    return column


def size_frees(log: EventLog, blocks: Layer | None) -> None:
    """Give each FREE the size of its ALLOC, in place, where the layer's free lines have none."""
    if blocks in SIZELESS:
        frees = np.flatnonzero((log.kind == Kind.FREE) & (log.lifetimes.partner >= 0))
        log.size[frees] = log.size[log.lifetimes.partner[frees]]
