"""``memlens report``: one HTML page to look at."""

from __future__ import annotations

from dataclasses import replace

import click

from memlens.cli.options import Output, verb
from memlens.options import Report

__all__ = ["command"]


@verb(
    "report",
    [click.Argument(["log"], metavar="LOG")],
    *(Report, Output),
    examples="""\
  memlens report run.log -o report.html
  memlens report snapshot.pickle -o report.html
  memlens report run.log --by "STEP (\\d+) START" -o report.html""",
)
def command(log: str, options: Report, show: Output) -> None:
    """Make one HTML page of LOG: the levels over the run, who is alive when, and the memory map, to look at in a browser.

    The page is one file that needs no network: it can be mailed, and attached to a CI run.
    """
    from memlens.cli.output import progress_bar, refuse_outputs
    from memlens.drawing.report import report_with
    from memlens.output import open_output

    refuse_outputs(show, (log,), formats=options.formats)
    with progress_bar([log], show) as progress:
        page = report_with(log, replace(options, progress=progress))
    with open_output(show.output, show.force) as out:
        out.write(page.html.encode())
