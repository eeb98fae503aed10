"""The highest level of a window: how high, where, and which blocks are live there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import by_size_and_owner
from memlens.analyzers.levels import profile
from memlens.analyzers.places import Lines, time_of
from memlens.analyzers.result import Later, Lazy, Result, Row

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.windows.windows import Window

__all__ = ["LiveGroup", "Peak", "peak"]


@dataclass(frozen=True)
class LiveGroup(Row):
    """Blocks of one size (and owner, where that is known) that are live at a peak."""

    size_bytes: int
    count: int
    total_bytes: int
    owner: str | None = None


@dataclass(frozen=True)
class Peak(Result):
    """The peak of a window.

    Attributes:
        peak_bytes: The highest allocated level in the window, bytes carried in included: what the device had to hold.
        rise_bytes: ``peak_bytes`` less the bytes carried in; at least 0.
        reserved_peak_bytes: The highest reserved level in the window, what is reserved at its start included.
        event: The first event that reaches the peak, 0-based in the log; ``None`` where the rise is 0: the peak is then what was
            carried in.
        line: The line of that event, 1-based; ``None`` where there is none or it cannot be told.
        time_us: The time of that event, where times were read.
        live: The blocks live right after that event (where there is none: right before the window), wherever in the log they
            were born, in groups, the largest total first.
    """

    tables: ClassVar[dict[str, type[Row]]] = {"live": LiveGroup}

    peak_bytes: int
    rise_bytes: int
    reserved_peak_bytes: int
    event: int | None
    line: Lazy[int | None] = field(default=Lazy(None), repr=False)
    time_us: int | None = None
    live: Lazy[tuple[LiveGroup, ...]] = field(default=Lazy(()), repr=False)

    @property
    def carried_in_bytes(self) -> int:
        """Bytes live right before the window."""
        return self.peak_bytes - self.rise_bytes

    @property
    def at_start(self) -> bool:
        """Whether the window never rises above what was carried in: the peak is then at its start, before any event of it."""
        return not self.rise_bytes and self.peak_bytes > 0


def peak(windows: Sequence[Window]) -> list[Peak]:
    """Analyze windows of one log in one pass; lines and live blocks are looked up when they are asked for."""
    if not windows:
        return []
    log, figures = windows[0].log, profile(windows)
    rises, reserved = figures.rise[0].tolist(), (figures.rise[1] + figures.levels[1]).tolist()
    carried, summits = figures.levels[0].tolist(), figures.summit.tolist()
    events = [summit if rise else None for rise, summit in zip(rises, summits, strict=True)]
    lines = Lines(log, events)
    return [
        Peak(
            before + rise,
            rise,
            chunks,
            event,
            Later(lines.of, event),
            time_of(log, event),
            Later(live_before, log, window.lo if event is None else event + 1),
        )
        for window, rise, before, chunks, event in zip(windows, rises, carried, reserved, events, strict=True)
    ]


def live_before(log: EventLog, event: int) -> tuple[LiveGroup, ...]:
    """The blocks born and not freed before an event, in groups."""
    groups = by_size_and_owner(log, live_events(log, event))
    return tuple(LiveGroup(group.size_bytes, group.blocks, group.total_bytes, group.owner) for group in groups)
