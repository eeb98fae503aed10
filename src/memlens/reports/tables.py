"""The tables of an analysis: which columns there are, where each figure comes from, and in which order rows come.

Terminal, Markdown, CSV and ``--sort`` all take their columns from here, so that a figure has one name everywhere.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memlens.errors import UsageError
from memlens.reports.blocks import Column, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.analyzing.result import Analysis, LogAnalysis, WindowAnalysis

T = TypeVar("T")
#: Stands behind the name of an open window.
OPEN = " (open)"


class Measure(Struct, frozen=True):
    """A column of a table of windows or logs, and where its value stands.

    Attributes:
        column: How it is shown.
        sort: What ``--sort`` calls it.
        analyzer: The analyzer whose result holds it; empty for what the window itself knows.
        value: Takes the result (or the window) and gives the exact figure.
    """

    column: Column
    sort: str
    analyzer: str
    value: Callable[[Any], Value]

    def of(self, window: WindowAnalysis) -> Value:
        """The exact figure of one window; ``None`` where its analyzer was not asked for."""
        if not self.analyzer:
            return self.value(window)
        result = window.results.get(self.analyzer)
        return None if result is None else self.value(result)


def _measure(
    sort: str, analyzer: str, field: str, title: str, kind: Any, drop: int = 0, strong: bool = False, value: Any = None
) -> Measure:
    """A column of a figure, which is that field of a result or of a window, unless ``value`` takes it."""
    return Measure(Column(field, title, kind, drop, strong), sort, analyzer, value or attrgetter(field))


#: An open window is marked: it is shown, but not judged.
_NAME = Measure(
    Column("name", "Window", "name"), "name", "", lambda window: f"{window.name}{OPEN if window.open_end else ''}"
)
_REMAINING = _measure("remaining", "remaining", "remaining_bytes", "Remaining", "bytes", 0, True)
_PEAK = _measure("peak", "peak", "peak_bytes", "Peak", "bytes", 0, True)
_RISE = _measure("rise", "peak", "rise_bytes", "Rise", "bytes", 1)
_LIVE = _measure("live", "remaining", "live_bytes", "Live at end", "bytes", 0, True)
_ALLOC_BYTES = _measure("allocated", "stats", "alloc_bytes", "Allocated", "bytes", 4)
_ALLOCS = _measure("allocs", "stats", "allocs", "Allocs", "count", 2)
_FREE_BYTES = _measure("freed", "stats", "free_bytes", "Freed", "bytes", 5)
_FREES = _measure("frees", "stats", "frees", "Frees", "count", 3)
_CARRIED_IN = _measure("carried-in", "remaining", "carried_in_bytes", "Carried in", "bytes", 6)
_RESERVED = _measure("reserved-peak", "peak", "reserved_peak_bytes", "Reserved", "bytes", 0, True)
_EVENTS = _measure("events", "", "events", "Events", "count", 8)
_LINE = _measure("line", "", "start_line", "Line", "count", 7)
_DURATION = _measure("duration", "", "duration_us", "Duration", "duration", 9)


def _at_peak(field: str) -> Callable[[Any], Value]:
    """A figure of the chunks at the peak of a window, where they are known."""
    return lambda segments: getattr(segments.moments[0], field) if segments.moments else None


_FREE_INSIDE = _measure("free-inside", "segments", "free_bytes", "Free inside", "bytes", value=_at_peak("free_bytes"))
_GAP = _at_peak("largest_gap_bytes")
_LARGEST_GAP = _measure("largest-gap", "segments", "largest_gap_bytes", "Largest gap", "bytes", value=_GAP)
_TEMPORARY = _measure("temporary", "lifetimes", "temporary_bytes", "Temporary", "bytes", 0)


def _longest(lives: Any) -> Value:
    """The longest life of a block."""
    return lives.longest[0].life_events if lives.longest else None


_LONGEST = _measure("longest-life", "lifetimes", "life_events", "Longest life", "count", value=_longest)

#: A row a window.  The order is the order shown; ``drop`` says what leaves first on a narrow terminal.
WINDOW_COLUMNS = (
    _NAME, _PEAK, _RISE, _REMAINING, _FREE_INSIDE, _LARGEST_GAP, _TEMPORARY, _LONGEST,
    _ALLOC_BYTES, _ALLOCS, _FREE_BYTES, _FREES, _CARRIED_IN, _EVENTS, _LINE, _DURATION,
)  # fmt: skip

#: A row a log.  Reserved against allocated decides here, so both peaks stay at every width; no figure leaves out what was there before.
LOG_COLUMNS = (
    _NAME, _PEAK, _RESERVED, _LIVE, _ALLOC_BYTES, _ALLOCS, _FREE_BYTES, _FREES, _EVENTS, _DURATION,
)  # fmt: skip

#: A row a log of which one window is looked at.
CUT_LOG_COLUMNS = (
    _NAME, _PEAK, _RISE, _RESERVED, _REMAINING, _ALLOC_BYTES, _ALLOCS, _FREE_BYTES, _FREES, _CARRIED_IN, _EVENTS, _DURATION,
)  # fmt: skip

_ALL = (*WINDOW_COLUMNS, _RESERVED, _LIVE)


def measures_of(measures: Sequence[Measure], windows: Sequence[WindowAnalysis]) -> tuple[Measure, ...]:
    """Those columns that some window has a figure for."""
    if not windows:
        return tuple(measures)
    have = windows[0].results
    shown = [measure for measure in measures if not measure.analyzer or measure.analyzer in have]
    # Times are known for all windows of a log or for none, requested bytes too: the ends and the middle tell.
    sample = [windows[0], windows[len(windows) // 2], windows[-1]]
    return tuple(measure for measure in shown if any(measure.of(window) is not None for window in sample))


def sort_names() -> tuple[str, ...]:
    """The keys that ``--sort`` takes."""
    return tuple(measure.sort for measure in _ALL)


def find_measure(name: str) -> Measure:
    """The column that ``--sort`` names: by its short name or by its name in machine output.

    Raises:
        UsageError: There is no such column.
    """
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    for measure in _ALL:
        if wanted in (measure.sort, measure.column.key.replace("_", "-")):
            return measure
    raise UsageError(f"there is no column {name!r} to sort by", f"Columns: {', '.join(sort_names())}.")


def sorted_windows(windows: Sequence[WindowAnalysis], sort: str | None) -> Sequence[WindowAnalysis]:
    """Order windows: names from A to Z, lines from first to last, other figures largest first; ``None`` keeps file order.

    Rows that are equal in it stay in file order.

    Raises:
        UsageError: There is no such column, or the analyzer that would fill it was not asked for.
    """
    return _sorted(windows, sort, [window.name for window in windows], windows) if sort is not None else windows


def sorted_logs(logs: Sequence[LogAnalysis], sort: str | None) -> Sequence[LogAnalysis]:
    """Order logs by a figure of their first window, like :func:`sorted_windows`."""
    firsts = [log.windows[0] for log in logs]
    return _sorted(logs, sort, [log.path for log in logs], firsts) if sort is not None else logs


def _sorted(rows: Sequence[T], sort: str, names: Sequence[str], windows: Sequence[WindowAnalysis]) -> Sequence[T]:
    """Rows in order, by their names or by the figures of a window each."""
    measure = find_measure(sort)
    figures = [measure.of(window) for window in windows]
    if windows and all(figure is None for figure in figures):
        hint = f"Ask for its analyzer with -A {measure.analyzer}." if measure.analyzer else ""
        raise UsageError(f"nothing to sort by: no figures for {sort!r}", hint)
    sign = 1 if measure.column.key == "start_line" else -1
    # Unknown figures come last in either direction.
    keys: Sequence[Any] = [(figure is None, sign * figure if isinstance(figure, int) else 0) for figure in figures]
    keys = names if measure.column.kind == "name" else keys
    return [rows[k] for k in sorted(range(len(rows)), key=keys.__getitem__)]


def sorted_analysis(analysis: Analysis, sort: str | None) -> Analysis:
    """The same analysis with its windows in order where a log was cut into a series, and its logs where it was not."""
    if sort is None or not analysis.logs:
        return analysis
    if any(log.series for log in analysis.logs):
        logs = tuple(
            replace(log, windows=tuple(sorted_windows(log.windows, sort)), figures={}) for log in analysis.logs
        )
    else:
        logs = tuple(sorted_logs(analysis.logs, sort))
    return replace(analysis, logs=logs)
