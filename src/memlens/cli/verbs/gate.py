"""``memlens gate``: judge a log against a baseline, and fail where memory grew."""

from __future__ import annotations

import os
from functools import cache, partial
from typing import TYPE_CHECKING, cast

import click

from memlens.cli.options import verb
from memlens.cli.output import Show, note, progress_bar, read_stdin_once, refuse_outputs, write, write_result
from memlens.errors import UsageError
from memlens.options.keywords import flag, option
from memlens.options.verbs import Accept, Gate

if TYPE_CHECKING:
    from memlens.gating.verdict import Verdict

#: The variable in which GitHub names the file for the summary of a job.
_SUMMARY = "GITHUB_STEP_SUMMARY"
#: Where a verdict goes.
_OUTPUTS = ("output", "junit", "markdown", "github")
#: Folders of a repository whose files are others'.
_OTHERS = {"node_modules", "site-packages", "build"}


class ShowVerdict(Show):
    """The outputs of a verdict, or of the figures of a log that is accepted.

    Attributes:
        accept: Judge nothing, and write LOG's figures to the baseline; of several runs of one program the spread is kept, and no limit is
            narrower. The file may exist; one that is no baseline is never written over.
        junit: Write the verdict to FILE as JUnit XML, too.
        markdown: Write it to FILE as Markdown, too: a comment below 60 kB.
        github: Write GitHub annotations beside the result, and add the verdict to the summary of the job (GITHUB_STEP_SUMMARY).
    """

    accept: bool = flag(default=False)
    junit: str | None = option("FILE", default=None)
    markdown: str | None = option("FILE", default=None)
    github: bool = flag(default=False)


@verb("gate", [click.Argument(["logs"], metavar="LOG...", nargs=-1, required=True)], *(Gate, Accept, ShowVerdict))
def command(logs: tuple[str, ...], options: Gate, accept: Accept, show: ShowVerdict) -> int:
    r"""Judge a log: exit code 0 where it is within limits of its baseline, 3 where memory grew, 1 where nothing can be said.

    LOG is a file (plain, .gz, .zst, .xz, .bz2), a URL, or - for stdin, in any format that memlens reads; one is judged, and --accept takes several. Judged are the peak of the whole run and what its steps gain; where
    --by or --start names windows, the peak of each closed one and what it leaves behind, too. All that fail is listed, the worst first. Windows are cut as the baseline was; a window that
    the baseline has and LOG lacks fails, but where LOG merely ends earlier.

    A log in doubt (cut short, several processes, logging switched on late) and a run that ran out of memory are not judged.

    Examples:
      memlens gate run.log --baseline memory.json --by "STEP (\d+) START" --accept
      memlens gate run1.log run2.log run3.log --baseline memory.json \
                                              --by "STEP (\d+) START" --accept
      memlens gate run.log --baseline memory.json
      memlens gate run.log --baseline memory.json \
                           --limit peak=5%,64MiB --limit growth=0
      memlens gate run.log --baseline memory.json \
                           --base main.log --markdown comment.md
      memlens gate run.log --base main.log --by "START (SOT_CALL_\d+)"
      memlens gate run.log --budget peak=12GiB --budget reserved=15GiB
      memlens gate run.log --baseline memory.json --github --junit memory.xml
    """
    if show.accept:
        _accept(logs, options, accept, show)
        return 0
    log, *more = logs
    if more:
        raise UsageError("one log is judged at a time", "Give one. --accept takes a baseline of several.")
    from memlens.gating.run import gate_with

    base = cast("str | None", options.base)
    read_stdin_once((log, base), "Give - for one of the two logs.")
    _refuse_files(log, options, show)
    with progress_bar(dict.fromkeys(filter(None, (log, base))), show) as progress:
        verdict = gate_with(log, options.replace(progress=progress))
    _write(verdict, show)
    return verdict.exit_code


def _write(verdict: Verdict, show: ShowVerdict) -> None:
    """Write every form that was asked for, the files first: stdout may be a pipe that somebody closes."""
    from memlens.output import open_output
    from memlens.reports.gate import EVERYTHING, ci, comment, gate_blocks

    for path, render in ((show.junit, ci.junit), (show.markdown, comment)):
        if path is not None:
            with open_output(path, show.force) as out:
                out.write(render(verdict).encode())
    fence = ci.fenced if show.github and show.on_stdout and show.form == "table" else str
    if show.form == "markdown":
        write(comment(verdict), show)
    else:
        write_result(verdict, show, partial(gate_blocks, verdict, EVERYTHING if show.full else None), fence)
    if show.github:
        # Beside a result that a program reads, stdout takes nothing else; GitHub reads both.
        click.echo(
            ci.workflow_commands(verdict, cache(_path_of)), nl=False, err=show.on_stdout and show.form != "table"
        )
        _add_to_summary(comment(verdict))


def _path_of(name: str) -> str | None:
    """Where in the repository the only file of a name lies; ``None`` where there are several, or none."""
    root, found = os.environ.get("GITHUB_WORKSPACE") or ".", list[str]()
    for folder, folders, files in os.walk(root):
        if "pyvenv.cfg" in files:
            folders.clear()
        elif name in files:
            found.append(os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/"))
        folders[:] = [one for one in folders if not one.startswith(".") and one not in _OTHERS]
    return found[0] if len(found) == 1 else None


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


def _accept(logs: tuple[str, ...], options: Gate, accept: Accept, show: ShowVerdict) -> None:
    """Write the figures of logs to the baseline.

    Raises:
        UsageError: Options that make no sense beside ``--accept``.
    """
    from memlens.gating.run import accept_with
    from memlens.reports.gate import allowed_words
    from memlens.text import plural

    baseline = options.baseline
    if baseline is None:
        raise UsageError("--accept needs --baseline FILE", "It says where to write the figures that are accepted.")
    others = {"base": options.base is not None, **{name: getattr(show, name) for name in _OUTPUTS}}
    if given := [name for name, value in others.items() if value]:
        raise UsageError(
            f"--accept and --{given[0]} exclude each other", "--accept judges nothing, it writes the baseline."
        )
    read_stdin_once(logs, "Give - for one of the logs.")
    with progress_bar(dict.fromkeys(logs), show) as progress:
        taken = accept_with(logs, baseline, accept.replace(progress=progress, trust=options.trust))
    run = taken.runs[0]
    windows = (
        plural(len(run.windows), "window") if taken.anchors.cut.given else plural(len(run.step_levels), "closed step")
    )
    note(f"{baseline}: {windows} of {', '.join(logs)} accepted", show)
    note(allowed_words(taken), show)


def _refuse_files(log: str, options: Gate, show: ShowVerdict) -> None:
    """Say early that an output cannot be written, or is another one or an input.

    Raises:
        OutputError: See :func:`memlens.output.refuse_overwrite`.
        UsageError: Two of the files are one.
    """
    others, appended = [show.junit, show.markdown], [(show.github and os.environ.get(_SUMMARY)) or None]
    if "-" in others:
        raise UsageError("--junit and --markdown write to a file", "--format markdown writes Markdown to stdout.")
    inputs = [str(path) for path in (log, options.baseline, options.base) if path is not None]
    refuse_outputs(show, inputs, formats=options.formats, others=others, appended=appended)
    files = [path for path in (show.output, *others, *appended) if path is not None]
    if len({os.path.realpath(path) for path in files}) < len(files):
        raise UsageError("two outputs go to one file", "Name another file for one of them.")
