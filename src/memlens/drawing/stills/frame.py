"""What is around the curves of a still: its title and its words, axes in binary units, a legend; placed in points, so that nothing overlaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.backends import backend_agg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator

from memlens.text import clipped, shorten, visible, width_of
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from memlens.drawing.stills.tracks import Band

__all__ = ["STYLES", "THEMES", "Box", "Frame", "Theme", "binary_ticks", "fill", "looks", "stepped", "time_unit"]


class Theme(NamedTuple):
    """Colours.  Those of the curves are told apart by the colour-blind, and are 3:1 against the page at least."""

    page: str
    ink: str
    quiet: str
    grid: str
    band: str
    failed: str
    series: tuple[str, ...]


THEMES = {
    "light": Theme(
        *("#ffffff", "#1b1f24", "#57606a", "#dfe3e8", "#f1f4f7", "#b3001b"),
        ("#0072b2", "#c14a00", "#00805c", "#9a4f7e", "#8a6100", "#3d3d3d"),
    ),
    "dark": Theme(
        *("#14171c", "#eceff3", "#a3adb8", "#333a43", "#1c2128", "#ff6b6b"),
        ("#56b4e9", "#f08c3a", "#2bc79e", "#dc95bd", "#e6cf3a", "#d0d4d9"),
    ),
}
#: Lines that are told apart without colours: whole, dashed, dotted, both.
STYLES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (7, 1.5, 1.2, 1.5)))

#: Sizes of text in points: the title, the verdict, everything else.  Small pictures have smaller ones.
_TITLE, _WORDS, _SMALL = 13.0, 10.0, 9.0
#: The height of a line of text, in its size.
_LINE = 1.35
#: Text is measured so many times as large, and drawn at any size may be wider by so much, for pixels are whole.
_FINE, _ROUNDED = 10, 1.02
#: Lines of the verdict at most, and the share of the height that the curves have at least, if the verdict can give way.
_MOST_LINES, _CURVES = 3, 0.4
#: Bands beyond which only names are shown.
_MOST_BANDS = 80


class Box(NamedTuple):
    """A part of the picture, in points from its lower left corner."""

    x: float
    y: float
    width: float
    height: float


class Frame:
    """A figure with a title, words and a legend.

    Args:
        size: Width and height in inches.
        theme: ``light`` or ``dark``.

    Attributes:
        figure: The figure, of Matplotlib.
        theme: Its colours.
        width, height: Its size in points.
        scale: How large text and marks are beside those of a picture of usual size.
        small: The size of text in points.
        margin: Points around everything.
    """

    def __init__(self, size: tuple[float, float], theme: str) -> None:
        self.theme = THEMES[theme]
        self.width, self.height = (inches * 72 for inches in size)
        self.figure = Figure(figsize=size, dpi=72, facecolor=self.theme.page)
        self.scale = min(1.0, 0.55 + size[0] / 20, 0.55 + size[1] / 9)
        self.small, self.margin = _SMALL * self.scale, 12 * self.scale
        self._measure: Any = backend_agg.RendererAgg(1, 1, 72 * _FINE)  # type: ignore[no-untyped-call]

    @property
    def line(self) -> float:
        """The height of a line of text in points."""
        return self.small * _LINE

    def wide(self, text: str, size: float | None = None, weight: str = "normal") -> float:
        """How wide a text is, in points."""
        font = FontProperties(family=mpl.rcParams["font.family"], size=size or self.small, weight=weight)
        wide, _, _ = self._measure.get_text_width_height_descent(text, font, ismath=False)
        return float(wide) / _FINE * _ROUNDED

    def fitted(self, text: str, room: float, size: float | None = None, weight: str = "normal") -> str:
        """A text, cut in its middle until there is room for it."""
        while (is_wide := self.wide(text, size, weight)) > room and len(text) > 1:
            text = shorten(text, min(int(width_of(text) * room / is_wide), width_of(text) - 1))
        return text

    def say(self, x: float, y: float, text: str, **how: Any) -> None:
        """Put a text at a place in points from the lower left, on its baseline."""
        known: dict[str, Any] = {"color": self.theme.quiet, "fontsize": self.small, "va": "baseline"}
        self.figure.text(x / self.width, y / self.height, text, **(known | how))

    def words(self, title: str, sentences: Sequence[str], below: float) -> float:
        """The title and the verdict.

        Args:
            title: The title; text from a path is made harmless here.
            sentences: The verdict, likewise.
            below: Points that are taken below the curves.

        Returns:
            How far down they reach from the upper edge, in points.
        """
        room, size, y = self.width - 2 * self.margin, _WORDS * self.scale, self.height - self.margin
        y -= _TITLE * self.scale
        name = self.fitted(visible(clipped(title)), room, _TITLE * self.scale, "bold")
        self.say(self.margin, y, name, fontsize=_TITLE * self.scale, color=self.theme.ink, weight="bold")
        free = y - below - size - _CURVES * self.height
        most = min(int(free / (size * _LINE)), _MOST_LINES)
        for line in self.wrapped(visible(" ".join(sentences)), room, most, size):
            y -= size * _LINE
            self.say(self.margin, y, line, fontsize=size)
        return self.height - y + size * 0.9

    def wrapped(self, text: str, room: float, most: int = 1, size: float | None = None) -> list[str]:
        """A text in lines; what does not fit into the last one is left out."""
        lines: list[str] = []
        for word in text.split() if most > 0 else ():
            longer = f"{lines[-1]} {word}" if lines else word
            if lines and self.wide(longer, size) <= room:
                lines[-1] = longer
            elif len(lines) < most:
                lines.append(self.fitted(word, room, size))
            else:
                lines[-1] = _ended(lines[-1], lambda cut: self.wide(cut, size) <= room)
                break
        return lines

    def axes(self, box: Box, share: Axes | None = None) -> Axes:
        """Axes in a part of the picture, with lines across but not down.

        Args:
            box: Where.
            share: Axes above them that have the same axis of places.
        """
        place = box.x / self.width, box.y / self.height, box.width / self.width, box.height / self.height
        axes = self.figure.add_axes(place, facecolor=self.theme.page, sharex=share)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(self.theme.quiet)
        axes.tick_params(colors=self.theme.quiet, labelsize=self.small, length=3 * self.scale, width=0.8)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="y", color=self.theme.grid, linewidth=0.8)
        axes.set_axisbelow(True)
        return axes

    def label_levels(self, axes: Axes, ticks: Sequence[tuple[int, str]]) -> None:
        """Mark levels at the left."""
        axes.yaxis.set_major_locator(FixedLocator([level for level, _ in ticks]))
        axes.yaxis.set_major_formatter(FixedFormatter([label for _, label in ticks]))

    def label_places(self, axes: Axes, box: Box, name: str, unit: float, *, whole: bool) -> None:
        """Mark round places of the axis below, as many as have room for their labels.

        Args:
            axes: The axes, whose limits are set.
            box: Where they are.
            name: What the axis counts.
            unit: Places of the axis in one of these.
            whole: Only whole ones are marked.
        """
        start, end = (limit / unit for limit in axes.get_xlim())
        marks: list[tuple[float, str]] = []
        for most in range(max(int(box.width / 60), 2), 0, -1):
            found: Any = MaxNLocator(most, steps=[1, 2, 5, 10], integer=whole).tick_values(start, end)
            marks = [(place, f"{place:,.10g}") for place in found.tolist() if start <= place <= end]
            reach = max((self.wide(label) for _, label in marks), default=0.0)
            at = [box.x + (place - start) / max(end - start, 1e-9) * box.width for place, _ in marks]
            if all(two - one > reach + 12 * self.scale for one, two in pairwise(at)):
                marks = [mark for mark, x in zip(marks, at, strict=True) if x + reach / 2 < self.width - 1]
                break
        axes.xaxis.set_major_locator(FixedLocator([place * unit for place, _ in marks]))
        axes.xaxis.set_major_formatter(FixedFormatter([label for _, label in marks]))
        axes.set_xlabel(name, color=self.theme.quiet, fontsize=self.small, labelpad=2)

    def bands(self, axes: Axes, box: Box, bands: Sequence[Band], shaded: Sequence[Axes] = ()) -> None:
        """The windows of a series: every other one is shaded, and as many are named, above the axes, as there is room for.

        Args:
            axes: The axes, whose limits are set.
            box: Where they are.
            bands: The windows, in order.
            shaded: Axes below them that are shaded alike.
        """
        left, right = axes.get_xlim()
        y, free = box.y + box.height + 0.35 * self.small, 0.0
        for place, band in enumerate(bands):
            if place % 2 == 0 and len(bands) <= _MOST_BANDS:
                for one in (axes, *shaded):
                    one.axvspan(band.start, band.end, color=self.theme.band, linewidth=0, zorder=0)
            at, end = ((edge - left) / (right - left) * box.width for edge in (band.start, band.end))
            if at < free:
                continue
            name = self.fitted(visible(clipped(band.name)), max(end - at - 10, 10 * self.small))
            reach = at + 3 + self.wide(name)
            # What precedes a series is named where its name does not take the place of the first one's.
            if reach <= (end if band.name == BEFORE else box.width):
                self.say(box.x + at + 3, y, name)
                foot, tip = axes.get_xaxis_transform(), 1 + self.line / box.height
                axes.plot([band.start] * 2, [1, tip], transform=foot, color=self.theme.quiet, lw=0.8, clip_on=False)
                free = reach + 8 * self.scale

    def peak(self, axes: Axes, x: float, level: int, colour: str, gid: str | None = None) -> None:
        """A circle at a peak."""
        how: dict[str, Any] = {"mfc": self.theme.page, "mew": 1.3 * self.scale, "zorder": 5, "clip_on": False}
        axes.plot([x], [level], "o", ms=5.5 * self.scale, mec=colour, gid=gid, **how)

    def failure(self, axes: Axes, x: float, tip: float = 1.0) -> None:
        """A line up from a cross where a run is out of memory, as far as a share of the height."""
        scale, colour, foot = self.scale, self.theme.failed, axes.get_xaxis_transform()
        axes.axvline(x, 0, tip, color=colour, linewidth=scale, linestyle=":", zorder=4)
        axes.plot([x], [0], "x", transform=foot, color=colour, ms=7 * scale, mew=1.8 * scale, zorder=6, clip_on=False)

    def failure_entry(self, words: str = "out of memory") -> tuple[Any, str]:
        """What the legend says of failures."""
        mark: dict[str, Any] = {"marker": "x", "ms": 6 * self.scale, "mew": 1.6 * self.scale}
        return Line2D([], [], color=self.theme.failed, **mark), words

    def legend(self, entries: Sequence[tuple[Any, str]], below: float = 0.0) -> float:
        """A legend at the lower edge, in one row, or in columns where that is too narrow; what there is no room for is counted.

        Args:
            entries: A line, a mark or a box, and what it means; text from a path is harmless already.
            below: Points that are taken below it.

        Returns:
            How far up it reaches, and the labels of the axis above it, in points.
        """
        row, room, key = self.small * 1.6, self.width - 2 * self.margin, 42 * self.scale
        shown = [(handle, self.fitted(label, room - key)) for handle, label in entries]
        wide = [self.wide(label) + key for _, label in shown]
        columns = len(shown) if sum(wide) <= room else max(int(room / max(wide)), 1)
        if (more := len(shown) - max(int(self.height / 3 / row), 1) * columns) > 0:
            shown = [*shown[: -more - 1], (None, f"… and {more + 1} more")]
            wide = wide[: len(shown)]
        rows = -(-len(shown) // columns)
        starts = np.cumsum([0.0, *(wide if rows == 1 else [max(wide)] * columns)]).tolist()
        for place, (handle, label) in enumerate(shown):
            x, y = (
                self.margin + starts[place % columns],
                self.margin * 0.8 + below + (rows - 1 - place // columns) * row,
            )
            if handle is not None:
                self.figure.add_artist(self._placed(handle, x, y))
            self.say(x + 26 * self.scale, y, label, color=self.theme.ink)
        return below + rows * row + 2 * self.line + self.margin

    def _placed(self, handle: Any, x: float, y: float) -> Any:
        """What stands before a label: a piece of the line, a mark, or a box."""
        left, right = x / self.width, (x + 20 * self.scale) / self.width
        middle = (y + self.small * 0.36) / self.height
        if isinstance(handle, Rectangle):
            handle.set_bounds(left, y / self.height, right - left, self.small * 0.75 / self.height)
        else:
            marked = handle.get_marker() not in ("None", "", None)
            handle.set_data([(left + right) / 2] if marked else [left, right], [middle] if marked else [middle] * 2)
        handle.set_transform(self.figure.transFigure)
        return handle


def stepped(edges: NDArray[Any], levels: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The corners of a line that keeps the level of each bucket up to where the next one begins."""
    kept = np.append(True, levels[1:] != levels[:-1])
    return np.repeat(np.append(edges[:-1][kept], edges[-1]), 2)[1:-1], np.repeat(levels[kept], 2)


