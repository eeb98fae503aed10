"""``memlens.plot``: the levels of one log, of several, or of two runs compared, as a still picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.analyzing.analyze import analyze_with
from memlens.analyzing.result import Analysis
from memlens.analyzing.steps import find_steps
from memlens.diffing.run import diff_with
from memlens.drawing.stills.tracks import track
from memlens.errors import Failure, MemlensError, OutputError, UsageError
from memlens.inputs import Reading, expanded, input_name, named_devices
from memlens.keywords import with_keywords
from memlens.options import Analyze, Cut, Diff, Plot, ReadAs
from memlens.options.parts import values_of
from memlens.text import Answer, file_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from memlens.analyzing.result import LogAnalysis
    from memlens.drawing.stills.figures import Still
    from memlens.drawing.stills.runs import Runs
    from memlens.drawing.stills.tracks import Track
    from memlens.events import EventLog
    from memlens.inputs import Input
    from memlens.windows.windows import Window

__all__ = ["PlotFigure", "form_of", "plot", "plot_with", "require_matplotlib"]

#: What the words on a picture need.
_FOR_WORDS = ("remaining", "peak", "unmatched")
#: Columns of an inch: as many as a reader can tell apart.
_COLUMNS = 100
#: Findings of a diff that a still shows at most.
_MOST_FOUND = 12


@dataclass(frozen=True, eq=False, repr=False)
class PlotFigure:
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
        """What its words say, all of it."""
        return str(self.answer)

    @property
    def figure(self) -> Figure:
        """A new figure of Matplotlib, to add to."""
        from memlens.drawing.stills.figures import draw

        return draw(self.still)

    def render(self, form: str = "svg") -> bytes:
        """The picture as a file: ``svg``, ``png`` or ``pdf``.  The same logs give the same bytes.

        Raises:
            UsageError: There is no such form.
        """
        from memlens.drawing.stills.figures import render

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
    from memlens.drawing.stills.figures import FORMS

    known = ", ".join(FORMS)
    if form is not None:
        if form not in FORMS:
            raise UsageError(f"a picture cannot be written as {form!r}", f"It can as {known}.")
        return form
    if path is None or str(path) == "-":
        raise UsageError("what form the picture is to have is not said", f"Name it: --format {FORMS[0]}.")
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in FORMS:
        raise UsageError(
            f"{path}: a picture cannot be written as {f'.{suffix}' if suffix else 'a file without a suffix'}",
            f"The name ends in {', '.join(f'.{one}' for one in FORMS)}; or say which: --format {FORMS[0]}.",
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
    """Draw the levels of one log, or of several laid over each other.

    Args:
        logs: One log or several: paths (``-`` is standard input), URLs, binary files, or logs already read.  An input with several
            devices is a log for each of them, and a folder stands for the logs in it.
        options: See :class:`memlens.options.Plot`.

    Raises:
        UsageError: Arguments that make no sense together.
        OutputError: Matplotlib is not installed.
        MemlensError: The only log cannot be read, or has no such anchor.  One of several becomes a
            :class:`~memlens.errors.Failure` instead.
    """
    require_matplotlib()
    given: list[Input] = list(logs) if isinstance(logs, (list, tuple)) else [logs]  # type: ignore[list-item]
    if options.diff is not None:
        return _compared(options.diff, given, options)
    inputs = expanded(given, options)
    if not inputs:
        raise UsageError("no log to draw", "Name one, or several.")
    found, failures = _read(inputs, options)
    names = file_names([said.path for _, said in found])
    tracks = tuple(
        _track(log, names[said.path], options, several=len(found) > 1 or bool(failures)) for log, said in found
    )
    answer = Analysis(tuple(said for _, said in found), tuple(failures)).answer
    title = ", ".join(track.name for track in tracks) if options.title is None else options.title
    return _figure(title, answer, options, tracks, failures)


plot = with_keywords("plot", plot_with, Plot)


def _compared(base: Input, logs: Sequence[Input], options: Plot) -> PlotFigure:
    """Two runs over the axis that the diff aligns them by."""
    from memlens.drawing.stills.runs import runs_of

    if len(logs) != 1:
        raise UsageError(f"one log is compared with another one, and not {len(logs)}", "Name BASE and one LOG.")
    if options.x == "time":
        raise UsageError(
            "the axis of a diff is not time", "Runs are side by side where they do the same: leave out --x."
        )
    diff = diff_with(base, logs[0], Diff(**values_of(options, ReadAs, Cut)))
    paths = diff.base.path, diff.head.path
    called = file_names(list(dict.fromkeys(paths)))
    names = called[paths[0]], called[paths[1]]
    title = " → ".join(names) if options.title is None else options.title
    runs = runs_of(diff, names, int(options.width * _COLUMNS), _MOST_FOUND)
    return _figure(title, diff.answer, options, runs=runs)


def _figure(
    title: str,
    answer: Answer,
    options: Plot,
    tracks: tuple[Track, ...] = (),
    failures: Sequence[Failure] = (),
    runs: Runs | None = None,
) -> PlotFigure:
    from memlens.drawing.stills.figures import Still

    size = options.width, options.height
    still = Still(title, answer.sentences, tracks, options.x, size, options.theme, runs)
    return PlotFigure(still, answer, tuple(failures), options.dpi)


def _read(inputs: Sequence[Input], options: Plot) -> tuple[list[tuple[EventLog, LogAnalysis]], list[Failure]]:
    """Each log with what is said of it, and the inputs that cannot be drawn."""
    reading = Reading(options.patterns, how=options, times=options.x == "time", landmarks=True)
    asked = Analyze(
        analyzers=_FOR_WORDS if options.given and not options.series else (*_FOR_WORDS, "growth"),
        **values_of(options, Cut),
    )
    found, failures = [], []
    for given in inputs:
        try:
            for log, path, device in named_devices(input_name(given), reading.read_all(given)):
                (said,) = analyze_with(log, asked).logs
                found.append((log, replace(said, path=path, device=device)))
        except UsageError:
            raise
        except MemlensError as error:
            if len(inputs) == 1:
                raise
            failures.append(Failure(input_name(given), error.message, error.hint))
    if not found:
        raise MemlensError("; ".join(failure.message for failure in failures), failures[0].hint)
    return found, failures


def _track(log: EventLog, name: str, options: Plot, *, several: bool) -> Track:
    window, steps = _shown(log, options)
    columns = max(int(options.width * _COLUMNS), 1)
    return track(window, name, steps=steps, columns=columns, time=options.x == "time", from_zero=several)


def _shown(log: EventLog, options: Plot) -> tuple[Window, Sequence[Window]]:
    """What is drawn of a log: the window asked for, or all of it with the windows of a series, or the steps that lines count."""
    windows = options.windows(log)
    if options.series:
        return log.whole, windows
    if options.given:
        return windows[0], ()
    steps = find_steps(log)
    return windows[0], () if steps is None else steps.windows
