"""Run a program with the environment that makes it log, record what it writes, and hand on the signals that ask the recorder to end.

The program stays in the process group of the recorder, so that it can read from the terminal.  What the terminal sends (Ctrl-C) goes to the
whole group, and so to the program without help: it must not get it twice, for a second SIGINT ends the cleaning up that the first one began.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from memlens.errors import MemlensError, UsageError
from memlens.options import as_list
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Record
from memlens.recording.logs import ProgramLogs, RecordedLog, Recording, Snapshots
from memlens.recording.presets import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from memlens.claims.claim import Answer
    from memlens.results import Failure

__all__ = ["CommandError", "RecordedLog", "Recording", "record", "record_with", "start", "waiting"]

#: What writes the logs of a preset, and how their names end where none is given.
_WRITTEN: dict[str, type[ProgramLogs | Snapshots]] = {
    "paddle": ProgramLogs,
    "paddle-history": Snapshots,
    "torch": Snapshots,
}
_SUFFIXES = {"paddle": ".log.zst", "paddle-history": ".pickle", "torch": ".pickle"}


def record_with(command: str | Sequence[str], options: Record) -> Recording:
    """Run a program and record the log of its allocators.

    The program gets the standard input of this process; its stdout and stderr go into one log, in their order.  What is passed on of them goes to file descriptor 1.
    Signals that ask this process to end are handed on to the program (in the main thread alone), and it is waited for.

    Args:
        command: The program and its arguments, or all of it as one text with the quoting of a shell.
        options: See :class:`memlens.options.verbs.Record`.

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
            names = options.names == "holders" or (options.preset, options.names) == ("paddle", "lines")
            env = settings(options.preset, as_list(options.env), os.environ, json.dumps(written.asked), names=names)
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
    """The verdict on logs, if there is any, and those that cannot be analyzed."""
    from memlens.analyzing.analyze import analyze_with
    from memlens.options.verbs import Analyze
    from memlens.results import Failure

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


_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_FORWARDED = tuple(number for name in _NAMES if (number := getattr(signal, name, None)) is not None)
#: Those that a terminal sends to the whole group, when a key is pressed; of one that is closed only the first process of a session may hear.
_OF_KEYS = frozenset({signal.SIGINT, getattr(signal, "SIGQUIT", signal.SIGINT)})
#: What Linux says of a signal that the kernel itself sent, as it does for a terminal (``SI_KERNEL``).
_BY_KERNEL = 0x80


class CommandError(MemlensError):
    """A program that cannot be started; the exit codes are those of shells: 127 where there is none, 126 where it cannot be run."""

    def __init__(self, message: str, hint: str, exit_code: int) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def start(command: Sequence[str], environment: Mapping[str, str], output: int | None, mask: AbstractSet[Any]) -> int:
    """Start a program.

    Args:
        command: The program, looked for as a shell does, and its arguments.
        environment: All of its environment.
        output: A file descriptor for its stdout and stderr; ``None`` leaves it those of this process.
        mask: The signals that it blocks.

    Returns:
        Its process id.

    Raises:
        CommandError: There is no such program, or it cannot be run.
    """
    actions = [] if output is None else [(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)]
    # As for any program that Python starts: those that Python ignores for itself are as they were.
    ignored = [number for name in ("SIGPIPE", "SIGXFSZ") if (number := getattr(signal, name, None)) is not None]
    sys.stdout.flush()
    try:
        # Not the subprocess module, which would close files that were handed to the program through this one.
        return os.posix_spawnp(
            command[0], [*command], environment, file_actions=actions, setsigmask=mask, setsigdef=ignored
        )
    except (FileNotFoundError, NotADirectoryError):
        raise CommandError(
            f"{command[0]}: there is no such command", "Give the program as a shell would find it.", 127
        ) from None
    except ValueError as error:
        raise CommandError(f"{command[0]!r} cannot be run: {error}", "", 126) from None
    except OSError as error:
        hint = "Is it executable? A script of Python is run by it: memlens record python train.py."
        raise CommandError(f"{command[0]}: cannot be run: {error.strerror}", hint, 126) from None


@contextmanager
def waiting() -> Iterator[tuple[AbstractSet[Any], Callable[[int], int]]]:
    """While the block runs no forwarded signal ends this process.

    Only the main thread of a process can see to signals; elsewhere nothing is forwarded, and they act as ever.

    Yields:
        The signals that a program which is started in the block is to block, and a function that forwards signals to a process until it ends,
        and gives its status: its exit code, or minus the signal that ended it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield signal.pthread_sigmask(signal.SIG_BLOCK, ()), lambda pid: _status(os.waitpid(pid, 0))
        return
    program: list[int] = []
    early: list[int] = []

    def forward(number: int, sender: int) -> None:
        if not program:
            early.append(number)
        elif sender != program[0]:  # which knows what it sends to its group
            with suppress(ProcessLookupError, PermissionError):
                os.kill(program[0], number)

    def handle(number: int, _frame: object) -> None:
        # Where nothing tells who sent it: a key of the terminal, if that is ours now.
        if not (number in _OF_KEYS and _in_foreground()):
            forward(number, 0)

    def wait(pid: int) -> int:
        program.append(pid)
        for number in early:
            forward(number, 0)
        if not exact:
            return _status(os.waitpid(pid, 0))
        waker = threading.Thread(target=wake, args=(pid, threading.get_ident()), name="memlens end", daemon=True)
        waker.start()
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                waker.join()
                return _status((ended, status))
            # Not sigtimedwait: where this process was stopped beyond the timeout, Python's gives a signal that nobody sent.
            found = signal.sigwaitinfo(watched)
            if found.si_signo != signal.SIGCHLD and not (found.si_signo in _OF_KEYS and found.si_code == _BY_KERNEL):
                forward(found.si_signo, found.si_pid)

    def wake(pid: int, waiter: int) -> None:
        # The kernel may give SIGCHLD to another thread of this process, which does not block it.
        with suppress(ChildProcessError):  # this one was in time
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        signal.pthread_kill(waiter, signal.SIGCHLD)

    # One that is ignored here (nohup, or & in a script) is ignored by the program too.
    taken = [number for number in _FORWARDED if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    watched = {*taken, signal.SIGCHLD}
    exact = hasattr(signal, "sigwaitinfo")
    before = {number: signal.signal(number, handle) for number in taken}
    # Where children are reaped unasked, nobody could know how the program ended.
    before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched if exact else ())
    try:
        yield mask, wait
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, action in before.items():
            signal.signal(number, action)


def _status(waited: tuple[int, int]) -> int:
    return os.waitstatus_to_exitcode(waited[1])


def _in_foreground() -> bool:
    """Whether the terminal's keys signal the process group of this process."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
