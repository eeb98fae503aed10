"""Where a cheapest alignment of a long problem must run, once some alignment of it is known; solved exactly, or bounded, in there.

At any point of an alignment both sides have left behind some weight, counted as what entries cost alone.  A pair takes away from both alike,
or costs at least what it does not; so an alignment that gets ahead on one side by so much weight has paid for it, and pays once more to
come back.  What is cheaper than a known alignment therefore stays near the places where both sides have the same weight behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.bounds import unordered_costs_of
from memlens.diffing.lanes import Problem, Symbols, least_costs, scale_of, shared_marks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["Corridor", "least_cost"]

#: Cells that are filled to solve a problem exactly, a row at a time, at most; a row takes at least as long as so many cells.
_CELLS, _CELLS_OF_A_ROW = 1 << 26, 1 << 11
#: Cells that are filled to bound its cost, many rows side by side, about, and rows of a stretch, at least.
_CELLS_OF_BOUND, _STRETCH = 1 << 27, 1 << 10


@dataclass(frozen=True, eq=False)
class Corridor:
    """Where an alignment of a problem must run that costs no more than a known one.

    Attributes:
        rows: All symbols that the problem takes rows from.
        columns: All symbols that the problem takes columns from.
        problem: The problem.
        first: After each number of rows the least number of columns, int64 (rows + 1), rising.
        last: The largest number of columns, likewise.
    """

    rows: Symbols
    columns: Symbols
    problem: Problem
    first: Ints
    last: Ints

    @classmethod
    def of(cls, rows: Symbols, columns: Symbols, problem: Problem, cost: int) -> Corridor:
        """The corridor of alignments that cost at most ``cost``, in halves of a unit of weight."""
        behind = [
            np.append(0, np.cumsum(side.alone(at))) for side, at in ((rows, problem.rows), (columns, problem.columns))
        ]
        more = int(behind[0][-1] - behind[1][-1])
        # |x| + |more - x| <= cost, with x what the rows have behind them less what the columns have.
        first = np.searchsorted(2 * behind[1], 2 * behind[0] - (cost + more), "left")
        last = np.searchsorted(2 * behind[1], 2 * behind[0] + (cost - more), "right") - 1
        return cls(rows, columns, problem, first, last)

    @property
    def solvable(self) -> bool:
        """Whether it is narrow enough to be solved as a whole."""
        return int((self.last - self.first).sum()) + len(self.first) * _CELLS_OF_A_ROW <= _CELLS

    def solve(self) -> tuple[Ints, Ints]:
        """The cheapest alignment, and of several the one that shares most marks: places of the pairs in rows and in columns."""
        row_marks, column_marks = self.rows.marks[self.problem.rows], self.columns.marks[self.problem.columns]
        row_key, column_key = self.rows.key[self.problem.rows], self.columns.key[self.problem.columns]
        row_held, column_held = self.rows.held[self.problem.rows], self.columns.held[self.problem.columns]
        weight = self.rows.weight[self.problem.rows]
        scale = scale_of(float(weight.sum(dtype=np.float64)), min(len(row_key), len(column_key)))
        other_fate = weight * (scale or 1)
        same_fate = other_fate * np.where(row_held, 4, 2)
        # The most that can be saved with so many columns; what lies left of the corridor keeps what an earlier row had there.
        best = np.zeros(len(column_key) + 1, np.int64)
        kept: list[tuple[int, NDArray[np.uint8], Ints]] = []
        filled = 0
        none = np.zeros(0, np.uint8), np.zeros(0, np.int64)
        for row, (first, last) in enumerate(zip(self.first[1:].tolist(), self.last[1:].tolist(), strict=True)):
            best[filled + 1 : last + 1] = best[filled]
            filled = max(filled, last)
            start = max(first - 1, 0)
            cells = np.flatnonzero(column_key[start:last] == row_key[row]) + start
            if not len(cells):
                kept.append((first, *none))
                continue
            saved = np.where(column_held[cells] == row_held[row], same_fate[row], other_fate[row])
            if scale:
                saved += shared_marks(column_marks[cells], row_marks[row])
            saved += best[cells]
            over = best[cells + 1]
            here = best[first : last + 1]
            above = here.copy()
            best[cells + 1] = np.maximum(over, saved)
            np.maximum.accumulate(here, out=here)
            decides = (saved > np.maximum(over, best[cells])) & (best[cells + 1] == saved)
            kept.append((first, np.packbits(here > above), cells[decides]))
        return self._walk_back(kept)

    def _walk_back(self, kept: list[tuple[int, NDArray[np.uint8], Ints]]) -> tuple[Ints, Ints]:
        """The pairs on the way from the last cell to the first.

        Args:
            kept: For each row where its cells begin, a bit a cell whether it saves more than the row above, and the columns whose pair
                makes the difference.
        """
        pairs: list[tuple[int, int]] = []
        at = len(self.problem.columns)
        for row in range(len(kept) - 1, -1, -1):
            first, raised, cells = kept[row]
            at = min(at, int(self.last[row + 1]))
            place = at - first
            if place >= 0 and len(cells) and raised[place >> 3] >> (7 - (place & 7)) & 1:
                at = int(cells[np.searchsorted(cells, at - 1, "right") - 1])
                pairs.append((row, at))
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return self.problem.rows[found[:, 0]], self.problem.columns[found[:, 1]]

    def stretches(self) -> list[Problem]:
        """The rows taken apart into stretches, each with all columns that it can reach."""
        height, wide = len(self.problem.rows), int((self.last - self.first).max())
        edges = np.linspace(0, height, max(height // max(wide, _STRETCH), 1) + 1).astype(np.int64)
        lo, hi = self.first[edges[:-1]], self.last[edges[1:]]
        return [
            Problem(self.problem.rows[top:bottom], self.problem.columns[left:right])
            for top, bottom, left, right in zip(edges[:-1], edges[1:], lo, hi, strict=True)
        ]


def least_cost(rows: Symbols, columns: Symbols, problem: Problem, cost: int) -> int:
    """What no alignment of a problem can cost less than.

    The rows are taken apart into stretches, and each is put where among the columns that it can reach it costs least.  Where that takes too
    long only the larger blocks are looked at so, and the smaller ones are counted without regard to order: what the blocks of one
    key cost in an alignment is not less for the others being left out.

    Args:
        rows: All symbols that the problem takes rows from.
        columns: All symbols that the problem takes columns from.
        problem: The problem.
        cost: What a known alignment costs, in halves of a unit of weight.
    """
    weights, unordered, blocks = _by_weight(rows, columns, problem)
    least = int(unordered.sum())
    # From the largest weight on: what is left to the others, and how much there would be to fill.
    left = cost - (least - np.cumsum(unordered))
    held = np.cumsum(blocks * weights)
    cells = np.cumsum(blocks).astype(np.float64) ** 2 * np.minimum(left / np.maximum(held, 1), 1)
    fits = np.flatnonzero(cells <= _CELLS_OF_BOUND)
    if not len(fits):
        return least
    kept = int(fits[-1])
    some = Problem(
        *(at[side.weight[at] >= weights[kept]] for side, at in ((rows, problem.rows), (columns, problem.columns)))
    )
    if not some.cells:
        return least
    stretches = Corridor.of(rows, columns, some, int(left[kept])).stretches()
    if sum(stretch.cells for stretch in stretches) > 2 * _CELLS_OF_BOUND:
        return least
    in_order = sum(least_costs(rows, columns, [stretch for stretch in stretches if stretch.cells]))
    return max(least, in_order + int(unordered[kept + 1 :].sum()))


def _by_weight(rows: Symbols, columns: Symbols, problem: Problem) -> tuple[Ints, Ints, Ints]:
    """The weights of a problem, falling; what the blocks of each cost without regard to order; and how many there are; int64."""
    weights, costs, blocks = unordered_costs_of(rows, columns, problem)
    different, at = np.unique(-weights, return_inverse=True)
    summed = [np.zeros(len(different), np.int64) for _ in range(2)]
    np.add.at(summed[0], at, costs)
    np.add.at(summed[1], at, blocks)
    return -different, summed[0], summed[1]
