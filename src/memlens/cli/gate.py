"""``memlens gate``: judge a log against a baseline, and fail where memory grew."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import click

from memlens.cli.options import Cut, anchor_options, input_options, output_options
from memlens.cli.results import FORMATS, refuse_outputs, render_result
from memlens.errors import UsageError

if TYPE_CHECKING:
    from memlens.gating.verdict import Verdict

__all__ = ["gate_command"]


@click.command(
    "gate",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  memlens gate run.log --baseline memory.json --by "STEP (\\d+) START" --accept
  memlens gate run1.log run2.log run3.log --baseline memory.json \\
                                          --by "STEP (\\d+) START" --accept
  memlens gate run.log --baseline memory.json
  memlens gate run.log --baseline memory.json \\
                       --limit peak=5%,64MiB --limit growth=0
  memlens gate run.log --baseline memory.json \\
                       --base-log main.log --markdown comment.md
  memlens gate run.log --base-log main.log --by "START (SOT_CALL_\\d+)"
  memlens gate run.log --budget peak=12GiB --budget reserved=15GiB
  memlens gate run.log --baseline memory.json --github --junit memory.xml""",
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--baseline", metavar="FILE", help="Judge by the figures in FILE, which --accept wrote.")
@click.option(
    "--accept",
    is_flag=True,
    help="Judge nothing, and write LOG's figures to the baseline; of several runs of one program the spread is kept, and no limit is "
    "narrower. The file may exist; one that is no baseline is never written over.",
)
@click.option(
    "--with-events",
    is_flag=True,
    help="With --accept: keep the events (of the first LOG) too, beside the baseline, so that a later failure can be blamed without the "
    "old log.",
)
@click.option(
    "--limit",
    "limits",
    metavar="METRIC=PERCENT,SIZE",
    multiple=True,
    help="Fail where METRIC grows by more than both parts; one may be left out: peak (of the whole run), rise and remaining (of each "
    "window), growth (over the series of windows), reserved. METRIC=off gates it not at all. May be given for each metric. Default: 2%,1MiB for "
    "all but reserved. A size has a unit (10MiB, 512B).",
)
@click.option(
    "--budget",
    "budgets",
    metavar="METRIC=SIZE",
    multiple=True,
    help="Fail where METRIC (peak or reserved) of the whole run is above SIZE, whatever it was before. May be given for each.",
)
@anchor_options()
@input_options
@click.option(
    "--base-log",
    metavar="LOG",
    help="Say what failing windows do differently from this earlier run. Without --baseline its figures are the ones to judge by.",
)
@click.option("--allow-missing", is_flag=True, help="Do not fail where LOG lacks windows that the baseline has.")
@click.option("--no-trust", is_flag=True, help="Judge a log, or accept one, although its figures are in doubt.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How to write the result."
)
@output_options
@click.option("--junit", metavar="FILE", help="Write the verdict to FILE as JUnit XML, too.")
@click.option("--markdown", metavar="FILE", help="Write it to FILE as Markdown, too: a comment below 60 kB.")
@click.option(
    "--github",
    is_flag=True,
    help="Write GitHub annotations beside the result, and add the verdict to the summary of the job (GITHUB_STEP_SUMMARY).",
)
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def gate_command(
    logs: tuple[str, ...],
    baseline: str | None,
    accept: bool,
    with_events: bool,
    limits: tuple[str, ...],
    budgets: tuple[str, ...],
    cut: Cut,
    input_format: str | None,
    device: int | None,
    layer: str | None,
    formats: str | None,
    base_log: str | None,
    allow_missing: bool,
    no_trust: bool,
    form: str,
    output: str | None,
    force: bool,
    junit: str | None,
    markdown: str | None,
    github: bool,
    no_progress: bool,
) -> int:
    """Judge a log: exit code 0 where it is within limits of its baseline, 3 where memory grew, 1 where nothing can be said.

    LOG is a file (plain, .gz, .zst, .xz, .bz2), a URL, or - for stdin, in any format that memlens reads; one is judged, and --accept takes several. Judged are the peak of the whole run,
    what each closed window adds and leaves behind, and what the series of windows gains; all that fail is listed, the worst first. Windows are cut as the baseline was; a window that
    the baseline has and LOG lacks fails, but where LOG merely ends earlier.

    A log in doubt (cut short, several processes, logging switched on late) and a run that ran out of memory are not judged.
    """
    how: dict[str, Any] = {"input_format": input_format, "device": device, "layer": layer, "formats": formats}
    if accept:
        _refuse_with_accept(baseline, base_log, output=output, junit=junit, markdown=markdown, github=github)
        return _accept(logs, cast("str", baseline), cut, with_events or None, no_trust, no_progress, how)
    if with_events:
        raise UsageError("--with-events needs --accept", "It says what to keep beside the baseline.")
    log, *more = logs
    if more:
        raise UsageError("one log is judged at a time", "Give one. --accept takes a baseline of several.")
    if log == base_log == "-":
        raise UsageError("stdin (-) can be read only once", "Give - for one of the two logs.")
    summary = os.environ.get(_SUMMARY) if github else None
    _refuse_files([output, junit, markdown], summary, force, log, baseline, base_log, formats)
    from memlens.cli.progress import progress_bar
    from memlens.gating.run import gate

    with progress_bar([] if no_progress else list(dict.fromkeys(filter(None, (log, base_log))))) as progress:
        verdict = gate(
            log,
            baseline=baseline,
            limits=limits,
            budgets=budgets,
            base_log=base_log,
            allow_missing=allow_missing,
            trust=not no_trust,
            progress=None if no_progress else progress,
            **how,
            **asdict(cut),
        )
    _write(verdict, form, output, junit, markdown, force, github)
    return verdict.exit_code


