"""Where new chunks lie: what a driver might have done, for a replay cannot know what it would have done."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.allocators.history import ChunkChange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.history import RequestHistory

__all__ = ["Addresses", "Fixed", "Placement", "Places", "fixed"]

#: New chunks begin at multiples of this, and below the end of what addresses there are.
STEP, END = 512, 1 << 63
#: Where chunks go that lie anywhere, how often another place is tried where one is taken, and where others begin if nothing lies anywhere.
_ANYWHERE, _TRIES, _START = 1 << 62, 64, 1 << 44
_WORD = (1 << 64) - 1


class Placement(IntEnum):
    """Where new chunks lie, which decides between free blocks of one size.

    ``RECORDED``: the k-th one where the k-th one was recorded, if nothing lies there, else as ``ASCENDING``.  ``ASCENDING`` and ``DESCENDING``: above or
    below all others.  ``REUSE``: in the smallest range that was given back and is large enough, at its low end, else as ``ASCENDING``.  ``SHUFFLED``:
    anywhere.
    """

    RECORDED = 0
    ASCENDING = 1
    DESCENDING = 2
    REUSE = 3
    SHUFFLED = 4


@dataclass(frozen=True)
class Addresses:
    """A rule for the addresses of new chunks, and for ``SHUFFLED`` what it draws by."""

    placement: Placement = Placement.RECORDED
    seed: int = 0


class Fixed(NamedTuple):
    """What addresses are chosen by.

    Attributes:
        placement: The rule.
        seed: What ``SHUFFLED`` draws by, below 2**64.
        low: Nothing that lies anywhere at the beginning begins below it.
        high: Nor ends, now or as recorded, above it.
        recorded: Where memory that was taken lay as recorded, uint64.
    """

    placement: Placement
    seed: int
    low: int
    high: int
    recorded: NDArray[np.uint64]


def fixed(history: RequestHistory, addresses: Addresses, base: NDArray[np.uint64], size: NDArray[np.int64]) -> Fixed:
    """What addresses of new chunks are chosen by, for chunks that are there from the beginning."""
    low, high = _START, _START
    if len(base):
        low, high = int(base.min()), int((base + size.astype(np.uint64)).max())
    recorded = np.zeros(0, np.uint64)
    if addresses.placement == Placement.RECORDED:
        changes = history.changes
        taken = (changes.kind == ChunkChange.TAKEN) | (changes.kind == ChunkChange.MAPPED)
        recorded, sizes = np.ascontiguousarray(changes.addr[taken], np.uint64), changes.size[taken]
        known = (recorded > 0) & (recorded < np.uint64(_ANYWHERE)) & (sizes > 0) & (sizes < 1 << 49)
        recorded = np.where(known, recorded, np.uint64(0))
        high = max(high, int((recorded[known] + sizes[known].astype(np.uint64)).max(initial=0)))
    return Fixed(addresses.placement, addresses.seed & _WORD, low, high, recorded)


class Places:
    """Chooses the addresses of new chunks."""

    def __init__(self, by: Fixed, base: list[int], size: list[int]) -> None:
        self.by = by
        self.up = -(-by.high // STEP) * STEP
        if by.placement == Placement.SHUFFLED:
            self.up = max(self.up, _ANYWHERE)
        self.down = by.low if base else _ANYWHERE
        self.recorded: list[int] = by.recorded.tolist()
        self.taken = self.drawn = 0
        self.held = sorted((start, start + length) for start, length in zip(base, size, strict=True))
        self.ranges: list[tuple[int, int]] = []  # given back: size and address
        self.starts: list[tuple[int, int]] = []  # the same by address

    def place(self, size: int) -> int | None:
        """Where a new chunk lies; ``None`` where no address is left."""
        base = self.range(size)
        if base is not None:
            self.taken += 1
        return base

    def mapped(self) -> None:
        """Pages were mapped: one of what was recorded as taken."""
        self.taken += 1

    def range(self, size: int) -> int | None:
        """A range of addresses, of which nothing is taken yet."""
        base = self._chosen(size)
        if base is None:
            if self.up > END - STEP - size:
                return None
            base = self.up
            self.up = -(-(base + size) // STEP) * STEP
        insort(self.held, (base, base + size))
        return base

    def _chosen(self, size: int) -> int | None:
        placement = self.by.placement
        if placement == Placement.RECORDED and self.taken < len(self.recorded):
            base: int = self.recorded[self.taken]
            if not base or not self._vacant(base, size):
                return None
            self.up = max(self.up, -(-(base + size) // STEP) * STEP)  # it may be larger than the one recorded there
            return base
        if placement == Placement.DESCENDING and self.down - size >= STEP:
            self.down = (self.down - size) // STEP * STEP
            return self.down
        if placement == Placement.REUSE:
            return self._reused(size)
        if placement == Placement.SHUFFLED:
            for _ in range(_TRIES):
                self.drawn += 1
                base = _mixed((self.by.seed + self.drawn * 0x9E3779B97F4A7C15) & _WORD) % (_ANYWHERE // STEP) * STEP
                if base and self._vacant(base, size):
                    return base
        return None

    def _vacant(self, base: int, size: int) -> bool:
        """Whether nothing lies there."""
        at = bisect_left(self.held, (base, 0))
        before = self.held[at - 1][1] if at else 0
        return before <= base and (at == len(self.held) or base + size <= self.held[at][0])

    def _reused(self, size: int) -> int | None:
        """The low end of the smallest range given back that is large enough."""
        whole = -(-size // STEP) * STEP
        at = bisect_left(self.ranges, (whole, 0))
        if at == len(self.ranges):
            return None
        length, base = self.ranges.pop(at)
        del self.starts[bisect_left(self.starts, (base, 0))]
        if length > whole:
            self._vacate(base + whole, length - whole)
        return base

    def _vacate(self, base: int, size: int) -> None:
        insort(self.ranges, (size, base))
        insort(self.starts, (base, size))

    def give_back(self, base: int, size: int) -> None:
        """A chunk, or a range of addresses, was given back."""
        del self.held[bisect_left(self.held, (base, 0))]
        if self.by.placement != Placement.REUSE:
            return
        size = -(-size // STEP) * STEP
        at = bisect_left(self.starts, (base, 0))
        for other in (at, at - 1):
            if 0 <= other < len(self.starts):
                start, length = self.starts[other]
                if start == base + size or start + length == base:
                    del self.starts[other]
                    del self.ranges[bisect_left(self.ranges, (length, start))]
                    base, size = min(base, start), size + length
        self._vacate(base, size)


def _mixed(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31
