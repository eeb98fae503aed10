"""``memlens compare``: many runs side by side."""

from __future__ import annotations

import os
from functools import partial

import click

from memlens.cli.options import verb
from memlens.cli.output import Show
from memlens.options.keywords import option
from memlens.options.verbs import Compare
from memlens.reports import FORMS

#: Of each run's curve in a page, which has so many columns of pixels.
BUCKETS = 200
#: Of many logs that could not be read so many are named on stderr; the result has all.
_MOST_ERRORS = 5


class ShowComparison(Show):
    """How a comparison of runs is shown.

    Attributes:
        top: Show N windows of a series, and N rows of each list below the tables, and count the rest.
        form: How to write the result; html is a page on its own, with the curve of each run in its cell.
    """

    top: int | None = option("N", default=None, kind=0)
    form: str = option("", "--format", default="table", choices=(*FORMS, "html"), shown=True)


@verb("compare", [click.Argument(["logs"], metavar="[LOG]...", nargs=-1)], *(Compare, ShowComparison))
def command(logs: tuple[str, ...], options: Compare, show: ShowComparison) -> int:
    r"""Put runs side by side: what each needed, and what it changed against a base; of the ranks of one job who stands out, and who failed first.

    Give LOGs, and each is a row; or give one path with fields in braces, runs/{branch}/workerlog.{rank}, in quotes: a field stands for a part of one name in
    the path, and the fields lay the runs out as a matrix. LOG is a file (plain, .gz, .zst,
    .xz, .bz2), a folder of such files, a URL, or - for stdin, in any format that memlens reads; of one with several devices each GPU is a row, and the CPU
    beside them is left out (--device takes one).
    A run that ended out of memory shows OOM and what it asked for; one that is missing or unreadable
    shows as such.

    Logs whose names differ only in what numbers ranks (rank0017, workerlog.3, pp1_tp0), and those of a template whose fields do, are the ranks of one job, ten or ten thousand, unless --base, --rows or
    --cols is given: which one holds more or less than its peers and in which blocks, which failed first, whose log ended early, what differs by stage or machine.

    With three or more values of a field that is a number comes how each metric grows with it.

    A difference is a result and no failure: the exit code is 0, and 1 only where no run could be read.

    Examples:
      memlens compare pt.log pir.log pir_fixed.log
      memlens compare before.log after.log --start "STEP 3 START" \
                                           --end "STEP 4 START"
      memlens compare before.log after.log --by "STEP (\d+) START" \
                                           -m peak -m duration
      memlens compare "runs/gbs{gbs}/{branch}/workerlog.{rank}" \
                      --rows gbs,rank --cols branch --base branch=develop
      memlens compare "{mode}.log" --base mode=pt --format markdown
      memlens compare logs/ --by "STEP (\d+) START"
      memlens compare "runs/{node}/workerlog.{rank}" --format html \
                      -o ranks.html
    """
    from memlens.cli import output
    from memlens.comparing.run import compare_found, find_runs
    from memlens.reports.compare import compare_blocks

    output.read_stdin_once(logs)
    found = find_runs(logs, options, output.note_others(show))
    paths = [*map(str, found.inputs)]
    output.refuse_outputs(show, paths, formats=options.formats)
    with output.progress_bar(filter(os.path.isfile, paths), show) as progress:
        buckets = BUCKETS if show.form == "html" else 0
        comparison = compare_found(found, options.replace(progress=progress, buckets=buckets))
    if show.form == "html":
        from memlens.drawing.compared import comparison_page

        output.write(comparison_page(comparison, top=show.top, brief=show.brief).html, show)
    else:
        output.write_result(comparison, show, partial(compare_blocks, comparison, top=show.top, full=show.everything))
    if any(run.status in ("ok", "oom") for run in comparison.runs):
        return 0
    output.report_failures(comparison.runs[:_MOST_ERRORS])
    return 1
