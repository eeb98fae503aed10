"""Every single block that two runs treat differently, as columns; blocks that are alike become one finding.

An *item* is a pair of blocks, or a block that only one run has.  Items of all windows lie in one table, so that grouping them, within
a window or over all windows, is one sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.attribution import Levels, PairsAtPeaks, live_at_peak
from memlens.diffing.blocks import owner_numbers
from memlens.diffing.finding import KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.blocks import Blocks
    from memlens.diffing.late import Frees
    from memlens.diffing.pairing import Match
    from memlens.events import EventLog

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

__all__ = ["FATES", "KIND_NAMES", "Items", "collect", "group"]

#: Kinds by number, in the order in which findings of equal weight are shown.
KIND_NAMES = tuple(KINDS)
_KIND = {name: number for number, name in enumerate(KIND_NAMES)}
#: Fates by number; ``base`` and ``head`` say which run frees a block that was carried in.
FATES = (None, "held", "temporary", "base", "head", "carried_in", "to_end")
_FATE = {name: number for number, name in enumerate(FATES)}
#: For each kind 1 where its blocks count at head's peak as a rule, or at neither, -1 where at base's, 0 where there is no rule.
_RAISES = np.array([{"only_head": 1, "late_free": 1, "only_base": -1, "early_free": -1}.get(name, 0) for name in KINDS])


@dataclass(frozen=True, eq=False)
class Items:
    """One entry an item, windows in order, int64 unless said otherwise.

    Attributes:
        window: Number of the window pair.
        kind: Index into :data:`KIND_NAMES`.
        fate: Index into :data:`FATES`.
        size: Bytes of the block.
        requested: What was asked for, -1 where unknown.
        owner: Index into the owners of both runs, -1 where unknown.
        freed_by: Likewise, of the FREE that one run has and the other has not.
        ends: What becomes of the block in the run that keeps it: 0 it is freed later in the log, 1 never, 2 it is freed in the window.
        remaining: What it contributes to Δremaining.
        peak: What it contributes to Δpeak.
        apart: Common allocations between the two runs' frees of it, -1 where that is not looked at.
        apart_bytes: The bytes of these, likewise.
        base_alloc: Base's ALLOC, -1 where base has none.
        base_free: Base's FREE, wherever it is, -1 where there is none.
        head_alloc: Head's ALLOC.
        head_free: Head's FREE.
    """

    window: Ints
    kind: Ints
    fate: Ints
    size: Ints
    requested: Ints
    owner: Ints
    freed_by: Ints
    ends: Ints
    remaining: Ints
    peak: Ints
    apart: Ints
    apart_bytes: Ints
    base_alloc: Ints
    base_free: Ints
    head_alloc: Ints
    head_free: Ints

    def __len__(self) -> int:
        return len(self.window)

    def take(self, at: Ints | Flags) -> Items:
        """Some of them."""
        return Items(*(getattr(self, spec.name)[at] for spec in fields(self)))

    def in_windows_from(self, first: int) -> Items:
        """The same items where the number of the first window is another one than 0."""
        return replace(self, window=self.window + first)

    @classmethod
    def joined(cls, parts: Sequence[Items]) -> Items:
        """The items of neighbouring stretches of windows, one after the other."""
        return cls(*(np.concatenate([getattr(part, spec.name) for part in parts]) for spec in fields(cls)))


def collect(
    allocs: Match,
    pairs: PairsAtPeaks,
    frees: Frees,
    released: Match,
    opening: Match,
    base: Levels,
    head: Levels,
) -> Items:
    """The items of all windows, by window and then by place in the log."""
    parts = [
        _pairs(allocs, pairs, frees),
        _alone(allocs, base, frees.base_to_end, of_head=False),
        _alone(allocs, head, frees.head_to_end, of_head=True),
        _released_pairs(released, base, head),
        _released_alone(released, base, of_head=False),
        _released_alone(released, head, of_head=True),
        _opening_alone(opening, of_head=False),
        _opening_alone(opening, of_head=True),
    ]
    every = Items.joined(parts)
    return every.take(np.argsort(every.window, kind="stable"))


def _pairs(found: Match, pairs: PairsAtPeaks, frees: Frees) -> Items:
    """Pairs of different fate, those of equal fate that are live at one peak only, and those freed much later in one run."""
    of_base, of_head = found.base, found.head
    left, right, sign = pairs.base, pairs.head, pairs.sign
    base_held, head_held = of_base.held[left], of_head.held[right]
    kind = np.full(len(left), -1, np.int64)
    kind[pairs.unborn] = _KIND["elsewhere"]
    kind[pairs.later > 0] = _KIND["late_free"]
    kind[pairs.later < 0] = _KIND["early_free"]
    kind[~base_held & head_held] = _KIND["missing_free"]
    kind[base_held & ~head_held] = _KIND["extra_free"]
    some = np.flatnonzero(kind >= 0)
    left, right, kind, sign = left[some], right[some], kind[some], sign[some]
    size = of_base.size[left]
    kept = frees.base_to_end[left], frees.head_to_end[right]
    to_end = ((kind == _KIND["late_free"]) & kept[1]) | ((kind == _KIND["early_free"]) & kept[0])
    moves = (kind == _KIND["missing_free"]).astype(np.int64) - (kind == _KIND["extra_free"])
    # The FREE that tells the runs apart is the one of the run that frees in the window, or that frees sooner.
    in_head = (kind == _KIND["extra_free"]) | (kind == _KIND["early_free"])
    telling = in_head | ((kind == _KIND["elsewhere"]) & (sign > 0))
    base_free, head_free = of_base.free[left], of_head.free[right]
    return Items(
        pairs.window[some],
        kind,
        to_end * np.int64(_FATE["to_end"]),
        size,
        _common_request(found, left, right),
        _owner_of_pairs(found, left, right, telling),
        np.where(telling, _owner_of(found, head_free, of_head=True), _owner_of(found, base_free, of_head=False)),
        np.where(moves == 0, 2, np.where(in_head, base_free < 0, head_free < 0)),
        size * moves,
        size * sign,
        np.where(moves == 0, frees.apart[left], -1),
        np.where(moves == 0, frees.apart_bytes[left], -1),
        of_base.alloc[left],
        base_free,
        of_head.alloc[right],
        head_free,
    )


def _alone(found: Match, of: Levels, to_end: Flags, *, of_head: bool) -> Items:
    """Blocks that one run allocates and the other does not."""
    blocks, places, sign = _lonely(found, of_head=of_head)
    size, held = blocks.size[places], blocks.held[places]
    live = live_at_peak(blocks, of)[places]
    free = blocks.free[places]
    fate = np.where(held, _FATE["held"], np.where(to_end[places], _FATE["to_end"], _FATE["temporary"]))
    kind = _KIND["only_head" if of_head else "only_base"]
    ends = np.where(held, free < 0, 2)
    # Who frees a temporary tells nothing apart: base has no such block.
    return _one_sided(
        found, places, kind, fate, np.full(len(places), -1), ends, sign * size * held, sign * size * live, of_head
    )


def _released_pairs(found: Match, base: Levels, head: Levels) -> Items:
    """Blocks carried in that both runs free, one of them before its peak and the other after."""
    left = np.flatnonzero(found.partner >= 0)
    right = found.partner[left]
    window = found.base.window[left]
    before = found.base.event[left] < base.peak_end[window], found.head.event[right] < head.peak_end[window]
    sign = before[0].astype(np.int64) - before[1]
    some = np.flatnonzero(sign)
    left, right, sign = left[some], right[some], sign[some]
    base_free, head_free = found.base.free[left], found.head.free[right]
    return Items(
        window[some],
        np.where(sign > 0, _KIND["late_free"], _KIND["early_free"]),
        np.full(len(some), _FATE["carried_in"]),
        found.base.size[left],
        _common_request(found, left, right),
        _owner_of_pairs(found, left, right, sign < 0),
        np.where(sign > 0, _owner_of(found, base_free, of_head=False), _owner_of(found, head_free, of_head=True)),
        np.full(len(some), 2),
        np.zeros(len(some), np.int64),
        sign * found.base.size[left],
        np.full(len(some), -1),
        np.full(len(some), -1),
        found.base.alloc[left],
        base_free,
        found.head.alloc[right],
        head_free,
    )


def _released_alone(found: Match, of: Levels, *, of_head: bool) -> Items:
    """Blocks carried in that only one run frees."""
    blocks, places, sign = _lonely(found, of_head=of_head)
    size, free = blocks.size[places], blocks.free[places]
    fate = np.full(len(places), _FATE["head" if of_head else "base"])
    early = free < of.peak_end[blocks.window[places]]
    freed_by = _owner_of(found, free, of_head=of_head)
    ends = np.full(len(places), 2)
    return _one_sided(
        found, places, _KIND["released"], fate, freed_by, ends, -sign * size, -sign * size * early, of_head
    )


def _opening_alone(found: Match, *, of_head: bool) -> Items:
    """Opening blocks that only one run has; whether it frees them in the window, later or never is a trait of theirs."""
    blocks, places, sign = _lonely(found, of_head=of_head)
    ends = np.where(blocks.held[places], blocks.free[places] < 0, 2)
    kind = _KIND["opening_only_head" if of_head else "opening_only_base"]
    nothing = np.zeros(len(places), np.int64)
    return _one_sided(found, places, kind, nothing, nothing - 1, ends, nothing, sign * blocks.size[places], of_head)


def _lonely(found: Match, *, of_head: bool) -> tuple[Blocks, Ints, int]:
    """The blocks of one run, the places of those without a partner, and the sign with which they count."""
    if of_head:
        return found.head, found.only_head, 1
    return found.base, np.flatnonzero(found.partner < 0), -1


def _one_sided(
    found: Match,
    places: Ints,
    kind: int,
    fate: Ints,
    freed_by: Ints,
    ends: Ints,
    remaining: Ints,
    peak: Ints,
    of_head: bool,
) -> Items:
    keys = found.keys
    blocks, key, owner = (
        (found.head, keys.head, keys.head_owner) if of_head else (found.base, keys.base, keys.base_owner)
    )
    here, there = (blocks.alloc[places], blocks.free[places]), (np.full(len(places), -1), np.full(len(places), -1))
    base, head = (there, here) if of_head else (here, there)
    return Items(
        blocks.window[places],
        np.full(len(places), kind),
        fate,
        blocks.size[places],
        keys.requested[key[places]],
        owner[places],
        freed_by,
        ends.astype(np.int64),
        remaining,
        peak,
        np.full(len(places), -1),
        np.full(len(places), -1),
        *base,
        *head,
    )


def _common_request(found: Match, left: Ints, right: Ints) -> Ints:
    """What the tensors of pairs asked for, -1 where they did not ask for the same."""
    requested, other = found.keys.requested[found.keys.base[left]], found.keys.requested[found.keys.head[right]]
    return np.where(requested == other, requested, -1)


def _owner_of_pairs(found: Match, left: Ints, right: Ints, in_head: Flags) -> Ints:
    """The owners of pairs, as the run says whose event tells the two apart, else as the other one does."""
    base, head = found.keys.base_owner[left], found.keys.head_owner[right]
    first, second = np.where(in_head, head, base), np.where(in_head, base, head)
    return np.where(first >= 0, first, second)


def _owner_of(found: Match, events: Ints, *, of_head: bool) -> Ints:
    """The owners of some events (-1 among them has none), numbered as the runs' owners are."""
    log: EventLog = (found.head if of_head else found.base).log
    if log.owner is None:
        return np.full(len(events), -1, np.int64)
    numbers = owner_numbers(log, found.keys.names)
    owners: Ints = np.where(events >= 0, numbers[log.owner[events]], -1)
    return owners


def group(items: Items) -> tuple[Ints, ...]:
    """Put items alike in kind, fate, size, owner and place together, whatever their window.

    Returns:
        For each group the places of its items, in order, int64; the group of the largest effect first.
    """
    if not len(items):
        return ()
    # Whether a block counts at head's peak or at base's is a trait too: together they would hide each other.
    at_peak = np.sign(items.peak)
    at_peak[at_peak == _RAISES[items.kind]] = 0
    traits = (items.kind, items.fate, items.size, items.requested, items.owner, items.freed_by, items.ends, at_peak)
    order = np.lexsort(traits)
    change = np.zeros(len(items), np.bool_)
    for trait in traits:
        sorted_trait = trait[order]
        change[1:] |= sorted_trait[1:] != sorted_trait[:-1]
    change[0] = True
    first = np.flatnonzero(change)
    remaining, peak, total = (
        np.abs(np.add.reduceat(column[order], first)) for column in (items.remaining, items.peak, items.size)
    )
    leading = order[first]
    shown = np.lexsort((leading, items.kind[leading], -total, -remaining, -np.maximum(remaining, peak)))
    edges = np.append(first, len(items))
    return tuple(np.sort(order[edges[k] : edges[k + 1]]) for k in shown.tolist())
