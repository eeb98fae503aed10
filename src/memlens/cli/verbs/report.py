"""``memlens report``: one HTML page to look at."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

from memlens.cli.options import Output, verb
from memlens.errors import UsageError
from memlens.options import Report

__all__ = ["command"]


@verb(
    "report",
    [click.Argument(["log"], metavar="LOG")],
    *(Report, Output),
    examples="""\
  memlens report run.log -o report.html
  memlens report snapshot.pickle -o report.html
  memlens report run.log --by "STEP (\\d+) START" -o report.html
  memlens report bad.log --diff good.log -o report.html""",
)
def command(log: str, options: Report, show: Output) -> None:
    """Make one HTML page of LOG: the levels over the run, who is alive when, and the memory map, to look at in a browser.

    The page is one file that needs no network: it can be mailed, and attached to a CI run.

    With --diff it begins with what LOG does differently from BASE: both curves over an axis on which what both runs do stands at one place.
    """
    from memlens.cli.output import progress_bar, read_stdin_once, refuse_outputs
    from memlens.drawing.report import report_with
    from memlens.output import open_output

    if show.output is None and sys.stdout.isatty():
        raise UsageError("a page is for a browser, and not for a terminal", "Name a file for it: -o report.html")
    inputs = [log] if options.diff is None else [log, str(options.diff)]
    read_stdin_once(inputs, "Give - for one of the two logs.")
    refuse_outputs(show, inputs, formats=options.formats)
    with progress_bar(dict.fromkeys(inputs), show) as progress:
        page = report_with(log, replace(options, progress=progress))
    with open_output(show.output, show.force) as out:
        out.write(page.html.encode())
