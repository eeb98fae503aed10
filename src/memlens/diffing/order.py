"""The blocks of windows aligned in their order: that of the whole window, or that of each thread where this is cheaper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.align import Inexact, align
from memlens.diffing.blocks import as_symbols, unordered_costs
from memlens.diffing.costs import ALONE, PAIRED
from memlens.diffing.threads import pair_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Symbols
    from memlens.diffing.blocks import Blocks, Keys

    Ints = NDArray[np.int64]

__all__ = ["Ordered", "in_order"]


@dataclass(frozen=True, eq=False)
class Ordered:
    """Who pairs with whom in order.

    Attributes:
        partner: For each block of base its place in head, -1 where it is unpaired, int64.
        half_costs: The cost of each window's alignment in half bytes, int64.
        inexact: By number of the window, what was not aligned as a whole; excess in half bytes.
        threads: How many pairs of threads of each window were aligned on their own; 0: the window was aligned as a whole, int64.
        sequences: For each block of base, and of head, the number of the sequence that it was aligned in, int64.
    """

    partner: Ints
    half_costs: Ints
    inexact: Mapping[int, Inexact]
    threads: Ints
    sequences: tuple[Ints, Ints]


def in_order(base: Blocks, head: Blocks, keys: Keys, *, threads: bool) -> Ordered:
    """Align the blocks of each window of base with those of head's.

    Args:
        base: Base's blocks.
        head: Head's blocks.
        keys: What may pair.
        threads: Both logs tell threads apart.
    """
    symbols = as_symbols(keys, base, head)
    found = align(*symbols, base.starts, head.starts)
    whole = Ordered(
        found.partner,
        _half_costs(base, head, found.partner),
        {window: part.times(keys.unit) for window, part in found.inexact.items()},
        np.zeros(len(base.starts) - 1, np.int64),
        (base.window, head.window),
    )
    if not threads:
        return whole
    # No alignment is cheaper than the one that does not look at the order.
    least = unordered_costs(keys, base, head)
    several = _several_threads(base) & _several_threads(head) & (whole.half_costs > least)
    return _by_thread(whole, base, head, keys, symbols, several, least) if several.any() else whole


def _several_threads(blocks: Blocks) -> NDArray[np.bool_]:
    """Which windows have blocks of several threads."""
    first = blocks.thread[np.minimum(blocks.starts[:-1], len(blocks) - 1)] if len(blocks) else blocks.thread
    other: NDArray[np.bool_] = blocks.sums(blocks.thread != first[blocks.window]) > 0
    return other


def _by_thread(
    whole: Ordered,
    base: Blocks,
    head: Blocks,
    keys: Keys,
    symbols: tuple[Symbols, Symbols],
    several: NDArray[np.bool_],
    least: Ints,
) -> Ordered:
    """The threads of some windows on their own where that is cheaper, the other windows as they were."""
    programs = pair_threads(base, head, symbols, several)
    left, right = programs.places
    found = align(symbols[0].take(left), symbols[1].take(right), *programs.starts)
    pairs = np.flatnonzero(found.partner >= 0)
    partner = np.full(len(base), -1, np.int64)
    partner[left[pairs]] = right[found.partner[pairs]]
    costs = _half_costs(base, head, partner)
    inexact: dict[int, Inexact] = {}
    for number, part in found.inexact.items():
        window = int(programs.window[number])
        inexact[window] = part.times(keys.unit).plus(inexact.get(window))
    threads = np.bincount(programs.window[programs.paired], minlength=len(costs))
    for window in programs.guessed:
        # Other pairs of threads may be cheaper.
        entries = int(np.diff(base.starts)[window] + np.diff(head.starts)[window])
        inexact[window] = Inexact(entries, int(threads[window]), 0, int(costs[window] - least[window]))
    taken = several & (costs < whole.half_costs)
    half_costs = np.where(taken, costs, whole.half_costs)
    of_base, of_head = (sequences.copy() for sequences in whole.sequences)
    for numbers, side in ((of_base, 0), (of_head, 1)):
        # Numbers of their own, after those of the windows.
        of_thread = programs.numbers(side)
        mine = taken[programs.window[of_thread]]
        numbers[programs.places[side][mine]] = of_thread[mine] + len(costs)
    in_thread = taken[base.window]
    return Ordered(
        np.where(in_thread, partner, whole.partner),
        half_costs,
        _joined(whole, costs, inexact, taken, half_costs),
        np.where(taken, threads, 0),
        (of_base, of_head),
    )


def _joined(
    whole: Ordered, costs: Ints, inexact: Mapping[int, Inexact], taken: NDArray[np.bool_], half_costs: Ints
) -> dict[int, Inexact]:
    """What is not exact about the cheaper one of two alignments: either may have missed what is cheaper still."""
    found: dict[int, Inexact] = {}
    for window in sorted({*whole.inexact, *inexact}):
        both = inexact.get(window), whole.inexact.get(window)
        lowest = int(whole.half_costs[window]) - (both[1].excess if both[1] else 0)
        if taken[window] or both[0]:
            lowest = min(lowest, int(costs[window]) - (both[0].excess if both[0] else 0))
        own, other = both if taken[window] else both[::-1]
        excess = int(half_costs[window]) - lowest
        part = own or other
        if part and (own or excess):
            found[window] = replace(part, excess=excess)
    return found


def _half_costs(base: Blocks, head: Blocks, partner: Ints) -> Ints:
    """What the alignment of each window costs, in half bytes."""
    fates = base.held.astype(np.intp), head.held.astype(np.intp)
    of_base, of_head = ALONE[fates[0]] * base.size, ALONE[fates[1]] * head.size
    paired = np.flatnonzero(partner >= 0)
    of_base[paired] = PAIRED[fates[0][paired], fates[1][partner[paired]]] * base.size[paired]
    of_head[partner[paired]] = 0
    return base.sums(of_base) + head.sums(of_head)
