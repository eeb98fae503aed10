"""``memlens report``: one HTML page to look at."""

from __future__ import annotations

import sys

import click

from memlens.cli.options import verb
from memlens.cli.output import Output, reading, write
from memlens.errors import UsageError
from memlens.options.verbs import Report


@verb("report", [click.Argument(["log"], metavar="LOG")], *(Report, Output))
def command(log: str, options: Report, show: Output) -> None:
    r"""Make one HTML page of LOG: the levels over the run, who is alive when, and the memory map, to look at in a browser.

    The page is one file that needs no network: it can be mailed, and attached to a CI run.

    With --base it begins with what LOG does differently from BASE: both curves over an axis on which what both runs do stands at one place.

    Examples:
      memlens report run.log -o report.html
      memlens report snapshot.pickle -o report.html
      memlens report run.log --by "STEP (\d+) START" -o report.html
      memlens report bad.log --base good.log -o report.html
    """
    from memlens.drawing.report import report_with

    if show.output is None and sys.stdout.isatty():
        raise UsageError("a page is for a browser, and not for a terminal", "Name a file for it: -o report.html")
    inputs = [log] if options.base is None else [log, str(options.base)]
    with reading(options, show, inputs, "Give - for one of the two logs.") as how:
        page = report_with(log, how)
    write(page.html, show)
