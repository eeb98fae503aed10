"""An analysis as people see it, most important first, as blocks that any form can show."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.failures import failure_claim
from memlens.claims.claim import answer_of
from memlens.reports.blocks import (
    ALL_ROWS,
    Block,
    Column,
    Figure,
    Figures,
    Line,
    ListOptions,
    Picture,
    Value,
    answered,
    apart,
    labelled,
)
from memlens.reports.lists import RECORD_NAMES, growth_line, lists_of, piling_table
from memlens.reports.series import growth_word, phases_table, steps_blocks, windows_tables
from memlens.reports.tables import CUT_LOG_COLUMNS, LOG_COLUMNS, Measure, measures_of, sorted_logs
from memlens.reports.terminal import SCREEN, Part, Size, fitted
from memlens.text import (
    NO_BREAK,
    Terms,
    file_names,
    format_bytes,
    format_count,
    format_duration,
    format_moment,
    format_share,
    plural,
    terms_of,
)
from memlens.trust.case import RESERVED_DOUBTS, UNPAIRED_DOUBTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.analyzing.result import Analysis, LogAnalysis, WindowAnalysis
    from memlens.trust import Doubt, Note

#: Rows of a list, and of a table of windows or logs, from the most that is shown to the least.
_LISTS, _TABLES, _ROWS_OF_STEPS = (5, 3, 2, 1), (20, 15, 10, 7, 5, 3, 1), (6, 4, 0)
#: Lines of a picture of three rows, behind an empty one.
_LOWEST_PICTURE = 7
#: Key figures that stay longest, and those that go first.
_LEVELS, _SUMS = ("Peak", "Reserved"), ("Allocated", "Freed")
#: What gives way first where all does not fit one screen: the steps of least weight, in the order of the versions of each part.
#: The picture shrinks, and goes before fewer than three rows are left of what is live at the peak, and of what piles up.
_OF_PICTURE, _OF_PHASES, _OF_HELD, _OF_TABLES = (0, 1, 21), (10, 11, 12, 15), (10, 11, 12, 24), 12
_OF_REMARKS, _OF_FIGURES, _OF_STEPS = (12, 12, 14, 18), (10, 18, 25), (17, 19, 26)
_OF_SAVED, _OF_HINT, _OF_FAILURE = (-4, -3, -2, -1), (27,), (28,)
_OF_LIVE, _OF_PILES, _OF_LIVE_IN_FAILURES = (13, 22, 23, 40), (13, 22, 23, 41), (10, 11, 12, 16)


#: What lists are of, where they are left out.
_NAMES_OF_LISTS = {"composition": "roles", "activations": "saved for backward"}

#: How a log of these layers comes to name who allocates.
_NAMES = f"{RECORD_NAMES}; for operators alone: GLOG_v=4."
_WITH_NAMES = frozenset({"auto_growth", "stream_safe"})


class _ScreenOptions(Struct, frozen=True):
    """The extent of a screen.

    Attributes:
        lists: Rows of lists to try.
        tables: Rows of tables of windows and logs, likewise.
        min_size: The smallest block that is listed.
        detailed: Show all that the analyzers say.
        sort: The column that orders windows or logs.
        group: How live blocks are grouped.
    """

    lists: Sequence[int]
    tables: Sequence[int]
    min_size: int
    detailed: bool
    sort: str | None
    group: str

    def of(self, log: LogAnalysis) -> Iterator[ListOptions]:
        """The extents of the lists of one log, from the most rows to the least."""
        terms = terms_of(log.trust.has_lines)
        return (ListOptions(top, self.min_size, terms, self.group) for top in self.lists)


def analysis_blocks(
    analysis: Analysis,
    size: Size = SCREEN,
    *,
    top: int | None = None,
    sort: str | None = None,
    detailed: bool = False,
    full: bool = False,
    picture: str = "",
    group: str = "owner",
) -> list[Block]:
    """The blocks of an analysis: one screen, or more where that is asked for.

    Args:
        analysis: What to show.
        size: What one screen holds.
        top: Rows of each table; ``None`` for as many as make one screen.
        sort: The column that orders windows or logs; ``None`` for file order.
        detailed: Show all that the analyzers say, in lists of a few rows.
        full: Show everything, all rows too.
        picture: Draw the levels over the run, of one log, where there is room for them (``auto``) or in any case (``always``).
        group: Group live blocks by ``owner``, ``holder`` or ``role``.

    Raises:
        UsageError: ``sort`` names no column, or there is nothing to sort.
    """
    lists: Sequence[int] = _LISTS[:1] if detailed else _LISTS
    tables: Sequence[int] = _TABLES[:1] if detailed else _TABLES
    if full or top is not None:
        lists = tables = (ALL_ROWS if top is None else top,)
    parts = list(
        _parts(
            analysis, _ScreenOptions(lists, tables, analysis.min_size, detailed or full, sort, group), picture=picture
        )
    )
    if picture == "always":  # it takes nothing from the lists
        size = size._replace(rows=size.rows + _LOWEST_PICTURE)
    return [block for part in parts for block in part.versions[0]] if detailed or full else fitted(parts, size)


def _parts(analysis: Analysis, options: _ScreenOptions, *, picture: str) -> Iterator[Part]:
    """All parts of the screen, each but the first behind an empty line."""
    logs = analysis.logs
    yield Part((answered(analysis.answer),))
    if (len(logs) == 1 and not analysis.failures) or any(log.series for log in logs):
        for log in logs:
            if log.ooms:
                from memlens.reports.failures import failure_blocks

                of_lists = next(options.of(log))
                failed = [*failure_blocks(log.ooms, of_lists, full=options.detailed, remedy=log.remedy)]
                fewer = (replace(one, rows=one.rows[:-1]) if isinstance(one, Figures) else one for one in failed)
                yield Part((apart(*failed), apart(*fewer)), _OF_FAILURE)
            if picture and log.curve:
                drawn = Picture(log.curve, terms_of(log.trust.has_lines))
                sizes = [apart(replace(drawn, rows=rows)) for rows in (6, 4, 3)]
                gone = [()] if picture == "auto" else []
                yield Part((*sizes, *gone), _OF_PICTURE, "levels")
            yield from _series(log, options, picture=bool(picture)) if log.series else _one_window(log, options)
            if _is_nameless(log):
                yield Part((apart(Line(_NAMES, "hint")), ()), _OF_HINT)
    elif logs:
        yield from _several_logs(logs, options)
    if analysis.failures:
        failures = (
            (one.message.partition("\n")[0].removeprefix(f"{one.path}: "), one.path) for one in analysis.failures
        )
        yield Part((apart(*(Line(f"not analyzed: {what}", "doubt", path) for what, path in failures)),))


def _is_nameless(log: LogAnalysis) -> bool:
    """Whether somebody will ask who allocates blocks, of a log of Paddle that does not say."""
    # Of failures one, for there may be very many.
    asked: list[Any] = [*([] if log.growth is None else log.growth.piling), *(log.ooms[0].live[:1] if log.ooms else [])]
    return log.trust.layer in _WITH_NAMES and bool(asked) and not any(one.owner for one in asked)


def _one_window(log: LogAnalysis, options: _ScreenOptions) -> Iterator[Part]:
    window, terms = log.windows[0], terms_of(log.trust.has_lines)
    yield _head(log, _heading(log, window, terms), options)
    figures = tuple(_key_figures(window, terms, chunks_known=not RESERVED_DOUBTS & log.trust.doubt_codes))
    if "no_tensor_events" in log.trust.doubt_codes:  # nothing is known of blocks, which is no 0 B
        figures = (
            Figure("Allocated", "not known", "no line tells of blocks"),
            *(one for one in figures if one.label == "Reserved"),
        )
    if figures:
        few = tuple(figure for figure in figures if figure.label not in _SUMS)
        levels = tuple(figure for figure in figures if figure.label in _LEVELS)
        versions = (*(apart(Figures(rows)) for rows in (figures, few, levels)), ())
        yield Part(versions, _OF_FIGURES, "figures")
    yield from _steps(log, options)
    # Whether lines say which block they are about, so that the blocks that are live are known.
    paired = not UNPAIRED_DOUBTS & log.trust.doubt_codes
    for name, result in window.results.items():
        lists = []
        for of_lists in options.of(log):
            blocks: list[Block] = []
            for block in lists_of(name, result, window, of_lists, full=options.detailed, paired=paired):
                # Figures stand right below their heading.
                blocks += [block] if isinstance(block, Figures) else [None, block]
            lists.append(blocks)
        if not lists[0]:
            continue
        if name == "unmatched":
            yield Part((*lists, ()), _OF_HELD, "held at the end")
        else:  # the report of a failure has what matters then
            weights = _OF_SAVED if name == "activations" else _OF_LIVE_IN_FAILURES if log.ooms else _OF_LIVE
            yield Part((*lists, ()), weights, _NAMES_OF_LISTS.get(name, "live at the peak"))


def _steps(log: LogAnalysis, options: _ScreenOptions) -> Iterator[Part]:
    """The steps that were found by themselves, what piles up in them, and their phases."""
    if log.steps is None:
        return
    terms = terms_of(log.trust.has_lines)
    rows = (ALL_ROWS,) if options.detailed else _ROWS_OF_STEPS
    versions = (apart(*steps_blocks(log, most, terms)) for most in rows)
    yield Part((*versions, ()), _OF_STEPS, "steps")
    if options.detailed and log.growth is not None:
        yield Part((apart(growth_line(log.growth)),))
    yield from _over_windows(log, options)


def _over_windows(log: LogAnalysis, options: _ScreenOptions) -> Iterator[Part]:
    """What piles up over windows, and their phases."""
    if log.growth is not None and log.growth.piling:
        piling = (apart(piling_table(log.growth, of_lists)) for of_lists in options.of(log))
        yield Part((*piling, ()), _OF_PILES, "what piles up")
    if log.phases is not None and log.phases.phases:
        tables = (
            apart(phases_table(log.phases, of_lists.top, of_lists.terms, full=options.detailed))
            for of_lists in options.of(log)
        )
        yield Part((*tables, ()), _OF_PHASES, "phases")


def _head(log: LogAnalysis, heading: Line, options: _ScreenOptions) -> Part:
    """The name of each log and its trust report, with fewer and fewer doubts and notes."""
    return Part(tuple(apart(heading, *_trust(log, top)) for top in (*options.lists, 0)), _OF_REMARKS)


def _heading(log: LogAnalysis, window: WindowAnalysis, terms: Terms) -> Line:
    lasted = None if window.duration_us is None else f"{format_duration(window.duration_us)} long"
    if window.whole:
        return Line(lasted or "", "quiet", log.path)
    lines = f"{terms.at(window.start_line)} to {format_count(window.end_line)}, {plural(window.events, 'event')}"
    return Line(", ".join([lines, lasted] if lasted else [lines]), "quiet", f"{log.path}: {window.name}")


def _key_figures(window: WindowAnalysis, terms: Terms, *, chunks_known: bool) -> Iterator[Figure]:
    results = window.results
    stats = results.get("stats")
    if (peak := results.get("peak")) is not None:
        yield Figure("Peak", format_bytes(peak.peak_bytes), "allocated" + _where(peak, window, terms))
        unknown = peak.reserved_peak_bytes is None or not chunks_known
        shown = "not known" if unknown else format_bytes(peak.reserved_peak_bytes)
        at = peak.reserved_peak_line
        where = "" if at is None else f", at {terms.at(at).replace(' ', NO_BREAK)}"
        yield Figure("Reserved", shown, "" if unknown else f"at most{where}{_chunks(stats, terms)}")
        if not unknown and (segments := results.get("segments")) is not None and segments.moments:
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
    """Bytes that are free inside chunks at the peak, and of how much where less is reserved there than in the line above."""
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


def _series(log: LogAnalysis, options: _ScreenOptions, *, picture: bool) -> Iterator[Part]:
    windows = log.windows
    events = int(log.figures["events"].sum()) if "events" in log.figures else sum(window.events for window in windows)
    heading = Line(f"{plural(len(windows), 'window')} by {log.by}, {plural(events, 'event')}", "quiet", log.path)
    yield _head(log, heading, options)
    curve, terms = (log.curve if picture else None), terms_of(log.trust.has_lines)
    tables = windows_tables(windows, log.growth, options.tables, options.sort, terms, curve=curve, figures=log.figures)
    yield Part(tuple(map(apart, tables)), _OF_TABLES)
    if log.growth is not None:
        yield Part((apart(growth_line(log.growth)),))
    yield from _over_windows(log, options)


def _several_logs(logs: Sequence[LogAnalysis], options: _ScreenOptions) -> Iterator[Part]:
    short = file_names([log.path for log in logs])
    if failed := [Line(str(answer_of([failure_claim(log.ooms)])), "bad", short[log.path]) for log in logs if log.ooms]:
        yield Part((apart(*labelled("Out of memory", failed, "more log")),))
    ordered = sorted_logs(logs, options.sort)
    columns_of = LOG_COLUMNS if all(log.windows[0].whole for log in logs) else CUT_LOG_COLUMNS
    measures = measures_of(columns_of, [log.windows[0] for log in ordered])
    columns = [Column("path", "Log", "name"), *(measure.column for measure in measures[1:])]
    if any(log.growth is not None for log in logs):
        columns.append(Column("growth", "Growth", "word", drop=2))
    columns.append(Column("doubts", "Doubts", "count", drop=3))
    made: dict[str, Any] = {one.column.key: partial(_known, one) for one in measures[1:]}
    made |= {"path": lambda log: short[log.path], "growth": lambda log: growth_word(log.growth)}
    made["doubts"] = lambda log: len(log.trust.doubts)
    tables = (ListOptions(rows).table("", columns, ordered, "log", **made) for rows in options.tables)
    yield Part(tuple(map(apart, tables)), _OF_TABLES)
    remarkable = [log for log in ordered if not log.trust.ok or log.trust.doubts or log.notes]
    if options.detailed:
        for log in remarkable:
            yield Part((apart(Line("", name=log.path), *_trust(log, options.lists[0])),))
    elif remarkable:
        lines = [Line(_in_short(log), "plain" if log.trust.ok else "doubt", short[log.path]) for log in remarkable]
        yield Part((apart(*labelled("Trust", lines, "more log", note=" (--full)")),))


def _known(measure: Measure, log: LogAnalysis) -> Value:
    """A figure of one of several logs; of blocks, or of chunks, that no line tells of it is not known."""
    without = measure.analyzer and measure.sort != "reserved-peak" and "no_tensor_events" in log.trust.doubt_codes
    value = None if without else measure.of(log.windows[0])
    return "not known" if value is None else value


def _in_short(log: LogAnalysis) -> str:
    """Doubts and notes of one of several logs, by the names of it."""
    if not log.trust.ok:
        return log.trust.summary().partition(";")[0]
    return (*(doubt.message for doubt in log.trust.doubts), *log.notes)[0]


def _trust(log: LogAnalysis, most: int) -> Iterator[Line]:
    """The trust report of a log, most important first; ``most`` doubts and notes at most."""
    trust = log.trust
    yield Line(trust.summary(), "good" if trust.ok else "doubt", label="Trust")
    # What ran out is reported above.
    notes = [note for note in trust.notes if note.code != "out_of_memory"]
    kinds: Sequence[tuple[str, Sequence[Doubt | Note]]] = (("doubt", trust.doubts), ("note", notes))
    for kind, remarks in kinds:
        for number, remark in enumerate(remarks[:most]):
            label = kind.capitalize() if number == 0 else " "
            yield Line(remark.message, "doubt" if kind == "doubt" else "plain", label=label)
            if remark.hint:
                yield Line(remark.hint, "hint", label=" ")
        if (left := len(remarks) - most) > 0:
            words = f"… and {plural(left, f'more {kind}')}" if most else f"… {plural(left, kind)}"
            yield Line(f"{words} (--full)", "hint", label=" ")
    for note in log.warnings:
        yield Line(note, "doubt", label="Windows")
    for number, text in enumerate(log.remarks):
        yield Line(text, label=" " if number or notes else "Note")
