"""What windows do, in figures that mean something across runs: which sizes they allocate and free, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.events import BATCH, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.windows.windows import Window

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int64]

__all__ = ["Work", "likeness"]

#: Sizes are told apart by so many bits of a hash, ALLOCs and FREEs apart.
_BITS = 7
#: What a FREE counts beside an ALLOC.
_FREE = 0.25
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Below it is what rounding leaves of 1 - 1.
_ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class Work:
    """What the windows of one run do, one row a window.

    Attributes:
        roots: Square roots of the shares that sizes have in the ALLOCs and FREEs of a window, float32, a column a bucket of sizes.
            An event counts by the logarithm of its size, so that one large tensor does not outweigh all others, and a FREE
            for a part of an ALLOC, for frees are what regressions lose.
        total: What the events count together, float32; 0 for a window without any.
        counts: ALLOCs and FREEs, int64, two columns.
    """

    roots: Floats
    total: Floats
    counts: Ints

    @classmethod
    def of(cls, windows: Sequence[Window]) -> Work:
        """The work of windows of one log.

        Args:
            windows: In file order, none overlapping another; at least one.
        """
        log = windows[0].log
        lo = np.array([window.lo for window in windows], np.int64)
        hi = np.array([window.hi for window in windows], np.int64)
        weights = np.zeros(len(windows) << _BITS, np.float64)
        counts = np.zeros(2 * len(windows), np.int64)
        for begin in range(int(lo[0]), int(hi[-1]), BATCH):
            end = min(begin + BATCH, int(hi[-1]))
            window = np.searchsorted(lo, np.arange(begin, end), "right") - 1
            taken = (log.kind[begin:end] <= Kind.FREE) & (np.arange(begin, end) < hi[window])
            window, size = window[taken], log.size[begin:end][taken]
            free = (log.kind[begin:end][taken] == Kind.FREE).astype(np.int64)
            bucket = ((2 * size + free).view(np.uint64) * _GOLDEN >> np.uint64(64 - _BITS)).astype(np.int64)
            first, last = int(window[0]) if len(window) else 0, int(window[-1]) + 1 if len(window) else 0
            here = slice(first << _BITS, last << _BITS)
            weights[here] += np.bincount(
                ((window - first) << _BITS) + bucket,
                np.log2(size + 2.0) * np.where(free, _FREE, 1),
                here.stop - here.start,
            )
            counts[2 * first : 2 * last] += np.bincount(2 * (window - first) + free, minlength=2 * (last - first))
        table = weights.reshape(len(windows), -1)
        total = table.sum(axis=1)
        shares = table / np.maximum(total, 1)[:, None]
        return cls(np.sqrt(shares).astype(np.float32), total.astype(np.float32), counts.reshape(-1, 2))

    def __len__(self) -> int:
        return len(self.total)

    def take(self, places: Ints | slice) -> Work:
        """Some of the windows, in the order given."""
        return Work(self.roots[places], self.total[places], self.counts[places])


def likeness(common: Floats, total: Floats, other_total: Floats) -> Floats:
    """How much two windows do the same: 1 for the same sizes equally often, 0 where no size is in both.

    It is one less the Hellinger distance of the two mixes of sizes, where unequal amounts of work count like unequal mixes.

    Args:
        common: The inner products of the ``roots`` of the two, any shape.
        total: The ``total`` of the one, of a shape that broadcasts to it.
        other_total: That of the other.
    """
    found = np.minimum(total, other_total)
    found /= np.maximum(np.maximum(total, other_total), 1)
    found *= common
    # In place: of very many windows this is what takes the time.
    np.subtract(1, found, out=found)
    found *= found >= _ROUNDING
    np.sqrt(found, out=found)
    np.subtract(1, found, out=found)
    return found
