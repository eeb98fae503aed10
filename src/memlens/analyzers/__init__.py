"""Analyzers: functions from a window of a log to a frozen result.

The list of them is in :mod:`memlens.analyzers.registry`; what each figure means is in ``docs/analyzers.md``.
"""

from __future__ import annotations

from memlens.analyzers.registry import get, names
from memlens.analyzers.series.growth import growth

__all__ = ["get", "growth", "names"]
