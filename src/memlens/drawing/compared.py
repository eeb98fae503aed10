"""Runs side by side as one HTML page without a script: the tables of ``memlens compare``, with the curve of each run in its cell.

A page is made of a comparison that has kept the curves::

    from memlens.drawing.compared import comparison_page

    comparison_page(memlens.compare("runs/{branch}/workerlog.{rank}", buckets=200)).save("matrix.html")
"""

from __future__ import annotations

from html import escape
from itertools import dropwhile
from typing import TYPE_CHECKING

from memlens.drawing.page import page
from memlens.drawing.report import ReportPage
from memlens.reports.blocks import Block, Line, Table, Toned, Value
from memlens.reports.compare import compare_blocks
from memlens.reports.compare.tables import OfRun
from memlens.text import NO_BREAK, format_bytes, format_value, plural, shorten, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memlens.analyzers.series.curve import Curve
    from memlens.comparing.result import Comparison
    from memlens.reports.blocks import Column

__all__ = ["comparison_page"]

#: The height of a curve in units of its own; it is as wide as it has buckets.
_HEIGHT = 40
#: Long enough for any name that means something.
_WIDEST_NAME = 200


def comparison_page(comparison: Comparison, *, top: int | None = None, brief: bool = False) -> ReportPage:
    """A comparison as a page: its verdict, and its tables as ``memlens compare --full`` shows them.

    All curves have one scale of bytes, and each is as wide as the others, however many events its run has.

    Args:
        comparison: The runs; curves are drawn of those that have one (:attr:`memlens.options.Compare.buckets`).
        top: Windows of a series, and rows of the lists below the tables.
        brief: The verdict alone.
    """
    title = comparison.template or plural(len(comparison.present), "run")
    highest = max((int(run.curve.high_bytes.max(initial=0)) for run in comparison.runs if run.curve), default=0)
    # The verdict stands above all.
    blocks = () if brief else dropwhile(lambda block: block is not None, compare_blocks(comparison, top=top, full=True))
    words = "".join(_html(blocks, highest))
    answer = comparison.answer
    html = page(f"Comparison of {visible(title)}", sentences=answer.sentences, tone=answer.tone, words=words)
    return ReportPage(title=title, html=html, claims=comparison.claims)


def _html(blocks: Iterable[Block], highest: int) -> Iterator[str]:
    """Blocks as HTML.  Only the first table of runs has curves, for those of the others would be the same."""
    drawn = False
    for block in blocks:
        if isinstance(block, Line):
            label = f"<b>{_text(block.label.strip())}</b> " if block.label.strip() else ""
            name = f"<code>{_name(block.name)}</code> " if block.name else ""
            yield f'<p class="{block.style}">{label}{name}{_text(block.text)}</p>'
        elif isinstance(block, Table):
            of_runs = any(isinstance(cell, OfRun) for row in block.rows for cell in row)
            yield _table(block, highest if of_runs and not drawn else 0)
            if of_runs and highest and not drawn:
                yield f'<p class="quiet">Beside each peak: allocated bytes over the run, all on one scale, up to {format_bytes(highest)}.</p>'
            drawn = drawn or of_runs


def _table(table: Table, highest: int) -> str:
    heads = "".join(f"<th{_right(column)}>{_text(column.title)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr>{''.join(_cell(column, value, highest) for column, value in zip(table.columns, row, strict=True))}</tr>"
        for row in table.rows
    )
    title = f"<h2>{_text(table.title)}</h2>" if table.title else ""
    more = f'<p class="hint">{_text(table.more)}</p>' if table.more else ""
    return (
        f'{title}<div class="scrolls"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{more}'
    )


def _right(column: Column) -> str:
    return ' class="right"' if column.numeric else ""


def _cell(column: Column, value: Value, highest: int) -> str:
    if column.kind == "name":
        return f"<td>{_name(str(value)) if value else ''}</td>"
    text = _text(format_value(column.kind, value)).strip()
    if isinstance(value, Toned):
        text = f'<span class="{value.tone}">{text}</span>'
    drawing = ""
    if highest and isinstance(value, OfRun) and value.run is not None and value.run.curve is not None:
        drawing = _curve(value.run.curve, highest, value.window)
    return f"<td{_right(column)}>{text}{drawing}</td>"


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
        f"<title>{_text(words)}</title>{marked}"
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


def _text(text: str) -> str:
    """Words of memlens that may quote a log."""
    return escape(visible(text.replace(NO_BREAK, " ")))


def _name(text: str) -> str:
    """Text from a log, or of a path."""
    return escape(shorten(visible(text), _WIDEST_NAME))
