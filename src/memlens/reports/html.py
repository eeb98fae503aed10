"""Results as HTML, for notebooks: their screens, as a page fragment without scripts or styles of its own.

It is the Markdown form (:mod:`memlens.reports.markdown`), in which nothing of a log is markup, turned into HTML by markdown-it, which lets no
HTML through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from memlens.analyzing.result import Analysis
from memlens.reports import markdown
from memlens.reports.analyze import analysis_blocks
from memlens.reports.block import life_blocks
from memlens.reports.blocks import Block, Line, unfolded
from memlens.reports.compare import compare_blocks
from memlens.reports.diff import diff_blocks
from memlens.reports.gate import gate_blocks
from memlens.reports.watch import watch_blocks
from memlens.reports.whatif import whatif_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.log import Log


def of(result: object) -> str:
    """The HTML of a result in a notebook."""
    return render(_SCREENS[type(result).__name__](result))


def render(blocks: Sequence[Block]) -> str:
    """HTML of blocks; what other forms fold is shown."""
    text = markdown.render(list(unfolded(blocks)))
    return f"<div>{MarkdownIt('commonmark', {'html': False}).enable('table').render(text)}</div>"


def _log_blocks(log: Log) -> list[Block]:
    """The HTML of a log before it is analyzed: how much it is, and whether to trust it."""
    trust = log.trust
    doubts = [Line(doubt.message, "doubt", label="Doubt") for doubt in trust.doubts]
    return [Line(trust.summary(), "good" if trust.ok else "doubt", log.source.name), *doubts]


#: The screen of each result, by the name of its class.
_SCREENS: dict[str, Callable[[Any], list[Block]]] = {
    "Analysis": analysis_blocks,
    "BlockLife": life_blocks,
    "Comparison": compare_blocks,
    "Diff": diff_blocks,
    "Log": _log_blocks,
    "LogAnalysis": lambda log: analysis_blocks(Analysis((log,), claims=log.claims)),
    "Verdict": gate_blocks,
    "Watched": watch_blocks,
    "WhatIf": whatif_blocks,
}
