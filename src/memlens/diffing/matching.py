"""Who is who in two runs: allocations aligned in order, and what is left paired off as moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.diffing.align import align
from memlens.diffing.sequences import Blocks, Keys, as_symbols

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.cuts import Cutting

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
        aligned: For each block of base its partner in order, a place in ``head``, or -1, int64.
        partner: The same with moved pairs filled in.
        half_costs: The cost of each window's alignment in half bytes, int64.
        cuttings: How the windows were cut that are too large to be aligned as a whole, by number.
    """

    base: Blocks
    head: Blocks
    keys: Keys
    aligned: Ints
    partner: Ints
    half_costs: Ints
    cuttings: Mapping[int, Cutting]

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


def match(base: Blocks, head: Blocks) -> Match:
    """Pair the blocks of the windows of two runs, window by window.

    What the alignment in order leaves alone may still be the same work in another order: it pairs off by owner and key, by key, and by
    size, fates equal.  At last, whatever the fate, what has one key and stands at about one place pairs: two neighbours that have
    changed places, one of which lost its Free, cannot both pair in order.
    """
    keys = Keys.of(base, head)
    alignment = align(*as_symbols(keys, base, head), base.starts, head.starts)
    partner = alignment.partner.copy()
    fates = base.held.astype(np.int64), head.held.astype(np.int64)
    owners, sizes = len(keys.names) + 1, np.unique(keys.size)
    by_key = keys.base * 2 + fates[0], keys.head * 2 + fates[1]
    by_owner = by_key[0] * owners + keys.base_owner + 1, by_key[1] * owners + keys.head_owner + 1
    by_size = np.searchsorted(sizes, base.size) * 2 + fates[0], np.searchsorted(sizes, head.size) * 2 + fates[1]
    for codes in (by_owner, by_key, by_size):
        _pair_off(base, head, codes, partner)
    _pair_near(base, head, keys, alignment.partner, partner)
    return Match(
        base, head, keys, alignment.partner, partner, _half_costs(base, head, alignment.partner), alignment.cuttings
    )


def match_unordered(base: Blocks, head: Blocks) -> Match:
    """Pair blocks that come in no order, window by window: by owner and key, by key, by size; fates equal, then whatever the fates."""
    keys = Keys.of(base, head)
    partner = np.full(len(base), -1, np.int64)
    fates = base.held.astype(np.int64), head.held.astype(np.int64)
    owners, sizes = len(keys.names) + 1, np.unique(keys.size)
    numbers = keys.base.astype(np.int64), keys.head.astype(np.int64)
    by_owner = numbers[0] * owners + keys.base_owner + 1, numbers[1] * owners + keys.head_owner + 1
    by_size = np.searchsorted(sizes, base.size), np.searchsorted(sizes, head.size)
    for codes in (by_owner, numbers, by_size):
        _pair_off(base, head, (codes[0] * 2 + fates[0], codes[1] * 2 + fates[1]), partner)
    for codes in (by_owner, numbers, by_size):
        _pair_off(base, head, codes, partner)
    nowhere = np.full(len(base), -1, np.int64)
    return Match(base, head, keys, nowhere, partner, np.zeros(len(base.starts) - 1, np.int64), {})


def _unpaired(partner: Ints, heads: int) -> Ints:
    free = np.ones(heads, np.bool_)
    free[partner[partner >= 0]] = False
    return np.flatnonzero(free)


def _pair_off(base: Blocks, head: Blocks, own_codes: tuple[NDArray[Any], NDArray[Any]], partner: Ints) -> None:
    """Pair what is unpaired and has one code in one window: the first with the first, the second with the second."""
    left, right = np.flatnonzero(partner < 0), _unpaired(partner, len(head))
    if not len(left) or not len(right):
        return
    codes = int(max(code.max() for code in own_codes)) + 1
    ranked = []
    for blocks, places, code in zip((base, head), (left, right), own_codes, strict=True):
        group = (np.searchsorted(blocks.starts, places, "right") - 1) * codes + code[places]
        order = np.argsort(group, kind="stable")
        group = group[order]
        first = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
        rank = np.arange(len(group)) - np.repeat(first, np.diff(np.append(first, len(group))))
        ranked.append((places[order], group, rank))
    # The k-th of a group meets the k-th of that group.
    (left, left_group, left_rank), (right, right_group, right_rank) = ranked
    longest = int(max(left_rank.max(), right_rank.max())) + 1
    groups = np.unique(np.concatenate((left_group, right_group)))
    of_left = np.searchsorted(groups, left_group) * longest + left_rank
    of_right = np.searchsorted(groups, right_group) * longest + right_rank
    _, at_left, at_right = np.intersect1d(of_left, of_right, assume_unique=True, return_indices=True)
    partner[left[at_left]] = right[at_right]


def _pair_near(base: Blocks, head: Blocks, keys: Keys, aligned: Ints, partner: Ints) -> None:
    """Pair what is unpaired, has one key in one window and stands at about one place, each with its nearest."""
    in_order = aligned >= 0
    # How many aligned pairs stand before each entry: between two that pair, so many pairs would be crossed.
    of_head = np.zeros(len(head), np.int64)
    of_head[aligned[in_order]] = 1
    passed = [np.cumsum(pairs) - pairs for pairs in (in_order.astype(np.int64), of_head)]
    # A number that puts what cannot pair out of reach: window and key in front, the place behind.
    most = int(max((len(base), len(head), 1))) + _REACH + 1
    numbers = len(keys.size) or 1
    places = [
        (blocks.window * numbers + key) * most + count
        for blocks, key, count in zip((base, head), (keys.base, keys.head), passed, strict=True)
    ]
    for _ in range(_ROUNDS):
        left, right = np.flatnonzero(partner < 0), _unpaired(partner, len(head))
        to_right, to_left = _nearest(places[0][left], places[1][right]), _nearest(places[1][right], places[0][left])
        mutual = np.flatnonzero(to_right >= 0)
        mutual = mutual[to_left[to_right[mutual]] == mutual]
        if not len(mutual):
            return
        partner[left[mutual]] = right[to_right[mutual]]


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


def _half_costs(base: Blocks, head: Blocks, partner: Ints) -> Ints:
    """What the alignment of each window costs, in half bytes."""
    alone = np.where(base.held, 2, 1) * base.size
    paired = partner >= 0
    alone[paired] = np.where(base.held[paired] == head.held[partner[paired]], 0, 2 * base.size[paired])
    of_head = np.where(head.held, 2, 1) * head.size
    of_head[partner[paired]] = 0
    return base.sums(alone) + head.sums(of_head)
