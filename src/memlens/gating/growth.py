"""What the series of runs gained, and how much of that runs like the base gain, too.

Whether a series grows, and by how much, is the statistic of :mod:`memlens.analyzers.series.trend`.  Two series may be of different
lengths, and warm up alike:

* what the base gained *per window* is taken times the windows of head;
* what the base had gained after as many windows as head has is allowed, too: a short run is all warm-up;
* and so is what head gained without ever having more live than the base had in the same window: caches swing alike in both.

What head gained and kept counts, too, where head does not grow steadily and the base has as many windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.series.trend import MINIMUM, judge

if TYPE_CHECKING:
    from memlens.gating.figures import RunFigures

__all__ = ["SeriesGrowth", "allowed_gain", "growth_of", "kept_gain"]


@dataclass(frozen=True)
class SeriesGrowth:
    """What a series of windows gained.

    Attributes:
        windows: Its closed windows.
        verdict: ``flat``, ``growing``, ``shrinking`` or ``swinging``; see :mod:`memlens.analyzers.series.trend`.
        gained_bytes: The bytes gained over the series; 0 unless it is growing.
        per_window: The bytes gained in each window since it grows; 0 unless it is growing.
        since: The name of the window from which on it grows; ``None`` unless it is growing.
    """

    windows: int
    verdict: str
    gained_bytes: int = 0
    per_window: Fraction = Fraction(0)
    since: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The figures by the names of the machine output."""
        return {
            "windows": self.windows,
            "verdict": self.verdict,
            "gained_bytes": self.gained_bytes,
            "gained_bytes_per_window": float(self.per_window),
            "since": self.since,
        }


def growth_of(run: RunFigures, first: int | None = None) -> SeriesGrowth | None:
    """What the series of a run gained, or the ``first`` windows of it; ``None`` where these are too few to tell."""
    series: Sequence[int] = [window.live_bytes for window in run.series[:first]]
    if len(series) < MINIMUM:
        return None
    trend = judge(np.array(series, np.int64))
    if trend.verdict != "growing":
        return SeriesGrowth(len(series), trend.verdict)
    rate = Fraction(trend.gained_bytes, trend.spanned)
    since = None if trend.since is None else run.series[trend.since].name
    return SeriesGrowth(len(series), trend.verdict, trend.gained_bytes, rate, since)


def allowed_gain(run: RunFigures, head: RunFigures) -> int | None:
    """The bytes that head's series gains where it grows like this run's; ``None`` where this run has too few windows to tell."""
    grown, found = growth_of(run), growth_of(head)
    if grown is None:
        return None
    windows = len(head.series)
    early = growth_of(run, windows)
    allowed = max(ceil(grown.per_window * (windows - 1)), 0 if early is None else early.gained_bytes)
    if found is None or windows > len(run.series):
        return allowed
    # Window by window: it cannot have gained more beyond the base than it ever had live beyond it.  The rest is what both swing by.
    beyond = [new.live_bytes - old.live_bytes for new, old in zip(head.series, run.series, strict=False)]
    return max(allowed, found.gained_bytes - max(beyond) + beyond[0])


def kept_gain(base: Sequence[RunFigures], head: RunFigures, limit: int) -> tuple[int, int] | None:
    """What a series that does not grow steadily gained for good beyond runs with as many windows, and what these ever gained.

    All of head's last windows have so much more live than its first one: more than the others ever had beyond their first, even without
    the largest rise (a single window that gains all of it is judged by itself), and than head ever fell; and they have more live than the
    others at the end of any window.  ``None`` where one of these is not so by more than the limit.
    """
    live = [window.live_bytes for window in head.series]
    theirs = [[window.live_bytes for window in run.series] for run in base]
    if len(live) > min(map(len, theirs)):
        return None
    most, first = max(map(max, theirs)), max(series[0] for series in theirs)
    settled, swing = min(live[-max(3, len(live) // 4) :]), most - first
    fell = max(high - one for high, one in zip(accumulate(live, max), live, strict=True))
    largest = max(high - low for low, high in pairwise(reversed([*accumulate(reversed(live), min)])))
    kept = settled - live[0]
    beyond = min(settled - most, kept - largest - swing)
    return (kept, swing) if beyond > max(limit, fell) else None
