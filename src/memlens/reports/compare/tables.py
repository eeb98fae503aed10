"""The tables of a comparison of runs: a row a run with a column a metric, or a matrix of runs for each metric.

A column has one unit, and words where there is no figure.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate, product
from typing import TYPE_CHECKING, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memlens.comparing.layout import row_keys, run_key
from memlens.comparing.templates import number
from memlens.reports.blocks import Column, Table, Toned, Value
from memlens.reports.tables import OPEN
from memlens.text import NOT_KNOWN, file_names, format_bytes, format_change, format_count, plural, shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memlens.comparing.result import Comparison
    from memlens.summarizing.figures import Metric
    from memlens.summarizing.summary import Run, Status

Row = TypeVar("Row")

#: Windows of a series where ``--top`` says nothing.
_TOP_OF_SERIES = 10
_WIDEST_TITLE = 24

#: What stands in a cell that has no figure.
WORDS = {"oom": "OOM", "no_window": "no window", "missing": "missing", "unreadable": "unreadable"}
#: Stands behind the figures of a log whose trust report has doubts.
DOUBTFUL = "*"


class OfRun(str):
    """The value in the cell of a run, which a form may draw beside it."""

    __slots__ = ("run", "window")
    run: Run | None
    window: str | None

    def __new__(cls, text: str, run: Run | None, window: str | None) -> Self:
        """The text, with the run and the name of the window, ``None`` for the only one."""
        made = super().__new__(cls, text)
        made.run, made.window = run, window
        return made


class Scale(Struct, frozen=True):
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
        if figure and not float(shown):
            return format_bytes(figure) if self.metric.kind == "bytes" else f"{figure} µs"
        return shown

    def signed(self, change: int) -> str:
        """A difference in this unit, always with its sign; zero is ``0``."""
        if not change:
            return "0"
        return f"+{self.text(change)}" if change > 0 else self.text(change)


#: The units of each kind of figure, largest first: from which figure on, and what :class:`Scale` says.
_SCALES: dict[str, tuple[tuple[int, str, int, int], ...]] = {
    "bytes": ((1 << 20, "MiB", 1 << 20, 2), (1 << 10, "KiB", 1 << 10, 2), (0, "B", 1, 0)),
    "time": ((100_000, "s", 1_000_000, 3), (0, "ms", 1000, 2)),
    "count": ((0, "", 1, 0),),
}


def scale_of(metric: Metric, figures: Iterable[int | None]) -> Scale:
    """The unit for a column with these figures: the one that suits the largest of them, MiB where bytes are many."""
    largest = max((abs(figure) for figure in figures if figure is not None), default=0)
    return next(Scale(metric, *scale) for least, *scale in _SCALES[metric.kind] if largest >= least)  # type: ignore[arg-type]


def _figure(run: Run | None, window: str | None, scale: Scale, *, asked: bool = True) -> str:
    """The text in the cell of a run (``None``: there is none) and of a window (``None``: the only one).

    With ``asked`` an ``OOM`` comes with what was asked for.
    """
    if run is None:
        return WORDS["missing"]
    status: Status = run.status_of(window)
    mark = DOUBTFUL if run.doubts else ""
    if status != "ok":
        size = run.oom.requested_bytes if status == "oom" and asked and run.oom is not None else None
        return WORDS[status] + ("" if size is None else f" {format_bytes(size)}") + mark
    found = run.window(window)
    figure = None if found is None else found.figure(scale.metric)
    return NOT_KNOWN if figure is None else scale.text(figure) + mark


def _changes(comparison: Comparison, run: Run | None, window: str | None, scale: Scale) -> tuple[str, str]:
    """The difference of a run's figure from that of its base, and in percent; in words where only one of the two ended out of memory."""
    if run is None or (base := comparison.base_of(run)) is None:
        return "", ""
    fates = base.status_of(window), run.status_of(window)
    if fates in (("oom", "ok"), ("ok", "oom")):
        return Toned("was OOM", "good") if fates[0] == "oom" else Toned("now OOM", "bad"), ""
    change, found = comparison.change(run, window, scale.metric), run.window(window)
    if change is None or found is None:
        return "", ""
    figure = found.figure(scale.metric) or 0
    texts = scale.signed(change), format_change(figure - change, figure)
    return (Toned.change(texts[0], change), Toned.change(texts[1], change)) if scale.metric.more_is_worse else texts


