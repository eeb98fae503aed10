"""Whether a process has ended, and commands that are run beside the watching."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from memlens.errors import UsageError

if TYPE_CHECKING:
    from memlens.watching.crossings import Crossing

__all__ = ["Commands", "Process"]

#: Seconds between two looks at commands that are waited for.
_LOOK = 0.05


class Process:
    """A process that another program started.

    Args:
        number: Its number.

    Raises:
        UsageError: This system does not say whether a process has ended.
    """

    def __init__(self, number: int) -> None:
        if sys.platform == "win32":  # where os.kill(number, 0) sends Ctrl-C
            raise UsageError("--pid cannot be used on Windows", "--idle SECONDS ends when nothing more is written.")
        self._number = number
        self._started = self._status()[1]

    def ended(self) -> bool:
        """Whether it has ended: it is gone, waits for its parent to take note, or its number is that of another one now."""
        try:
            os.kill(self._number, 0)
        except (ProcessLookupError, OverflowError):
            return True
        except PermissionError:
            pass
        state, started = self._status()
        return state in ("Z", "X") or started != self._started

    def _status(self) -> tuple[str, str]:
        """Its state and when it started, as Linux tells (``/proc/PID/stat``, proc(5)); elsewhere nothing is known of them."""
        with suppress(OSError, IndexError), open(f"/proc/{self._number}/stat", "rb") as status:
            # Its second field, the name of the program, may hold anything, blanks and brackets too.
            fields = status.read().rpartition(b")")[2].split()
            return fields[0].decode(), fields[19].decode()
        return "", ""


class Commands:
    """The commands that crossings run, beside the watching.

    Args:
        command: What the shell runs; ``None`` runs nothing.
        output: The file that what they write goes to; ``None`` is stderr.
        failed: Told in words of a command that cannot be started.
    """

    def __init__(self, command: str | None, output: IO[bytes] | None, failed: Callable[[str], None]) -> None:
        self._command = command
        self._output = output
        self._failed = failed
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, crossing: Crossing) -> None:
        """Run the command for a crossing.

        What it is about stands in variables of its environment and never in the text that the shell reads: a log's name may hold anything.
        """
        if self._command is None:
            return
        about = {
            "MEMLENS_LOG": crossing.path,
            "MEMLENS_METRIC": crossing.metric,
            "MEMLENS_BYTES": str(crossing.reached_bytes),
            "MEMLENS_LIMIT": str(crossing.limit_bytes),
        }
        try:
            self._running.append(
                subprocess.Popen(  # noqa: S602  a command line is what the user gave
                    self._command,
                    shell=True,
                    stdin=subprocess.DEVNULL,
                    stdout=_stderr() if self._output is None else self._output,
                    stderr=None if self._output is None else self._output,
                    env=os.environ | about,
                    start_new_session=True,  # the Ctrl-C that ends the watching is not meant for it
                )
            )
        except (OSError, ValueError) as error:
            self._failed(f"the command was not run: {error}")

    def reap(self) -> bool:
        """Take note of those that have ended; whether any still runs."""
        self._running = [one for one in self._running if one.poll() is None]
        return bool(self._running)

    def wait(self, seconds: float) -> bool:
        """Wait until all have ended, so many seconds at most; whether any still runs."""
        until = time.monotonic() + seconds
        while self.reap() and time.monotonic() < until:
            time.sleep(_LOOK)
        return bool(self._running)


def _stderr() -> int:
    """The number of the file that stderr is; of a notebook, say, it is none."""
    try:
        return sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        return subprocess.DEVNULL
