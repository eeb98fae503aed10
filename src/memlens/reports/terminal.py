"""Blocks as text for a terminal, a pipe or a file: aligned columns, no boxes, colour only where it is wanted.

The layout is computed here, to the column, because a general table would wrap or cut what does not fit: figures are never
cut, columns leave in the order that their ``drop`` says, and only names are shortened, in their middle.
"""

from __future__ import annotations

from functools import cache
from itertools import count, groupby, zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from memlens.reports.blocks import (
    Block,
    Column,
    Excerpt,
    Figures,
    Fold,
    Line,
    Picture,
    Table,
    Toned,
    answered,
    unfolded,
)
from memlens.text import (
    NO_BREAK,
    STACK,
    clipped,
    format_value,
    no_command,
    plain_ascii,
    shorten,
    shortened,
    visible,
    width_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memlens.claims.claim import Answer

Span: TypeAlias = tuple[str, str]  # text that is safe to show, and how: words of _CODES
Spans: TypeAlias = list[Span]

#: Columns without room that a note names.
_MOST_HIDDEN = 12
_GAP = "  "
#: A name wider than this is shortened even where the output has no width: one line of a megabyte must not pad every row.
_WIDEST_NAME = 120
#: A name column is not squeezed below this before other columns are left out.
_NARROWEST_NAME = 20
_NARROWEST_WRAPPED = 10
#: A quoted line of a log takes about so many rows of a terminal at most.
_ROWS_OF_A_QUOTE = 3
_STYLES = {
    "heading": "bold",
    "strong": "bold",
    "good": "green",
    "bad": "bold red",
    "doubt": "yellow",
    "hint": "dim",
    "quiet": "dim",
    "plain": "",
}
_TONES = {"good": "green", "bad": "red"}
#: Base and head have about the colours that they have in pictures.
_SIDES = {"Base": "bold orange", "Head": "bold blue"}
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "orange": "38;5;166", "blue": "38;5;33"}


def render(blocks: Sequence[Block], *, width: int | None = None, colour: bool = False, ascii_only: bool = False) -> str:
    """Lay blocks out as text.

    Args:
        blocks: What to show.
        width: Columns of the terminal; ``None`` for an output without a width (a pipe, a file), where nothing wraps and no
            column is left out.
        colour: Mark what is worse and what is better, key figures and doubts with ANSI codes.
        ascii_only: The output cannot show characters beyond ASCII.

    Returns:
        Lines that each end in a newline, without trailing blanks.
    """
    lines = _Layout(width, ascii_only=ascii_only).lines(blocks)
    return no_command("".join(_written(line, colour) + "\n" for line in lines))


class _Layout:
    """Blocks as lines of one width.

    Args:
        width: As of :func:`render`.
        ascii_only: As there.
    """

    def __init__(self, width: int | None, *, ascii_only: bool = False) -> None:
        self._width, self._ascii_only = width, ascii_only

    def lines(self, blocks: Iterable[Block]) -> Iterator[Spans]:
        """The lines of all blocks."""
        for part in _parts(blocks):
            widths = _widths(part)
            for block in part:
                yield from self.of(block, *widths)

    def of(self, block: Block, label_width: int, value_width: int) -> list[Spans]:
        """The lines of one block, beside labels and values of some width."""
        lines: Iterable[Spans] = [[]]
        if isinstance(block, Line):
            lines = _line(block, label_width, self._width)
        elif isinstance(block, Figures):
            lines = _figures(block, label_width, value_width, self._width)
        elif isinstance(block, Excerpt):
            lines = _excerpt(block, self._width)
        elif isinstance(block, Table):
            lines = _table(block, self._width)
        elif isinstance(block, Picture):
            from memlens.reports.picture import USUAL_WIDTH, draw

            lines = draw(block, USUAL_WIDTH if self._width is None else self._width, ascii_only=self._ascii_only)
        return [[(plain_ascii(text), style) for text, style in line] if self._ascii_only else line for line in lines]


class Size(NamedTuple):
    """Columns and rows of one screen."""

    columns: int = 80
    rows: int = 40


#: What one screen holds where no terminal says it.
SCREEN = Size()


