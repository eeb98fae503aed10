"""Levels as a picture of characters: a timeline of a few rows, and sparklines for the rows of a table.

Drawn here and not by a library for plots: those sample or average what does not fit, so that a peak of one event is lost, and none keeps
its marks, its labels and its fallback to ASCII in one width.  A column stands for a stretch of events and shows its highest level.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.text import Terms, format_bytes, plural, short_name, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memlens.analyzers.series.curve import Curve
    from memlens.columns import Ints
    from memlens.reports.blocks import Picture


#: Columns of a picture where the output has no width of its own.
USUAL_WIDTH = 80

#: Columns that it has at least, whatever the width.
_NARROWEST = 20
#: Blanks between two words below the axis.
_APART = 2


class _Signs(NamedTuple):
    """The characters that a picture is drawn with."""

    parts: str  # of a cell that is filled from below, from nothing to all of it
    band: str  # between the lowest and the highest level
    reserved: str  # a line low, in the middle and high in a cell
    side: str
    level: str
    corner: str
    axis: str
    step: str
    peak: str
    failed: str


_UNICODE = _Signs(" ▁▂▃▄▅▆▇█", "▒", "_─▔", "│", "┤", "└", "─", "┴", "▲", "✗")
_ASCII = _Signs(" .:#", "=", "_-~", "|", "+", "+", "-", "+", "^", "X")


def sparkline(values: Sequence[int] | Ints, width: int, *, high: int | None = None) -> str:
    """Values as one row of characters, each of which shows the highest of its share of them; for a column of words in a table.

    Args:
        values: The values, in order; none give blanks.
        width: Characters.
        high: What a full character stands for, so that several rows can have one scale; by default the highest value.
    """
    if not len(values):
        return " " * width
    levels = np.asarray(values, np.int64)
    tops = np.maximum.reduceat(levels, _first_of_each(len(levels), width))
    heights = _heights(tops, 0, int(levels.max()) if high is None else high, len(_UNICODE.parts) - 1)
    return "".join(_UNICODE.parts[height] for height in heights.tolist())


def draw(picture: Picture, width: int, *, ascii_only: bool = False) -> Iterator[list[tuple[str, str]]]:
    """A timeline as lines of texts that are safe to show, each with a style; none wider than ``width``, if that is 40 or more.

    Args:
        picture: What to draw.
        width: Columns.
        ascii_only: Take characters of ASCII alone.
    """
    curve, rows, signs = picture.curve, picture.rows, _ASCII if ascii_only else _UNICODE
    low, high, reserved = curve.low_bytes, curve.high_bytes, curve.reserved_bytes
    peak, top, floor = int(high.max()), int(max(high.max(), reserved.max())), int(min(low.min(), 0))
    zero, at_peak, at_top = map(format_bytes, (floor, peak, top))
    label = max(map(width_of, (zero, at_peak, at_top)))
    columns = max(width - label - 2, _NARROWEST)
    begins = _first_of_each(len(curve), columns)
    folds = (np.minimum, low), (np.maximum, high), (np.maximum, reserved)
    levels = [fold.reduceat(part, begins) for fold, part in folds]
    full = len(signs.parts) - 1
    lows, highs = (_heights(part, floor, top, rows * full) for part in levels[:2])
    lines = _heights(levels[2], floor, top, rows * len(signs.reserved))
    steps = _columns([event for event, _ in curve.steps], begins, curve)
    failures = _columns(curve.failures, begins, curve)
    first = int(curve.edges[0]) if curve.peak_event is None else curve.peak_event
    labels = {rows - 1: at_top} | ({(int(highs.max()) - 1) // full: at_peak} if peak > 0 else {})

    drawn = [_cells(signs, row, lows, highs, lines) for row in range(rows)]
    used = set().union(*drawn)
    yield [(" " * (label + 2), ""), *_caption(signs, used, curve, columns)]
    for row in reversed(range(rows)):
        text = labels.get(row, "")
        yield [
            (f"{text:>{label}} {signs.level if text else signs.side}", "dim"),
            *_runs(
                ("dim" if sign in signs.reserved else "red" if at in failures else "", sign)
                for at, sign in enumerate(drawn[row])
            ),
        ]
    last = picture.terms.at(curve.end_line)
    named = _named(steps, curve, picture.terms, columns - width_of(last))
    # Where steps crowd, those are marked that are named.
    ticks = steps if len(set(steps)) * 3 <= columns else [column for column, _ in named if column]
    axis = [("dim", signs.axis)] * columns
    for at, style, sign in (  # of two marks in one column the graver one stands there
        (ticks, "dim", signs.step),
        (_columns([first], begins, curve) if peak > 0 else [], "bold", signs.peak),
        (failures, "bold red", signs.failed),
    ):
        for column in at:
            axis[column] = style, sign
    yield [(f"{zero:>{label}} {signs.corner}", "dim"), *_runs(axis)]
    words = ""
    for column, name in (*named, (columns - width_of(last), last)):
        words += " " * (column - width_of(words)) + name
    yield [(" " * (label + 2) + words, "dim")]


def _columns(events: Sequence[int], begins: Ints, curve: Curve) -> list[int]:
    """The first column of the bucket of each event."""
    buckets = curve.edges[:-1].searchsorted(np.asarray(events, np.int64), "right") - 1
    shown = begins[begins.searchsorted(np.maximum(buckets, 0), "right") - 1]
    found: list[int] = begins.searchsorted(shown).tolist()
    return found


def _first_of_each(count: int, columns: int) -> Ints:
    """Which of some values each column begins with; where there are fewer values than columns, some begin with the same one."""
    return np.arange(columns, dtype=np.int64) * count // columns


def _heights(levels: Ints, floor: int, top: int, full: int) -> Ints:
    """Levels in parts of ``full``, int64: what is above the floor shows."""
    share = (levels - float(floor)) / max(float(top) - floor, 1.0)
    heights: Ints = np.clip(np.rint(share * full), levels > floor, full).astype(np.int64)
    return heights


def _cells(signs: _Signs, row: int, lows: Ints, highs: Ints, lines: Ints) -> list[str]:
    """One row of the picture, counted from the bottom."""
    full, thirds = len(signs.parts) - 1, len(signs.reserved)
    cells = []
    for low, high, line in zip(
        (lows - row * full).tolist(), (highs - row * full).tolist(), (lines - row * thirds).tolist(), strict=True
    ):
        if high <= 0:
            cells.append(signs.reserved[line - 1] if 0 < line <= thirds else " ")
        elif high < full:
            cells.append(signs.parts[high])
        elif 2 * low < full and high - low >= full:
            cells.append(signs.band)
        else:
            cells.append(signs.parts[-1])
    return cells


def _caption(signs: _Signs, used: set[str], curve: Curve, columns: int) -> Iterator[tuple[str, str]]:
    """The legend of the signs that are there, as far as there is room."""
    parts = [
        (signs.parts[-1], "allocated", bool(curve.high_bytes.any())),
        (signs.reserved[1], "reserved", bool(curve.reserved_bytes.any())),
        (signs.peak, "peak", bool(curve.high_bytes.max() > 0)),
        (signs.failed, "out of memory", bool(curve.failures)),
        (signs.band, "at times", signs.band in used),
        ("", f"over {plural(int(curve.edges[-1] - curve.edges[0]), 'event')}", True),
    ]
    taken = 0
    for sign, word, there in parts:
        text = f"{'  ' if taken else ''}{sign} {word}" if sign else f"  {word}"
        if there and taken + width_of(text) <= columns:
            taken += width_of(text)
            yield text, "red" if sign == signs.failed else "dim"


def _runs(cells: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Neighbouring cells of one style together, given each with its style in front."""
    for style, run in groupby(cells, key=itemgetter(0)):
        yield "".join(cell for _, cell in run), style


def _named(columns: Sequence[int], curve: Curve, terms: Terms, end: int) -> list[tuple[int, str]]:
    """The first line and as many names of steps as there is room for before a column, each with the column that it stands at."""
    steps = [(column, short_name(name)) for column, (_, name) in zip(columns, curve.steps, strict=True)]
    first = terms.at(curve.start_line)
    if not steps or steps[0][0] > width_of(first) + _APART:
        steps.insert(0, (0, first))
    named, free = [], 0
    for column, name in steps:
        if free <= column and column + width_of(name) + _APART <= end:
            named.append((column, name))
            free = column + width_of(name) + _APART
    return named
