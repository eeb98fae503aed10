"""``memlens.watch``: follow logs that are still being written."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from memlens.errors import InputError, MemlensError, UsageError
from memlens.gating.limits import WATCHED, parse_budgets
from memlens.inputs import expanded
from memlens.options import ReadAs, as_list
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Analyze, Watch
from memlens.results import claimed
from memlens.watching.judging import Judge, claims_of, crossings_of, unjudged
from memlens.watching.result import Crossing, Ended, Watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from memlens.analyzing.result import Analysis
    from memlens.watching.followed import Followed
    from memlens.watching.result import LogState


#: Bytes read of a log in one look from which on there may well be more: the next look follows at once.
_MUCH = 8 << 20
#: Seconds between two looks at commands that are waited for.
_LOOK = 0.05


class Watching:
    """Logs that are followed, a look at a time.

    Args:
        logs: Paths; ``-`` is standard input, and a folder stands for the logs that are in it now.
        options: See :class:`memlens.options.verbs.Watch`.
        output: The file that what commands write goes to; ``None`` is stderr.
        failed: Told in words of a command that cannot be started.

    Attributes:
        ended: Why there is nothing more to look at; ``""`` while there may be.
        busy: More was there than one look reads at once: look again without waiting.

    Raises:
        UsageError: Options that make no sense together, no log, or ``-`` twice.
    """

    def __init__(
        self,
        logs: str | Path | Sequence[str | Path],
        options: Watch,
        output: IO[bytes] | None = None,
        failed: Callable[[str], None] = lambda _: None,
    ) -> None:
        from memlens.watching.followed import Followed

        self.options = options
        self.budgets = parse_budgets(as_list(options.budgets), WATCHED)
        if options.run is not None and not self.budgets:
            raise UsageError("--run needs a budget", "It runs where one is exceeded: --budget peak=10GiB.")
        how = ReadAs(read_as=options.read_as, formats=options.formats)
        given = [logs] if isinstance(logs, (str, Path)) else list(logs)
        paths = list(dict.fromkeys(map(str, expanded(list(given), how))))
        if not paths:
            raise UsageError("no log to watch", "Name one, or several.")
        if [str(path) for path in given].count("-") > 1:
            raise UsageError("stdin (-) can be read only once", "Give - once.")
        self._process = None if options.pid is None else _Process(options.pid)
        self._commands = _Commands(options.run, output, failed)
        self.ended: Ended = ""
        self.busy = True
        self._judge = Judge()
        self._states: tuple[LogState, ...] = ()
        self._crossings: dict[tuple[str, str, str], Crossing] = {}
        self._bytes: dict[tuple[str, str], int] = {}
        self._changed = time.monotonic()
        self._quiet = 0
        self._logs = [Followed(path, by=options.by, how=how, budgets=self.budgets) for path in paths]
        self._failed: dict[str, LogState] = {}

    def look(self) -> bool:
        """Read what is new in all logs, and judge it; whether anything changed.

        Raises:
            InputError: The only log cannot be followed.  One of several is shown with what is wrong, and left alone from then on.
        """
        # Looked at before, so that all it wrote is read after.
        gone = self._process is not None and self._process.ended()
        changed = [self._poll(log) for log in self._logs]  # all of them, not up to the first that changed
        first = not self._states
        self.busy = False
        self._commands.reap()
        if any(changed) or first:
            self._take(final=False)
        if any(changed):
            self._changed, self._quiet = time.monotonic(), 0
        else:
            self._quiet += 1
        if all(log.ended or log.path in self._failed for log in self._logs):
            self.ended = "input"
        elif self._quiet > 1 and gone:  # what it wrote through another program may come a moment later
            self.ended = "process"
        elif self._quiet and self.options.idle is not None and time.monotonic() - self._changed >= self.options.idle:
            self.ended = "idle"
        return any(changed) or first

    def _poll(self, log: Followed, read: Callable[[Followed], bool | None] = lambda log: log.poll()) -> bool:
        if log.path in self._failed:
            return False
        try:
            return bool(read(log))
        except InputError as error:
            if len(self._logs) == 1:
                raise
            what = error.message.removeprefix(f"{log.path}: ")
            self._failed[log.path] = replace(log.states()[0], problem=what, waiting="")
            return True

    def _take(self, *, final: bool) -> None:
        """Take what the logs are now, and note which budgets they exceed."""
        states = ((self._failed[log.path],) if log.path in self._failed else log.states() for log in self._logs)
        self._states = tuple(chain.from_iterable(states))
        self._judge.judge(self._states, final=final)
        for state in self._states:
            read = state.bytes - self._bytes.get(state.key, 0)
            self.busy |= read >= _MUCH
            self._bytes[state.key] = state.bytes
            for crossing in crossings_of(state, self.budgets, self._judge):
                key = (*state.key, crossing.metric)
                if key not in self._crossings:
                    self._commands.start(crossing)
                self._crossings[key] = crossing

    @property
    def seen(self) -> Watched:
        """The state now."""
        growths = tuple(map(self._judge.growth, self._states))
        seen = Watched(self._states, growths, tuple(self._crossings.values()), time.monotonic())
        return claimed(seen, claims_of)

    def finish(self, ended: Ended = "", progress: Callable[[int], None] | None = None, analyze: bool = True) -> Watched:
        """Judge all that was read, and analyze the logs where they are whole.

        Args:
            ended: Why it ends, where it is not :attr:`ended`.
            progress: Called with the bytes that the analysis has read.
            analyze: Analyze the logs.
        """
        for log in self._logs:
            self._poll(log, lambda log: log.flush())
        self._take(final=True)
        with_events = [state for state in self._states if state.events]
        whole = analyze and with_events and all(map(_whole, with_events))
        analysis = self._analysis(with_events, progress) if whole else None
        seen = self.seen
        last = replace(
            seen,
            ended=ended or self.ended or "interrupted",
            unjudged=tuple(unjudged(seen.states, seen.growths, self.budgets)),
            analysis=analysis,
        )
        return claimed(last, claims_of)

    def _analysis(self, states: Sequence[LogState], progress: Callable[[int], None] | None) -> Analysis | None:
        """Analyze the files of logs; ``None`` where these are not what was read."""
        from memlens.analyzing.analyze import analyze_with

        options = Analyze(
            by=self.options.by,
            read_as=self.options.read_as,
            formats=self.options.formats,
            analyzers=("remaining", "composition", "peak", "unmatched", "growth"),
            progress=progress,
        )
        lines = {state.path: state.lines for state in states}
        try:
            analysis = analyze_with(list(lines), options)
        except MemlensError:
            return None
        same = all(log.trust.lines >= lines.get(log.input, 0) for log in analysis.logs)
        return analysis if same and not analysis.failures else None

    def wait(self, seconds: float) -> bool:
        """Wait for the commands that run, so many seconds at most; whether one still does."""
        return self._commands.wait(seconds)

    def close(self) -> None:
        """Close the logs."""
        for log in self._logs:
            log.close()


def _whole(state: LogState) -> bool:
    """Whether the file of its name holds all that was read of a log."""
    return os.path.isfile(state.path) and not (state.rotations or state.restarts or state.waiting)


def watch_with(logs: str | Path | Sequence[str | Path], options: Watch) -> Iterator[Watched]:
    """Follow logs that are still being written, and say what is known of them each time that there is something new.

    Args:
        logs: Paths of logs, or one; ``-`` is standard input, and a folder stands for the logs that are in it now.  One that does not exist
            yet is waited for.
        options: See :class:`memlens.options.verbs.Watch`.

    Returns:
        What is known, after each look at which something has changed; at the end once more, with the verdict.  Without ``idle`` and ``pid`` it does not
        end by itself: leave the loop.

    Raises:
        UsageError: Options that make no sense together, or no log.
        MemlensError: A log that cannot be followed.
    """
    watching = Watching(logs, options)

    def looks() -> Iterator[Watched]:
        with closing(watching):
            while not watching.ended:
                if watching.look():
                    yield watching.seen
                if not watching.ended and not watching.busy:
                    time.sleep(options.every)
            yield watching.finish()

    return looks()


watch = with_keywords("watch", watch_with, Watch)


class _Process:
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


class _Commands:
    """The commands that exceeded budgets run, beside the watching.

    Args:
        command: The command line for the shell; ``None`` runs nothing.
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
            "MEMLENS_BUDGET": str(crossing.budget_bytes),
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
