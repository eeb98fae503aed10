"""Compare runs: find their logs, read them, lay them out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING

from memlens.comparing.layout import Layout, lay_out, lay_out_list, row_keys, run_key
from memlens.comparing.result import Comparison, Run, RunWindow
from memlens.comparing.runs import Order, record_all
from memlens.comparing.statistics import DEFAULT, DEFAULT_OF_MATRIX, Metric, choose_metrics, outliers, slopes
from memlens.comparing.templates import Template, natural
from memlens.errors import UsageError
from memlens.inputs import expanded
from memlens.keywords import with_keywords
from memlens.options import Compare, Cut, as_list
from memlens.windows.windows import BEFORE, anchors_of

if TYPE_CHECKING:
    from memlens.inputs import Input

__all__ = ["compare", "compare_with"]

#: The name of the window that stands for all windows of a series.
TYPICAL = "(median)"
#: The field that tells the devices of an input apart, where a template finds inputs with several.
DEVICE = "device"
#: Cells of a table up to which those without a file are listed as missing.
_MOST_CELLS = 100_000


def compare_with(logs: str | os.PathLike[str] | Sequence[Input], options: Compare) -> Comparison:
    """Put runs side by side.

    Args:
        logs: Several logs as for :func:`memlens.analyze`, or one text: a folder, or a path template, ``runs/{branch}/workerlog.{rank}``.
            Of an input with several devices each GPU is a run, or the CPU where it is alone.
        options: See :class:`memlens.options.Compare`.

    Raises:
        UsageError: Arguments that make no sense together.
        InputError: No file matches the template.
    """
    _check(options, options.jobs)
    chosen = choose_metrics(as_list(options.metrics))
    if isinstance(logs, (str, os.PathLike)) and os.path.isdir(logs):
        logs = [Path(logs)]
    if isinstance(logs, (str, os.PathLike)):
        return _of_template(Template(os.fspath(logs)), chosen, options)
    if options.rows or options.cols is not None:
        raise UsageError("rows and cols are fields of a template", "Give a template: 'runs/{branch}/workerlog.{rank}'.")
    if not logs:
        raise UsageError("no log to compare", "Name some, or give a template.")
    orders = [Order(given, options) for given in expanded(logs, options)]
    layout = lay_out_list([order.path for order in orders], options.base)
    runs, first = _side_by_side(record_all(orders, options.jobs, options.progress))
    return _compared(runs, first, layout, chosen or choose_metrics(DEFAULT[options.given]), options)


compare = with_keywords("compare", compare_with, Compare)


def _check(cut: Cut, jobs: int | None) -> None:
    """Refuse what every log would be refused for, before any is read.

    Raises:
        UsageError: The cut makes no sense, or a pattern is no regular expression.
    """
    from memlens.windows.patterns import Matcher

    anchors_of(cut.start, cut.end, cut.start_regex, cut.end_regex, cut.nth)
    if jobs is not None and jobs < 1:
        raise UsageError(f"{jobs} jobs read nothing", "Give 1 or more.")
    for pattern in cut.patterns:
        Matcher(pattern)


def _of_template(template: Template, metrics: tuple[Metric, ...], options: Compare) -> Comparison:
    rows, cols, base = as_list(options.rows), options.cols, options.base
    found = template.find()
    files = [match for match in found if not match.problem]
    problems = tuple(match.problem for match in found if match.problem)
    orders = [Order(match.path, options, match.fields) for match in files]
    values = field_values([match.fields for match in files], template.fields)
    asked = {*rows, cols, (base or "").partition("=")[0]}
    if DEVICE in values or DEVICE not in asked:  # refused before anything is read
        lay_out(values, [match.path for match in files], rows, cols, base)
    read = record_all(orders, options.jobs, options.progress)
    runs, first = _side_by_side(read)
    if several := next((run.path for run in read if run.further), None):
        if DEVICE in values:
            raise UsageError(
                f"{several}: is one of several devices, and the template has a field {DEVICE!r} already",
                "Name one device, --device N, or give that field another name.",
            )
        runs = _with_device_field(runs)
        values = field_values([run.fields for run in runs], (*template.fields, DEVICE))
    layout = lay_out(values, [order.path for order in orders], rows, cols, base)
    usual = (DEFAULT if layout.cols is None else DEFAULT_OF_MATRIX)[options.given]
    comparison = _compared(runs, first, layout, metrics or choose_metrics(usual), options)
    windows = comparison.typical or tuple(run.window(None) for run in comparison.runs)
    comparison = replace(
        comparison,
        template=template.text,
        problems=problems,
        scaling=tuple(slopes(comparison.runs, windows, values)),
        outliers=tuple(outliers(comparison.runs, windows, values)),
    )
    return _with_missing_cells(comparison, template)


def _side_by_side(read: Sequence[Run]) -> tuple[list[Run], list[int]]:
    """All runs, those of further devices behind the first one of their input; and where each input's runs begin."""
    runs: list[Run] = []
    first = []
    for run in read:
        first.append(len(runs))
        runs += [replace(run, further=()), *run.further]
    return runs, first


