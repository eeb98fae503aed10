"""Compare runs: find their logs, read them, lay them out.  The twin of ``memlens compare``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING

from memlens.comparing.layout import Layout, lay_out, lay_out_list
from memlens.comparing.metrics import DEFAULT, DEFAULT_OF_MATRIX, Metric, choose_metrics
from memlens.comparing.outliers import outliers
from memlens.comparing.parallel import record_all
from memlens.comparing.records import Order
from memlens.comparing.result import Comparison, Run, RunWindow
from memlens.comparing.scaling import slopes
from memlens.comparing.templates import Template
from memlens.cut import Cut, as_list
from memlens.errors import UsageError
from memlens.reading import ReadAs
from memlens.slicing import BEFORE

if TYPE_CHECKING:
    from memlens.reading import Input

__all__ = ["compare"]

#: The name of the window that stands for all windows of a series.
TYPICAL = "(median)"


def compare(
    logs: str | os.PathLike[str] | Sequence[Input],
    *,
    rows: str | Sequence[str] = (),
    cols: str | None = None,
    base: str | None = None,
    metrics: str | Sequence[str] = (),
    start: str | None = None,
    end: str | Sequence[str] = (),
    start_regex: str | None = None,
    end_regex: str | Sequence[str] = (),
    nth: int = 1,
    by: str | None = None,
    jobs: int | None = None,
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
    input_format: str | None = None,
    device: int | None = None,
    layer: str | None = None,
    formats: str | Path | None = None,
) -> Comparison:
    """Put runs side by side.

    Args:
        logs: Several logs as for :func:`memlens.analyze`, or one text: a path template, ``runs/{branch}/workerlog.{rank}``.
        rows: Fields of the template whose values are rows; further ones that vary follow them.
        cols: The field whose values are columns.  Without it that of ``base``, else the first field that is not a number.
        base: What to compare with: ``field=value``, or the path of one of the logs.  Without it the first log, or the first
            value of the columns.
        metrics: What to show, by the names in :data:`memlens.comparing.metrics.METRICS`; machine output has all.
        start: Compare one window of each log, from the line that contains this as whole words; see :func:`memlens.analyze`.
        end: Where it ends.
        start_regex: Like ``start``, a regular expression.
        end_regex: Like ``end``, regular expressions.
        nth: Which of the lines that match the start to take, from 1.
        by: Compare a series of windows, one from each line that this regular expression matches, paired by name.
        jobs: Read at most so many logs at a time; ``None`` is one a processor.
        strict: A log that is cut short counts as unreadable.
        progress: Called with the bytes read so far, over all logs, as they lie on disk.
        input_format: The format of the inputs, where it is not to be looked for; see :func:`memlens.read`.
        device: The device to compare of inputs that have several; -1 is the CPU.
        layer: The allocator layer of Paddle to take blocks from; see :func:`memlens.read`.
        formats: A TOML file with formats of your own, instead of those in the nearest ``pyproject.toml``.

    Raises:
        UsageError: Arguments that make no sense together, or a log with several devices of which none is named.
        InputError: No file matches the template.
    """
    cut = Cut(start, tuple(as_list(end)), start_regex, tuple(as_list(end_regex)), nth, by)
    _check(cut, jobs)
    how = ReadAs(input_format, device, formats, layer)
    chosen = choose_metrics(as_list(metrics))
    if isinstance(logs, (str, os.PathLike)):
        template = Template(os.fspath(logs))
        return _of_template(template, as_list(rows), cols, base, chosen, cut, jobs, strict, progress, how)
    if rows or cols is not None:
        raise UsageError("rows and cols are fields of a template", "Give a template: 'runs/{branch}/workerlog.{rank}'.")
    if not logs:
        raise UsageError("no log to compare", "Name some, or give a template.")
    orders = [Order(given, cut, strict, how=how) for given in logs]
    layout = lay_out_list([order.path for order in orders], base)
    return _read(orders, layout, chosen or choose_metrics(DEFAULT[cut.given]), cut, jobs, progress)


def _check(cut: Cut, jobs: int | None) -> None:
    """Refuse what every log would be refused for, before any is read.

    Raises:
        UsageError: The cut makes no sense, or a pattern is no regular expression.
    """
    from memlens.matching import Matcher

    if cut.start is not None and cut.start_regex is not None:
        raise UsageError("start and start_regex exclude each other", "Give one of them.")
    if cut.nth < 1:
        raise UsageError(f"there is no match number {cut.nth}", "The first one is number 1.")
    if jobs is not None and jobs < 1:
        raise UsageError(f"{jobs} jobs read nothing", "Give 1 or more.")
    for pattern in cut.patterns:
        Matcher(pattern)


def _of_template(
    template: Template,
    rows: Sequence[str],
    cols: str | None,
    base: str | None,
    metrics: tuple[Metric, ...],
    cut: Cut,
    jobs: int | None,
    strict: bool,
    progress: Callable[[int], None] | None,
    how: ReadAs,
) -> Comparison:
    found = template.find()
    files = [match for match in found if not match.problem]
    problems = tuple(match.problem for match in found if match.problem)
    orders = [Order(match.path, cut, strict, match.fields, how) for match in files]
    values = field_values([match.fields for match in files], template.fields)
    layout = lay_out(values, [match.path for match in files], rows, cols, base)
    usual = (DEFAULT if layout.cols is None else DEFAULT_OF_MATRIX)[cut.given]
    comparison = _read(orders, layout, metrics or choose_metrics(usual), cut, jobs, progress)
    windows = comparison.typical or tuple(run.window(None) for run in comparison.runs)
    return replace(
        comparison,
        template=template.text,
        problems=problems,
        scaling=tuple(slopes(comparison.runs, windows, values)),
        outliers=tuple(outliers(comparison.runs, windows, values)),
    )


def field_values(found: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The values of each field, in their natural order."""
    from memlens.comparing.templates import natural

    return {name: tuple(sorted({fields[name] for fields in found}, key=natural)) for name in names}


def _read(
    orders: Sequence[Order],
    layout: Layout,
    metrics: tuple[Metric, ...],
    cut: Cut,
    jobs: int | None,
    progress: Callable[[int], None] | None,
) -> Comparison:
    runs = tuple(record_all(orders, jobs, progress))
    typical = _typical(runs) if cut.series else ()
    return Comparison(runs, layout, metrics, by=cut.by, cut=cut.given, typical=typical)


def _typical(runs: Sequence[Run]) -> tuple[RunWindow | None, ...]:
    """For each run the lower median of each figure over the windows that all readable runs have; what precedes the first is none.

    Windows that are open in some run count only where there are no others.  The lower median is a figure that some window has:
    exact, and of no size that none has.
    """
    read = [run for run in runs if run.windows]
    names = [{window.name for window in run.windows if not window.oom} - {BEFORE} for run in read]
    shared = set.intersection(*names) if names else set()
    closed = shared - {window.name for run in read for window in run.windows if window.open_end}
    return tuple(_median([window for window in run.windows if window.name in (closed or shared)]) for run in runs)


def _median(windows: Sequence[RunWindow]) -> RunWindow | None:
    if not windows:
        return None
    figures = {}
    for spec in fields(RunWindow):
        values = [value for window in windows if isinstance(value := getattr(window, spec.name), int)]
        figures[spec.name] = median_low(values) if values else None
    return RunWindow(**{**figures, "name": TYPICAL, "oom": False, "open_end": False})  # type: ignore[arg-type]
