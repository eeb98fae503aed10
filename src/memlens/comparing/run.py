"""Compare runs: find their logs, see whether they are the ranks of one job, read them, lay them out."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.composition import Roles
from memlens.comparing.claims import claims_of
from memlens.comparing.layout import (
    DEFAULT,
    DEFAULT_OF_RANKS,
    Layout,
    choose_metrics,
    compared_metrics,
    field_values,
    lay_out,
    lay_out_list,
    refuse_fields,
    row_keys,
    run_key,
    shown_metrics,
)
from memlens.comparing.ranks import Job, names_of_ranks, outliers_of
from memlens.comparing.result import Comparison
from memlens.comparing.scaling import slopes
from memlens.comparing.templates import Template, fields_of_ranks, labels_of, natural, numbers_ranks
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.inputs import Reading, expanded, input_name, named_devices, without_cpu
from memlens.options import Cut, as_list
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Compare
from memlens.results import claimed
from memlens.source import is_folder, is_url
from memlens.summarizing.figures import RunWindow, WindowTable
from memlens.summarizing.summary import Run, Status, summarize
from memlens.summarizing.workers import Order, on_all_processors, spread_out
from memlens.windows.anchor_discovery import find_steps
from memlens.windows.windows import BEFORE, anchors_of, names_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memlens.log import Input


#: The field that tells the devices of an input apart.
DEVICE = "device"
#: Cells of a table up to which those without a file are listed as missing.
_MOST_CELLS = 100_000


def compare_with(logs: str | os.PathLike[str] | Sequence[Input], options: Compare) -> Comparison:
    """Put runs side by side: as a list, as a matrix, or as the ranks of one job where that is what their paths say.

    Args:
        logs: Several logs as for :func:`memlens.analyze`, or one text: a folder, or a path template, ``runs/{branch}/workerlog.{rank}``.
            Of an input with several devices each GPU is a run, or the CPU where it is alone.
        options: See :class:`memlens.options.verbs.Compare`.

    Raises:
        UsageError: Arguments that make no sense together.
        InputError: No file matches the template.
    """
    return compare_found(find_runs(logs, options), options)


compare = with_keywords("compare", compare_with, Compare)


class FoundRuns(Struct, frozen=True):
    """The logs that are to be compared.

    Attributes:
        inputs: What to read.
        fields: The fields of each, where their paths have some.
        template: The template that found them, or ``None``.
        of_job: They are the ranks of one job.
        problems: Folders that could not be looked into, in words.
    """

    inputs: Sequence[Input]
    fields: Sequence[Mapping[str, str]] = ()
    template: Template | None = None
    of_job: bool = False
    problems: Sequence[str] = ()

    def orders(self, options: Compare) -> list[Order]:
        """How each is read: with the fields of its path, and whether it is a rank of a job."""
        fields = self.fields or [{}] * len(self.inputs)
        return [Order(one, options, (own, self.of_job)) for one, own in zip(self.inputs, fields, strict=True)]


def find_runs(
    logs: str | os.PathLike[str] | Sequence[Input],
    options: Compare,
    passed_over: Callable[[str, Sequence[str]], None] | None = None,
) -> FoundRuns:
    """Find the logs that are to be compared, and tell whether their paths are those of the ranks of one job.

    Runs that are compared with a base, or laid out as a matrix, are no such ranks whatever their paths are.

    Args:
        logs: As for :func:`compare_with`; a template may stand in a list, alone.  A folder without a log stands for those in its folders.
        options: See :class:`memlens.options.verbs.Compare`.
        passed_over: Called with a folder and the files in it that are no logs.

    Raises:
        UsageError: Arguments that make no sense together.
        InputError: No file matches the template.
    """
    _check_cut(options)
    choose_metrics(as_list(options.metrics))
    alone = options.base is None and options.cols is None and not options.rows
    problems: list[str] = []
    fields: Sequence[Mapping[str, str]] | None
    if (template := _template_of(logs)) is not None:
        found = template.find()
        problems += (match.problem for match in found if match.problem)
        inputs: list[Input] = [match.path for match in found if not match.problem]
        fields = [match.fields for match in found if not match.problem]
        values = field_values(fields, template.fields)
        refuse_fields(values)
        varying = {name: texts for name, texts in values.items() if len(texts) > 1}
        of_job = alone and bool(varying) and all(numbers_ranks(name, texts) for name, texts in varying.items())
    elif options.rows or options.cols is not None:
        raise UsageError("rows and cols are fields of a template", "Give a template: 'runs/{branch}/workerlog.{rank}'.")
    else:
        given = [logs] if isinstance(logs, (str, os.PathLike)) else logs
        inputs = [log for one in given for log in _logs_in(one, options, passed_over, problems)]  # type: ignore[arg-type]
        if not inputs:
            raise UsageError("no log to compare", "Name some, or give a template: 'runs/{branch}/workerlog.{rank}'.")
        paths = [str(one) for one in inputs if isinstance(one, (str, Path)) and str(one) != "-"]
        fields = fields_of_ranks(paths) if alone and len(paths) == len(inputs) else None
        of_job = fields is not None
    if of_job and fields is not None:
        names = labels_of([*map(str, inputs)], fields)
        order = sorted(range(len(names)), key=lambda k: natural(names[k]))
        inputs, fields = [str(inputs[k]) for k in order], [fields[k] for k in order]
    return FoundRuns(inputs, fields or (), template, of_job, problems)


def _check_cut(cut: Cut) -> None:
    """Refuse what every log would be refused for, before any is read.

    Raises:
        UsageError: The cut makes no sense, or a pattern is no regular expression.
    """
    from memlens.windows.patterns import Matcher

    anchors_of(cut.start, cut.end, cut.start_regex, cut.end_regex, cut.nth)
    for pattern in cut.patterns:
        Matcher(pattern)


def _template_of(logs: str | os.PathLike[str] | Sequence[Input]) -> Template | None:
    """The template that stands in place of logs: one text that is no folder, or one in a list with a field in braces that is no file.

    Raises:
        UsageError: A template that makes no sense, or beside something else.
    """
    if isinstance(logs, (str, os.PathLike)):
        return None if is_folder(logs) else Template(os.fspath(logs))
    texts = [os.fspath(log) for log in logs if isinstance(log, (str, Path))]
    named = [
        text for text in texts if "{" in text and not is_folder(text) and (is_url(text) or not os.path.exists(text))
    ]
    if named and len(logs) > 1:
        raise UsageError("a template and other logs exclude each other", "Give the template alone, in quotes.")
    return Template(named[0]) if named else None


def _logs_in(
    given: Input, options: Compare, passed_over: Callable[[str, Sequence[str]], None] | None, problems: list[str]
) -> list[Input]:
    """One input, or the logs in a folder; where it has none itself, those in its folders."""
    found = expanded([given], options, passed_over)
    return expanded([given], options, passed_over, below=problems.append) if is_folder(found[0]) else found


def compare_found(found: FoundRuns, options: Compare) -> Comparison:
    """Read runs that were found and put them side by side."""
    choose_metrics(as_list(options.metrics))  # refused before anything is read
    side_by_side = _of_ranks if found.of_job else _of_list if found.template is None else _of_template
    comparison = side_by_side(found, options)
    return claimed(
        replace(
            comparison,
            template=None if found.template is None else found.template.text,
            by=options.by,
            cut=options.given,
            problems=(*found.problems, *comparison.problems),
        ),
        claims_of,
    )


def _of_list(found: FoundRuns, options: Compare) -> Comparison:
    orders = found.orders(options)
    layout = lay_out_list([input_name(order.given) for order in orders], options.base)
    read = record_all(orders, options)
    runs = tuple(chain(*read))
    metrics = shown_metrics(choose_metrics(as_list(options.metrics) or DEFAULT["list", options.given]), runs)
    return Comparison(runs, _with_base(layout, runs, read), metrics, typical=_typical(runs, options))


def _of_template(found: FoundRuns, options: Compare) -> Comparison:
    template = found.template
    assert template is not None
    rows, cols, base = as_list(options.rows), options.cols, options.base
    orders = found.orders(options)
    paths = [input_name(order.given) for order in orders]
    values = field_values(found.fields, template.fields)
    named = {*rows, cols, (base or "").partition("=")[0]}
    if DEVICE in values or DEVICE not in named:  # refused before anything is read
        lay_out(values, paths, rows, cols, base)
    read = _with_devices(record_all(orders, options))
    runs = list(chain(*read))
    values = field_values([run.fields for run in runs], runs[0].fields)
    layout = lay_out(values, paths, rows, cols, base)
    kind = "list" if layout.cols is None else "matrix"
    metrics = shown_metrics(choose_metrics(as_list(options.metrics) or DEFAULT[kind, options.given]), runs)
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
        metrics,
        scaling=tuple(slopes(runs, windows, values)),
        outliers=tuple(outliers_of(runs, windows, values, compared_metrics(metrics, runs))),
        typical=tuple(window for _, window in cells) if typical else (),
        problems=tuple(too_many),
    )


def _of_ranks(found: FoundRuns, options: Compare) -> Comparison:
    runs = tuple(chain(*_with_devices(record_all(found.orders(options), options))))
    metrics = shown_metrics(choose_metrics(as_list(options.metrics) or DEFAULT_OF_RANKS), runs)
    compared = compared_metrics(metrics, runs)
    job = Job(runs, [run.window(None) for run in runs], names_of_ranks(runs))
    outliers = tuple(one for metric in compared for one in job.outliers(metric))
    values = field_values([run.fields for run in runs], runs[0].fields)
    layout = Layout(tuple(name for name, texts in values.items() if len(texts) > 1))
    return Comparison(runs, layout, metrics, outliers=outliers, ranks=job.ranks(compared))


def _with_devices(read: Sequence[Sequence[Run]]) -> Sequence[Sequence[Run]]:
    """The runs with their device as one more field, where an input has several.

    Raises:
        UsageError: There is such a field already.
    """
    several = next((devices[0] for devices in read if len(devices) > 1), None)
    if several is None:
        return read
    if DEVICE in several.fields:
        raise UsageError(
            f"{several.path}: is one of several devices, and its path has a field {DEVICE!r} already",
            "Name one device, --device N, or give that field another name in a template.",
        )
    names = {None: "unknown", -1: "cpu"}
    return [
        [replace(run, fields={**run.fields, DEVICE: names.get(run.device) or str(run.device)}) for run in devices]
        for devices in read
    ]


def _with_base(layout: Layout, runs: Sequence[Run], read: Sequence[Sequence[Run]]) -> Layout:
    """A layout whose base is the number of an input, as one whose base is the places of that input's runs."""
    if not layout.base_runs:
        return layout
    place = {id(run): number for number, run in enumerate(runs)}
    return replace(layout, base_runs=tuple(place[id(run)] for run in read[layout.base_runs[0]]))


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
    """For each run of a series the median of the windows that all readable runs have; what precedes the first is none.

    Windows that are open in some run count only where there are no others.
    """
    if not cut.series:
        return ()
    read = [windows for run in runs if isinstance(windows := run.windows, WindowTable) and windows]
    names = [set(windows.where(windows.column("oom") == 0).names) - {BEFORE} for windows in read]
    shared = set.intersection(*names) if names else set()
    chosen = shared.difference(*(windows.where(windows.column("open_end") == 1).names for windows in read)) or shared

    def typical(windows: Sequence[RunWindow]) -> RunWindow | None:
        some = np.array([name in chosen for name in names_of(windows)], np.bool_)
        return windows.where(some).typical()[0] if isinstance(windows, WindowTable) and some.any() else None

    return tuple(typical(run.windows) for run in runs)


