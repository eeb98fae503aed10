"""Stills by Matplotlib: the levels of runs as small multiples with one scale, and the figure as a file.

Nothing here touches ``matplotlib.pyplot``, whose figures are global, nor heeds a ``matplotlibrc``: the same data gives the same file.  Text of a
log is text: no formula is looked for in it, and what would act instead of showing was made visible before
(:func:`memlens.text.visible`).
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, MaxNLocator
from msgspec import Struct

from memlens.text import clipped, shorten, visible, width_of
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from memlens.drawing.tracks import Area, Track

    Theme = dict[str, str]

#: What a still can be written as, and what such a file says beyond what it shows: nothing but its title.
FORMS: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_INK, _DARK = (
    re.compile(r"--([\w-]+): (#\w{6});"),
    re.compile(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{.*?\}", re.DOTALL),
)
_AXES = {"events": "events", "slots": "events, those that both runs have at one place"}
_PATH, _FRACTION = re.compile(rb'(<path [^>]*?\bd=")([^"]*)'), re.compile(rb"(\.\d\d)\d+")
#: Panels of one column, and bands beyond which only names are shown.
_ROWS, _MOST_BANDS = 8, 80
#: Sizes of text and what is around everything in points; what text may be wider by than was measured.
_TITLE, _WORDS, _SMALL, _MARGIN, _ROUNDED = 12.0, 9.5, 8.5, 10.0, 1.02
_MEASURE: Any = RendererAgg(1, 1, 720)  # type: ignore[no-untyped-call]


@cache
def inks(theme: str) -> dict[str, str]:
    """The colours of a theme by their names in ``viewer.css``, which has a dark one of some."""
    style = resources.files("memlens.drawing").joinpath("viewer", "viewer.css").read_text("utf-8")
    light, dark = _DARK.sub("", style), "".join(_DARK.findall(style))
    return dict(_INK.findall(light + dark if theme == "dark" else light))


class Still(Struct, frozen=True, eq=False):
    """The contents of a still.

    Attributes:
        title: Its title; text from a path.
        sentences: The verdict.
        tracks: The runs, a panel each.
        axis: What the axis counts: ``events``, ``time``, or ``slots``, the events of two runs.
        size: Width and height in inches.
        theme: ``light`` or ``dark``.
    """

    title: str
    sentences: tuple[str, ...]
    tracks: tuple[Track, ...]
    axis: str = "events"
    size: tuple[float, float] = (10.0, 5.0)
    theme: str = "light"


def render(still: Still, form: str, dpi: int) -> bytes:
    """A still as a file; the same one gives the same bytes.

    Args:
        still: What to draw.
        form: One of :data:`FORMS`.
        dpi: Pixels an inch of a PNG.
    """
    title = {} if form == "png" else {"Title": visible(still.title)}
    out = io.BytesIO()
    with _settings(inks(still.theme)):
        draw(still).savefig(out, format=form, dpi=dpi, metadata=FORMS[form] | title)
    if form != "svg":
        return out.getvalue()
    # A hundredth of a point is enough; text has no such element, for what looks like one is escaped in it.
    return _PATH.sub(lambda path: path[1] + _FRACTION.sub(rb"\1", path[2]), out.getvalue())


@contextmanager
def _settings(theme: Theme) -> Iterator[None]:
    """Matplotlib's own settings, whatever the user's are, and those of a still: lines across but not down, and no more in a file than it shows."""
    own: dict[Any, Any] = {name: value for name, value in mpl.rcParamsDefault.items() if "backend" not in name}
    own |= dict.fromkeys(("figure.facecolor", "savefig.facecolor", "axes.facecolor"), theme["back"])
    own |= dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), theme["quiet"])
    own |= dict.fromkeys(("axes.titlecolor", "legend.labelcolor"), theme["text"]) | {"grid.color": theme["line"]}
    own |= dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize"), _SMALL)
    own |= dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), _SMALL) | {"figure.dpi": 72}
    own |= dict.fromkeys(("axes.spines.top", "axes.spines.right", "axes.spines.left", "legend.frameon"), False)
    own |= {"axes.grid": True, "axes.grid.axis": "y", "axes.axisbelow": True, "ytick.major.size": 0}
    own |= {"axes.titlelocation": "left", "axes.titlepad": 3, "axes.labelpad": 2, "font.family": ["sans-serif"]}
    own |= {"font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"], "text.parse_math": False, "pdf.fonttype": 42}
    own |= {"svg.fonttype": "none", "svg.hashsalt": "memlens"}
    with mpl.rc_context(own), warnings.catch_warnings():
        # A character that the font lacks is a box in a PNG; in an SVG the text is text.
        warnings.filterwarnings("ignore", "Glyph")
        yield


def draw(still: Still) -> Figure:
    """A still as a figure of Matplotlib, which no backend knows of yet."""
    theme, tracks = inks(still.theme), still.tracks
    with _settings(theme):
        figure = Figure(figsize=still.size, layout="constrained")
        rows, columns = grid(len(tracks))
        width, height = (72 * inches for inches in still.size)
        head, edge = _words(figure, still, rows), _MARGIN / width
        layout: Any = figure.get_layout_engine()
        layout.set(rect=(edge, 0, 1 - 2 * edge, 1 - head / height), w_pad=0, h_pad=0.04, hspace=0, wspace=0.02)
        signed = {track.signed for track in tracks}
        heights = [0.75 if track.signed else 1.0 for track in tracks[::columns]]
        shared: Any = {"sharex": True, "sharey": len(signed) == 1, "height_ratios": heights}
        panels = figure.subplots(rows, columns, squeeze=False, **shared).ravel().tolist()
        start, end = min(track.x[0] for track in tracks), max(track.x[-1] for track in tracks)
        unit, name = time_unit(end - start) if still.axis == "time" else (1.0, _AXES[still.axis])
        # What is around a panel: its title, and for all of them the axis and the legend below.
        across, line = width / columns - 7 * _SMALL, 1.6 * _SMALL
        entries: dict[str, Any] = {}
        for place, (axes, track) in enumerate(zip(panels, tracks, strict=False)):
            made = _levels(axes, track, unit, f"-{place}" if place else "", theme)
            entries |= {name: one for name, one in made.items() if name not in entries}
            axes.set_title(_named(track, across))
            if place + columns >= len(tracks):
                axes.set_xlabel(name)
                axes.tick_params(labelbottom=True)
        for left_over in panels[len(tracks) :]:
            left_over.remove()
        # At most a quarter of the height, in columns as narrow as that needs.
        least = -(-len(entries) // max(int(height / 4 / line), 1))
        names = [_fitted(name, min(width / 3, width / least - 4 * _SMALL)) for name in entries]
        beside = max(int(width / (max(map(_wide, names), default=0) + 4 * _SMALL)), least)
        spread = {"handlelength": 1.2, "columnspacing": 1.2}
        figure.legend(entries.values(), names, loc="outside lower left", ncols=beside, **spread)
        high = (height - head - 4.5 * _SMALL - line * -(-len(entries) // beside)) / rows - 2 * _SMALL
        for kind in signed:
            same = [(axes, track) for axes, track in zip(panels, tracks, strict=False) if track.signed == kind]
            _scale(same, high * len(heights) / sum(heights) * (0.75 if kind else 1), line)
        axes.set_xlim(start / unit, max(end / unit, start / unit + 1e-6))
        most = max(int(across / (_wide(f"{end / unit:,.10g}") + 16)), 1)
        axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=still.axis != "time"))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # what is written within the panels moves nothing
        for axes, track in zip(panels, tracks, strict=False):
            _bands(axes, track, unit, theme)
        return figure


def _scale(same: Sequence[tuple[Axes, Track]], high: float, line: float) -> None:
    """Give panels one scale of bytes.

    Args:
        same: The panels.
        high: How high each is, in points.
        line: How high a line of text is, likewise.
    """
    signed = same[0][1].signed
    floor, top = min(track.floor_bytes for _, track in same), max(track.top_bytes for _, track in same)
    # Above the highest level there is room for the names of windows.
    span = max(top - floor, 1)
    ends = floor - (span * 0.03 if floor < 0 else 0), top + span * line / max(high - line, line)
    ticks = binary_ticks(floor, top, max(min(int(high / (2.2 * _SMALL)), 7), 1))
    for axes, _ in same:
        axes.set_ylim(*ends)
        axes.yaxis.set_major_locator(FixedLocator([level for level, _ in ticks]))
        labels = [f"+{text}" if signed and level > 0 else text for level, text in ticks]
        axes.yaxis.set_major_formatter(FixedFormatter(labels))


def grid(count: int) -> tuple[int, int]:
    """Rows and columns of so many panels."""
    columns = -(-count // _ROWS)
    return -(-count // columns), columns


@lru_cache(maxsize=1024)  # of one verdict, wrapped ever more narrowly, most lines are those before
def _wide(text: str, size: float = _SMALL, weight: str = "normal") -> float:
    """How wide a text is, in points."""
    font = FontProperties(family=mpl.rcParams["font.family"], size=size, weight=weight)
    return float(_MEASURE.get_text_width_height_descent(text, font, ismath=False)[0]) / 10 * _ROUNDED


def _fitted(text: str, room: float, size: float = _SMALL, weight: str = "normal") -> str:
    """A text from a log or a path, harmless, and cut in its middle until there is room for it."""
    text = visible(clipped(text))
    while (is_wide := _wide(text, size, weight)) > room and len(text) > 1:
        text = shorten(text, min(int(width_of(text) * room / is_wide), width_of(text) - 1))
    return text


def _words(figure: Figure, still: Still, rows: int) -> float:
    """Write the title, and as much of the verdict as there is room for; how far down they reach, in points."""
    (width, height), theme = (72 * inches for inches in still.size), inks(still.theme)
    room, y = width - 2 * _MARGIN, _MARGIN + _TITLE
    most, chars, lines = min(int(2 * (still.size[1] - 1.5) - 0.8 * (rows - 1)), 3), int(room / (0.4 * _WORDS)), [""]
    title = _fitted(still.title, room, _TITLE, "bold")
    figure.text(_MARGIN / width, 1 - y / height, title, color=theme["text"], fontsize=_TITLE, weight="bold")
    if most > 0 and still.sentences:
        text = visible(" ".join(still.sentences))
        while (
            max(map(_wide, lines := textwrap.wrap(text, chars, max_lines=most, placeholder=" …"))) * _WORDS
            > room * _SMALL
        ):
            chars -= 1
        for line in lines:
            y += 1.35 * _WORDS
            figure.text(_MARGIN / width, 1 - y / height, line, color=theme["quiet"], fontsize=_WORDS)
    return y + _SMALL


def _levels(axes: Axes, track: Track, unit: float, number: str, theme: Theme) -> dict[str, Any]:
    """Draw the areas and the lines of a track, its peak and its failures.

    Returns:
        What stands for each in the legend.
    """
    entries: dict[str, Any] = {}
    for area in track.areas:
        # The top of the first one is the level.
        named = {"gid": f"allocated{number}"} if area is track.areas[0] else {}
        shown = _stairs(axes, track.x / unit, area, fill=True, color=theme[area.ink], linewidth=0, **named)
        if area.top.any():
            entries[area.name] = shown
    for line in track.lines:
        gid = f"{line.name}{number}"
        entries[line.name] = _stairs(
            axes, track.x / unit, line, fill=False, color=theme[line.ink], linewidth=1.4, gid=gid
        )
    if track.parting is not None:
        begin, finish = (edge / unit for edge in track.parting)
        frame: dict[str, Any] = {"facecolor": "none", "edgecolor": theme["bad"], "linewidth": 1.2, "zorder": 4}
        entries["where the runs part"] = axes.axvspan(begin, finish, **frame)
    for at in track.failures:
        axes.vlines(at / unit, 0, track.top_bytes, color=theme["bad"], linewidth=1, linestyle=":", zorder=4)
        cross: dict[str, Any] = {"color": theme["bad"], "ms": 7, "mew": 1.8, "zorder": 6, "clip_on": False}
        (entries["out of memory"],) = axes.plot(at / unit, 0, "x", transform=axes.get_xaxis_transform(), **cross)
    if track.peak is not None:
        mark: dict[str, Any] = {"mfc": theme["text"], "mec": theme["back"], "ms": 7, "mew": 0.8, "clip_on": False}
        axes.plot(track.peak[0] / unit, track.peak[1], "v", gid=f"peak{number}", zorder=5, **mark)
    return entries


def _named(track: Track, room: float) -> str:
    """The title of a panel: the run, unless it is the only one, its peak and its first failure, as exactly as there is room for."""
    exact, short = track.words
    name = f"{_fitted(track.name, max(room - _wide(f': {short}'), 4 * _SMALL))}: " if track.name else ""
    return _fitted(f"{name}{exact if _wide(f'{name}{exact}') <= room else short}", room)


def _stairs(axes: Axes, x: Any, area: Area, *, fill: bool, **style: Any) -> Any:
    """Draw a level, or what lies below it, without the steps that are none."""
    changes = np.flatnonzero(np.append(True, np.diff(area.top) != 0))
    edges = x[np.append(changes, len(area.top))]
    return axes.stairs(area.top[changes], edges, baseline=0 if fill else None, fill=fill, **style)


def _bands(axes: Axes, track: Track, unit: float, theme: Theme) -> None:
    """Shade every other window of a series, and name as many as there is room for."""
    figure: Any = axes.figure
    (left, right), box = axes.get_xlim(), axes.get_window_extent()
    free = 0.0
    for number, (text, begin, finish) in enumerate(track.bands):
        if number % 2 == 0 and len(track.bands) <= _MOST_BANDS:
            axes.axvspan(begin / unit, finish / unit, color=theme["band"], linewidth=0, zorder=0)
        at, end = ((edge / unit - left) / (right - left) * box.width + 3 for edge in (begin, finish))
        name = _fitted(text, max(end - at - 10, 10 * _SMALL))
        reach = at + _wide(name)
        # What precedes a series is named where its name does not take the place of the first one's.
        if at >= free and reach <= (end if text == BEFORE else box.width):
            x, y = (box.x0 + at) / figure.bbox.width, (box.y1 - 1.1 * _SMALL) / figure.bbox.height
            figure.text(x, y, name, color=theme["quiet"])
            free = reach + 8


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit of an axis of time that has so many seconds: itself in seconds, and its name."""
    units = (1e-3, "milliseconds"), (1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours")
    unit, name = units[sum(seconds >= limit for limit in (0.2, 180, 3 * 3600))]
    return unit, f"{name} from the first event on"


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
