"""Blocks as GitHub Markdown, to paste into an issue or a pull request.

Text from a log goes into code spans and fenced code: nothing in them is markup, HTML, a link or a mention.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from memlens.reports.blocks import Block, Column, Excerpt, Figures, Fold, Line, Picture, Table, Value
from memlens.reports.picture import USUAL_WIDTH, draw
from memlens.text import NO_BREAK, format_value, no_command, shorten, shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Long enough for any name that means something, such as that of a stack; a line of a megabyte is no name.
_WIDEST_NAME = 240
_MARKUP = re.compile(r"[@#](?=\w)|[\\`*_{}\[\]<>#|~!$&]")
_ESCAPES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def render(blocks: Sequence[Block], **_screen: object) -> str:
    """Markdown with a newline at its end; no screen changes it."""
    return no_command("\n\n".join(_paragraphs(blocks))) + "\n"


def _paragraphs(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Line):
            yield _line(block)
        elif isinstance(block, Figures):
            yield "\n".join(_figures(block))
        elif isinstance(block, Table):
            yield "\n".join(_table(block))
        elif isinstance(block, Excerpt):
            yield "\n".join(_excerpt(block))
        elif isinstance(block, Picture):
            yield "\n".join(_fenced("".join(text for text, _ in line).rstrip() for line in draw(block, USUAL_WIDTH)))
        elif isinstance(block, Fold):
            # Markdown is read within HTML only after an empty line.
            yield f"<details>\n<summary>{html.escape(visible(block.summary))}</summary>"
            yield from _paragraphs(block.blocks)
            yield "</details>"


def code(text: str) -> str:
    """Text from a log as a code span that also holds in a table cell."""
    return _span(shorten(visible(text), _WIDEST_NAME))


def _span(shown: str) -> str:
    """Visible text as a code span."""
    # A table cell ends at a bare pipe even within a code span; a backslash before it would undo the escape.
    shown = re.sub(r"(\\*)\|", lambda match: match[1] * 2 + r"\|", shown)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown[:1] in ("`", " ", "") or shown[-1:] in ("`", " ") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def plain(text: str) -> str:
    """Words that may quote a log, with everything escaped that Markdown or HTML would act upon."""
    return _MARKUP.sub(_escape, visible(text).replace(NO_BREAK, " "))


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in "@#" and re.match(r"\w", match.string[match.end() :]):
        return f"`{character}`"  # GitHub links mentions and issues after it has taken escapes away
    return _ESCAPES.get(character, f"\\{character}")


def _line(line: Line) -> str:
    text = " ".join(part for part in (code(line.name) if line.name else "", plain(line.text)) if part)
    if line.style == "heading":
        return f"### {text}"
    if line.style in ("strong", "bad"):
        return _strong(text)
    label = line.label.strip()
    return f"**{label}:** {text}" if label else text


def _figures(figures: Figures) -> Iterator[str]:
    yield "| | | |"
    yield "|---|---:|---|"
    for figure in figures.rows:
        yield f"| {plain(figure.label)} | {_strong(plain(figure.value))} | {plain(figure.remark)} |"


def _strong(text: str) -> str:
    return f"**{text}**" if text else ""


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"**{plain(table.title)}**"
        yield ""
    yield f"| {' | '.join(plain(column.title) for column in table.columns)} |"
    yield f"|{'|'.join('---:' if column.numeric else '---' for column in table.columns)}|"
    columns = (
        _cells(column, [row[index] for row in table.rows]) for index, column in enumerate(table.columns) if table.rows
    )
    for cells in zip(*columns, strict=True):
        yield f"| {' | '.join(cells)} |"
    if table.more:
        yield ""
        yield plain(table.more)


def _excerpt(excerpt: Excerpt) -> Iterator[str]:
    if excerpt.title:
        yield plain(excerpt.title)
        yield ""
    numbers = max((len(str(quoted.line)) for quoted in excerpt.lines), default=0)
    lines = (("> " if one.is_event else "  ", str(one.line).rjust(numbers), visible(one.text)) for one in excerpt.lines)
    yield from _fenced(f"{mark}{number}  {text}" for mark, number, text in lines)


def _fenced(texts: Iterable[str]) -> Iterator[str]:
    lines = list(texts)
    # A fence is closed by one at least as long: this one is longer than any run of backticks within.
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence
    yield from lines
    yield fence


def _cells(column: Column, values: Sequence[Value]) -> list[str]:
    """The cells of a column; names that would read alike are written as far as they differ."""
    if column.kind == "name":
        names = shortened([visible(str(value)) if value else "" for value in values], _WIDEST_NAME)
        return [_span(name) if name else "" for name in names]
    texts = [plain(format_value(column.kind, value)) for value in values]
    return list(map(_strong, texts)) if column.strong else texts
