"""Problems that are aligned exactly, each in a table of its own; and what is too long for that: cut into pieces, and how little it can cost.

The cost rule stands here alone, in halves of a block's size: one table, which the compiled rows take as numbers.  A pair of equal fate (both freed in the window, or
both not) costs nothing, a pair of different fate its size; a block without a partner costs its size where it is held, and half of it where it is temporary.

Of a long problem some alignment must be known.  At any point of an alignment both sides have left behind some weight, counted as what entries
cost alone.  A pair takes away from both alike, or costs at least what it does not; so an alignment that gets ahead on one side by so much
weight has paid for it, and pays once more to come back.  What is cheaper than a known alignment therefore stays near the places where both
sides have the same weight behind them: in a corridor.

To find one, the pair of sequences is cut into pieces where both run side by side.  A *gram* is so many symbols in a row.  The rarest gram of each stretch of the
rows, a *seed*, is looked for among the columns, and of the places found there one is taken for each seed, or none, so that places rise on both sides.  How much
further on a place is in the columns than in the rows is its *offset*.  A change of offset means that so many symbols of one side have no partner, so the chain
that wins is the one whose grams cover the most symbols, less what its offset changes.  Most programs repeat a step thousands of times, and then each gram is
found in every step: nothing but the offset tells the steps apart.  Where nothing tells a place the sequences are cut in proportion, which is *blind*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from memlens.columns import Flags, Ints, Symbols, Words, align, chain
from memlens.diffing.alignment.indices import batches, grams, starts_of

#: What a block without a partner costs: a temporary one, a held one.
ALONE = np.array([1, 2])
#: What a pair costs, by whether the one and the other are held.
PAIRED = np.array([[0, 2], [2, 0]])
#: What a pair saves against leaving both alone, likewise.
SAVED = ALONE[:, None] + ALONE - PAIRED
#: What speaks for a pair among equally cheap alignments: its owner, what stands before, what stands after, how long it lives.
MARKS = np.array([4, 1, 1, 1])
#: Both as :func:`memlens.columns.align` takes them.
WORTH = np.concatenate((SAVED.ravel(), MARKS))
#: Cells of the tables that are filled by one call: what is gathered for it is small, and between calls a signal is heard.
_CELLS_OF_A_CALL = 1 << 28
#: Cells that are filled to solve a problem exactly, a row at a time, at most; a row takes at least as long as so many cells.
_CELLS, _CELLS_OF_A_ROW = 1 << 28, 1 << 9
#: Cells that are filled to bound its cost, about, and rows of a stretch, at least.
_CELLS_OF_BOUND, _STRETCH = 1 << 29, 1 << 10
#: Symbols in a gram: fewer are found by chance, and more are seldom left where many entries were changed.
_GRAM = 12
#: Entries between two cuts, at least: pieces this long cost little, and a longer one is seldom better.
_APART = 1024
#: Seeds that are looked for at most.
_SEEDS = 1 << 13
#: Places in the columns that are kept for each, those nearest to where it would be if both sides had the same pace.
_PLACES = 32
#: A seed follows one of so many before it, or the best chain up to there.
_BACK = 24
#: A chain is trusted where the offset changes by no more than this share of the way from one seed to the next.
_DRIFT = 0.125


def alone(symbols: Symbols, at: Ints | slice = slice(None)) -> Ints:
    """Return the cost of some symbols without a partner, in halves of a unit of weight, int64."""
    costs: Ints = symbols.weight[at] * ALONE[symbols.held[at].astype(np.intp)]
    return costs


def savings(rows: Symbols, columns: Symbols, of_rows: Ints, of_columns: Ints) -> Ints:
    """Return the savings of pairs against leaving both alone, in halves of a unit of weight, int64.

    Args:
        rows: The symbols of one side.
        columns: The symbols of the other.
        of_rows: The indices of the pairs in ``rows``.
        of_columns: Their indices in ``columns``.
    """
    fates = rows.held[of_rows].astype(np.intp), columns.held[of_columns].astype(np.intp)
    saved: Ints = rows.weight[of_rows] * SAVED[fates]
    return saved


def savings_of(rows: Symbols, columns: Symbols, partner: Ints) -> Ints:
    """Return the savings of each row with its partner among the columns, 0 where it has none (-1), likewise, int64."""
    saved, pairs = np.zeros(len(rows), np.int64), np.flatnonzero(partner >= 0)
    saved[pairs] = savings(rows, columns, pairs, partner[pairs])
    return saved


def fate_counts(kind: Ints, held: Flags, kinds: int) -> Ints:
    """Return the numbers of temporary and of held blocks of each kind, int64 (kinds, 2)."""
    return np.bincount(kind * 2 + held, minlength=2 * kinds).reshape(kinds, 2)


def unordered_cost(more: Ints) -> Ints:
    """Return the cost of the blocks of each kind without regard to order, in halves of one block, int64.

    Blocks of different fate pair where each run lacks one of the two.

    Args:
        more: How many more temporary and held blocks of each kind one run has than the other, int64 (kinds, 2).
    """
    crossed = np.where(more[:, 0] * more[:, 1] < 0, np.abs(more).min(axis=1), 0)
    cost: Ints = crossed * PAIRED[0, 1] + (np.abs(more) - crossed[:, None]) @ ALONE
    return cost


def scale_of(heaviest: float, most_pairs: int) -> int:
    """Return how much a unit of weight must count so that marks never outweigh one; 0, marks do not count, where that would overflow.

    Args:
        heaviest: What the rows weigh together.
        most_pairs: Pairs that there can be.
    """
    scale = int(MARKS.sum()) * most_pairs + 1
    return 0 if float(SAVED.max()) * heaviest * scale >= 2.0**62 else scale


def in_bytes(half_bytes: int) -> int | float:
    """Half bytes as bytes, an integer where they are whole."""
    return half_bytes // 2 if half_bytes % 2 == 0 else half_bytes / 2


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


class Cutting(Struct, frozen=True, eq=False):
    """A problem that was cut.

    Attributes:
        pieces: The pieces that have entries on both sides.
        blind: Entries of both sides in pieces that were cut in proportion.
    """

    pieces: tuple[Problem, ...]
    blind: int


def cut(symbols: Symbols, problem: Problem, limit: int) -> Cutting:
    """Cut a problem into pieces of at most ``limit`` cells each.

    Args:
        symbols: All symbols that the problem takes rows and columns from.
        problem: What is too large.
        limit: Cells of the largest piece.
    """
    pieces: list[Problem] = []
    blind = 0
    waiting = [problem]
    while waiting:
        piece = waiting.pop()
        if piece.cells <= limit and piece is not problem:
            pieces.extend([piece] if piece.cells else [])
            continue
        rows, columns = (symbols.key[at].astype(np.uint64) for at in (piece.rows, piece.columns))
        parts = _pieces(piece, *_side_by_side(rows, columns))
        if len(parts) == 1:
            parts = _in_proportion(piece, limit)
            blind += len(piece.rows) + len(piece.columns)
        waiting.extend(reversed(parts))
    return Cutting(tuple(pieces), blind)


def _pieces(problem: Problem, rows: Ints, columns: Ints) -> list[Problem]:
    """The pieces between cuts at the given places of both sides, of which as many are used as lie well apart."""
    # The first pair of each stretch of rows, and of these the first of each stretch of columns.
    for side in (0, 1):
        _, first = np.unique((rows, columns)[side] // _APART, return_index=True)
        rows, columns = rows[first], columns[first]
    inner = (rows > 0) | (columns > 0)
    return _between(problem, [0, *rows[inner], len(problem.rows)], [0, *columns[inner], len(problem.columns)])


def _between(problem: Problem, rows: Sequence[int], columns: Sequence[int]) -> list[Problem]:
    """The pieces between neighbouring edges."""
    return [
        Problem(problem.rows[a:b], problem.columns[c:d])
        for (a, b), (c, d) in zip(pairwise(rows), pairwise(columns), strict=True)
    ]


def _in_proportion(problem: Problem, limit: int) -> list[Problem]:
    """Pieces of at most ``limit`` cells, each the same share of both sides."""
    parts = 1
    while -(-len(problem.rows) // parts) * -(-len(problem.columns) // parts) > limit:
        parts += 1
    rows, columns = (np.linspace(0, len(side), parts + 1).astype(int) for side in (problem.rows, problem.columns))
    return [piece for piece in _between(problem, rows.tolist(), columns.tolist()) if piece.cells]


def _side_by_side(rows: Words, columns: Words) -> tuple[Ints, Ints]:
    """Places where both sequences say the same, and go on doing so before and after.

    Args:
        rows: The symbols of one sequence, in one word each.
        columns: Those of the other.

    Returns:
        Places in the rows and in the columns, int64, both rising: the middles of grams, for to pair anything across one would give up half a
        gram of pairs.
    """
    if min(len(rows), len(columns)) < _GRAM:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Stretches no shorter than a gram: one edit then takes one or two grams away, and the chain reaches over them.
    stretch = max(-(-len(rows) // _SEEDS), _GRAM)
    at, places = _candidates(grams(rows, _GRAM), grams(columns, _GRAM), stretch, len(columns) / len(rows))
    chosen = chain(at, places, _GRAM, _BACK, len(columns) - len(rows))
    first = np.flatnonzero(chosen >= 0)
    at, found = at[first], places[first, chosen[first]]
    sure = _steady(at, found)
    return at[sure] + _GRAM // 2, found[sure] + _GRAM // 2


def _candidates(rows: Words, columns: Words, stretch: int, pace: float) -> tuple[Ints, Ints]:
    """The rarest gram of each stretch of the rows, and where it may stand in the columns: int64 (n,) and (n, places), -1 for none."""
    order = np.argsort(columns, kind="stable")
    kinds, begins, often = np.unique(columns[order], return_index=True, return_counts=True)
    kind = np.minimum(np.searchsorted(kinds, rows), len(kinds) - 1)
    count = np.where(kinds[kind] == rows, often[kind], np.iinfo(np.int64).max)
    # The rarest of each stretch; of equally rare ones the first.
    padded = np.full(-(-len(rows) // stretch) * stretch, np.iinfo(np.int64).max)
    padded[: len(rows)] = count
    at = padded.reshape(-1, stretch).argmin(axis=1) + np.arange(0, len(padded), stretch)
    at = at[padded[at] < np.iinfo(np.int64).max]
    # Of each gram's places, which rise, those nearest to the expected one.
    lo, hi = begins[kind[at]], begins[kind[at]] + often[kind[at]]
    ranked = np.repeat(np.arange(len(kinds)), often) * np.int64(len(columns) + 1) + order
    middle = np.searchsorted(ranked, kind[at] * np.int64(len(columns) + 1) + (at * pace).astype(np.int64))
    first = np.clip(middle - _PLACES // 2, lo, np.maximum(hi - _PLACES, lo))
    chosen = first[:, None] + np.arange(_PLACES)
    return at, np.where(chosen < hi[:, None], order[np.minimum(chosen, len(order) - 1)], -1)


def _steady(at: Ints, found: Ints) -> Ints:
    """Return the grams of a chain that have the offset of the ones before and after them, but for what a few edits change."""
    if not len(at):
        return at
    way, change = np.diff(at), np.abs(np.diff(found - at))
    linked = change <= _DRIFT * way
    return np.flatnonzero(np.concatenate(([True], linked)) & np.concatenate((linked, [True])))