def tables_of(comparison: Comparison, top: int | None, most: int | None = None) -> Iterator[Table]:
    """A row a run: its figures, and what each differs from the base by; or a matrix for each metric, as runs are laid out in rows and columns.

    With ``most`` no more rows than these.  In a matrix there are rows of fields, a column a value, and what each value differs from its base by.
    """
    names, more = _chosen_windows(comparison, top)
    if comparison.layout.cols is not None:
        for metric in _known(comparison):
            yield _matrix(comparison, metric, names, more, most)
        return
    if comparison.typical:
        typical = zip(comparison.runs, comparison.typical, strict=True)
        runs = tuple(replace(run, windows=() if window is None else (window,)) for run, window in typical)
        title = "Typical window: the median of the windows that all runs have"
        yield _list(replace(comparison, runs=runs), (None,), title, "", most)
    yield _list(comparison, names, "Windows, those that change most first" if more else "", more, most)


def _list(comparison: Comparison, windows: Sequence[str | None], title: str, more: str, most: int | None) -> Table:
    runs, of_series = comparison.runs, windows != (None,)
    shown = [(window, run) for window in windows for run in runs if _exists(run, window)]
    weights = [_weight(comparison, run, window, comparison.metrics[0]) for window, run in shown]
    if of_series and most is not None:
        weights = _alike_in_windows(shown, weights, most)
    shown, more = _heaviest(shown, weights, most, more)
    scales = [scale_of(metric, _figures(runs, windows, metric)) for metric in _known(comparison)]
    changing = any(comparison.base_of(run) is not None for run in runs)
    columns = _windows_first(comparison, windows)
    for order, scale in enumerate(scales):
        columns += _metric_columns(scale, order, changing, 1 if of_series else 2)
    short = file_names([run.path for run in runs])
    rows: list[list[Value]] = []
    for window, run in shown:
        own = run_key(run, comparison.layout.rows) if comparison.has_fields else (short[run.path],)
        row: list[Value] = [*_marked(window, [run]), *own]
        for scale in scales:
            text = _figure(run, window, scale, asked=scale is scales[0])
            row.append(OfRun(text, run, window) if scale is scales[0] else text)
            row += _changes(comparison, run, window, scale) if changing else ()
        rows.append(row)
    return Table(title, tuple(columns), _aligned(columns, rows), more)


def _windows_first(comparison: Comparison, windows: Sequence[str | None]) -> list[Column]:
    """The columns that name a row: its window, and its log or the values of its fields."""
    first = [Column("window", "Window", "name")] if windows != (None,) else []
    if not comparison.has_fields:
        return [*first, Column("path", "Run", "name")]
    return [*first, *field_columns(comparison, comparison.layout.rows)]


def field_columns(comparison: Comparison, fields: Sequence[str]) -> list[Column]:
    """Columns for the values of fields: numbers to the right, as numbers stand."""
    values = comparison.values
    numbers = {name for name in fields if all(number(value) is not None for value in values[name])}
    return [Column(name, name, "count" if name in numbers else "name") for name in fields]


