"""Who is who in two runs: allocations aligned in order, and what is left paired off as moved."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.fates import opening_allocs
from memlens.diffing.alignment.blocks import Blocks, Keys
from memlens.diffing.alignment.indices import nth_with_nth, starts_of, unpaired
from memlens.diffing.alignment.threads import Ordered, align_windows
from memlens.text import STACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.columns import Flags, Ints
    from memlens.diffing.window_pairs import WindowPairs
    from memlens.windows.windows import Window


#: Blocks of unequal fate pair out of order across so many pairs at most, as neighbours do that changed places.  Farther away, a
#: held block that is new and a temporary that is gone would be taken for one block (``benchmarks/injection.py`` measures both) …
_REACH = 1
#: … each with its nearest, then the rest with what is left, so many times.
_ROUNDS = 4
#: A pair of unequal fate is taken apart for two pairs of equal fate with what stands unpaired so many pairs away at most.
_REACH_OF_EXCHANGE = 2


class Match(Struct, frozen=True, eq=False, dict=True):
    """The blocks of two runs, and who pairs with whom; windows by number.

    Attributes:
        base: Base's blocks.
        head: Head's blocks.
        keys: What they were told apart by.
        ordered: The pairs in order, what they cost, and whether the threads of a window were aligned on their own.
        partner: For each block of base its partner's index in ``head``, or -1, moved pairs among them, int64.
    """

    base: Blocks
    head: Blocks
    keys: Keys
    ordered: Ordered
    partner: Ints

    @property
    def aligned(self) -> Ints:
        """For each block of base its partner's index in order in ``head``, or -1, int64."""
        return self.ordered.partner

    @cached_property
    def only_head(self) -> Ints:
        """Indices of the blocks that head alone has, rising, int64."""
        return unpaired(self.partner, len(self.head))


class InOrder(Struct, frozen=True, eq=False):
    """The events that stand for each other in two runs: of pairs of allocations that are aligned in order.

    Attributes:
        windows: The windows of both logs, paired.
        base: Events of base's log, 0-based, in no order, int64.
        head: Each one's partner in head's, int64.
        turn: Where pairs cross those of the lower number go first, int64: ALLOCs, then FREEs of blocks that were carried in, then FREEs that
            both windows have of a pair of blocks born in them, which are the only ones that cross others of their number; ALLOCs of the
            threads with most pairs before those of others, and so FREEs of blocks carried in.
    """

    windows: WindowPairs
    base: Ints
    head: Ints
    turn: Ints


def match(base: Blocks, head: Blocks) -> Match:
    """Pair the blocks of the windows of two runs, window by window.

    Neighbours that changed places may be cheapest to align as a pair of unequal fate beside two blocks that are left alone, one of each
    fate: such a pair is taken apart.  What the alignment in order leaves alone may still be the same work in another order: it pairs off by owner and key, by key, and by
    size, fates equal.  At last, whatever the fate, what has one key and stands at about one place pairs: two neighbours that have
    changed places, one of which lost its Free, cannot both pair in order.

    Args:
        base: Base's blocks.
        head: Head's blocks.
    """
    keys = Keys.of(base, head)
    ordered = align_windows(base, head, keys)
    ordered = replace(ordered, partner=_exchanged(base, head, keys, ordered))
    partner = ordered.partner.copy()
    by_owner, *others = _numbers(base, head, keys, fates=True)
    if ordered.threads.any():
        _pair_off(ordered.sequences, by_owner, partner)
    for numbers in (by_owner, *others):
        _pair_off((base.window, head.window), numbers, partner)
    _pair_near(ordered, keys, partner)
    return Match(base, head, keys, ordered, partner)


def match_opening(base: Sequence[Window], head: Sequence[Window]) -> Match:
    """Pair the opening blocks of window pairs of which both windows begin with their inputs; other windows have none here.

    Such blocks come in no order of their own (by address, as a rule), so there is nothing to align: they pair by owner and key, by key,
    by size; fates equal, then whatever the fates.

    Args:
        base: Windows of base; not empty.
        head: Windows of head, as many.
    """
    begin = np.array([all(side.lo == side.log.facts.opening for side in pair) for pair in zip(base, head, strict=True)])
    of_base, of_head = _opening(base, begin), _opening(head, begin)
    keys = Keys.of(of_base, of_head)
    partner = np.full(len(of_base), -1, np.int64)
    windows, nothing = (of_base.window, of_head.window), np.zeros(len(begin), np.int64)
    for fates in (True, False):
        for numbers in _numbers(of_base, of_head, keys, fates=fates):
            _pair_off(windows, numbers, partner)
    return Match(of_base, of_head, keys, Ordered(np.full(len(of_base), -1), nothing, {}, nothing, windows), partner)


