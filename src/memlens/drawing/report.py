"""``memlens.report``: one log, or two runs, as one HTML page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers import registry
from memlens.analyzing.analyze import analyze_with
from memlens.analyzing.result import Analysis
from memlens.drawing.differences import compared, diff_view
from memlens.drawing.flame import flame
from memlens.drawing.levels import levels
from memlens.drawing.lifetimes import WindowBlocks, largest_blocks
from memlens.drawing.marks import bands, marks, series_of
from memlens.drawing.memory_map import memory_maps
from memlens.drawing.moments import moments
from memlens.drawing.owners import Owners
from memlens.drawing.page import page
from memlens.drawing.tables import growth_view, held_view, trust_view, windows_view
from memlens.folding.levels import profile
from memlens.inputs import Reading, input_name, named_devices
from memlens.keywords import with_keywords
from memlens.options import Analyze, Cut, Report, as_list
from memlens.options.parts import values_of
from memlens.text import Answer, Answered, terms_of, visible
from memlens.windows.windows import as_patterns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.unmatched import Unmatched
    from memlens.analyzing.result import LogAnalysis
    from memlens.drawing.memory_map import MemoryMaps
    from memlens.events import EventLog
    from memlens.inputs import Input
    from memlens.windows.windows import Window

__all__ = ["SCHEMA", "ReportPage", "report", "report_with"]

SCHEMA = "memlens.report/1"


@dataclass(frozen=True, eq=False, repr=False)
class ReportPage(Answered):
    """A report.

    Attributes:
        title: The page's title.
        html: The page: one file that needs no network.
        said: The verdict on top of it.
    """

    title: str
    html: str
    said: Answer

    @property
    def answer(self) -> Answer:
        """The verdict, in sentences."""
        return self.said

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
    found = None if options.diff is None else compared(options.diff, logs, options)
    title = options.title or (input_name(log) if found is None else f"{input_name(log)} against {found.base.path}")
    title = visible(title)
    views = [_view(of_log, options, said) for of_log, said in zip(logs, analysis.logs, strict=True)]
    # Of several devices the one first of which the verdict speaks: that ran out of memory, or is the fullest.
    rank = [
        (not said.ooms, said.device == "CPU", -view["figures"]["peak_bytes"])
        for said, view in zip(analysis.logs, views, strict=True)
    ]
    data: dict[str, Any] = {"schema": SCHEMA, "title": title, "logs": views, "shown": rank.index(min(rank))}
    answer, words = analysis.answer, of(analysis)
    if found is not None:
        data["diff"] = diff_view(found)
        answer, words = found.answer, of(found) + words
    html = page(title, sentences=answer.sentences, tone=answer.tone, words=words, data=data)
    return ReportPage(title, html, answer)


report = with_keywords("report", report_with, Report)

#: Groups of what is held at the end whose first blocks have bars, however small they are, and blocks of each memory map.
_NAMED_GROUPS, _NAMED_BLOCKS = 100, 500


def _analyzed(logs: Sequence[EventLog], options: Report) -> Analysis:
    """What is said of the logs of one input, which are cut alike."""
    how, said = Analyze(**values_of(options, Cut)), []
    for log, path, device in named_devices(logs[0].source.name, logs):
        (one,) = analyze_with(log, how).logs
        said.append(replace(one, path=path, device=device))
    return Analysis(tuple(said))


def _view(log: EventLog, options: Report, said: LogAnalysis) -> dict[str, Any]:
    """What the page shows of one log."""
    terms = terms_of(log.facts.layer)
    window = log.whole if options.series else options.windows(log)[0]
    owners, blocks = Owners(log), WindowBlocks(window)
    results = said.windows[0].results if said.by is None else _results(window)
    series = series_of(log, options)
    drawn, maps = levels(window, owners), memory_maps(log, results["segments"])
    return {
        "path": visible(said.path),
        "command": f"memlens block {quote(visible(said.path))}",
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
        "flame": flame(results["peak"], owners, terms.line),
        "windows": windows_view(series, said),
        "held": held_view(results["unmatched"], owners, known=log.facts.addresses),
        "trust": trust_view(said.trust, terms.line),
        "growth": growth_view(said.growth, owners),
        # The last key, when all others have asked for their numbers.
        "owners": owners.to_dict(),
    }


def _results(window: Window) -> dict[str, Any]:
    """What the analyzers say of the whole of a log that was cut into a series."""
    return {name: registry.get(name).many([window])[0] for name in ("peak", "segments", "unmatched")}


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
