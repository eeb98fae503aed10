"""The levels of a window: what it starts from, leaves behind and ends with, how high it comes and what is live there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import Alike, Groups, SizeGroups, by_size_and_owner
from memlens.analyzers.places import lines_of, or_none, time_of
from memlens.folding import levels_before, per_window, plain_rows, profile
from memlens.results import OnDemand, Result, Tables, deferred, lazy
from memlens.windows.windows import edges_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.windows.windows import Window


class Remaining(Result, frozen=True):
    """Bytes carried into a window, left behind by it, and live at its end.

    Attributes:
        remaining_bytes: Σ ALLOC - Σ FREE sizes of the window's events; negative where more is freed than allocated.
        carried_in_bytes: Σ ALLOC - Σ FREE from the start of the log to right before the window.
        live_bytes: ``carried_in_bytes + remaining_bytes``, the absolute level at the window's end.
    """

    remaining_bytes: int
    carried_in_bytes: int
    live_bytes: int


def remaining(windows: Sequence[Window]) -> OnDemand[Remaining]:
    """Analyze windows of one log in one pass."""
    return per_window(Remaining, windows, profile(windows).columns)


class LiveGroup(Alike, frozen=True):
    """Blocks of one size (and owner, where that is known) that are live at a peak.

    Attributes:
        holder: Who holds half of them or more, where that was recorded: ``variable feats[*] (main, train.py)``.
    """

    owner: str | None = None
    holder: str | None = None


@lazy("line", "time_us", "live", "reserved_at_peak_bytes", "reserved_peak_line")
class Peak(Result, frozen=True):
    """The peak of a window.

    Attributes:
        peak_bytes: The highest allocated level in the window, bytes carried in included: what the device had to hold.
        rise_bytes: ``peak_bytes`` less the bytes carried in; at least 0.
        reserved_peak_bytes: The highest reserved level in the window, what is reserved at its start included; ``None`` where no line tells of chunks.
        event: The first event that reaches the peak, 0-based in the log; ``None`` where the rise is 0: the peak is then what was
            carried in.
        line: The line of that event, 1-based; ``None`` where there is none or it is not known.
        time_us: The time of that event, ``None`` where there is none or it is not known.
        live: The blocks live right after that event (where there is none: right before the window), wherever in the log they
            were born, in groups, the largest total first.
        reserved_at_peak_bytes: The reserved level at that moment; ``None`` where no line tells of chunks.
        reserved_peak_line: The line of the first event that reaches ``reserved_peak_bytes``, 1-based; ``None`` where it is reserved
            from the window's start on, and where the line is not known.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        "peak_bytes", "rise_bytes", "reserved_peak_bytes", "reserved_at_peak_bytes", "event", "line", "time_us", "live",
    )  # fmt: skip
    tables: ClassVar[Tables] = {"live": LiveGroup}

    peak_bytes: int
    rise_bytes: int
    reserved_peak_bytes: int | None
    event: int | None
    line: int | None = None
    time_us: int | None = None
    live: Sequence[LiveGroup] = ()
    reserved_at_peak_bytes: int | None = None
    reserved_peak_line: int | None = None

    @property
    def carried_in_bytes(self) -> int:
        """Bytes live right before the window."""
        return self.peak_bytes - self.rise_bytes

    @property
    def at_start(self) -> bool:
        """Whether the window never rises above what was carried in: the peak is then at its start, before any event of it."""
        return not self.rise_bytes and self.peak_bytes > 0


def peak(windows: Sequence[Window]) -> OnDemand[Peak]:
    """Analyze windows of one log in one pass; lines and live blocks are looked up when they are asked for."""
    log, figures = windows[0].log, profile(windows)
    rises = figures["rise_bytes"] > 0
    line = lines_of(log, figures.summit[rises].tolist())

    def times() -> NDArray[Any]:
        return or_none(log.times_at(np.where(rises, figures.summit, -1)))

    known = None if log.time_us is None else times()
    highest, rise, reserved = (figures[name].item for name in ("peak_bytes", "rise_bytes", "reserved_peak_bytes"))

    def one(k: int) -> Peak:
        event = figures.summit.item(k) if rises[k] else None
        before = windows[k].lo if event is None else event + 1
        time = deferred(time_of, log, event) if known is None else known.item(k)
        late = deferred(line, event), time, deferred(live_before, log, before)
        if not log.tells_of_chunks:
            return Peak(highest(k), rise(k), None, event, *late)
        there = deferred(_reserved_before, log, before), deferred(_reserved_line, windows[k], reserved(k))
        return Peak(highest(k), rise(k), reserved(k), event, *late, *there)

    def rows() -> Iterator[dict[str, Any]]:
        events = [event if rise else None for event, rise in zip(figures.summit.tolist(), rises.tolist(), strict=True)]
        at_peak = top = np.full(len(windows), None)
        if log.tells_of_chunks:
            at_peak = levels_before(log, np.where(rises, figures.summit + 1, edges_of(windows, "lo")))[:, 1]
            top = figures["reserved_peak_bytes"]
        levels = {name: figures[name] for name in ("peak_bytes", "rise_bytes")}
        reserved = {"reserved_peak_bytes": top, "reserved_at_peak_bytes": at_peak}
        at = times() if known is None else known
        return plain_rows({**levels, **reserved, "event": events, "line": map(line, events), "time_us": at})

    return OnDemand(len(windows), one, rows)


def _reserved_before(log: EventLog, event: int) -> int:
    return levels_before(log, np.array([event])).item(1)


def _reserved_line(window: Window, highest: int) -> int | None:
    """The line of the first event of a window after which so much is reserved; ``None`` where it is from the start on."""
    if _reserved_before(window.log, window.lo) == highest:
        return None
    for batch in window.log.batches(window.lo, window.hi):
        if (there := batch.reserved == highest).any():
            return window.log.line_numbers([batch.lo + int(there.argmax())])[0]
    return None


def live_before(log: EventLog, event: int) -> Groups[LiveGroup]:
    """The blocks born and not freed before an event, in groups."""
    groups = by_size_and_owner(log, live_events(log, event))

    def rows(some: SizeGroups) -> Iterator[LiveGroup]:
        for (size, count, total, owner), holder in zip(some.rows(), some.held_by(), strict=True):
            yield LiveGroup(size, count, total, owner, holder)

    return Groups(groups, rows)
