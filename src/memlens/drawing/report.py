"""``memlens.report``: one log, or two runs, as one HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlens.analyzing.analyze import analyze_with
from memlens.drawing.levels import levels
from memlens.drawing.lifetimes import WindowBlocks, largest_blocks
from memlens.drawing.moments import moments
from memlens.drawing.owners import Owners
from memlens.drawing.page import page
from memlens.inputs import Reading, input_name
from memlens.keywords import with_keywords
from memlens.options import Analyze, Report, as_list
from memlens.text import Answer, Answered, terms_of
from memlens.windows.windows import as_patterns

if TYPE_CHECKING:
    from memlens.analyzing.result import LogAnalysis
    from memlens.events import EventLog
    from memlens.inputs import Input

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
    analysis = analyze_with(list(logs), Analyze(**{name: getattr(options, name) for name in _CUT}))
    title = options.title or input_name(log)
    views = [_view(of_log, options, said) for of_log, said in zip(logs, analysis.logs, strict=True)]
    data = {"schema": SCHEMA, "title": title, "logs": views}
    answer = analysis.answer
    html = page(title, sentences=answer.sentences, tone=answer.tone, words=of(analysis), data=data)
    return ReportPage(title, html, answer)


report = with_keywords("report", report_with, Report)

#: What the report is cut by, as the analysis is.
_CUT = ("start", "end", "start_regex", "end_regex", "nth", "by")


def _view(log: EventLog, options: Report, said: LogAnalysis) -> dict[str, Any]:
    """What the page shows of one log."""
    terms = terms_of(log.facts.layer)
    window = log.whole if options.series else options.windows(log)[0]
    owners, blocks = Owners(log), WindowBlocks(window)
    return {
        "path": said.path,
        "terms": {"line": terms.line, "lines": terms.lines, "chunk": terms.chunk},
        "verdict": {"sentences": list(said.answer.sentences), "tone": said.answer.tone},
        "lo": window.lo,
        "hi": window.hi,
        "levels": levels(window).to_dict(),
        "lifetimes": largest_blocks(blocks, owners).to_dict(),
        "moments": moments(window, blocks, owners).to_dict(),
        # The last key, when all others have asked for their numbers.
        "owners": owners.to_dict(),
    }
