"""Figures of runs in cells: one unit for a whole column, and words where there is no figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlens.reports.text import format_change, format_count
from memlens.units import format_bytes, format_signed

if TYPE_CHECKING:
    from memlens.comparing.metrics import Metric
    from memlens.comparing.result import Run, Status
    from memlens.comparing.scaling import Slope

__all__ = [
    "DOUBTFUL",
    "MISSING",
    "WORDS",
    "Scale",
    "cell_words",
    "change_words",
    "percent_words",
    "scale_of",
    "slope_words",
]

#: What stands in a cell that has no figure.
WORDS = {"oom": "OOM", "no_window": "no window", "missing": "missing", "unreadable": "unreadable"}
MISSING = WORDS["missing"]
UNKNOWN = "unknown"
#: Stands behind the figures of a log whose trust report has doubts.
DOUBTFUL = "*"


@dataclass(frozen=True)
class Scale:
    """The unit of a column.

    Attributes:
        metric: What the column holds.
        unit: The unit's name, or ``""`` for counts.
        size: How many bytes or microseconds it is.
        digits: Digits behind the point.
    """

    metric: Metric
    unit: str = ""
    size: int = 1
    digits: int = 0

    @property
    def heading(self) -> str:
        """The metric with its unit, above a column."""
        return f"{self.metric.title} ({self.unit})" if self.unit else self.metric.title

    def text(self, figure: int) -> str:
        """A figure in this unit; one that would be written as nothing though it is something gets a unit of its own."""
        if not self.unit:
            return format_count(figure)
        shown = f"{figure / self.size:.{self.digits}f}"
        return shown if not figure or float(shown) else self._small(figure)

    def signed(self, change: int) -> str:
        """A difference in this unit, always with its sign; zero is ``0``."""
        if not change:
            return "0"
        return f"+{self.text(change)}" if change > 0 else self.text(change)

    def _small(self, figure: int) -> str:
        return format_bytes(figure) if self.metric.kind == "bytes" else f"{figure} µs"


def scale_of(metric: Metric, figures: Iterable[int | None]) -> Scale:
    """The unit for a column with these figures: the one that suits the largest of them, MiB where bytes are many."""
    largest = max((abs(figure) for figure in figures if figure is not None), default=0)
    if metric.kind == "count":
        return Scale(metric)
    if metric.kind == "time":
        return Scale(metric, "s", 1_000_000, 3) if largest >= 100_000 else Scale(metric, "ms", 1000, 2)
    if largest >= 1 << 20:
        return Scale(metric, "MiB", 1 << 20, 2)
    return Scale(metric, "KiB", 1 << 10, 2) if largest >= 1 << 10 else Scale(metric, "B")


def cell_words(run: Run | None, window: str | None, scale: Scale, *, asked: bool = True) -> str:
    """What stands in the cell of a run.

    Args:
        run: The run, ``None`` where there is none.
        window: The window, ``None`` for the only one.
        scale: The unit of the column.
        asked: Say with ``OOM`` what was asked for.
    """
    status: Status = "missing" if run is None else run.status_of(window)
    mark = DOUBTFUL if run is not None and run.doubts else ""
    if run is None or status != "ok":
        size = (
            run.oom.requested_bytes if status == "oom" and asked and run is not None and run.oom is not None else None
        )
        return WORDS[status] + ("" if size is None else f" {format_bytes(size)}") + mark
    found = run.window(window)
    figure = None if found is None else found.figure(scale.metric)
    return UNKNOWN if figure is None else scale.text(figure) + mark


def change_words(base: Run | None, run: Run | None, window: str | None, scale: Scale) -> str:
    """The difference of a run's figure from that of its base; in words where only one of the two ended out of memory."""
    if base is None or run is None:
        return ""
    before, after = base.status_of(window), run.status_of(window)
    if (before, after) == ("oom", "ok"):
        return "was OOM"
    if (before, after) == ("ok", "oom"):
        return "now OOM"
    pair = _pair(base, run, window, scale.metric)
    return "" if pair is None else scale.signed(pair[1] - pair[0])


def percent_words(base: Run | None, run: Run | None, window: str | None, metric: Metric) -> str:
    """The difference in percent of the base's figure."""
    pair = None if base is None or run is None else _pair(base, run, window, metric)
    return "" if pair is None else format_change(*pair)


def _pair(base: Run, run: Run, window: str | None, metric: Metric) -> tuple[int, int] | None:
    if base.status_of(window) != "ok" or run.status_of(window) != "ok":
        return None
    sides = [side.figure(metric) for side in (base.window(window), run.window(window)) if side is not None]
    if len(sides) != 2 or sides[0] is None or sides[1] is None:
        return None
    return sides[0], sides[1]


def slope_words(slope: Slope | None, metric: Metric) -> str:
    """A slope in a cell: for one more of its field, or its verdict where that says more."""
    if slope is None:
        return ""
    if slope.verdict in ("flat", "unsteady"):
        return slope.verdict
    if metric.kind == "time":
        return f"{slope.slope / 1000:+.3g} ms"
    if metric.kind == "bytes":
        return format_signed(round(slope.slope)) if abs(slope.slope) >= 10 else f"{slope.slope:+.2g} B"
    return f"{slope.slope:+.3g}"
