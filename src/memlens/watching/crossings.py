"""The limits of logs that grow: what their series gained so far, and when a figure exceeds what it may be.

Growth is judged as :func:`memlens.analyze` judges it (:mod:`memlens.analyzers.series.trend`), over closed windows alone.  While a log
grows that judge is asked again and again, and the beginning of many a series looks like a leak: memory fills up in the first windows,
or the first tooth of a sawtooth is not over yet.  So a limit of growth is called exceeded only where it goes on: among
:data:`FEWEST` windows or more, and where the series was growing already before the last third of what grows.  At the end of a log,
when all of it is read, that judge alone decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from memlens.analyzers import Growth
from memlens.analyzers.series.trend import judge
from memlens.analyzing.verdict import window_label
from memlens.text import short_name
from memlens.units import format_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memlens.gating.limits import Metric
    from memlens.watching.state import LogState

    Ints = NDArray[np.int64]

__all__ = ["FEWEST", "Crossing", "Judge", "crossings_of", "key_of", "lasting_gain"]

#: The fewest closed windows of which growth is said to exceed a limit while the log still grows.
FEWEST = 12
#: Series are judged anew after so many times as long as the last judgement took, so that it costs a small part of the work.
_PATIENCE = 20


@dataclass(frozen=True)
class Crossing:
    """A figure of a log that exceeds its limit.

    Attributes:
        path: The log as it was named.
        device: Which device of several; ``""`` where the log has one.
        metric: Which figure: ``"peak"``, ``"reserved"`` or ``"growth"``.
        limit_bytes: What it may be.
        reached_bytes: What it was when it was seen to exceed that.
        line: The line of the peak, 1-based; ``None`` of the other figures.
        since: The window from which on the series grows; ``None`` of the other figures.
    """

    path: str
    device: str
    metric: str
    limit_bytes: int
    reached_bytes: int
    line: int | None = None
    since: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def __str__(self) -> str:
        what = {"peak": "the peak", "reserved": "what is reserved", "growth": "what the windows gain"}[self.metric]
        where = "" if self.line is None else f", at line {self.line:,}"
        where += "" if self.since is None else f", from {short_name(window_label('', self.since))} on"
        return f"{what} exceeds {format_bytes(self.limit_bytes)}: {format_bytes(self.reached_bytes)}{where}"


def key_of(state: LogState) -> tuple[str, str]:
    """What tells a log, or a device of it, from the others that are watched."""
    return state.path, state.device


def growth_of(state: LogState, before: Growth | None = None) -> Growth:
    """How memory develops over the closed windows of a log so far.

    Args:
        state: The log.
        before: What was found before: it may know the name of a window that is no longer kept.
    """
    trend = judge(state.end_live_bytes)
    judged = len(state.end_live_bytes)
    names = {window.index: window.name for window in state.windows}
    if before is not None and before.since_window is not None and before.since is not None:
        names.setdefault(before.since_window, before.since)
    since = trend.since
    named = None if since is None else names.get(since, f"window no. {since + 1:,}")
    rise = trend.rise
    return Growth(
        state.window_count,
        judged,
        (),
        trend.gained_bytes,
        trend.gained_bytes_per_window,
        trend.verdict,
        named,
        since,
        trend.swing_bytes,
        rose=None if rise is None else rise.how,
        rose_bytes=0 if rise is None else rise.rose_bytes,
    )


def lasting_gain(live: Ints) -> int | None:
    """What a series gained that grows and goes on growing; ``None`` of one of which that cannot be said yet.

    Args:
        live: The live bytes at the ends of its closed windows so far, int64.
    """
    if len(live) < FEWEST:
        return None
    trend = judge(live)
    if trend.since is None:
        return None
    earlier = len(live) - max((len(live) - trend.since) // 3, 1)
    return trend.gained_bytes if judge(live[:earlier]).verdict == "growing" else None


def _judged(state: LogState) -> bool:
    """Whether growth is judged over the windows of a log."""
    return state.repeated and len(state.end_live_bytes) > 0


class Judge:
    """What the series of logs gained: judged where windows have closed, and not so often that it takes much time."""

    def __init__(self) -> None:
        # Of each log by what it is cut and into how many closed windows, what was found, and what is held against its limit.
        self._found: dict[tuple[str, str], tuple[tuple[str, int], Growth, int | None]] = {}
        self._again = 0.0

    def judge(self, states: tuple[LogState, ...], *, final: bool) -> None:
        """Judge those logs that have more closed windows than when they were judged last."""
        began = time.monotonic()
        if began < self._again and not final:
            return
        for state in states:
            key, series = key_of(state), (state.by, len(state.end_live_bytes))
            if _judged(state) and (final or key not in self._found or self._found[key][0] != series):
                series_before, growth_before, _ = self._found.get(key, (("", 0), None, None))
                growth = growth_of(
                    state, growth_before if series_before[0] == state.by and series_before[1] <= series[1] else None
                )
                gained = growth.gained_bytes if growth.verdict == "growing" else None
                self._found[key] = series, growth, gained if final else lasting_gain(state.end_live_bytes)
        now = time.monotonic()
        self._again = now + _PATIENCE * (now - began)

    def growth(self, state: LogState) -> Growth | None:
        """How memory develops over the closed windows of a log; ``None`` where none is closed, or they are parts of a larger unit of work."""
        found = self._found.get(key_of(state))
        return found[1] if found is not None and _judged(state) else None

    def gained(self, state: LogState) -> int | None:
        """What its limit is held against: what the series gained; ``None`` where it does not grow for sure."""
        found = self._found.get(key_of(state))
        return found[2] if found is not None and _judged(state) else None


def crossings_of(state: LogState, limits: Mapping[Metric, int], judge: Judge) -> Iterator[Crossing]:
    """The figures of a log that exceed their limits."""
    growth = judge.growth(state)
    figures: dict[str, tuple[int | None, dict[str, Any]]] = {
        "peak": (state.peak_bytes, {"line": state.peak_line}),
        "reserved": (state.reserved_peak_bytes, {}),
        "growth": (judge.gained(state), {"since": None if growth is None else growth.since}),
    }
    for metric, limit in limits.items():
        reached, where = figures[metric]
        if reached is not None and reached > limit:
            yield Crossing(state.path, state.device, metric, limit, reached, **where)
