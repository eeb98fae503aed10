"""``memlens.report``: one log, or two runs, as one HTML page.

The tables of the page are made here: the windows of a series, what is held at the end, the trust report, and growth.  All their figures are those of the
analysis.
"""

from __future__ import annotations

from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import asdict

from memlens.analyzers import registry
from memlens.analyzers.composition import Roles
from memlens.analyzing.analyze import analyze_each
from memlens.analyzing.claims import claims_of
from memlens.analyzing.result import Analysis, LogAnalysis
from memlens.claims.claim import Weight, claim
from memlens.drawing.differences import BUCKETS, SideBySide, compared, diff_view, side_by_side
from memlens.drawing.levels import bands, curve_of_page, levels, marks, phases_of, series_of, stretches_of
from memlens.drawing.lifetimes import WindowBlocks, largest_blocks, moments
from memlens.drawing.memory_map import events_of, maps_view, moments_of, other_blocks
from memlens.drawing.page import Owners, pack_json, page
from memlens.drawing.stacks import inked_alike, stacks_view, ways
from memlens.folding import profile
from memlens.inputs import Reading, input_name
from memlens.options import Cut
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Analyze, Report
from memlens.reports.lists import growth_line
from memlens.results import Answered, claimed
from memlens.spool import leave
from memlens.text import file_names, format_count, format_exact, plural, terms_of, visible
from memlens.windows.windows import Window, whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from memlens.analyzers.peak import Peak
    from memlens.analyzers.series.growth import Growth
    from memlens.analyzers.unmatched import Unmatched
    from memlens.columns import Ints
    from memlens.log import Input, Log
    from memlens.trust import Trust

__all__ = ["SCHEMA", "ReportPage", "report", "report_with"]

SCHEMA = "memlens.report/1"


class ReportPage(Answered, frozen=True, eq=False):
    """A report.

    Attributes:
        title: The page's title.
        html: The page: one file that needs no network.
    """

    title: str
    html: str

    def save(self, path: str | Path, force: bool = False) -> None:
        """Write the page to a file, which appears whole or not at all.

        Raises:
            OutputError: The file exists and ``force`` is off, or it cannot be written.
        """
        from memlens.output import open_output

        with open_output(path, force) as out:
            out.write(self.html.encode())

    def _repr_html_(self) -> str:
        from html import escape

        # A page of its own inside of the notebook's: its policy and its style stay in there.
        return f'<iframe srcdoc="{escape(self.html)}" width="100%" height="700" sandbox="allow-scripts"></iframe>'


def report_with(log: Input, options: Report) -> ReportPage:
    """Make a report of a log.

    Args:
        log: A path, a URL, a binary file, or a log already read.
        options: See :class:`memlens.options.verbs.Report`.

    Raises:
        MemlensError: The log cannot be read, or has no such anchor.
    """
    from memlens.reports.html import of

    owners = options.owner_patterns
    reading = Reading(options.patterns, owners=owners, how=options, times=True, threads=True, landmarks=True)
    logs = reading.read_all(log)
    analysis = _analyzed(logs, options)
    found = None if options.base is None else compared(options.base, logs, options)
    paths = [input_name(log), *([] if found is None else [found.base.path])]
    called = file_names(paths)
    title = visible(options.title or " against ".join(called[path] for path in paths))
    beside = None if found is None else side_by_side(found)
    views = [_view(of_log, options, one, beside) for of_log, one in zip(logs, analysis.logs, strict=True)]
    # Of several devices the one first of which the verdict speaks: that ran out of memory, or is the fullest.
    fullest = [-view["figures"]["peak_bytes"] for view in views]
    rank = [(not one.ooms, one.device == "CPU", most) for one, most in zip(analysis.logs, fullest, strict=True)]
    data: dict[str, Any] = {"schema": SCHEMA, "title": title, "logs": views, "shown": rank.index(min(rank))}
    if len(logs) > 1:  # of each device by itself, where the page speaks of all
        inked_alike([view["stacks"] for view in views])
        for view, one in zip(views, analysis.logs, strict=True):
            own = claimed(
                Analysis((one,)), lambda of: [claim("device", Weight.OPENING, of.logs[0]), *of.logs[0].claims]
            ).answer
            view["verdict"] = {"sentences": [*map(visible, own.sentences)], "tone": own.tone}
    shown, words = (analysis, of(analysis)) if found is None else (found, of(found) + of(analysis))
    if found is not None:
        data["diff"] = diff_view(found, beside)
    html = page(title, sentences=shown.answer.sentences, tone=shown.answer.tone, words=words, data=data)
    return ReportPage(title=title, html=html, claims=shown.claims)


