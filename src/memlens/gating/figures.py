"""The figures of a run that are gated: of the whole run, and of each window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlens.analyzers.levels import bounds, profile
from memlens.analyzers.result import Row
from memlens.facts import Kind
from memlens.gating.slips import NEAR, Near, near
from memlens.windows.windows import BEFORE, judged

if TYPE_CHECKING:
    from memlens.gating.limits import Metric
    from memlens.windows.windows import Window

__all__ = ["RESERVED_DOUBTS", "RunFigures", "WindowFigures", "figures_of"]

#: Doubts of the trust report that make nothing wrong but what is reserved.
RESERVED_DOUBTS = frozenset({"no_chunk_lines", "prealloc", "reserved_too_low"})


@dataclass(frozen=True)
class WindowFigures(Row):
    """The figures of one window that can be gated, as the analyzers define them.

    Attributes:
        name: The window's name; text from the log.
        rise_bytes: How far the level of allocated bytes rises in it above what was carried in; at least 0.
        remaining_bytes: What it leaves behind; may be negative.
        live_bytes: The level at its end.
        open_end: It runs to the end of the log because no end line closed it.
        start_events: The events next to its start; see :data:`~memlens.gating.slips.Near`.
        end_events: The events next to its end.
    """

    name: str
    rise_bytes: int
    remaining_bytes: int
    live_bytes: int
    open_end: bool = False
    start_events: Near = (0,) * (2 * NEAR)
    end_events: Near = (0,) * (2 * NEAR)

    def of(self, metric: Metric) -> int:
        """The figure of a metric of windows, in bytes."""
        return self.rise_bytes if metric == "rise" else self.remaining_bytes


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run.

    Attributes:
        peak_bytes: The highest level of allocated bytes in the whole run; ``None`` where the log tells of no block.
        reserved_peak_bytes: The highest level of what chunks hold; ``None`` where the log does not tell.
        windows: The windows that it was cut into, in file order.
    """

    peak_bytes: int | None
    reserved_peak_bytes: int | None
    windows: tuple[WindowFigures, ...]

    @property
    def series(self) -> tuple[WindowFigures, ...]:
        """The windows of the series that an end line or the next start closes: those that growth is judged by."""
        fates = zip(self.windows, judged(self.windows), strict=True)
        return tuple(window for window, fate in fates if fate and window.name != BEFORE)

    @property
    def all_open(self) -> bool:
        """Whether no window is closed (the start marks one line), so that open ones are all there is to judge."""
        return any(window.open_end for window in self.series)


def figures_of(windows: Sequence[Window], *, trust: bool = True) -> RunFigures:
    """The figures of a log and of the windows that it was cut into.

    Args:
        windows: Windows of one log, one at least.
        trust: Take what is reserved as unknown where the trust report doubts it.
    """
    log = windows[0].log
    run, each = profile([log.whole]), profile(windows)
    _, lo, hi = bounds(windows)
    columns = [each[name].tolist() for name in ("rise_bytes", "remaining_bytes", "live_bytes")]
    doubted = trust and any(doubt.code in RESERVED_DOUBTS for doubt in log.trust.doubts)
    return RunFigures(
        int(run["peak_bytes"][0]) if log.tells_of_blocks else None,
        int(run["reserved_peak_bytes"][0]) if log.tells_of_chunks and not doubted else None,
        tuple(
            WindowFigures(window.name, rise, left, live, window.open_end, start, end)
            for window, rise, left, live, start, end in zip(
                windows, *columns, near(log, lo), near(log, hi), strict=True
            )
        ),
    )
