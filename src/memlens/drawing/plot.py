"""``memlens.plot``: the levels of one log, of several, or of two runs compared, as a still picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzing.analyze import analyze_with
from memlens.analyzing.claims import claims_of
from memlens.analyzing.result import Analysis
from memlens.claims.claim import Answer, answer_of
from memlens.diffing.run import diff_with
from memlens.drawing.levels import track
from memlens.errors import MemlensError, OutputError, UsageError
from memlens.inputs import Reading, expanded, input_name, named_devices
from memlens.options import Analyze, Cut, Diff, Plot, ReadAs
from memlens.options.keywords import with_keywords
from memlens.results import Failure
from memlens.text import file_names
from memlens.windows.anchor_discovery import find_steps
from memlens.windows.windows import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from memlens.analyzing.result import LogAnalysis
    from memlens.drawing.levels import Track
    from memlens.drawing.stills import Still
    from memlens.log import Input, Log

__all__ = ["PlotFigure", "form_of", "plot", "plot_with", "require_matplotlib"]

#: What the words on a picture need.
_FOR_WORDS = ("remaining", "peak", "unmatched")
#: Columns of an inch: as many as a reader can tell apart.  Runs of one picture at most, and inches that each of several needs at least.
_COLUMNS, _MOST_RUNS, _LEAST = 100, 64, 0.6


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
        options: See :class:`memlens.options.Plot`.

    Raises:
        UsageError: Arguments that make no sense together.
        OutputError: Matplotlib is not installed.
        MemlensError: The only log, or one of two that are compared, cannot be read, or has no such anchor.  One of several becomes a
            :class:`~memlens.errors.Failure` instead.
    """
    require_matplotlib()
    given: list[Input] = list(logs) if isinstance(logs, (list, tuple)) else [logs]  # type: ignore[list-item]
    if options.base is not None:
        if len(given) != 1:
            raise UsageError(f"one log is compared with another one, and not {len(given)}", "Name BASE and one LOG.")
        found = [log for one in (options.base, *given) for log in _read([one], options)[0]]
        if len(found) != 2:
            raise UsageError("several devices are compared", "Name one of them: --device N.")
        (base, _), (head, _) = found
        answer = diff_with(base, head, Diff(**options.of(ReadAs, Cut))).answer
        return _figure(found, answer, options, ("base", "head"))
    found, failures = _read(expanded(given, options), options)
    answer = answer_of(claims_of(Analysis(tuple(analysis for _, analysis in found), tuple(failures))))
    return _figure(found, answer, options, failures=failures)


plot = with_keywords("plot", plot_with, Plot)


def _figure(
    found: Sequence[tuple[Log, LogAnalysis]],
    answer: Answer,
    options: Plot,
    sides: Sequence[str] = (),
    failures: Sequence[Failure] = (),
) -> PlotFigure:
    """The picture of some logs; ``sides`` says which of two that are compared each is."""
    from memlens.drawing.stills import Still, grid

    count = len(found)
    if count > _MOST_RUNS:
        raise UsageError(f"{count} runs are too many for one picture", "memlens compare says which stand out.")
    rows, _ = grid(count)
    height, least = options.height or max(5.0, 1.6 + 1.3 * rows), 1.2 + _LEAST * rows
    if count > 1 and height < least:
        raise UsageError(f"{count} runs cannot be drawn {height:g} inches high", f"They need {least:.1f}.")
    names = file_names([analysis.path for _, analysis in found])
    called = [names[analysis.path] for _, analysis in found]
    title = options.title
    if title is None:
        title = " → ".join(called) if sides else called[0] if len(called) == 1 else f"{count} runs"
    tracks = tuple(
        replace(_track(log, f"{side} {name}".lstrip(), options, several=count > 1 or bool(failures)), side=side)
        for (log, _), name, side in zip(found, called, sides or [""] * count, strict=True)
    )
    still = Still(title, answer.sentences, tracks, options.x, (options.width, height), options.theme)
    return PlotFigure(still, answer, tuple(failures), options.dpi)


def _read(inputs: Sequence[Input], options: Plot) -> tuple[list[tuple[Log, LogAnalysis]], list[Failure]]:
    """Each log with what is said of it, and the inputs that cannot be drawn."""
    if not inputs:
        raise UsageError("no log to draw", "Name one, or several.")
    threads = options.base is not None
    reading = Reading(options.patterns, how=options, times=options.x == "time", threads=threads, landmarks=True)
    one_window = options.given and not options.series
    wanted = Analyze(analyzers=_FOR_WORDS if one_window else (*_FOR_WORDS, "growth"), **options.of(Cut))
    found, failures = [], []
    for given in inputs:
        try:
            for log, path, device in named_devices(input_name(given), reading.read_all(given)):
                (analysis,) = analyze_with(log, wanted).logs
                found.append((log, replace(analysis, path=path, device=device)))
        except UsageError:
            raise
        except MemlensError as error:
            if len(inputs) == 1:
                raise
            failures.append(Failure(input_name(given), error.message, error.hint))
    if not found:
        raise MemlensError("; ".join(failure.message for failure in failures), failures[0].hint)
    return found, failures


def _track(log: Log, name: str, options: Plot, *, several: bool) -> Track:
    """The window asked for, or all of a log with the windows of a series, or the steps that lines count."""
    windows, steps = options.windows(log), None
    if not options.given:
        steps = find_steps(log)
    shown = whole(log) if options.series else windows[0]
    bands = windows if options.series else () if steps is None else steps.windows
    columns = max(int(options.width * _COLUMNS), 1)
    return track(shown, name, steps=bands, columns=columns, time=options.x == "time", from_zero=several)