def _metric_columns(scale: Scale, index: int, changing: bool, kept: int) -> list[Column]:
    """The columns of a metric, the ``index``-th one of a table.

    What leaves a narrow table first: the percentages of all metrics but the first, then the changes of roles, then metrics from the last
    one on.  The first ``kept`` metrics with their changes stay, and the percentage of the first one.
    """
    metric, change = scale.metric, f"Δ{scale.metric.title.lower()}"
    drop = 0 if index < kept else 2 * index
    columns = [Column(metric.key, scale.heading, "count", drop=drop, strong=not index)]
    if changing:
        columns.append(
            Column(metric.change_key, change, "count", drop=50 + index if metric.role else drop and drop + 1)
        )
        columns.append(Column(f"{metric.change_key}_percent", f"{change} %", "count", drop=index and 100 + index))
    return columns


def _known(comparison: Comparison) -> Sequence[Metric]:
    """The metrics that some run has a figure for; all of them where none has."""
    windows = [window for run in comparison.runs for window in run.windows]
    known = [one for one in comparison.metrics if any(window.figure(one) is not None for window in windows)]
    return known or comparison.metrics


def _matrix(
    comparison: Comparison, metric: Metric, windows: Sequence[str | None], more: str, most: int | None
) -> Table:
    layout, runs = comparison.layout, comparison.runs
    assert layout.cols is not None
    scale = scale_of(metric, _figures(runs, windows, metric))
    cells = {(run_key(run, layout.rows), run.fields[layout.cols]): run for run in runs}
    heads = column_values(comparison)
    changing = {run.fields[layout.cols] for run in runs if comparison.base_of(run)}
    columns = _windows_first(comparison, windows)
    for index, head in enumerate(heads):
        columns.append(Column(head, value_title(head), "count", drop=index + 1 if index > 1 else 0))
        if head in changing:
            title = "Change" if len(changing) == 1 else f"Δ {value_title(head)}"
            columns.append(Column(f"d_{head}", title, "count", drop=100 + index if index > 1 else 0, strong=True))
            columns.append(Column(f"d_{head}_percent", "%", "count", drop=200 + index))
    rows: list[list[Value]] = []
    weights: list[float] = []
    keys = row_keys({run_key(run, layout.rows) for run in runs}, [comparison.values[name] for name in layout.rows])
    for window, key in product(windows, keys):
        here = [cells.get((key, head)) for head in heads]
        if window is not None and not any(run is not None and _exists(run, window) for run in here):
            continue
        row: list[Value] = [*_marked(window, [run for run in here if run]), *key]
        for head, run in zip(heads, here, strict=True):
            row.append(OfRun(_figure(run, window, scale), run, window))
            if head in changing:
                row += _changes(comparison, run, window, scale)
        rows.append(row)
        weights.append(max(_weight(comparison, run, window, metric) for run in here))
    rows, more = _heaviest(rows, weights, most, more)
    unit = f" ({scale.unit})" if scale.unit else ""
    title = f"{metric.words}{unit} by {layout.cols}"
    return Table(title, tuple(columns), _aligned(columns, rows), more)


def _weight(comparison: Comparison, run: Run | None, window: str | None, metric: Metric) -> float:
    """How much a run has to say: its change, or its figure where there is no base; without limit where it has none, or ran out of memory."""
    if run is None:
        return 0
    if run.status in ("missing", "unreadable") or run.status_of(window) == "oom":
        return float("inf")
    found = run.window(window)
    figure = None if found is None else found.figure(metric)
    layout = comparison.layout
    if not layout.base_runs and layout.base_field is None:
        return abs(figure or 0)
    if comparison.base_of(run) is None and layout.cols is None:
        return float("inf")  # what the others are read against
    return abs(comparison.change(run, window, metric) or 0)


def _alike_in_windows(shown: Sequence[tuple[str | None, Run]], weights: Sequence[float], most: int) -> list[float]:
    """Weights by which a window has all of its rows or none: a change is read beside the base's figures.

    The base itself, whose weight is without limit, says nothing of a window; where one window has more rows than there is room for, its
    rows are as heavy as before.
    """
    sizes = Counter(window for window, _ in shown)
    if max(sizes.values(), default=0) > most:
        return list(weights)
    heaviest = dict.fromkeys(sizes, 0.0)
    for (window, _), weight in zip(shown, weights, strict=True):
        if weight != float("inf"):
            heaviest[window] = max(heaviest[window], weight)
    order = sorted(sizes, key=lambda window: -heaviest[window])
    filled = accumulate(sizes[window] for window in order)
    fits = {window for window, rows in zip(order, filled, strict=True) if rows <= most}
    return [heaviest[window] + 1 if window in fits else -1 for window, _ in shown]


