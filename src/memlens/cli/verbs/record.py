"""``memlens record``: run a program with logging on, and say where its memory went."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from memlens.cli.options import verb
from memlens.cli.output import Output, note
from memlens.errors import UsageError
from memlens.options.verbs import Record

if TYPE_CHECKING:
    from memlens.recording.logs import Recording


@verb(
    "record",
    [click.Argument(["command"], metavar="[--] COMMAND...", nargs=-1)],
    *(Output, Record),
    only=("preset", "env", "passed", "names", "output", "force", "quiet"),
    allow_interspersed_args=False,
)
def command(command: tuple[str, ...], to: Output, options: Record) -> int:
    """Run a program and record its log; say where its memory went.

    COMMAND is run with the environment that makes it log, which is shown first on stderr. What it writes to stdout and stderr goes into one log, compressed as it
    comes. Options of memlens stand before COMMAND. Signals are handed on to the program; at its end the verdict of memlens analyze on the log is said on stderr. Each
    rank of a distributed run (paddle.distributed.launch, torchrun) gets a log of its own. Of a program of PyTorch (--preset torch) the memory history is written as a
    snapshot when a process ends, and when it runs out of memory; of one of Paddle (--preset paddle-history) when it ends.

    The exit code is the program's own: 128 and the number of the signal where one ended it, 127 where there is no such program.

    Examples:
      memlens record python train.py
      memlens record -o run.log.zst -- python train.py
      memlens record --env FLAGS_allocator_strategy=naive_best_fit python train.py
      memlens record -o run.log.zst python -m paddle.distributed.launch train.py
      memlens record --pass none --names none -o run.log.gz python train.py
      memlens record --preset torch -o run.pickle python train.py
    """
    from memlens.recording.run import record_with

    if not command:
        raise UsageError(
            "no program to record", "Give its command: memlens record -o run.log.zst -- python train.py --epochs 1"
        )
    recording = record_with(command, options.replace(tell=lambda text: note(text, to)))
    for line in _ending(recording, options.preset):
        note(line, to)
    for problem in recording.problems if to.quiet else ():  # else it was said when it came
        note(problem, Output())
    return recording.exit_code


#: What to say where nothing of a log can be judged: its own hints would tell to switch on what was on.
_NO_VERDICT = (
    "Nothing was logged by Paddle's allocator: the program ended before it used it, or uses another one, or no device.",
    "For a program of PyTorch: memlens record --preset torch ...",
)


def _ending(recording: Recording, preset: str) -> list[str]:
    """The lines that are printed when the program has ended."""
    import os

    from memlens.text import format_bytes, format_duration

    how = f"{recording.signal} ended it" if recording.signal else f"exit code {recording.exit_code}"
    lines = [f"the program ran for {format_duration(round(recording.seconds * 1e6))}: {how}"]
    snapshots = preset != "paddle"
    for log in recording.logs:
        try:
            size = format_bytes(os.path.getsize(log.path))
        except OSError as error:  # the program, or somebody else, took it away
            size = str(error.strerror)
        if not snapshots:
            size = f"{format_bytes(log.text_bytes)} of log in {size}"
        lines.append(f"{log.path}: {size}{'; it ends early' if log.problem else ''}")
    if recording.answer is not None:
        lines += recording.answer.sentences
        lines.append(f"next: memlens analyze {shlex.join(log.path for log in recording.judged)}")
    for failure in recording.failures:
        lines.append(f"no verdict: {failure.message}")
    sound = not any(log.problem for log in recording.logs)
    if recording.failures and recording.answer is None and sound and not snapshots:
        lines += _NO_VERDICT
    return lines
