"""Stills by Matplotlib: tracks as a figure, and the figure as a file.

Nothing here touches ``matplotlib.pyplot``, whose figures are global, nor heeds a ``matplotlibrc``: the same data gives the same file.  Text of a
log is text: no formula is looked for in it, and what would act instead of showing was made visible before
(:func:`memlens.text.visible`).
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from memlens.drawing.stills.compared import Compared
from memlens.drawing.stills.frame import STYLES, Box, Frame, binary_ticks, fill, looks, stepped, time_unit
from memlens.text import clipped, format_exact, plural, visible
from memlens.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from memlens.drawing.stills.runs import Runs
    from memlens.drawing.stills.tracks import Track

__all__ = ["FORMS", "Still", "draw", "render"]

#: What a still can be written as.
FORMS = ("svg", "png", "pdf")
#: What a file says beyond what it shows: nothing but its title.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
_PATH, _FRACTION = re.compile(rb'(<path [^>]*?\bd=")([^"]*)'), re.compile(rb"(\.\d\d)\d+")
_SETTINGS: dict[Any, Any] = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "memlens",
    "text.parse_math": False,
}


@dataclass(frozen=True, eq=False)
class Still:
    """What a still shows.

    Attributes:
        title: Its title; text from a path.
        sentences: The verdict.
        tracks: The logs; one is drawn with all that is known of it, several are laid over each other.
        axis: What the axis counts, ``events`` or ``time``.
        size: Width and height in inches.
        theme: ``light`` or ``dark``.
        runs: Two runs compared; there are no tracks then.
    """

    title: str
    sentences: tuple[str, ...]
    tracks: tuple[Track, ...]
    axis: str = "events"
    size: tuple[float, float] = (10.0, 5.0)
    theme: str = "light"
    runs: Runs | None = None


def render(still: Still, form: str, dpi: int) -> bytes:
    """A still as a file; the same one gives the same bytes.

    Args:
        still: What to draw.
        form: One of :data:`FORMS`.
        dpi: Pixels an inch of a PNG.
    """
    title = {} if form == "png" else {"Title": visible(still.title)}
    out = io.BytesIO()
    with _settings():
        draw(still).savefig(out, format=form, dpi=dpi, metadata=_METADATA[form] | title)
    if form != "svg":
        return out.getvalue()
    # A hundredth of a point is enough; text has no such element, for what looks like one is escaped in it.
    return _PATH.sub(lambda path: path[1] + _FRACTION.sub(rb"\1", path[2]), out.getvalue())


@contextmanager
def _settings() -> Iterator[None]:
    """Matplotlib's own settings, whatever the user's are, and those that make a file say no more than what it shows."""
    own: dict[Any, Any] = {name: value for name, value in mpl.rcParamsDefault.items() if "backend" not in name}
    with mpl.rc_context(own | _SETTINGS), warnings.catch_warnings():
        # A character that the font lacks is a box in a PNG; in an SVG the text is text.
        warnings.filterwarnings("ignore", "Glyph")
        yield


def draw(still: Still) -> Figure:
    """A still as a figure of Matplotlib, which no backend knows of yet."""
    with _settings():
        frame = Frame(still.size, still.theme)
        if still.runs is not None:
            Compared(frame, still.title, still.sentences, still.runs)
            return frame.figure
        return (_One(frame, still) if len(still.tracks) == 1 else _Several(frame, still)).frame.figure


class _Drawing:
    """Tracks in a frame.

    Attributes:
        frame: What is around the curves.
        box: Where the curves are.
        axes: Their axes.
    """

    def __init__(self, frame: Frame, still: Still) -> None:
        self.frame, self.tracks, self.theme = frame, still.tracks, frame.theme
        bottom = frame.legend([*self._entries()])
        strip = frame.line if any(track.bands for track in self._banded()) else 0.0
        high = frame.height - frame.words(still.title, still.sentences, bottom + strip) - strip - bottom
        floor, top = min(track.floor_bytes for track in self.tracks), max(track.top_bytes for track in self.tracks)
        ticks = binary_ticks(floor, top, max(min(int(high / (2.2 * frame.small)), 7), 1))
        left = frame.margin + max(frame.wide(label) for _, label in ticks) + 8 * frame.scale
        self.box = Box(left, bottom, frame.width - left - 1.5 * frame.margin, high)
        self.axes = frame.axes(self.box)
        frame.label_levels(self.axes, ticks)
        # Above the highest level there is room for a line of text.
        span, line = max(top - floor, 1), 2.2 * frame.small
        self.axes.set_ylim(floor - (span * 0.03 if floor < 0 else 0), top + span * line / max(high - line, line))
        start, end = (min(track.x[0] for track in self.tracks), max(track.x[-1] for track in self.tracks))
        self.axes.set_xlim(start, max(end, start + 1e-6))
        unit, name = time_unit(end - start) if still.axis == "time" else (1.0, still.axis)
        name = f"{name} from the first event on" if still.axis == "time" else name
        frame.label_places(self.axes, self.box, name, unit, whole=still.axis == "events")
        self._curves()

    def _banded(self) -> Sequence[Track]:
        """The tracks whose windows are shown."""
        return ()

    def _entries(self) -> Iterator[tuple[Any, str]]:
        """The legend."""
        raise NotImplementedError

    def _curves(self) -> None:
        raise NotImplementedError

    def level(self, track: Track, colour: str, style: Any, gid: str, below: float, between: float) -> None:
        """The allocated level: a line along the highest levels, and what is between them and the lowest; chunks where no block is logged."""
        low, high = track.low_bytes, track.high_bytes
        if not track.tells_of_blocks:
            low = high = track.reserved_bytes
        if below:
            fill(self.axes, track.x, np.zeros_like(low), low, colour, below)
        if (low != high).any():
            fill(self.axes, track.x, low, high, colour, between)
        (line,) = self.axes.plot(*stepped(track.x, high))
        line.set(color=colour, linestyle=style, linewidth=1.2 * self.frame.scale, gid=gid, solid_joinstyle="miter")

    def failures(self, track: Track) -> None:
        """The failures, each up to where the peak is named."""
        for x, _ in track.failures:
            self.frame.failure(self.axes, x, 1 - 2.2 * self.frame.small / self.box.height)

    def circle(self, track: Track, colour: str) -> None:
        """The peak."""
        if track.peak is not None and track.tells_of_blocks:
            self.frame.peak(self.axes, track.peak.x, track.peak.bytes, colour, "peak")


class _One(_Drawing):
    """One log: the area that is allocated, what is reserved, the peak, the failures and the windows of a series."""

    def _banded(self) -> Sequence[Track]:
        return self.tracks

    def _entries(self) -> Iterator[tuple[Any, str]]:
        (track,), (colour, other, *_) = self.tracks, self.theme.series
        scale = self.frame.scale
        if track.tells_of_blocks:
            yield Rectangle((0, 0), 0, 0, facecolor=(colour, 0.3), edgecolor=colour, linewidth=1.2 * scale), "allocated"
        if track.tells_of_chunks:
            most = format_bytes(int(track.reserved_bytes.max()))
            line = Line2D([], [], color=other, linestyle=STYLES[1], linewidth=1.5 * scale)
            yield line, f"reserved, at most {most}"
        if failed := track.failures:
            many = f" ({plural(len(failed), 'time')})" if len(failed) > 1 else f" at {track.terms.at(failed[0][1])}"
            yield self.frame.failure_entry(f"out of memory{many}")

    def _curves(self) -> None:
        (track,) = self.tracks
        self.frame.bands(self.axes, self.box, track.bands)
        if track.tells_of_chunks:
            (line,) = self.axes.plot(*stepped(track.x, track.reserved_bytes))
            line.set(color=self.theme.series[1], linestyle=STYLES[1], linewidth=1.5 * self.frame.scale, gid="reserved")
        if track.tells_of_blocks:
            self.level(track, self.theme.series[0], "-", "allocated", 0.22, 0.55)
        self.failures(track)
        if track.peak is not None and track.tells_of_blocks:
            self._peak(track)

    def _peak(self, track: Track) -> None:
        """The peak, and its figure above the highest level, on the side where there is room."""
        assert track.peak is not None
        frame, box = self.frame, self.box
        x, level, line = track.peak.x, track.peak.bytes, track.peak.line
        where = "" if line is None else f", {track.terms.at(line)}"
        words = [f"peak {format_exact(level)}{where}", f"peak {format_bytes(level)}{where}", format_bytes(level)]
        said = next((text for text in words if frame.wide(text) <= box.width), words[-1])
        (left, right), (floor, high) = self.axes.get_xlim(), self.axes.get_ylim()
        half, at = frame.wide(said) / 2, (x - left) / (right - left) * box.width
        above = box.height - 1.4 * frame.small
        foot = floor + (high - floor) * (above - 0.25 * frame.small) / box.height
        self.axes.plot([x, x], [level, foot], color=self.theme.ink, lw=0.8 * frame.scale, zorder=4)
        self.circle(track, self.theme.ink)
        middle = min(max(at, half), max(box.width - half, half))
        frame.say(box.x + middle, box.y + above, said, ha="center", color=self.theme.ink)


class _Several(_Drawing):
    """Several logs, laid over each other."""

    def _entries(self) -> Iterator[tuple[Any, str]]:
        frame = self.frame
        for place, track in enumerate(self.tracks):
            colour, style = looks(self.theme, place)
            said = f"{format_bytes(int(track.reserved_bytes.max()))} reserved"
            if track.tells_of_blocks:
                said = "nothing allocated" if track.peak is None else f"peak {format_bytes(track.peak.bytes)}"
            tail = f": {said}{', out of memory' if track.failures else ''}"
            room = max(frame.width - 2 * frame.margin - 42 * frame.scale - frame.wide(tail), 40)
            line = Line2D([], [], color=colour, linestyle=style, linewidth=1.8 * frame.scale)
            yield line, frame.fitted(visible(clipped(track.name)), room) + tail
        if any(track.failures for track in self.tracks):
            yield frame.failure_entry()

    def _curves(self) -> None:
        for place, track in enumerate(self.tracks):
            colour, style = looks(self.theme, place)
            self.level(track, colour, style, f"allocated-{place}", 0.0, 0.2)
            self.failures(track)
            self.circle(track, colour)
