"""Who is who in two runs: allocations aligned in order, and what is left paired off as moved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.order import Ordered, in_order
from memlens.diffing.sequences import Blocks, Keys, nth_with_nth

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["Match", "match", "match_unordered"]

#: Blocks of unequal fate pair out of order across so many pairs at most, as neighbours do that changed places.  Farther away, a
#: held block that is new and a temporary that is gone would be taken for one block (``benchmarks/injection.py`` measures both) …
_REACH = 1
#: … each with its nearest, then the rest with what is left, so many times.
_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Match:
    """The blocks of two runs, and who pairs with whom; windows by number.

    Attributes:
        base: Base's blocks.
        head: Head's blocks.
        keys: What they were told apart by.
        ordered: The pairs in order, what they cost, and whether the threads of a window were aligned on their own.
        partner: For each block of base its partner, a place in ``head``, or -1, moved pairs among them, int64.
    """

    base: Blocks
    head: Blocks
    keys: Keys
    ordered: Ordered
    partner: Ints

    @property
    def aligned(self) -> Ints:
        """For each block of base its partner in order, a place in ``head``, or -1, int64."""
        return self.ordered.partner

    @cached_property
    def moved(self) -> NDArray[np.bool_]:
        """Which blocks of base pair out of order."""
        return (self.partner >= 0) & (self.aligned < 0)

    @cached_property
    def only_head(self) -> Ints:
        """Places of the blocks that head alone has, rising, int64."""
        return _unpaired(self.partner, len(self.head))

    @cached_property
    def in_head_only(self) -> NDArray[np.bool_]:
        """Which blocks of head those are."""
        mask = np.zeros(len(self.head), np.bool_)
        mask[self.only_head] = True
        return mask


def match(base: Blocks, head: Blocks, *, threads: bool = False) -> Match:
    """Pair the blocks of the windows of two runs, window by window.

    What the alignment in order leaves alone may still be the same work in another order: it pairs off by owner and key, by key, and by
    size, fates equal.  At last, whatever the fate, what has one key and stands at about one place pairs: two neighbours that have
    changed places, one of which lost its Free, cannot both pair in order.

    Args:
        base: Base's blocks.
        head: Head's blocks.
        threads: Both logs tell threads apart; see :func:`memlens.diffing.order.in_order`.
    """
    keys = Keys.of(base, head)
    ordered = in_order(base, head, keys, threads=threads)
    partner = ordered.partner.copy()
    fates = base.held.astype(np.int64), head.held.astype(np.int64)
    owners, sizes = len(keys.names) + 1, np.unique(keys.size)
    by_key = keys.base * 2 + fates[0], keys.head * 2 + fates[1]
    by_owner = by_key[0] * owners + keys.base_owner + 1, by_key[1] * owners + keys.head_owner + 1
    by_size = np.searchsorted(sizes, base.size) * 2 + fates[0], np.searchsorted(sizes, head.size) * 2 + fates[1]
    if ordered.threads.any():
        _pair_off(ordered.sequences, by_owner, partner)
    for codes in (by_owner, by_key, by_size):
        _pair_off((base.window, head.window), codes, partner)
    _pair_near(ordered, keys, partner)
    return Match(base, head, keys, ordered, partner)


def match_unordered(base: Blocks, head: Blocks) -> Match:
    """Pair blocks that come in no order, window by window: by owner and key, by key, by size; fates equal, then whatever the fates."""
    keys = Keys.of(base, head)
    partner = np.full(len(base), -1, np.int64)
    fates = base.held.astype(np.int64), head.held.astype(np.int64)
    owners, sizes = len(keys.names) + 1, np.unique(keys.size)
    numbers, windows = (keys.base.astype(np.int64), keys.head.astype(np.int64)), (base.window, head.window)
    by_owner = numbers[0] * owners + keys.base_owner + 1, numbers[1] * owners + keys.head_owner + 1
    by_size = np.searchsorted(sizes, base.size), np.searchsorted(sizes, head.size)
    for codes in (by_owner, numbers, by_size):
        _pair_off(windows, (codes[0] * 2 + fates[0], codes[1] * 2 + fates[1]), partner)
    for codes in (by_owner, numbers, by_size):
        _pair_off(windows, codes, partner)
    nothing = np.zeros(len(base.starts) - 1, np.int64)
    return Match(base, head, keys, Ordered(np.full(len(base), -1, np.int64), nothing, {}, nothing, windows), partner)


def _unpaired(partner: Ints, heads: int) -> Ints:
    free = np.ones(heads, np.bool_)
    free[partner[partner >= 0]] = False
    return np.flatnonzero(free)


def _pair_off(groups: tuple[Ints, Ints], own_codes: tuple[Ints, Ints], partner: Ints) -> None:
    """Pair what is unpaired and has one code in one group: the first with the first, the second with the second."""
    left, right = np.flatnonzero(partner < 0), _unpaired(partner, len(groups[1]))
    if not len(left) or not len(right):
        return
    codes = int(max(code.max() for code in own_codes)) + 1
    at_left, at_right = nth_with_nth(
        groups[0][left] * codes + own_codes[0][left], groups[1][right] * codes + own_codes[1][right]
    )
    partner[left[at_left]] = right[at_right]


def _pair_near(ordered: Ordered, keys: Keys, partner: Ints) -> None:
    """Pair what is unpaired, has one key in one sequence and stands at about one place, each with its nearest."""
    aligned, (of_base, of_head) = ordered.partner, ordered.sequences
    pairs = (aligned >= 0).astype(np.int64), np.zeros(len(of_head), np.int64)
    pairs[1][aligned[aligned >= 0]] = 1
    # A number that puts what cannot pair out of reach: sequence and key in front, the place behind.
    most = int(max((len(of_base), len(of_head), 1))) + _REACH + 1
    numbers = len(keys.size) or 1
    places = [
        (sequence * numbers + key) * most + _passed(sequence, of_pair)
        for sequence, key, of_pair in zip((of_base, of_head), (keys.base, keys.head), pairs, strict=True)
    ]
    for _ in range(_ROUNDS):
        left, right = np.flatnonzero(partner < 0), _unpaired(partner, len(of_head))
        to_right, to_left = _nearest(places[0][left], places[1][right]), _nearest(places[1][right], places[0][left])
        mutual = np.flatnonzero(to_right >= 0)
        mutual = mutual[to_left[to_right[mutual]] == mutual]
        if not len(mutual):
            return
        partner[left[mutual]] = right[to_right[mutual]]


def _passed(sequence: Ints, of_pair: Ints) -> Ints:
    """How many aligned pairs stand before each entry, in its sequence and those before: of two that pair, so many are crossed."""
    if bool((sequence[1:] >= sequence[:-1]).all()):
        return np.cumsum(of_pair) - of_pair
    order = np.argsort(sequence, kind="stable")
    passed = np.empty(len(order), np.int64)
    passed[order] = np.cumsum(of_pair[order]) - of_pair[order]
    return passed


def _nearest(wanted: Ints, given: Ints) -> Ints:
    """Which of the given numbers is nearest to each wanted one, the lesser of two, or -1 where none is within reach."""
    if not len(given):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(given, kind="stable")
    ranked = given[order]
    above = np.searchsorted(ranked, wanted)
    below, above = np.maximum(above - 1, 0), np.minimum(above, len(ranked) - 1)
    # The first of equal numbers, on either side.
    best = np.where(np.abs(ranked[below] - wanted) <= np.abs(ranked[above] - wanted), below, above)
    best = np.searchsorted(ranked, ranked[best])
    return np.where(np.abs(ranked[best] - wanted) <= _REACH, order[best], -1)
