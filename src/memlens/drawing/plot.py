"""``memlens.plot``: the picture of a report as a still one, of one log, of several, or of two runs over one axis."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.composition import Roles
from memlens.analyzing.analyze import analyze_each
from memlens.analyzing.claims import claims_of
from memlens.analyzing.result import Analysis, LogAnalysis
from memlens.claims.claim import Answer, answer_of
from memlens.diffing.result import Diff as Compared
from memlens.diffing.run import diff_to_draw
from memlens.drawing.levels import phases_of, series_of
from memlens.drawing.lifetimes import WindowBlocks
from memlens.drawing.stacks import ways
from memlens.drawing.tracks import Track, compared_tracks, curve_track, track
from memlens.errors import MemlensError, OutputError, UsageError
from memlens.inputs import Reading, expanded, input_name
from memlens.log import Input, Log
from memlens.options import Cut, ReadAs
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Analyze, Diff, Plot
from memlens.results import Failure
from memlens.text import file_names, visible
from memlens.windows.windows import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from memlens.drawing.stills import Still

__all__ = ["PlotFigure", "form_of", "html_of", "plot", "plot_with", "require_matplotlib"]

#: What the words on a picture need.
_FOR_WORDS = ("remaining", "peak", "unmatched")
#: Columns of an inch: as many as a reader can tell apart.  Runs of one picture at most, and in a notebook; and inches that each of several needs at least.
_COLUMNS, _MOST_RUNS, _MOST_IN_NOTEBOOK, _LEAST = 100, 64, 8, 0.6


class PlotFigure(Struct, frozen=True, eq=False):
    """A picture.

    Attributes:
        still: What it shows.
        answer: The verdict below its title.
        failures: Logs that could not be drawn; empty where one was given, whose error is raised instead.
        dpi: Pixels an inch of a PNG.
    """

    still: Still
    answer: Answer
    failures: tuple[Failure, ...] = ()
    dpi: int = 150

    @property
    def verdict(self) -> str:
        """All sentences of its verdict."""
        return str(self.answer)

    @property
    def figure(self) -> Figure:
        """A new figure of Matplotlib, to add to."""
        from memlens.drawing.stills import draw

        return draw(self.still)

    def render(self, form: str = "svg") -> bytes:
        """The picture as a file: ``svg``, ``png`` or ``pdf``.  The same logs give the same bytes.

        Raises:
            UsageError: There is no such form.
        """
        from memlens.drawing.stills import render

        return render(self.still, form_of(None, form), self.dpi)

    def save(self, path: str | Path, force: bool = False, form: str | None = None) -> None:
        """Write the picture to a file, which appears whole or not at all.

        Args:
            path: Where to; its suffix says in which form.
            force: Write over a file that exists.
            form: The form, whatever the suffix.

        Raises:
            UsageError: The suffix is that of no form.
            OutputError: The file exists and ``force`` is off, or it cannot be written.
        """
        from memlens.output import open_output

        data = self.render(form_of(path, form))
        with open_output(path, force) as out:
            out.write(data)

    def _repr_svg_(self) -> str:
        return self.render("svg").decode()

    def __repr__(self) -> str:
        return f"<PlotFigure: {self.answer}>"


def form_of(path: str | Path | None, form: str | None = None) -> str:
    """In which form a picture is written to a file.

    Raises:
        UsageError: Neither the suffix nor ``form`` names one.
    """
    from memlens.drawing.stills import FORMS

    if form is not None:
        if form not in FORMS:
            raise UsageError(f"a picture cannot be written as {form!r}", f"It can as {', '.join(FORMS)}.")
        return form
    if path is None or str(path) == "-":
        raise UsageError("what form the picture is to have is not said", "Name it: --format svg.")
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMS:
        raise UsageError(
            f"{path}: a picture cannot be written as {f'.{suffix}' if suffix else 'a file without a suffix'}",
            f"The name ends in {', '.join(f'.{one}' for one in FORMS)}; or say which: --format svg.",
        )
    return suffix


def require_matplotlib() -> None:
    """Say early, before any work, that pictures cannot be drawn.

    Raises:
        OutputError: Matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise OutputError(
            "pictures are drawn by Matplotlib, which is not installed", "Install it with: pip install 'memlens[plot]'."
        ) from None


def plot_with(logs: Input | Sequence[Input], options: Plot) -> PlotFigure:
    """Draw the levels of one log, or of several one below the other.

    Args:
        logs: One log or several: paths (``-`` is standard input), URLs, binary files, or logs already read.  An input with several
            devices is a log for each of them, and a folder stands for the logs in it.
        options: See :class:`memlens.options.verbs.Plot`.

    Raises:
        UsageError: Arguments that make no sense together.
        OutputError: Matplotlib is not installed.
        MemlensError: The only log, or one of two that are compared, cannot be read, or has no such anchor.  One of several becomes a
            :class:`~memlens.errors.Failure` instead.
    """
    require_matplotlib()
    given: list[Input] = list(logs) if isinstance(logs, (list, tuple)) else [logs]  # type: ignore[list-item]
    if options.base is not None:
        return _figure_of_two(given, options.base, options)
    found, failures = _read(expanded(given, options), options)
    if len(found) > _MOST_RUNS:
        raise UsageError(f"{len(found)} runs are too many for one picture", "memlens compare says which stand out.")
    answer = answer_of(claims_of(Analysis(tuple(analysis for _, analysis in found), tuple(failures))))
    names = file_names([analysis.path for _, analysis in found])
    several = len(found) > 1 or bool(failures)
    tracks = [_track(log, analysis, names[analysis.path] if several else "", options) for log, analysis in found]
    title = f"{len(found)} runs" if len(found) > 1 else names[found[0][1].path]
    return figure_of(title, answer, tracks, options.x, options, failures)


