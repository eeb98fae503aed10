"""What an analysis shows to people, most important first, as blocks that any form can show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from memlens.analyzers.failures import failure_sentence
from memlens.reports.blocks import Asked, Block, Column, Figure, Figures, Line, Picture, answered, apart, labelled, take
from memlens.reports.failures import failure_blocks
from memlens.reports.lists import growth_blocks, lists_of
from memlens.reports.tables import (
    CUT_LOG_COLUMNS,
    LOG_COLUMNS,
    WINDOW_COLUMNS,
    measures_of,
    sorted_logs,
    sorted_windows,
)
from memlens.reports.terminal import fits
from memlens.text import (
    MOST_NAMES,
    NO_BREAK,
    Terms,
    file_names,
    format_count,
    format_duration,
    format_moment,
    format_share,
    plural,
    terms_of,
)
from memlens.units import format_bytes

if TYPE_CHECKING:
    from memlens.analyzing.result import Analysis, Failure, LogAnalysis, WindowAnalysis
    from memlens.trust import Doubt, Note

__all__ = ["analysis_blocks"]

#: Rows of tables that are tried, the most first, until all is one screen; lists have five of them at most.
_ROWS = (20, 15, 10, 7, 5, 4, 3, 2, 1)
_TOP_OF_LISTS = 5
_ALL = 1 << 40


def analysis_blocks(
    analysis: Analysis,
    *,
    top: int | None = None,
    sort: str | None = None,
    detailed: bool = False,
    full: bool = False,
    picture: bool = False,
) -> list[Block]:
    """What an analysis shows: one screen, or more where that is asked for.

    Args:
        analysis: What to show.
        top: Rows of each table; ``None`` for as many as make one screen.
        sort: The column that orders windows or logs; ``None`` for file order.
        detailed: Show all that the analyzers say, in lists of a few rows.
        full: Show everything, all rows too.
        picture: Draw the levels over the run, of one log.

    Raises:
        UsageError: ``sort`` names no column, or there is nothing to sort.
    """
    if full:
        return _screen(analysis, _ALL, _ALL, sort, detailed=True, picture=picture)
    if top is not None or detailed:
        return _screen(
            analysis,
            *(_ROWS[0], _TOP_OF_LISTS) if top is None else (top, top),
            sort,
            detailed=detailed,
            picture=picture,
        )
    for rows in _ROWS:
        blocks = _screen(analysis, rows, min(rows, _TOP_OF_LISTS), sort, detailed=False, picture=picture)
        if fits(blocks):
            break
    return blocks


def _screen(analysis: Analysis, rows: int, top: int, sort: str | None, *, detailed: bool, picture: bool) -> list[Block]:
    """All parts of the screen: tables of windows and logs with as many ``rows``, lists with ``top``."""
    logs = analysis.logs
    parts: list[list[Block]] = [list(answered(analysis.answer))]
    if len(logs) > 1 and (failed := list(_out_of_memory(logs))):
        parts.append(failed)
    if (len(logs) == 1 and not analysis.failures) or any(log.series for log in logs):
        for log in logs:
            asked = Asked(top, analysis.min_size, terms_of(log.trust.layer))
            parts.append(list(_series(log, asked, rows, sort) if log.series else _one_window(log, asked, detailed)))
            if log.ooms and len(logs) == 1:
                parts.insert(1, list(failure_blocks(log.ooms, asked, full=detailed)))
            if picture and log.curve:
                parts.insert(1, [Picture(log.curve, asked.terms)])
    elif logs:
        parts.append(list(_several_logs(logs, rows, sort, detailed=detailed)))
    if analysis.failures:
        parts.append(list(_failures(analysis.failures)))
    return [block for number, part in enumerate(parts) for block in ((None, *part) if number else part)]


def _out_of_memory(logs: Sequence[LogAnalysis]) -> Iterator[Block]:
    """Which of several logs or devices ran out of memory: said before any of them is shown."""
    failed = [(log, failure_sentence(log.ooms, terms_of(log.trust.layer))) for log in logs if log.ooms]
    lines = [Line(words, "bad", log.path) for log, words in failed]
    yield from labelled("Out of memory", lines, "more log")


def _one_window(log: LogAnalysis, asked: Asked, detailed: bool) -> Iterator[Block]:
    window = log.windows[0]
    yield _heading(log, window, asked.terms)
    yield from _trust(log, asked.top)
    # Whether lines say which block they are about, so that the blocks that are live are known.
    paired = not {"no_lifetimes", "no_tensor_events"} & {doubt.code for doubt in log.trust.doubts}
    if figures := tuple(_key_figures(window, asked.terms)):
        yield from apart(Figures(figures))
    for name, result in window.results.items():
        for block in lists_of(name, result, window, asked, full=detailed, paired=paired):
            if not isinstance(block, Figures):  # they stand right below their heading
                yield None
            yield block


def _heading(log: LogAnalysis, window: WindowAnalysis, terms: Terms) -> Line:
    lasted = None if window.duration_us is None else f"{format_duration(window.duration_us)} long"
    if window.whole:
        return Line(lasted or "", "quiet", log.path)
    lines = f"{terms.at(window.start_line)} to {format_count(window.end_line)}, {plural(window.events, 'event')}"
    return Line(", ".join([lines, lasted] if lasted else [lines]), "quiet", f"{log.path}: {window.name}")


def _key_figures(window: WindowAnalysis, terms: Terms) -> Iterator[Figure]:
    results = window.results
    stats = results.get("stats")
    if (peak := results.get("peak")) is not None:
        yield Figure("Peak", format_bytes(peak.peak_bytes), "allocated" + _where(peak, window, terms))
        yield Figure("", format_bytes(peak.reserved_peak_bytes), "reserved" + _chunks(stats, terms))
        if (segments := results.get("segments")) is not None and segments.moments:
            yield from _free_inside(segments.moments[0], peak.reserved_peak_bytes, terms)
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


def _free_inside(moment: Any, reserved_peak_bytes: int, terms: Terms) -> Iterator[Figure]:
    """What is free inside chunks at the peak, and of how much where less is reserved there than in the line above."""
    if moment.free_bytes is not None:
        words = f"free inside {terms.chunk}s at the peak"
        if moment.reserved_bytes < reserved_peak_bytes:
            words += f", of {format_bytes(moment.reserved_bytes)} reserved there"
        if moment.gaps:
            words += f", {plural(moment.gaps, 'gap')}, largest {format_bytes(moment.largest_gap_bytes)}"
        yield Figure("", format_bytes(moment.free_bytes), words)


def _where(peak: Any, window: WindowAnalysis, terms: Terms) -> str:
    """Where the peak is; the parts of a time stamp are kept together by no-break spaces."""
    if peak.at_start:
        return ", at or before the first recorded event" if window.starts_input else ", at its start"
    parts = [] if peak.line is None else [terms.at(peak.line)]
    parts += [] if peak.event is None else [f"event {format_count(peak.event)}"]
    parts += [] if window.peak_time_us is None else [format_moment(window.peak_time_us)]
    return " at " + ", ".join(part.replace(" ", NO_BREAK) for part in parts) if parts else ""


def _chunks(stats: Any | None, terms: Terms) -> str:
    taken = f", {plural(stats.reserves, terms.chunk)} taken" if stats is not None and stats.reserves else ""
    return taken + (f", {format_count(stats.releases)} given back" if stats is not None and stats.releases else "")


def _allocs(stats: Any) -> str:
    text = plural(stats.allocs, "alloc")
    if stats.allocs:
        text += f", largest {format_bytes(stats.largest_alloc_bytes)}"
    if stats.requested_bytes is not None and stats.aligned_bytes:
        lost = stats.aligned_bytes - stats.requested_bytes
        text += f", {format_share(lost, stats.aligned_bytes) or '0%'} padding"
    return text


def _series(log: LogAnalysis, asked: Asked, rows: int, sort: str | None) -> Iterator[Block]:
    windows = log.windows
    events = sum(window.events for window in windows)
    yield Line(f"{plural(len(windows), 'window')} by {log.by}, {plural(events, 'event')}", "quiet", log.path)
    yield from _trust(log, asked.top)
    yield None
    measures = measures_of(WINDOW_COLUMNS, windows)
    values = ([measure.of(window) for measure in measures] for window in sorted_windows(windows, sort))
    columns = [measure.column for measure in measures]
    yield take("", columns, values, len(windows), rows, "window", asked.terms)
    if log.growth is not None:
        yield from apart(*growth_blocks(log.growth, asked))


def _several_logs(logs: Sequence[LogAnalysis], most: int, sort: str | None, *, detailed: bool) -> Iterator[Block]:
    ordered = sorted_logs(logs, sort)
    columns_of = LOG_COLUMNS if all(log.windows[0].whole for log in logs) else CUT_LOG_COLUMNS
    measures = measures_of(columns_of, [log.windows[0] for log in ordered])
    columns = [Column("path", "Log", "name"), *(measure.column for measure in measures[1:])]
    columns.append(Column("doubts", "Doubts", "count", drop=3))
    short = file_names([log.path for log in ordered])
    rows = (
        [short[log.path], *(measure.of(log.windows[0]) for measure in measures[1:]), len(log.trust.doubts)]
        for log in ordered
    )
    yield take("", columns, rows, len(logs), most, "log")
    remarkable = [log for log in ordered if not log.trust.ok or log.trust.doubts or log.notes or log.remarks]
    if detailed:
        for log in remarkable:
            yield from apart(Line("", name=log.path))
            yield from _trust(log, most)
    elif remarkable:
        lines = [Line(_in_short(log), "plain" if log.trust.ok else "doubt", short[log.path]) for log in remarkable]
        yield from apart(*labelled("Trust", lines, "more log", note=" (--full has all)"))


def _in_short(log: LogAnalysis) -> str:
    """What is to be doubted or known of one of several logs, by the names of it."""
    if not log.trust.ok:
        return log.trust.summary().partition(";")[0]
    return (*(doubt.message for doubt in log.trust.doubts), *log.notes, *log.remarks)[0]


def _failures(failures: Sequence[Failure]) -> Iterator[Line]:
    for failure in failures:
        what = failure.message.partition("\n")[0].removeprefix(f"{failure.path}: ")
        yield Line(f"not analyzed: {what}", "doubt", failure.path)


def _trust(log: LogAnalysis, top: int) -> Iterator[Line]:
    """The trust report of a log, most important first; ``top`` doubts and notes at most."""
    most = min(max(top, 1), MOST_NAMES)
    trust = log.trust
    yield Line(trust.summary(), "good" if trust.ok else "doubt", label="Trust")
    notes = [note for note in trust.notes if note.code != "out_of_memory" or not log.ooms]  # which stands above
    kinds: Sequence[tuple[str, Sequence[Doubt | Note]]] = (("doubt", trust.doubts), ("note", notes))
    for kind, remarks in kinds:
        for number, remark in enumerate(remarks[:most]):
            label = kind.capitalize() if number == 0 else " "
            yield Line(remark.message, "doubt" if kind == "doubt" else "plain", label=label)
            if remark.hint:
                yield Line(remark.hint, "hint", label=" ")
        if (left := len(remarks) - most) > 0:
            yield Line(f"… and {plural(left, f'more {kind}')} (--full has all)", "hint", label=" ")
    for note in log.notes:
        yield Line(note, "doubt", label="Windows")
    for number, text in enumerate(log.remarks):
        yield Line(text, label=" " if number or notes else "Note")
