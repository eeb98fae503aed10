"""How far an alignment can be from the cheapest one, where it was too large to be solved as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.result import Approximation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.lanes import Problem, Symbols
    from memlens.diffing.pairing import Match
    from memlens.diffing.sequences import Blocks, Keys

    Ints = NDArray[np.int64]

__all__ = ["approximation", "in_bytes", "unordered_costs", "unordered_costs_of"]


def approximation(found: Match, number: int) -> Approximation | None:
    """What is not exact about the alignment of one window pair; ``None`` where all is."""
    part = found.ordered.inexact.get(number)
    return None if part is None else Approximation(part.entries, part.pieces, part.blind, in_bytes(part.excess))


def in_bytes(half_bytes: int) -> int | float:
    """Half bytes as bytes, an integer where they are whole."""
    return half_bytes // 2 if half_bytes % 2 == 0 else half_bytes / 2


def unordered_costs(keys: Keys, base: Blocks, head: Blocks) -> Ints:
    """What no alignment of each window can cost less than, in half bytes, int64: the cost if order did not matter."""
    numbers = len(keys.size) or 1
    codes = [blocks.window * numbers + key for blocks, key in ((base, keys.base), (head, keys.head))]
    kinds, kind = np.unique(np.concatenate(codes), return_inverse=True)
    more = _fate_counts(kind[len(base) :], head.held, len(kinds)) - _fate_counts(
        kind[: len(base)], base.held, len(kinds)
    )
    costs = np.zeros(len(base.starts) - 1, np.int64)
    np.add.at(costs, kinds // numbers, keys.size[kinds % numbers] * _unordered_cost(more))
    return costs


def _fate_counts(kind: Ints, held: NDArray[np.bool_], kinds: int) -> Ints:
    """How many temporaries and held blocks of each kind there are, int64 (kinds, 2)."""
    return np.bincount(kind * 2 + held, minlength=2 * kinds).reshape(kinds, 2)


def _unordered_cost(more: Ints) -> Ints:
    """What blocks of each kind cost without regard to order, given how many more temporary and held ones one run has; int64.

    In half blocks.  Blocks of different fate pair where each run lacks one of the two.
    """
    crossed = np.where(more[:, 0] * more[:, 1] < 0, np.minimum(np.abs(more[:, 0]), np.abs(more[:, 1])), 0)
    alone = np.abs(more) - crossed[:, None]
    cost: Ints = 2 * crossed + alone[:, 0] + 2 * alone[:, 1]
    return cost


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
        counts.append(_fate_counts(side.key[at].astype(np.int64), side.held[at], kinds))
    some = np.flatnonzero((counts[0] + counts[1]).any(axis=1))
    one, two = counts[0][some], counts[1][some]
    return weight[some], weight[some] * _unordered_cost(one - two), (one + two).sum(axis=1)
