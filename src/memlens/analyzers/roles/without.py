"""What a peak would be without some of the blocks, by replaying a log without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import distinct

if TYPE_CHECKING:
    from memlens.columns import Ints
    from memlens.events import EventLog


def peak_without(log: EventLog, begin: Ints, end: Ints, size: Ints, lo: int = 0, hi: int | None = None) -> int:
    """The peak, in bytes, that events ``lo … hi-1`` of a log would have if some of its blocks were not there for some of the time.

    This is no subtraction at one moment: without a block another moment may be the highest.

    Args:
        log: The log.
        begin: The event from which on bytes are not there: the ALLOC of a block that is never made, or the event that gives it back earlier;
            int64.
        end: The event from which on the log has no such bytes either: the FREE of the block, ``len(log)`` where there is none.
        size: The bytes, int64; below 0 of what is there and was not.
        lo: The first event of the part whose peak is asked for.
        hi: What follows its last one, by itself the end of the log.
    """
    places = distinct(np.concatenate((begin, end)))
    taken = np.zeros(len(places) + 1, np.int64)
    np.add.at(taken, places.searchsorted(begin) + 1, size)
    np.subtract.at(taken, places.searchsorted(end) + 1, size)
    np.cumsum(taken, out=taken)
    highest = 0
    for batch in log.batches(lo, hi):
        first, last = places.searchsorted((batch.lo, batch.hi))
        edges = np.concatenate(([batch.lo], places[first:last], [batch.hi]))
        level = batch.allocated - np.repeat(taken[first : last + 1], np.diff(edges))
        highest = max(highest, int(level.max()))
    return highest
