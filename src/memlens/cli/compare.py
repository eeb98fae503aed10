"""``memlens compare``: many runs side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from memlens.cli.options import Cut, anchor_options, input_options, output_options
from memlens.cli.results import FORMATS, refuse_outputs, render_result
from memlens.errors import UsageError

if TYPE_CHECKING:
    from memlens.comparing.result import Comparison

__all__ = ["compare_command"]

#: Of many logs that could not be read so many are named on stderr; the result has all.
_MOST_ERRORS = 5


@click.command(
    "compare",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  memlens compare pt.log pir.log pir_fixed.log
  memlens compare before.log after.log --start "STEP 3 START" \\
                                       --end "STEP 4 START"
  memlens compare before.log after.log --by "STEP (\\d+) START" \\
                                       -m peak -m duration
  memlens compare --template "runs/gbs{gbs}/{branch}/workerlog.{rank}" \\
                  --rows gbs,rank --cols branch --base branch=develop
  memlens compare --template "logs/workerlog.{rank}"
  memlens compare --template "{mode}.log" --base mode=pt --format markdown""",
)
@click.argument("logs", metavar="[LOG]...", nargs=-1)
@click.option(
    "--template",
    metavar="PATH",
    help="Find the logs by a path with fields in braces, runs/{branch}/workerlog.{rank}: a field stands for a part of one name "
    "in the path. Quote it, so that the shell leaves it alone.",
)
@click.option(
    "--rows", metavar="F,…", help="Fields of the template that are rows, in this order. Others that vary follow them."
)
@click.option(
    "--cols",
    metavar="F",
    help="The field that is columns. Default: that of --base, else the first one that is not a number; where there is none, "
    "metrics are columns.",
)
@click.option(
    "--base",
    metavar="F=VALUE|LOG",
    help="Compare with the run that has VALUE in field F and is alike in all others, or with one log. Default: the first log, "
    "or the first value of the columns.",
)
@click.option(
    "-m",
    "--metric",
    "metrics",
    metavar="NAME",
    multiple=True,
    help="Show this metric: peak, rise, reserved-peak, live, remaining, carried-in, allocated, allocs, freed, frees or duration. "
    "May be given several times. Default: peak, reserved-peak, duration, live and allocs (of a matrix the first two); with "
    "anchors rise after peak, and remaining instead of live. JSON and CSV have all.",
)
@anchor_options()
@input_options
@click.option(
    "-j",
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Read N logs at a time, each in a process of its own. Default: one a processor. A plain log of 48 MiB or more is shared "
    "out among all processors instead.",
)
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=0),
    help="Show N windows of a series, and N rows of each list below the tables, and count the rest.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How to write the result."
)
@output_options
@click.option(
    "--strict",
    is_flag=True,
    help="Take a compressed log that is cut short for unreadable, instead of comparing what there is.",
)
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def compare_command(
    logs: tuple[str, ...],
    template: str | None,
    rows: str | None,
    cols: str | None,
    base: str | None,
    metrics: tuple[str, ...],
    cut: Cut,
    input_format: str | None,
    device: int | None,
    layer: str | None,
    formats: str | None,
    jobs: int | None,
    top: int | None,
    form: str,
    output: str | None,
    force: bool,
    strict: bool,
    no_progress: bool,
) -> int:
    """Put runs side by side: what each needed, and what it changed against a base.

    Give LOGs, and each is a row; or give a template, and its fields lay the runs out as a matrix. LOG is a file (plain, .gz, .zst,
    .xz, .bz2), a URL, or - for stdin, in any format that memlens reads; of one with several devices each GPU is a row, and the CPU
    beside them is left out (--device takes one).
    A run that ended out of memory shows OOM and what it asked for; one that is missing or unreadable
    shows as such.

    With three or more values of a field that is a number comes how each metric grows with it; with four or more ranks, which of
    them stand out.

    A difference is a result and no failure: the exit code is 0, and 1 only where no run could be read.
    """
    from memlens.cli.progress import progress_bar
    from memlens.comparing.run import compare
    from memlens.output import open_output
    from memlens.reports.compare import compare_blocks

    paths = _paths(logs, template, rows, cols)
    refuse_outputs(output, force, paths, formats=formats)
    with progress_bar([] if no_progress else [path for path in paths if os.path.isfile(path)]) as progress:
        comparison = compare(
            logs if template is None else template,
            rows=() if rows is None else [name.strip() for name in rows.split(",") if name.strip()],
            cols=cols,
            base=base,
            metrics=metrics,
            start=cut.start,
            end=cut.end,
            start_regex=cut.start_regex,
            end_regex=cut.end_regex,
            nth=cut.nth,
            by=cut.by,
            jobs=jobs,
            strict=strict,
            progress=None if no_progress else progress,
            input_format=input_format,
            device=device,
            layer=layer,
            formats=formats,
        )
    text = render_result(comparison, form, output, lambda: compare_blocks(comparison, top=top))
    with open_output(output, force) as out:
        out.write(text.encode())
    return _exit_code(comparison)


def _paths(logs: Sequence[str], template: str | None, rows: str | None, cols: str | None) -> list[str]:
    """The logs that will be read.

    Raises:
        UsageError: Options that exclude each other, or nothing to read.
        InputError: No file matches the template.
    """
    if template is not None:
        from memlens.comparing.templates import Template

        if logs:
            raise UsageError("LOG and --template exclude each other", "Quote the template, or give logs only.")
        return [found.path for found in Template(template).find() if not found.problem]
    if not logs:
        raise UsageError("no log to compare", "Give some, or find them with --template.")
    if rows is not None or cols is not None:
        option = "--rows" if rows is not None else "--cols"
        raise UsageError(
            f"{option} needs --template", "Its fields are those of a template: 'runs/{branch}/log.{rank}'."
        )
    if logs.count("-") > 1:
        raise UsageError("stdin (-) can be read only once", "Give - once.")
    return list(logs)


def _exit_code(comparison: Comparison) -> int:
    """0 where at least one run could be read; else 1, and the reasons on stderr."""
    if any(run.status in ("ok", "oom") for run in comparison.runs):
        return 0
    from memlens.cli import report_error
    from memlens.errors import MemlensError

    for run in comparison.runs[:_MOST_ERRORS]:
        report_error(MemlensError(run.message, run.hint))
    return 1