class Part(Struct, frozen=True):
    """A part of a screen, in several versions.

    Attributes:
        versions: Its blocks, from all that it has to say to the least; an empty one leaves it out.
        weights: Of all steps from a version to the next the one of least weight is taken first; of a number each step adds 1 to it.
        name: How the line that says what was left out calls it.
    """

    versions: tuple[Sequence[Block], ...]
    weights: int | tuple[int, ...] = 0
    name: str = ""

    def steps(self, index: int) -> Iterator[tuple[int, int, int]]:
        """The steps from each version to the next: the weight of each, the part's index, the version's."""
        weights = count(self.weights) if isinstance(self.weights, int) else self.weights
        return ((weight, index, k) for weight, k in zip(weights, range(1, len(self.versions)), strict=False))


def one_screen(answer: Answer, parts: Iterable[Part], size: Size) -> list[Block]:
    """A verdict, an empty line, and what it rests on, shortened to one screen; at its end how to see all."""
    hint = (None, Line("--full shows everything.", "hint"))
    return fitted([Part(((*answered(answer), None),)), *parts, Part((hint,))], size)


def fitted(parts: Sequence[Part], size: Size = SCREEN, option: str = "--full") -> list[Block]:
    """The parts in the longest versions that fit one screen together; what was cut names the option that shows it."""
    parts = [replace(part, versions=tuple(naming(one, option) for one in part.versions)) for part in parts]
    layout, chosen, left = _Layout(size.columns), [0] * len(parts), set[int]()
    # As wide as labels and values ever get: no part takes more rows than are counted here.
    widths = _widths([block for part in parts for version in part.versions for block in unfolded(version)])

    @cache
    def height(index: int, which: int) -> int:
        return sum(len(layout.of(block, *widths)) for block in unfolded(parts[index].versions[which]))

    total, taken = sum(height(index, 0) for index in range(len(parts))), []

    def rest() -> list[Block]:
        names = [parts[index].name for index in sorted(left)]
        said = ", ".join(names if len(names) < 6 else [*names[:4], f"{len(names) - 4} more"])
        return [None, Line(f"Not shown here: {said} ({option}).", "hint")] if left else []

    def choose(index: int, which: int) -> bool:
        """Take a version of a part; whether all takes more than a screen then."""
        nonlocal total
        total += height(index, which) - height(index, chosen[index])
        chosen[index] = which
        (left.add if parts[index].name and not parts[index].versions[which] else left.discard)(index)
        return total + sum(len(layout.of(block, 0, 0)) for block in rest()) > size.rows

    too_many = total > size.rows
    for _, index, which in sorted(step for number, part in enumerate(parts) for step in part.steps(number)):
        if not too_many:
            break
        too_many = choose(index, which)
        taken.append(index)
    for index in reversed(taken):  # what later steps made needless
        if choose(index, chosen[index] - 1):
            choose(index, chosen[index] + 1)
    blocks = [block for part, which in zip(parts, chosen, strict=True) for block in part.versions[which]]
    return [*blocks, *rest()]


def naming(blocks: Iterable[Block], option: str) -> list[Block]:
    """The same blocks; tables that count rows which they leave out name the option that shows them."""

    def named(block: Block) -> Block:
        if isinstance(block, Fold):
            return replace(block, blocks=tuple(naming(block.blocks, option)))
        if option and isinstance(block, Table) and block.more.startswith("…"):
            return replace(block, more=f"{block.more} ({option})")
        return block

    return [named(block) for block in blocks]


def fits(blocks: Sequence[Block], size: Size) -> bool:
    """Whether blocks are no more than one screen."""
    return sum(1 for _ in _Layout(size.columns).lines(blocks)) <= size.rows


def _parts(blocks: Iterable[Block]) -> list[list[Block]]:
    """The blocks cut at headings: key figures align within a part, and not with those under another heading."""
    parts: list[list[Block]] = [[]]
    for block in unfolded(blocks):
        if isinstance(block, Line) and block.style == "heading":
            parts.append([])
        parts[-1].append(block)
    return parts


def _widths(part: Sequence[Block]) -> tuple[int, int]:
    """Columns taken by the labels and by the values of a part's key figures."""
    figures = [figure for block in part if isinstance(block, Figures) for figure in block.rows]
    labels = [block.label for block in part if isinstance(block, Line) and block.label]
    labels += [figure.label for figure in figures]
    return max(map(width_of, labels), default=0), max((width_of(figure.value) for figure in figures), default=0)


