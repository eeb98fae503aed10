"""The levels of a window as a still shows them: an envelope with a bucket for each column, over events or over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from memlens.analyzers.curve import curve
from memlens.analyzers.places import rising_us
from memlens.errors import InputError, NoEventsError
from memlens.text import LINES, Terms, terms_of
from memlens.trust.report import failures_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


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