def _heaviest(rows: list[Row], weights: Sequence[float], most: int | None, more: str) -> tuple[list[Row], str]:
    """Those rows with most to say, in their order, and that others were left out."""
    if most is None or len(rows) <= most:
        return rows, more
    heaviest = sorted((row for row in range(len(rows)) if weights[row] >= 0), key=lambda row: -weights[row])
    chosen = sorted(heaviest[:most])
    left = len(rows) - len(chosen)
    less = f"… and {plural(left, 'row')} that {'says' if left == 1 else 'say'} less"
    return [rows[row] for row in chosen], "; ".join(filter(None, (less, more)))


def column_values(comparison: Comparison) -> list[str]:
    """The values that are columns: that of the base first, then the others in their natural order."""
    layout = comparison.layout
    assert layout.cols is not None
    values = comparison.values[layout.cols]
    return sorted(values, key=lambda value: (layout.cols, value) != (layout.base_field, layout.base_value))


def value_title(value: str) -> str:
    """The value of a field as the heading of a column."""
    return shorten(visible(value), _WIDEST_TITLE)


def _is_open(name: str, runs: Sequence[Run]) -> bool:
    """Whether a window is open in one of these runs."""
    return any(window.open_end for run in runs if (window := run.window(name)) is not None)


def _marked(window: str | None, runs: Sequence[Run]) -> list[str]:
    """The name of a window of a series as its cell, with a mark where it is open in one of these runs; no cell for the only one."""
    return [] if window is None else [f"{window}{OPEN if _is_open(window, runs) else ''}"]


def _exists(run: Run, window: str | None) -> bool:
    """Whether a run has a row for a window: of a series only where it has that window, or could not be read at all."""
    return window is None or run.window(window) is not None


def _figures(runs: Sequence[Run], windows: Sequence[str | None], metric: Metric) -> Iterator[int | None]:
    found = (run.window(name) for run in runs for name in windows)
    return (window.figure(metric) for window in found if window is not None and not window.oom)


def _chosen_windows(comparison: Comparison, top: int | None) -> tuple[Sequence[str | None], str]:
    """The windows to show, in the order of the log; of too many those whose first metric changes most, these first."""
    names = comparison.windows
    if not comparison.by or comparison.ranks is not None:
        return (None,), ""
    most = _TOP_OF_SERIES if top is None else top
    if len(names) <= most:
        return names, ""
    metric = comparison.metrics[0]

    def moved(name: str) -> int:
        if _is_open(name, comparison.runs):
            return -1  # what comes after the last unit of work is no change of that unit
        return max(abs(comparison.change(run, name, metric) or 0) for run in comparison.runs)

    left = len(names) - most
    return sorted(names, key=lambda name: -moved(name))[:most], f"… and {plural(left, 'more window')}"


def _aligned(columns: Sequence[Column], rows: Sequence[Sequence[Value]]) -> tuple[tuple[Value, ...], ...]:
    """Rows whose figures stand below each other where some of a column carry a mark behind them."""
    marked = [
        column.numeric and any(str(row[index]).endswith(DOUBTFUL) for row in rows)
        for index, column in enumerate(columns)
    ]

    def padded(cell: Value, mark: bool) -> Value:
        if not (mark and cell) or str(cell).endswith(DOUBTFUL):
            return cell
        return OfRun(f"{cell} ", cell.run, cell.window) if isinstance(cell, OfRun) else f"{cell} "

    return tuple(tuple(map(padded, row, marked)) for row in rows)
