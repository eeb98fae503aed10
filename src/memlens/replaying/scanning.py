"""With which limits of memory a run completes under one setting: limits are tried from the top down, never bisected alone.

Completing is not monotone in the limit: a run that completes within 8 MiB may fail within 9 MiB, for the limit decides when idle chunks go,
and so which addresses are free later.  What can be said is with which of the limits that were tried it completes.

A replay tells of more than its own limit.  With the limit L it is granted at most R bytes in all, and everything it is refused would be more
than L: so it goes the same way under every limit from R to L, and the next one that may differ lies below R.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.allocators.engine import Replay


class TriedLimits(NamedTuple):
    """Limits that are alike: from the lowest to the highest, and whether the run completes with them."""

    low: int
    high: int
    completes: bool


class LimitScan(NamedTuple):
    """A scan of one setting and one way in which new chunks get their addresses, in bytes.

    Attributes:
        reserved_peak: The most that is reserved without a limit; with any limit from there on the run completes.
        completes_from: The lowest limit from which on it completes with all that were tried.
        completes_least: The lowest limit that was tried with which it completes; below ``completes_from`` it fails with some in between.
        every: Every limit from ``completes_from`` on is known, and not only some of them.
    """

    reserved_peak: int
    completes_from: int
    completes_least: int
    every: bool


def scan_limits(replay: Callable[[int], Replay], peak: int, lowest: int, most: int) -> list[TriedLimits]:
    """Replay under limits below a peak.

    Args:
        replay: Replays under a limit.
        peak: The reserved peak without a limit.
        lowest: With less no setting completes.
        most: Replays at most; a third of them look more closely at where it begins to fail.

    Returns:
        The limits that are known, from the top down; the first ones are those from the peak on.
    """
    known = [TriedLimits(peak, max(peak, 1 << 62), completes=True)]

    def tell(limit: int) -> TriedLimits:
        found = replay(limit)
        # What is reserved from the beginning on may be more than the limit: then nothing is known of less.
        one = TriedLimits(min(found.reserved_peak, limit), limit, found.failed < 0 and found.reserved_peak <= limit)
        known.append(one)
        return one

    coarse = max(most - most // 3, 1) if most > 0 else 0
    step = max((peak - lowest) // coarse, 1) if coarse else 1
    limit = peak - 1
    for _ in range(coarse):
        if limit < lowest:
            break
        limit = min(tell(limit).low - 1, limit - step)
    for _ in range(most - coarse):
        known.sort(key=lambda one: -one.high)
        failed = next((k for k, one in enumerate(known) if not one.completes), None)
        if failed is None:
            above, below = known[-1].low, lowest
        else:
            above, below = known[failed - 1].low, known[failed].high + 1
        if below >= above:
            break
        tell((above + below) // 2)
    return sorted(known, key=lambda one: -one.high)


def summed_up(known: Sequence[TriedLimits]) -> LimitScan:
    """Sum up a scan: the limits that are known, from the top down."""
    peak = known[0].low
    completes_from, every, gap = peak, True, False
    for one in known[1:]:
        if not one.completes:
            break
        gap = gap or one.high + 1 < completes_from
        completes_from, every = one.low, not gap
    least = min(one.low for one in known if one.completes)
    return LimitScan(peak, completes_from, least, every)
