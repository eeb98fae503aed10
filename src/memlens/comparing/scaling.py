"""How a figure grows with a field that is a number: its robust slope, and whether that is worth a word.

Over the runs that are alike in all other fields:

* **Slope** (Theil-Sen): the median of the slopes between all pairs of runs whose values of the field differ, for one more of
  the field.  Up to 29 % of the runs may be anything.
* **Flat** where the slope, over the whole range of the field, moves the figure by less than 1 % of its median (5 % of a time).
* **Unsteady** where less than three quarters of those pairs move in the slope's direction: a jump or noise, and no slope.
* **Growing** or **shrinking** otherwise.

From fewer than three different values nothing is said.  A run that ended out of memory, and one that is missing or has no such
window, has no figure; it is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from memlens.comparing.metrics import METRICS, Metric
from memlens.comparing.outliers import is_rank
from memlens.comparing.templates import natural, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.comparing.result import Run, RunWindow

__all__ = ["Slope", "scaling_fields", "slopes", "theil_sen"]

Verdict: TypeAlias = Literal["growing", "shrinking", "flat", "unsteady"]

#: The fewest different values that have a slope.
_FEWEST = 3
#: Of more points than this so many, evenly spaced, are judged.
_MOST = 1000
_FLAT = {"bytes": 0.01, "count": 0.01, "time": 0.05}
_STEADY = 0.75


@dataclass(frozen=True)
class Slope:
    """How one metric grows with one field, all other fields alike.

    Attributes:
        metric: The metric, by its name in machine output.
        field: The field that is a number.
        fields: The values of the other fields.
        slope: The robust slope for one more of the field, in the metric's unit.
        verdict: ``growing``, ``shrinking``, ``flat`` or ``unsteady``.
        points: Runs that have a figure.
        ooms: Runs left out because they ended out of memory.
        left_out: Runs left out for another reason.
    """

    metric: str
    field: str
    fields: Mapping[str, str]
    slope: float
    verdict: Verdict
    points: int
    ooms: int = 0
    left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in plain JSON types."""
        return {**vars(self), "fields": dict(self.fields)}


def scaling_fields(values: Mapping[str, Sequence[str]]) -> list[str]:
    """The fields whose values are three or more different numbers, but for those that number ranks."""
    return [
        name
        for name, texts in values.items()
        if not is_rank(name)
        and all(number(text) is not None for text in texts)
        and len({number(text) for text in texts}) >= _FEWEST
    ]


def slopes(
    runs: Sequence[Run], windows: Sequence[RunWindow | None], values: Mapping[str, Sequence[str]]
) -> Iterator[Slope]:
    """The slopes of all metrics by all fields that are numbers.

    Args:
        runs: The runs.
        windows: The window of each run whose figures count; ``None`` where it has none.
        values: The values of each field.
    """
    for field in scaling_fields(values):
        groups: dict[tuple[str, ...], list[tuple[Run, RunWindow | None]]] = {}
        others = [name for name in values if name != field]
        for run, window in zip(runs, windows, strict=True):
            groups.setdefault(tuple(run.fields[name] for name in others), []).append((run, window))
        for metric in METRICS:
            for key in sorted(groups, key=lambda texts: [natural(text) for text in texts]):
                yield from _slope(metric, field, dict(zip(others, key, strict=True)), groups[key])


def _slope(
    metric: Metric, field: str, fields: Mapping[str, str], group: Iterable[tuple[Run, RunWindow | None]]
) -> Iterator[Slope]:
    x, y, ooms, left_out = [], [], 0, 0
    for run, window in group:
        figure = None if window is None or window.oom else window.figure(metric)
        if figure is not None:
            x.append(number(run.fields[field]) or 0.0)
            y.append(figure)
        elif run.oom is not None:
            ooms += 1
        else:
            left_out += 1
    if len(set(x)) < _FEWEST:
        return
    slope, verdict = theil_sen(np.array(x), np.array(y, np.float64), _FLAT[metric.kind])
    yield Slope(metric.key, field, fields, slope, verdict, len(x), ooms, left_out)


def theil_sen(x: NDArray[np.float64], y: NDArray[np.float64], flat: float) -> tuple[float, Verdict]:
    """The robust slope of points, and its verdict by the rule of this module.

    Args:
        x: Where the points are, at least two of them in different places; float64.
        y: Their figures, float64.
        flat: A slope that moves the figure by less than this part of its median, over the whole range, is flat.
    """
    if len(x) > _MOST:
        chosen = np.linspace(0, len(x) - 1, _MOST).round().astype(np.int64)
        order = np.argsort(x, kind="stable")[chosen]
        x, y = x[order], y[order]
    first, second = np.triu_indices(len(x), 1)
    run, rise = x[second] - x[first], y[second] - y[first]
    apart = run != 0
    steep = rise[apart] / run[apart]
    slope = float(np.median(steep))
    moved = abs(slope) * float(np.ptp(x))
    if moved == 0 or moved < flat * abs(float(np.median(y))):
        return slope, "flat"
    if np.count_nonzero(np.sign(steep) == np.sign(slope)) < _STEADY * len(steep):
        return slope, "unsteady"
    return slope, "growing" if slope > 0 else "shrinking"
