"""Runs side by side as one HTML page without a script: the tables of ``memlens compare``, with the curve of each run in its cell.

A page is made of a comparison that has kept the curves::

    from memlens.drawing.compared import comparison_page

    comparison_page(memlens.compare("runs/{branch}/workerlog.{rank}", buckets=200)).save("matrix.html")
"""

from __future__ import annotations

from functools import partial
from html import escape
from itertools import dropwhile
from typing import TYPE_CHECKING

from memlens.drawing.page import page
from memlens.drawing.report import ReportPage
from memlens.reports import html
from memlens.reports.blocks import Block, Line, Table, Value
from memlens.reports.compare import compare_blocks
from memlens.reports.compare.tables import OfRun
from memlens.text import format_bytes, plural, visible

if TYPE_CHECKING:
    from memlens.analyzers.series.curve import Curve
    from memlens.comparing.result import Comparison

__all__ = ["comparison_page"]

#: The height of a curve in units of its own; it is as wide as it has buckets.
_HEIGHT = 40


def comparison_page(comparison: Comparison, *, top: int | None = None, brief: bool = False) -> ReportPage:
    """A comparison as a page: its verdict, and its tables as ``memlens compare --full`` shows them.

    All curves have one scale of bytes, and each is as wide as the others, however many events its run has.

    Args:
        comparison: The runs; curves are drawn of those that have one (:attr:`memlens.options.verbs.Compare.buckets`).
        top: Windows of a series, and rows of the lists below the tables.
        brief: The verdict alone.
    """
    # The names of its files, without the folder that all are in.
    named = "/".join(dropwhile(lambda part: "{" not in part, (comparison.template or "").split("/")))
    title = named or plural(len(comparison.present), "run")
    highest = max((int(run.curve.high_bytes.max(initial=0)) for run in comparison.runs if run.curve), default=0)
    # The verdict stands above all.
    below = dropwhile(lambda block: block is not None, compare_blocks(comparison, top=top, full=True))
    blocks = [] if brief else list(below)
    # Only the first table of runs has curves, for those of the others would be the same.
    first = next((k for k, block in enumerate(blocks) if highest and _is_of_runs(block)), len(blocks))
    words = html.render(blocks[:first]) + html.render(blocks[first : first + 1], partial(_curve_of, highest))
    if first < len(blocks):
        scale = f"Beside each peak: allocated bytes over the run, all on one scale, up to {format_bytes(highest)}."
        words += html.render([Line(scale, "quiet"), *blocks[first + 1 :]])
    answer = comparison.answer
    text = page(f"Comparison of {visible(title)}", sentences=answer.sentences, tone=answer.tone, words=words)
    return ReportPage(title=title, html=text, claims=comparison.claims)


def _is_of_runs(block: Block) -> bool:
    return isinstance(block, Table) and any(isinstance(cell, OfRun) for row in block.rows for cell in row)


def _curve_of(highest: int, value: Value) -> str:
    """The curve of the run that a value is of; nothing where there is none."""
    if not isinstance(value, OfRun) or value.run is None or value.run.curve is None:
        return ""
    return _curve(value.run.curve, highest, value.window)


def _curve(curve: Curve, highest: int, window: str | None) -> str:
    """An envelope of lowest and highest levels, with one window of a series marked, and failures."""
    count = len(curve)
    if not count:
        return ""
    sides = (curve.low_bytes, curve.high_bytes)
    low, high = ([_HEIGHT - max(level, 0) * _HEIGHT / highest for level in side.tolist()] for side in sides)
    # Of each bucket its whole width: a peak of one event is seen, too.
    upper = [f"{x},{y:.2f}" for k, y in enumerate(high) for x in (k, k + 1)]
    lower = [f"{x},{y:.2f}" for k, y in reversed(list(enumerate(low))) for x in (k + 1, k)]
    lo, hi = int(curve.edges[0]), max(int(curve.edges[-1]), int(curve.edges[0]) + 1)

    def at(event: int) -> float:
        return (event - lo) * count / (hi - lo)

    marked = ""
    if (stretch := _stretch(curve, window)) is not None:
        begin, end = (at(event) for event in stretch)
        marked = f'<rect class="window" x="{begin:.2f}" y="0" width="{max(end - begin, 1):.2f}" height="{_HEIGHT}"/>'
    line = f'y="0" width="1.5" height="{_HEIGHT}"'
    failed = "".join(f'<rect class="failed" x="{at(event):.2f}" {line}/>' for event in curve.failures)
    words = f"Allocated bytes over {plural(hi - lo, 'event')}, at most {format_bytes(int(curve.high_bytes.max()))}"
    if curve.failures:
        words += f", {plural(len(curve.failures), 'out-of-memory failure')}"
    return (
        f'<svg class="curve" role="img" viewBox="0 0 {count} {_HEIGHT}" width="160" height="{_HEIGHT}" preserveAspectRatio="none">'
        f"<title>{escape(words)}</title>{marked}"
        f'<polygon class="between" points="{" ".join([*upper, *lower])}"/>'
        f'<polygon class="below" points="0,{_HEIGHT} {" ".join(reversed(lower))} {count},{_HEIGHT}"/>{failed}</svg>'
    )


def _stretch(curve: Curve, window: str | None) -> tuple[int, int] | None:
    """The events of one window of a series; they end where the next one's begin."""
    for number, (first, name) in enumerate(curve.steps):
        if name == window:
            after = curve.steps[number + 1 : number + 2]
            return first, after[0][0] if after else int(curve.edges[-1])
    return None
