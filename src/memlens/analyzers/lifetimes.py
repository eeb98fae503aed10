"""How long the blocks of a window live, and which cost most by living long."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from memlens.analyzers.fates import pairing, until
from memlens.analyzers.places import both_ends, elapsed_us, time_of
from memlens.facts import Kind
from memlens.results import OnDemand, Result, Tables, lazy, per_window
from memlens.spool import empty, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


#: How many rows ``longest`` and ``wasteful`` have at most.
ROWS = 100

_ALLOCATED: WeakKeyDictionary[EventLog, Ints] = WeakKeyDictionary()


class Life(Result, frozen=True):
    """The life of one block.

    Attributes:
        size_bytes: Its size, as its ALLOC says.
        alloc_event: Its ALLOC, 0-based in the log.
        alloc_line: The line of that, 1-based.
        free_event: Its FREE, wherever in the log; ``None`` where there is none.
        free_line: The line of that.
        life_events: Events from its ALLOC to its FREE, or to the end of the log.
        meanwhile_bytes: Σ sizes of the other ALLOCs between the two, or to the end of the log.
        life_us: Microseconds between the two; ``None`` where a time is unknown or the block is never freed.
    """

    size_bytes: int
    alloc_event: int
    alloc_line: int | None
    free_event: int | None
    free_line: int | None
    life_events: int
    meanwhile_bytes: int
    life_us: int | None


@lazy("longest", "wasteful")
class LifetimeSummary(Result, frozen=True):
    """Blocks of a window by how they live.

    Attributes:
        temporary_allocs: Blocks born and freed in the window.
        temporary_bytes: Their bytes, as their ALLOCs say.
        held_allocs: Blocks born in the window and not freed in it.
        held_bytes: Their bytes.
        released_frees: Blocks freed in the window and born before it.
        released_bytes: Their bytes, as their ALLOCs say.
        longest: Blocks born in the window that live longest, in events; at most :data:`ROWS`.
        wasteful: Blocks born in the window and freed somewhere in the log, the largest size times bytes allocated meanwhile first;
            at most :data:`ROWS`.
    """

    tables: ClassVar[Tables] = {"longest": Life, "wasteful": Life}

    temporary_allocs: int
    temporary_bytes: int
    held_allocs: int
    held_bytes: int
    released_frees: int
    released_bytes: int
    longest: tuple[Life, ...] = ()
    wasteful: tuple[Life, ...] = ()


def lifetimes(windows: Sequence[Window]) -> OnDemand[LifetimeSummary]:
    """Analyze windows of one log in one pass; the tables are worked out when they are asked for."""
    return per_window(LifetimeSummary, windows, pairing(windows), longest=longest, wasteful=wasteful)


def longest(window: Window) -> tuple[Life, ...]:
    """The longest-lived blocks born in a window; among equals the larger ones, then the earlier ones first."""
    log, partner = window.log, until(window.log.lifetimes.partner)

    def life(allocs: Ints) -> Ints:
        ends: Ints = np.minimum(partner[allocs], len(log)).astype(np.int64)
        return ends - allocs

    return _best(window, life)


def wasteful(window: Window) -> tuple[Life, ...]:
    """The most wasteful blocks born in a window; among equals the larger ones, then the earlier ones first."""
    size, partner, before = window.log.size, window.log.lifetimes.partner, allocated_before(window.log)

    def waste(allocs: Ints) -> Floats:
        freed = partner[allocs]
        meanwhile = before[freed] - before[allocs] - size[allocs]
        return np.where(freed >= 0, size[allocs].astype(np.float64) * meanwhile, -1.0)

    return _best(window, waste)


def allocated_before(log: EventLog) -> Ints:
    """Bytes allocated from the start of the log to right before each event, and in all of it, int64; worked out once for the log."""
    sums = _ALLOCATED.get(log)
    if sums is None:
        sums = _ALLOCATED[log] = empty(len(log) + 1, np.int64)
        sums[0] = 0
        for start, stop in walk(0, len(log)):
            after = sums[start + 1 : stop + 1]
            np.cumsum(log.size[start:stop] * (log.kind[start:stop] == Kind.ALLOC), out=after)
            after += sums[start]
    return sums


def _best(window: Window, score: Callable[[Ints], Ints | Floats]) -> tuple[Life, ...]:
    """The blocks born in a window that score highest, at most :data:`ROWS`; what scores below 0 takes no part."""
    log, best = window.log, np.zeros(0, np.int64)
    scores = np.zeros(0)
    for start, stop in walk(window.lo, window.hi):
        allocs = np.flatnonzero(log.kind[start:stop] == Kind.ALLOC) + start
        fresh = score(allocs)
        # Of most batches nothing is high enough.
        least = scores[-1] if len(scores) == ROWS else 0
        some = fresh >= least
        if np.count_nonzero(some) > ROWS:
            some &= fresh >= np.partition(fresh, -ROWS)[-ROWS]
        best, scores = np.concatenate([best, allocs[some]]), np.concatenate([scores, fresh[some]])
        order = np.lexsort((best, -log.size[best], -scores))[:ROWS]
        best, scores = best[order], scores[order]
    return lives_of(log, best)


def lives_of(log: EventLog, allocs: Ints) -> tuple[Life, ...]:
    """The lives of some blocks, in the order of their ALLOCs as given."""
    partner = log.lifetimes.partner[allocs].astype(np.int64)
    ends, before = np.where(partner >= 0, partner, len(log)), allocated_before(log)
    frees = [free if free >= 0 else None for free in partner.tolist()]
    pairs = list(zip(allocs.tolist(), frees, strict=True))
    lives = (ends - allocs).tolist()
    meanwhile = (before[ends] - before[allocs] - log.size[allocs]).tolist()
    return tuple(
        Life(size, *at, life, others, elapsed_us(*(time_of(log, event) for event in pair)))
        for pair, at, size, life, others in zip(
            pairs, both_ends(log, pairs), log.size[allocs].tolist(), lives, meanwhile, strict=True
        )
    )
