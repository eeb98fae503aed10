"""The levels of a window as a page shows them, which can be zoomed into, with marks and bands beside them.

Of each bucket of events there are the lowest and the highest level.  On a page a window of up to :data:`EXACT` events has a bucket for each of them.  A
longer one has half as many buckets, and beside them every single event of the stretches that are looked at most closely: around the peak and the failures.  These
are marked, and the windows and phases that the run consists of are bands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.places import lines_at, rising_us
from memlens.analyzers.series.curve import Curve, curve
from memlens.analyzers.series.phases import Pieces, cut_phases
from memlens.drawing.page import Owners, pack_json
from memlens.events import EventLog, running_sums
from memlens.folding import levels_before
from memlens.spool import leave
from memlens.text import format_bytes, visible
from memlens.trust.failures import failures_in
from memlens.windows.anchor_discovery import find_steps
from memlens.windows.anchors import landmarks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.options import Cut
    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


#: A window of so many events is drawn event by event; of a longer one there are so many buckets.
EXACT, BUCKETS = 1 << 17, 1 << 16
#: Events before and after the peak of a long window that are kept one by one, and before and after each of its first failures.
AROUND_PEAK, AROUND_FAILURE, MOST_FAILURES = 1 << 12, 1 << 9, 16
#: Failures that are marked, and phases of all steps together; of more only the steps are shown.
_MOST_MARKED, _MOST_PHASES = 100, 50_000


def curve_of_page(window: Window, buckets: int | None = None) -> Curve:
    """The curve that a page shows of a window; a long one in so many buckets, else in :data:`BUCKETS`."""
    return curve(window, buckets=EXACT if len(window) <= EXACT else buckets or BUCKETS)


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
    log, events = window.log, made.high_event
    leave()
    columns = {
        name: getattr(made, name) for name in ("edges", "low_bytes", "high_bytes", "reserved_bytes", "high_event")
    }
    columns |= _places(log, events, owners)
    stretches = _stretches(made) if len(window) > EXACT else []
    starts = np.array([lo for lo, _ in stretches], np.int64)
    details = []
    for (lo, hi), before in zip(stretches, levels_before(log, starts).tolist(), strict=True):
        allocated, reserved = running_sums(log.kind[lo:hi], log.size[lo:hi], *before)
        after = {"lo": lo, "bytes": allocated, "reserved_bytes": reserved}
        details.append(after | _places(log, np.arange(lo, hi), owners))
    return {**columns, "time_us": _times(log, made.edges), "details": details}


def _places(log: EventLog, events: Ints, owners: Owners) -> dict[str, Ints]:
    """The lines and the owners of some events; 0 and -1 of an event before the first one."""
    coded = owners.code(np.maximum(events, 0)) if len(log) else events
    return {"line": lines_at(log, events), "owner": np.where(events < 0, -1, coded)}


def _times(log: EventLog, edges: Ints) -> Ints | None:
    """The time at each edge, not falling; ``None`` where there is none, or one alone."""
    if log.time_us is None or len(edges) < 2:
        return None
    leave()
    times = rising_us(log.time_us[np.minimum(edges, edges[-1] - 1)])
    return None if times is None or times[0] == times[-1] else times


def _stretches(made: Curve) -> list[tuple[int, int]]:
    """Return the stretches to keep event by event, in order, those that touch as one: the first event, and the one after the last."""
    lo, hi = int(made.edges[0]), int(made.edges[-1])
    wanted = [(made.peak_event, AROUND_PEAK), *((event, AROUND_FAILURE) for event in made.failures[:MOST_FAILURES])]
    return merged((max(event - around, lo), min(event + around, hi)) for event, around in wanted if event is not None)


def stretches_of(drawn: dict[str, Any]) -> list[tuple[int, int]]:
    """The stretches that the page's levels (:func:`levels`) have event by event, beside a whole window."""
    return [(one["lo"], one["lo"] + len(one["bytes"])) for one in drawn["details"]]


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
        Of each the ``kind``, ``peak`` or ``oom``; the ``event``, the first one that reaches the peak, the one before the window where it begins with
        the peak, or the last one before a failure; its ``line``,
        or that of the failure's message, 1-based, 0 where unknown; the allocated ``bytes`` right after the event; and a ``label``.
    """
    log = window.log
    found: list[dict[str, Any]] = []
    if len(window):
        event = curve.peak_event
        (line,) = [None] if event is None else log.line_numbers([event])
        label = "peak" if event is not None else "peak: what was live before"
        at, highest = window.lo - 1 if event is None else event, int(curve.high_bytes.max())
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
    rows = [("windows", [(step.lo, step.hi, step.name) for step in series])]
    if pieces is not None and len(pieces.lo) <= _MOST_PHASES:
        names = [pieces.names[number] for number in pieces.phase.tolist()]
        rows.append(("phases", [*zip(pieces.lo.tolist(), pieces.hi.tolist(), names, strict=True)]))
    inside = {
        kind: [(max(lo, window.lo), min(hi, window.hi), visible(name)) for lo, hi, name in spans]
        for kind, spans in rows
    }
    return band_rows({kind: [span for span in spans if span[0] < span[1]] for kind, spans in inside.items()})


def band_rows(spans: dict[str, list[tuple[int, int, str]]]) -> list[dict[str, Any]]:
    """Rows of bands as the page gets them: what they are, in the plural, their first events, rising, the ones after their last, and names to be shown."""
    columns = {kind: zip(*sorted(some, key=lambda one: one[0]), strict=True) for kind, some in spans.items() if some}
    return [
        {"kind": kind, "lo": np.array(lo, np.int64), "hi": np.array(hi, np.int64), "names": pack_json(names)}
        for kind, (lo, hi, names) in columns.items()
    ]
