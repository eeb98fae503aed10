"""The cost rule of the alignment, alone, in halves of a block's size: one table, which the compiled rows take as numbers.

A pair of equal fate (both freed in the window, or both not) costs nothing, a pair of different fate its size; a block without a partner costs its size
where it is held, and half of it where it is temporary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from memlens.columns import Flags, Ints, Symbols


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
