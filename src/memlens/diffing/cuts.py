"""Cuts a pair of sequences that is too long to align as a whole into pieces that are not.

A cut goes where both sequences say the same for a while: where a *gram*, so many keys in a row, of one stands in the other.
Grams are sampled by their content, so that both sides sample the same ones whatever stands before; the sampled ones are aligned like
symbols, exactly and over the whole length, so that a repeated step, or one that only one run has, leads nothing astray.  Where no
gram is shared the sequences are cut in proportion, which is *blind*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.lanes import Problem, Symbols, mix, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Words = NDArray[np.uint64]

__all__ = ["Cutting", "cut"]

#: Symbols in a gram, and whether their fates count too, the first choice first.  Where few sizes come again and again only the
#: fates tell places apart, and it takes more of them.
_GRAMS = ((16, False), (8, False), (4, False), (48, True), (24, True))
#: As many grams of each side are aligned at most: a table of 2**28 cells.
_MOST_GRAMS = 1 << 14
#: Entries between two cuts, at least: pieces this long cost little, and a longer one is seldom better.
_APART = 1024
#: A gram that comes again within so many entries marks no place.
_UNIQUE_WITHIN = 256


@dataclass(frozen=True, eq=False)
class Cutting:
    """How a problem was cut.

    Attributes:
        pieces: The pieces that have entries on both sides.
        entries: Entries of both sides that were dealt out to pieces.
        blind: Of these, those in pieces that were cut in proportion.
    """

    pieces: tuple[Problem, ...]
    entries: int
    blind: int


def cut(rows: Symbols, columns: Symbols, problem: Problem, limit: int) -> Cutting:
    """Cut a problem into pieces of at most ``limit`` cells each.

    Args:
        rows: All symbols that the problem takes rows from.
        columns: All symbols that the problem takes columns from.
        problem: What is too large.
        limit: Cells of the largest piece.
    """
    pieces: list[Problem] = []
    blind = 0
    waiting = [(problem, 0)]
    while waiting:
        piece, level = waiting.pop()
        if not piece.cells:
            continue
        if piece.cells <= limit and piece is not problem:
            pieces.append(piece)
        elif level < len(_GRAMS):
            parts = _split(rows, columns, piece, *_GRAMS[level])
            # What could not be split is tried with shorter grams; what could is looked at again from the longest on.
            waiting.extend((part, level + 1 if len(parts) == 1 else 0) for part in reversed(parts))
        else:
            pieces.extend(_in_proportion(piece, limit))
            blind += len(piece.rows) + len(piece.columns)
    return Cutting(tuple(pieces), len(problem.rows) + len(problem.columns), blind)


def _split(rows: Symbols, columns: Symbols, problem: Problem, gram: int, fates: bool) -> list[Problem]:
    """Split a problem at grams that both sides have, in order; the problem itself where there are none."""
    at_rows, word_rows = _grams(rows, problem.rows, gram, fates)
    at_columns, word_columns = _grams(columns, problem.columns, gram, fates)
    common = np.intersect1d(word_rows, word_columns)
    in_rows, in_columns = np.isin(word_rows, common), np.isin(word_columns, common)
    # The same bits of a gram are 0 on both sides: each turn of the screw halves what is left.
    sieve = np.uint64(0)
    while max(np.count_nonzero(in_rows), np.count_nonzero(in_columns)) > _MOST_GRAMS:
        sieve = (sieve << np.uint64(1)) | np.uint64(1)
        in_rows &= (word_rows & sieve) == 0
        in_columns &= (word_columns & sieve) == 0
    if not in_rows.any():
        return [problem]
    at_rows, at_columns = at_rows[in_rows], at_columns[in_columns]
    pairs = _aligned(
        np.searchsorted(common, word_rows[in_rows]).astype(np.int32),
        np.searchsorted(common, word_columns[in_columns]).astype(np.int32),
    )
    # In the middle of a gram: to pair anything across a cut would give up half a gram of pairs.
    return _pieces(problem, at_rows[pairs[0]] + gram // 2, at_columns[pairs[1]] + gram // 2)


def _grams(symbols: Symbols, places: Ints, gram: int, fates: bool) -> tuple[Ints, Words]:
    """Where the grams begin that mark a place, rising, and what each is, in one word."""
    word = symbols.key[places].astype(np.uint64)
    if fates:
        word = (word << np.uint64(1)) | symbols.held[places]
    if len(word) < gram:
        return np.zeros(0, np.int64), np.zeros(0, np.uint64)
    # A polynomial of the gram's symbols modulo 2**64, for all grams at once.
    word, mixed = mix(word), np.zeros(len(word) - gram + 1, np.uint64)
    for step in range(gram):
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed += word[step : step + len(mixed)]
    mixed = mix(mixed)
    # A gram that comes again soon (a run of one size, a short period) could be taken for its neighbour.
    order = np.argsort(mixed, kind="stable")
    soon = np.flatnonzero((mixed[order[1:]] == mixed[order[:-1]]) & (np.diff(order) < _UNIQUE_WITHIN))
    alone = np.ones(len(mixed), np.bool_)
    alone[order[soon]] = False
    alone[order[soon + 1]] = False
    at = np.flatnonzero(alone)
    return at, mixed[at]


def _aligned(rows: NDArray[np.int32], columns: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Pair as many equal numbers as can be in order, exactly; places of the pairs, rising."""
    of_rows, of_columns = (
        Symbols(keys, np.zeros(len(keys), np.bool_), np.ones(len(keys), np.int64), np.zeros(len(keys), np.uint64))
        for keys in (rows, columns)
    )
    first, second = solve(of_rows, of_columns, [Problem(np.arange(len(rows)), np.arange(len(columns)))])
    order = np.argsort(first)
    return first[order], second[order]


def _pieces(problem: Problem, rows: Ints, columns: Ints) -> list[Problem]:
    """The pieces between cuts at the given places of both sides, of which as many are used as lie well apart."""
    # The first pair of each stretch of rows, and of these the first of each stretch of columns.
    for side in (0, 1):
        _, first = np.unique((rows, columns)[side] // _APART, return_index=True)
        rows, columns = rows[first], columns[first]
    inner = (rows > 0) | (columns > 0)
    row_edges = [0, *rows[inner].tolist(), len(problem.rows)]
    column_edges = [0, *columns[inner].tolist(), len(problem.columns)]
    return [
        Problem(problem.rows[a:b], problem.columns[c:d])
        for a, b, c, d in zip(row_edges, row_edges[1:], column_edges, column_edges[1:], strict=False)
    ]


def _in_proportion(problem: Problem, limit: int) -> list[Problem]:
    """Pieces of at most ``limit`` cells, each the same share of both sides."""
    parts = 1
    while -(-len(problem.rows) // parts) * -(-len(problem.columns) // parts) > limit:
        parts += 1
    rows, columns = (np.linspace(0, len(side), parts + 1).astype(np.int64) for side in (problem.rows, problem.columns))
    found = [
        Problem(problem.rows[a:b], problem.columns[c:d])
        for a, b, c, d in zip(rows[:-1], rows[1:], columns[:-1], columns[1:], strict=True)
    ]
    return [piece for piece in found if piece.cells]
