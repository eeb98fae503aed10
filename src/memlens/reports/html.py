"""Blocks as HTML, for notebooks and below the pictures of pages: without scripts and styles of its own, and nothing of a log is markup."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from memlens.analyzing.result import Analysis
from memlens.reports.analyze import analysis_blocks
from memlens.reports.block import life_blocks
from memlens.reports.blocks import Block, Column, Excerpt, Figure, Figures, Line, Picture, Table, Toned, Value, unfolded
from memlens.reports.compare import compare_blocks
from memlens.reports.diff import diff_blocks
from memlens.reports.gate import gate_blocks
from memlens.reports.picture import USUAL_WIDTH
from memlens.reports.picture import draw as drawn_in_text
from memlens.reports.watch import watch_blocks
from memlens.reports.whatif import whatif_blocks
from memlens.text import NO_BREAK, format_value, shorten, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memlens.log import Log


def of(result: object) -> str:
    """The HTML of a result in a notebook."""
    return render(_SCREENS[type(result).__name__](result))


def render(blocks: Iterable[Block], draw: Callable[[Value], str] = lambda _: "") -> str:
    """HTML of blocks; what other forms fold is shown.

    Args:
        blocks: What to show.
        draw: A drawing, as HTML, that stands below a value in a table, or nothing.
    """
    return f"<div>{''.join(_html(unfolded(blocks), draw))}</div>"


def _html(blocks: Iterable[Block], draw: Callable[[Value], str]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Line):
            label = f"<strong>{_text(block.label.strip())}</strong> " if block.label.strip() else ""
            name = f"{_name(block.name)} " if block.name else ""
            tag = "h3" if block.style == "heading" else "p"
            yield f'<{tag} class="{block.style}">{label}{name}{_text(block.text)}</{tag}>'
        elif isinstance(block, Figures):
            yield _table((), map(_figure, block.rows))
        elif isinstance(block, Table):
            titles = [f"<th{_RIGHT if column.numeric else ''}>{_text(column.title)}</th>" for column in block.columns]
            columns = [_cells(column, [row[k] for row in block.rows], draw) for k, column in enumerate(block.columns)]
            yield f"<h3>{_text(block.title)}</h3>" if block.title else ""
            yield _table(titles, map("".join, zip(*columns, strict=True)))
            yield f'<p class="hint">{_text(block.more)}</p>' if block.more else ""
        elif isinstance(block, Excerpt):
            lines = (f"{'>' if one.is_event else ' '} {one.line}  {visible(one.text)}" for one in block.lines)
            yield f"<p>{_text(block.title)}</p>{_as_it_stands(lines)}"
        elif isinstance(block, Picture):
            yield _as_it_stands("".join(text for text, _ in line) for line in drawn_in_text(block, USUAL_WIDTH))


#: Long enough for any name that means something, such as that of a stack; a line of a megabyte is no name.
_WIDEST_NAME = 240
#: Where figures stand; pages have it as a class (:mod:`memlens.drawing.page`).
_RIGHT = ' style="text-align:right"'


def _figure(figure: Figure) -> str:
    value = f"<td{_RIGHT}><strong>{_text(figure.value)}</strong></td>"
    return f"<td>{_text(figure.label)}</td>{value}<td>{_text(figure.remark)}</td>"


def _table(titles: Sequence[str], rows: Iterable[str]) -> str:
    head = f"<thead><tr>{''.join(titles)}</tr></thead>" if titles else ""
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scrolls"><table>{head}<tbody>{body}</tbody></table></div>'


def _cells(column: Column, values: Sequence[Value], draw: Callable[[Value], str]) -> list[str]:
    """The cells of a column; names that would read alike are written as far as they differ."""
    if column.kind == "name":
        names = shortened([visible(str(value)) if value else "" for value in values], _WIDEST_NAME)
        return [f"<td>{escape(name)}</td>" for name in names]
    cells = []
    for value in values:
        text = _text(format_value(column.kind, value)).strip()
        if isinstance(value, Toned):
            text = f'<span class="{value.tone}">{text}</span>'
        cells.append(f"<td{_RIGHT if column.numeric else ''}>{text}{draw(value)}</td>")
    return cells


def _as_it_stands(lines: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"


def _text(text: str) -> str:
    """Words of memlens that may quote a log."""
    return escape(visible(text.replace(NO_BREAK, " ")))


def _name(text: str) -> str:
    """Text from a log, or of a path."""
    return f"<code>{escape(shorten(visible(text), _WIDEST_NAME))}</code>"


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
