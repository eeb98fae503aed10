"""What an analysis shows to people, most important first, as blocks that any form can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from memlens.reports.blocks import Block, Column, Figure, Figures, Line, take
from memlens.reports.lists import Asked, growth_blocks, lists_of
from memlens.reports.place_words import format_place, in_words_of, many_chunks, plural_chunks
from memlens.reports.tables import (
    CUT_LOG_COLUMNS,
    LOG_COLUMNS,
    WINDOW_COLUMNS,
    measures_of,
    sorted_logs,
    sorted_windows,
)
from memlens.reports.text import NO_BREAK, format_count, format_duration, format_moment, format_share, plural
from memlens.reports.trust_lines import trust_lines
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.analyzing.analyze import Analysis, Failure, LogAnalysis, WindowAnalysis

__all__ = ["analysis_blocks"]

#: Rows of each list where ``--top`` says nothing: the screen of one window fits 30 lines, and so does a series.
_TOP_OF_LISTS = 5
_TOP_OF_SERIES = 20
#: Logs that ran out of memory, of several, that are named.
_MOST_FAILED = 6


def analysis_blocks(
    analysis: Analysis, *, top: int | None = None, sort: str | None = None, full: bool = False
) -> list[Block]:
    """Everything an analysis shows.

    Args:
        analysis: What to show.
        top: Rows of each table; ``None`` for as many as make one screen.
        sort: The column that orders windows or logs; ``None`` for file order.
        full: Show all that the results hold, also what the first screen leaves out.

    Raises:
        UsageError: ``sort`` names no column, or there is nothing to sort.
    """
    logs = analysis.logs
    parts: list[list[Block]] = []
    if len(logs) > 1 and (failed := list(_out_of_memory(logs))):
        parts.append(failed)
    if (len(logs) == 1 and not analysis.failures) or any(log.series for log in logs):
        for log in logs:
            with in_words_of(log.trust.layer):
                parts.append(list(_series(log, top, sort) if log.series else _one_window(analysis, log, top, full)))
    elif logs:
        parts.append(list(_several_logs(logs, top, sort)))
    if analysis.failures:
        parts.append(list(_failures(analysis.failures)))
    return [block for number, part in enumerate(parts) for block in ((None, *part) if number else part)]


def _out_of_memory(logs: Sequence[LogAnalysis]) -> Iterator[Block]:
    """Which of several logs or devices ran out of memory: said before any of them is shown."""
    failed = [(log, note) for log in logs for note in log.trust.notes if note.code == "out_of_memory"]
    for place, (log, note) in enumerate(failed[:_MOST_FAILED]):
        yield Line(note.message, "doubt", log.path, label=" " if place else "Out of memory")
    if (left := len(failed) - _MOST_FAILED) > 0:
        yield Line(f"… and {plural(left, 'more log')}", "hint", label=" ")


def _one_window(analysis: Analysis, log: LogAnalysis, top: int | None, full: bool) -> Iterator[Block]:
    window = log.windows[0]
    rows = _TOP_OF_LISTS if top is None else top
    yield _heading(log, window)
    yield from trust_lines(log)
    paired = not {"no_lifetimes", "no_tensor_events"} & {doubt.code for doubt in log.trust.doubts}
    results = window.results
    if figures := tuple(_key_figures(window)):
        yield None
        yield Figures(figures)
    for name, result in results.items():
        for block in lists_of(name, result, Asked(rows, analysis.min_size, full, window, paired)):
            if not isinstance(block, Figures):  # they stand right below their heading
                yield None
            yield block


def _heading(log: LogAnalysis, window: WindowAnalysis) -> Line:
    lasted = None if window.duration_us is None else f"{format_duration(window.duration_us)} long"
    if window.whole:
        return Line(lasted or "", "quiet", log.path)
    place = f"{format_place(window.start_line)} to {format_count(window.end_line)}, {plural(window.events, 'event')}"
    return Line(", ".join([place, lasted] if lasted else [place]), "quiet", f"{log.path}: {window.name}")


def _key_figures(window: WindowAnalysis) -> Iterator[Figure]:
    results = window.results
    stats = results.get("stats")
    if (peak := results.get("peak")) is not None:
        yield Figure("Peak", format_bytes(peak.peak_bytes), "allocated" + _place(peak, window))
        yield Figure("", format_bytes(peak.reserved_peak_bytes), "reserved" + ("" if stats is None else _chunks(stats)))
        if (segments := results.get("segments")) is not None and segments.moments:
            yield from _free_inside(segments.moments[0], peak.reserved_peak_bytes)
        if peak.carried_in_bytes:
            carried = format_bytes(peak.carried_in_bytes)
            yield Figure("Rise", format_bytes(peak.rise_bytes), f"above the {carried} carried in")
    if (remaining := results.get("remaining")) is not None:
        yield Figure("Remaining", format_bytes(remaining.remaining_bytes), "allocated less freed")
        if remaining.carried_in_bytes:
            yield Figure("Live", format_bytes(remaining.live_bytes), "at the end, with what was carried in")
    if stats is not None:
        yield Figure("Allocated", format_bytes(stats.alloc_bytes), _allocs(stats))
        largest = f", largest {format_bytes(stats.largest_free_bytes)}" if stats.frees else ""
        yield Figure("Freed", format_bytes(stats.free_bytes), plural(stats.frees, "free") + largest)


def _free_inside(moment: Any, reserved_peak_bytes: int) -> Iterator[Figure]:
    """What is free inside chunks at the peak, and of how much where less is reserved there than in the line above."""
    if moment.free_bytes is not None:
        words = f"free inside {many_chunks()} at the peak"
        if moment.reserved_bytes < reserved_peak_bytes:
            words += f", of {format_bytes(moment.reserved_bytes)} reserved there"
        if moment.gaps:
            words += f", {plural(moment.gaps, 'gap')}, largest {format_bytes(moment.largest_gap_bytes)}"
        yield Figure("", format_bytes(moment.free_bytes), words)


def _place(peak: Any, window: WindowAnalysis) -> str:
    """Where the peak is; the parts of a time stamp are kept together by no-break spaces."""
    if peak.at_start:
        return ", at or before the first recorded event" if window.starts_input else ", at its start"
    parts, time_us = [], window.peak_time_us
    if peak.line is not None:
        parts.append(format_place(peak.line))
    if peak.event is not None:
        parts.append(f"event {format_count(peak.event)}")
    if time_us is not None:
        parts.append(format_moment(time_us))
    return " at " + ", ".join(part.replace(" ", NO_BREAK) for part in parts) if parts else ""


def _chunks(stats: Any) -> str:
    taken = [f"{plural_chunks(stats.reserves)} taken"] if stats.reserves else []
    back = [f"{format_count(stats.releases)} given back"] if stats.releases else []
    return "".join(f", {part}" for part in (*taken, *back))


def _allocs(stats: Any) -> str:
    text = plural(stats.allocs, "alloc")
    if stats.allocs:
        text += f", largest {format_bytes(stats.largest_alloc_bytes)}"
    if stats.requested_bytes is not None and stats.aligned_bytes:
        lost = stats.aligned_bytes - stats.requested_bytes
        text += f", {format_share(lost, stats.aligned_bytes) or '0%'} padding"
    return text


def _series(log: LogAnalysis, top: int | None, sort: str | None) -> Iterator[Block]:
    windows = log.windows
    events = sum(window.events for window in windows)
    yield Line(f"{plural(len(windows), 'window')} by {log.by}, {plural(events, 'event')}", "quiet", log.path)
    yield from trust_lines(log)
    yield None
    measures = measures_of(WINDOW_COLUMNS, windows)
    ordered = sorted_windows(windows, sort)
    rows = ([measure.of(window) for measure in measures] for window in ordered)
    columns = [measure.column for measure in measures]
    yield take("", columns, rows, len(windows), _TOP_OF_SERIES if top is None else top, "window")
    if log.growth is not None:
        yield None
        yield from growth_blocks(log.growth, _TOP_OF_LISTS if top is None else top)


def _several_logs(logs: Sequence[LogAnalysis], top: int | None, sort: str | None) -> Iterator[Block]:
    ordered = sorted_logs(logs, sort)
    columns_of = LOG_COLUMNS if all(log.windows[0].whole for log in logs) else CUT_LOG_COLUMNS
    measures = measures_of(columns_of, [log.windows[0] for log in ordered])
    columns = [Column("path", "Log", "name"), *(measure.column for measure in measures[1:])]
    columns.append(Column("doubts", "Doubts", "count", drop=3))
    short = _short_names([log.path for log in ordered])
    rows = (
        [short[log.path], *(measure.of(log.windows[0]) for measure in measures[1:]), len(log.trust.doubts)]
        for log in ordered
    )
    yield take("", columns, rows, len(logs), len(logs) if top is None else top, "log")
    for log in ordered:
        if not log.trust.ok or log.trust.doubts or log.notes or log.remarks:
            yield None
            yield Line("", name=log.path)
            yield from trust_lines(log)


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """File names where they tell the logs apart, else whole paths."""
    names = {path: PurePath(path).name for path in paths}
    return names if len(set(names.values())) == len(names) else {path: path for path in paths}


def _failures(failures: Sequence[Failure]) -> Iterator[Line]:
    for failure in failures:
        what = failure.message.partition("\n")[0].removeprefix(f"{failure.path}: ")
        yield Line(f"not analyzed: {what}", "doubt", failure.path)