def _write(
    verdict: Verdict, form: str, output: str | None, junit: str | None, markdown: str | None, force: bool, github: bool
) -> None:
    """Write every form that was asked for, the files first: stdout may be a pipe that somebody closes."""
    from memlens.output import open_output
    from memlens.reports import ci as github_report
    from memlens.reports.gate import comment, gate_blocks

    for path, render in ((junit, github_report.junit), (markdown, comment)):
        if path is not None:
            with open_output(path, force) as out:
                out.write(render(verdict).encode())
    if form == "markdown":
        text = comment(verdict)
    else:
        text = render_result(cast("Any", verdict), form, output, lambda: gate_blocks(verdict))
    on_stdout = output in (None, "-")
    if github and on_stdout:
        text = github_report.fenced(text) if form == "table" else text
    with open_output(output, force) as out:
        out.write(text.encode())
    if github:
        # Beside a result that a program reads, stdout takes nothing else; GitHub reads both.
        click.echo(github_report.workflow_commands(verdict), nl=False, err=on_stdout and form != "table")
        _add_to_summary(comment(verdict))


#: The variable in which GitHub names the file for the summary of a job.
_SUMMARY = "GITHUB_STEP_SUMMARY"


def _add_to_summary(text: str) -> None:
    """Add the verdict to the summary of the job; where that fails the verdict stands all the same."""
    path = os.environ.get(_SUMMARY)
    if not path:
        return
    try:
        with open(path, "ab") as summary:
            summary.write(f"{text}\n".encode())
    except OSError as error:
        click.echo(f"memlens: the summary of the job was not written: {error.strerror or error}", err=True)


def _accept(
    logs: tuple[str, ...],
    baseline: str,
    cut: Cut,
    with_events: bool | None,
    no_trust: bool,
    no_progress: bool,
    how: dict[str, Any],
) -> int:
    from memlens.cli.progress import progress_bar
    from memlens.gating.run import accept
    from memlens.gating.stored import events_path
    from memlens.reports.text import plural, visible

    if logs.count("-") > 1:
        raise UsageError("stdin (-) can be read only once", "Give - for one of the logs.")
    with progress_bar([] if no_progress else list(dict.fromkeys(logs))) as progress:
        taken = accept(
            logs,
            baseline,
            with_events=with_events,
            trust=not no_trust,
            progress=None if no_progress else progress,
            **how,
            **asdict(cut),
        )
    beside = "" if taken.events_sha256 is None else f"; its events are in {events_path(baseline)}"
    windows = plural(len(taken.runs[0].windows), "window")
    what = f"memlens: {baseline}: {windows} of {', '.join(logs)} accepted{beside}"
    with suppress(OSError):
        click.echo(visible(what), err=True)
    return 0


def _refuse_with_accept(baseline: str | None, base_log: str | None, **outputs: str | bool | None) -> None:
    """Refuse what makes no sense beside ``--accept``.

    Raises:
        UsageError: Such options.
    """
    if baseline is None:
        raise UsageError("--accept needs --baseline FILE", "It says where to write the figures that are accepted.")
    given = ["--base-log"] if base_log is not None else []
    given += [f"--{name}" for name, value in outputs.items() if value]
    if given:
        raise UsageError(
            f"--accept and {given[0]} exclude each other", "--accept judges nothing, it writes the baseline."
        )


def _refuse_files(
    outputs: list[str | None],
    summary: str | None,
    force: bool,
    log: str,
    baseline: str | None,
    base_log: str | None,
    formats: str | None,
) -> None:
    """Say early that an output cannot be written, or is another one or an input.

    Raises:
        OutputError: See :func:`memlens.output.refuse_overwrite`.
        UsageError: Two of the files are one.
    """
    from memlens.gating.stored import events_path

    if "-" in outputs[1:]:
        raise UsageError("--junit and --markdown write to a file", "--format markdown writes Markdown to stdout.")
    events = None if baseline is None else str(events_path(baseline))
    inputs = [path for path in (log, baseline, events, base_log) if path is not None]
    appended = [summary or None]
    refuse_outputs(outputs[0], force, inputs, formats=formats, others=outputs[1:], appended=appended)
    files = [path for path in (*outputs, *appended) if path is not None]
    if len({os.path.realpath(path) for path in files}) < len(files):
        raise UsageError("two outputs go to one file", "Name another file for one of them.")
