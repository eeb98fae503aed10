"""What is written beside the levels: the peak, the failures, and the windows and phases that the run consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.series.phases import cut_phases
from memlens.analyzing.steps import find_steps
from memlens.drawing.packing import pack, pack_json
from memlens.folding.moments import levels_before
from memlens.text import visible
from memlens.trust.report import failures_in
from memlens.units import format_bytes
from memlens.windows.landmarks import landmarks_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.curve import Curve
    from memlens.events import EventLog
    from memlens.options import Cut
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]

__all__ = ["Bands", "Mark", "band_row", "bands", "marks", "series_of"]

#: Failures that are marked, and phases of all steps together; of more only the steps are shown.
MOST_FAILURES, MOST_PHASES = 100, 50_000


@dataclass(frozen=True)
class Mark:
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


@dataclass(frozen=True, eq=False)
class Bands:
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
        """What the page gets: the windows or steps, and the phases, as far as there are any, each by where they begin."""
        order = np.argsort(self.lo, kind="stable")
        chosen = [(kind, order[self.level[order] == level]) for level, kind in enumerate(("windows", "phases"))]
        names = [visible(name) for name in self.names]
        return [
            band_row(kind, self.lo[at], self.hi[at], [names[k] for k in self.name[at]])
            for kind, at in chosen
            if len(at)
        ]


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
    events = curve.failures[:MOST_FAILURES]
    levels = levels_before(log, np.array(events, np.int64) + 1) if events else []
    for event, oom, (allocated, _) in zip(events, failures_in(window), levels, strict=False):
        asked = "" if oom.asked_bytes is None else f": {format_bytes(oom.asked_bytes)} asked for"
        found.append(Mark("oom", event, oom.line, allocated, f"out of memory{asked}"))
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
    if pieces is not None and len(pieces.lo) <= MOST_PHASES:
        parts.append(_columns(pieces.lo, pieces.hi, 1, pieces.phase + len(names)))
        names += pieces.names
    lo, hi, level, name = np.concatenate(parts, axis=1)
    lo, hi = np.maximum(lo, window.lo), np.minimum(hi, window.hi)
    held = lo < hi
    return Bands(lo[held], hi[held], level[held], name[held], tuple(names))


def _columns(lo: Sequence[int] | Ints, hi: Sequence[int] | Ints, level: int, name: Sequence[int] | Ints) -> Ints:
    """Four rows: first events, events after the last, the level, the names."""
    return np.array([lo, hi, np.full(len(lo), level), name], np.int64)
