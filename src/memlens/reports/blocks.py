"""The parts of a report for people: lines, key figures, tables and quoted log lines, before anything decides how they look.

A *screen* builds blocks from results, and a *form* (terminal, Markdown) shows blocks.  Neither knows the other, so that a
new form shows every result there is, and a new result shows in every form.
"""

from __future__ import annotations

import re
from itertools import islice, takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from memlens.text import LINES, MOST_NAMES, NO_BREAK, Terms, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memlens.analyzers.places import ContextLine
    from memlens.analyzers.series.curve import Curve
    from memlens.claims.claim import Answer, Tone

Value: TypeAlias = "int | str | None"

_FIGURE = re.compile(r"(\d) ([KMGTPE]?i?B|m?s)\b")


class Toned(str):
    """Words in a cell, or a figure as it is written, that are better or worse than others."""

    __slots__ = ("tone",)
    tone: Tone

    def __new__(cls, text: str, tone: Tone) -> Self:
        """The text, with what to think of it."""
        made = super().__new__(cls, text)
        made.tone = tone
        return made

    @classmethod
    def change(cls, text: str, change: int) -> Self:
        """A difference of which more is worse."""
        return cls(text, "bad" if change > 0 else "good" if change < 0 else "plain")


class Column(Struct, frozen=True):
    """One column of a table.

    Attributes:
        key: Which attribute of an item it shows; the name of the figure in machine output and for ``--sort``.
        title: Its heading.
        kind: ``name`` is text from a log; ``word`` is text of memlens; the others are integers and how to write them.  ``signed`` is a
            difference in bytes from another run, of which more is worse; ``net`` is what comes less what goes.
        drop: Which columns a narrow terminal leaves out first: the largest number; 0 stays always.
        strong: A key figure.
        wraps: What has no room goes on in the next line of its row, and is not shortened.
    """

    key: str
    title: str
    kind: Literal["name", "word", "bytes", "signed", "net", "count", "duration"]
    drop: int = 0
    strong: bool = False
    wraps: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it holds figures: aligned right, never cut."""
        return self.kind not in ("name", "word")


class Table(Struct, frozen=True):
    """Rows of exact values, largest or first in front; ``more`` says what was left out, and a note which columns have no room, if ``says_hidden``."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    more: str = ""
    says_hidden: bool = True


class Figure(Struct, frozen=True):
    """A key figure with its label and a remark: ``Peak   10.12 MiB  allocated, at line 12``."""

    label: str
    value: str
    remark: str = ""


class Figures(Struct, frozen=True):
    """Key figures, one a line."""

    rows: tuple[Figure, ...]


class Line(Struct, frozen=True):
    """A line of text.

    Attributes:
        text: Words of memlens.
        style: ``heading``, ``strong``, ``good``, ``bad``, ``doubt``, ``hint``, ``quiet`` or ``plain``.
        name: Text from a log or a file name that stands in front of ``text``.
        label: A word in front of both, in the column of the labels of key figures.
    """

    text: str
    style: Literal["heading", "strong", "good", "bad", "doubt", "hint", "quiet", "plain"] = "plain"
    name: str = ""
    label: str = ""


class Excerpt(Struct, frozen=True):
    """Some lines of a log, in their order, and of what."""

    title: str
    lines: tuple[ContextLine, ...]


class Fold(Struct, frozen=True):
    """Blocks that a form which can fold shows folded; the others show them as they are.

    Attributes:
        summary: What is in it: words of memlens, never text from a log.
        blocks: What is folded.
    """

    summary: str
    blocks: tuple[Block, ...]


class Picture(Struct, frozen=True):
    """Levels over a run, drawn as wide as a form has room by :func:`memlens.reports.picture.draw`.

    Attributes:
        curve: The levels.
        terms: What the lines of the input are called.
        rows: Rows of the picture itself; with its caption, its axis and the words below that it is three lines longer.
    """

    curve: Curve
    terms: Terms = LINES
    rows: int = 6


