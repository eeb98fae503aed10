"""The layers of Paddle's allocator that tell of one and the same memory, and which of them to believe.

One tensor may be logged by several layers.  Their events are never added up: blocks are taken from one layer, chunks from one, and the
others only say what the chosen ones do not know.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from memlens.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ROUNDED", "SIZELESS", "WITHOUT_ADDRESSES", "Layer", "choose", "layer_named"]


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
        """What options and reports call it."""
        return self.name.lower()

    @property
    def family(self) -> str:
        """The name of the part of the framework that writes it, for the host and for devices."""
        return self.label.removeprefix("host_")


#: Whose free lines have no size: it is that of their ALLOC.
SIZELESS = frozenset({Layer.STREAM_SAFE, Layer.NAIVE_BEST_FIT, Layer.HOST_NAIVE_BEST_FIT})
#: Whose lines have no address, so that no ALLOC can be paired with its FREE.
WITHOUT_ADDRESSES = frozenset({Layer.STATS, Layer.HOST_STATS})
#: Whose sizes are printed in MB with six digits.
ROUNDED = frozenset({Layer.CUDA_MALLOC, Layer.CUDA_MALLOC_ASYNC})

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
