"""Two runs compared, drawn: both curves over one axis, the lives of the blocks that the diff names, and the difference below."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D

from memlens.drawing.stills.frame import Box, Frame, binary_ticks, fill, looks, stepped
from memlens.text import clipped, visible
from memlens.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from memlens.drawing.stills.runs import Found, Runs

__all__ = ["Compared"]

_SIDES = ("base", "head")
#: The share of the height of the curves that the difference has.
_DIFFERENCE = 0.34


class Compared:
    """Two runs in a frame.

    Args:
        frame: What is around them.
        title: The title; text from a path.
        sentences: The verdict.
        runs: The runs.
    """

    def __init__(self, frame: Frame, title: str, sentences: Sequence[str], runs: Runs) -> None:
        self.frame, self.runs, self.theme = frame, runs, frame.theme
        found = runs.found[: max(min(int((frame.height - 290 * frame.scale) / (2.6 * frame.line)), len(runs.found)), 1)]
        notes = len(found) * frame.line + (0.6 * frame.line if found else 0)
        bottom = frame.legend([*self._entries()], notes)
        for place, one in enumerate(found):
            y = frame.margin * 0.8 + (len(found) - 1 - place) * frame.line
            self._number(place, frame.margin + 0.5 * frame.small, y + 0.35 * frame.small)
            room = frame.width - 2 * frame.margin - 1.6 * frame.small
            frame.say(frame.margin + 1.6 * frame.small, y, frame.wrapped(one.words, room)[0], color=self.theme.ink)
        strip = frame.line if runs.bands else 0.0
        lives = len(found) * 1.15 * frame.line + (0.8 * frame.line if found else 0.5 * frame.line)
        top = frame.words(title, sentences, bottom + strip + lives) + strip
        high = frame.height - top - bottom - lives
        curves = runs.curves
        floor, most = int(min(curves.base_low.min(), curves.head_low.min(), 0)), max(runs.peaks)
        low, peak = int(min(curves.low.min(), 0)), int(max(curves.high.max(), 0))
        below = _DIFFERENCE * high
        levels = binary_ticks(floor, most, self._room(high - below))
        apart = [(level, f"+{label}" if level > 0 else label) for level, label in binary_ticks(low, peak, min(self._room(below), 3))]  # fmt: skip
        left = frame.margin + max(frame.wide(label) for _, label in [*levels, *apart]) + 8 * frame.scale
        wide = frame.width - left - 1.5 * frame.margin
        box = Box(left, bottom + below + lives, wide, high - below)
        axes = frame.axes(box)
        difference = frame.axes(Box(left, bottom, wide, below), axes)
        axes.set_xlim(0, max(float(curves.edges[-1]), 1))
        self._limit(axes, floor, most)
        self._limit(difference, low, peak)
        axes.tick_params(axis="x", length=0, labelbottom=False)
        frame.label_levels(axes, levels)
        frame.label_levels(difference, apart)
        frame.bands(axes, box, runs.bands, [difference])
        frame.label_places(difference, box, "events of both runs, side by side where they do the same", 1.0, whole=True)
        self._levels(axes)
        self._difference(difference)
        self._lives(Box(left, bottom + below, wide, lives), found)

    def _room(self, height: float) -> int:
        """How many ticks there are at most in a height."""
        return max(min(int(height / (2.2 * self.frame.small)), 7), 1)

    def _limit(self, axes: Axes, low: int, high: int) -> None:
        span = max(high - low, 1)
        axes.set_ylim(low - (span * 0.06 if low < 0 else 0), high + span * 0.08)

    def _entries(self) -> Iterator[tuple[Any, str]]:
        """The legend."""
        frame, runs = self.frame, self.runs
        for place, side in enumerate(_SIDES):
            colour, style = looks(self.theme, place)
            tail = f": peak {format_bytes(runs.peaks[place])}{', out of memory' if runs.failures[place] else ''}"
            room = max(frame.width - 2 * frame.margin - 50 * frame.scale - frame.wide(side + tail), 40)
            line = Line2D([], [], color=colour, linestyle=style, linewidth=1.8 * frame.scale)
            yield line, f"{side} {frame.fitted(visible(clipped(runs.names[place])), room)}{tail}"
        if any(runs.failures):
            yield frame.failure_entry()

    def _levels(self, axes: Axes) -> None:
        """Both curves, their peaks and their failures."""
        curves, scale = self.runs.curves, self.frame.scale
        for place, (side, peak, failed) in enumerate(zip(_SIDES, self.runs.peaks, self.runs.failures, strict=True)):
            colour, style = looks(self.theme, place)
            low, high = getattr(curves, f"{side}_low"), getattr(curves, f"{side}_high")
            if (low != high).any():
                fill(axes, curves.edges, low, high, colour, 0.2)
            (line,) = axes.plot(*stepped(curves.edges, high))
            line.set(color=colour, linestyle=style, linewidth=1.3 * scale, gid=side)
            if peak > 0:
                self.frame.peak(axes, float(curves.edges[int(high.argmax())]), peak, colour)
            for slot in failed:
                self.frame.failure(axes, slot)

    def _difference(self, axes: Axes) -> None:
        """Head less base: in head's colour where head has more, in base's where base has."""
        curves = self.runs.curves
        for place, levels in ((1, curves.high.clip(0)), (0, curves.low.clip(None, 0))):
            colour, _ = looks(self.theme, place)
            fill(axes, curves.edges, np.zeros_like(levels), levels, colour, 0.35)
            if levels.any():
                (line,) = axes.plot(*stepped(curves.edges, levels))
                line.set(color=colour, linewidth=1.1 * self.frame.scale, gid=f"difference-{_SIDES[place]}")
        axes.axhline(0, color=self.theme.quiet, linewidth=1.2, zorder=3)

    def _lives(self, box: Box, found: Sequence[Found]) -> None:
        """A row a finding: bars from ALLOC to FREE, base's above head's; an arrow where a block is not freed on the axis."""
        frame, slots = self.frame, max(float(self.runs.curves.edges[-1]), 1.0)
        row = 1.15 * frame.line
        for place, one in enumerate(found):
            y = box.y + box.height - (place + 1) * row - 0.1 * frame.line
            start = min((life.start for life in one.lives), default=0)
            self._number(place, box.x + start / slots * box.width - 0.75 * frame.small, y)
            for side, name in enumerate(_SIDES):
                lives = [life for life in one.lives if life.side == name]
                level = (y + (0.22, -0.22)[side] * frame.small) / frame.height
                ends = [[(box.x + slot / slots * box.width) / frame.width for slot in (life.start, life.end)] for life in lives]  # fmt: skip
                bars = [end for both in ends for end in (*both, np.nan)]
                how: dict[str, Any] = {"color": looks(self.theme, side)[0], "transform": frame.figure.transFigure}
                self._add(bars, level, linewidth=2.4 * frame.scale, solid_capstyle="butt", gid=f"life-{place + 1}-{name}", **how)  # fmt: skip
                for marker, freed in (("|", True), (">", False)):
                    tips = [end for (_, end), life in zip(ends, lives, strict=True) if life.freed == freed]
                    self._add(tips, level, marker=marker, linestyle="", markersize=5 * frame.scale, **how)

    def _add(self, across: Sequence[float], level: float, **how: Any) -> None:
        """A line, or marks, at one height of the picture."""
        if across:
            self.frame.figure.add_artist(Line2D(across, [level] * len(across), **how))

    def _number(self, place: int, x: float, y: float) -> None:
        """The number of a finding in a circle around a place in points."""
        frame = self.frame
        how: dict[str, Any] = {"marker": "o", "ms": 1.15 * frame.small, "mec": "none", "mfc": self.theme.ink}
        spot = Line2D([x / frame.width], [y / frame.height], linestyle="", zorder=6, **how)
        spot.set_transform(frame.figure.transFigure)
        frame.figure.add_artist(spot)
        size = 0.75 * frame.small
        frame.say(x, y - 0.36 * size, str(place + 1), ha="center", fontsize=size, color=self.theme.page, weight="bold", zorder=7)  # fmt: skip