def _with_device_field(runs: Sequence[Run]) -> list[Run]:
    """Runs with their device as one more field."""
    return [replace(run, fields={**run.fields, DEVICE: _device_name(run.device)}) for run in runs]


def _device_name(number: int | None) -> str:
    return {None: "unknown", -1: "cpu"}.get(number) or str(number)


def _with_missing_cells(comparison: Comparison, template: Template) -> Comparison:
    """The comparison with a run for each cell of its table that no file was found for."""
    layout, values, runs = comparison.layout, comparison.values, comparison.runs
    varying = (*layout.rows, *([] if layout.cols is None else [layout.cols]))
    heads = [()] if layout.cols is None else [(value,) for value in values[layout.cols]]
    keys = row_keys({run_key(run, layout.rows) for run in runs}, [values[name] for name in layout.rows])
    if len(keys) * len(heads) > _MOST_CELLS:
        problem = f"the table has {len(keys) * len(heads):,} cells; those without a file are not listed"
        return replace(comparison, problems=(*comparison.problems, problem))
    known = {run_key(run, varying) for run in runs}
    fixed = {name: texts[0] for name, texts in values.items()}
    missing = [
        _no_file(template, {**fixed, **dict(zip(varying, (*key, *head), strict=True))})
        for key in keys
        for head in heads
        if (*key, *head) not in known
    ]
    if not missing:
        return comparison
    typical = comparison.typical or (None,) * len(runs)
    cells = [*zip(runs, typical, strict=True), *((run, None) for run in missing)]
    cells.sort(key=lambda cell: [natural(cell[0].fields[name]) for name in values])
    place = {id(run): number for number, (run, _) in enumerate(cells)}
    if layout.base_run is not None:
        base, *further = (place[id(runs[number])] for number in (layout.base_run, *layout.base_devices))
        layout = replace(layout, base_run=base, base_devices=tuple(further))
    return replace(
        comparison,
        runs=tuple(run for run, _ in cells),
        layout=layout,
        typical=tuple(window for _, window in cells) if comparison.typical else (),
    )


def _no_file(template: Template, fields: Mapping[str, str]) -> Run:
    path = template.fill(fields)
    return Run(path, fields, "missing", message=f"{path}: no such file")


def field_values(found: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The values of each field, in their natural order."""
    return {name: tuple(sorted({fields[name] for fields in found}, key=natural)) for name in names}


def _compared(
    runs: Sequence[Run], first: Sequence[int], layout: Layout, metrics: tuple[Metric, ...], cut: Cut
) -> Comparison:
    """Runs side by side, by a layout whose base is the number of an input, whose runs begin at ``first``."""
    if layout.base_run is not None:
        end = [*first, len(runs)][layout.base_run + 1]
        begin = first[layout.base_run]
        layout = replace(layout, base_run=begin, base_devices=tuple(range(begin + 1, end)))
    typical = _typical(runs) if cut.series else ()
    return Comparison(tuple(runs), layout, metrics, by=cut.by, cut=cut.given, typical=typical)


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
