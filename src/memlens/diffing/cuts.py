"""Cuts a pair of sequences that is too long to align as a whole into pieces that are not.

A cut goes where both sequences say the same for a while (:mod:`memlens.diffing.chains`).  Where nothing tells a place they are cut in
proportion, which is *blind*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.chains import side_by_side
from memlens.diffing.lanes import Problem, Symbols

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Words = NDArray[np.uint64]

__all__ = ["Cutting", "cut"]

#: Symbols in a gram, and whether their fates count too, the first choice first.  Where few sizes come again and again only the
#: fates tell places apart, and it takes more of them.
_GRAMS = ((16, False), (8, False), (4, False), (48, True), (24, True))
#: Entries between two cuts, at least: pieces this long cost little, and a longer one is seldom better.
_APART = 1024


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
    """Split a problem where both sides say the same for a while; the problem itself where they do not."""
    words = [_words(side, places, fates) for side, places in ((rows, problem.rows), (columns, problem.columns))]
    # In the middle of a gram: to pair anything across a cut would give up half a gram of pairs.
    return _pieces(problem, *side_by_side(words[0], words[1], gram))


def _words(symbols: Symbols, places: Ints, fates: bool) -> Words:
    """What each entry says, with its fate or without."""
    word = symbols.key[places].astype(np.uint64)
    return (word << np.uint64(1)) | symbols.held[places] if fates else word


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
