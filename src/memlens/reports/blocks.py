"""What a report for people is made of: lines, key figures, tables and quoted log lines, before anything decides how they look.

A *screen* builds blocks from results, and a *form* (terminal, Markdown) shows blocks.  Neither knows the other, so that a
new form shows every result there is, and a new result shows in every form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeAlias

from memlens.reports.place_words import place_title
from memlens.reports.text import plural

__all__ = ["Block", "Column", "Excerpt", "Figure", "Figures", "Fold", "Line", "Quoted", "Table", "Value", "take"]

Value: TypeAlias = "int | str | None"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        key: Its name in machine output and for ``--sort``.
        title: Its heading.
        kind: ``name`` is text from a log; ``word`` is text of memlens; the others are integers and how to write them.
        drop: Which columns a narrow terminal leaves out first: the largest number; 0 stays always.
        strong: A key figure.
    """

    key: str
    title: str
    kind: Literal["name", "word", "bytes", "signed", "count", "duration"]
    drop: int = 0
    strong: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it holds figures: aligned right, never cut."""
        return self.kind not in ("name", "word")


@dataclass(frozen=True)
class Table:
    """Rows of exact values, largest or first in front; ``more`` says what was left out."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    more: str = ""


@dataclass(frozen=True)
class Figure:
    """A key figure with its label and a remark: ``Peak   10.12 MiB  allocated, at line 12``."""

    label: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Figures:
    """Key figures, one a line."""

    rows: tuple[Figure, ...]


@dataclass(frozen=True)
class Line:
    """A line of text.

    Attributes:
        text: Words of memlens.
        style: ``heading``, ``good``, ``doubt``, ``hint``, ``quiet`` or ``plain``.
        name: Text from a log or a file name that stands in front of ``text``.
        label: A word in front of both, in the column of the labels of key figures.
    """

    text: str
    style: Literal["heading", "good", "doubt", "hint", "quiet", "plain"] = "plain"
    name: str = ""
    label: str = ""


@dataclass(frozen=True)
class Quoted:
    """A line of a log as it stands there.

    Attributes:
        line: Its 1-based number.
        text: Text from the log.
        marked: It is what the others are shown for.
    """

    line: int
    text: str
    marked: bool = False


@dataclass(frozen=True)
class Excerpt:
    """Some lines of a log, in their order."""

    title: str
    lines: tuple[Quoted, ...]


@dataclass(frozen=True)
class Fold:
    """Blocks that a form which can fold shows folded; the others show them as they are.

    Attributes:
        summary: What is in it: words of memlens, never text from a log.
        blocks: What is folded.
    """

    summary: str
    blocks: tuple[Block, ...]


#: ``None`` is an empty line between two parts.
Block: TypeAlias = "Line | Figures | Table | Excerpt | Fold | None"


def take(
    title: str, columns: Sequence[Column], rows: Iterable[Sequence[Value]], total: int, top: int, what: str
) -> Table:
    """A table of the first ``top`` rows that counts the ones left out: ``… and 412 more windows``.

    Args:
        title: What stands above it, or ``""``.
        columns: Its columns.
        rows: All rows or, where small ones are left out, fewer; only the first ``top`` are taken.
        total: How many rows there are in all.
        top: How many to show.
        what: What a row is, one of them: ``window``.
    """
    shown = tuple(tuple(row) for row in islice(rows, top))
    left = total - len(shown)
    named = tuple(replace(column, title=place_title(column.title)) for column in columns)
    return Table(title, named, shown, f"… and {plural(left, f'more {what}')}" if left > 0 else "")
