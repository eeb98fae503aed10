"""Held, temporary and released blocks of many windows, from the pairs of ALLOC and FREE.

All follow from one question asked of each ALLOC: does its FREE come before the window's end?  Windows that share no event
are asked about in one pass; of windows that overlap each takes a pass over its own events.
FREEs that nothing was allocated for, or whose size differs, are rare in a sound log: they are gathered once for the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from memlens import folding
from memlens.columns import Ints, distinct
from memlens.events import EventLog, once
from memlens.facts import Kind
from memlens.folding import bounds, profile
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from memlens.windows.windows import Window

    Columns = dict[str, Ints]

_LAST: WeakKeyDictionary[EventLog, tuple[bytes, Columns]] = WeakKeyDictionary()


def until(partner: NDArray[np.signedinteger]) -> NDArray[np.unsignedinteger]:
    """Partners read as unsigned, without a copy: -1, no partner, becomes the farthest index there is."""
    return partner.view(np.uint32 if partner.dtype.itemsize == 4 else np.uint64)


def pairing(windows: Sequence[Window]) -> Columns:
    """Return what became of the blocks of each window; the last answer is kept for each log.

    Returns:
        Columns, int64, one entry a window.  Held, temporary and released blocks are sized by their ALLOC, and so are those born before
        the window that it does not free either: the opening blocks, and the earlier ones, which the log allocates before it.  Unknown
        frees are sized by the FREE; ``mismatch_bytes`` is Σ (ALLOC - FREE) over the pairs whose FREE is in the window and has another
        size.
    """
    log, lo, hi = bounds(windows)
    key = lo.tobytes() + hi.tobytes()
    known = _LAST.get(log)
    if known is not None and known[0] == key:
        return known[1]
    figures, anomalies = profile(windows), log.free_anomalies
    held, order = np.zeros((2, len(lo)), np.int64), np.lexsort((hi, lo))
    order = order[hi[order] > lo[order]]
    apart = bool((hi[order[:-1]] <= lo[order[1:]]).all())
    for some in [order] if apart and len(order) else order[:, None]:  # those that share events one by one
        held[:, some] = _held(log, lo[some], hi[some])
    held_allocs, held_bytes = held
    unknown_frees, unknown_bytes = _inside(anomalies.unknown, log.size[anomalies.unknown], lo, hi)
    mismatches, mismatch_bytes = _inside(anomalies.mismatched, anomalies.excess, lo, hi)
    doubles, _ = _inside(log.lifetimes.double_allocs, np.zeros(0, np.int64), lo, hi)
    temporary_allocs = figures["allocs"] - held_allocs
    temporary_bytes = figures["alloc_bytes"] - held_bytes
    # Each FREE of the window ends a temporary block, or a block born before it, or nothing known.
    released_bytes = figures["free_bytes"] - unknown_bytes + mismatch_bytes - temporary_bytes
    opening_blocks, opening_bytes = _opening_left(log, hi)
    # The level before the window, less what odd FREEs took off it, is the bytes of the blocks that were live there.
    start = np.zeros(len(lo), np.int64)
    unknown_before = _inside(anomalies.unknown, log.size[anomalies.unknown], start, lo)[1]
    mismatch_before = _inside(anomalies.mismatched, anomalies.excess, start, lo)[1]
    carried_bytes = figures["carried_in_bytes"] + unknown_before - mismatch_before
    found = {
        "held_allocs": held_allocs,
        "held_bytes": held_bytes,
        "opening_blocks": opening_blocks,
        "opening_bytes": opening_bytes,
        "earlier_bytes": carried_bytes - released_bytes - opening_bytes,
        "temporary_allocs": temporary_allocs,
        "temporary_bytes": temporary_bytes,
        "released_frees": figures["frees"] - unknown_frees - temporary_allocs,
        "released_bytes": released_bytes,
        "unknown_frees": unknown_frees,
        "unknown_free_bytes": unknown_bytes,
        "double_allocs": doubles,
        "size_mismatches": mismatches,
        "mismatch_bytes": mismatch_bytes,
    }
    _LAST[log] = key, found
    return found


def _held(log: EventLog, lo: Ints, hi: Ints) -> Ints:
    """How many blocks are born in each of some windows, which rise and share no event, and not freed in it, and their bytes; a row each."""
    partner, sums = until(log.lifetimes.partner), np.zeros((2, len(lo)), np.int64)
    for start, stop in walk(int(lo[0]), int(hi[-1])):
        a, b = int(np.searchsorted(hi, start, side="right")), int(np.searchsorted(lo, stop))
        if b > a:
            # One limit an event: the end of its window; what lies between windows gets any, and is counted nowhere.
            begins, ends = np.maximum(lo[a:b], start) - start, np.minimum(hi[a:b], stop) - start
            until_next = np.diff(np.concatenate([[0], begins[1:], [stop - start]]))
            held = partner[start:stop] >= np.repeat(hi[a:b].astype(partner.dtype), until_next)
            held &= log.kind[start:stop] == Kind.ALLOC
            places = np.flatnonzero(held)
            sums[:, a:b] += _inside(places, log.size[start:stop][places], begins, ends)
    return sums


def opening_allocs(log: EventLog) -> Ints:
    """The ALLOCs of the opening blocks, rising, int64."""
    return np.flatnonzero(log.kind[: log.facts.opening] == Kind.ALLOC)


def _opening_left(log: EventLog, hi: Ints) -> tuple[Ints, Ints]:
    """How many opening blocks are not freed before each of some events, and their bytes."""
    blocks = opening_allocs(log)
    freed = until(log.lifetimes.partner[blocks])
    order = np.argsort(freed, kind="stable")
    gone = np.searchsorted(freed[order], hi.astype(freed.dtype))
    left = np.concatenate([[0], np.cumsum(log.size[blocks][order])])
    return len(blocks) - gone, left[-1] - left[gone]


def _inside(places: Ints, amounts: Ints, lo: Ints, hi: Ints) -> tuple[Ints, Ints]:
    """How many of the rising ``places`` lie in each window, and the sum of their amounts."""
    first, last = np.searchsorted(places, lo), np.searchsorted(places, hi)
    if not len(amounts):
        return last - first, np.zeros(len(lo), np.int64)
    before = np.concatenate([[0], np.cumsum(amounts)])
    return last - first, before[last] - before[first]


def held_events(log: EventLog, lo: int, hi: int, end: int) -> Ints:
    """The ALLOCs among events ``lo … hi-1`` that no FREE before event ``end`` ends, rising, int64.

    None where blocks have no addresses: which ones are live is not known there, only how many bytes they hold.
    """
    if not log.facts.addresses:
        return np.zeros(0, np.int64)
    partner = until(log.lifetimes.partner)
    return joined(
        np.flatnonzero((partner[start:stop] >= end) & (log.kind[start:stop] == Kind.ALLOC)) + start
        for start, stop in walk(lo, hi)
    )


def live_events(log: EventLog, event: int) -> Ints:
    """The ALLOCs before an event that no FREE before it ends, rising, int64.

    Blocks that outlive a batch of the log are gathered once for the log; only the last batch is walked through.
    """
    outlive, batch = _outliving(log), event - event % folding.BATCH
    earlier = outlive[: np.searchsorted(outlive, batch)]
    earlier = earlier[until(log.lifetimes.partner)[earlier] >= event]
    return joined([earlier, held_events(log, batch, event, event)])


@once
def _outliving(log: EventLog) -> Ints:
    """The ALLOCs of blocks that outlive the batch that makes them, rising, int64."""
    return joined(held_events(log, start, stop, stop) for start, stop in walk(0, len(log), folding.BATCH))


def released_events(log: EventLog, lo: int, hi: int) -> Ints:
    """The FREEs among events ``lo … hi-1`` of blocks born before event ``lo``, rising, int64."""
    partner = until(log.lifetimes.partner)
    return joined(
        np.flatnonzero((partner[start:stop] < lo) & (log.kind[start:stop] == Kind.FREE)) + start
        for start, stop in walk(lo, hi)
    )


def joined(parts: Iterable[Ints]) -> Ints:
    """Arrays of positions put one after the other; none give an empty one."""
    return np.concatenate([np.zeros(0, np.int64), *parts])


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
