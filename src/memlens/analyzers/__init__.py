"""Analyzers: functions from a window of a log to a frozen result.

The list of them is in :mod:`memlens.analyzers.registry`; what each figure means is in ``docs/analyzers.md``.
"""

from __future__ import annotations

from memlens.analyzers.lifetimes import Life, LifetimeSummary
from memlens.analyzers.peak import LiveGroup, Peak, Remaining
from memlens.analyzers.registry import Analyzer, get, names
from memlens.analyzers.segments import GapBin, Moment, Pool, Segments
from memlens.analyzers.series.growth import Growth, Pile, growth
from memlens.analyzers.stats import Bin, Stats
from memlens.analyzers.unmatched import FreedGroup, HeldGroup, Unmatched

__all__ = [
    "Analyzer",
    "Bin",
    "FreedGroup",
    "GapBin",
    "Growth",
    "HeldGroup",
    "Life",
    "LifetimeSummary",
    "LiveGroup",
    "Moment",
    "Peak",
    "Pile",
    "Pool",
    "Remaining",
    "Result",
    "Row",
    "Segments",
    "Stats",
    "Unmatched",
    "get",
    "growth",
    "names",
]
