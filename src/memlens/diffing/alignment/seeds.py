"""Cuts a pair of sequences that is too long to align as a whole into pieces that are not, where both run side by side.

A *gram* is so many symbols in a row.  The rarest gram of each stretch of the rows, a *seed*, is looked for among the columns, and of the places
found there one is taken for each seed, or none, so that places rise on both sides.  How much further on a place is in the columns than in the
rows is its *offset*.  A change of offset means that so many symbols of one side have no partner, so the chain that wins is the one whose
grams cover the most symbols, less what its offset changes.  Most programs repeat a step thousands of times, and then each gram is found in every step: nothing
but the offset tells the steps apart.

Where nothing tells a place the sequences are cut in proportion, which is *blind*.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct

from memlens.columns import Ints, Symbols, Words, chain
from memlens.diffing.alignment.indices import grams
from memlens.diffing.alignment.tables import Problem

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
