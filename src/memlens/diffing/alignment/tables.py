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

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from msgspec import Struct

from memlens.columns import Aligned, Flags, Ints, Symbols, Words, align, chain
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
MOST_CELLS, _CELLS_OF_A_ROW = 1 << 28, 1 << 9
#: Cells that are filled to bound its cost, about.
_CELLS_OF_BOUND = 1 << 28
#: Tables of up to so many cells are filled as a whole; of larger ones the cost is guessed, so small a share of what all costs without partners.
_SMALL, _GUESS = 1 << 17, 16
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


def solve(symbols: Symbols, problems: Sequence[Problem], cost: int | None = None) -> tuple[Ints, Ints]:
    """Align each problem at least cost; among equally cheap alignments one that shares most marks.

    A large problem is looked at in the corridor of a cost that is guessed, and where it costs more, in the corridor of what was found there.

    Args:
        symbols: All symbols that problems take rows and columns from.
        problems: What to align.
        cost: What a known alignment of each costs, in halves of a unit of weight.

    Returns:
        Indices of the pairs' rows and columns, int64, rising in each problem.
    """
    found = [np.zeros((2, 0), np.int64)]
    for call in batches([problem.cells for problem in problems], _CELLS_OF_A_CALL):
        some = problems[call]
        tables = Tables.of(symbols, some)
        rows, columns = tables.alone
        known = rows + columns if cost is None else np.full(len(some), cost)
        large = np.array([problem.cells > _SMALL for problem in some])
        guess = np.where(large, np.minimum(np.abs(rows - columns) + (rows + columns) // _GUESS, known), known)
        pairs, number, costs = tables.pairs(tables.corridor(guess))
        again = costs > guess
        found.append(pairs[:, ~again[number]])
        if again.any():
            tables = Tables.of(symbols, [problem for problem, one in zip(some, again.tolist(), strict=True) if one])
            found.append(tables.pairs(tables.corridor(np.minimum(costs, known)[again]))[0])
    rows, columns = np.concatenate(found, axis=1)
    return rows, columns


class Tables(Struct, frozen=True, eq=False, dict=True):
    """Problems whose tables are filled by one call, laid end to end.

    Attributes:
        rows: Their rows, indices of symbols, int64.
        row_starts: Where those of each begin and the last ones end, int64.
        columns: Their columns, likewise.
        column_starts: Likewise.
        of_rows: The symbols of the rows.
        of_columns: Those of the columns.
    """

    rows: Ints
    row_starts: Ints
    columns: Ints
    column_starts: Ints
    of_rows: Symbols
    of_columns: Symbols

    @classmethod
    def of(cls, symbols: Symbols, problems: Sequence[Problem]) -> Tables:
        """Lay problems end to end."""
        sides = [problem.rows for problem in problems], [problem.columns for problem in problems]
        (rows, row_starts), (columns, column_starts) = (
            (np.concatenate(side), np.cumsum([0, *map(len, side)])) for side in sides
        )
        return cls(rows, row_starts, columns, column_starts, symbols.take(rows), symbols.take(columns))

    @cached_property
    def _passed(self) -> tuple[Ints, Ints]:
        """The cost of the first so many rows of all without partners, and of the first so many columns, in halves of a unit of weight, int64."""
        return starts_of(alone(self.of_rows)), starts_of(alone(self.of_columns))

    @property
    def alone(self) -> tuple[Ints, Ints]:
        """The cost of the rows of each problem without partners, and of its columns, likewise."""
        rows, columns = self._passed
        return np.diff(rows[self.row_starts]), np.diff(columns[self.column_starts])

    def corridor(self, costs: Ints) -> tuple[Ints, Ints]:
        """A part of each table through which each alignment runs that costs at most so much, in halves of a unit of weight.

        Returns:
            After each number of rows the least and the largest number of columns; see :func:`memlens.columns.align`.
        """
        (rows, columns), (of_rows, of_columns) = self._passed, self.alone
        number = np.repeat(np.arange(len(costs)), np.diff(self.row_starts) + 1)
        begin, end = self.column_starts[number], self.column_starts[number + 1]
        behind = rows[np.arange(len(number)) - number] - rows[self.row_starts[number]] + columns[begin]
        more = of_rows - of_columns
        # |x| + |more - x| <= cost, with x what the rows have behind them less what the columns have.
        first = np.searchsorted(2 * columns, 2 * behind - (costs + more)[number], "left")
        last = np.searchsorted(2 * columns, 2 * behind + (costs - more)[number], "right") - 1
        first, last = np.clip(first, begin, end) - begin, np.clip(last, begin, end) - begin
        # No alignment costs more than nothing paired; sums of enormous weights may overflow above.
        every = (costs >= of_rows + of_columns)[number]
        return np.where(every, 0, np.minimum(first, last)), np.where(every, end - begin, np.maximum(first, last))

    def pairs(self, band: tuple[Ints, Ints]) -> tuple[Ints, Ints, Ints]:
        """The pairs of the cheapest alignments within a band: int64 (2, pairs), the number of the problem of each, and what each problem costs."""
        # About what the rows of each problem weigh.
        heaviest = np.add.reduceat(np.append(self.of_rows.weight, 0), self.row_starts[:-1], dtype=np.float64).tolist()
        most = np.minimum(np.diff(self.row_starts), np.diff(self.column_starts)).tolist()
        scale = np.array([*map(scale_of, heaviest, most)], np.int64)
        partner = self._fill(scale, band, way_back=True).partner
        paired = np.flatnonzero(partner >= 0)
        number = np.repeat(np.arange(len(scale)), np.diff(self.row_starts))[paired]
        mate = self.column_starts[number] + partner[paired]
        saved = np.zeros(len(scale), np.int64)
        np.add.at(saved, number, savings(self.of_rows, self.of_columns, paired, mate))
        return np.stack((self.rows[paired], self.columns[mate])), number, sum(self.alone) - saved

    def costs(self, band: tuple[Ints, Ints]) -> Ints:
        """What the cheapest alignments within a band cost, in halves of a unit of weight, int64."""
        scale = np.zeros(len(self.row_starts) - 1, np.int64)
        return sum(self.alone) - self._fill(scale, band, way_back=False).saved

    def _fill(self, scale: Ints, band: tuple[Ints, Ints], *, way_back: bool) -> Aligned:
        sides = self.of_rows, self.row_starts, self.of_columns, self.column_starts
        return align(*sides, WORTH, scale, band=band, way_back=way_back)


def cells_of(band: tuple[Ints, Ints]) -> int:
    """Cells that are filled, where a row counts as many as take as long at least."""
    return int((band[1] - band[0]).sum()) + len(band[0]) * _CELLS_OF_A_ROW


def least_cost(symbols: Symbols, problem: Problem, pairs: tuple[Ints, Ints]) -> int:
    """Return a cost that no alignment of a problem is below, in halves of a unit of weight.

    Where a problem is too large to be solved, only its larger blocks are aligned, and the smaller ones are counted without regard to order: what
    the blocks of one key cost in an alignment is not less for the others being left out.

    Args:
        symbols: All symbols that the problem takes rows and columns from.
        problem: The problem.
        pairs: Indices of rows and columns that pair in a known alignment.
    """
    weights, unordered, blocks, alone_costs = unordered_costs_of(symbols, problem)
    # From the largest weight on: what the known alignment costs, and how much there would be to fill.
    of_pairs = np.searchsorted(-weights, -symbols.weight[pairs[0]])
    saved = np.zeros(len(weights), np.int64)
    np.add.at(saved, of_pairs, savings(symbols, symbols, *pairs))
    known, held = np.cumsum(alone_costs - saved), np.cumsum(alone_costs)
    cells = np.cumsum(blocks).astype(np.float64) ** 2 / 2 * np.minimum(known / np.maximum(held, 1), 0.5)
    least = int(unordered.sum())
    for kept in np.flatnonzero(cells <= _CELLS_OF_BOUND)[-1:].tolist():
        some = Problem(*(at[symbols.weight[at] >= weights[kept]] for at in (problem.rows, problem.columns)))
        tables = Tables.of(symbols, [some])
        band = tables.corridor(known[kept : kept + 1])
        if cells_of(band) <= 2 * _CELLS_OF_BOUND:
            return max(least, int(tables.costs(band)[0] + unordered[kept + 1 :].sum()))
    return least


def unordered_costs_of(symbols: Symbols, problem: Problem) -> tuple[Ints, Ints, Ints, Ints]:
    """The weights of a problem, falling; of their blocks the cost without regard to order, the number, and the cost without partners; int64.

    Costs are in halves of a unit of weight.
    """
    at = np.concatenate((problem.rows, problem.columns))
    keys, first, key = np.unique(symbols.key[at], return_index=True, return_inverse=True)
    held, rows = symbols.held[at], len(problem.rows)
    one, two = (fate_counts(key[of], held[of], len(keys)) for of in (slice(rows), slice(rows, None)))
    weight = symbols.weight[at[first]]
    weights, of_key = np.unique(-weight, return_inverse=True)
    found = np.zeros((3, len(weights)), np.int64)
    both = one + two
    for column, of in zip(
        found, (weight * unordered_cost(one - two), both.sum(axis=1), weight * (both @ ALONE)), strict=True
    ):
        np.add.at(column, of_key, of)
    return -weights, *found


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
