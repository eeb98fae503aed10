"""Results as HTML, for notebooks: their screens, as a page fragment without scripts or styles of its own.

It is the Markdown form (:mod:`memlens.reports.markdown`), in which nothing of a log is markup, turned into HTML by markdown-it, which lets no
HTML through.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from memlens.reports import markdown
from memlens.reports.blocks import Block, Fold, Line

if TYPE_CHECKING:
    from memlens.analyzing.result import LogAnalysis
    from memlens.events import EventLog

__all__ = ["of", "render"]

#: The screen of each result, by the name of its class: a function that makes its blocks.
_SCREENS = {
    "Analysis": "memlens.reports.analyze:analysis_blocks",
    "BlockLife": "memlens.reports.block:life_blocks",
    "Comparison": "memlens.reports.compare:compare_blocks",
    "Diff": "memlens.reports.diff:diff_blocks",
    "EventLog": "memlens.reports.html:events_blocks",
    "LogAnalysis": "memlens.reports.html:log_blocks",
    "Verdict": "memlens.reports.gate:gate_blocks",
}


def of(result: object) -> str:
    """What a notebook shows of a result."""
    where, _, name = _SCREENS[type(result).__name__].partition(":")
    blocks: Callable[[Any], Sequence[Block]] = getattr(importlib.import_module(where), name)
    return render(blocks(result))


def render(blocks: Sequence[Block], **_screen: object) -> str:
    """HTML of blocks; what other forms fold is shown."""
    text = markdown.render(list(_unfolded(blocks)))
    return f"<div>{MarkdownIt('commonmark', {'html': False}).enable('table').render(text)}</div>"


def _unfolded(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, Fold):
            yield from _unfolded(block.blocks)
        else:
            yield block


def log_blocks(log: LogAnalysis) -> list[Block]:
    """The screen of one log of an analysis."""
    from memlens.analyzing.result import Analysis
    from memlens.reports.analyze import analysis_blocks

    return analysis_blocks(Analysis((log,)))


def events_blocks(log: EventLog) -> list[Block]:
    """What there is to know of a log before it is analyzed: how much it is, and whether to trust it."""
    trust = log.trust
    doubts = [Line(doubt.message, "doubt", label="Doubt") for doubt in trust.doubts]
    return [Line(trust.summary(), "good" if trust.ok else "doubt", log.source.name), *doubts]
