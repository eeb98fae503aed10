"""What a still shows: a run, its areas stacked up to the level as a page stacks them, or two runs over the axis that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.analyzers.places import rising_us
from memlens.analyzers.series.curve import curve
from memlens.drawing.aligned import aligned, aligned_curves
from memlens.drawing.differences import spans_of, window_rows
from memlens.drawing.levels import highest_events
from memlens.drawing.stacks import group_bytes
from memlens.errors import InputError, NoEventsError
from memlens.text import format_bytes, format_exact, terms_of
from memlens.trust.failures import failures_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.series.curve import Curve
    from memlens.columns import Ints
    from memlens.diffing.result import Diff
    from memlens.drawing.lifetimes import WindowBlocks
    from memlens.drawing.stacks import Way
    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


class Area(NamedTuple):
    """An area, or where it has no ``floor`` what lies below a level; later ones are painted over it.

    ``ink`` is its colour in the style sheet, ``top`` and ``floor`` are bytes, one entry a bucket, int64.
    """

    ink: str
    name: str
    top: Ints
    floor: Ints | None = None


class Track(Struct, frozen=True, eq=False):
    """One panel of a still.

    Attributes:
        name: What the log is called; a file name, or a part of a path.
        x: Where each bucket begins and where the last one ends, rising, float64; one more than there are buckets.  In numbers of events, of slots, or in
            seconds.
        areas: What is allocated, as it is painted.
        lines: Levels that are drawn as lines, above the areas.
        words: The title, as exactly as it is known, and in short.
        floor_bytes: The lowest level, at most 0: a log that frees what it never allocated goes below.
        peak: Where on the axis the peak is, and its bytes; ``None`` where nothing was allocated.
        failures: Where it runs out of memory.
        bands: The windows of a series: names (text from the log), where each begins and ends.
    """

    name: str
    x: Floats
    areas: Sequence[Area]
    lines: Sequence[Area]
    words: tuple[str, str]
    floor_bytes: int = 0
    peak: tuple[float, int] | None = None
    failures: Sequence[float] = ()
    bands: Sequence[tuple[str, float, float]] = ()

    @property
    def top_bytes(self) -> int:
        """The highest level of all that is known."""
        return max((int(one.top.max(initial=0)) for one in (*self.lines, *self.areas)), default=0)


def track(
    window: Window,
    name: str,
    blocks: WindowBlocks | None = None,
    way: Way | None = None,
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
        blocks: Its blocks.
        way: How these are grouped.
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

    areas = [Area("allocated", "allocated", made.high_bytes)] if log.tells_of_blocks else []
    if areas and blocks is not None and way is not None:
        events, at = np.unique(highest_events(log, made), return_inverse=True)
        # The last group reaches to the level, which is lower than what is live where more is freed than was allocated.
        tops = np.minimum(group_bytes(blocks, [way], events)[0].cumsum(axis=0)[:, at], made.high_bytes)
        tops[-1] = made.high_bytes
        areas = [Area(group["ink"], group["name"], top) for group, top in zip(way.groups, tops, strict=True)][::-1]
    lines = [Area("reserved", "reserved", made.reserved_bytes)] if log.tells_of_chunks else []
    peak, top, event = None, int(made.high_bytes.max()), made.peak_event
    terms = terms_of(log.facts.has_lines)
    exact = short = f"{format_bytes(int(made.reserved_bytes.max()))} reserved"
    if log.tells_of_blocks:
        exact = short = f"peak {format_bytes(top)}" if top > 0 else "nothing allocated"
        if top > 0:
            peak = float(places([window.lo if event is None else event])[0]), top
            exact = f"peak {format_exact(top)}"
            exact += "" if event is None or (line := log.line_numbers([event])[0]) is None else f", {terms.at(line)}"
    if made.failures:
        short, exact = f"{short}, out of memory", f"{exact}; out of memory at {terms.at(failures_in(window)[0].line)}"
    shown = [step for step in steps if len(step)]
    starts, ends = (places([getattr(step, edge) for step in shown]).tolist() for edge in ("lo", "hi"))
    return Track(
        name,
        places(made.edges),
        areas,
        lines,
        (exact, short),
        int(min(made.low_bytes.min(), 0)),
        peak,
        places(made.failures).tolist(),
        list(zip((step.name for step in shown), starts, ends, strict=True)),
    )


def curve_track(made: Curve, name: str) -> Track:
    """The levels of a log of which no more than these were kept; see :func:`track`."""
    ends = [*(begin for begin, _ in made.steps[1:]), made.edges[-1]]
    lo, top = int(made.edges[0]), int(made.high_bytes.max())
    return Track(
        name,
        (made.edges - lo).astype(np.float64),
        [Area("allocated", "allocated", made.high_bytes)],
        [Area("reserved", "reserved", made.reserved_bytes)] if made.reserved_bytes.any() else [],
        (f"peak {format_exact(top)}", f"peak {format_bytes(top)}"),
        int(min(made.low_bytes.min(), 0)),
        None if made.peak_event is None else (float(made.peak_event - lo), top),
        [float(event - lo) for event in made.failures],
        [(step, float(at - lo), float(end - lo)) for (at, step), end in zip(made.steps, ends, strict=False)],
    )


def compared_track(diff: Diff, columns: int) -> Track:
    """Two runs over the axis that they share: the highest levels of each as lines, and between them what one holds more than the other where they are farthest apart."""
    (pairs,) = diff.in_order
    axis = aligned(pairs)
    made = aligned_curves(axis, columns)
    base, head = made["base_bytes"], made["head_bytes"]
    most = np.maximum(base, head)
    more = [Area("head-light", "more in head", most, base), Area("base-light", "more in base", most, head)]
    lines = [Area(side, side, made[f"{side}_high"]) for side in ("base", "head")]
    peaks = [(int(line.top.max(initial=0)), line.name) for line in lines]
    words = tuple("peak " + ", ".join(f"{form(top)} in {side}" for top, side in peaks) for form in (format_exact, format_bytes))  # fmt: skip
    bands = [(name, float(lo), float(hi)) for lo, hi, name in spans_of([*window_rows(axis, diff)])]
    floor = int(min(made["base_low"].min(initial=0), made["head_low"].min(initial=0)))
    return Track("", made["edges"].astype(np.float64), more, lines, (words[0], words[1]), floor, bands=bands)


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
