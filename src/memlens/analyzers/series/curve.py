"""The levels of a window over its events, as an envelope: what a picture is drawn from.

A log has more events than a picture has columns.  The events are shared out evenly to *buckets*, and of each bucket the lowest and the
highest level is kept, so that no peak is lost however few buckets there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from memlens.columns import Ints, first_highest
from memlens.folding import profile
from memlens.trust.failures import failures_in, refused_before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.events import EventLog
    from memlens.windows.windows import Window


#: Buckets where nobody says how many: several for each column of a wide terminal.
BUCKETS = 1000


class Curve(Struct, frozen=True, eq=False):
    """The levels of a window.

    A bucket has the levels right after each of its events; the first one also has the level that the window starts from.  So the largest of
    ``high_bytes`` is the window's peak, and the largest of ``reserved_bytes`` its reserved peak.

    Attributes:
        edges: The first event of each bucket and the event after the last one, rising, int64; one more than there are buckets, which
            are as many as the window has events where it has few.
        low_bytes: The lowest allocated level in each bucket, int64; below 0 where a log frees what it never allocated.
        high_bytes: The highest one, int64.
        reserved_bytes: The highest reserved level, int64; all 0 where nothing is known of chunks.
        peak_event: The first event that reaches the peak; ``None`` where the window never rises above what it starts from.
        failures: The last event before each out-of-memory failure in the window, in file order.
        steps: The first event of each window of a series, and the window's name (text from the log), in file order.
        start_line: The window's first line, 1-based.
        end_line: Its last one.
        high_event: The first event of each bucket that reaches its highest allocated level, int64; the event before the window where that is the level
            that the window starts from.  None where only levels are known.
    """

    edges: Ints
    low_bytes: Ints
    high_bytes: Ints
    reserved_bytes: Ints
    peak_event: int | None = None
    failures: tuple[int, ...] = ()
    steps: tuple[tuple[int, str], ...] = ()
    start_line: int = 1
    end_line: int = 1
    high_event: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.high_bytes)

    def __repr__(self) -> str:
        return f"<Curve: {len(self):,} buckets of {int(self.edges[-1] - self.edges[0]):,} events>"


def curve(window: Window, steps: Sequence[Window] = (), buckets: int = BUCKETS, edges: Ints | None = None) -> Curve:
    """The levels of a window.

    Args:
        window: The window.
        steps: A series that cuts it, to be marked in the picture.
        buckets: How many buckets there are at most.
        edges: The first event of each bucket and the event after the last one, rising, where they are not to be of one length.
    """
    log, figures = window.log, profile([window])
    if edges is None:
        count = min(buckets, len(window))
        edges = window.lo + np.arange(count + 1, dtype=np.int64) * len(window) // max(count, 1)
    low, high, reserved, event = _envelope(log, edges)
    allocated, chunks = figures.levels[:, 0].tolist()
    event[:1] = np.where(high[:1] < allocated, window.lo - 1, event[:1])
    low[:1], high[:1] = np.minimum(low[:1], allocated), np.maximum(high[:1], allocated)
    reserved[:1] = np.maximum(reserved[:1], chunks)
    before = refused_before(log, failures_in(window)) - 1
    return Curve(
        edges,
        low,
        high,
        reserved,
        int(figures.summit[0]) if figures["rise_bytes"][0] > 0 else None,
        tuple(np.maximum(before, window.lo).tolist()),
        tuple((step.lo, step.name) for step in steps),
        int(window.start_line),
        int(window.end_line),
        event,
    )


def _envelope(log: EventLog, edges: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The lowest and highest allocated and the highest reserved level right after the events of each stretch between two edges; and which event is the second first."""
    low = np.full(len(edges) - 1, np.iinfo(np.int64).max)
    high, reserved, event = np.full((3, len(edges) - 1), np.iinfo(np.int64).min)
    for batch in log.batches(int(edges[0]), int(edges[-1])):
        first, last = int(np.searchsorted(edges, batch.lo, "right")) - 1, int(np.searchsorted(edges, batch.hi))
        rows, begins = slice(first, last), np.maximum(edges[first:last], batch.lo) - batch.lo
        np.minimum(low[rows], np.minimum.reduceat(batch.allocated, begins), out=low[rows])
        at = first_highest(batch.allocated, begins)
        event[rows] = np.where(batch.allocated[at] > high[rows], at + batch.lo, event[rows])
        np.maximum(high[rows], batch.allocated[at], out=high[rows])
        np.maximum(reserved[rows], np.maximum.reduceat(batch.reserved, begins), out=reserved[rows])
    return low, high, reserved, event
