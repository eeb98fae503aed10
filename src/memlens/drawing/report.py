"""``memlens.report``: one log, or two runs, as one HTML page."""

from __future__ import annotations

from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import asdict, replace

from memlens.analyzers import registry
from memlens.analyzing.analyze import analyze_with
from memlens.analyzing.result import Analysis
from memlens.analyzing.verdict import answer_of
from memlens.drawing.differences import compared, diff_view
from memlens.drawing.levels import bands, levels, marks, series_of
from memlens.drawing.lifetimes import WindowBlocks, largest_blocks
from memlens.drawing.memory_map import memory_maps
from memlens.drawing.moments import moments
from memlens.drawing.packing import Owners
from memlens.drawing.page import page
from memlens.drawing.tables import flame_view, growth_view, held_view, trust_view, windows_view
from memlens.folding.levels import profile
from memlens.inputs import Reading, input_name, named_devices
from memlens.options import Analyze, Cut, Report, as_list
from memlens.options.keywords import with_keywords
from memlens.results import Answered, answered
from memlens.text import terms_of, visible
from memlens.windows.windows import as_patterns, whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from memlens.analyzers.unmatched import Unmatched
    from memlens.analyzing.result import LogAnalysis
    from memlens.drawing.memory_map import MemoryMaps
    from memlens.log import Input, Log
    from memlens.windows.windows import Window

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
        options: See :class:`memlens.options.Report`.

    Raises:
        MemlensError: The log cannot be read, or has no such anchor.
    """
    from memlens.reports.html import of

    marks = as_patterns(as_list(options.owners), regex=True)
    reading = Reading(options.patterns, owners=marks, how=options, times=True, threads=True, landmarks=True)
    logs = reading.read_all(log)
    analysis = _analyzed(logs, options)
    found = None if options.base is None else compared(options.base, logs, options)
    title = options.title or (input_name(log) if found is None else f"{input_name(log)} against {found.base.path}")
    title = visible(title)
    views = [_view(of_log, options, one) for of_log, one in zip(logs, analysis.logs, strict=True)]
    # Of several devices the one first of which the verdict speaks: that ran out of memory, or is the fullest.
    fullest = [-view["figures"]["peak_bytes"] for view in views]
    rank = [(not one.ooms, one.device == "CPU", most) for one, most in zip(analysis.logs, fullest, strict=True)]
    data: dict[str, Any] = {"schema": SCHEMA, "title": title, "logs": views, "shown": rank.index(min(rank))}
    answer, words = analysis.answer, of(analysis)
    if found is not None:
        data["diff"] = diff_view(found)
        answer, words = found.answer, of(found) + words
    html = page(title, sentences=answer.sentences, tone=answer.tone, words=words, data=data)
    return ReportPage(title=title, html=html, answer=answer)


report = with_keywords("report", report_with, Report)

#: Groups of what is held at the end whose first blocks have bars, however small they are, and blocks of each memory map.
_NAMED_GROUPS, _NAMED_BLOCKS = 100, 500


def _analyzed(logs: Sequence[Log], options: Report) -> Analysis:
    """Analyze the logs of one input, which are cut alike."""
    how, analyses = Analyze(**options.of(Cut)), []
    for log, path, device in named_devices(logs[0].source.name, logs):
        (one,) = analyze_with(log, how).logs
        analyses.append(replace(one, path=path, device=device))
    return answered(Analysis(tuple(analyses)), answer_of)


def _view(log: Log, options: Report, analysis: LogAnalysis) -> dict[str, Any]:
    """Return all that the page shows of one log."""
    terms = terms_of(log.facts.has_lines)
    window = whole(log) if options.series else options.windows(log)[0]
    owners, blocks = Owners(log), WindowBlocks(window)
    if analysis.by is None:
        results = analysis.windows[0].results
    else:  # those of the whole of a log that was cut into a series
        results = {name: registry.get(name).many([window])[0] for name in ("peak", "segments", "unmatched")}
    series = series_of(log, options)
    drawn, maps = levels(window, owners), memory_maps(log, results["segments"])
    return {
        "path": visible(analysis.path),
        "command": f"memlens block {quote(visible(analysis.path))}",
        "terms": {"line": terms.line, "lines": terms.lines, "chunk": terms.chunk},
        "lo": window.lo,
        "hi": window.hi,
        "figures": _figures(window),
        "levels": drawn.to_dict(),
        "marks": [asdict(mark) for mark in marks(window, drawn.curve)],
        "bands": bands(window, series).to_rows(),
        "lifetimes": largest_blocks(blocks, owners, also=_named(results["unmatched"], maps)).to_dict(),
        "moments": moments(window, blocks, owners).to_dict(),
        "maps": maps.to_dict(owners),
        "flame": flame_view(results["peak"], owners, terms.line),
        "windows": windows_view(series, analysis),
        "held": held_view(results["unmatched"], owners, known=log.facts.addresses),
        "trust": trust_view(analysis.trust, terms.line),
        "growth": growth_view(analysis.growth, owners),
        # The last key, when all others have asked for their numbers.
        "owners": owners.to_dict(),
    }


def _named(unmatched: Unmatched, maps: MemoryMaps) -> NDArray[np.int64]:
    """Blocks that other parts of the page select, as their ALLOCs: the first ones of the largest groups of what is held, and the largest of the maps."""
    groups = (*islice(unmatched.held, _NAMED_GROUPS), *islice(unmatched.opening, _NAMED_GROUPS))
    named = [np.array([group.first_event for group in groups], np.int64)]
    for pieces in (one.pieces for one in maps.maps if one.pieces is not None):
        largest = np.argsort(-pieces.size, kind="stable")
        named.append(pieces.event[largest[pieces.event[largest] >= 0]][:_NAMED_BLOCKS])
    return np.concatenate(named)


def _figures(window: Window) -> dict[str, Any]:
    """The figures that stand on top, exact."""
    columns = profile([window]).columns
    names = ("peak_bytes", "reserved_peak_bytes", "live_bytes", "allocs", "frees")
    figures: dict[str, Any] = {name: int(columns[name][0]) for name in names}
    return figures | {"knows_reserved": window.log.tells_of_chunks}
