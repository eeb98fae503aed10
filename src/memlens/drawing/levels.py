"""The levels of a window for a picture that can be zoomed into: of each bucket of events the lowest and the highest level.

A window of up to :data:`EXACT` events has a bucket for each of them.  A longer one has as many buckets, and beside them every single event of the
stretches that are looked at most closely: around the peak and the failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.curve import curve
from memlens.analyzers.places import lines_at, rising_us
from memlens.drawing.packing import pack
from memlens.events import running_sums
from memlens.folding.moments import levels_before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from memlens.analyzers.curve import Curve
    from memlens.drawing.owners import Owners
    from memlens.events import EventLog
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]

__all__ = ["EXACT", "Detail", "Levels", "levels", "merged"]

#: A window of so many events is drawn event by event; of a longer one there are as many buckets.
EXACT = 1 << 17
#: Events before and after the peak of a long window that are kept one by one, and before and after each of its first failures.
AROUND_PEAK, AROUND_FAILURE, MOST_FAILURES = 1 << 12, 1 << 9, 16


@dataclass(frozen=True, eq=False)
class Detail:
    """Every single event of a stretch.

    Attributes:
        lo: The first of them.
        bytes: The allocated level right after each, int64.
        reserved_bytes: The reserved one, int64.
        line: Its line, 1-based, int64; 0 where unknown.
        owner: Its owner by its number in the page, int64; -1 for none.
    """

    lo: int
    bytes: Ints
    reserved_bytes: Ints
    line: Ints
    owner: Ints

    def to_dict(self) -> dict[str, Any]:
        """What the page gets."""
        columns = {name: pack(getattr(self, name)) for name in ("bytes", "reserved_bytes", "line", "owner")}
        return {"lo": self.lo, **columns}


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a window.

    Attributes:
        curve: The levels of each bucket.
        high_event: The first event of each bucket that reaches its highest allocated level, int64; the event before the window where that is
            the level that the window starts from.
        line: The line of that event, 1-based, int64; 0 where unknown.
        owner: Its owner by its number in the page, int64; -1 for none.
        time_us: The time at each edge of the buckets, not falling, int64, of the last event at the last edge; ``None`` where no times are known.
        details: The stretches of a long window that are there event by event, in order, none overlapping.
    """

    curve: Curve
    high_event: Ints
    line: Ints
    owner: Ints
    time_us: Ints | None
    details: tuple[Detail, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What the page gets: columns with one entry a bucket, and the edges of the buckets, one more."""
        curve = self.curve
        return {
            "edges": pack(curve.edges),
            "low_bytes": pack(curve.low_bytes),
            "high_bytes": pack(curve.high_bytes),
            "reserved_bytes": pack(curve.reserved_bytes),
            "high_event": pack(self.high_event),
            "line": pack(self.line),
            "owner": pack(self.owner),
            "time_us": None if self.time_us is None else pack(self.time_us),
            "details": [detail.to_dict() for detail in self.details],
        }


def levels(window: Window, owners: Owners) -> Levels:
    """The levels of a window.

    Args:
        window: The window.
        owners: Gives the owners their numbers.
    """
    log, made = window.log, curve(window, buckets=EXACT)
    events = _highest(log, made)
    stretches = _stretches(made) if len(window) > EXACT else []
    line, owner = _places(log, events, owners)
    return Levels(made, events, line, owner, _times(log, made.edges), tuple(_details(log, stretches, owners)))


def _highest(log: EventLog, made: Curve) -> Ints:
    """The first event of each bucket that reaches the bucket's highest level."""
    lo, hi = int(made.edges[0]), int(made.edges[-1])
    found = np.full(len(made), -1, np.int64)
    for batch in log.batches(lo, hi):
        first, last = (
            int(np.searchsorted(made.edges, batch.lo, "right")) - 1,
            int(np.searchsorted(made.edges, batch.hi)),
        )
        begins = np.maximum(made.edges[first:last], batch.lo) - batch.lo
        wanted = np.repeat(made.high_bytes[first:last], np.diff(np.append(begins, batch.hi - batch.lo)))
        at = np.flatnonzero(batch.allocated == wanted)
        bucket = np.searchsorted(begins, at, "right") - 1 + first
        new = np.append(True, bucket[1:] != bucket[:-1])[: len(at)] & (found[bucket] < 0)
        found[bucket[new]] = at[new] + batch.lo
    return np.where(found < 0, lo - 1, found)


def _places(log: EventLog, events: Ints, owners: Owners) -> tuple[Ints, Ints]:
    """The lines and the owners of some events; 0 and -1 of an event before the first one."""
    coded = owners.code(np.maximum(events, 0)) if len(log) else events
    return lines_at(log, events), np.where(events < 0, -1, coded)


def _times(log: EventLog, edges: Ints) -> Ints | None:
    """The time at each edge, not falling; ``None`` where there is none, or one alone."""
    if log.time_us is None or len(edges) < 2:
        return None
    times = rising_us(log.time_us[np.minimum(edges, edges[-1] - 1)])
    return None if times is None or times[0] == times[-1] else times


def _stretches(made: Curve) -> list[tuple[int, int]]:
    """What is to be kept event by event, in order, those that touch as one: the first event, and the one after the last."""
    lo, hi = int(made.edges[0]), int(made.edges[-1])
    wanted = [(made.peak_event, AROUND_PEAK), *((event, AROUND_FAILURE) for event in made.failures[:MOST_FAILURES])]
    return merged((max(event - around, lo), min(event + around, hi)) for event, around in wanted if event is not None)


def merged(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches in order, each its first place and the one after its last; those that touch are one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def _details(log: EventLog, stretches: list[tuple[int, int]], owners: Owners) -> list[Detail]:
    if not stretches:
        return []
    starts = np.array([lo for lo, _ in stretches], np.int64)
    found = []
    for (lo, hi), before in zip(stretches, levels_before(log, starts), strict=True):
        allocated, reserved = running_sums(log.kind[lo:hi], log.size[lo:hi], *before)
        found.append(Detail(lo, allocated, reserved, *_places(log, np.arange(lo, hi), owners)))
    return found
