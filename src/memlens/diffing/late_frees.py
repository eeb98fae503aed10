"""Frees that come much later in one run than in the other, and blocks that pile up until the work of a window is done.

Time is counted in *common allocations*: those that the alignment pairs, which both runs make.  What only one of the runs allocates
meanwhile makes nothing late.  Where the threads of a window are aligned on their own they are those of the block's thread: that a
thread waits for another one makes nothing late either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.blocks import nth_with_nth
from memlens.diffing.pairing import unpaired

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.blocks import Blocks
    from memlens.diffing.pairing import Match

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

__all__ = ["Frees", "judge_frees"]

#: A FREE is *much later* where so many common allocations lie between it and the other run's, …
_LEAST = 8
#: … and this part of the window's, …
_LEAST_SHARE = 100
#: … and so many times what is usual there: nine pairs in ten are less apart, or all but one in a hundred of those that are apart
#: the other way round, whichever is less: chance moves frees both ways, and a leak one way.
_USUAL = 4
#: The block also lives twice as long as in the other run, or longer by this part of the window's common allocations.
_LONG_SHARE = 10
#: Blocks on each side of a pair that pair with each other, too, where no other pairing is meant.
_NEIGHBOURS = 2


@dataclass(frozen=True, eq=False)
class Frees:
    """When the blocks of a match are freed, one run against the other.

    Attributes:
        late: For each block of base 1 where its partner in head is freed much later, -1 where it is itself, else 0, int64.
        apart: Common allocations between the two frees of a pair that are both in the window, -1 for other blocks, int64.
        apart_bytes: The bytes of these.
        base_to_end: Which blocks of base are kept until the work of their window is done, where head frees the like before or has none.
        head_to_end: Which blocks of head are, likewise.
    """

    late: Ints
    apart: Ints
    apart_bytes: Ints
    base_to_end: Flags
    head_to_end: Flags


def judge_frees(found: Match) -> tuple[Match, Frees]:
    """Look at when both runs free the blocks that they free in their windows.

    Where one run keeps a block long, and pairs with it a block of the other run that is freed soon, there may be a block of the same key
    that fits it better, at the same cost: then these pair.

    Returns:
        The match with such pairs, and what it says.
    """
    clocks = (
        _Clock.of(found.base, found.ordered.sequences[0], np.flatnonzero(found.aligned >= 0)),
        _Clock.of(found.head, found.ordered.sequences[1], found.aligned[found.aligned >= 0]),
    )
    limits = _Limits.of(found, *clocks)
    late = _late(found, limits, *clocks)
    if late.any():
        found = _exchanged(found, late, *clocks)
        late = _late(found, limits, *clocks)
        late[~_sure(found, late, limits, *clocks)] = 0
    left, right = _freed_pairs(found, found.partner)
    apart = np.full(len(found.base), -1, np.int64)
    apart_bytes = np.full(len(found.base), -1, np.int64)
    apart[left] = np.abs(clocks[1].life[right] - clocks[0].life[left])
    apart_bytes[left] = np.abs(clocks[1].life_bytes[right] - clocks[0].life_bytes[left])
    kept = _kept(found, late, limits, clocks)
    return found, Frees(late, apart, apart_bytes, *kept)


def _kept(found: Match, late: Ints, limits: _Limits, clocks: tuple[_Clock, _Clock]) -> tuple[Flags, Flags]:
    """Which blocks of base and of head are kept until the work is done; pairs among them that are not marked as late yet are, in place.

    Of a key no more are kept in one run than are freed at its end beyond those at the other's.
    """
    runs = found.base, found.head
    closing = _closing(found.base), _closing(found.head)
    groups = _groups(found, found.base, found.keys.base), _groups(found, found.head, found.keys.head)
    kept = np.zeros(len(found.base), np.bool_), np.zeros(len(found.head), np.bool_)
    pairs = _freed_pairs(found, found.partner)
    lonely = np.flatnonzero(found.partner < 0), found.only_head
    for sign, here, there in ((1, 1, 0), (-1, 0, 1)):
        # Of blocks alike, those that were allocated last are kept for a moment only, and belong to the others all the same.
        ends = closing[here][pairs[here]] & ~closing[there][pairs[there]]
        group = groups[here][pairs[here]]
        piled = ends & np.isin(group, group[ends & (late[pairs[0]] == sign)])
        late[pairs[0][piled]] = sign
        kept[here][pairs[here][piled]] = True

        alone = lonely[here][closing[here][lonely[here]]]
        life = clocks[here].life[alone]
        alone = alone[np.lexsort((-life, groups[here][alone]))]
        group, life = groups[here][alone], clocks[here].life[alone]
        rank = np.arange(len(group)) - np.searchsorted(group, group)
        more = _count(group, groups[here][closing[here]]) - _count(group, groups[there][closing[there]])
        more -= _count(group, groups[here][kept[here]])
        long = life >= np.maximum(limits.pairs[runs[here].window[alone]] // _LONG_SHARE, _LEAST)
        kept[here][alone[(rank < more) & np.isin(group, group[long])]] = True
    return kept


def _count(wanted: Ints, given: Ints) -> Ints:
    """How often each of some numbers is among others."""
    given = np.sort(given)
    often: Ints = np.searchsorted(given, wanted, "right") - np.searchsorted(given, wanted, "left")
    return often


@dataclass(frozen=True, eq=False)
class _Clock:
    """How long each block of one run lives, in common allocations of its sequence; of no meaning for what is held, int64.

    Attributes:
        born: Common allocations in the sequence before it.
        life: Those between its ALLOC and its FREE.
        life_bytes: Their bytes.
        own_life: All allocations between the two, common ones or not.
    """

    born: Ints
    life: Ints
    life_bytes: Ints
    own_life: Ints

    @classmethod
    def of(cls, blocks: Blocks, sequence: Ints, common: Ints) -> _Clock:
        """Count, given the sequence of each block and the places of the common allocations."""
        top = int(max(blocks.event.max(initial=0), blocks.free.max(initial=0))) + 2
        begin = sequence * top
        common = common[np.argsort((begin + blocks.event)[common], kind="stable")]
        ticks = (begin + blocks.event)[common]
        size = np.concatenate(([0], np.cumsum(blocks.size[common])))
        before, at = np.searchsorted(ticks, begin), np.searchsorted(ticks, begin + blocks.event)
        itself = np.zeros(len(blocks), np.int64)
        itself[common] = 1
        # What is held is counted to nowhere: its FREE lies beyond the window.
        ended = np.maximum(
            np.searchsorted(ticks, begin + np.where(blocks.held, blocks.event, blocks.free)), at + itself
        )
        every = np.sort(begin + blocks.event)
        own_life = np.searchsorted(every, begin + blocks.free) - np.searchsorted(every, begin + blocks.event) - 1
        return cls(at - before, ended - at - itself, size[ended] - size[at + itself], own_life)


@dataclass(frozen=True, eq=False)
class _Limits:
    """What is much later in each window, int64: for head's frees, for base's, and the number of its common allocations."""

    head: Ints
    base: Ints
    pairs: Ints

    @classmethod
    def of(cls, found: Match, base: _Clock, head: _Clock) -> _Limits:
        pairs = found.base.sums(found.aligned >= 0)
        left, right = _freed_pairs(found, found.aligned)
        apart = head.life[right] - base.life[left]
        window = found.base.window[left]
        usual = _quantile(np.abs(apart), window, len(pairs), 90)
        least = np.maximum(pairs // _LEAST_SHARE, _LEAST)
        of_head, of_base = (
            np.maximum(_USUAL * np.minimum(usual, _quantile(np.maximum(other, 0), window, len(pairs), 99)), least)
            for other in (-apart, apart)
        )
        return cls(of_head, of_base, pairs)


def _quantile(values: Ints, window: Ints, windows: int, percent: int) -> Ints:
    """The value that so many in a hundred of each window's do not exceed; 0 where a window has none."""
    ranked = values[np.lexsort((values, window))]
    count = np.bincount(window, minlength=windows)
    first = np.cumsum(count) - count
    found = np.zeros(windows, np.int64)
    some = np.flatnonzero(count)
    found[some] = ranked[first[some] + np.minimum(count[some] * percent // 100, count[some] - 1)]
    return found


def _freed_pairs(found: Match, partner: Ints) -> tuple[Ints, Ints]:
    """Places in base and in head of the pairs that both runs free in the window; ``partner`` is as in :class:`Match`, or its ``aligned``."""
    left = np.flatnonzero(partner >= 0)
    left = left[~found.base.held[left] & ~found.head.held[partner[left]]]
    return left, partner[left]


def _late(found: Match, limits: _Limits, base: _Clock, head: _Clock) -> Ints:
    """Which pairs are freed much later in head (1) or in base (-1)."""
    late = np.zeros(len(found.base), np.int64)
    left, right = _freed_pairs(found, found.partner)
    window = found.base.window[left]
    apart = head.life[right] - base.life[left]
    # What one run alone allocates while the block is live is no time for the other, but the block lives as long.
    own = head.own_life[right] - base.own_life[left]
    long = np.minimum(np.minimum(base.life[left], head.life[right]), limits.pairs[window] // _LONG_SHARE)
    late[left[(np.minimum(apart, own) >= limits.head[window]) & (apart >= long)]] = 1
    late[left[(np.minimum(-apart, -own) >= limits.base[window]) & (-apart >= long)]] = -1
    return late


def _sure(found: Match, late: Ints, limits: _Limits, base: _Clock, head: _Clock) -> Flags:
    """Which blocks of base are late whoever is their partner, or have one that is hardly to be mistaken."""
    sure = _in_step(found)
    lives = _Lives.of(found, found.base, found.keys.base, base), _Lives.of(found, found.head, found.keys.head, head)
    for sign, keeps, clock, limit in ((1, 1, head, limits.head), (-1, 0, base, limits.base)):
        places = np.flatnonzero((late == sign) & ~sure)
        block = found.partner[places] if keeps else places
        group, life = lives[keeps].group[block], clock.life[block]
        # More of the blocks of this key live so long than nearly so long in the other run.
        least = life - limit[found.base.window[places]] + 1
        sure[places] = lives[keeps].at_least(group, life) > lives[1 - keeps].at_least(group, least)
    return sure


def _in_step(found: Match) -> Flags:
    """Which blocks of base stand among the same neighbours as their partners do, so that hardly another one is meant."""
    left = np.flatnonzero((found.aligned >= 0) & (found.aligned == found.partner))
    to_head, to_base = np.full(len(found.base), -1, np.int64), np.full(len(found.head), -1, np.int64)
    to_head[left] = found.partner[left]
    to_base[to_head[left]] = left
    solid = _among_neighbours(found.base, to_head)
    solid[left] &= _among_neighbours(found.head, to_base)[to_head[left]]
    return solid


def _among_neighbours(blocks: Blocks, partner: Ints) -> Flags:
    """Which blocks pair, and so do those around them in their window, with those around their partners."""
    solid: Flags = partner >= 0
    for distance in range(1, _NEIGHBOURS + 1):
        later, earlier = partner[distance:], partner[:-distance]
        apart = (later < 0) | (earlier < 0) | (np.abs(later - earlier) != distance)
        apart &= blocks.window[distance:] == blocks.window[:-distance]
        solid[distance:] &= ~apart
        solid[:-distance] &= ~apart
    return solid


@dataclass(frozen=True, eq=False)
class _Lives:
    """How long the blocks of each window and key live that are freed in it, to count them; ``group`` is of all blocks, int64."""

    group: Ints
    top: int
    ranked: Ints

    @classmethod
    def of(cls, found: Match, blocks: Blocks, key: NDArray[np.int32], clock: _Clock) -> _Lives:
        group, top = _groups(found, blocks, key), int(clock.life.max(initial=0)) + 2
        freed = ~blocks.held
        return cls(group, top, np.sort(group[freed] * top + clock.life[freed]))

    def at_least(self, group: Ints, life: Ints) -> Ints:
        """How many blocks of each group live so long."""
        begin = group * self.top
        found: Ints = np.searchsorted(self.ranked, begin + self.top) - np.searchsorted(
            self.ranked, begin + np.clip(life, 0, self.top)
        )
        return found


def _closing(blocks: Blocks) -> Flags:
    """Which blocks are freed in the window, but only after the last of its ALLOCs."""
    some = np.diff(blocks.starts) > 0
    done = np.zeros(len(some), np.int64)
    done[some] = blocks.event[blocks.starts[1:][some] - 1]
    closing: Flags = ~blocks.held & (blocks.free > done[blocks.window])
    return closing


def _groups(found: Match, blocks: Blocks, key: NDArray[np.int32]) -> Ints:
    """A number for each window and key, the same in both runs."""
    return blocks.window * np.int64(len(found.keys.size) or 1) + key


def _exchanged(found: Match, late: Ints, base: _Clock, head: _Clock) -> Match:
    """Pair blocks of one key anew where one of a pair is kept long and the other is not, and others of that key fit better."""
    partner, aligned = found.partner.copy(), found.aligned.copy()
    of_base, of_head = _groups(found, found.base, found.keys.base), _groups(found, found.head, found.keys.head)

    def untimely(sign: int) -> Ints:
        """Pairs by the place of the one that is freed soon, so that the comparison the other way round takes the same ones."""
        places = np.flatnonzero((late == sign) & (partner >= 0))
        places = places[of_base[places] == of_head[partner[places]]]
        soon = places if sign > 0 else partner[places]
        ordered: Ints = places[np.lexsort((soon, of_base[places]))]
        return ordered

    # One late and one early: the two long ones pair, and the two short ones.
    later, earlier = untimely(1), untimely(-1)
    one, two = nth_with_nth(of_base[later], of_base[earlier])
    later, earlier = later[one], earlier[two]
    partner[later], partner[earlier] = partner[earlier], partner[later]
    late = late.copy()
    late[later] = late[earlier] = 0
    # A long or a short one that is alone: it takes the place of the one of its own run that fits worse.
    middle = _middle(found, late, of_base, base, head)
    for sign in (1, -1):
        for takes_base in (True, False):
            places = untimely(sign)
            if takes_base:
                alone, groups, clock, blocks = np.flatnonzero(partner < 0), of_base, base, found.base
            else:
                alone, groups, clock, blocks = unpaired(partner, len(found.head)), of_head, head, found.head
            # Of a late pair base's block is the short one: what takes the place of head's is short, too.
            short = (sign > 0) != takes_base
            alone = alone[~blocks.held[alone] & np.isin(groups[alone], of_base[places])]
            limit = middle[np.searchsorted(middle[:, 0], groups[alone]), 1] if len(alone) else alone
            alone = alone[(2 * clock.life[alone] < limit) if short else (2 * clock.life[alone] > limit)]
            alone = alone[np.lexsort((clock.born[alone], groups[alone]))]
            one, two = nth_with_nth(of_base[places], groups[alone])
            places, alone = places[one], alone[two]
            if takes_base:
                partner[alone], partner[places] = partner[places], -1
                aligned[alone], aligned[places] = aligned[places], -1
            else:
                partner[places] = alone
            late[places] = 0
    ordered = replace(found.ordered, partner=np.where(aligned >= 0, partner, -1))
    return replace(found, partner=partner, ordered=ordered)


def _middle(found: Match, late: Ints, groups: Ints, base: _Clock, head: _Clock) -> Ints:
    """Of each group with untimely pairs its number, rising, and twice the life between the short and the long ones of a pair, on average."""
    places = np.flatnonzero(late)
    numbers, group = np.unique(groups[places], return_inverse=True)
    sums = np.zeros(len(numbers), np.int64)
    np.add.at(sums, group, base.life[places] + head.life[found.partner[places]])
    return np.stack((numbers, sums // np.maximum(np.bincount(group, minlength=len(numbers)), 1)), axis=1)
