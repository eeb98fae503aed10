"""The layers of Paddle's allocator that tell of one and the same memory, and which of them to believe.

One tensor may be logged by several layers.  Their events are never added up: blocks are taken from one layer, chunks from one, and the
others only say what the chosen ones do not know.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.errors import UsageError
from memlens.facts import Kind
from memlens.inputs.joins import distinct
from memlens.spool import empty, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from memlens.facts import LineSample


class Layer(IntEnum):
    """A layer that blocks or chunks may be read from; those of the host are taken only where nothing tells of a device."""

    AUTO_GROWTH = 0
    STREAM_SAFE = 1
    NAIVE_BEST_FIT = 2
    CUDA_MALLOC_ASYNC = 3
    STATS = 4
    HOST_NAIVE_BEST_FIT = 5
    HOST_STATS = 6
    CHUNK_DUMP = 7
    CUDA_MALLOC = 8

    @property
    def label(self) -> str:
        """The name of the layer in options and reports."""
        return self.name.lower()

    @property
    def family(self) -> str:
        """The name of the part of the framework that writes it, for the host and for devices."""
        return self.label.removeprefix("host_")


#: Whose free lines have no size: it is that of their ALLOC.
SIZELESS = frozenset({Layer.STREAM_SAFE, Layer.NAIVE_BEST_FIT, Layer.HOST_NAIVE_BEST_FIT})
#: Whose lines have no address, so that no ALLOC can be paired with its FREE.
WITHOUT_ADDRESSES = frozenset({Layer.STATS, Layer.HOST_STATS})

#: The most exact layer first.
_BLOCKS = (Layer.AUTO_GROWTH, Layer.STREAM_SAFE, Layer.NAIVE_BEST_FIT, Layer.CUDA_MALLOC_ASYNC, Layer.STATS)
_CHUNKS = (Layer.AUTO_GROWTH, Layer.STATS, Layer.CHUNK_DUMP, Layer.CUDA_MALLOC)
_HOST_BLOCKS = (Layer.HOST_NAIVE_BEST_FIT, Layer.HOST_STATS)
_HOST_CHUNKS = (Layer.HOST_STATS,)
_OF_HOST = frozenset(_HOST_BLOCKS)


def layer_named(name: str) -> Layer:
    """The layer of a name.

    Raises:
        UsageError: There is no such layer.
    """
    for layer in Layer:
        if layer.label == name:
            return layer
    raise UsageError(f"no layer {name}", f"There are: {', '.join(layer.label for layer in Layer)}.")


def choose(counts: NDArray[np.int64], wanted: Layer | None) -> tuple[Layer | None, Layer | None]:
    """The layer that blocks are taken from, and the one for chunks; ``None`` where there are none to take.

    Args:
        counts: Events of each layer, blocks and chunks, int64, shape (layers, 2).
        wanted: The layer that the user asks for.
    """
    if wanted in _OF_HOST:
        blocks, chunks = _first(counts, 0, (wanted,)), _first(counts, 1, _HOST_CHUNKS)
    elif wanted is None:
        blocks = _first(counts, 0, _BLOCKS)
        # Beside blocks of the auto-growth layer nothing of other layers is read.
        chunks = _first(counts, 1, (Layer.AUTO_GROWTH,) if blocks == Layer.AUTO_GROWTH else _CHUNKS)
        if blocks is None and chunks is None:
            blocks, chunks = _first(counts, 0, _HOST_BLOCKS), _first(counts, 1, _HOST_CHUNKS)
    else:
        blocks = _first(counts, 0, (wanted,))
        own = wanted in (Layer.AUTO_GROWTH, *(layer for layer in _CHUNKS if blocks is None))
        chunks = _first(counts, 1, (wanted,) if own else (wanted, *_CHUNKS))
    if wanted is not None and wanted not in (blocks, chunks):
        return None, None
    return blocks, chunks


def _first(counts: NDArray[np.int64], column: int, layers: tuple[Layer, ...]) -> Layer | None:
    return next((layer for layer in layers if counts[layer, column]), None)


class Layers:
    """Counts what blocks hold of the layers, and chooses in the end.

    Args:
        wanted: The layer that the user asks for.

    Attributes:
        lines: Lines of each layer family; those of the stream-safe layer that name a stream are also counted alone, as ``streams``.
    """

    def __init__(self, wanted: Layer | None) -> None:
        self._wanted = wanted
        self._counts = np.zeros((len(Layer), 2), np.int64)
        self._threads: list[set[int]] = [set() for _ in Layer]
        self._unstamped, self._malformed, self._sizeless = Counter[int](), Counter[int](), Counter[int]()
        self._samples: list[tuple[int, LineSample]] = []
        self.lines: Counter[str] = Counter()

    def add(
        self,
        layer: NDArray[np.int8] | None,
        kind: NDArray[np.int8],
        size: NDArray[np.int64],
        thread: NDArray[np.int64],
        lines: Mapping[str, int],
    ) -> None:
        """Take note of the events of the next block.

        Args:
            layer: Their layers, int8; ``None`` where all are of the auto-growth layer.
            kind: Their kinds, int8.
            size: Their sizes, int64; -1 where no line gives one.
            thread: Their threads, int64; -1 where a header is missing.
            lines: Lines of each layer family.
        """
        self.lines.update(lines)
        for number in [0] if layer is None else np.unique(layer).tolist():
            mine = slice(None) if layer is None else layer == number
            chunks = int(np.count_nonzero(kind[mine] > Kind.FREE))
            self._counts[number] += (len(kind[mine]) - chunks, chunks)
            if layer is not None:
                self._sizeless[number] += int(np.count_nonzero(size[mine] < 0))
            threads = distinct(thread[mine])
            self._threads[number].update(threads)
            if -1 in threads:
                self._unstamped[number] += int(np.count_nonzero(thread[mine] < 0))

    def add_malformed(self, layer: int, count: int, samples: list[LineSample]) -> None:
        """Take note of lines of one layer that cannot be read, and of the first of them."""
        self._malformed[layer] += count
        self._samples += [(layer, sample) for sample in samples]

    @property
    def present(self) -> list[Layer]:
        """The layers that have events."""
        return [layer for layer in Layer if self._counts[layer].any()]

    def choice(self) -> tuple[Layer | None, Layer | None]:
        """The layers that blocks and chunks are taken from by what was seen so far; see :func:`choose`."""
        return choose(self._counts, self._wanted)

    def malformed(self, blocks: Layer | None) -> int:
        """Lines of the layer of blocks, wherever its memory is, that cannot be read, beside those of the auto-growth layer; a size that never came among them."""
        lost = 0 if blocks is None else self._sizeless[blocks]
        return lost + sum(self._malformed[layer] for layer in _alike(blocks))

    def chosen_rows(
        self, layer: NDArray[np.int8], kind: NDArray[np.int8], size: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which events are of the layers chosen so far, and have a size, bool; arguments as for :meth:`finish`."""
        blocks, chunks = (-1 if layer is None else int(layer) for layer in self.choice())
        rows = empty(len(kind), np.bool_)
        for start, stop in walk(0, len(kind)):
            wanted = np.where(kind[start:stop] <= Kind.FREE, blocks, chunks)
            rows[start:stop] = (layer[start:stop] == wanted) & (size[start:stop] >= 0)
        return rows

    def finish(
        self, layer: NDArray[np.int8] | None, kind: NDArray[np.int8], size: NDArray[np.int64]
    ) -> tuple[Layer | None, NDArray[np.bool_] | None, dict[str, Any]]:
        """Choose the layers.

        Args:
            layer: The layers of all events, int8; ``None`` where all are of the auto-growth layer.
            kind: Their kinds, int8.
            size: Their sizes, int64; -1 where no line gives one.

        Returns:
            The layer of the blocks; which events are of the chosen layers, bool, ``None`` for all; and the facts of these layers.
        """
        blocks, chunks = self.choice()
        rows = None
        if layer is not None or (blocks, chunks) == (None, None):
            layer = np.broadcast_to(np.int8(0), len(kind)) if layer is None else layer
            rows = self.chosen_rows(layer, kind, size)
        used = {layer for layer in (blocks, chunks) if layer is not None}
        alike = _alike(blocks)
        return (
            blocks,
            rows,
            {
                "malformed_samples": tuple(sample for layer, sample in self._samples if layer in alike),
                "threads": tuple(sorted(set[int]().union(*(self._threads[layer] for layer in used)) - {-1})),
                "unstamped": sum(self._unstamped[layer] for layer in used),
                "chunk_layer": "" if chunks is None else chunks.label,
                "addresses": blocks not in WITHOUT_ADDRESSES,
                "sized_frees": (chunks if blocks is None else blocks) not in SIZELESS,
                "other_layers": self._passed_over(blocks, used),
            },
        )

    def _passed_over(self, blocks: Layer | None, used: set[Layer]) -> dict[str, int]:
        over = dict(self.lines)
        streams = over.pop("streams", 0)
        if self._wanted == Layer.AUTO_GROWTH or (self._wanted is None and blocks == Layer.AUTO_GROWTH):
            # Of the others only that is joined which the auto-growth layer does not know itself.
            over = {name: count for name, count in over.items() if name in ("stats", "naive_best_fit")}
            over["stream_safe"] = streams
        for layer in used:
            if layer == blocks or layer in (Layer.CUDA_MALLOC, Layer.CHUNK_DUMP):
                over.pop(layer.family, None)
        if blocks is not None:  # what it says of the host, where devices are looked at, or of devices
            for layer in Layer:
                if layer.family == blocks.family and layer not in used and self._counts[layer].any():
                    over[layer.label] = int(self._counts[layer].sum())
        return {name: count for name, count in over.items() if count}


def _alike(blocks: Layer | None) -> list[Layer]:
    """The layers whose lines look like events of the layer of blocks, wherever its memory is."""
    return [layer for layer in Layer if blocks is not None and layer.family == blocks.family]
