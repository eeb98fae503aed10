"""Stands in for :func:`memlens.analyzers.trend.judge` until that is there: the same interface, floors alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Trend", "judge"]


@dataclass(frozen=True)
class Trend:
    """Whether a series of levels grows.

    Attributes:
        verdict: ``flat``, ``growing``, ``shrinking`` or ``swinging``.
        gained_bytes: What its floor gained.
        gained_bytes_per_window: The same by the windows in which it did.
        since: The index from which on it grows.
        swing_bytes: The most that it ever came back by.
    """

    verdict: str
    gained_bytes: int
    gained_bytes_per_window: float
    since: int | None
    swing_bytes: int


def judge(live: NDArray[np.int64]) -> Trend:
    """Whether the live bytes at the ends of windows (int64) grow, by their floor: the lowest level from each window on."""
    floor = np.minimum.accumulate(live[::-1])[::-1]
    last, swing = len(live) - 1, int((live - floor).max())
    early = len(live) // 4  # warm-up
    gained = int(floor[last] - floor[early])
    rises = np.flatnonzero(np.diff(floor[early:])) + early
    if gained <= swing or len(rises) < 3 or rises[-1] < last - len(live) // 4 - 1:
        return Trend("swinging" if swing else "flat", 0, 0.0, None, swing)
    since = int(rises[0])
    return Trend("growing", gained, gained / (last - since), since, swing)