#: Rows of a list of which all is shown.
ALL_ROWS = 1 << 40
#: Columns of groups of blocks alike.
_TOTAL, OWNER = Column("total_bytes", "Total", "bytes", strong=True), Column("owner", "Owner", "name")
ALIKE = (Column("size_bytes", "Size", "bytes"), Column("count", "Count", "count"), _TOTAL)

#: ``None`` is an empty line between two parts.
Block: TypeAlias = "Line | Figures | Table | Excerpt | Fold | Picture | None"


def answered(answer: Answer) -> tuple[Line]:
    """The verdict, which a screen begins with: all that ``--brief`` shows of it; no figure is parted from its unit."""
    return (Line(unbroken(str(answer)), "strong" if answer.tone == "plain" else answer.tone),)


def unbroken(text: str) -> str:
    """A text of which no figure is parted from its unit."""
    return _FIGURE.sub(rf"\1{NO_BREAK}\2", text)


def brief(blocks: Iterable[Block]) -> list[Block]:
    """The lines above the first empty line of a screen: its verdict."""
    return list(takewhile(lambda block: block is not None, blocks))


def unfolded(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks, and those of folds in their places, for a form that cannot fold."""
    for block in blocks:
        if isinstance(block, Fold):
            yield from unfolded(block.blocks)
        else:
            yield block


def apart(*blocks: Block) -> tuple[Block, ...]:
    """Blocks behind an empty line."""
    return (None, *blocks)


def take(
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Value]],
    total: int,
    top: int,
    what: str,
    terms: Terms = LINES,
) -> Table:
    """A table of the first ``top`` rows that counts the ones left out: ``… and 412 more windows``.

    Args:
        title: What stands above it, or ``""``.
        columns: Its columns.
        rows: All rows or, where small ones are left out, fewer; only the first ``top`` are taken.
        total: How many rows there are in all.
        top: How many to show.
        what: What a row is, one of them: ``window``.
        terms: What its lines are called.
    """
    shown = tuple(tuple(row) for row in islice(rows, top))
    left = total - len(shown)
    named = tuple(replace(column, title=terms.title(column.title)) for column in columns)
    return Table(title, named, shown, f"… and {plural(left, f'more {what}')}" if left > 0 else "")


def labelled(label: str, lines: Sequence[Line], what: str, many: str = "", note: str = "") -> Iterator[Line]:
    """The first few lines below one label, and how many more there are: ``… and 3 more runs``."""
    for index, line in enumerate(lines[:MOST_NAMES]):
        yield replace(line, label=" " if index else label)
    if (left := len(lines) - MOST_NAMES) > 0:
        yield Line(f"… and {plural(left, what, many)}{note}", "hint", label=" ")


class ListOptions(Struct, frozen=True):
    """The extent of the lists of a result: rows, and the smallest block; the name that its input gives its lines; and how live blocks are grouped."""

    top: int
    min_size: int = 0
    terms: Terms = LINES
    group: str = "owner"

    def large(self, groups: Sequence[Any]) -> Sequence[Any]:
        """Those groups, or findings, whose blocks are not too small to be listed."""
        return [group for group in groups if group.size_bytes >= self.min_size] if self.min_size else groups

    def table(
        self, title: str, columns: Sequence[Column], items: Sequence[Any], what: str, total: int = 0, /, **made: Any
    ) -> Table:
        """The first of some items, a row each: in each column what is made of the item for it, else the item's attribute of its name.

        Those left out, the small ones too, are counted; there are ``total`` of them in all, if that is more than are given.
        """
        takers: list[Callable[[Any], Value]]
        takers = [made.get(column.key) or attrgetter(column.key) for column in columns]
        rows = (tuple(taker(item) for taker in takers) for item in self.large(items))
        return take(title, columns, rows, max(total, len(items)), self.top, what, self.terms)
