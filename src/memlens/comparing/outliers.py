"""Which ranks stand out among their like.

Ranks are the values of a field called ``rank``, ``card``, ``device``, ``gpu``, ``node``, ``host``, ``worker`` or ``process``, or whose name has
such a word between underscores (``dp_rank``, ``gpu_id``).  Runs that differ in such a field only are a group.  Among at least four
ranks with a figure, one stands out where all of this holds:

* its robust z-score is beyond 3.5: ``z = 0.6745 (figure - median) / MAD``, where the MAD is the median of all distances from the
  median (Iglewicz and Hoaglin).  Where the MAD is 0, more than half of the ranks being alike, every other figure is beyond it;
* it is at least 1 % of the median away from it;
* it is at least 1 MiB (1 block, 1 ms) away from it.

A rank that ended out of memory, or that has no figure, takes no part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from memlens.comparing.metrics import METRICS, Metric

if TYPE_CHECKING:
    from memlens.comparing.result import Run, RunWindow

__all__ = ["Outlier", "is_rank", "outliers", "rank_fields"]

_RANKS = frozenset({"rank", "card", "device", "gpu", "node", "host", "worker", "process"})
_FEWEST = 4
_BEYOND = 3.5
#: Makes the MAD of a normal distribution its standard deviation.
_NORMAL = 0.6745
_SHARE = 0.01


@dataclass(frozen=True)
class Outlier:
    """A rank that stands out in one metric.

    Attributes:
        metric: The metric, by its name in machine output.
        field: The field that numbers the ranks.
        fields: The values of all fields of the run.
        path: The run's log.
        figure: Its figure, in the metric's unit.
        median: The median of its group, in the metric's unit.
        off: Its figure less the median.
        z: The robust z-score; ``None`` where more than half of the group is alike.
        ranks: Ranks of the group that have a figure.
    """

    metric: str
    field: str
    fields: Mapping[str, str]
    path: str
    figure: int
    median: float
    off: float
    z: float | None
    ranks: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in plain JSON types."""
        return {**vars(self), "fields": dict(self.fields)}


def is_rank(field: str) -> bool:
    """Whether a field numbers ranks, by its name."""
    return not _RANKS.isdisjoint(field.lower().split("_"))


def rank_fields(values: Mapping[str, Sequence[str]]) -> list[str]:
    """The fields that number ranks, enough of them to tell who stands out."""
    return [name for name, texts in values.items() if is_rank(name) and len(texts) >= _FEWEST]


def outliers(
    runs: Sequence[Run], windows: Sequence[RunWindow | None], values: Mapping[str, Sequence[str]]
) -> Iterator[Outlier]:
    """The ranks that stand out, in all metrics; by metric, and in it the farthest from the median first.

    Args:
        runs: The runs.
        windows: The window of each run whose figures count; ``None`` where it has none.
        values: The values of each field.
    """
    for metric in METRICS:
        found: list[Outlier] = []
        for field in rank_fields(values):
            groups: dict[tuple[str, ...], list[tuple[Run, int]]] = {}
            others = [name for name in values if name != field]
            for run, window in zip(runs, windows, strict=True):
                figure = None if window is None or window.oom else window.figure(metric)
                if figure is not None:
                    groups.setdefault(tuple(run.fields[name] for name in others), []).append((run, figure))
            for group in groups.values():
                found += _standing_out(metric, field, group)
        yield from sorted(found, key=lambda outlier: -abs(outlier.off))


def _standing_out(metric: Metric, field: str, group: Sequence[tuple[Run, int]]) -> Iterator[Outlier]:
    if len(group) < _FEWEST:
        return
    figures = [figure for _, figure in group]
    middle = float(median(figures))
    spread = float(median(abs(figure - middle) for figure in figures))
    least = max(_SHARE * abs(middle), metric.least_change)
    for run, figure in group:
        off = figure - middle
        z = _NORMAL * off / spread if spread else None
        if abs(off) >= least and (z is None or abs(z) > _BEYOND):
            yield Outlier(metric.key, field, dict(run.fields), run.path, figure, middle, off, z, len(group))
