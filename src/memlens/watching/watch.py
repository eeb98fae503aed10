"""``memlens.watch``: follow logs that are still being written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from memlens.errors import InputError, MemlensError, UsageError
from memlens.gating.limits import parse_watched
from memlens.inputs import expanded
from memlens.keywords import with_keywords
from memlens.options import Analyze, ReadAs, Watch, as_list
from memlens.text import Answer, Answered
from memlens.watching.crossings import Crossing, Judge, crossings_of, key_of
from memlens.watching.processes import Commands, Process
from memlens.watching.verdict import answer_of, unjudged

if TYPE_CHECKING:
    from memlens.analyzers import Growth
    from memlens.analyzing.result import Analysis
    from memlens.watching.followed import Followed
    from memlens.watching.state import LogState

__all__ = ["SCHEMA", "Watched", "Watching", "watch", "watch_with"]

SCHEMA = "memlens.watch/1"

Ended = Literal["", "interrupted", "idle", "process", "input"]

#: Bytes read of a log in one look from which on there may well be more: the next look follows at once.
_MUCH = 8 << 20


@dataclass(frozen=True, eq=False, repr=False)
class Watched(Answered):
    """What is known of logs that grow, at one moment.

    Attributes:
        states: A state a log, or a device of a log that has several, in the order given.
        growths: How memory develops over the closed windows of each; ``None`` where none is closed.
        crossings: The limits that were exceeded so far, in the order of time, each log and limit once.
        time: When that was, in seconds of :func:`time.monotonic`.
        ended: Why watching ended: ``"idle"``, ``"process"`` (it has ended), ``"input"`` (standard input has) or ``"interrupted"``; ``""`` while it goes on.
        unjudged: At the end, which limits nothing could be held against, and why, in sentences.
        analysis: At the end, what :func:`memlens.analyze` says of the logs; ``None`` where a log is not whole any more in the file of its name
            (the log was rotated, its file replaced, or it came from a pipe), or could not be analyzed.
    """

    states: tuple[LogState, ...]
    growths: tuple[Growth | None, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    time: float = 0.0
    ended: Ended = ""
    unjudged: tuple[str, ...] = ()
    analysis: Analysis | None = field(default=None, repr=False)

    @cached_property
    def answer(self) -> Answer:
        """What is to be said of the logs so far, in sentences; at the end, where they are whole, those of the analysis."""
        return answer_of(self)

    def to_dict(self, windows: int | None = None) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.watch/1``: exact bytes, 1-based lines.

        Args:
            windows: So many of the last windows of each log, at most; ``None`` for all that are kept.
        """
        return {
            "schema": SCHEMA,
            "ended": self.ended,
            "verdict": self.verdict,
            "logs": [
                {**state.to_dict(windows), "growth": None if growth is None else _growth(growth)}
                for state, growth in zip(self.states, self.growths, strict=True)
            ],
            "crossings": [crossing.to_dict() for crossing in self.crossings],
            "unjudged": list(self.unjudged),
        }


def _growth(growth: Growth) -> dict[str, Any]:
    names = ("judged", "verdict", "since", "gained_bytes", "gained_bytes_per_window", "swing_bytes")
    return {name: getattr(growth, name) for name in names}


class Watching:
    """Logs that are followed, a look at a time.

    Args:
        logs: Paths; ``-`` is standard input, and a folder stands for the logs that are in it now.
        options: See :class:`memlens.options.Watch`.
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
        self.limits = parse_watched(as_list(options.limits))
        if options.run is not None and not self.limits:
            raise UsageError("--run needs a limit", "It runs where one is exceeded: --limit peak=10GiB.")
        how = ReadAs(input_format=options.input_format, formats=options.formats)
        given = [logs] if isinstance(logs, (str, Path)) else list(logs)
        paths = list(dict.fromkeys(map(str, expanded(list(given), how))))
        if not paths:
            raise UsageError("no log to watch", "Name one, or several.")
        if [str(path) for path in given].count("-") > 1:
            raise UsageError("stdin (-) can be read only once", "Give - once.")
        self._process = None if options.pid is None else Process(options.pid)
        self._commands = Commands(options.run, output, failed)
        self.ended: Ended = ""
        self.busy = True
        self._judge = Judge()
        self._states: tuple[LogState, ...] = ()
        self._crossings: dict[tuple[str, str, str], Crossing] = {}
        self._bytes: dict[tuple[str, str], int] = {}
        self._changed = time.monotonic()
        self._quiet = 0
        self._logs = [Followed(path, by=options.by, how=how) for path in paths]
        self._failed: dict[str, LogState] = {}

    def look(self) -> bool:
        """Read what is new in all logs, and judge it; whether anything changed.

        Raises:
            InputError: The only log cannot be followed.  One of several is shown with what is wrong, and left alone from then on.
        """
        gone = self._process is not None and self._process.ended()  # asked before, so that all it wrote is read after
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
        """Take what the logs are now, and note which limits they exceed."""
        self._states = tuple(
            state
            for log in self._logs
            for state in ((self._failed[log.path],) if log.path in self._failed else log.states())
        )
        self._judge.judge(self._states, final=final)
        for state in self._states:
            read = state.bytes - self._bytes.get(key_of(state), 0)
            self.busy |= read >= _MUCH
            self._bytes[key_of(state)] = state.bytes
            for crossing in crossings_of(state, self.limits, self._judge):
                key = (*key_of(state), crossing.metric)
                if key not in self._crossings:
                    self._crossings[key] = crossing
                    self._commands.start(crossing)

    @property
    def seen(self) -> Watched:
        """What is known now."""
        growths = tuple(map(self._judge.growth, self._states))
        return Watched(self._states, growths, tuple(self._crossings.values()), time.monotonic())

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
        return replace(
            seen,
            ended=ended or self.ended or "interrupted",
            unjudged=tuple(unjudged(seen.states, seen.growths, self.limits)),
            analysis=analysis,
        )

    def _analysis(self, states: Sequence[LogState], progress: Callable[[int], None] | None) -> Analysis | None:
        """What the analysis of the files of logs says; ``None`` where it is not about what was read."""
        from memlens.analyzing.analyze import analyze_with

        options = Analyze(
            by=self.options.by,
            input_format=self.options.input_format,
            formats=self.options.formats,
            analyzers=("remaining", "peak", "unmatched", "growth"),
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
    return bool(state.events and os.path.isfile(state.path)) and not (
        state.rotations or state.restarts or state.waiting
    )


def watch_with(logs: str | Path | Sequence[str | Path], options: Watch) -> Iterator[Watched]:
    """Follow logs that are still being written, and say what is known of them each time that there is something new.

    Args:
        logs: Paths of logs, or one; ``-`` is standard input, and a folder stands for the logs that are in it now.  One that does not exist
            yet is waited for.
        options: See :class:`memlens.options.Watch`.

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
