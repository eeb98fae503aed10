"""Problems that are aligned exactly, each in a table of its own, and how little they can cost where they are too long for that.

Of a long problem some alignment must be known.  At any point of an alignment both sides have left behind some weight, counted as what entries
cost alone.  A pair takes away from both alike, or costs at least what it does not; so an alignment that gets ahead on one side by so much
weight has paid for it, and pays once more to come back.  What is cheaper than a known alignment therefore stays near the places where both
sides have the same weight behind them: in a corridor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from memlens.columns import Ints, Symbols, align
from memlens.diffing.alignment.costs import WORTH, alone, fate_counts, scale_of, unordered_cost
from memlens.diffing.alignment.indices import batches, starts_of

#: Cells of the tables that are filled by one call: what is gathered for it is small, and between calls a signal is heard.
_CELLS_OF_A_CALL = 1 << 28
#: Cells that are filled to solve a problem exactly, a row at a time, at most; a row takes at least as long as so many cells.
_CELLS, _CELLS_OF_A_ROW = 1 << 28, 1 << 9
#: Cells that are filled to bound its cost, about, and rows of a stretch, at least.
_CELLS_OF_BOUND, _STRETCH = 1 << 29, 1 << 10


class Problem(Struct, frozen=True, eq=False):
    """Two stretches to align: indices in one column of symbols, rising, int64."""

    rows: Ints
    columns: Ints

    @property
    def cells(self) -> int:
        """The size of the table."""
        return len(self.rows) * len(self.columns)


def solve(symbols: Symbols, problems: Sequence[Problem], band: tuple[Ints, Ints] | None = None) -> tuple[Ints, Ints]:
    """Align each problem at least cost; among equally cheap alignments one that shares most marks.

    Args:
        symbols: All symbols that problems take rows and columns from.
        problems: What to align.
        band: For one problem, where to look; see :func:`memlens.columns.align`.

    Returns:
        Indices of the pairs' rows and columns, int64, problem by problem, rising in each.
    """
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for some, rows, row_starts, columns, column_starts in _calls(problems):
        one = symbols.take(rows)
        # About what the rows of each problem weigh.
        heaviest = np.add.reduceat(np.append(one.weight, 0), row_starts[:-1], dtype=np.float64).tolist()
        scale = [scale_of(*of) for of in zip(heaviest, (min(len(p.rows), len(p.columns)) for p in some), strict=True)]
        partner = align(
            one, row_starts, symbols.take(columns), column_starts, WORTH, np.array(scale), band=band
        ).partner
        paired = np.flatnonzero(partner >= 0)
        begin = np.repeat(column_starts[:-1], np.diff(row_starts))[paired]
        found.append((rows[paired], columns[begin + partner[paired]]))
    rows, columns = map(np.concatenate, zip(*found, strict=True))
    return rows, columns


def _calls(problems: Sequence[Problem]) -> Iterator[tuple[Sequence[Problem], Ints, Ints, Ints, Ints]]:
    """The problems that are solved by one call: rows laid end to end, where those of each begin and the last ones end, and so the columns."""
    for call in batches([problem.cells for problem in problems], _CELLS_OF_A_CALL):
        some = problems[call]
        sides = [problem.rows for problem in some], [problem.columns for problem in some]
        (rows, row_starts), (columns, column_starts) = (
            (np.concatenate(side), np.cumsum([0, *map(len, side)])) for side in sides
        )
        yield some, rows, row_starts, columns, column_starts


def _least_costs(symbols: Symbols, problems: Sequence[Problem]) -> int:
    """Return the least cost of the rows of problems, wherever among its columns those of each stand, in halves of a unit of weight.

    What stands before the first and after the last column that is used costs nothing; the columns in between cost what they do.
    """
    cost = 0
    for some, rows, row_starts, columns, column_starts in _calls(problems):
        one, two = symbols.take(rows), symbols.take(columns)
        # With so many columns left out before, what the columns up to here cost alone is what there is to save.
        before = np.concatenate([starts_of(costs) for costs in np.split(alone(two), column_starts[1:-1])])
        scale = np.zeros(len(some), np.int64)
        found = align(one, row_starts, two, column_starts, WORTH, scale, before=before)
        cost += int(alone(one).sum() - found.saved.sum())
    return cost


class Corridor(Struct, frozen=True, eq=False):
    """The part of a table through which each alignment runs that costs no more than a known one.

    Attributes:
        problem: The problem.
        first: After each number of rows the least number of columns, int64 (rows + 1), rising.
        last: The largest number of columns, likewise.
    """

    problem: Problem
    first: Ints
    last: Ints

    @classmethod
    def of(cls, symbols: Symbols, problem: Problem, cost: int) -> Corridor:
        """The corridor of alignments that cost at most ``cost``, in halves of a unit of weight."""
        rows, columns = (starts_of(alone(symbols, at)) for at in (problem.rows, problem.columns))
        more = int(rows[-1] - columns[-1])
        # |x| + |more - x| <= cost, with x what the rows have behind them less what the columns have.
        first = np.searchsorted(2 * columns, 2 * rows - (cost + more), "left")
        last = np.searchsorted(2 * columns, 2 * rows + (cost - more), "right") - 1
        return cls(problem, first, last)

    @property
    def solvable(self) -> bool:
        """It is narrow enough to be solved as a whole."""
        return int((self.last - self.first).sum()) + len(self.first) * _CELLS_OF_A_ROW <= _CELLS

    def solve(self, symbols: Symbols) -> tuple[Ints, Ints]:
        """The cheapest alignment, and of several the one that shares most marks: indices of the pairs' rows and columns."""
        return solve(symbols, [self.problem], (self.first, self.last))

    def stretches(self) -> list[Problem]:
        """The rows taken apart into stretches, each with all columns that it can reach."""
        height, wide = len(self.problem.rows), int((self.last - self.first).max())
        edges = np.linspace(0, height, max(height // max(wide, _STRETCH), 1) + 1).astype(np.int64)
        lo, hi = self.first[edges[:-1]], self.last[edges[1:]]
        return [
            Problem(self.problem.rows[top:bottom], self.problem.columns[left:right])
            for top, bottom, left, right in zip(edges[:-1], edges[1:], lo, hi, strict=True)
        ]


def least_cost(symbols: Symbols, problem: Problem, cost: int) -> int:
    """Return a cost that no alignment of a problem is below, in halves of a unit of weight.

    The rows are taken apart into stretches, and each is put where among the columns that it can reach it costs least.  Where that takes too
    long only the larger blocks are looked at so, and the smaller ones are counted without regard to order: what the blocks of one
    key cost in an alignment is not less for the others being left out.

    Args:
        symbols: All symbols that the problem takes rows and columns from.
        problem: The problem.
        cost: What a known alignment costs, in halves of a unit of weight.
    """
    weights, unordered, blocks = unordered_costs_of(symbols, problem)
    least = int(unordered.sum())
    # From the largest weight on: what is left to the others, and how much there would be to fill.
    left = cost - (least - np.cumsum(unordered))
    held = np.cumsum(blocks * weights)
    cells = np.cumsum(blocks).astype(np.float64) ** 2 * np.minimum(left / np.maximum(held, 1), 1)
    fits = np.flatnonzero(cells <= _CELLS_OF_BOUND)
    if not len(fits):
        return least
    kept = int(fits[-1])
    some = Problem(*(at[symbols.weight[at] >= weights[kept]] for at in (problem.rows, problem.columns)))
    if not some.cells:
        return least
    stretches = Corridor.of(symbols, some, int(left[kept])).stretches()
    if sum(stretch.cells for stretch in stretches) > 2 * _CELLS_OF_BOUND:
        return least
    return max(least, _least_costs(symbols, stretches) + int(unordered[kept + 1 :].sum()))


def unordered_costs_of(symbols: Symbols, problem: Problem) -> tuple[Ints, Ints, Ints]:
    """The weights of a problem, falling; what their blocks cost without regard to order, in halves of a unit; and how many there are; int64."""
    at = np.concatenate((problem.rows, problem.columns))
    keys, first, key = np.unique(symbols.key[at], return_index=True, return_inverse=True)
    held, rows = symbols.held[at], len(problem.rows)
    one, two = (fate_counts(key[of], held[of], len(keys)) for of in (slice(rows), slice(rows, None)))
    weight = symbols.weight[at[first]]
    weights, of_key = np.unique(-weight, return_inverse=True)
    costs, blocks = np.zeros(len(weights), np.int64), np.zeros(len(weights), np.int64)
    np.add.at(costs, of_key, weight * unordered_cost(one - two))
    np.add.at(blocks, of_key, (one + two).sum(axis=1))
    return -weights, costs, blocks