def _line(line: Line, label_width: int, width: int | None) -> Iterator[Spans]:
    style = _STYLES[line.style]
    bold = _SIDES.get(line.label, "bold")
    prefix: Spans = [(line.label.ljust(label_width) + _GAP, bold)] if line.label else []
    indent = label_width + len(_GAP) if line.label else 0
    if line.name:
        prefix.append((shorten(visible(line.name), _WIDEST_NAME if width is None else max(width - indent, 1)), "bold"))
        if not line.text:
            yield prefix
            return
        taken = sum(width_of(text) for text, _ in prefix)
        if width is not None and taken + len(_GAP) + width_of(line.text) > width:
            yield prefix
            indent += len(_GAP)
            prefix = [(" " * indent, "")]
        else:
            prefix.append((_GAP, ""))
    yield from _hanging(visible(line.text), style, width, indent, prefix)


def _hanging(text: str, style: str, width: int | None, indent: int = 0, prefix: Spans | None = None) -> Iterator[Spans]:
    """Text in lines that fit: the first one behind a prefix, the others indented as far."""
    for number, piece in enumerate(wrap(text, None if width is None else width - indent)):
        yield [*([(" " * indent, "")] if number else prefix or []), (piece, style)]


def _figures(figures: Figures, label_width: int, value_width: int, width: int | None) -> Iterator[Spans]:
    indent = label_width + value_width + 2 * len(_GAP)
    for figure in figures.rows:
        prefix: Spans = [(figure.label.ljust(label_width) + _GAP, ""), (figure.value.rjust(value_width) + _GAP, "bold")]
        yield from _hanging(visible(figure.remark), "", width, indent, prefix)


def _table(table: Table, width: int | None) -> Iterator[Spans]:
    cells = [[_cell(column, value) for column, value in zip(table.columns, row, strict=True)] for row in table.rows]
    titles = [column.title for column in table.columns]
    by_column = list(zip(titles, *cells, strict=True))
    natural = [
        max(width if column.numeric or column.wraps else min(width, _WIDEST_NAME) for width in map(width_of, texts))
        for column, texts in zip(table.columns, by_column, strict=True)
    ]
    shown, widths = _fit(table.columns, natural, width)
    for index, room in zip(shown, widths, strict=True):
        if not (table.columns[index].numeric or table.columns[index].wraps):
            by_column[index] = tuple(shortened(by_column[index], room))
    titles, *cells = map(list, zip(*by_column, strict=True))
    columns = [table.columns[index] for index in shown]
    if table.title:
        yield from _hanging(table.title, "bold", width)
    for row, values in zip([titles, *cells], [None, *table.rows], strict=True):
        tones = None if values is None else [_tone(table.columns[index], values[index]) for index in shown]
        parts = zip(columns, [row[index] for index in shown], widths, strict=True)
        wrapped = [wrap(text, room) if column.wraps else [text] for column, text, room in parts]
        for texts in zip_longest(*wrapped, fillvalue=""):
            yield _row(texts, columns, widths, tones)
    if table.more:
        yield from _hanging(table.more, "dim", width)
    hidden = [column.title for index, column in enumerate(table.columns) if index not in shown]
    if hidden and table.says_hidden:
        left = len(hidden) - _MOST_HIDDEN
        names = ", ".join(hidden[:_MOST_HIDDEN]) + (f" and {left} more" if left > 0 else "")
        note = f"(no room here for: {names}; a wider terminal, a pipe or --format csv has all)"
        yield from _hanging(note, "dim", width)


def _excerpt(excerpt: Excerpt, width: int | None) -> Iterator[Spans]:
    if excerpt.title:
        yield from _hanging(excerpt.title, "dim", width)
    number_width = max((len(str(quoted.line)) for quoted in excerpt.lines), default=0)
    indent = 2 + number_width + len(_GAP)
    for quoted in excerpt.lines:
        text = visible(quoted.text)
        if width is not None:
            text = shorten(text, max(width - indent, 10) * _ROWS_OF_A_QUOTE)
        number = f"{'>' if quoted.is_event else ' '} {quoted.line:>{number_width}}{_GAP}"
        style = "bold" if quoted.is_event else ""
        yield from _hanging(text, style, width, indent, [(number, "" if quoted.is_event else "dim")])


