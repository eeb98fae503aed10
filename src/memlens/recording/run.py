"""Run a program with the environment that makes it log, and record what it writes."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

from memlens.errors import MemlensError, UsageError
from memlens.keywords import with_keywords
from memlens.options import Record
from memlens.output import refuse_overwrite
from memlens.recording.inside import ranks as inside
from memlens.recording.passing import Output
from memlens.recording.presets import Settings, settings
from memlens.recording.ranks import Ranks
from memlens.recording.result import RecordedLog, Recording
from memlens.recording.sink import Drain, LogFile, check_name, rank_path
from memlens.recording.waiting import start, waiting

__all__ = ["RecordedLog", "Recording", "record", "record_with"]


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
    return _Recorder(words, options).run()


record = with_keywords("record", record_with, Record)


class _Recorder:
    """A recording of a program's streams."""

    def __init__(self, words: Sequence[str], options: Record) -> None:
        self._words, self._options = words, options
        self._tell = options.tell or (lambda _: None)
        self._output = Output(1)
        self._drains: list[Drain] = []
        self._ranks: list[str | None] = []
        self._problems: list[str] = []
        self._paths: set[Path] = set()
        self._streams = -1  # the read end of the pipe for the program's own streams
        given = options.output
        own = inside.marks()
        path = Path(given) if given is not None else _default_path()
        check_name(path)
        self._path = path
        self._main_path = rank_path(path, _rank_of(own) or "main") if "{rank}" in path.name else path
        self._own_marks = own

    def run(self) -> Recording:
        options, main = self._options, self._main_path
        refuse_overwrite(main, options.force)
        with ExitStack() as stack:
            listening = Ranks(self._take_rank)
            stack.callback(listening.close)
            asked = {"socket": {"path": listening.path, "marks": self._own_marks}, "torch": None}
            env = settings(options.preset, options.env, os.environ, json.dumps(asked))
            log = LogFile(main, options.force)
            self._paths.add(main)
            self._show(env)
            with waiting() as (mask, wait):
                reading, writing = os.pipe()
                self._streams = reading
                began = time.monotonic()
                try:
                    pid = start(self._words, env.environment, writing, mask)
                except BaseException:
                    log.discard()
                    os.close(reading)
                    raise
                finally:
                    os.close(writing)
                log.begin()
                self._drain(reading, log, self._output, None)
                listening.start()
                status = wait(pid)
                seconds = time.monotonic() - began
                stack.close()  # no rank comes after the program's end
                for drain in self._drains:
                    drain.end()
                for drain in self._drains:
                    drain.join()
                    if drain.left:
                        self._note(
                            f"{drain.log.path}: a process that the program left behind still writes; the log ends here"
                        )
        return self._result(status, seconds, env)

    def _show(self, env: Settings) -> None:
        self._tell(f"recording to {self._main_path}")
        for line in env.shown:
            self._tell(line)
        for warning in env.warnings:
            self._tell(f"warning: {warning}")
            self._problems.append(warning)

    def _note(self, problem: str) -> None:
        """A problem, told at once and kept."""
        self._problems.append(problem)
        self._tell(problem)

    def _drain(self, pipe: int, log: LogFile, output: Output, rank: str | None) -> None:
        drain = Drain(pipe, log, self._options.passed, output, self._note)
        self._drains.append(drain)
        self._ranks.append(rank)
        drain.start()

    def _take_rank(self, rank: str, pipe: int, stdout: int) -> None:
        """Begin a log for a rank, in a thread of its own.

        Raises:
            OSError: It cannot be written; the rank keeps its streams then.
        """
        own, theirs = os.fstat(self._streams), os.fstat(stdout)
        # Where that is the launcher's stdout, it is recorded: what is passed on of this rank would stand in the launcher's log too.
        shared = (own.st_dev, own.st_ino) == (theirs.st_dev, theirs.st_ino)
        names = (rank_path(self._path, rank, again) for again in count(1))
        path = next(p for p in names if p not in self._paths and (self._options.force or not os.path.lexists(p)))
        self._paths.add(path)
        try:
            log = LogFile(path, self._options.force)
        except MemlensError as error:
            self._note(error.message)
            os.close(pipe)
            os.close(stdout)
            raise OSError from error
        log.begin()
        if shared:
            os.close(stdout)
        output = self._output if shared else Output(stdout, owned=True)
        self._drain(pipe, log, output, rank)

    def _result(self, status: int, seconds: float, env: Settings) -> Recording:
        logs = [
            RecordedLog(str(drain.log.path), rank, drain.log.text_bytes, drain.log.problem)
            for drain, rank in zip(self._drains, self._ranks, strict=True)
        ]
        recording = Recording(
            tuple(self._words),
            status if status >= 0 else 128 - status,
            _signal_name(-status) if status < 0 else None,
            seconds,
            tuple(sorted(logs, key=_rank_order)),
            env.changed,
            tuple(self._problems),
        )
        return _judged(recording)


def _judged(recording: Recording) -> Recording:
    """The same with the verdict on its logs; that there is none is no failure of the recording."""
    from memlens.analyzing.analyze import analyze_with
    from memlens.errors import Failure
    from memlens.options import Analyze

    paths = [log.path for log in recording.judged if os.path.isfile(log.path)]
    if not paths:  # a pipe or a device is not there to be read again
        return recording
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
    failures = tuple(Failure(one.path, one.message.partition("\n")[0]) for one in failures)
    return replace(recording, answer=answer, failures=failures)


def _default_path() -> Path:
    """A new name in the current folder."""
    stem = f"memlens-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (Path(f"{stem}{f'-{again}' if again > 1 else ''}.log.zst") for again in count(1))
    return next(path for path in names if not os.path.lexists(path))


def _rank_of(marks: dict[str, str]) -> str | None:
    return next(iter(marks.values()), None)


def _rank_order(log: RecordedLog) -> tuple[bool, int, str]:
    """The program itself, then its ranks by their numbers, then what calls itself otherwise."""
    rank = log.rank or ""
    return log.rank is not None, int(rank) if rank.isdecimal() else sys.maxsize, log.path


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
