"""A program started and waited for, with the signals that ask the recorder to end handed on to it.

The program stays in the process group of the recorder, so that it can read from the terminal.  What the terminal sends (Ctrl-C) goes to the
whole group, and so to the program without help: it must not get it twice, for a second SIGINT ends the cleaning up that the first one began.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from typing import Any

from memlens.errors import MemlensError

__all__ = ["CommandError", "start", "waiting"]

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
