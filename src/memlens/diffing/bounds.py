"""How far an alignment can be from the cheapest one, where it was too large to be solved as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.result import Approximation

if TYPE_CHECKING:
    from memlens.diffing.matching import Match

__all__ = ["approximation", "in_bytes", "least_half_cost"]


def approximation(found: Match, number: int) -> Approximation | None:
    """What is not exact about the alignment of one window pair; ``None`` where all is."""
    cutting = found.cuttings.get(number)
    if cutting is None:
        return None
    excess = int(found.half_costs[number]) - least_half_cost(found, number)
    return Approximation(cutting.entries, len(cutting.pieces), cutting.blind, in_bytes(excess))


def in_bytes(half_bytes: int) -> int | float:
    """Half bytes as bytes, an integer where they are whole."""
    return half_bytes // 2 if half_bytes % 2 == 0 else half_bytes / 2


def least_half_cost(found: Match, number: int) -> int:
    """What no alignment of a window pair can cost less than, in half bytes: the cost if order did not matter."""
    keys, counts = len(found.keys.size), []
    for blocks, key in ((found.base, found.keys.base), (found.head, found.keys.head)):
        own = slice(int(blocks.starts[number]), int(blocks.starts[number + 1]))
        code = key[own] * np.int64(2) + blocks.held[own]
        counts.append(np.bincount(code, minlength=2 * keys).reshape(keys, 2))
    # What one run has more of, temporary and held, by key; blocks of different fate pair where each run lacks one kind.
    more = counts[1] - counts[0]
    crossed = np.where(more[:, 0] * more[:, 1] < 0, np.minimum(np.abs(more[:, 0]), np.abs(more[:, 1])), 0)
    alone = np.abs(more) - crossed[:, None]
    return int((found.keys.size * (2 * crossed + alone[:, 0] + 2 * alone[:, 1])).sum())
