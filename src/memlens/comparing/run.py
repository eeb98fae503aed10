"""Compare runs: find their logs, read them, lay them out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from pathlib import Path
from statistics import median_low
from typing import TYPE_CHECKING, cast

from memlens.comparing.layout import Layout, lay_out, lay_out_list, row_keys, run_key
from memlens.comparing.result import Comparison, Run, RunWindow, field_values
from memlens.comparing.runs import Order, record_all
from memlens.comparing.statistics import DEFAULT, DEFAULT_OF_MATRIX, Metric, choose_metrics, outliers, slopes
from memlens.comparing.templates import Template, natural
from memlens.errors import UsageError
from memlens.inputs import expanded
from memlens.inputs.folders import is_folder
from memlens.keywords import with_keywords
from memlens.options import Compare, Cut, as_list
from memlens.windows.windows import BEFORE, anchors_of

if TYPE_CHECKING:
    from memlens.inputs import Input
    from memlens.windows.patterns import Pattern

__all__ = ["check_cut", "compare", "compare_with"]

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
    check_cut(options)
    chosen = choose_metrics(as_list(options.metrics))
    if is_folder(logs):
        logs = [cast("str | Path", logs)]
    if isinstance(logs, (str, os.PathLike)):
        return _of_template(Template(os.fspath(logs)), chosen, options)
    if options.rows or options.cols is not None:
        raise UsageError("rows and cols are fields of a template", "Give a template: 'runs/{branch}/workerlog.{rank}'.")
    if not logs:
        raise UsageError("no log to compare", "Name some, or give a template.")
    orders = [Order(given, options) for given in expanded(logs, options)]
    layout = lay_out_list([order.path for order in orders], options.base)
    read = _read(orders, options)
    runs = list(chain(*read))
    metrics = chosen or choose_metrics(DEFAULT[options.given])
    layout = _with_base(layout, runs, read)
    return Comparison(tuple(runs), layout, metrics, by=options.by, cut=options.given, typical=_typical(runs, options))


compare = with_keywords("compare", compare_with, Compare)


def check_cut(cut: Cut, more: Sequence[Pattern] = ()) -> None:
    """Refuse what every log would be refused for, before any is read.

    Raises:
        UsageError: The cut makes no sense, or a pattern is no regular expression.
    """
    from memlens.windows.patterns import Matcher

    anchors_of(cut.start, cut.end, cut.start_regex, cut.end_regex, cut.nth)
    for pattern in (*cut.patterns, *more):
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
    read = _read(orders, options)
    if several := next((devices[0].path for devices in read if len(devices) > 1), None):
        if DEVICE in values:
            raise UsageError(
                f"{several}: is one of several devices, and the template has a field {DEVICE!r} already",
                "Name one device, --device N, or give that field another name.",
            )
        read = [list(map(_with_device_field, devices)) for devices in read]
        values = field_values([run.fields for run in chain(*read)], (*template.fields, DEVICE))
    runs = list(chain(*read))
    layout = lay_out(values, [order.path for order in orders], rows, cols, base)
    usual = (DEFAULT if layout.cols is None else DEFAULT_OF_MATRIX)[options.given]
    typical = _typical(runs, options)
    windows = typical or tuple(run.window(None) for run in runs)
    missing, too_many = _missing_cells(runs, layout, values, template)
    cells = [*zip(runs, windows, strict=True), *((run, None) for run in missing)]
    if missing:
        cells.sort(key=lambda cell: [natural(cell[0].fields[name]) for name in values])
    shown = tuple(run for run, _ in cells)
    return Comparison(
        shown,
        _with_base(layout, shown, read),
        metrics or choose_metrics(usual),
        template.text,
        options.by,
        options.given,
        tuple(slopes(runs, windows, values)),
        tuple(outliers(runs, windows, values)),
        tuple(window for _, window in cells) if typical else (),
        (*problems, *too_many),
    )


def _read(orders: Sequence[Order], options: Compare) -> list[list[Run]]:
    """The runs of each input, one for each of its devices."""
    return [[replace(run, further=()), *run.further] for run in record_all(orders, options)]


def _with_device_field(run: Run) -> Run:
    """A run with its device as one more field."""
    name = {None: "unknown", -1: "cpu"}.get(run.device) or str(run.device)
    return replace(run, fields={**run.fields, DEVICE: name})


def _with_base(layout: Layout, runs: Sequence[Run], read: Sequence[Sequence[Run]]) -> Layout:
    """A layout whose base is the number of an input, as one whose base is the places of that input's runs."""
    if layout.base_run is None:
        return layout
    place = {id(run): number for number, run in enumerate(runs)}
    base, *further = (place[id(run)] for run in read[layout.base_run])
    return replace(layout, base_run=base, base_devices=tuple(further))


def _missing_cells(
    runs: Sequence[Run], layout: Layout, values: Mapping[str, Sequence[str]], template: Template
) -> tuple[list[Run], list[str]]:
    """A run for each cell of the table that no file was found for, or, where its cells are too many to list, that they are."""
    varying = layout.rows if layout.cols is None else (*layout.rows, layout.cols)
    heads = [()] if layout.cols is None else [(value,) for value in values[layout.cols]]
    keys = row_keys({run_key(run, layout.rows) for run in runs}, [values[name] for name in layout.rows])
    if (count := len(keys) * len(heads)) > _MOST_CELLS:
        return [], [f"the table has {count:,} cells; those without a file are not listed"]
    known = {run_key(run, varying) for run in runs}
    fixed = {name: texts[0] for name, texts in values.items()}
    cells = [(*key, *head) for key in keys for head in heads]
    missing = [{**fixed, **dict(zip(varying, cell, strict=True))} for cell in cells if cell not in known]
    found = [(template.fill(fields), fields) for fields in missing]
    return [Run(path, fields, "missing", message=f"{path}: no such file") for path, fields in found], []


def _typical(runs: Sequence[Run], cut: Cut) -> tuple[RunWindow | None, ...]:
    """For each run of a series the lower median of each figure over the windows that all readable runs have; what precedes the first is none.

    Windows that are open in some run count only where there are no others.  The lower median is a figure that some window has:
    exact, and of no size that none has.
    """
    if not cut.series:
        return ()
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
