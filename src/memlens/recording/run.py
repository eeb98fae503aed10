"""Run a program with the environment that makes it log, and record what it writes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.errors import MemlensError, UsageError
from memlens.keywords import with_keywords
from memlens.options import Record, as_list
from memlens.recording.presets import settings
from memlens.recording.result import RecordedLog, Recording
from memlens.recording.snapshots import Snapshots
from memlens.recording.streams import ProgramLogs
from memlens.recording.waiting import start, waiting

if TYPE_CHECKING:
    from memlens.errors import Failure
    from memlens.text import Answer

__all__ = ["RecordedLog", "Recording", "record", "record_with"]

#: What writes the logs of a preset, and how their names end where none is given.
_WRITTEN: dict[str, type[ProgramLogs | Snapshots]] = {"paddle": ProgramLogs, "torch": Snapshots}
_SUFFIXES = {"paddle": ".log.zst", "torch": ".pickle"}


def record_with(command: str | Sequence[str], options: Record) -> Recording:
    """Run a program and record the log of its allocators.

    The program gets the standard input of this process; its stdout and stderr go into one log, in their order.  What is passed on of them goes to file descriptor 1.
    Signals that ask this process to end are handed on to the program (in the main thread alone), and it is waited for.

    Args:
        command: The program and its arguments, or all of it as one text with the quoting of a shell.
        options: See :class:`memlens.options.Record`.

    Returns:
        How the program ended, where its logs are, and what they say.  That it fails is no error.

    Raises:
        UsageError: No command, or options that make no sense.
        OutputError: The log cannot be written, or it exists.
        CommandError: The program cannot be started.
    """
    words = shlex.split(command) if isinstance(command, str) else [*map(os.fspath, command)]
    if not words:
        raise UsageError("no program to record", "Give its command: memlens record python train.py")
    if not hasattr(os, "posix_spawnp"):
        raise UsageError(
            "programs cannot be recorded on this system, for it has neither pipes that can be waited for nor signals",
            "Set the variables that docs/recording.md names, and redirect: python train.py > run.log 2>&1",
        )
    tell = options.tell or (lambda _: None)
    problems: list[str] = []

    def note(problem: str) -> None:
        problems.append(problem)
        tell(problem)

    _occupy_streams()
    written = _WRITTEN[options.preset](Path(options.output or _default_path(options.preset)), options, note)
    with waiting() as (mask, wait):
        try:
            env = settings(options.preset, as_list(options.env), os.environ, json.dumps(written.asked))
            for line in (f"recording to {written.path}", *env.shown):
                tell(line)
            for warning in env.warnings:
                note(f"warning: {warning}")
            began = time.monotonic()
            process = start(words, env.environment, written.writing, mask)
        except BaseException:
            written.discard()
            raise
        written.begin()
        status = wait(process)
        seconds = time.monotonic() - began
        logs = written.end()
    code, by = (status, None) if status >= 0 else (128 - status, _signal_name(-status))
    return _judged(Recording(tuple(words), code, by, seconds, logs, env.changed, tuple(problems)))


record = with_keywords("record", record_with, Record)


def _occupy_streams() -> None:
    """Give the numbers of closed standard streams to what cannot be written: a log that got one would have what is passed on in it."""
    while (number := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(number)


def _judged(recording: Recording) -> Recording:
    """The same with the verdict on its logs; that there is none is no failure of the recording."""
    # A pipe or a device is not there to be read again; a snapshot of the end holds what one of an out-of-memory failure before it does.
    every = {log.path for log in recording.logs}
    again = {path for path in every if ".oom" in path and path.replace(".oom", "") in every}
    logs = [log for log in recording.logs if log.path not in again and os.path.isfile(log.path)]
    # A launcher's own log holds no allocator lines; but a program may itself tell its helpers, which hold none, that they are ranks.
    for judged in ([log for log in logs if log.rank is not None], [log for log in logs if log.rank is None]):
        if judged and recording.answer is None:
            answer, failures = _said([log.path for log in judged])
            if answer is not None or not recording.failures:
                recording = replace(recording, answer=answer, failures=failures, judged=tuple(judged))
    return recording


def _said(paths: list[str]) -> tuple[Answer | None, tuple[Failure, ...]]:
    """What is said of logs, if anything can be, and which of them cannot be analyzed."""
    from memlens.analyzing.analyze import analyze_with
    from memlens.errors import Failure
    from memlens.options import Analyze

    try:
        # What the verdict is made of.
        analysis = analyze_with(paths, Analyze(analyzers=("remaining", "peak", "unmatched", "growth")))
        answer, failures = (analysis.answer if analysis.logs else None), analysis.failures
    except MemlensError as error:
        answer, failures = None, (Failure(paths[0], error.message),)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the program ended as it did whatever happens here
        words = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        answer, failures = None, (Failure(paths[0], f"{paths[0]}: not analyzed: {words}"),)
    # The hints of the reader say how to do what was done here: to switch logging on.
    return answer, tuple(Failure(one.path, one.message.partition("\n")[0]) for one in failures)


def _default_path(preset: str) -> Path:
    """A new name in the current folder."""
    # Recorders that are started together (mpirun) must not choose the same one.
    stem, suffix = f"memlens-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}", _SUFFIXES[preset]
    names = (Path(f"{stem}{f'-{again}' if again > 1 else ''}{suffix}") for again in count(1))
    return next(path for path in names if not os.path.lexists(path))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