def _cell(column: Column, value: object) -> str:
    text = format_value(column.kind, value)
    return text if column.numeric or column.wraps else visible(text if STACK in text else clipped(text))


def _fit(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> tuple[list[int], list[int]]:
    """Choose the columns that fit and the width of each: leave out by ``drop``, then squeeze names.

    Returns:
        Indices of the columns shown, in their order, and their widths.
    """
    shown = list(range(len(columns)))
    if width is None:
        return shown, list(natural)
    least = [
        natural[i] if column.numeric else min(natural[i], max(_NARROWEST_NAME, width_of(column.title)))
        for i, column in enumerate(columns)
    ]

    def room() -> int:
        return width - sum(least[i] for i in shown) - len(_GAP) * (len(shown) - 1)

    while room() < 0 and any(columns[i].drop for i in shown):
        shown.remove(max(shown, key=lambda i: columns[i].drop))
    spare = room()
    widths = dict.fromkeys(shown, 0)
    # What memlens says is shown whole before names are: these can be told by their ends.
    for i in sorted(shown, key=lambda i: columns[i].kind != "word"):
        wider = natural[i] - least[i]
        if not columns[i].numeric and spare != 0:
            # Too narrow even for what must stay: names give way, down to a few characters, before figures do.
            few = _NARROWEST_WRAPPED if columns[i].wraps else 8
            take = min(wider, spare) if spare > 0 else max(spare, min(few - least[i], 0))
            spare -= take
            widths[i] = least[i] + take
        else:
            widths[i] = least[i]
    return shown, [widths[i] for i in shown]


def _tone(column: Column, value: object) -> str:
    """The colour of what is worse, and of what is better; ``""`` where neither is so."""
    if column.kind == "signed" and isinstance(value, int):
        value = Toned.change("", value)
    return _TONES.get(value.tone, "") if isinstance(value, Toned) else ""


def _row(texts: Sequence[str], columns: Sequence[Column], widths: Sequence[int], tones: Sequence[str] | None) -> Spans:
    """A row with the colours of its cells, or the headings, which have none."""
    spans: Spans = []
    for number, (whole, column, width) in enumerate(zip(texts, columns, widths, strict=True)):
        blanks = " " * (width - width_of(whole))
        padded = blanks + whole if column.numeric else whole + blanks
        strong = "bold " if column.strong else ""
        style = _SIDES.get(column.title, "dim") if tones is None else f"{strong}{tones[number]}"
        spans.append(((_GAP if number else "") + padded, style.rstrip()))
    return spans


def wrap(text: str, width: int | None) -> list[str]:
    """Break visible text at blanks into lines of at most ``width`` columns; a longer word is broken anywhere.

    Words joined by :data:`~memlens.text.NO_BREAK` stay together; it is written as a blank.
    """
    if width is None or width_of(text) <= width:
        return [text.replace(NO_BREAK, " ")]
    width = max(width, _NARROWEST_WRAPPED)
    lines, line = [], ""
    for word in text.split(" "):
        if line and width_of(line) + 1 + width_of(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        while width_of(line) > width:
            head = _head(line, width)
            lines.append(head)
            line = line[len(head) :]
    return [text.replace(NO_BREAK, " ") for text in (*lines, line)]


def _head(text: str, width: int) -> str:
    end = width
    while end > 1 and width_of(text[:end]) > width:
        end -= 1
    return text[:end]


def _written(line: Spans, colour: bool) -> str:
    """A line without the blanks at its end, as it is or with ANSI codes, which end with it: it stands for itself in a pager."""
    whole = "".join(text for text, _ in line).rstrip()
    if not colour:
        return whole
    parts, at = [], 0
    for style, run in groupby(line, key=itemgetter(1)):
        text = "".join(text for text, _ in run)
        shown, at = whole[at : at + len(text)], at + len(text)
        codes = ";".join(_CODES[word] for word in style.split())
        parts.append(f"\x1b[{codes}m{shown}\x1b[0m" if codes and shown.strip() else shown)
    return "".join(parts)
