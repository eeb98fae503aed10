"""``memlens compare``: many runs side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import click

from memlens.cli.options import Show, verb
from memlens.errors import UsageError
from memlens.keywords import option
from memlens.options import Compare
from memlens.reports import FORMS

__all__ = ["command"]

#: Of each run's curve in a page, which has so many columns of pixels.
BUCKETS = 200
#: Of many logs that could not be read so many are named on stderr; the result has all.
_MOST_ERRORS = 5


@dataclass(frozen=True, kw_only=True)
class ShowComparison(Show):
    """How runs are found, and how a comparison of them is shown.

    Attributes:
        template: Find the logs by a path with fields in braces, runs/{branch}/workerlog.{rank}: a field stands for a part of one name in
            the path. Quote it, so that the shell leaves it alone.
        top: Show N windows of a series, and N rows of each list below the tables, and count the rest.
        form: How to write the result; html is a page on its own, with the curve of each run in its cell.
    """

    template: str | None = option(None, "PATH")
    top: int | None = option(None, "N", kind=0)
    form: str = option("table", "", "--format", choices=(*FORMS, "html"), shown=True)


@verb(
    "compare",
    [click.Argument(["logs"], metavar="[LOG]...", nargs=-1)],
    *(Compare, ShowComparison),
    examples="""\
  memlens compare pt.log pir.log pir_fixed.log
  memlens compare before.log after.log --start "STEP 3 START" \\
                                       --end "STEP 4 START"
  memlens compare before.log after.log --by "STEP (\\d+) START" \\
                                       -m peak -m duration
  memlens compare --template "runs/gbs{gbs}/{branch}/workerlog.{rank}" \\
                  --rows gbs,rank --cols branch --base branch=develop
  memlens compare --template "logs/workerlog.{rank}"
  memlens compare --template "{mode}.log" --base mode=pt --format markdown
  memlens compare --template "logs/workerlog.{rank}" --format html \\
                  -o ranks.html""",
)
def command(logs: tuple[str, ...], options: Compare, show: ShowComparison) -> int:
    """Put runs side by side: what each needed, and what it changed against a base.

    Give LOGs, and each is a row; or give a template, and its fields lay the runs out as a matrix. LOG is a file (plain, .gz, .zst,
    .xz, .bz2), a folder of such files, a URL, or - for stdin, in any format that memlens reads; of one with several devices each GPU is a row, and the CPU
    beside them is left out (--device takes one).
    A run that ended out of memory shows OOM and what it asked for; one that is missing or unreadable
    shows as such.

    With three or more values of a field that is a number comes how each metric grows with it; with four or more ranks, which of
    them stand out.

    A difference is a result and no failure: the exit code is 0, and 1 only where no run could be read.
    """
    from memlens.cli.output import progress_bar, refuse_outputs, report_failures, write, write_result
    from memlens.comparing.run import compare_with
    from memlens.reports.compare import compare_blocks

    paths = _paths(logs, options, show)
    refuse_outputs(show, paths, formats=options.formats)
    with progress_bar(filter(os.path.isfile, paths), show) as progress:
        buckets = BUCKETS if show.form == "html" else 0
        comparison = compare_with(show.template or paths, replace(options, progress=progress, buckets=buckets))
    if show.form == "html":
        from memlens.drawing.compared import comparison_page

        write(comparison_page(comparison, top=show.top, brief=show.brief).html, show)
    else:
        write_result(comparison, show, lambda: compare_blocks(comparison, top=show.top, full=show.everything))
    if any(run.status in ("ok", "oom") for run in comparison.runs):
        return 0
    report_failures(comparison.runs[:_MOST_ERRORS])
    return 1


def _paths(logs: Sequence[str], options: Compare, show: ShowComparison) -> list[str]:
    """The logs that will be read.

    Raises:
        UsageError: Options that exclude each other, or nothing to read.
        InputError: No file matches the template.
    """
    from memlens.cli.output import named_logs, read_stdin_once
    from memlens.comparing.templates import Template
    from memlens.inputs.remote import is_url
    from memlens.text import short_name

    if (template := show.template) is not None:
        if logs:
            raise UsageError("LOG and --template exclude each other", "Quote the template, or give logs only.")
        return [found.path for found in Template(template).find() if not found.problem]
    if not logs:
        raise UsageError("no log to compare", "Give some, or find them with --template.")
    if options.rows or options.cols is not None:
        raise UsageError(
            f"{'--rows' if options.rows else '--cols'} needs --template",
            "Its fields are those of a template: 'runs/{branch}/log.{rank}'.",
        )
    if template := next((log for log in logs if "{" in log and not is_url(log) and not os.path.exists(log)), None):
        raise UsageError(f"no such file: {short_name(template)!r}", "A template is given alone, behind --template.")
    read_stdin_once(logs)
    return list(named_logs(logs, options, show))
