"""Every byte of Δremaining and Δpeak put down to what the runs do differently, in sum and block by block; what is left over is 0.

``remaining = Σ held - Σ released - Σ unknown frees + Σ mismatches`` holds in any window of one log.  The rise of a window is what
remains of the window cut off right after the event that reaches its peak, so one identity serves both; the peak is the rise and what
was carried in.

An *item* is a pair of blocks, or a block that only one run has.  Items of all windows lie in one table, so that grouping those alike,
within a window or over all windows, is one sort.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.analyzers.fates import pairing
from memlens.analyzers.levels import profile
from memlens.diffing.alignment.blocks import owner_numbers
from memlens.diffing.finding import KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.alignment.blocks import Blocks
    from memlens.diffing.late_frees import Frees
    from memlens.diffing.pairing import Match
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

__all__ = [
    "FATES", "KIND_NAMES", "Items", "Levels", "PairsAtPeaks", "collect", "group", "levels", "peak_terms", "remaining_terms",
]  # fmt: skip

#: Kinds by number, in the order in which findings of equal weight are shown.
KIND_NAMES = tuple(KINDS)
_KIND = {name: number for number, name in enumerate(KIND_NAMES)}
#: Fates by number; ``base`` and ``head`` say which run frees a block that was carried in.
FATES = (None, "held", "temporary", "base", "head", "carried_in", "to_end")
_FATE = {name: number for number, name in enumerate(FATES)}
#: For each kind 1 where its blocks count at head's peak as a rule, or at neither, -1 where at base's, 0 where there is no rule.
_RAISES = np.array([{"only_head": 1, "late_free": 1, "only_base": -1, "early_free": -1}.get(name, 0) for name in KINDS])


class Levels(NamedTuple):
    """One run's figures of windows, int64, one entry a window along the last axis.

    Attributes:
        remaining: Bytes left behind.
        carried_in: Bytes live right before the window.
        rise: The highest running sum, from 0 at the window's start.
        peak_end: The event after the one that reaches the peak; the window's first event where it never rises above its start.
        released: Two rows: bytes freed of blocks carried in, and of these what was freed up to the peak.
        unknown: Bytes of unknown frees, likewise.
        mismatch: Σ (ALLOC - FREE) over pairs whose sizes differ, likewise.
    """

    remaining: Ints
    carried_in: Ints
    rise: Ints
    peak_end: Ints
    released: Ints
    unknown: Ints
    mismatch: Ints

    @property
    def peak(self) -> Ints:
        """The highest level, what was carried in included."""
        return self.carried_in + self.rise

    def part(self, windows: slice) -> Levels:
        """The figures of some neighbouring windows."""
        return Levels(*(column[..., windows] for column in self))


def levels(windows: Sequence[Window]) -> Levels:
    """The figures of windows of one log."""
    figures = profile(windows)
    rise = figures.rise[0].copy()
    peak_end = np.where(rise > 0, figures.summit + 1, [window.lo for window in windows])
    risen = [replace(window, hi=hi) for window, hi in zip(windows, peak_end.tolist(), strict=True)]
    both = pairing(windows), pairing(risen)
    return Levels(
        figures["alloc_bytes"] - figures["free_bytes"],
        figures.levels[0].copy(),
        rise,
        peak_end,
        *(np.stack([of[f"{name}_bytes"] for of in both]) for name in ("released", "unknown_free", "mismatch")),
    )


def remaining_terms(found: Match, base: Levels, head: Levels) -> dict[str, Ints]:
    """Δremaining of each window, int64, term by term (see :class:`memlens.diffing.result.RemainingAccount`)."""
    of_base, of_head = found.base, found.head
    paired = found.partner >= 0
    other_fate = np.zeros(len(of_base), np.bool_)
    other_fate[paired] = of_base.held[paired] != of_head.held[found.partner[paired]]
    terms = {
        "missing_free_bytes": of_base.sums(of_base.size * (other_fate & ~of_base.held)),
        "extra_free_bytes": of_base.sums(of_base.size * (other_fate & of_base.held)),
        "only_head_held_bytes": of_head.sums(of_head.size * (found.in_head_only & of_head.held)),
        "only_base_held_bytes": of_base.sums(of_base.size * (~paired & of_base.held)),
        "d_released_bytes": head.released[0] - base.released[0],
        "d_unknown_free_bytes": head.unknown[0] - base.unknown[0],
        "d_mismatch_bytes": head.mismatch[0] - base.mismatch[0],
    }
    explained = sum(sign * term for sign, term in zip((1, -1, 1, -1, -1, -1, 1), terms.values(), strict=True))
    return {**terms, "unexplained_bytes": head.remaining - base.remaining - explained}


class PairsAtPeaks(NamedTuple):
    """What becomes of pairs of blocks up to the two peaks; one entry a pair, by index in base.

    Attributes:
        base: The pairs' blocks in base, rising, int64.
        head: Those in head, int64.
        window: The number of their window, int64.
        sign: 1 where the block is live at head's peak only, -1 where at base's only, else 0, int64.
        later: 1 where head frees it late, -1 where base does, else 0, int64: much later, or else it is live at that run's peak only and
            the other run had freed it by its own.
    """

    base: Ints
    head: Ints
    window: Ints
    sign: Ints
    later: Ints

    @property
    def unborn(self) -> Flags:
        """Which are live at one peak only where the other run had not allocated them yet."""
        unborn: Flags = (self.sign != 0) & (self.later == 0)
        return unborn

    @classmethod
    def of(cls, found: Match, frees: Frees, base: Levels, head: Levels) -> PairsAtPeaks:
        """Look at all pairs of a match."""
        left = np.flatnonzero(found.partner >= 0)
        right = found.partner[left]
        sign = _live_at_peak(found.head, head)[right].astype(np.int64) - _live_at_peak(found.base, base)[left]
        window = found.base.window[left]
        # Of the run at whose peak the block is not live.
        alloc = np.where(sign > 0, found.base.alloc[left], found.head.alloc[right])
        born = alloc < np.where(sign > 0, base.peak_end[window], head.peak_end[window])
        late = frees.late[left]
        return cls(left, right, window, sign, np.where(late != 0, late, sign * born))


def peak_terms(found: Match, pairs: PairsAtPeaks, opening: Match, base: Levels, head: Levels) -> dict[str, Ints]:
    """Δpeak of each window, int64, term by term (see :class:`memlens.diffing.result.PeakAccount`)."""
    of_base, of_head = found.base, found.head
    base_held = of_base.held[pairs.base]
    alike = base_held == of_head.held[pairs.head]

    def of_pairs(mask: Flags) -> Ints:
        values = np.zeros(len(of_base), np.int64)
        values[pairs.base] = pairs.sign * of_base.size[pairs.base] * mask
        return of_base.sums(values)

    older_head = opening.head.sums(opening.head.size * opening.in_head_only)
    older_base = -opening.base.sums(opening.base.size * (opening.partner < 0))
    terms = {
        "opening_only_head_bytes": older_head,
        "opening_only_base_bytes": older_base,
        "carried_in_bytes": head.carried_in - base.carried_in - older_head - older_base,
        "missing_free_bytes": of_pairs(~alike & ~base_held),
        "extra_free_bytes": of_pairs(~alike & base_held),
        "only_head_bytes": of_head.sums(of_head.size * (found.in_head_only & _live_at_peak(of_head, head))),
        "only_base_bytes": -of_base.sums(of_base.size * ((found.partner < 0) & _live_at_peak(of_base, base))),
        "late_free_bytes": of_pairs(alike & (pairs.later > 0)),
        "early_free_bytes": of_pairs(alike & (pairs.later < 0)),
        "elsewhere_bytes": of_pairs(alike & pairs.unborn),
        "released_bytes": base.released[1] - head.released[1],
        "unknown_free_bytes": base.unknown[1] - head.unknown[1],
        "mismatch_bytes": head.mismatch[1] - base.mismatch[1],
    }
    return {**terms, "unexplained_bytes": head.peak - base.peak - sum(terms.values())}


def _live_at_peak(blocks: Blocks, of: Levels) -> Flags:
    """Which blocks, born in their window, are live when it reaches its peak."""
    end = of.peak_end[blocks.window]
    live: Flags = (blocks.alloc < end) & ((blocks.free >= end) | (blocks.free < 0))
    return live


class Items(NamedTuple):
    """One entry an item, windows in order, int64.

    Attributes:
        window: Number of the window pair.
        kind: Index into :data:`KIND_NAMES`.
        fate: Index into :data:`FATES`.
        size: Bytes of the block.
        requested: What was asked for, -1 where unknown, or not the same in both runs.
        owner: Index into the owners of both runs, -1 where unknown.
        freed_by: Likewise, of the FREE that one run has and the other has not.
        ends: What becomes of the block in the run that keeps it: 0 it is freed later in the log, 1 never, 2 it is freed in the window.
        remaining, peak: What it contributes to Δremaining, and to Δpeak.
        apart, apart_bytes: Common allocations between the two runs' frees of it, and their bytes; -1 where that is not looked at.
        base_alloc: Base's ALLOC, -1 where base has none.
        base_free: Base's FREE, wherever it is, -1 where there is none.
        head_alloc, head_free: The same of head.
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

    def take(self, at: Ints) -> Items:
        """Some of them."""
        return Items(*(column[at] for column in self))

    @classmethod
    def joined(cls, parts: Sequence[Items]) -> Items:
        """Several tables one after the other."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


def collect(
    allocs: Match, pairs: PairsAtPeaks, frees: Frees, released: Match, opening: Match, base: Levels, head: Levels
) -> Items:
    """The items of all windows, by window and then by place in the log."""
    parts = [_pairs(allocs, pairs, frees), _released_pairs(released, base, head)]
    for in_head, of, to_end in ((0, base, frees.base_to_end), (1, head, frees.head_to_end)):
        parts += [
            _alone(allocs, of, to_end, in_head),
            _released_alone(released, of, in_head),
            _opening_alone(opening, in_head),
        ]
    every = Items.joined(parts)
    return every.take(np.argsort(every.window, kind="stable"))


def _items(
    found: Match,
    base: Ints,
    head: Ints,
    kind: Ints | int,
    fate: Ints | int,
    in_head: Flags | bool,
    ends: Ints | int,
    remaining: Ints | int,
    peak: Ints,
    *,
    freed: bool,
    apart: tuple[Ints | int, Ints | int] = (-1, -1),
) -> Items:
    """Items of blocks of base and of head, -1 for none, given whether it is head whose event tells the two runs apart."""
    keys, one, two = found.keys, found.base, found.head
    window, size = (
        np.maximum(_at(of, base), _at(other, head)) for of, other in ((one.window, two.window), (one.size, two.size))
    )
    asked, other = _at(keys.requested, _at(keys.base, base)), _at(keys.requested, _at(keys.head, head))
    requested = np.where((base < 0) | (head < 0), np.maximum(asked, other), np.where(asked == other, asked, -1))
    ours, theirs = _at(keys.base_owner, base), _at(keys.head_owner, head)
    owner = np.where(np.where(in_head, theirs, ours) >= 0, np.where(in_head, theirs, ours), np.maximum(ours, theirs))
    base_free, head_free = _at(one.free, base), _at(two.free, head)
    freed_by = np.where(in_head, _owner_of(found, two, head_free), _owner_of(found, one, base_free)) if freed else -1
    columns = (
        window, kind, fate, size, requested, owner, freed_by, ends, remaining, peak, *apart,
        _at(one.alloc, base), base_free, _at(two.alloc, head), head_free,
    )  # fmt: skip
    return Items(*(np.broadcast_to(np.asarray(column, np.int64), len(base)) for column in columns))


def _at(values: NDArray[np.signedinteger], at: NDArray[np.signedinteger]) -> Ints:
    """The values at some indices, -1 for -1."""
    return np.where(at >= 0, values[at], -1) if len(values) else np.full(len(at), -1)


def _owner_of(found: Match, blocks: Blocks, events: Ints) -> Ints:
    """The owners of some events of one run (-1 among them has none), numbered as the owners of both runs are."""
    log = blocks.log
    return (
        np.full(len(events), -1) if log.owner is None else _at(owner_numbers(log, found.keys.names)[log.owner], events)
    )


def _pairs(found: Match, pairs: PairsAtPeaks, frees: Frees) -> Items:
    """Pairs of different fate, those of equal fate that are live at one peak only, and those freed much later in one run."""
    held = found.base.held[pairs.base], found.head.held[pairs.head]
    kind = np.select(
        [~held[0] & held[1], held[0] & ~held[1], pairs.later > 0, pairs.later < 0, pairs.unborn],
        [_KIND[name] for name in ("missing_free", "extra_free", "late_free", "early_free", "elsewhere")],
        -1,
    )
    some = np.flatnonzero(kind >= 0)
    left, right, kind, sign = pairs.base[some], pairs.head[some], kind[some], pairs.sign[some]
    late, early, elsewhere, missing, extra = (
        kind == _KIND[name] for name in ("late_free", "early_free", "elsewhere", "missing_free", "extra_free")
    )
    size, moves = found.base.size[left], missing.astype(np.int64) - extra
    return _items(
        found,
        left,
        right,
        kind,
        _FATE["to_end"] * ((late & frees.head_to_end[right]) | (early & frees.base_to_end[left])),
        # The FREE that tells the runs apart is the one of the run that frees in the window, or that frees sooner.
        extra | early | (elsewhere & (sign > 0)),
        np.where(moves == 0, 2, np.where(extra, found.base.free[left] < 0, found.head.free[right] < 0)),
        size * moves,
        size * sign,
        freed=True,
        apart=(np.where(moves == 0, frees.apart[left], -1), np.where(moves == 0, frees.apart_bytes[left], -1)),
    )


def _alone(found: Match, of: Levels, to_end: Flags, in_head: int) -> Items:
    """Blocks that one run allocates and the other does not."""
    blocks, at, sides, sign = _lonely(found, in_head)
    size, held = blocks.size[at], blocks.held[at]
    fate = np.where(held, _FATE["held"], np.where(to_end[at], _FATE["to_end"], _FATE["temporary"]))
    live = _live_at_peak(blocks, of)[at]
    kind, ends = _KIND[("only_base", "only_head")[in_head]], np.where(held, blocks.free[at] < 0, 2)
    # Who frees a temporary tells nothing apart: base has no such block.
    return _items(found, *sides, kind, fate, bool(in_head), ends, sign * size * held, sign * size * live, freed=False)


def _released_pairs(found: Match, base: Levels, head: Levels) -> Items:
    """Blocks carried in that both runs free, one of them before its peak and the other after."""
    left = np.flatnonzero(found.partner >= 0)
    right, window = found.partner[left], found.base.window[left]
    before = found.base.event[left] < base.peak_end[window], found.head.event[right] < head.peak_end[window]
    sign = before[0].astype(np.int64) - before[1]
    some = np.flatnonzero(sign)
    left, right, sign = left[some], right[some], sign[some]
    kind = np.where(sign > 0, _KIND["late_free"], _KIND["early_free"])
    return _items(
        found, left, right, kind, _FATE["carried_in"], sign < 0, 2, 0, sign * found.base.size[left], freed=True
    )


def _released_alone(found: Match, of: Levels, in_head: int) -> Items:
    """Blocks carried in that only one run frees."""
    blocks, at, sides, sign = _lonely(found, in_head)
    gone = -sign * blocks.size[at]
    early = blocks.free[at] < of.peak_end[blocks.window[at]]
    fate = _FATE[("base", "head")[in_head]]
    return _items(found, *sides, _KIND["released"], fate, bool(in_head), 2, gone, gone * early, freed=True)


def _opening_alone(found: Match, in_head: int) -> Items:
    """Opening blocks that only one run has; whether it frees them in the window, later or never is a trait of theirs."""
    blocks, at, sides, sign = _lonely(found, in_head)
    ends = np.where(blocks.held[at], blocks.free[at] < 0, 2)
    kind = _KIND[("opening_only_base", "opening_only_head")[in_head]]
    return _items(found, *sides, kind, 0, bool(in_head), ends, 0, sign * blocks.size[at], freed=False)


def _lonely(found: Match, in_head: int) -> tuple[Blocks, Ints, tuple[Ints, Ints], int]:
    """The blocks of one run, which of them have no partner, the same as sides of items, and the sign with which they count."""
    if in_head:
        return found.head, found.only_head, (np.full(len(found.only_head), -1), found.only_head), 1
    at = np.flatnonzero(found.partner < 0)
    return found.base, at, (at, np.full(len(at), -1)), -1


def group(items: Items) -> list[Ints]:
    """Put items alike in kind, fate, size, owner and place together, whatever their window.

    Returns:
        For each group the indices of its items, in order, int64; the group of the largest effect first.
    """
    if not len(items.window):
        return []
    # Whether a block counts at head's peak or at base's is a trait too: together they would hide each other.
    at_peak = np.sign(items.peak)
    at_peak[at_peak == _RAISES[items.kind]] = 0
    traits = np.stack(
        (items.kind, items.fate, items.size, items.requested, items.owner, items.freed_by, items.ends, at_peak)
    )
    order = np.lexsort(traits)
    traits = traits[:, order]
    first = np.flatnonzero(np.concatenate(([True], (traits[:, 1:] != traits[:, :-1]).any(axis=0))))
    remaining, peak, total = (
        np.abs(np.add.reduceat(column[order], first)) for column in (items.remaining, items.peak, items.size)
    )
    leading = order[first]
    shown = np.lexsort((leading, items.kind[leading], -total, -remaining, -np.maximum(remaining, peak)))
    groups = np.split(order, first[1:])
    return [groups[number] for number in shown.tolist()]
