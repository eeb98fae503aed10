"""The blocks of windows and what becomes of them, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.analyzers.fates import released_events
from memlens.analyzers.places import all_elapsed_us
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

    Ints = NDArray[np.int64]

__all__ = ["Lives", "lives_of_windows"]


@dataclass(frozen=True, eq=False)
class Lives:
    """Blocks of one window or of several, those of one after those of another, by their ALLOCs.

    Attributes:
        alloc: The ALLOC of each, int64.
        free: Its FREE, wherever in the log, int64, -1 where there is none.
        fate: The number of its fate in :attr:`FATES`, int8: born and freed in the window; born in it and not freed in it; freed in it and
            born before it.
        counts: How many blocks each window has, int64.
    """

    FATES: ClassVar[tuple[str, ...]] = ("temporary", "held", "released")

    alloc: Ints
    free: Ints
    fate: NDArray[np.int8]
    counts: Ints

    def __len__(self) -> int:
        return len(self.alloc)

    def life_events(self, end: int) -> Ints:
        """Events from each ALLOC to its FREE, or to the end of a log of so many events, int64."""
        return np.where(self.free >= 0, self.free, end) - self.alloc

    def life_us(self, time: Ints) -> Ints:
        """Microseconds between the two by the rules of :func:`memlens.analyzers.places.elapsed_us`, int64, -1 where one is unknown.

        Args:
            time: The time of every event of the log, int64, -1 where unknown.
        """
        return all_elapsed_us(time[self.alloc], np.where(self.free >= 0, time[self.free], -1))


def lives_of_windows(log: EventLog, windows: Sequence[tuple[int, int]], *, whole: bool) -> Lives:
    """The blocks that are born or freed in each of some windows.

    What is live throughout a window, born before it and not freed in it, is no block of it.

    Args:
        log: The log.
        windows: The first event of each window, and the event after its last one.
        whole: They are the whole log, which has the opening blocks that are never freed too: they are held.
    """
    found = [_lives(log, lo, hi, whole=whole) for lo, hi in windows]
    alloc, free, fate = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Lives(alloc, free, fate, np.array([len(part[0]) for part in found], np.int64))


def _lives(log: EventLog, lo: int, hi: int, *, whole: bool) -> tuple[Ints, Ints, NDArray[np.int8]]:
    """The ALLOCs of the blocks of one window, their FREEs and their fates."""
    partner = log.lifetimes.partner
    if not log.facts.addresses:
        none = np.zeros(0, np.int64)
        return none, none, np.zeros(0, np.int8)
    first = 0 if whole else lo
    born = np.flatnonzero(log.kind[first:hi] == Kind.ALLOC) + first
    earlier = np.zeros(0, np.int64) if whole else np.sort(partner[released_events(log, lo, hi)].astype(np.int64))
    earlier = earlier[earlier >= 0]
    alloc = np.concatenate((earlier, born))
    free = partner[alloc].astype(np.int64)
    # 0, 1 and 2: temporary, held, released.
    inside = (free >= 0) & (free < hi)
    fate = np.where(inside, np.where(alloc < lo, 2, 0), 1).astype(np.int8)
    return alloc, free, fate
