"""How much is allocated while a block lives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from memlens.analyzers.levels import walk
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

    Ints = NDArray[np.int64]

__all__ = ["allocated_before", "freed_inside"]

#: Events from one kept sum to the next.
STEP = 64

_KEPT: WeakKeyDictionary[EventLog, Ints] = WeakKeyDictionary()


def allocated_before(log: EventLog, places: NDArray[np.signedinteger]) -> Ints:
    """Bytes allocated from the start of the log to right before each of some events, int64, in the order given.

    A sum is kept for every :data:`STEP` events of the log; the rest of the way is added up for each place.
    """
    kept = _KEPT.get(log)
    if kept is None:
        kept = _KEPT[log] = _sums(log)
    block = places // STEP
    found: Ints = kept[block]
    for k in range(0, len(places), 1024):
        event = block[k : k + 1024, None].astype(np.int64) * STEP + np.arange(STEP)  # a row a place
        before = event < places[k : k + 1024, None]
        event[~before] = 0
        found[k : k + 1024] += (log.size[event] * ((log.kind[event] == Kind.ALLOC) & before)).sum(axis=1)
    return found


def _sums(log: EventLog) -> Ints:
    """Bytes allocated before each event whose number is a multiple of the step, and one more, int64."""
    sums = np.zeros(len(log) // STEP + 2, np.int64)
    for start, stop in walk(0, len(log) // STEP, STEP):
        sizes = log.size[start * STEP : stop * STEP] * (log.kind[start * STEP : stop * STEP] == Kind.ALLOC)
        sums[start + 1 : stop + 1] = sizes.reshape(-1, STEP).sum(axis=1)
    np.cumsum(sums, out=sums)
    return sums


def freed_inside(log: EventLog, lo: int, hi: int) -> Iterator[tuple[Ints, Ints]]:
    """The blocks born and freed in events ``lo … hi-1``, batch by batch, in the order of their FREEs.

    A walk from batch to batch with the blocks that are open at its start: each with its ALLOC and the bytes allocated up
    to it.  What is not freed inside is not followed, so no more is kept than what is live.

    Yields:
        Their ALLOCs, and the bytes that other ALLOCs take between their ALLOC and their FREE, both int64.
    """
    partner = log.lifetimes.partner
    open_events, open_level = np.zeros(0, np.int64), np.zeros(0, np.int64)  # ALLOCs, rising; bytes allocated up to each
    total = 0  # bytes allocated before the batch, counted from ``lo``
    for start, stop in walk(lo, hi):
        kind = log.kind[start:stop]
        level = np.cumsum(log.size[start:stop] * (kind == Kind.ALLOC))
        level += total
        total = int(level[-1])
        frees = np.flatnonzero(kind == Kind.FREE) + start
        allocs = partner[frees].astype(np.int64)
        frees, allocs = frees[allocs >= lo], allocs[allocs >= lo]
        at_alloc = np.empty(len(frees), np.int64)
        near = allocs >= start
        at_alloc[near] = level[allocs[near] - start]
        at_alloc[~near] = open_level[np.searchsorted(open_events, allocs[~near])]
        yield allocs, level[frees - start] - at_alloc
        still = partner[open_events] >= stop
        born = np.flatnonzero((kind == Kind.ALLOC) & (partner[start:stop] >= stop) & (partner[start:stop] < hi))
        open_events = np.concatenate([open_events[still], born + start])
        open_level = np.concatenate([open_level[still], level[born]])
