"""Results in a notebook: the verdict, the picture where there is one, and below it the screen, folded.

The picture is an image with the data in it: nothing of it is part of the notebook's page, and nothing is loaded.  Without Matplotlib there is
none, and the screen is not folded.
"""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING

from msgspec.structs import replace

from memlens.analyzing.result import Analysis, LogAnalysis
from memlens.diffing.result import Diff
from memlens.drawing.plot import figure_of, figure_of_diff, plot_with, require_matplotlib
from memlens.drawing.tracks import curve_track
from memlens.errors import MemlensError
from memlens.log import Log
from memlens.options import Plot
from memlens.reports import html
from memlens.text import file_names, visible

if TYPE_CHECKING:
    from memlens.drawing.plot import PlotFigure

#: Runs of one picture.
_MOST = 8


def of(result: object) -> str:
    """The HTML of a result."""
    screen = html.of(result)
    try:
        require_matplotlib()
        figure = _figure_of(result)
    except MemlensError:  # it is not installed, or there is no curve: a state at one moment
        figure = None
    if figure is None:
        return screen
    picture = replace(figure, still=replace(figure.still, sentences=())).render("svg")
    verdict = escape(visible(figure.verdict))
    source = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
    image = f'<img src="{source}" alt="{verdict}">'
    return f"<div><p>{verdict}</p>{image}<details><summary>All figures</summary>{screen}</details></div>"


def _figure_of(result: object) -> PlotFigure | None:
    """The picture of a result; ``None`` where it is one of none."""
    options = Plot()
    if isinstance(result, Log):
        return plot_with(result, options)
    if isinstance(result, Diff) and len(result.in_order) == 1:
        return figure_of_diff(result, options)
    if isinstance(result, LogAnalysis):
        result = Analysis((result,), claims=result.claims)
    if not isinstance(result, Analysis):
        return None
    drawn = [(log.path, log.curve) for log in result.logs if log.curve is not None and len(log.curve)]
    if not 0 < len(drawn) <= _MOST:
        return None
    names = file_names([path for path, _ in drawn])
    tracks = [curve_track(curve, names[path] if len(drawn) > 1 else "") for path, curve in drawn]
    title = names[drawn[0][0]] if len(drawn) == 1 else f"{len(drawn)} runs"
    return figure_of(title, result.answer, tracks, "events", options)
