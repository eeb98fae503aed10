"""Logs that grow, at one moment: the state of each, which its reader gives and the screen shows, and what ``memlens.watch`` says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from msgspec import Struct, convert, field
from msgspec.structs import replace

from memlens.results import Answered, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memlens.analyzers.series.growth import Growth
    from memlens.analyzing.result import Analysis
    from memlens.columns import Ints
    from memlens.watching.holding import Walk


SCHEMA = "memlens.watch/2"

Ended = Literal["", "interrupted", "idle", "process", "input"]

#: Windows of a series that are kept one by one; of those before them only the levels at their ends.
KEPT_WINDOWS = 64


class LiveWindow(Result, frozen=True):
    """One window of a series, as far as it is written; the figures mean what those of :func:`memlens.analyze` of the same names do.

    Attributes:
        name: Its name.
        index: Its 0-based index in the series; what precedes the first anchor is a window too.
        start_line: The line of its anchor, 1-based; 1 for what precedes the first.
        peak_bytes: The highest allocated level in it.
        rise_bytes: That less what was carried in.
        live_bytes: The level at its end, or now.
        reserved_peak_bytes: The highest reserved level; ``None`` where the log does not tell of chunks.
        allocs: Its ALLOCs.
        frees: Its FREEs.
        open: It is still being written.
    """

    name: str
    index: int
    start_line: int
    peak_bytes: int
    rise_bytes: int
    live_bytes: int
    reserved_peak_bytes: int | None
    allocs: int
    frees: int
    open: bool


class Timeline(Struct, frozen=True, eq=False):
    """The highest levels of consecutive stretches of as many events, the last one still open; at most some hundred entries.

    Attributes:
        events: Events a stretch; doubles as the log grows, and neighbours are merged.
        allocated_bytes: The highest allocated level in each stretch, int64.
        reserved_bytes: The highest reserved level, int64; ``None`` where the log does not tell of chunks.
    """

    events: int
    allocated_bytes: Ints
    reserved_bytes: Ints | None


class LogState(Result, frozen=True, eq=False):
    """The state of a growing log: all that was read so far.

    Attributes:
        path: The log as it was named.
        device: Which device of several, ``device 1``; ``""`` where the log has one.
        layer: The layer, or the format, that is believed; ``""`` before the first event.
        bytes: Bytes of text read, over all files that the log had.
        lines: Whole lines read.
        events: Events that count.
        allocs: ALLOCs.
        frees: FREEs.
        allocated_bytes: The level now; ``None`` where no event tells of blocks.
        reserved_bytes: The reserved level now; ``None`` where the log does not tell of chunks.
        peak_bytes: The highest allocated level so far; 0 where none is known.
        peak_line: The line that first reaches it, 1-based, counted over all files; ``None`` where the level never rose.
        reserved_peak_bytes: The highest reserved level so far; ``None`` where not known.
        exceeded: Of the budgets of these two, ``peak`` and ``reserved``, the first line at which each was exceeded, counted in the same way.
        timeline: The levels over the run.
        windows: The last windows of the series, the open one at the end; none where nothing cuts the log.
        window_count: How many windows there were in all.
        end_live_bytes: The live level at the end of every closed window, int64.
        by: The regular expression that cuts the log; ``""`` for none.
        repeated: The windows were asked for, or each is the same work again, so that what they leave behind is growth; else they are parts of a
            larger unit of work (:class:`memlens.analyzing.result.Steps`).
        ooms: Out-of-memory messages so far.
        malformed: Lines that look like an event and cannot be read.
        rotations: How often the log went on in a new file, or from the start of a file made shorter.
        restarts: How often the file was replaced by that of another run; figures are of the last one.
        waiting: Why there is nothing to read, in words (``no such file yet``); ``""`` where there is.
        problem: What is wrong with what was read (a damaged compressed stream), in words; ``""`` where nothing is.
        written: When something was read last, in seconds of :func:`time.monotonic`.
        walks: What walks of the recorder found: the last one, and some before.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        "path", "device", "layer", "bytes", "lines", "events", "allocs", "frees", "allocated_bytes", "reserved_bytes",
        "peak_bytes", "peak_line", "reserved_peak_bytes", "window_count", "by", "repeated", "ooms", "malformed",
        "rotations", "restarts", "waiting", "problem", "windows",
    )  # fmt: skip

    path: str
    device: str = ""
    layer: str = ""
    bytes: int = 0
    lines: int = 0
    events: int = 0
    allocs: int = 0
    frees: int = 0
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_bytes: int = 0
    peak_line: int | None = None
    reserved_peak_bytes: int | None = None
    exceeded: Mapping[str, int | None] = {}
    timeline: Timeline = field(default_factory=lambda: Timeline(1, np.zeros(0, np.int64), None))
    windows: tuple[LiveWindow, ...] = ()
    window_count: int = 0
    end_live_bytes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    by: str = ""
    repeated: bool = True
    ooms: int = 0
    malformed: int = 0
    rotations: int = 0
    restarts: int = 0
    waiting: str = ""
    problem: str = ""
    written: float = 0.0
    walks: tuple[Walk, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The path and the device, which tell it from the others that are watched."""
        return self.path, self.device


class Crossing(Result, frozen=True):
    """A figure of a log that exceeds its budget.

    Attributes:
        path: The log as it was named.
        device: Which device of several; ``""`` where the log has one.
        metric: Which figure: ``"peak"``, ``"reserved"`` or ``"growth"``.
        budget_bytes: What it may be.
        reached_bytes: What it is now; where it does not exceed that any more, what it was when it was last seen to.
        line: The first line at which it exceeded that, 1-based; ``None`` of growth.
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
    in_json: ClassVar[tuple[str, ...]] = ("schema", "ended", "verdict", "claims", "logs", "crossings", "unjudged")

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
