"""How long the blocks of a window live, and which cost most by living long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.analyzers.fates import held_events, pairing, until
from memlens.analyzers.levels import walk
from memlens.analyzers.meanwhile import allocated_before, freed_inside
from memlens.analyzers.places import Lines, elapsed_us, time_of
from memlens.analyzers.result import Later, Lazy, Result, Row
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]

__all__ = ["ROWS", "Life", "LifetimeSummary", "lifetimes"]

#: How many rows ``longest`` and ``wasteful`` have at most.
ROWS = 100


@dataclass(frozen=True)
class Life(Row):
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


@dataclass(frozen=True)
class LifetimeSummary(Result):
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

    tables: ClassVar[dict[str, type[Row]]] = {"longest": Life, "wasteful": Life}

    temporary_allocs: int
    temporary_bytes: int
    held_allocs: int
    held_bytes: int
    released_frees: int
    released_bytes: int
    longest: Lazy[tuple[Life, ...]] = field(default=Lazy(()), repr=False)
    wasteful: Lazy[tuple[Life, ...]] = field(default=Lazy(()), repr=False)


def lifetimes(windows: Sequence[Window]) -> list[LifetimeSummary]:
    """Analyze windows of one log in one pass; the tables are worked out when they are asked for."""
    if not windows:
        return []
    pairs = pairing(windows)
    columns = (
        pairs.temporary_allocs,
        pairs.temporary_bytes,
        pairs.held_allocs,
        pairs.held_bytes,
        pairs.released_frees,
        pairs.released_bytes,
    )
    make: Callable[..., LifetimeSummary] = LifetimeSummary  # the columns are its first fields, in order
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        make(*row, longest=Later(longest, window), wasteful=Later(wasteful, window))
        for window, row in zip(windows, rows, strict=True)
    ]


def longest(window: Window) -> tuple[Life, ...]:
    """The longest-lived blocks born in a window; among equals the larger ones, then the earlier ones first."""
    log, partner, best = window.log, until(window.log.lifetimes.partner), _Best()
    for start, stop in walk(window.lo, window.hi):
        life = np.minimum(partner[start:stop], len(log)) - np.arange(start, stop)
        life[log.kind[start:stop] != Kind.ALLOC] = -1  # shorter than any
        allocs = np.flatnonzero(life >= max(best.least, 0))
        best.offer(allocs + start, life[allocs].astype(np.float64), log.size[start:stop][allocs])
    return _lives(log, best.events)


def wasteful(window: Window) -> tuple[Life, ...]:
    """The most wasteful blocks born in a window; among equals the larger ones, then the earlier ones first."""
    log, best = window.log, _Best()
    late = held_events(log, window.lo, window.hi, window.hi)
    late = late[log.lifetimes.partner[late] >= 0]
    freed_later = late, allocated_before(log, log.lifetimes.partner[late]) - allocated_before(log, late + 1)
    for allocs, meanwhile in chain(freed_inside(log, window.lo, window.hi), [freed_later]):
        best.offer(allocs, log.size[allocs].astype(np.float64) * meanwhile, log.size[allocs])
    return _lives(log, best.events)


class _Best:
    """The events of the highest score seen so far, among equals of the largest size, then the earliest ones."""

    def __init__(self) -> None:
        self.events = np.zeros(0, np.int64)
        self._scores = np.zeros(0, np.float64)
        self._sizes = np.zeros(0, np.int64)

    @property
    def least(self) -> float:
        """What a score must reach to count."""
        return float(self._scores[-1]) if len(self._scores) == ROWS else -np.inf

    def offer(self, events: Ints, scores: NDArray[np.float64], sizes: Ints) -> None:
        least = self.least
        if len(scores) > 4 * ROWS and (scores >= least).sum() > 4 * ROWS:
            least = np.partition(scores, -ROWS)[-ROWS]
        some = np.flatnonzero(scores >= least)  # of most batches nothing
        events, scores, sizes = events[some], scores[some], sizes[some]
        events = np.concatenate([self.events, events])
        scores = np.concatenate([self._scores, scores])
        sizes = np.concatenate([self._sizes, sizes])
        order = np.lexsort((events, -sizes, -scores))[:ROWS]
        self.events, self._scores, self._sizes = events[order], scores[order], sizes[order]


def _lives(log: EventLog, allocs: Ints) -> tuple[Life, ...]:
    """The lives of some blocks, in the order of their ALLOCs as given."""
    partner = log.lifetimes.partner[allocs].astype(np.int64)
    ends = np.where(partner >= 0, partner, len(log))
    meanwhile = allocated_before(log, ends) - allocated_before(log, allocs + 1)
    lines = Lines(log, [*allocs.tolist(), *(partner[partner >= 0].tolist())])
    columns = (allocs, partner, ends - allocs, meanwhile)
    return tuple(
        Life(
            int(log.size[alloc]),
            alloc,
            lines.of(alloc),
            free if free >= 0 else None,
            lines.of(free) if free >= 0 else None,
            life,
            others,
            elapsed_us(time_of(log, alloc), time_of(log, free)) if free >= 0 else None,
        )
        for alloc, free, life, others in zip(*(column.tolist() for column in columns), strict=True)
    )
