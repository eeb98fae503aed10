"""The result of ``memlens.watch``: logs that grow, at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import convert
from msgspec.structs import replace

from memlens.results import Answered, Result

if TYPE_CHECKING:
    from memlens.analyzers.series.growth import Growth
    from memlens.analyzing.result import Analysis
    from memlens.watching.state import LogState


SCHEMA = "memlens.watch/2"

Ended = Literal["", "interrupted", "idle", "process", "input"]


class Crossing(Result, frozen=True):
    """A figure of a log that exceeds its budget.

    Attributes:
        path: The log as it was named.
        device: Which device of several; ``""`` where the log has one.
        metric: Which figure: ``"peak"``, ``"reserved"`` or ``"growth"``.
        budget_bytes: What it may be.
        reached_bytes: What it was when it was seen to exceed that.
        line: The line of the peak, 1-based; ``None`` of the other figures.
        since: The window from which on the series grows; ``None`` of the other figures.
    """

    path: str
    device: str
    metric: str
    budget_bytes: int
    reached_bytes: int
    line: int | None = None
    since: str | None = None


class GrowthSoFar(Result, frozen=True):
    """How memory develops over the closed windows so far; see :class:`~memlens.analyzers.series.growth.Growth`."""

    judged: int
    verdict: str
    since: str | None
    gained_bytes: int
    gained_bytes_per_window: float
    swing_bytes: int


class WatchedLog(Result, frozen=True):
    """One log as the machine output has it: its state, and how its windows grow."""

    spliced: ClassVar[frozenset[str]] = frozenset({"state"})

    state: LogState
    growth: GrowthSoFar | None


class Watched(Answered, frozen=True, eq=False):
    """The state of logs that grow, at one moment.

    Attributes:
        states: A state a log, or a device of a log that has several, in the order given.
        growths: How memory develops over the closed windows of each; ``None`` where none is closed.
        crossings: The budgets that were exceeded so far, in the order of time, each log and budget once.
        time: When that was, in seconds of :func:`time.monotonic`.
        ended: Why watching ended: ``"idle"``, ``"process"`` (it has ended), ``"input"`` (standard input has) or ``"interrupted"``; ``""`` while it goes on.
        unjudged: At the end, which budgets nothing could be held against, and why, in sentences.
        analysis: At the end, what :func:`memlens.analyze` says of the logs; ``None`` where a log is not whole any more in the file of its name
            (the log was rotated, its file replaced, or it came from a pipe), or could not be analyzed.
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = ("schema", "ended", "verdict", "logs", "crossings", "unjudged")

    states: tuple[LogState, ...]
    growths: tuple[Growth | None, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    time: float = 0.0
    ended: Ended = ""
    unjudged: tuple[str, ...] = ()
    analysis: Analysis | None = None

    @property
    def logs(self) -> tuple[WatchedLog, ...]:
        """Each log with its growth, as the machine output has them."""
        return tuple(
            WatchedLog(state, None if grown is None else convert(grown, GrowthSoFar, from_attributes=True))
            for state, grown in zip(self.states, self.growths, strict=True)
        )

    def with_last_windows(self, count: int) -> Watched:
        """The same with so many of the last windows of each log, at most."""
        states = (replace(one, windows=one.windows[max(len(one.windows) - count, 0) :]) for one in self.states)
        return replace(self, states=tuple(states))