plot = with_keywords("plot", plot_with, Plot)


def _figure_of_two(given: Sequence[Input], base: Input, options: Plot) -> PlotFigure:
    """The picture of two runs over one axis."""
    if len(given) != 1:
        raise UsageError(f"one log is compared with another one, and not {len(given)}", "Name BASE and one LOG.")
    if options.x == "time":
        raise UsageError("two runs are drawn over what both do, and not over time", "Leave out --x time.")
    diff = diff_to_draw(base, given[0], Diff(**options.of(ReadAs, Cut)))
    return figure_of_diff(diff, options)


def figure_of_diff(diff: Compared, options: Plot) -> PlotFigure:
    """The picture of two runs that were compared."""
    names = file_names(paths := [diff.base.path, diff.head.path])
    title = " → ".join(names[path] for path in paths)
    return figure_of(title, diff.answer, compared_tracks(diff, _columns(options)), "slots", options)


def figure_of(
    title: str, answer: Answer, tracks: Sequence[Track], axis: str, options: Plot, failures: Sequence[Failure] = ()
) -> PlotFigure:
    """The picture of some tracks."""
    from memlens.drawing.stills import Still, grid

    rows, _ = grid(len(tracks))
    height, least = options.height or max(5.0, 2.1 + 1.3 * rows), 1.8 + _LEAST * rows
    if len(tracks) > 1 and height < least:
        raise UsageError(f"{len(tracks)} runs cannot be drawn {height:g} inches high", f"They need {least:.1f}.")
    title = title if options.title is None else options.title
    still = Still(title, answer.sentences, tuple(tracks), axis, (options.width, height), options.theme)
    return PlotFigure(still, answer, tuple(failures), options.dpi)


def _columns(options: Plot) -> int:
    return max(int(options.width * _COLUMNS), 1)


def _read(inputs: Sequence[Input], options: Plot) -> tuple[list[tuple[Log, LogAnalysis]], list[Failure]]:
    """Each log with what is said of it, and the inputs that cannot be drawn."""
    if not inputs:
        raise UsageError("no log to draw", "Name one, or several.")
    reading = Reading(options.patterns, how=options, times=options.x == "time", landmarks=True)
    one_window = options.given and not options.series
    wanted = Analyze(analyzers=_FOR_WORDS if one_window else (*_FOR_WORDS, "growth"), **options.of(Cut))
    found, failures = list[tuple[Log, LogAnalysis]](), []
    for given in inputs:
        try:
            found += analyze_each(input_name(given), reading.read_all(given), wanted)
        except UsageError:
            raise
        except MemlensError as error:
            if len(inputs) == 1:
                raise
            failures.append(Failure(input_name(given), error.message, error.hint))
    if not found:
        raise MemlensError("; ".join(failure.message for failure in failures), failures[0].hint)
    return found, failures


def _track(log: Log, analysis: LogAnalysis, name: str, options: Plot) -> Track:
    """The window asked for, or all of a log with the windows of a series, or the steps that lines count."""
    shown = whole(log) if options.series else options.windows(log)[0]
    series = series_of(log, options)
    blocks = WindowBlocks(shown)
    roles = Roles(log, () if options.series else series)
    found = ways(blocks, roles, series, phases_of(log, series), analysis.growth) if len(blocks) else []
    # Colours of other groups stand for something else in each run.
    way = next((way for way in found[:1] if not name or way.key in ("growth", "role")), None)
    steps, time = series if options.series or not options.given else (), options.x == "time"
    columns = _columns(options)
    return track(shown, name, blocks, way, steps=steps, columns=columns, time=time, from_zero=bool(name))


def html_of(result: object) -> str:
    """A result in a notebook: the verdict, the picture where there is one, and below it the screen, folded.

    The picture is an image with the data in it: nothing of it is part of the notebook's page, and nothing is loaded.  Without Matplotlib there is
    none, and the screen is not folded.
    """
    from memlens.reports import html

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
    if isinstance(result, Compared) and len(result.in_order) == 1:
        return figure_of_diff(result, options)
    if isinstance(result, LogAnalysis):
        result = Analysis((result,), claims=result.claims)
    if not isinstance(result, Analysis):
        return None
    drawn = [(log.path, log.curve) for log in result.logs if log.curve is not None and len(log.curve)]
    if not 0 < len(drawn) <= _MOST_IN_NOTEBOOK:
        return None
    names = file_names([path for path, _ in drawn])
    tracks = [curve_track(curve, names[path] if len(drawn) > 1 else "") for path, curve in drawn]
    title = names[drawn[0][0]] if len(drawn) == 1 else f"{len(drawn)} runs"
    return figure_of(title, result.answer, tracks, "events", options)
