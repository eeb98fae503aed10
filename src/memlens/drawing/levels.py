"""The levels of a window for a picture that can be zoomed into, and the marks and bands beside them.

Of each bucket of events there are the lowest and the highest level.  A window of up to :data:`EXACT` events has a bucket for each of them.  A longer one
has as many buckets, and beside them every single event of the stretches that are looked at most closely: around the peak and the failures.  These are
marked, and the windows and phases that the run consists of are bands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from memlens.analyzers.curve import curve
from memlens.analyzers.places import lines_at, rising_us
from memlens.analyzers.series.phases import cut_phases
from memlens.analyzing.steps import find_steps
from memlens.drawing.packing import pack, pack_json, packed
from memlens.events import running_sums
from memlens.folding.levels import levels_before
from memlens.text import visible
from memlens.trust.report import failures_in
from memlens.units import format_bytes
from memlens.windows.anchors import landmarks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memlens.analyzers.curve import Curve
    from memlens.columns import Ints
    from memlens.drawing.packing import Owners
    from memlens.events import EventLog
    from memlens.options import Cut
    from memlens.windows.windows import Window


#: A window of so many events is drawn event by event; of a longer one there are as many buckets.
EXACT = 1 << 17
#: Events before and after the peak of a long window that are kept one by one, and before and after each of its first failures.
AROUND_PEAK, AROUND_FAILURE, MOST_FAILURES = 1 << 12, 1 << 9, 16


class Detail(Struct, frozen=True, eq=False):
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
        """Return it as the page gets it."""
        return {"lo": self.lo, **packed(self, "bytes", "reserved_bytes", "line", "owner")}


class Levels(Struct, frozen=True, eq=False):
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
        """Return what the page gets: columns with one entry a bucket, and the edges of the buckets, one more."""
        return {
            **packed(self.curve, "edges", "low_bytes", "high_bytes", "reserved_bytes"),
            **packed(self, "high_event", "line", "owner"),
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
        first = int(np.searchsorted(made.edges, batch.lo, "right")) - 1
        last = int(np.searchsorted(made.edges, batch.hi))
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
    """Return the stretches to keep event by event, in order, those that touch as one: the first event, and the one after the last."""
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


#: Failures that are marked, and phases of all steps together; of more only the steps are shown.
_MOST_MARKED, _MOST_PHASES = 100, 50_000


class Mark(Struct, frozen=True):
    """One event that is marked; the page gets it by these names.

    Attributes:
        kind: ``peak`` or ``oom``.
        event: The first event that reaches the peak, or the last one before a failure.
        line: Its line, or that of the failure's message, 1-based; 0 where unknown.
        bytes: The allocated level right after the event.
        label: What is written there.
    """

    kind: str
    event: int
    line: int
    bytes: int
    label: str


class Bands(Struct, frozen=True, eq=False):
    """Stretches with names, in file order.

    Attributes:
        lo: The first event of each, int64.
        hi: The event after its last, int64.
        level: 0 for windows and steps, 1 for the phases in them, int64.
        name: Index of its name, int64.
        names: The names; text from the log.
    """

    lo: Ints
    hi: Ints
    level: Ints
    name: Ints
    names: tuple[str, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return what the page gets: the windows or steps, and the phases, as far as there are any, each by where they begin."""
        order = np.argsort(self.lo, kind="stable")
        chosen = [(kind, order[self.level[order] == level]) for level, kind in enumerate(("windows", "phases"))]
        names = [visible(name) for name in self.names]
        rows = ((kind, self.lo[at], self.hi[at], [names[k] for k in self.name[at]]) for kind, at in chosen if len(at))
        return [band_row(*row) for row in rows]


def band_row(kind: str, lo: Ints, hi: Ints, names: Sequence[str]) -> dict[str, Any]:
    """A row of bands as the page gets it: what they are, in the plural, their first events, rising, the ones after their last, and names to be shown."""
    return {"kind": kind, "lo": pack(lo), "hi": pack(hi), "names": pack_json(list(names))}


def marks(window: Window, curve: Curve) -> list[Mark]:
    """The peak of a window, and the first of its failures."""
    log = window.log
    found = []
    if len(window):
        event = curve.peak_event
        (line,) = [None] if event is None else log.line_numbers([event])
        label = "peak" if event is not None else "peak: what was live before"
        found.append(Mark("peak", window.lo if event is None else event, line or 0, int(curve.high_bytes.max()), label))
    events = curve.failures[:_MOST_MARKED]
    levels = levels_before(log, np.array(events, np.int64) + 1) if events else []
    for event, oom, (allocated, _) in zip(events, failures_in(window), levels, strict=False):
        request = "" if oom.asked_bytes is None else f": {format_bytes(oom.asked_bytes)} asked for"
        found.append(Mark("oom", event, oom.line, allocated, f"out of memory{request}"))
    return found


def series_of(log: EventLog, cut: Cut) -> Sequence[Window]:
    """The windows that a log was asked to be cut into, or else its steps, as far as they are found; empty where there are none."""
    if cut.series:
        return cut.windows(log)
    found = find_steps(log)
    return () if found is None else found.windows


def bands(window: Window, series: Sequence[Window]) -> Bands:
    """The windows of a series and their phases, as far as they lie in a window."""
    names = list(dict.fromkeys(step.name for step in series))
    number = {name: at for at, name in enumerate(names)}
    parts = [
        _columns([step.lo for step in series], [step.hi for step in series], 0, [number[step.name] for step in series])
    ]
    marked = landmarks_of(window.log) if series else None
    pieces = None if marked is None else cut_phases(series, marked)
    if pieces is not None and len(pieces.lo) <= _MOST_PHASES:
        parts.append(_columns(pieces.lo, pieces.hi, 1, pieces.phase + len(names)))
        names += pieces.names
    lo, hi, level, name = np.concatenate(parts, axis=1)
    lo, hi = np.maximum(lo, window.lo), np.minimum(hi, window.hi)
    held = lo < hi
    return Bands(lo[held], hi[held], level[held], name[held], tuple(names))


def _columns(lo: Sequence[int] | Ints, hi: Sequence[int] | Ints, level: int, name: Sequence[int] | Ints) -> Ints:
    """Four rows: first events, events after the last, the level, the names."""
    return np.array([lo, hi, np.full(len(lo), level), name], np.int64)
