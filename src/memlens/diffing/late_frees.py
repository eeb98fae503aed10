"""Frees that come much later in one run than in the other, and blocks that pile up until the work of a window is done.

Time is counted in *common allocations*: those that the alignment pairs, which both runs make.  What only one of the runs allocates
meanwhile makes nothing late.  Where the threads of a window are aligned on their own they are those of the block's thread: that a
thread waits for another one makes nothing late either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.diffing.alignment.indices import nth_with_nth, starts_of, unpaired

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.alignment.blocks import Blocks
    from memlens.diffing.pairing import Match

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

__all__ = ["Frees", "judge_frees"]

#: A FREE is *much later* where so many common allocations lie between it and the other run's, …
_LEAST = 8
#: … and this part of the window's, …
_LEAST_SHARE = 100
#: … and so many times what is usual there: so many pairs in a hundred are less apart, or so many of those that are apart the other way
#: round, whichever is less: chance moves frees both ways, and a leak one way.
_USUAL, _USUAL_PERCENT, _OTHER_PERCENT = 4, 90, 99
#: The block also lives twice as long as in the other run, or longer by this part of the window's common allocations.
_LONG_SHARE = 10
#: Blocks on each side of a pair that pair with each other, too, where no other pairing is meant.
_NEIGHBOURS = 2


class Frees(NamedTuple):
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
    base = _Run.of(found, found.base, found.keys.base, found.ordered.sequences[0], np.flatnonzero(found.aligned >= 0))
    common = found.aligned[found.aligned >= 0]
    head = _Run.of(found, found.head, found.keys.head, found.ordered.sequences[1], common)
    limits = _Limits.of(found, base, head)
    late = _late(found, limits, base, head)
    if late.any():
        found = _exchanged(found, late, base, head)
        late = _late(found, limits, base, head)
        late[~_sure(found, late, limits, base, head)] = 0
    left, right = _freed_pairs(found, found.partner)
    apart, apart_bytes = np.full((2, len(found.base)), -1, np.int64)
    apart[left] = np.abs(head.life[right] - base.life[left])
    apart_bytes[left] = np.abs(head.life_bytes[right] - base.life_bytes[left])
    kept = _kept(found, late, limits, (base, head))
    return found, Frees(late, apart, apart_bytes, *kept)


class _Run(NamedTuple):
    """How long each block of one run lives, in common allocations of its sequence; of no meaning for what is held; int64.

    Attributes:
        blocks: The blocks.
        group: A number for each window and key, the same in both runs.
        born: Common allocations in the sequence before the block.
        life: Those between its ALLOC and its FREE.
        life_bytes: Their bytes.
        own_life: All allocations between the two, common ones or not.
    """

    blocks: Blocks
    group: Ints
    born: Ints
    life: Ints
    life_bytes: Ints
    own_life: Ints

    @classmethod
    def of(cls, found: Match, blocks: Blocks, key: NDArray[np.int32], sequence: Ints, common: Ints) -> _Run:
        """Count, given the key and the sequence of each block and which ones are common allocations."""
        top = int(max(blocks.event.max(initial=0), blocks.free.max(initial=0))) + 2
        begin = sequence * top
        alloc, free = begin + blocks.event, begin + blocks.free
        common = common[np.argsort(alloc[common], kind="stable")]
        ticks = alloc[common]
        size = starts_of(blocks.size[common])
        before, at = np.searchsorted(ticks, begin), np.searchsorted(ticks, alloc)
        after = at.copy()
        after[common] += 1
        # What is held is counted to nowhere: its FREE lies beyond the window.
        ended = np.maximum(np.searchsorted(ticks, np.where(blocks.held, alloc, free)), after)
        every = np.sort(alloc)
        own_life = np.searchsorted(every, free) - np.searchsorted(every, alloc) - 1
        group = blocks.window * np.int64(len(found.keys.size) or 1) + key
        return cls(blocks, group, at - before, ended - after, size[ended] - size[after], own_life)

    def closing(self) -> Flags:
        """Which blocks are freed in the window, but only after the last of its ALLOCs."""
        blocks = self.blocks
        last = np.append(blocks.event, 0)[blocks.starts[1:] - 1]  # of a window without ALLOCs nobody asks
        closing: Flags = ~blocks.held & (blocks.free > last[blocks.window])
        return closing

    def at_least(self, group: Ints, life: Ints) -> Ints:
        """How many blocks of each group that are freed in the window live so long."""
        top = int(self.life.max(initial=0)) + 2
        ranked = np.sort((self.group * top + self.life)[~self.blocks.held])
        found: Ints = np.searchsorted(ranked, (group + 1) * top) - np.searchsorted(
            ranked, group * top + np.clip(life, 0, top)
        )
        return found


class _Limits(NamedTuple):
    """What is much later in each window, int64: for head's frees, for base's, and the number of its common allocations."""

    head: Ints
    base: Ints
    pairs: Ints

    @classmethod
    def of(cls, found: Match, base: _Run, head: _Run) -> _Limits:
        pairs = found.base.sums(found.aligned >= 0)
        left, right = _freed_pairs(found, found.aligned)
        apart, window = head.life[right] - base.life[left], found.base.window[left]
        usual = _quantile(np.abs(apart), window, len(pairs), _USUAL_PERCENT)
        least = np.maximum(pairs // _LEAST_SHARE, _LEAST)
        of_head, of_base = (
            np.maximum(
                _USUAL * np.minimum(usual, _quantile(np.maximum(other, 0), window, len(pairs), _OTHER_PERCENT)), least
            )
            for other in (-apart, apart)
        )
        return cls(of_head, of_base, pairs)


def _quantile(values: Ints, window: Ints, windows: int, percent: int) -> Ints:
    """The value that so many in a hundred of each window's do not exceed; 0 where a window has none."""
    ranked = np.append(values[np.lexsort((values, window))], 0)
    count = np.bincount(window, minlength=windows)
    index = np.cumsum(count) - count + np.minimum(count * percent // 100, count - 1)
    found: Ints = np.where(count > 0, ranked[index], 0)
    return found


def _freed_pairs(found: Match, partner: Ints) -> tuple[Ints, Ints]:
    """Indices in base and in head of the pairs that both runs free in the window; ``partner`` is as in :class:`Match`, or its ``aligned``."""
    left = np.flatnonzero(partner >= 0)
    left = left[~found.base.held[left] & ~found.head.held[partner[left]]]
    return left, partner[left]


def _late(found: Match, limits: _Limits, base: _Run, head: _Run) -> Ints:
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


def _sure(found: Match, late: Ints, limits: _Limits, base: _Run, head: _Run) -> Flags:
    """Which blocks of base are late whoever is their partner, or have one that is hardly to be mistaken."""
    # They stand among the same neighbours as their partners do.
    to_head = np.where(found.aligned == found.partner, found.partner, -1)
    left = np.flatnonzero(to_head >= 0)
    to_base = np.full(len(found.head), -1, np.int64)
    to_base[to_head[left]] = left
    sure = _among_neighbours(found.base, to_head)
    sure[left] &= _among_neighbours(found.head, to_base)[to_head[left]]
    for sign, here, there, limit in ((1, head, base, limits.head), (-1, base, head, limits.base)):
        own = np.flatnonzero((late == sign) & ~sure)
        block = found.partner[own] if sign > 0 else own
        group, life = here.group[block], here.life[block]
        # More of the blocks of this key live so long than nearly so long in the other run.
        least = life - limit[found.base.window[own]] + 1
        sure[own] = here.at_least(group, life) > there.at_least(group, least)
    return sure


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


def _kept(found: Match, late: Ints, limits: _Limits, runs: tuple[_Run, _Run]) -> tuple[Flags, Flags]:
    """Which blocks of base and of head are kept until the work is done; pairs among them that are not marked as late yet are, in place.

    Of a key no more are kept in one run than are freed at its end beyond those at the other's.
    """
    closing = runs[0].closing(), runs[1].closing()
    kept = np.zeros(len(found.base), np.bool_), np.zeros(len(found.head), np.bool_)
    pairs = _freed_pairs(found, found.partner)
    lonely = np.flatnonzero(found.partner < 0), found.only_head
    for sign, here, there in ((1, 1, 0), (-1, 0, 1)):
        # Of blocks alike, those that were allocated last are kept for a moment only, and belong to the others all the same.
        ends = closing[here][pairs[here]] & ~closing[there][pairs[there]]
        run, other = runs[here], runs[there]
        group = run.group[pairs[here]]
        piled = ends & np.isin(group, group[ends & (late[pairs[0]] == sign)])
        late[pairs[0][piled]] = sign
        kept[here][pairs[here][piled]] = True

        alone = lonely[here][closing[here][lonely[here]]]
        alone = alone[np.lexsort((-run.life[alone], run.group[alone]))]
        group, life = run.group[alone], run.life[alone]
        rank = np.arange(len(group)) - np.searchsorted(group, group)
        more = _count(group, run.group[closing[here] & ~kept[here]]) - _count(group, other.group[closing[there]])
        long = life >= np.maximum(limits.pairs[run.blocks.window[alone]] // _LONG_SHARE, _LEAST)
        kept[here][alone[(rank < more) & np.isin(group, group[long])]] = True
    return kept


def _count(wanted: Ints, given: Ints) -> Ints:
    """How often each of some numbers is among others."""
    given = np.sort(given)
    often: Ints = np.searchsorted(given, wanted, "right") - np.searchsorted(given, wanted, "left")
    return often


def _exchanged(found: Match, late: Ints, base: _Run, head: _Run) -> Match:
    """Pair blocks of one key anew where one of a pair is kept long and the other is not, and others of that key fit better."""
    partner, aligned, late = found.partner.copy(), found.aligned.copy(), late.copy()

    def untimely(sign: int) -> Ints:
        """Pairs by the index of the one that is freed soon, so that the comparison the other way round takes the same ones."""
        own = np.flatnonzero((late == sign) & (partner >= 0))
        own = own[base.group[own] == head.group[partner[own]]]
        ordered: Ints = own[np.lexsort((own if sign > 0 else partner[own], base.group[own]))]
        return ordered

    # One late and one early: the two long ones pair, and the two short ones.
    later, earlier = untimely(1), untimely(-1)
    one, two = nth_with_nth(base.group[later], base.group[earlier])
    later, earlier = later[one], earlier[two]
    partner[later], partner[earlier] = partner[earlier], partner[later]
    late[later] = late[earlier] = 0
    # A long or a short one that is alone: it takes the place of the one of its own run that fits worse.  It is long where it lives longer
    # than the long and the short ones of the untimely pairs of its key on average.
    own = np.flatnonzero(late)
    groups, group = np.unique(base.group[own], return_inverse=True)
    twice = np.zeros(len(groups), np.int64)
    np.add.at(twice, group, base.life[own] + head.life[found.partner[own]])
    twice //= np.maximum(np.bincount(group, minlength=len(groups)), 1)
    for sign in (1, -1):
        for takes_base in (True, False):
            own, run = untimely(sign), base if takes_base else head
            alone = np.flatnonzero(partner < 0) if takes_base else unpaired(partner, len(found.head))
            alone = alone[~run.blocks.held[alone] & np.isin(run.group[alone], base.group[own])]
            above = 2 * run.life[alone] - twice[np.searchsorted(groups, run.group[alone])]
            # Of a late pair base's block is the short one: what takes the place of head's is short, too.
            alone = alone[above < 0 if (sign > 0) != takes_base else above > 0]
            alone = alone[np.lexsort((run.born[alone], run.group[alone]))]
            one, two = nth_with_nth(base.group[own], run.group[alone])
            own, alone = own[one], alone[two]
            if takes_base:
                partner[alone], partner[own] = partner[own], -1
                aligned[alone], aligned[own] = aligned[own], -1
            else:
                partner[own] = alone
            late[own] = 0
    ordered = replace(found.ordered, partner=np.where(aligned >= 0, partner, -1))
    return replace(found, partner=partner, ordered=ordered)