def pair_alike(found: Match, live: tuple[Flags, Flags]) -> Match:
    """Exchange partners among blocks alike that both runs free, so that those live at a moment pair with each other.

    Alike are blocks of one window, key and owner; which of them pair costs nothing.

    Args:
        found: The pairs.
        live: Which blocks of base, and of head, are live at that moment.
    """
    base, head, partner = found.base, found.head, found.partner.copy()
    numbers, owners = np.int64(len(found.keys.size) + 1), np.int64(len(found.keys.owners.names) + 1)
    codes = [
        (blocks.window * numbers + key) * owners + owner + 1
        for blocks, key, owner in (
            (base, found.keys.base, found.keys.base_owner),
            (head, found.keys.head, found.keys.head_owner),
        )
    ]

    def unlike(more: int) -> Ints:
        """Pairs of which head's block alone is live (1), or base's (-1); in the order of the run whose block is not."""
        own = np.flatnonzero(partner >= 0)
        own = own[~base.held[own] & ~head.held[partner[own]] & (codes[0][own] == codes[1][partner[own]])]
        own = own[live[1][partner[own]].astype(np.int64) - live[0][own] == more]
        ordered: Ints = own[np.argsort(own if more > 0 else partner[own])]
        return ordered

    late, early = unlike(1), unlike(-1)
    one, two = nth_with_nth(codes[0][late], codes[0][early])
    partner[late[one]], partner[early[two]] = partner[early[two]], partner[late[one]]
    # Those that are left give way to a block that is alone, and live where theirs is not.
    late, alone = unlike(1), np.flatnonzero((partner < 0) & ~base.held & live[0])
    one, two = nth_with_nth(codes[0][late], codes[0][alone])
    partner[alone[two]], partner[late[one]] = partner[late[one]], -1
    early, alone = unlike(-1), unpaired(partner, len(head))
    alone = alone[~head.held[alone] & live[1][alone]]
    one, two = nth_with_nth(codes[0][early], codes[1][alone])
    partner[early[one]] = alone[two]
    return replace(found, partner=partner)


def apart(found: Match) -> Match:
    """Pairs of unequal fate whose blocks other lines of the program made are none: a Free is missing of what both runs make."""
    keys, (own,) = found.keys, np.nonzero(found.partner >= 0)
    other = found.partner[own]
    stacks = np.array([*(STACK in name for name in keys.owners.names), False])
    owners = keys.base_owner[own], keys.head_owner[other]
    unlike = (owners[0] != owners[1]) & stacks[owners[0]] & stacks[owners[1]]
    partner = found.partner.copy()
    partner[own[unlike & (found.base.held[own] != found.head.held[other])]] = -1
    return replace(found, partner=partner)


def _opening(windows: Sequence[Window], begin: Flags) -> Blocks:
    """The opening blocks of those windows of one log that begin with their input."""
    log = windows[0].log
    allocs = opening_allocs(log)
    event = np.tile(allocs, np.count_nonzero(begin))
    free = log.lifetimes.partner[event].astype(np.int64)
    ends = np.repeat(np.array([window.hi for window in windows], np.int64)[begin], len(allocs))
    starts, held, nothing = starts_of(begin * len(allocs)), (free < 0) | (free >= ends), np.zeros(len(event), np.uint64)
    return Blocks(log, starts, event, event, free, held, nothing, nothing, nothing, np.full(len(event), -1))


def _numbers(base: Blocks, head: Blocks, keys: Keys, *, fates: bool) -> list[tuple[Ints, Ints]]:
    """Return the numbers by which base's and head's blocks pair off, int64: by owner and key, then by key, then by size; by fate, too."""
    owners, sizes = np.int64(len(keys.owners.names) + 1), np.unique(keys.size)
    numbers = [
        (keys.base * owners + keys.base_owner + 1, keys.head * owners + keys.head_owner + 1),
        (keys.base.astype(np.int64), keys.head.astype(np.int64)),
        (np.searchsorted(sizes, base.size), np.searchsorted(sizes, head.size)),
    ]
    return [(one * 2 + base.held, two * 2 + head.held) for one, two in numbers] if fates else numbers


def _pair_off(groups: tuple[Ints, Ints], own_codes: tuple[Ints, Ints], partner: Ints) -> None:
    """Pair what is unpaired and has one code in one group: the first with the first, the second with the second."""
    left, right = np.flatnonzero(partner < 0), unpaired(partner, len(groups[1]))
    if not len(left) or not len(right):
        return
    codes = int(max(code.max() for code in own_codes)) + 1
    at_left, at_right = nth_with_nth(
        groups[0][left] * codes + own_codes[0][left], groups[1][right] * codes + own_codes[1][right]
    )
    partner[left[at_left]] = right[at_right]


