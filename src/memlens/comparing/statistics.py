"""The figures that runs are compared by, and what can be said of many runs: how a figure grows, and which rank stands out.

**Scaling**, over the runs that are alike in all fields but one that is a number:

* **Slope** (Theil-Sen): the median of the slopes between all pairs of runs whose values of the field differ, for one more of
  the field.  Up to 29 % of the runs may be anything.
* **Flat** where the slope, over the whole range of the field, moves the figure by less than 1 % of its median (5 % of a time).
* **Unsteady** where less than three quarters of those pairs move in the slope's direction: a jump or noise, and no slope.
* **Growing** or **shrinking** otherwise.

From fewer than three different values nothing is said.

**Outliers**.  Ranks are the values of a field called ``rank``, ``card``, ``device``, ``gpu``, ``node``, ``host``, ``worker`` or ``process``,
or whose name has such a word between underscores (``dp_rank``, ``gpu_id``).  Runs that differ in such a field only are a group.  Among at
least four ranks with a figure, one stands out where all of this holds:

* its robust z-score is beyond 3.5: ``z = 0.6745 (figure - median) / MAD``, where the MAD is the median of all distances from the
  median (Iglewicz and Hoaglin).  Where the MAD is 0, more than half of the ranks being alike, every other figure is beyond it;
* it is at least 1 % of the median away from it;
* it is at least 1 MiB (1 block, 1 ms) away from it.

A run that ended out of memory, that is missing or has no such window, has no figure; it takes no part in either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from memlens.analyzers.result import Row
from memlens.comparing.templates import natural, number
from memlens.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.comparing.result import Run, RunWindow

__all__ = [
    "DEFAULT",
    "DEFAULT_OF_MATRIX",
    "METRICS",
    "Metric",
    "Outlier",
    "Slope",
    "choose_metrics",
    "outliers",
    "slopes",
    "stand_out",
]

_RANKS = frozenset({"rank", "card", "device", "gpu", "node", "host", "worker", "process"})
_FEWEST_RANKS = 4
_BEYOND = 3.5
#: Makes the MAD of a normal distribution its standard deviation.
_NORMAL = 0.6745
_SHARE = 0.01

#: Runs, and the window of each whose figures count.
_Group: TypeAlias = "list[tuple[Run, RunWindow | None]]"
Verdict: TypeAlias = Literal["growing", "shrinking", "flat", "unsteady"]
#: The fewest different values that have a slope.
_FEWEST_VALUES = 3
#: Of more points than this so many, evenly spaced, are judged.
_MOST = 1000
_FLAT = {"bytes": 0.01, "count": 0.01, "time": 0.05}
_STEADY = 0.75


@dataclass(frozen=True)
class Metric:
    """One figure of a window.

    Attributes:
        name: What ``--metric`` calls it.
        key: Its name in machine output, and the attribute of :class:`~memlens.comparing.result.RunWindow`.
        title: Its heading in a table.
        words: What it is, above a table of it alone.
        kind: What is counted.
        also: Other names that ``--metric`` takes.
    """

    name: str
    key: str
    title: str
    words: str
    kind: Literal["bytes", "count", "time"] = "bytes"
    also: tuple[str, ...] = ()

    @property
    def change_key(self) -> str:
        """The name of its difference from the base in machine output."""
        return f"d_{self.key}"

    @property
    def more_is_worse(self) -> bool:
        """Whether a higher figure is a worse one: not of sums of what came and went."""
        return self.kind != "count" and self.name not in ("allocated", "freed")

    @property
    def least_change(self) -> int:
        """The smallest difference that is worth a word: 1 MiB, 1 block or 1 ms."""
        return {"bytes": 1 << 20, "count": 1, "time": 1000}[self.kind]


#: Every metric, in the order in which tables show them.
METRICS: tuple[Metric, ...] = (
    Metric("peak", "peak_bytes", "Peak", "Peak allocated"),
    Metric("rise", "rise_bytes", "Rise", "Rise above what was carried in"),
    Metric("reserved-peak", "reserved_peak_bytes", "Reserved", "Peak reserved", also=("reserved",)),
    Metric("live", "live_bytes", "Live", "Live at the end"),
    Metric("remaining", "remaining_bytes", "Remaining", "Remaining"),
    Metric("carried-in", "carried_in_bytes", "Carried in", "Carried in"),
    Metric("allocated", "alloc_bytes", "Allocated", "Allocated in all"),
    Metric("allocs", "allocs", "Allocs", "Allocations", "count"),
    Metric("freed", "free_bytes", "Freed", "Freed in all"),
    Metric("frees", "frees", "Frees", "Frees", "count"),
    Metric("duration", "duration_us", "Time", "Time", "time", also=("time",)),
)

#: What tables show where nothing is asked for: of whole logs, where no figure leaves out what was there before them, and of windows.
DEFAULT = {
    False: ("peak", "reserved-peak", "duration", "live", "allocs"),
    True: ("peak", "rise", "reserved-peak", "duration", "remaining", "allocs"),
}
#: The same for a matrix, where each metric is a table of its own.
DEFAULT_OF_MATRIX = {False: ("peak", "reserved-peak"), True: ("peak", "rise", "reserved-peak")}


def choose_metrics(names: Sequence[str]) -> tuple[Metric, ...]:
    """Metrics by their names, each once, in the order given.

    Raises:
        UsageError: There is no such metric.
    """
    known = {name: metric for metric in METRICS for name in (metric.name, metric.key.replace("_", "-"), *metric.also)}
    chosen = {name: known.get(name.strip().lower().replace("_", "-")) for name in names}
    for name, metric in chosen.items():
        if metric is None:
            raise UsageError(f"there is no metric {name!r}", f"Metrics: {', '.join(one.name for one in METRICS)}.")
    return tuple(dict.fromkeys(filter(None, chosen.values())))


@dataclass(frozen=True)
class _Statement(Row):
    """What is said of one metric and one field of the template.

    Attributes:
        metric: The metric, by its name in machine output.
        field: The field.
        fields: The values of all other fields; of an outlier the values of all.
    """

    metric: str
    field: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class Outlier(_Statement):
    """A rank that stands out in one metric.

    Attributes:
        path: The run's log.
        figure: Its figure, in the metric's unit.
        median: The median of its group, in the metric's unit.
        off: Its figure less the median.
        z: The robust z-score; ``None`` where more than half of the group is alike.
        ranks: Ranks of the group that have a figure.
    """

    path: str
    figure: int
    median: float
    off: float
    z: float | None
    ranks: int


def is_rank(field: str) -> bool:
    """Whether a field numbers ranks, by its name."""
    return not _RANKS.isdisjoint(field.lower().split("_"))


def outliers(
    runs: Sequence[Run], windows: Sequence[RunWindow | None], values: Mapping[str, Sequence[str]]
) -> Iterator[Outlier]:
    """The ranks that stand out, in all metrics; by metric, and in it the farthest from the median first.

    Args:
        runs: The runs.
        windows: The window of each run whose figures count; ``None`` where it has none.
        values: The values of each field.
    """
    fields = [name for name, texts in values.items() if is_rank(name) and len(texts) >= _FEWEST_RANKS]
    groups = [(field, group) for field in fields for group in _alike_but(field, runs, windows, values).values()]
    for metric in METRICS:
        found = [outlier for field, group in groups for outlier in _standing_out(metric, field, group)]
        yield from sorted(found, key=lambda outlier: -abs(outlier.off))


def _alike_but(
    field: str, runs: Sequence[Run], windows: Sequence[RunWindow | None], values: Mapping[str, Sequence[str]]
) -> dict[tuple[str, ...], _Group]:
    """Runs and their windows in groups that are alike in all fields but one, by the values of the others."""
    groups: dict[tuple[str, ...], _Group] = {}
    for run, window in zip(runs, windows, strict=True):
        key = tuple(run.fields[name] for name in values if name != field)
        groups.setdefault(key, []).append((run, window))
    return groups


def _figures(metric: Metric, group: _Group) -> list[tuple[Run, int]]:
    """The runs of a group that have a figure; one that ended out of memory in its window has none."""
    found = ((run, window.figure(metric)) for run, window in group if window is not None and not window.oom)
    return [(run, figure) for run, figure in found if figure is not None]


def _standing_out(metric: Metric, field: str, group: _Group) -> Iterator[Outlier]:
    known = _figures(metric, group)
    figures = [figure for _, figure in known]
    for at, middle, z in stand_out(figures, metric.least_change):
        run, figure = known[at]
        off = figure - middle
        yield Outlier(metric.key, field, dict(run.fields), run.path, figure, middle, off, z, len(known))


def stand_out(figures: Sequence[int], least_change: int) -> Iterator[tuple[int, float, float | None]]:
    """Which of some figures stand out, by the rule above: the index of each, the median of all, and its robust z-score.

    Args:
        figures: A figure of each of some ranks; of fewer than four none stands out.
        least_change: How far from the median one is at least that does.
    """
    if len(figures) < _FEWEST_RANKS:
        return
    middle = float(median(figures))
    spread = float(median(abs(figure - middle) for figure in figures))
    least = max(_SHARE * abs(middle), least_change)
    for at, figure in enumerate(figures):
        off = figure - middle
        z = _NORMAL * off / spread if spread else None
        if abs(off) >= least and (z is None or abs(z) > _BEYOND):
            yield at, middle, z


@dataclass(frozen=True)
class Slope(_Statement):
    """How one metric grows with one field, all other fields alike.

    Attributes:
        slope: The robust slope for one more of the field, in the metric's unit.
        verdict: ``growing``, ``shrinking``, ``flat`` or ``unsteady``.
        points: Runs that have a figure.
        ooms: Runs left out because they ended out of memory.
        left_out: Runs left out for another reason.
    """

    slope: float
    verdict: Verdict
    points: int
    ooms: int = 0
    left_out: int = 0


def scaling_fields(values: Mapping[str, Sequence[str]]) -> list[str]:
    """The fields whose values are three or more different numbers, but for those that number ranks."""
    numbers = {name: {number(text) for text in texts} for name, texts in values.items() if not is_rank(name)}
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
        groups = _alike_but(field, runs, windows, values)
        for metric in METRICS:
            for key in sorted(groups, key=lambda texts: [natural(text) for text in texts]):
                yield from _slope(metric, field, dict(zip(others, key, strict=True)), groups[key])


def _slope(metric: Metric, field: str, fields: Mapping[str, str], group: _Group) -> Iterator[Slope]:
    known = _figures(metric, group)
    x = [number(run.fields[field]) or 0.0 for run, _ in known]
    if len(set(x)) < _FEWEST_VALUES:
        return
    told = {id(run) for run, _ in known}
    ooms = sum(run.oom is not None for run, _ in group if id(run) not in told)
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
