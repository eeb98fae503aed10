"""``memlens analyze``: say where the memory went."""

from __future__ import annotations

import click

from memlens.cli.options import Cut, anchor_options, input_options, output_options, owner_options
from memlens.cli.results import FORMATS, Size, refuse_outputs, render_result, report_failures
from memlens.errors import UsageError

__all__ = ["analyze_command"]

#: What the tables show; asked for unless -A or a machine format wants more.
_ON_SCREEN = ("remaining", "peak", "segments", "stats", "unmatched")
_IN_TABLES = ("remaining", "peak", "stats")


@click.command(
    "analyze",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  memlens analyze run.log
  memlens analyze run.log --start "START SOT_CALL_4" --end "END SOT_CALL_4"
  memlens analyze run.log --by "START (SOT_CALL_\\d+)" --sort remaining
  memlens analyze run.log -A lifetimes --min-size 1MiB
  memlens analyze run.log --owner "LAYER (\\w+) forward"
  memlens analyze workerlog.0 workerlog.1 --sort peak
  memlens analyze run.log.gz --by "STEP (\\d+) START" --format csv -o steps.csv
  zcat run.log.gz | memlens analyze - --format json""",
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@anchor_options()
@owner_options
@input_options
@click.option(
    "-A",
    "--analyzer",
    "analyzers",
    metavar="NAME",
    multiple=True,
    help="Run this analyzer, and show all it says. May be given several times. Built in: remaining, peak, segments, stats, "
    "unmatched, lifetimes, and growth (with --by); installed packages may add more.",
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
    type=Size(),
    default="0",
    help="Leave blocks smaller than SIZE (4096, 64KiB, 1.5MiB) out of lists.",
)
@click.option(
    "--sort",
    metavar="COLUMN",
    help="Order windows (--by) or logs by a column, largest first: name, line, events, allocs, frees, allocated, freed, carried-in, "
    "remaining, live, peak, rise, reserved-peak or duration. Default: file order.",
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
    owners: tuple[str, ...],
    input_format: str | None,
    device: int | None,
    layer: str | None,
    formats: str | None,
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

    LOG is a file (plain, .gz, .zst, .xz, .bz2), a URL, or - for stdin: a log of Paddle, a PyTorch memory snapshot, a Kineto trace, an
    RMM log, or of a format of your own. An input with several devices gives a log for each of them. One log gives one screen: whether to trust it, the peak,
    what remains, what is live at the peak, what is held at the end. --by gives a table with a row a window, several logs a table
    with a row a log.

    A log that cannot be analyzed does not lose the others; the exit code is then 1.
    """
    from memlens.analyzing.analyze import analyze
    from memlens.cli.progress import progress_bar
    from memlens.output import open_output
    from memlens.reports.analyze import analysis_blocks
    from memlens.reports.tables import find_measure

    if sort is not None:
        find_measure(sort)
        if not cut.series and len(logs) == 1:
            raise UsageError(
                "--sort needs a table of windows or logs", "Cut the log with --by REGEX, or give several logs."
            )
    if logs.count("-") > 1:
        raise UsageError("stdin (-) can be read only once", "Give - once.")
    refuse_outputs(output, force, logs, formats=formats)
    with progress_bar([] if no_progress else logs) as progress:
        analysis = analyze(
            logs,
            start=cut.start,
            end=cut.end,
            start_regex=cut.start_regex,
            end_regex=cut.end_regex,
            nth=cut.nth,
            by=cut.by,
            owners=owners,
            analyzers=analyzers or _default_analyzers(form, cut.series, len(logs)),
            top=_top_in_json(cut.series) if top is None else top,
            min_size=min_size,
            strict=strict,
            times=form in ("json", "csv") or sort == "duration" or bool(analyzers),
            progress=None if no_progress else progress,
            input_format=input_format,
            device=device,
            layer=layer,
            formats=formats,
        )
    text = render_result(
        analysis,
        form,
        output,
        lambda: analysis_blocks(analysis, top=top, sort=sort, full=bool(analyzers)),
        sort,
    )
    with open_output(output, force) as out:
        out.write(text.encode())
    report_failures(analysis.failures)
    return 1 if analysis.failures else 0


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
