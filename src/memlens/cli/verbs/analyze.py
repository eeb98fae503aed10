"""``memlens analyze``: say where the memory went."""

from __future__ import annotations

import os
from functools import partial

import click

from memlens.cli.options import verb
from memlens.cli.output import WHEN, Show, named_logs, reading, report_failures, shows_pictures, write_result
from memlens.errors import UsageError
from memlens.options.keywords import option
from memlens.options.verbs import Analyze

#: What the tables show; asked for unless -A or a machine format wants more.
_ON_SCREEN = ("remaining", "composition", "activations", "peak", "segments", "stats", "unmatched")
_IN_TABLES = ("remaining", "peak", "stats")
#: Bytes of a log from which on times are looked up.
_LARGE = 32 << 20


class ShowAnalysis(Show):
    """How an analysis is shown.

    Attributes:
        top: Show N rows of each table and count the rest. Default: as many as make one screen; 10 of each list in JSON, none with --by.
        plot: When to draw the levels over the run, of one log: always, never, or where stdout is a terminal (auto).
        sort: Order windows (--by) or logs by a column, largest first: name, line, events, allocs, frees, allocated, freed, carried-in,
            remaining, live, peak, rise, reserved-peak or duration. Default: file order.
        group: Group what is live by who allocates it (owner), by the variable that holds it (holder), or by what that is to the program
            (role): parameters, gradients, optimizer state, saved for backward, temporaries. The last two need a log that memlens record wrote.
    """

    top: int | None = option("N", default=None, kind=0)
    plot: str = option("", default="auto", choices=WHEN, shown=True)
    sort: str | None = option("COLUMN", default=None, offers="columns")
    group: str = option("", default="owner", choices=("owner", "holder", "role"), shown=True)


@verb("analyze", [click.Argument(["logs"], metavar="LOG...", nargs=-1, required=True)], *(Analyze, ShowAnalysis))
def command(logs: tuple[str, ...], options: Analyze, show: ShowAnalysis) -> int:
    r"""Say where the memory went, in whole logs or in parts of them.

    LOG is a file (plain, .gz, .zst, .xz, .bz2), a folder of such files, a URL, or - for stdin: a log of Paddle, a PyTorch memory snapshot, a Kineto trace, an
    RMM log, or of a format of your own. An input with several devices gives a log for each of them. One log gives one screen: the verdict; what ran out of memory,
    and why; the levels as a picture; whether to trust the log; the peak and what remains; the steps that lines of the log count, and
    their phases; what is live at the peak, and held at the end. --by gives a table with a row a window, several logs a table with a row a log.

    A log that cannot be analyzed does not lose the others; the exit code is then 1.

    Examples:
      memlens analyze run.log
      memlens analyze run.log --start "START SOT_CALL_4" --end "END SOT_CALL_4"
      memlens analyze run.log --by "START (SOT_CALL_\d+)" --sort remaining
      memlens analyze run.log -A lifetimes --min-size 1MiB
      memlens analyze run.log --owner "LAYER (\w+) forward"
      memlens analyze run.log.zst --group role
      memlens analyze workerlog.0 workerlog.1 --sort peak
      memlens analyze run.log.gz --by "STEP (\d+) START" --format csv -o steps.csv
      memlens analyze logs/ --scheduler tcp://10.0.0.1:8786
      zcat run.log.gz | memlens analyze - --format json
    """
    from memlens.analyzing.analyze import analyze_with
    from memlens.reports.analyze import analysis_blocks
    from memlens.reports.tables import find_measure, sorted_analysis

    top, sort, full = show.top, show.sort, bool(options.analyzers) or show.full
    logs = named_logs(logs, options, show)
    if sort is not None:
        find_measure(sort)
        if not options.series and len(logs) == 1:
            raise UsageError(
                "--sort needs a table of windows or logs", "Cut the log with --by REGEX, or give several logs."
            )
    if show.group != "owner" and (options.series or len(logs) > 1):
        raise UsageError("--group is of what is live in one window of one log", "Give one log, without --by.")
    with reading(options, show, logs) as how:
        wanted = how.replace(
            analyzers=options.analyzers
            or (None if show.for_programs or show.full else _analyzers(options, show, len(logs))),
            # Of a series none: thousands of lists take longer to work out than the log takes to read.
            top=(0 if options.series else 10) if top is None else top,
            # … and so do the times of its ends, and of the steps of several logs, one by one.
            times=bool(options.series) or (show.for_programs and len(logs) > 1) or not _is_large(logs[0]),
        )
        analysis = analyze_with(logs, wanted)
    result = sorted_analysis(analysis, sort) if show.for_programs else analysis
    picture = show.plot if shows_pictures(show, show.plot) else ""
    blocks = partial(
        analysis_blocks, analysis, top=top, sort=sort, detailed=full, full=show.full, picture=picture, group=show.group
    )
    write_result(result, show, blocks)
    report_failures(analysis.failures)
    return 1 if analysis.failures else 0


def _is_large(log: str) -> bool:
    """Whether it is quicker to look up the few times that are shown of a log than to read all."""
    try:
        return os.path.getsize(log) >= _LARGE
    except OSError:  # no file of this machine: it is read once
        return False


def _analyzers(options: Analyze, show: ShowAnalysis, logs: int) -> tuple[str, ...]:
    """The analyzers whose figures people are shown: what nobody sees is not computed."""
    tables: tuple[str, ...] = _IN_TABLES if options.series or logs > 1 else _ON_SCREEN
    if show.group != "owner":  # what is held at the end stands in the composition
        tables = tuple(name for name in tables if name != "unmatched")
    # Of a series, or of steps that are looked for.
    return (*tables, "growth") if options.series or not (options.given or options.whole) else tables
