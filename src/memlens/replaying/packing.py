"""How little memory could hold the blocks of a run: the most bytes live at once, and a packing of all of them.

A packing gives each block an address for its whole life, so that no two that live at once overlap; its height is the memory that a planner
who knows all in advance needs.  Finding the lowest is hard (dynamic storage allocation), so what is given is one that was found: blocks by
falling size, each into the smallest gap that takes it between those that live with it (best fit, decreasing).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlens.analyzers.result import Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["BlockStays", "PackedHeight", "best_packing", "live_peak", "pack", "stays_of"]

#: Blocks that are packed one by one; of more the smaller ones lie above them, those of one size in places of their own.
MOST_PACKED = 6_000
#: Blocks of which the lowest packing is sought, and how long: a measure of work, about a second, so that each machine finds the same.
MOST_EXACT, EFFORT = 200, 0.2


class BlockStays(NamedTuple):
    """Blocks and from when to when they are there: bytes, the first operation and the one before which each is gone; int64, one entry a block."""

    size: Ints
    begin: Ints
    end: Ints

    def take(self, which: Any) -> BlockStays:
        """Some of them."""
        return BlockStays(self.size[which], self.begin[which], self.end[which])


@dataclass(frozen=True)
class PackedHeight(Row):
    """What a packing needs.

    Attributes:
        height_bytes: Its height.
        how: How it was found: ``one by one``, ``largest one by one`` or ``solver``.
        blocks: Blocks in it.
        lowest: No packing is lower: it is as high as the most bytes live at once, or the solver has shown it.
    """

    height_bytes: int
    how: str
    blocks: int
    lowest: bool


def stays_of(operation: NDArray[Any], of: Ints, block: Ints) -> BlockStays:
    """The blocks of a history (its columns ``operation`` and ``of``), with their bytes under some rules."""
    requests = np.flatnonzero(operation == 0)
    end = np.full(len(operation), len(operation), np.int64)
    frees = np.flatnonzero(operation == 1)
    end[of[frees]] = frees
    size = np.asarray(block, np.int64)[requests]
    there = size > 0
    return BlockStays(size[there], requests[there].astype(np.int64), end[requests[there]])


def live_peak(stays: BlockStays) -> int:
    """The most bytes live at once."""
    if not len(stays.size):
        return 0
    at = np.concatenate([stays.end, stays.begin])
    change = np.concatenate([-stays.size, stays.size])
    order = np.argsort(at, kind="stable")  # a block that is gone makes room for one that begins there
    return max(int(np.cumsum(change[order]).max()), 0)


def pack(stays: BlockStays) -> Ints:
    """An offset for each block, so that no two that live at once overlap; int64.  In time that grows with the square of the blocks."""
    count = len(stays.size)
    offsets = np.zeros(count, np.int64)
    order = np.lexsort((stays.begin, stays.begin - stays.end, -stays.size))
    # Those that have an offset, in the order of their offsets.
    offset, top, begin, end = (np.zeros(count, np.int64) for _ in range(4))
    for placed, block in enumerate(order.tolist()):
        size, first, last = int(stays.size[block]), stays.begin[block], stays.end[block]
        near = np.flatnonzero((begin[:placed] < last) & (end[:placed] > first))
        reach = np.maximum.accumulate(np.concatenate([[0], top[near]]))
        gap = offset[near] - reach[:-1]
        fits = np.flatnonzero(gap >= size)
        chosen = int(reach[fits[np.argmin(gap[fits])]] if len(fits) else reach[-1])
        offsets[block] = chosen
        at = int(np.searchsorted(offset[:placed], chosen))
        for column, value in ((offset, chosen), (top, chosen + size), (begin, first), (end, last)):
            column[at + 1 : placed + 1] = column[at:placed]
            column[at] = value
    return offsets


def _height(stays: BlockStays) -> int:
    return int((pack(stays) + stays.size).max(initial=0))


def _by_classes(stays: BlockStays) -> int:
    """The height of a packing in which blocks of one size share as many places as there are of them at once."""
    size = np.concatenate([stays.size, stays.size])
    at = np.concatenate([stays.end, stays.begin])
    change = np.repeat(np.array([-1, 1], np.int64), len(stays.size))
    order = np.lexsort((change, at, size))
    # Each size comes back to zero at its end, so that one running sum counts them all.
    live = np.cumsum(change[order])
    sizes, starts = np.unique(size[order], return_index=True)
    return int((np.maximum.reduceat(live, starts) * sizes).sum()) if len(sizes) else 0


def best_packing(stays: BlockStays) -> PackedHeight:
    """The lowest packing that was found."""
    bound, count = live_peak(stays), len(stays.size)
    if count > MOST_PACKED:
        order = np.argsort(-stays.size, kind="stable")
        largest, others = stays.take(order[:MOST_PACKED]), stays.take(order[MOST_PACKED:])
        height = _height(largest) + _by_classes(others)
        return PackedHeight(height, "largest one by one", count, height == bound)
    height = _height(stays)
    found = _solved(stays, bound, height) if height > bound and count <= MOST_EXACT else None
    if found is not None and (found[0] < height or found[1]):
        return PackedHeight(found[0], "solver", count, found[1])
    return PackedHeight(height, "one by one", count, height == bound)


def _solved(stays: BlockStays, bound: int, height: int) -> tuple[int, bool] | None:
    """The lowest packing that OR-tools finds in a few seconds, and whether there is none below; ``None`` where it is not installed, or finds none."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    unit = int(np.gcd.reduce(stays.size))
    model = cp_model.CpModel()
    top = model.new_int_var(bound // unit, height // unit, "")
    lives, places = [], []
    for size, begin, end, hint in zip(*(column.tolist() for column in (*stays, pack(stays))), strict=True):
        offset = model.new_int_var(0, height // unit - size // unit, "")
        lives.append(model.new_fixed_size_interval_var(begin, end - begin, ""))
        places.append(model.new_fixed_size_interval_var(offset, size // unit, ""))
        model.add(top >= offset + size // unit)
        model.add_hint(offset, hint // unit)
    model.add_no_overlap_2d(lives, places)
    model.add_cumulative(lives, (stays.size // unit).tolist(), top)  # follows from the above, and says it at once
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = EFFORT
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    found = solver.solve(model)
    if found not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return int(solver.objective_value) * unit, found == cp_model.OPTIMAL
