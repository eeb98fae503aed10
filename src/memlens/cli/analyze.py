"""``memlens analyze``: say where the memory went."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memlens.cli.options import Cut, anchor_options, output_options
from memlens.errors import UsageError
from memlens.units import parse_bytes

if TYPE_CHECKING:
    from memlens.analysis import Analysis

__all__ = ["FORMATS", "analyze_command"]

FORMATS = ("table", "json", "csv", "markdown")
#: What the tables show; asked for unless -A or a machine format wants more.
_ON_SCREEN = ("remaining", "peak", "stats", "unmatched")
_IN_TABLES = ("remaining", "peak", "stats")


class _Size(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases
    """A size as people type it."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_bytes(str(value))
        except UsageError as error:
            self.fail(f"{error.message}. {error.hint}", param, ctx)


@click.command(
    "analyze",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  memlens analyze run.log
  memlens analyze run.log --start "START SOT_CALL_4" --end "END SOT_CALL_4"
  memlens analyze run.log --by "START (SOT_CALL_\\d+)" --sort remaining
  memlens analyze run.log -A lifetimes --min-size 1MiB
  memlens analyze workerlog.0 workerlog.1 --sort peak
  memlens analyze run.log.gz --by "STEP (\\d+) START" --format csv -o steps.csv
  zcat run.log.gz | memlens analyze - --format json""",
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@anchor_options()
@click.option(
    "-A",
    "--analyzer",
    "analyzers",
    metavar="NAME",
    multiple=True,
    help="Run this analyzer, and show all it says. May be given several times. Built in: remaining, peak, stats, unmatched, "
    "lifetimes, and growth (with --by); installed packages may add more.",
)
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=0),
    help="Show N rows of each table and count the rest. Default: as many as make one screen; 10 of each list in JSON, none with --by.",
)
@click.option(
    "--min-size",
    metavar="SIZE",
    type=_Size(),
    default="0",
    help="Leave blocks smaller than SIZE (4096, 64KiB, 1.5MiB) out of lists.",
)
@click.option(
    "--sort",
    metavar="COLUMN",
    help="Order windows (--by) or logs by a column, largest first: name, line, events, allocs, frees, allocated, freed, carried-in, "
    "remaining, peak, absolute-peak, reserved-peak or duration. Default: file order.",
)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How to write the result."
)
@output_options
@click.option(
    "--strict", is_flag=True, help="Fail on a compressed log that is cut short, instead of analyzing what there is."
)
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def analyze_command(
    logs: tuple[str, ...],
    cut: Cut,
    analyzers: tuple[str, ...],
    top: int | None,
    min_size: int,
    sort: str | None,
    form: str,
    output: str | None,
    force: bool,
    strict: bool,
    no_progress: bool,
) -> int:
    """Say where the memory went, in whole logs or in parts of them.

    LOG is a file (plain, .gz, .zst, .xz, .bz2) or - for stdin. One log gives one screen: whether to trust it, the peak,
    what remains, what is live at the peak, what is held at the end. --by gives a table with a row a window, several logs a table
    with a row a log.

    A log that cannot be analyzed does not lose the others; the exit code is then 1.
    """
    from memlens.analysis import analyze
    from memlens.cli.progress import progress_bar
    from memlens.output import open_output, refuse_overwrite
    from memlens.reports.tables import find_measure

    if sort is not None:
        find_measure(sort)
        if not cut.series and len(logs) == 1:
            raise UsageError(
                "--sort needs a table of windows or logs", "Cut the log with --by REGEX, or give several logs."
            )
    if logs.count("-") > 1:
        raise UsageError("stdin (-) can be read only once", "Give - once.")
    refuse_overwrite(output, force)
    if output is not None and any(_same_file(output, log) for log in logs):
        raise UsageError(f"{output} is the log itself", "Name another file to write to.")
    with progress_bar([] if no_progress else logs) as progress:
        analysis = analyze(
            logs,
            start=cut.start,
            end=cut.end,
            start_regex=cut.start_regex,
            end_regex=cut.end_regex,
            nth=cut.nth,
            by=cut.by,
            analyzers=analyzers or _default_analyzers(form, cut.series, len(logs)),
            top=_top_in_json(cut.series) if top is None else top,
            min_size=min_size,
            strict=strict,
            times=form in ("json", "csv") or sort == "duration" or bool(analyzers),
            progress=None if no_progress else progress,
        )
    text = _render(analysis, form, top, sort, full=bool(analyzers), to_terminal=output in (None, "-"))
    with open_output(output, force) as out:
        out.write(text.encode())
    _report_failures(analysis)
    return 1 if analysis.failures else 0


def _same_file(output: str, log: str) -> bool:
    with suppress(OSError, ValueError):
        return Path(output).samefile(log)
    return False


def _top_in_json(series: bool) -> int:
    """Rows of each list: none of a series, for thousands of lists take longer to work out than the log takes to read."""
    return 0 if series else 10


def _default_analyzers(form: str, series: bool, logs: int) -> tuple[str, ...] | None:
    """The analyzers whose figures are shown: what nobody sees is not computed."""
    if form in ("json", "csv"):
        return None
    if series:
        return (*_IN_TABLES, "growth")
    return _ON_SCREEN if logs == 1 else _IN_TABLES


def _render(analysis: Analysis, form: str, top: int | None, sort: str | None, *, full: bool, to_terminal: bool) -> str:
    from memlens.reports import csv_report, json_report, markdown, screens, terminal

    if form == "json":
        return json_report.render(analysis, sort=sort)
    if form == "csv":
        return csv_report.render(analysis, sort=sort)
    blocks = screens.analysis_blocks(analysis, top=top, sort=sort, full=full)
    if form == "markdown":
        return markdown.render(blocks)
    if not to_terminal:
        return terminal.render(blocks)
    return terminal.render(blocks, width=_width(), colour=_colour(), ascii_only=not _shows_unicode())


def _width() -> int | None:
    """Columns of the terminal.  A pipe has none: only a COLUMNS set on purpose gives it some."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _shows_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "") in ("utf8", "utf8sig")


def _report_failures(analysis: Analysis) -> None:
    from memlens.cli import report_error
    from memlens.errors import MemlensError

    for failure in analysis.failures:
        report_error(MemlensError(failure.message, failure.hint))