def _exchanged(base: Blocks, head: Blocks, keys: Keys, ordered: Ordered) -> Ints:
    """The partners in order without the pairs of unequal fate beside which two blocks of their key are left alone, one of each fate.

    With these the two make pairs of equal fate, which pair off as moved.
    """
    partner = ordered.partner
    left = np.flatnonzero(partner >= 0)
    left = left[base.held[left] != head.held[partner[left]]]
    if not len(left):
        return partner
    alone = np.flatnonzero(partner < 0), unpaired(partner, len(head))
    fates = base.held.astype(np.int64), head.held.astype(np.int64)
    positions, numbers = _positions(ordered, keys, fates)
    partner = partner.copy()
    for _ in range(_ROUNDS):
        # Base's block of the other fate stands for the partner, and head's for the block itself.
        other_fate = (1 - 2 * fates[0][left]) * numbers
        in_base = _mutually_nearest(positions[0][left] + other_fate, positions[0][alone[0]], _REACH_OF_EXCHANGE)
        in_head = _mutually_nearest(
            positions[1][partner[left]] - other_fate, positions[1][alone[1]], _REACH_OF_EXCHANGE
        )
        both = (in_base >= 0) & (in_head >= 0)
        if not both.any():
            break
        partner[left[both]] = -1
        alone = np.delete(alone[0], in_base[both]), np.delete(alone[1], in_head[both])
        left = left[~both]
    return partner


def _pair_near(ordered: Ordered, keys: Keys, partner: Ints) -> None:
    """Pair what is unpaired, has one key in one sequence and stands at about one place, each with its nearest."""
    none = np.zeros(len(ordered.sequences[0]), np.int64), np.zeros(len(ordered.sequences[1]), np.int64)
    positions, _ = _positions(ordered, keys, none)
    for _ in range(_ROUNDS):
        left, right = np.flatnonzero(partner < 0), unpaired(partner, len(positions[1]))
        nearest = _mutually_nearest(positions[0][left], positions[1][right], _REACH)
        mutual = np.flatnonzero(nearest >= 0)
        if not len(mutual):
            return
        partner[left[mutual]] = right[nearest[mutual]]


def _positions(ordered: Ordered, keys: Keys, fates: tuple[Ints, Ints]) -> tuple[tuple[Ints, Ints], int]:
    """Return the places of blocks, as numbers that are near only for equal sequences, keys and fates; and how far apart two fates are."""
    aligned, (of_base, of_head) = ordered.partner, ordered.sequences
    pairs = (aligned >= 0).astype(np.int64), np.zeros(len(of_head), np.int64)
    pairs[1][aligned[aligned >= 0]] = 1
    most = int(max((len(of_base), len(of_head), 1))) + _REACH + _REACH_OF_EXCHANGE
    numbers = len(keys.size) or 1
    base, head = (
        ((sequence * numbers + key) * 2 + fate) * most + _passed(sequence, of_pair)
        for sequence, key, fate, of_pair in zip((of_base, of_head), (keys.base, keys.head), fates, pairs, strict=True)
    )
    return (base, head), most


def _passed(sequence: Ints, of_pair: Ints) -> Ints:
    """Return how many aligned pairs stand before each entry, in its sequence and those before: of two that pair, so many are crossed."""
    order = np.argsort(sequence, kind="stable")
    passed = np.empty(len(order), np.int64)
    passed[order] = np.cumsum(of_pair[order]) - of_pair[order]
    return passed


def _mutually_nearest(wanted: Ints, given: Ints, reach: int) -> Ints:
    """Return which of the given numbers is nearest to each wanted one that is nearest to it, too; -1 where none within reach is."""
    if not len(given) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    there, back = _nearest(wanted, given, reach), _nearest(given, wanted, reach)
    return np.where(back[there] == np.arange(len(wanted)), there, -1)


def _nearest(wanted: Ints, given: Ints, reach: int) -> Ints:
    """Return which of the given numbers is nearest to each wanted one, the lesser of two, or -1 where none is within reach."""
    order = np.argsort(given, kind="stable")
    ranked = given[order]
    above = np.searchsorted(ranked, wanted)
    below, above = np.maximum(above - 1, 0), np.minimum(above, len(ranked) - 1)
    # The first of equal numbers, on either side.
    best = np.where(np.abs(ranked[below] - wanted) <= np.abs(ranked[above] - wanted), below, above)
    best = np.searchsorted(ranked, ranked[best])
    return np.where(np.abs(ranked[best] - wanted) <= reach, order[best], -1)
