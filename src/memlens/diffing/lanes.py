"""The exact alignment of many small pairs of sequences at once, by dynamic programming.

To make an alignment as cheap as can be is to make what its pairs *save* as large as can be: unpaired, everything costs
its own share, and a pair saves the difference.  With ``best[i, j]`` the most that the first ``i`` rows and ``j`` columns can save,

    best[i+1, j+1] = max(best[i, j+1], best[i+1, j], best[i, j] + saved(i, j) where row i and column j may pair)

A row depends on itself only through the running maximum, so a row is a handful of array operations.  Problems of alike
width are solved side by side, each in a *lane*, so that the cost of a Python step is shared by all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["Problem", "Symbols", "least_costs", "mix", "savings", "scale_of", "shared_marks", "solve"]

#: Cells of one row over all lanes: a row and what is made of it stay in the second-level cache.
_WIDE = 1 << 15
#: Cells of a batch of lanes: what is kept of each for the way back is one bit.
_BATCH_CELLS = 1 << 28
#: What the four marks of a pair are worth where they are equal, as the bytes of a word, and the most that they add up to.
_WORTH = np.uint32(0x04_01_01_01)
_MOST_WORTH = 7


@dataclass(frozen=True, eq=False)
class Symbols:
    """Things to align, one entry each.

    Attributes:
        key: Only equal keys pair, int32, not negative.
        held: Their fate; pairs of equal fate are better, bool.
        weight: Bytes in any common unit; equal for equal keys, int64.
        marks: Four marks of 16 bits each in a word, uint64: among equally cheap alignments the one whose pairs share most of
            them wins.  The lowest one counts four, the others one each.
    """

    key: NDArray[np.int32]
    held: NDArray[np.bool_]
    weight: Ints
    marks: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, at: Ints) -> Symbols:
        """Some of them, in the order given."""
        return Symbols(self.key[at], self.held[at], self.weight[at], self.marks[at])

    def alone(self, at: Ints) -> Ints:
        """What some of them cost without a partner, in halves of a unit of weight, int64."""
        return self.weight[at] * np.where(self.held[at], 2, 1)


@dataclass(frozen=True, eq=False)
class Problem:
    """Two stretches to align: places in the symbols of the rows and in those of the columns, rising, int64."""

    rows: Ints
    columns: Ints

    @property
    def cells(self) -> int:
        """How large the table is."""
        return len(self.rows) * len(self.columns)


def savings(rows: Symbols, columns: Symbols, of_rows: Ints, of_columns: Ints) -> Ints:
    """What pairs save against leaving both alone, in halves of a unit of weight, int64: 4 for two held, 2 for two temporaries, else 1.

    Args:
        rows: The symbols of one side.
        columns: The symbols of the other.
        of_rows: The places of the pairs in ``rows``.
        of_columns: Their places in ``columns``.
    """
    held = rows.held[of_rows]
    halves = np.where(held == columns.held[of_columns], np.where(held, 4, 2), 1)
    saved: Ints = rows.weight[of_rows] * halves
    return saved


def mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers of 64 bits sent to others that look random (the finaliser of SplitMix64), one to one."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def solve(rows: Symbols, columns: Symbols, problems: Sequence[Problem]) -> tuple[Ints, Ints]:
    """Align each problem at least cost; among equally cheap alignments one that shares most marks.

    Args:
        rows: All symbols that problems take rows from.
        columns: All symbols that problems take columns from.
        problems: What to align.  None may be empty on a side.

    Returns:
        Places in ``rows`` and in ``columns`` of the pairs, int64, in no order over problems.
    """
    found: list[tuple[Ints, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for batch in _batches(problems):
        found.extend(_solve_batch(rows, columns, batch))
    return np.concatenate([pair[0] for pair in found]), np.concatenate([pair[1] for pair in found])


def least_costs(rows: Symbols, columns: Symbols, problems: Sequence[Problem]) -> list[int]:
    """What the rows of each problem cost at least, wherever among its columns they stand, in halves of a unit of weight.

    What stands before the first and after the last column that is used costs nothing; the columns in between cost what they do.
    """
    costs: list[int] = []
    for batch in _batches(problems):
        row_at, column_at = _laid_out(batch)
        # With so many columns left out before, what the columns up to here cost alone is what there is to save.
        alone = np.zeros((len(batch), column_at.shape[1] + 1), np.int64)
        np.cumsum(np.where(column_at < 0, 0, columns.alone(column_at)), axis=1, out=alone[:, 1:])
        saved = _fill(rows, columns, row_at, column_at, alone).best - alone
        costs.extend(
            int(rows.alone(problem.rows).sum()) - most
            for problem, most in zip(batch, saved.max(axis=1).tolist(), strict=True)
        )
    return costs


def _batches(problems: Sequence[Problem]) -> Iterator[list[Problem]]:
    """Put problems of alike size side by side."""
    batch: list[Problem] = []
    tallest = 0
    for problem in sorted(problems, key=lambda p: (len(p.columns), len(p.rows)), reverse=True):
        widest = len(batch[0].columns) if batch else len(problem.columns)
        taller = max(tallest, len(problem.rows))
        lanes = len(batch) + 1
        # A lane that is much lower or narrower than the others would be mostly air.
        airy = 2 * len(problem.columns) < widest - 64 or 2 * min(tallest or taller, len(problem.rows)) < taller - 64
        if batch and (lanes * widest > _WIDE or lanes * widest * taller > _BATCH_CELLS or airy):
            yield batch
            batch, taller = [], len(problem.rows)
        batch.append(problem)
        tallest = taller
    if batch:
        yield batch


def _solve_batch(rows: Symbols, columns: Symbols, batch: Sequence[Problem]) -> list[tuple[Ints, Ints]]:
    """Align a batch; pairs as places in ``rows`` and ``columns``."""
    row_at, column_at = _laid_out(batch)
    return _walk_back(_fill(rows, columns, row_at, column_at), row_at, column_at)


def _laid_out(batch: Sequence[Problem]) -> tuple[Ints, Ints]:
    """The places of the rows, (height, lanes), and of the columns, (lanes, width), of a batch; -1 where a lane has none."""
    lanes, height = len(batch), max(len(problem.rows) for problem in batch)
    width = max(len(problem.columns) for problem in batch)
    row_at = np.full((height, lanes), -1, np.int64)
    column_at = np.full((lanes, width), -1, np.int64)
    for lane, problem in enumerate(batch):
        row_at[: len(problem.rows), lane] = problem.rows
        column_at[lane, : len(problem.columns)] = problem.columns
    return row_at, column_at


@dataclass(frozen=True, eq=False)
class _Table:
    """What the way back needs of each row.

    Attributes:
        raised: Whether the row saves more than the row above, a bit a cell: uint8, (height, lanes, ⌈(width + 1) / 8⌉).
        pairs: For each row the cells in which a pair makes the difference, as places in the flat (lanes, width + 1) row, rising.
        best: What is saved after the last row, int64 (lanes, width + 1).
    """

    raised: NDArray[np.uint8]
    pairs: list[Ints]
    best: Ints


def _fill(rows: Symbols, columns: Symbols, row_at: Ints, column_at: Ints, before: Ints | None = None) -> _Table:
    """Fill the tables of a batch.

    Args:
        rows: All symbols of the rows.
        columns: All symbols of the columns.
        row_at: Places of the rows, (height, lanes).
        column_at: Places of the columns, (lanes, width).
        before: What is saved before the first row, (lanes, width + 1).  Given, marks do not count, and nothing is kept for the way back.
    """
    height, lanes = row_at.shape
    width = column_at.shape[1]
    column_key = np.where(column_at < 0, np.int32(-1), columns.key[column_at])  # (lanes, width); -1 pairs with nothing
    column_held, column_marks = columns.held[column_at].ravel(), columns.marks[column_at].ravel()
    row_key = np.where(row_at < 0, np.int32(-2), rows.key[row_at])
    row_held, row_marks = rows.held[row_at], rows.marks[row_at]
    heaviest = np.where(row_at < 0, 0, rows.weight[row_at]).sum(axis=0, dtype=np.float64).max()
    scale = scale_of(float(heaviest), min(height, width)) if before is None else 0
    # In units of half a block: of equal fate a held pair saves 4 halves and a temporary one 2, of different fate 1.
    other_fate = rows.weight[row_at] * (scale or 1)
    same_fate = other_fate * np.where(row_held, 4, 2)

    # int64 (lanes, width + 1): the most that can be saved; the first column stands for no columns at all.
    best = np.zeros((lanes, width + 1), np.int64) if before is None else before.copy()
    above = np.zeros_like(best)
    flat, flat_above = best.ravel(), above.ravel()
    raised = np.zeros((height if before is None else 0, lanes, (width + 8) // 8), np.uint8)
    alike = np.empty((lanes, width), np.bool_)
    higher = np.empty((lanes, width + 1), np.bool_)
    none = np.zeros(0, np.int64)
    pairs: list[Ints] = [none] * height
    for row in range(height):
        np.equal(column_key, row_key[row][:, None], out=alike)
        cells = alike.ravel().nonzero()[0]
        if not len(cells):
            continue
        best, above, flat, flat_above = above, best, flat_above, flat
        lane = cells // width
        same = column_held.take(cells) == row_held[row].take(lane)
        saved = np.where(same, same_fate[row].take(lane), other_fate[row].take(lane))
        if scale:
            saved += shared_marks(column_marks.take(cells), row_marks[row].take(lane))
        cells += lane  # from (lanes, width) to the cell up and to the left in (lanes, width + 1)
        saved += flat_above.take(cells)
        cells += 1
        over = flat_above.take(cells)
        best[:] = above
        flat[cells] = np.maximum(over, saved)
        np.maximum.accumulate(best, axis=1, out=best)
        if before is not None:
            continue
        np.greater(best, above, out=higher)
        raised[row] = np.packbits(higher, axis=1)
        decides = saved > np.maximum(over, flat.take(cells - 1))
        decides &= flat.take(cells) == saved
        pairs[row] = cells[decides]
    return _Table(raised, pairs, best)


def shared_marks(some: NDArray[np.uint64], others: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint32]:
    """What the marks that each pair shares are worth; ``some`` is used up."""
    some ^= others
    # Four truth values as the bytes of a word; one multiplication adds up what each is worth in the word's highest byte.
    shared = (some.view(np.uint16) == 0).view(np.uint32)
    worth: NDArray[np.uint32] = (shared * _WORTH) >> np.uint32(24)
    return worth


def scale_of(heaviest: float, most_pairs: int) -> int:
    """What a unit of weight must count so that marks never outweigh one; 0, marks do not count, where that would overflow.

    Args:
        heaviest: What the rows weigh together.
        most_pairs: Pairs that there can be.
    """
    scale = _MOST_WORTH * most_pairs + 1
    return 0 if 4.0 * heaviest * scale >= 2.0**62 else scale


def _walk_back(table: _Table, row_at: Ints, column_at: Ints) -> list[tuple[Ints, Ints]]:
    """From the last cell of each lane to the first: the pairs on the way."""
    height, lanes = row_at.shape
    width = column_at.shape[1]
    every = np.arange(lanes)
    column = np.full(lanes, width, np.int64)  # where each lane stands, counted as in the table
    found: list[tuple[Ints, Ints]] = []
    for row in range(height - 1, -1, -1):
        cells = table.pairs[row]
        if not len(cells):
            continue
        bits = table.raised[row, every, column >> 3]
        lane = np.flatnonzero((bits >> (7 - (column & 7)).astype(np.uint8)) & 1)
        if not len(lane):
            continue
        # The pair that raised a row is the last one at or before the cell: between the two nothing changes.
        cell = cells[np.searchsorted(cells, lane * (width + 1) + column[lane], "right") - 1]
        column[lane] = cell - lane * (width + 1) - 1
        found.append((row_at[row, lane], column_at[lane, column[lane]]))
    return found
