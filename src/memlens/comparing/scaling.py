"""How a figure of runs grows with a field that is a number.

A slope is that of the runs that are alike in all fields but one:

* **Slope** (Theil-Sen): the median of the slopes between all pairs of runs whose values of the field differ, for one more of
  the field.  Up to 29 % of the runs may be anything.
* **Flat** where the slope, over the whole range of the field, moves the figure by less than 1 % of its median (5 % of a time).
* **Unsteady** where less than three quarters of those pairs move in the slope's direction: a jump or noise, and no slope.
* **Growing** or **shrinking** otherwise.

From fewer than three different values nothing is said.  A run that ended out of memory, that is missing or has no such window, has no figure and takes no part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from memlens.comparing.layout import compared_metrics, run_key
from memlens.comparing.templates import natural, number, numbers_ranks
from memlens.results import Result
from memlens.summarizing.figures import METRICS, OF_ROLES, Metric, RunWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.summarizing.summary import Run


#: Runs, and the window of each whose figures count.
_Group: TypeAlias = "list[tuple[Run, RunWindow | None]]"
Verdict: TypeAlias = Literal["growing", "shrinking", "flat", "unsteady"]
#: The fewest different values that have a slope.
_FEWEST_VALUES = 3
#: Of more points than this so many, evenly spaced, are judged.
_MOST = 1000
_FLAT = {"bytes": 0.01, "count": 0.01, "time": 0.05}
_STEADY = 0.75


def _figures(metric: Metric, group: _Group) -> list[tuple[Run, int]]:
    """The runs of a group that have a figure; one that ended out of memory in its window has none."""
    found = ((run, window.figure(metric)) for run, window in group if window is not None and not window.oom)
    return [(run, figure) for run, figure in found if figure is not None]


class Slope(Result, frozen=True):
    """How one metric grows with one field, all other fields alike.

    Attributes:
        metric: The metric, by its name in machine output.
        field: The field.
        fields: The values of all other fields.
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


def scaling_fields(values: Mapping[str, Sequence[str]]) -> list[str]:
    """The fields whose values are three or more different numbers, but for those that number ranks."""
    numbers = {
        name: {number(text) for text in texts} for name, texts in values.items() if not numbers_ranks(name, texts)
    }
    return [name for name, found in numbers.items() if None not in found and len(found) >= _FEWEST_VALUES]


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
        others = [name for name in values if name != field]
        groups: dict[tuple[str, ...], _Group] = {}
        for run, window in zip(runs, windows, strict=True):
            groups.setdefault(run_key(run, others), []).append((run, window))
        for metric in compared_metrics((*METRICS, *OF_ROLES), runs):
            for key in sorted(groups, key=lambda texts: [natural(text) for text in texts]):
                yield from _slope(metric, field, dict(zip(others, key, strict=True)), groups[key])


def _slope(metric: Metric, field: str, fields: Mapping[str, str], group: _Group) -> Iterator[Slope]:
    known = _figures(metric, group)
    x = [number(run.fields[field]) or 0.0 for run, _ in known]
    if len(set(x)) < _FEWEST_VALUES:
        return
    having = {id(run) for run, _ in known}
    ooms = sum(run.oom is not None for run, _ in group if id(run) not in having)
    y = np.array([figure for _, figure in known], np.float64)
    slope, verdict = theil_sen(np.array(x), y, _FLAT[metric.kind])
    yield Slope(metric.key, field, fields, slope, verdict, len(x), ooms, len(group) - len(x) - ooms)


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
