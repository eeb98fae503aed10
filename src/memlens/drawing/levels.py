"""The levels of a window as pictures show them: on a page that can be zoomed into, with marks and bands beside them, and in a still.

Of each bucket of events there are the lowest and the highest level.  On a page a window of up to :data:`EXACT` events has a bucket for each of them.  A
longer one has half as many buckets, and beside them every single event of the stretches that are looked at most closely: around the peak and the failures.  These
are marked, and the windows and phases that the run consists of are bands.  A still has a bucket for each column, over events or over time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from memlens.analyzers.places import lines_at, rising_us
from memlens.analyzers.series.curve import curve
from memlens.analyzers.series.phases import cut_phases
from memlens.drawing.page import pack_json
from memlens.errors import InputError, NoEventsError
from memlens.events import running_sums
from memlens.folding import levels_before
from memlens.text import LINES, Terms, format_bytes, terms_of, visible
from memlens.trust.failures import failures_in
from memlens.windows.anchor_discovery import find_steps
from memlens.windows.anchors import landmarks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.series.curve import Curve
    from memlens.analyzers.series.phases import Pieces
    from memlens.columns import Ints
    from memlens.drawing.page import Owners
    from memlens.events import EventLog
    from memlens.options import Cut
    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


#: A window of so many events is drawn event by event; of a longer one there are so many buckets.
EXACT, BUCKETS = 1 << 17, 1 << 16
#: Events before and after the peak of a long window that are kept one by one, and before and after each of its first failures.
AROUND_PEAK, AROUND_FAILURE, MOST_FAILURES = 1 << 12, 1 << 9, 16
#: Failures that are marked, and phases of all steps together; of more only the steps are shown.
_MOST_MARKED, _MOST_PHASES = 100, 50_000


def curve_of_page(window: Window) -> Curve:
    """The curve that a page shows of a window."""
    return curve(window, buckets=EXACT if len(window) <= EXACT else BUCKETS)


def levels(window: Window, made: Curve, owners: Owners) -> dict[str, Any]:
    """Return the page's levels of a window.

    Args:
        window: The window.
        made: Its levels (:func:`curve_of_page`).
        owners: Gives the owners their numbers.

    Returns:
        The columns of the curve; ``high_event``, the first event of each bucket that reaches its highest allocated level, the event before the window
        where that is the level that the window starts from, with its ``line`` (1-based, 0 where unknown) and the number of its ``owner`` (-1 for none);
        ``time_us``, the time at each edge of the buckets, not falling, of the last event at the last edge, ``None`` where no times are known; and
        ``details``, the stretches of a long window that are there event by event, in order, none overlapping: the first event of each, and the levels
        right after each event, its line and its owner.  All columns are int64.
    """
    log, events = window.log, _highest(window.log, made)
    columns = {name: getattr(made, name) for name in ("edges", "low_bytes", "high_bytes", "reserved_bytes")}
    columns |= {"high_event": events, **_places(log, events, owners)}
    stretches = _stretches(made) if len(window) > EXACT else []
    starts = np.array([lo for lo, _ in stretches], np.int64)
    details = []
    for (lo, hi), before in zip(stretches, levels_before(log, starts).tolist(), strict=True):
        allocated, reserved = running_sums(log.kind[lo:hi], log.size[lo:hi], *before)
        after = {"lo": lo, "bytes": allocated, "reserved_bytes": reserved}
        details.append(after | _places(log, np.arange(lo, hi), owners))
    return {**columns, "time_us": _times(log, made.edges), "details": details}


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


def _places(log: EventLog, events: Ints, owners: Owners) -> dict[str, Ints]:
    """The lines and the owners of some events; 0 and -1 of an event before the first one."""
    coded = owners.code(np.maximum(events, 0)) if len(log) else events
    return {"line": lines_at(log, events), "owner": np.where(events < 0, -1, coded)}


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


def marks(window: Window, curve: Curve) -> list[dict[str, Any]]:
    """Return the events that the page marks: the peak of a window, and the first of its failures.

    Returns:
        Of each the ``kind``, ``peak`` or ``oom``; the ``event``, the first one that reaches the peak, or the last one before a failure; its ``line``,
        or that of the failure's message, 1-based, 0 where unknown; the allocated ``bytes`` right after the event; and a ``label``.
    """
    log = window.log
    found: list[dict[str, Any]] = []
    if len(window):
        event = curve.peak_event
        (line,) = [None] if event is None else log.line_numbers([event])
        label = "peak" if event is not None else "peak: what was live before"
        at, highest = window.lo if event is None else event, int(curve.high_bytes.max())
        found.append({"kind": "peak", "event": at, "line": line or 0, "bytes": highest, "label": label})
    events = curve.failures[:_MOST_MARKED]
    levels = levels_before(log, np.array(events, np.int64) + 1).tolist()
    for event, oom, (allocated, _) in zip(events, failures_in(window), levels, strict=False):
        request = "" if oom.asked_bytes is None else f": {format_bytes(oom.asked_bytes)} asked for"
        label = f"out of memory{request}"
        found.append({"kind": "oom", "event": event, "line": oom.line, "bytes": allocated, "label": label})
    return found


def series_of(log: EventLog, cut: Cut) -> Sequence[Window]:
    """The windows that a log was asked to be cut into, or else its steps, as far as they are found; empty where there are none."""
    if cut.series:
        return cut.windows(log)
    found = find_steps(log)
    return () if found is None else found.windows


def phases_of(log: EventLog, series: Sequence[Window]) -> Pieces | None:
    """The phases of a series of windows; ``None`` where there are none."""
    marked = landmarks_of(log) if series else None
    found = None if marked is None else cut_phases(series, marked)
    return None if found is None else found.inside()


def bands(window: Window, series: Sequence[Window], pieces: Pieces | None) -> list[dict[str, Any]]:
    """Return the bands of the page: the windows of a series, and their phases, as far as they lie in a window, each by where they begin."""
    rows = [("windows", [step.lo for step in series], [step.hi for step in series], [step.name for step in series])]
    if pieces is not None and len(pieces.lo) <= _MOST_PHASES:
        phases = [pieces.names[number] for number in pieces.phase.tolist()]
        rows.append(("phases", pieces.lo.tolist(), pieces.hi.tolist(), phases))
    found = []
    for kind, begins, ends, names in rows:
        lo, hi = np.maximum(np.array(begins, np.int64), window.lo), np.minimum(np.array(ends, np.int64), window.hi)
        order = np.argsort(lo, kind="stable")
        held = order[lo[order] < hi[order]]
        if len(held):
            found.append(band_row(kind, lo[held], hi[held], [visible(names[at]) for at in held.tolist()]))
    return found


def band_row(kind: str, lo: Ints, hi: Ints, names: Sequence[str]) -> dict[str, Any]:
    """A row of bands as the page gets it: what they are, in the plural, their first events, rising, the ones after their last, and names to be shown."""
    return {"kind": kind, "lo": lo, "hi": hi, "names": pack_json(list(names))}


class Track(Struct, frozen=True, eq=False):
    """One log in a still.

    Attributes:
        name: What the log is called; a file name, or a part of a path.
        x: Where each bucket begins and where the last one ends, rising, float64; one more than there are buckets.  In numbers of events, or in
            seconds.
        low_bytes: The lowest allocated level in each bucket, int64.
        high_bytes: The highest one, int64.
        reserved_bytes: The highest reserved level, int64.
        tells_of_blocks: Whether allocated levels are known.
        tells_of_chunks: Whether reserved ones are.
        peak: Where on the axis the peak is, its bytes, and its line, 1-based, ``None`` where that is not known; ``None`` where nothing was allocated.
        failures: Where it runs out of memory, and the lines that say so, 1-based.
        bands: The windows of a series: names (text from the log), where each begins and ends.
        terms: What its lines are called.
        side: ``base`` or ``head`` where two runs are compared.
    """

    name: str
    x: Floats
    low_bytes: Ints
    high_bytes: Ints
    reserved_bytes: Ints
    tells_of_blocks: bool = True
    tells_of_chunks: bool = False
    peak: tuple[float, int, int | None] | None = None
    failures: tuple[tuple[float, int], ...] = ()
    bands: tuple[tuple[str, float, float], ...] = ()
    terms: Terms = LINES
    side: str = ""

    @property
    def top_bytes(self) -> int:
        """The highest level of all that is known."""
        return int(max(self.high_bytes.max(), self.reserved_bytes.max()))

    @property
    def floor_bytes(self) -> int:
        """The lowest one, at most 0: a log that frees what it never allocated goes below."""
        return int(min(self.low_bytes.min(), 0))


def track(
    window: Window,
    name: str,
    *,
    steps: Sequence[Window] = (),
    columns: int,
    time: bool = False,
    from_zero: bool = False,
) -> Track:
    """The levels of a window.

    Args:
        window: The window.
        name: What its log is called.
        steps: A series that cuts it.
        columns: Buckets of an axis of events; one of time has up to twice as many.
        time: The axis is the seconds since the window's first event; else it is the number of the event in the log.
        from_zero: Count events from the window's first one.

    Raises:
        NoEventsError: The window holds no event.
        InputError: The axis is to be time, and nothing in the log has one.
    """
    log = window.log
    if not len(window):
        state = "the state at one moment, and no event" if log.facts.opening else f"no event in {window.name}"
        raise NoEventsError(f"{log.source.name}: {state}, so there is no curve", "memlens report draws a memory map.")
    seconds = seconds_of(window) if time else None
    made = curve(window, buckets=columns, edges=None if seconds is None else window.lo + _edges(seconds, columns))

    def places(events: Sequence[int] | Ints) -> Floats:
        """Where events are on the axis, float64; the one after the last is where that is by time."""
        within = np.asarray(events, np.int64)
        if seconds is None:
            return (within - (window.lo if from_zero else 0)).astype(np.float64)
        return seconds[np.clip(within - window.lo, 0, len(window) - 1)]

    peak, top, event = None, int(made.high_bytes.max()), made.peak_event
    if top > 0:
        at = float(places([window.lo if event is None else event])[0])
        peak = at, top, None if event is None else log.line_numbers([event])[0]
    lines = [oom.line for oom in failures_in(window)]
    shown = [step for step in steps if len(step)]
    starts, ends = (places([getattr(step, edge) for step in shown]).tolist() for edge in ("lo", "hi"))
    return Track(
        name,
        places(made.edges),
        made.low_bytes,
        made.high_bytes,
        made.reserved_bytes,
        log.tells_of_blocks,
        log.tells_of_chunks,
        peak,
        tuple(zip(places(made.failures).tolist(), lines, strict=True)),
        tuple(zip((step.name for step in shown), starts, ends, strict=True)),
        terms_of(log.facts.has_lines),
    )


def seconds_of(window: Window) -> Floats:
    """The seconds from the first event of a window to each of them, float64, not falling.

    Order is that of the file, and stamps step back: see :func:`memlens.analyzers.places.rising_us`.

    Raises:
        InputError: Nothing in the window has a time.
    """
    log = window.log
    rising = None if log.time_us is None else rising_us(log.time_us[window.lo : window.hi])
    if rising is None:
        raise InputError(f"{log.source.name}: its events have no time", "Draw it over events: --x events.")
    seconds: Floats = (rising - rising[0]) / 1e6
    return seconds


def _edges(seconds: Floats, columns: int) -> Ints:
    """The first event of each column of an axis of time, and their number at the end, rising, int64.

    The last event before columns without any has a bucket of its own, for its level is the one that lasts.
    """
    column = (seconds * (columns / max(float(seconds[-1]), 1e-9))).astype(np.int64)
    step = np.diff(column)
    begins = np.flatnonzero(step) + 1
    lasting = np.flatnonzero(step > 1)
    return np.unique(np.concatenate(([0], lasting, begins, [len(seconds)])))
