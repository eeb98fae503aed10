"""How long the blocks of a window live, and which cost most by living long."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.analyzers.fates import pairing, until
from memlens.analyzers.places import between_us, both_ends
from memlens.events import EventLog, once
from memlens.facts import Kind
from memlens.folding import per_window
from memlens.results import OnDemand, Result, Tables, lazy
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


#: How many rows ``longest`` and ``wasteful`` have at most.
ROWS = 100

#: Events between places at which it is kept how much was allocated before, and events that are looked up together (batches begin at such places).
_STEP, _TOGETHER = 64, 1 << 11


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

    def lives(start: int, stop: int, least: float) -> tuple[Ints, Ints]:
        life = np.minimum(partner[start:stop], len(log)) - np.arange(start, stop, dtype=partner.dtype)
        allocs = np.flatnonzero((life >= least) & (log.kind[start:stop] == Kind.ALLOC))
        return allocs + start, life[allocs].astype(np.int64)

    return _best(window, lives)


def wasteful(window: Window) -> tuple[Life, ...]:
    """The most wasteful blocks born in a window; among equals the larger ones, then the earlier ones first."""
    log, partner, sums = window.log, window.log.lifetimes.partner, _allocated(window.log)

    def waste(start: int, stop: int, least: float) -> tuple[Ints, Floats]:
        allocs = np.flatnonzero((log.kind[start:stop] == Kind.ALLOC) & (partner[start:stop] >= 0)) + start
        freed, size = partner[allocs].astype(np.int64), log.size[allocs]
        # What is allocated between two events lies between the sums at the edges around them: few can be high enough.
        first, last = allocs // _STEP, freed // _STEP
        most = (sums[last + 1] - sums[first] - size).astype(np.float64) * size
        some = most >= least
        if np.count_nonzero(some) > ROWS:
            surely = (sums[last] - sums[first + 1]).astype(np.float64) * size
            some = most >= max(least, np.partition(surely, -ROWS)[-ROWS])
        allocs, freed, size = allocs[some], freed[some], size[some]
        meanwhile = allocated_before(log, freed) - allocated_before(log, allocs) - size
        exact = meanwhile.astype(np.float64) * size
        return allocs[exact >= least], exact[exact >= least]

    return _best(window, waste)


@once
def _allocated(log: EventLog) -> Ints:
    """Bytes allocated before each :data:`_STEP`-th event, from event 0 to the first one behind the log, int64."""
    steps = [np.zeros(1, np.int64)]
    for start, stop in walk(0, len(log), _TOGETHER * _STEP):
        size = log.size[start:stop] * (log.kind[start:stop] == Kind.ALLOC)
        steps.append(np.add.reduceat(size, np.arange(0, len(size), _STEP)))
    return np.cumsum(np.concatenate(steps))


def allocated_before(log: EventLog, events: Ints) -> Ints:
    """Bytes allocated from the start of the log to right before each of some events, or in all of it, int64."""
    found = _allocated(log)[events // _STEP]
    for start, stop in walk(0, len(events), _TOGETHER):
        before = events[start:stop, None]
        at = before // _STEP * _STEP + np.arange(_STEP)
        size, kind = (column[np.minimum(at, len(log) - 1)] for column in (log.size, log.kind))
        found[start:stop] += np.where((at < before) & (kind == Kind.ALLOC), size, 0).sum(1)
    return found


def _best(window: Window, score: Callable[[int, int, float], tuple[Ints, Ints | Floats]]) -> tuple[Life, ...]:
    """The blocks born in a window that score highest, at most :data:`ROWS`; ``score`` gives those born in a stretch that score at least so much, and how much."""
    log, best = window.log, np.zeros(0, np.int64)
    scores = np.zeros(0)
    for start, stop in walk(window.lo, window.hi):
        # Of most batches nothing is high enough.
        least = float(scores[-1]) if len(scores) == ROWS else 0.0
        allocs, fresh = score(start, stop, least)
        if len(fresh) > ROWS:
            some = fresh >= np.partition(fresh, -ROWS)[-ROWS]
            allocs, fresh = allocs[some], fresh[some]
        best, scores = np.concatenate([best, allocs]), np.concatenate([scores, fresh])
        order = np.lexsort((best, -log.size[best], -scores))[:ROWS]
        best, scores = best[order], scores[order]
    return lives_of(log, best)


def lives_of(log: EventLog, allocs: Ints) -> tuple[Life, ...]:
    """The lives of some blocks, in the order of their ALLOCs as given; those of before the input all begin right before its first event."""
    partner = log.lifetimes.partner[allocs].astype(np.int64)
    ends = np.where(partner >= 0, partner, len(log))
    frees = [free if free >= 0 else None for free in partner.tolist()]
    pairs = list(zip(allocs.tolist(), frees, strict=True))
    begins = np.maximum(allocs + 1, log.facts.opening)
    lives, lasted = (ends - begins + 1).tolist(), between_us(log, allocs, partner)
    meanwhile = (allocated_before(log, ends) - allocated_before(log, begins)).tolist()
    return tuple(
        Life(size, *at, life, others, passed)
        for at, size, life, others, passed in zip(
            both_ends(log, pairs), log.size[allocs].tolist(), lives, meanwhile, lasted, strict=True
        )
    )