def fill(
    axes: Axes, edges: NDArray[Any], low: NDArray[np.int64], high: NDArray[np.int64], colour: str, alpha: float
) -> None:
    """Shade what is between two levels of each bucket."""
    (up, tops), (down, floors) = stepped(edges, high), stepped(edges, low)
    corners = np.append(up, down[::-1]), np.append(tops, floors[::-1])
    axes.fill(*corners, facecolor=colour, alpha=alpha, linewidth=0)


def looks(theme: Theme, place: int) -> tuple[str, Any]:
    """The colour and the style of one of several lines; no two of the first 24 look alike."""
    colours = len(theme.series)
    return theme.series[place % colours], STYLES[(place + place // colours) % len(STYLES)]


def _ended(line: str, fits: Callable[[str], bool]) -> str:
    """A line with dots at its end, without as many of its last words as these need."""
    words = line.split()
    while words and not fits(f"{' '.join(words)} …"):
        words.pop()
    return f"{' '.join(words)} …"


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit of an axis of time that has so many seconds: itself in seconds, and its name."""
    if seconds < 0.2:
        return 1e-3, "milliseconds"
    if seconds < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds < 3 * 3600 else (3600.0, "hours")


def binary_ticks(floor: int, high: int, most: int = 7) -> list[tuple[int, str]]:
    """Levels to mark between two others, a power of two apart, with how they are written: all in the unit of the largest.

    Args:
        floor: The lowest level, at most 0.
        high: The highest level.
        most: How many there are at most, beside 0.
    """
    step = 1
    while (high - floor) // step > most:
        step *= 2
    levels = [level * step for level in range(-(-floor // step), high // step + 1)]
    unit = 0
    while unit < 6 and max(map(abs, levels)) >= 1024 ** (unit + 1):
        unit += 1
    name = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")[unit]
    return [(level, f"{level / 1024**unit:g} {name}" if level else "0") for level in levels]