report = with_keywords("report", report_with, Report)

#: Groups of what is held at the end whose first blocks have bars, however small they are.
_NAMED_GROUPS = 100


def _analyzed(logs: Sequence[Log], options: Report) -> Analysis:
    """Analyze the logs of one input, which are cut alike."""
    each = analyze_each(logs[0].source.name, logs, Analyze(**options.of(Cut)))
    return claimed(Analysis(tuple(analysis for _, analysis in each)), claims_of)


def _view(log: Log, options: Report, analysis: LogAnalysis, beside: SideBySide | None) -> dict[str, Any]:
    """Return all that the page shows of one log."""
    terms = terms_of(log.facts.has_lines)
    window = whole(log) if options.series else options.windows(log)[0]
    leave()
    owners, blocks = Owners(log), WindowBlocks(window)
    leave()
    if analysis.by is None:
        results = analysis.windows[0].results
    else:  # those of the whole of a log that was cut into a series
        results = {name: registry.get(name).many([window])[0] for name in ("peak", "segments", "unmatched")}
    series = series_of(log, options)
    roles = Roles(log, () if options.series else series)
    leave()
    # Beside another run head is drawn as closely as the two are.
    drawn = curve_of_page(window, None if beside is None else BUCKETS)
    pieces = phases_of(log, series)
    leave()
    level = levels(window, drawn, owners)
    mapped, left_failures = moments_of(window, results["segments"])
    leave()
    bars = largest_blocks(blocks, owners, also=_named(results["unmatched"]))
    leave()
    counted = moments(window, blocks, owners)
    leave()
    named = np.append(blocks.peak, events_of(window, mapped))
    others = other_blocks(blocks, owners, bars["alloc"], named, stretches_of(level), counted["event"])
    state = bool(log.facts.opening) and len(log) == log.facts.opening
    alike = beside.head_in(window) if beside is not None else ()
    grouped = ways(blocks, roles, series, pieces, analysis.growth, alike)
    return {
        "path": visible(analysis.path),
        "command": f"memlens block {quote(visible(analysis.path))}",
        "terms": {"line": terms.line, "lines": terms.lines, "chunk": terms.chunk},
        "lo": window.lo,
        "hi": window.hi,
        "figures": _figures(window, results["peak"]),
        "state": state,
        "levels": level,
        "stacks": stacks_view(blocks, grouped, level, bars["alloc"], others.pop("rows")),
        "marks": marks(window, drawn),
        "bands": bands(window, series, pieces),
        "lifetimes": bars,
        "others": others,
        "moments": counted,
        "maps": maps_view(window, mapped, left_failures),
        "windows": windows_view(series, analysis),
        "held": held_view(results["unmatched"], owners, known=log.facts.addresses, state=state),
        "trust": trust_view(analysis.trust, terms.line),
        "growth": growth_view(analysis.growth, owners),
        # The last keys, when all others have asked for their numbers.
        "owners": owners.texts(),
        "short_owners": owners.short_texts(),
    }


def _named(unmatched: Unmatched) -> Ints:
    """Blocks that another part of the page selects, as their ALLOCs: the first ones of the largest groups of what is held."""
    groups = (*islice(unmatched.held, _NAMED_GROUPS), *islice(unmatched.opening, _NAMED_GROUPS))
    return np.array([group.first_event for group in groups], np.int64)


def _figures(window: Window, peak: Peak) -> dict[str, Any]:
    """The figures that stand on top, exact, and the lines of the peak and of what is reserved at most, ``None`` where there is none."""
    columns = profile([window]).columns
    names = ("peak_bytes", "reserved_peak_bytes", "live_bytes", "allocs", "frees")
    figures: dict[str, Any] = {name: int(columns[name][0]) for name in names}
    moments = {
        "peak_line": peak.line,
        "reserved_at_peak_bytes": peak.reserved_at_peak_bytes,
        "reserved_peak_line": peak.reserved_peak_line,
    }
    return figures | {"knows_reserved": window.log.tells_of_chunks, **moments}


#: Groups of held blocks, and of blocks that pile up, that are shown at most.
_GROUPS, _PILES = 1_000, 100
#: The figures of a window, by their names in the machine output.
_FIGURES = (
    *("peak_bytes", "rise_bytes", "remaining_bytes", "live_bytes", "carried_in_bytes", "reserved_peak_bytes"),
    *("alloc_bytes", "allocs", "free_bytes", "frees"),
)
#: Where it is: events, the last one not included, and its first line.
_PLACES = ("lo", "hi", "start_line")
#: The figures of a group of blocks alike.
_OF_GROUP = str.split("size_bytes count total_bytes first_event first_line first_free_event first_free_line")


