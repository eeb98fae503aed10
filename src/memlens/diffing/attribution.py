"""Every byte of Δremaining and Δpeak put down to what the runs do differently; what is left over is 0.

``remaining = Σ held - Σ released - Σ unknown frees + Σ mismatches`` holds in any window of one log.  The rise of a window is what
remains of the window cut off right after the event that reaches its peak, so one identity serves both; the peak is the rise and what
was carried in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from memlens.analyzers.fates import pairing
from memlens.analyzers.levels import profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.blocks import Blocks
    from memlens.diffing.late import Frees
    from memlens.diffing.pairing import Match
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

__all__ = ["Levels", "PairsAtPeaks", "Terms", "levels", "live_at_peak", "peak_terms", "remaining_terms"]

#: The terms of an account by name, one int64 entry a window each.
Terms = dict[str, "Ints"]


@dataclass(frozen=True, eq=False)
class Levels:
    """One run's figures of windows, one int64 entry a window.

    Attributes:
        remaining: Bytes left behind.
        carried_in: Bytes live right before the window.
        rise: The highest running sum, from 0 at the window's start.
        peak_end: The event after the one that reaches the peak; the window's first event where it never rises above its start.
        released: Bytes freed of blocks carried in, and of these what was freed up to the peak.
        unknown: Bytes of unknown frees, likewise.
        mismatch: Σ (ALLOC - FREE) over pairs whose sizes differ, likewise.
    """

    remaining: Ints
    carried_in: Ints
    rise: Ints
    peak_end: Ints
    released: tuple[Ints, Ints]
    unknown: tuple[Ints, Ints]
    mismatch: tuple[Ints, Ints]

    @property
    def peak(self) -> Ints:
        """The highest level, what was carried in included."""
        return self.carried_in + self.rise

    def part(self, windows: slice) -> Levels:
        """The figures of some neighbouring windows."""
        return Levels(
            self.remaining[windows],
            self.carried_in[windows],
            self.rise[windows],
            self.peak_end[windows],
            *((whole[windows], risen[windows]) for whole, risen in (self.released, self.unknown, self.mismatch)),
        )


def levels(windows: Sequence[Window]) -> Levels:
    """The figures of windows of one log."""
    figures = profile(windows)
    rise = figures.rise[0].copy()
    lo = np.array([window.lo for window in windows], np.int64)
    peak_end = np.where(rise > 0, figures.summit + 1, lo)
    remaining = figures["alloc_bytes"] - figures["free_bytes"]
    whole = pairing(windows)
    risen = pairing([replace(window, hi=hi) for window, hi in zip(windows, peak_end.tolist(), strict=True)])
    return Levels(
        remaining,
        figures.levels[0].copy(),
        rise,
        peak_end,
        (whole.released_bytes, risen.released_bytes),
        (whole.unknown_free_bytes, risen.unknown_free_bytes),
        (whole.mismatch_bytes, risen.mismatch_bytes),
    )


def live_at_peak(blocks: Blocks, of: Levels) -> Flags:
    """Which blocks, born in their window, are live when it reaches its peak."""
    end = of.peak_end[blocks.window]
    return (blocks.alloc < end) & ((blocks.free >= end) | (blocks.free < 0))


def remaining_terms(found: Match, base: Levels, head: Levels) -> Terms:
    """Δremaining of each window, term by term (see :class:`memlens.diffing.result.RemainingAccount`)."""
    of_base, of_head = found.base, found.head
    paired, only_head = found.partner >= 0, found.in_head_only
    other_fate = np.zeros(len(of_base), np.bool_)
    other_fate[paired] = of_base.held[paired] != of_head.held[found.partner[paired]]
    terms = {
        "missing_free_bytes": of_base.sums(of_base.size * (other_fate & ~of_base.held)),
        "extra_free_bytes": of_base.sums(of_base.size * (other_fate & of_base.held)),
        "only_head_held_bytes": of_head.sums(of_head.size * (only_head & of_head.held)),
        "only_base_held_bytes": of_base.sums(of_base.size * (~paired & of_base.held)),
        "d_released_bytes": head.released[0] - base.released[0],
        "d_unknown_free_bytes": head.unknown[0] - base.unknown[0],
        "d_mismatch_bytes": head.mismatch[0] - base.mismatch[0],
    }
    signs = (1, -1, 1, -1, -1, -1, 1)
    explained = sum(sign * term for sign, term in zip(signs, terms.values(), strict=True))
    return {**terms, "unexplained_bytes": head.remaining - base.remaining - explained}


@dataclass(frozen=True, eq=False)
class PairsAtPeaks:
    """What becomes of pairs of blocks up to the two peaks; one entry a pair, by place in base.

    Attributes:
        base: Places of the pairs' blocks in base, rising, int64.
        head: Their places in head, int64.
        window: The number of their window, int64.
        sign: 1 where the block is live at head's peak only, -1 where at base's only, else 0, int64.
        later: 1 where head frees it late, -1 where base does, else 0, int64: much later, or else it is live at that run's peak only and
            the other run had freed it by its own.
        unborn: It is live at one peak only, and the other run had not allocated it yet; all others of these.
    """

    base: Ints
    head: Ints
    window: Ints
    sign: Ints
    later: Ints
    unborn: Flags

    @classmethod
    def of(cls, found: Match, frees: Frees, base: Levels, head: Levels) -> PairsAtPeaks:
        """Look at all pairs of a match."""
        left = np.flatnonzero(found.partner >= 0)
        right = found.partner[left]
        live = live_at_peak(found.base, base)[left], live_at_peak(found.head, head)[right]
        sign = live[1].astype(np.int64) - live[0]
        window = found.base.window[left]
        # Of the run at whose peak the block is not live.
        alloc = np.where(sign > 0, found.base.alloc[left], found.head.alloc[right])
        born = alloc < np.where(sign > 0, base.peak_end[window], head.peak_end[window])
        late = frees.late[left]
        later = np.where(late != 0, late, sign * born)
        return cls(left, right, window, sign, later, (sign != 0) & (later == 0))


def peak_terms(found: Match, pairs: PairsAtPeaks, opening: Match, base: Levels, head: Levels) -> Terms:
    """Δpeak of each window, term by term (see :class:`memlens.diffing.result.PeakAccount`)."""
    of_base, of_head = found.base, found.head
    bytes_of_pairs = pairs.sign * of_base.size[pairs.base]
    base_held = of_base.held[pairs.base]
    alike = base_held == of_head.held[pairs.head]

    def of_pairs(mask: Flags) -> Ints:
        values = np.zeros(len(of_base), np.int64)
        values[pairs.base] = bytes_of_pairs * mask
        return of_base.sums(values)

    live_base, live_head = live_at_peak(of_base, base), live_at_peak(of_head, head)
    older_head = opening.head.sums(opening.head.size * opening.in_head_only)
    older_base = -opening.base.sums(opening.base.size * (opening.partner < 0))
    terms = {
        "opening_only_head_bytes": older_head,
        "opening_only_base_bytes": older_base,
        "carried_in_bytes": head.carried_in - base.carried_in - older_head - older_base,
        "missing_free_bytes": of_pairs(~alike & ~base_held),
        "extra_free_bytes": of_pairs(~alike & base_held),
        "only_head_bytes": of_head.sums(of_head.size * (found.in_head_only & live_head)),
        "only_base_bytes": -of_base.sums(of_base.size * ((found.partner < 0) & live_base)),
        "late_free_bytes": of_pairs(alike & (pairs.later > 0)),
        "early_free_bytes": of_pairs(alike & (pairs.later < 0)),
        "elsewhere_bytes": of_pairs(alike & pairs.unborn),
        "released_bytes": base.released[1] - head.released[1],
        "unknown_free_bytes": base.unknown[1] - head.unknown[1],
        "mismatch_bytes": head.mismatch[1] - base.mismatch[1],
    }
    return {**terms, "unexplained_bytes": head.peak - base.peak - sum(terms.values())}
