"""The events of other layers beside those of the auto-growth layer in one block: which to keep, and what belongs together.

One tensor may stand here several times, once a layer.  Which layer is believed is known when the whole log is read
(:mod:`memlens.inputs.paddle.layer_columns`); until then each event carries its layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from memlens.facts import Kind
from memlens.inputs.paddle.layer_lines import (
    LayerEvents,
    LayerLines,
    Streams,
    in_order,
    read_layers,
    read_streams,
    stat_events,
)
from memlens.inputs.paddle.layers import Layer
from memlens.inputs.paddle.requests import Requests, join

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.facts import StatLines

    Block = NDArray[np.uint8]
    Positions = NDArray[np.int64]

__all__ = ["LayerPart", "Others", "join_layers", "look_at_layers"]


class _Events(Protocol):
    """Events of the auto-growth layer."""

    @property
    def start(self) -> Positions: ...
    @property
    def kind(self) -> NDArray[np.int8]: ...
    @property
    def size(self) -> NDArray[np.int64]: ...
    @property
    def addr(self) -> NDArray[np.uint64]: ...


class Others(NamedTuple):
    """All events of a block that may be needed, and the lines of other layers that belong to them.

    Attributes:
        events: Of all layers that may be chosen, in the order of the file.
        lines: What else the other layers say.
        counts: Lines of each layer family.
    """

    events: LayerEvents
    lines: LayerLines
    counts: Mapping[str, int]

    @property
    def spoken(self) -> tuple[Positions, Positions]:
        """Where the lines start whose thread is asked for."""
        return self.lines.requests[0], self.lines.sizes[0]


@dataclass(frozen=True)
class LayerPart:
    """What the other layers add to the reading of one block; one entry an event, unless said otherwise.

    Attributes:
        layer: Each event's :class:`~memlens.inputs.paddle.layers.Layer`, int8.
        columns: The events' kind, size and address, with the sizes that other lines give.
        requests: The ``Try allocate`` lines, joined with the stream-safe ALLOCs.
        sizes: The ``Allocate N bytes on`` lines, joined with the ALLOCs of naive best fit, as far as earlier blocks are needed; a size
            is twice the bytes, and one more for a place of the host.
        streams: Byte offset in the line, address and stream of each ALLOC line that names a stream.
        malformed: Byte offsets of lines that look like an event and cannot be read, and their layer (int8).
        deferred: Byte offset in the first line that puts off a free, or ``None``.
        counts: Lines of each layer family.
    """

    layer: NDArray[np.int8]
    columns: tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.uint64]]
    requests: Requests
    sizes: Requests
    streams: Streams
    malformed: tuple[Positions, NDArray[np.int8]]
    deferred: int | None
    counts: Mapping[str, int]

    @property
    def auto_growth_allocs(self) -> NDArray[np.bool_]:
        """Which events are ALLOCs of the auto-growth layer."""
        mine: NDArray[np.bool_] = (self.layer == Layer.AUTO_GROWTH) & (self.columns[0] == Kind.ALLOC)
        return mine


def look_at_layers(
    block: Block,
    begin: int,
    end: int,
    events: _Events,
    stats: tuple[StatLines | None, Positions],
    blocks: int,
    commas: Positions,
    wanted: Layer | None,
) -> Others | None:
    """Read the other layers, where they may be needed; ``None`` where not.

    Args:
        block: uint8, the text.
        begin: Position of the first byte of the first line.
        end: Position after the last line.
        events: The events of the auto-growth layer.
        stats: The lines of memory statistics, and where their texts start.
        blocks: How many of the events are ALLOCs and FREEs.
        commas: Where ``, stream`` stands.
        wanted: The layer asked for.
    """
    own = LayerEvents(events.start, events.kind, events.size, events.addr, np.zeros(len(events.start), np.int8))
    if wanted == Layer.AUTO_GROWTH or (wanted is None and blocks > 0):
        # The auto-growth layer will be chosen; all that it does not know is the stream.
        streams = read_streams(block, commas)
        none = commas[:0]
        lines = LayerLines(own, (none, none), (none, none), streams, (none, none.astype(np.int8)), None)
        return Others(own, lines, {"stream_safe": len(streams.at)}) if len(streams.at) else None
    lines = read_layers(block, begin, end)
    found = in_order([own, lines.events, stat_events(*stats)])
    if wanted is not None:
        # An ALLOC of naive best fit does not say its place itself.
        family = [layer for layer in Layer if layer.family == wanted.family]
        found = found.where(np.isin(found.layer, family) | (found.kind >= Kind.RESERVE))
    layer, kind = lines.events.layer, lines.events.kind
    counts = {
        "auto_growth": blocks,
        "stream_safe": int(np.count_nonzero((layer == Layer.STREAM_SAFE) & (kind == Kind.ALLOC))),
        **{
            other.family: int(np.count_nonzero(layer == other))
            for other in (Layer.CUDA_MALLOC, Layer.CUDA_MALLOC_ASYNC, Layer.CHUNK_DUMP)
        },
    }
    return Others(found, lines, counts)


def join_layers(
    others: Others,
    thread: NDArray[np.int64],
    requests: int,
    line_of: Callable[[Positions], Positions],
    to_input: int,
) -> LayerPart:
    """Join what the lines of one block say of each other.

    Args:
        others: As :func:`look_at_layers` gives it.
        thread: The threads of the events, of so many requests of the auto-growth layer, and of :attr:`Others.spoken`, int64.
        requests: As many requests.
        line_of: Gives the starts of the lines that hold some positions.
        to_input: What makes a byte offset of a position.
    """
    start, kind, size, addr, layer = others.events
    n = len(start)
    asked_at, asked = others.lines.requests
    size_at, coded = others.lines.sizes
    of_asked, of_size = np.split(thread[n + requests :], [len(asked_at)])
    allocs = kind == Kind.ALLOC
    safe = np.flatnonzero(allocs & (layer == Layer.STREAM_SAFE))
    naive = np.flatnonzero(allocs & (size < 0))
    joined = _join(safe, start, thread, asked_at, of_asked, asked)
    sized = _join(naive, start, thread, size_at, of_size, coded)
    if len(sized.rows):
        size, layer = size.copy(), layer.copy()
        size[sized.rows] = sized.requested >> 1
        layer[sized.rows[(sized.requested & 1) == 1]] = Layer.HOST_NAIVE_BEST_FIT
    streams = others.lines.streams
    lost, families = others.lines.broken
    deferred = others.lines.deferred
    return LayerPart(
        layer,
        (kind, size, addr),
        joined,
        sized,
        streams._replace(at=streams.at + to_input),
        (line_of(lost) + to_input, families),
        None if deferred is None else deferred + to_input,
        others.counts,
    )


def _join(
    allocs: Positions,
    start: Positions,
    thread: NDArray[np.int64],
    at: Positions,
    of: NDArray[np.int64],
    told: NDArray[np.int64],
) -> Requests:
    """Join some ALLOCs with the lines that tell a size of the next ALLOC of their thread."""
    if not len(allocs) and not len(at):
        return Requests(allocs, allocs)
    # No aligned size stands on these lines, so there is none to compare.
    return join(allocs, start[allocs], thread[allocs], np.zeros_like(allocs), at, of, told, np.zeros_like(told))