def windows_view(windows: Sequence[Window], analysis: LogAnalysis) -> dict[str, Any] | None:
    """Return the page's table of the windows of a series, or of the steps of a run: a column a figure, one entry a window, and their names.

    Args:
        windows: The series that the log was cut into, or the steps that were found in it.
        analysis: The analysis of their log.

    Returns:
        ``None`` where there are none.
    """
    steps, by = analysis.steps, analysis.by if analysis.steps is None else analysis.steps.by
    if by is None:
        return None
    figures = analysis.figures if steps is None else steps.figures
    return {
        "by": by,
        "found": steps is not None,
        "repeated": steps is None or steps.repeated,
        "open_end": windows[-1].open_end,  # only the last one may be open
        "names": pack_json([visible(window.name) for window in windows]),
        **{name: _column(windows, name) for name in _PLACES},
        **{name: np.array(figures[name], np.int64) for name in _FIGURES},
    }


def held_view(found: Unmatched, owners: Owners, *, known: bool, state: bool = False) -> dict[str, Any]:
    """Return the page's table of the blocks that are live at the end and were born in the window, or before the input begins.

    Args:
        found: What is said of them.
        owners: Gives the numbers of their owners.
        known: Whether the log tells which blocks are live.
        state: Whether it is the state at one moment, in which all blocks are from before.

    Returns:
        Totals, and a column a figure with one entry a group, the largest total first; -1 stands for an event or a line that there is not.
    """
    live = (*found.held, *found.opening) if known else ()
    groups = sorted(live, key=lambda group: (-group.total_bytes, group.first_event))
    shown, left = groups[:_GROUPS], groups[_GROUPS:]
    count, total = found.held_allocs + found.opening_blocks, found.held_bytes + found.opening_bytes
    words = f"{format_exact(total)} in {plural(count, 'block')}"
    if found.opening_bytes and not state:
        part = "all" if found.opening_blocks == count else format_exact(found.opening_bytes)
        words += f", {part} of it from before the input"
    if not count or not known:
        words = "Nothing: every block that is allocated here is freed here"
    if not known:
        words = "It cannot be told, for no line says which block it is about"
    return {
        "words": f"{words}.",
        "blocks": count,
        "bytes": total,
        **{name: _column(shown, name) for name in _OF_GROUP},
        "owners": owners.code_texts(group.owner for group in shown),
        "left_groups": len(left),
        "left_bytes": sum(group.total_bytes for group in left),
    }


def _column(rows: Sequence[object], name: str) -> Ints:
    """A figure of some rows, int64; -1 where there is none."""
    values = (getattr(row, name) for row in rows)
    return np.array([-1 if value is None else value for value in values], np.int64)


def trust_view(trust: Trust, line: str = "line") -> dict[str, Any]:
    """Return the page's trust report: its summary, what to doubt, what to know, and how the framework's own figures compare.

    Args:
        trust: The trust report.
        line: What a line is called.
    """
    first, words = trust.first_disagreement, []
    if trust.figures_checked and not (trust.ok and trust.figures_agreeing == trust.figures_checked):
        agreeing, checked = format_count(trust.figures_agreeing), format_count(trust.figures_checked)
        explained = f", {format_count(trust.figures_explained)} differ for a reason that is explained above"
        further = explained if trust.figures_explained else ""
        words.append(f"{agreeing} of {checked} figures that the framework printed agree{further}.")
    if first is not None:
        where = "" if first.line is None else f" at {line} {format_count(first.line)}"
        words.append(
            f"The first that does not is {first.metric.replace('_', ' ')}{where}: {format_exact(first.low_bytes)} there, {format_exact(first.ours_bytes)} by the events."
        )
    return {
        "words": words,
        "ok": trust.ok,
        "summary": trust.summary(),
        "doubts": [asdict(doubt) for doubt in trust.doubts],
        "notes": [asdict(note) for note in trust.notes],
    }


def growth_view(growth: Growth | None, owners: Owners) -> dict[str, Any] | None:
    """Return the page's words and figures on growth over the windows of its table."""
    if growth is None:
        return None
    line = growth_line(growth)
    piles = list(islice(growth.piling, _PILES))
    numbers = owners.code_texts(pile.owner for pile in piles).tolist()
    return {
        "words": line.text,
        "bad": line.style == "bad",
        "verdict": growth.verdict,
        "piling": [{**pile.to_dict(), "owner": number} for pile, number in zip(piles, numbers, strict=True)],
        "piling_left": len(growth.piling) - len(piles),
    }