# --- reading, in workers ---


def record(order: Order) -> tuple[Run, ...]:
    """Read one log and sum it up; what cannot be read is a run with a status and no figures.

    Of an input with several devices each GPU is a run; the CPU beside them is left out with a remark.

    Args:
        order: What to read, the fields of its path, and whether it is of a rank of a job.

    Raises:
        UsageError: The cut makes no sense.
    """
    path, options = input_name(order.given), order.options
    fields, rank = order.about
    # A look at a line or two tells the time of one window; of a series a column of times is cheaper.
    whole = not options.given
    reading = Reading(options.patterns, strict=options.strict, times=options.series, how=options, landmarks=whole)
    try:
        logs, left_out = without_cpu(reading.read_all(order.given))
    except UsageError:
        raise
    except MemlensError as error:
        gone: Status = "missing" if error.message.endswith("no such file") else "unreadable"
        return (Run(path, fields, gone, message=error.message, hint=error.hint),)
    except MemoryError:
        return (Run(path, fields, "unreadable", message="not enough memory for this log", hint="Try --jobs 1."),)
    runs, by_role = [], any(metric.role for metric in choose_metrics(as_list(options.metrics)))
    for log, name, _ in named_devices(path, logs):
        about = {"path": name, "fields": fields, "rank": rank, "buckets": options.buckets, "left_out": left_out}
        try:
            # Of a log that was read before the text is not looked through again.
            looked_for = whole and (log.landmarks is not None or log.marks is not None)
            found = find_steps(log) if looked_for or by_role else None
            steps = () if found is None or not found.repeated else found.windows
            windows = options.windows(log)
            about["roles"] = Roles(log, steps or windows) if by_role else None
            runs.append(summarize(log, windows, options, steps=steps if looked_for else (), **about))
        except AnchorError as error:
            run = summarize(log, (), options, **about)
            status: Status = "no_window" if run.oom is None else "oom"
            runs.append(replace(run, status=status, message=error.message, hint=error.hint))
    return tuple(runs)


def record_all(orders: Sequence[Order], options: Compare) -> list[tuple[Run, ...]]:
    """Read logs and sum them up.

    Args:
        orders: What to read.
        options: Who reads it, and who is told of the bytes read so far, over all logs.

    Returns:
        The runs of each, in their order; what cannot be read is a run with a status and no figures.

    Raises:
        UsageError: The cut makes no sense.
        MemlensError: The executor cannot be had.
    """
    found = spread_out(record, orders, on_all_processors(options, len(orders)), options.progress)
    return [
        (Run(input_name(order.given), order.about[0], "unreadable", message=one.message, hint=one.hint),)
        if isinstance(one, MemlensError)
        else one
        for order, one in zip(orders, found, strict=True)
    ]
