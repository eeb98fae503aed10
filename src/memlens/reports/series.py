"""The windows of a series, and the steps and phases of a run: tables that show the ends of a long series and what stands out in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from memlens.analyzers.series.shapes import MINIMUM
from memlens.reports.blocks import ALL_ROWS, Block, Column, Line, ListOptions, Table, Value, take
from memlens.reports.tables import WINDOW_COLUMNS, Measure, measures_of, sorted_windows
from memlens.text import LINES, Terms, format_value, plural
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from memlens.analyzers.series.curve import Curve
    from memlens.analyzing.result import LogAnalysis, WindowAnalysis

#: Columns in which windows may differ that do the same: where they are, and the level that they start from.
_PLACES = frozenset({"name", "start_line", "duration_us", "events", "peak_bytes", "carried_in_bytes"})
#: Analyzers that work each window out for itself, so that not all windows of a series are compared by them.
_COSTLY = frozenset({"segments", "lifetimes"})
#: What the first screen says of steps.
_BRIEF = ("name", "peak_bytes", "rise_bytes", "remaining_bytes")
#: Characters that the levels of a window are drawn with.
_DRAWN = 12
_LEVELS = Column("levels", "Levels", "word", drop=10)
_NOTE = Column("note", "Remark", "word", drop=3)
_PHASE = (
    *(Column("name", "Phase", "name"), Column("steps", "Steps", "count", drop=5)),
    *(Column("peak_bytes", "Peak", "bytes", strong=True), Column("peak_step", "In", "name", drop=3)),
    *(Column("rise_median_bytes", "Rise", "bytes", drop=1), Column("rise_max_bytes", "Max rise", "bytes", drop=2)),
    Column("remaining_median_bytes", "Remaining", "net", strong=True),
    *(Column("remaining_min_bytes", "Min", "net", drop=4), Column("remaining_max_bytes", "Max", "net")),
)

#: Windows next to each other that look alike, by their indices.
_Alike = range


def steps_blocks(log: LogAnalysis, most: int, terms: Terms = LINES) -> Iterator[Block]:
    """The steps that were found by themselves: a line, and a table of so many rows with all its columns, or with a few of both; nothing where there are none."""
    steps, growth = log.steps, log.growth
    if steps is None:
        return
    trend = f", {word}" if (word := growth_word(growth)) else ""
    what = f"{steps.unit}s" if steps.repeated else "parts"
    ended = ", each ended by its line" if steps.ends else ""
    words = f"{plural(steps.anchors, what[:-1])}, detected automatically: --by '{steps.by}'{ended}{trend}"
    yield Line(words, label=what.capitalize())
    if most == ALL_ROWS:
        yield from windows_tables(steps.windows, growth, [most], None, terms, figures=steps.figures)
    elif most:
        brief = [measure for measure in WINDOW_COLUMNS if measure.column.key in _BRIEF]
        tops = range(most, 0, -1)
        tables = windows_tables(steps.windows, growth, tops, None, terms, brief, figures=steps.figures)
        yield next(table for table in tables if len(table.rows) <= most)


def growth_word(growth: Any | None) -> str:
    """How memory develops, in one word; nothing where it was not judged."""
    return "" if growth is None or growth.judged < MINIMUM else str(growth.verdict)


def phases_table(phases: Any, top: int, terms: Terms = LINES, *, full: bool = False) -> Table:
    """The phases of steps, in order: the ``top`` that rise or leave behind most; ``full`` has a column more."""
    rows = phases.phases
    weights = [max(row.rise_max_bytes, abs(row.remaining_min_bytes), abs(row.remaining_max_bytes)) for row in rows]
    chosen = sorted(sorted(range(len(rows)), key=lambda k: (-weights[k], k))[:top])
    shown = {"steps": any(row.steps != phases.steps for row in rows), "remaining_min_bytes": full}
    columns = [column for column in _PHASE if shown.get(column.key, True)]
    title = f"Phases of {plural(phases.steps, 'step')} (rise and remaining: the median)"
    return ListOptions(top, terms=terms).table(title, columns, [rows[k] for k in chosen], "phase", len(rows))


def windows_tables(
    windows: Sequence[WindowAnalysis],
    growth: Any | None,
    tops: Iterable[int],
    sort: str | None = None,
    terms: Terms = LINES,
    measures: Sequence[Measure] = WINDOW_COLUMNS,
    curve: Curve | None = None,
    figures: Mapping[str, NDArray[Any]] | None = None,
) -> Iterator[Table]:
    """The windows of a series, in tables of different lengths.

    In file order windows next to each other that do the same (they rise, allocate, free and leave behind what looks the same) are one row,
    ``STEP 2–28 ×27``, with the highest of their peaks.  Where there are more rows than are shown these are the
    windows that stand out (the highest peak, the most left behind, the first that grows), the first ones and the last ones; ``… 27 more`` stands
    for those between that are not shown.

    Args:
        windows: The windows.
        growth: How memory develops over them, or ``None``.
        tops: Rows to show, of each table.
        sort: The column that orders them, the first rows of which are shown; ``None`` for file order.
        terms: What lines are called.
        measures: The columns, as far as there are figures for them.
        curve: The levels over the whole log, to be drawn in the rows; ``None`` for no picture.
        figures: Figures of all windows by name, where they are at hand (:attr:`memlens.analyzing.result.LogAnalysis.figures`).
    """
    shown = measures_of(measures, windows)
    columns = [measure.column for measure in shown]
    if sort is not None:
        for top in tops:
            ordered = ([measure.of(window) for measure in shown] for window in sorted_windows(windows, sort))
            yield take("", columns, ordered, len(windows), top, "window", terms)
        return
    series = _Series(windows, figures or {})
    alike = series.alike(shown)
    notes = series.standing_out(alike, growth)
    columns += [_LEVELS, _NOTE]
    drawn = curve if curve is not None and len(curve.steps) == len(windows) else None
    for top in tops:
        chosen = _chosen(len(alike), top, list(notes))
        pictures = iter([""] * len(chosen) if drawn is None else _drawn([alike[k] for k in chosen], drawn))
        made: list[tuple[Value, ...]] = []
        for before, k in pairwise([-1, *chosen, len(alike)]):
            if left := alike.edges[k] - alike.edges[before + 1]:
                made.append((f"… {left:,} more", *[""] * (len(columns) - 1)))
            if k < len(alike):
                name = _name(shown[0].of(windows[alike[k][0]]), shown[0].of(windows[alike[k][-1]]), len(alike[k]))
                figures_of = (series.shown(measure, alike[k]) for measure in shown[1:])
                made.append((name, *figures_of, next(pictures), notes.get(k, "")))
        kept = [k for k, column in enumerate(columns) if column not in (_LEVELS, _NOTE) or any(row[k] for row in made)]
        rows = (tuple(row[k] for k in kept) for row in made)
        yield take("", [columns[k] for k in kept], rows, len(made), len(made), "window", terms)


def _drawn(alike: Sequence[_Alike], curve: Curve) -> list[str]:
    """The levels of each row, all on one scale; nothing where its events share a bucket of the curve with others."""
    first = [event for event, _ in curve.steps]
    ends = [*first[1:], int(curve.edges[-1])]
    from memlens.reports.picture import sparkline

    highest, drawn = int(curve.high_bytes.max(initial=0)), []
    for row in alike:
        low = int(np.searchsorted(curve.edges[:-1], first[row[0]]))
        high = int(np.searchsorted(curve.edges[:-1], ends[row[-1]]))
        drawn.append(sparkline(curve.high_bytes[low:high], _DRAWN, high=highest) if high - low > 1 else "")
    return drawn


class _Stretches(Sequence[_Alike]):
    """Ranges of which each begins where the one before ends: their ``edges``, int64, one more than there are."""

    def __init__(self, edges: NDArray[np.int64]) -> None:
        self.edges = edges

    def __len__(self) -> int:
        return len(self.edges) - 1

    @overload
    def __getitem__(self, index: int) -> _Alike: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Alike]: ...
    def __getitem__(self, index: int | slice) -> _Alike | list[_Alike]:
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        return range(*self.edges[index : index + 2].tolist())


class _Series:
    """The figures of the windows of a series, which may be thousands.

    Args:
        windows: The windows.
        figures: Figures of all of them by name, int64; others are asked of each window.
    """

    def __init__(self, windows: Sequence[WindowAnalysis], figures: Mapping[str, NDArray[Any]]) -> None:
        self._windows, self._figures = windows, dict(figures)

    def _all(self, measure: Measure) -> NDArray[Any]:
        key = measure.column.key
        if key not in self._figures:
            values = [measure.of(window) for window in self._windows]
            whole = all(isinstance(value, int) for value in values)
            self._figures[key] = np.array(values, np.int64 if whole else object)
        return self._figures[key]

    def alike(self, measures: Sequence[Measure]) -> _Stretches:
        """Windows next to each other whose figures look alike; an open one stands for itself, and so does what precedes the series."""
        count = len(self._windows)
        compared = [measure for measure in measures if measure.column.key not in _PLACES]
        if not count or any(measure.analyzer in _COSTLY for measure in compared):
            return _Stretches(np.arange(count + 1))
        begins = np.zeros(count, np.bool_)
        begins[: 1 + (self._windows[0].name == BEFORE)] = True
        begins[-1] |= self._windows[-1].open_end  # only the last one may be open
        for measure in compared:
            values = self._all(measure)
            unlike = np.flatnonzero((values[1:] != values[:-1]) & ~begins[1:]) + 1
            if values.dtype != object:
                # What differs by more than a fiftieth looks unlike in any unit.
                far = 50 * np.abs(values[unlike] - values[unlike - 1]) > np.maximum(*np.abs([values[unlike], values[unlike - 1]]))  # fmt: skip
                begins[unlike[far]] = True
                unlike = unlike[~far]
            begins[unlike[_looks(measure, values[unlike - 1]) != _looks(measure, values[unlike])]] = True
        return _Stretches(np.append(np.flatnonzero(begins), count))

    def shown(self, measure: Measure, alike: _Alike) -> Value:
        """A figure of windows that do the same: the highest of their peaks, the line of the first; nothing where they differ in it."""
        if len(alike) == 1 or measure.column.key == "start_line":
            return measure.of(self._windows[alike[0]])
        values = self._all(measure)[alike.start : alike.stop]
        if measure.column.key == "peak_bytes":
            return int(values.max())
        looks = {format_value(measure.column.kind, _plain(value)) for value in sorted(set(values.tolist()) - {None})[:9]}  # fmt: skip
        return _plain(values[0]) if len(looks) == 1 else ""

    def standing_out(self, alike: _Stretches, growth: Any | None) -> Mapping[int, str]:
        """Which rows stand out, and by what."""
        notes: dict[int, str] = {}
        if len(alike) < 3:
            return notes
        first = int(self._windows[0].name == BEFORE)  # what precedes the series is none of it
        starts = alike.edges[:-1]

        def note(window: int, words: str) -> None:
            row = int(np.searchsorted(starts, window, "right")) - 1
            notes[row] = f"{notes[row]}, {words}" if row in notes else words

        have = {measure.column.key: measure for measure in measures_of(WINDOW_COLUMNS, self._windows)}
        if "peak_bytes" in have:
            note(int(self._all(have["peak_bytes"]).argmax()), "highest peak")
        if "remaining_bytes" in have:
            left = self._all(have["remaining_bytes"])[first:]
            most = first + int(left.argmax())
            row = alike[int(np.searchsorted(starts, most, "right")) - 1]
            others = np.delete(left, np.arange(row.start, row.stop) - first)[
                : -1 if self._windows[-1].open_end and row.stop < len(self._windows) else None
            ]
            # Of windows that do the same none stands out, unless all others leave clearly less.
            usual = int(others.max(initial=0)) * (2 if len(row) > 1 else 1)
            if len(others) and left.max() > usual:
                note(most, "leaves most")
        if growth is not None and growth.since_window is not None:
            note(growth.since_window, "grows from here")
        return notes


def _looks(measure: Measure, values: NDArray[Any]) -> NDArray[Any]:
    """Figures as text, one string an entry; whole numbers that come again are written once."""
    each, place = (values, ...) if values.dtype == object else np.unique(values, return_inverse=True)
    looks = np.empty(len(each), object)
    looks[:] = [format_value(measure.column.kind, value) for value in each.tolist()]
    found: NDArray[Any] = looks[place]
    return found


def _plain(value: Any) -> Value:
    """An entry of an array as what it stands for."""
    return int(value) if isinstance(value, np.integer) else value


def _chosen(count: int, top: int, first: Sequence[int]) -> list[int]:
    """The rows to show, in order: all, or those that stand out, and then the first and last ones in turn."""
    if count <= top:
        return list(range(count))
    ends = (k for pair in zip(range(count), range(count - 1, -1, -1), strict=True) for k in pair)
    return sorted(list(dict.fromkeys([*first, *islice(ends, top)]))[:top])


def _name(first: Value, last: Value, count: int) -> str:
    """The common name of windows that look alike: ``STEP 2–28 ×27``."""
    if count == 1:
        return str(first)
    ours, theirs = (re.split("([0-9]+)", str(name)) for name in (first, last))
    unlike = [k for k, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other]
    if len(ours) == len(theirs) and len(unlike) == 1 and unlike[0] % 2:
        ours[unlike[0]] = f"{ours[unlike[0]]}–{theirs[unlike[0]]}"
        return f"{''.join(ours)} ×{count:,}"
    return f"{first} … {last} ×{count:,}"
