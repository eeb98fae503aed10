"""Whether a series of figures grows: its robust slope, and a verdict that noise and single jumps do not sway.

* **Slope** (Theil-Sen): the median of the slopes between all pairs of points.  Up to 29 % of the points may be anything.
* **Trend** (Mann-Kendall): of all pairs of points, those that rise less those that fall, as a multiple of the standard
  deviation that this difference has in a series without a trend; equal values are accounted for.

A series grows when its slope is above 0 and its trend is strong (3 or more) as a whole *and* present (1.6 or more) in each of its
halves.  A jump lies in one half, however large; memory that fills up and then stays does so in the first.  Below 8 points no
such statistic means much: every point must then be above the one before.  Below 4 points nothing is said: flat.
Shrinking is the same upside down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXACT", "MINIMUM", "slope", "trend", "verdict"]

#: Series of up to so many points are judged by all pairs of points; of longer ones so many, evenly spaced, are.
EXACT = 1000
#: The fewest points that are judged.
MINIMUM = 4
_FEW = 8
_STRONG = 3.0
_PRESENT = 1.6


def slope(values: NDArray[np.int64]) -> float:
    """The median slope over all pairs of points, per step; 0.0 for fewer than two points."""
    x, y = _thinned(values)
    if len(y) < 2:
        return 0.0
    pairs = [(y[step:] - y[:-step]) / (x[step:] - x[:-step]) for step in range(1, len(y))]
    return float(np.median(np.concatenate(pairs)))


def trend(values: NDArray[np.int64]) -> float:
    """How strongly a series rises (or falls, below 0), in standard deviations of a series without a trend."""
    _, y = _thinned(values)
    n = len(y)
    rises = sum(int(np.sign(y[step:] - y[:-step]).sum()) for step in range(1, n))
    ties = np.unique(y, return_counts=True)[1].tolist()
    variance = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    if variance <= 0 or rises == 0:
        return 0.0
    return float((rises - np.sign(rises)) / np.sqrt(variance))


def verdict(values: NDArray[np.int64]) -> str:
    """``"growing"``, ``"shrinking"`` or ``"flat"``, by the rule of this module."""
    if len(values) < MINIMUM:
        return "flat"
    if len(values) < _FEW:
        steps = np.sign(np.diff(values))
        agreed = steps[0] if (steps == steps[0]).all() else 0
    else:
        agreed = np.sign(slope(values))
        half = len(values) // 2
        trends = [agreed * trend(part) for part in (values, values[:half], values[-half:])]
        if trends[0] < _STRONG or min(trends[1:]) < _PRESENT:
            agreed = 0
    return "growing" if agreed > 0 else "shrinking" if agreed < 0 else "flat"


def _thinned(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions and values of the points that are judged."""
    x = np.arange(len(values))
    if len(values) > EXACT:
        x = np.linspace(0, len(values) - 1, EXACT).round().astype(np.int64)
    return x, values[x]
