"""Problems that are aligned exactly, each in a table of its own, and how little they can cost where they are too long for that.

Of a long problem some alignment must be known.  At any point of an alignment both sides have left behind some weight, counted as what entries
cost alone.  A pair takes away from both alike, or costs at least what it does not; so an alignment that gets ahead on one side by so much
weight has paid for it, and pays once more to come back.  What is cheaper than a known alignment therefore stays near the places where both
sides have the same weight behind them: in a corridor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import align
from memlens.diffing.costs import WORTH, alone, scale_of, unordered_cost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Symbols

    Ints = NDArray[np.int64]

__all__ = ["Corridor", "Problem", "least_cost", "solve", "unordered_costs_of"]

#: Cells of the tables that are filled by one call: what is gathered for it is small, and between calls a signal is heard.
_CELLS_OF_A_CALL = 1 << 28
#: Cells that are filled to solve a problem exactly, a row at a time, at most; a row takes at least as long as so many cells.
_CELLS, _CELLS_OF_A_ROW = 1 << 28, 1 << 9
#: Cells that are filled to bound its cost, about, and rows of a stretch, at least.
_CELLS_OF_BOUND, _STRETCH = 1 << 29, 1 << 10


@dataclass(frozen=True, eq=False)
class Problem:
    """Two stretches to align: indices in the symbols of the rows and in those of the columns, rising, int64."""

    rows: Ints
    columns: Ints

    @property
    def cells(self) -> int:
        """How large the table is."""
        return len(self.rows) * len(self.columns)


def solve(rows: Symbols, columns: Symbols, problems: Sequence[Problem]) -> tuple[Ints, Ints]:
    """Align each problem at least cost; among equally cheap alignments one that shares most marks.

    Args:
        rows: All symbols that problems take rows from.
        columns: All symbols that problems take columns from.
        problems: What to align.

    Returns:
        Indices in ``rows`` and in ``columns`` of the pairs, int64, problem by problem, rising in each.
    """
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for some in _calls(problems):
        row_at, row_starts, column_at, column_starts = _laid_out(some)
        one, two = rows.take(row_at), columns.take(column_at)
        scale = np.array([
            scale_of(heaviest, min(len(problem.rows), len(problem.columns)))
            for heaviest, problem in zip(_sums(one.weight, row_starts), some, strict=True)
        ])  # fmt: skip
        partner = align(one, row_starts, two, column_starts, WORTH, scale).partner
        paired = np.flatnonzero(partner >= 0)
        begin = np.repeat(column_starts[:-1], np.diff(row_starts))[paired]
        found.append((row_at[paired], column_at[begin + partner[paired]]))
    return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])


def _calls(problems: Sequence[Problem]) -> Iterator[list[Problem]]:
    """The problems in runs that are solved by one call each."""
    some: list[Problem] = []
    cells = 0
    for problem in problems:
        if some and cells + problem.cells > _CELLS_OF_A_CALL:
            yield some
            some, cells = [], 0
        some.append(problem)
        cells += problem.cells
    if some:
        yield some


def _laid_out(problems: Sequence[Problem]) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows laid end to end, where those of each problem begin and the last ones end, and the same of columns; int64."""
    sides = [problem.rows for problem in problems], [problem.columns for problem in problems]
    rows, columns = ((np.concatenate(side), np.cumsum([0, *map(len, side)])) for side in sides)
    return *rows, *columns


def _sums(values: Ints, starts: Ints) -> list[float]:
    """About what the values of each stretch add up to; a stretch of none counts as one value, or as none."""
    sums: list[float] = np.add.reduceat(np.append(values, 0), starts[:-1], dtype=np.float64).tolist()
    return sums


def _least_costs(rows: Symbols, columns: Symbols, problems: Sequence[Problem]) -> int:
    """What the rows of problems cost at least, wherever among its columns those of each stand, in halves of a unit of weight.

    What stands before the first and after the last column that is used costs nothing; the columns in between cost what they do.
    """
    cost = 0
    for some in _calls(problems):
        row_at, row_starts, column_at, column_starts = _laid_out(some)
        one, two = rows.take(row_at), columns.take(column_at)
        # With so many columns left out before, what the columns up to here cost alone is what there is to save.
        each = np.split(alone(two), column_starts[1:-1])
        before = np.concatenate([np.append(0, np.cumsum(costs)) for costs in each])
        no_marks = np.zeros(len(some), np.int64)
        cost += int(
            alone(one).sum() - align(one, row_starts, two, column_starts, WORTH, no_marks, before=before).saved.sum()
        )
    return cost


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
            np.append(0, np.cumsum(alone(side, at))) for side, at in ((rows, problem.rows), (columns, problem.columns))
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
        """The cheapest alignment, and of several the one that shares most marks: indices of the pairs in rows and in columns."""
        one, two = self.rows.take(self.problem.rows), self.columns.take(self.problem.columns)
        scale = np.array([scale_of(float(one.weight.sum(dtype=np.float64)), min(len(one), len(two)))])
        edges = np.array([0, len(one)]), np.array([0, len(two)])
        partner = align(one, edges[0], two, edges[1], WORTH, scale, band=(self.first, self.last)).partner
        paired = np.flatnonzero(partner >= 0)
        return self.problem.rows[paired], self.problem.columns[partner[paired]]

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
    in_order = _least_costs(rows, columns, stretches)
    return max(least, in_order + int(unordered[kept + 1 :].sum()))


def _by_weight(rows: Symbols, columns: Symbols, problem: Problem) -> tuple[Ints, Ints, Ints]:
    """The weights of a problem, falling; what the blocks of each cost without regard to order; and how many there are; int64."""
    weights, costs, blocks = unordered_costs_of(rows, columns, problem)
    different, at = np.unique(-weights, return_inverse=True)
    summed = [np.zeros(len(different), np.int64) for _ in range(2)]
    np.add.at(summed[0], at, costs)
    np.add.at(summed[1], at, blocks)
    return -different, summed[0], summed[1]


def unordered_costs_of(rows: Symbols, columns: Symbols, problem: Problem) -> tuple[Ints, Ints, Ints]:
    """The keys of a problem without regard to order, each for itself, int64.

    Returns:
        The weight of each key; what its blocks cost at least, in halves of a unit of weight; and how many blocks of it both sides have.
    """
    sides = (rows, problem.rows), (columns, problem.columns)
    kinds = 1 + max(int(side.key[at].max()) for side, at in sides)
    weight, counts = np.zeros(kinds, np.int64), []
    for side, at in sides:
        weight[side.key[at]] = side.weight[at]
        counts.append(
            np.bincount(side.key[at].astype(np.int64) * 2 + side.held[at], minlength=2 * kinds).reshape(kinds, 2)
        )
    some = np.flatnonzero((counts[0] + counts[1]).any(axis=1))
    one, two = counts[0][some], counts[1][some]
    return weight[some], weight[some] * unordered_cost(one - two), (one + two).sum(axis=1)
