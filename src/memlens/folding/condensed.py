"""A log of which only those events are kept that a result may need, with the figures of all of them.

The blocks that come and go between two cuts leave nothing behind but sums: they move the level, they are counted, and no result names them.  So
an ALLOC and the FREE that ends it can be dropped once they are counted, where

* no cut stands between them (the windows that results are wanted of begin and end at cuts, and so do out-of-memory failures),
* the block is not live at the peak of the stretch between the two cuts around it,
* it is not among the :data:`~memlens.folding.condenser.LIVES` that live longest there, nor among those that cost most by it,
* neither is the first, the last or the highest event between two *folds*: places, the cuts among them, at which figures are wanted;
* nothing is odd about them: equal sizes, and an address that nothing else held.

What is left are the blocks that outlive a cut, the odd ones, a handful for each fold, and all chunks.  Pairs are dropped as a whole, so what is left pairs as
it did before; and since the events at folds stay, windows are ranges of the events that are left, as they are ranges of all events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.folding.levels import Tally

    Ints = NDArray[np.int64]

__all__ = ["NEAR", "Condensed", "NearCuts", "Sizes", "Timeline"]

#: Events on each side of a cut that are known without being kept.
NEAR = 2


@dataclass(frozen=True, eq=False)
class Timeline:
    """The levels of a log in stretches of equally many events, the last of which may have fewer; one entry a stretch.

    Attributes:
        stretch: Events of a stretch.
        low_bytes: The lowest allocated level right after one of them, int64.
        high_bytes: The highest one, int64.
        reserved_bytes: The highest reserved level, int64.
    """

    stretch: int
    low_bytes: Ints
    high_bytes: Ints
    reserved_bytes: Ints


@dataclass(frozen=True, eq=False)
class Sizes:
    """The events of blocks by size, between two cuts each; several entries may be of one stretch.

    Attributes:
        first: The index of the first event that is kept after the cut, int32, not falling; one entry a histogram.
        which: Where its bins are: entries ``ends[which] … ends[which + 1] - 1`` of the others, int32.
        ends: Rising, int64.
        code: The bin (:func:`~memlens.folding.levels.size_code`), uint8.
        count: How many events there are, int32.
        total: Their bytes, int64.
    """

    first: NDArray[np.int32]
    which: NDArray[np.int32]
    ends: Ints
    code: NDArray[np.uint8]
    count: NDArray[np.int32]
    total: Ints


@dataclass(frozen=True, eq=False)
class NearCuts:
    """The events of blocks next to cuts.

    Attributes:
        places: The byte offsets of the cuts, of the start of the log and of its end, rising, int64.
        sizes: For each the last :data:`NEAR` events before it and the first ones after it as signed sizes, ALLOC above 0 and FREE below; 0
            where there is none; a row each, int64.
    """

    places: Ints
    sizes: Ints

    def at(self, places: Ints) -> Ints:
        """The rows of some of the places; what lies beyond the end is the end."""
        found: Ints = self.sizes[np.minimum(np.searchsorted(self.places, places), len(self.places) - 1)]
        return found


@dataclass(frozen=True, eq=False)
class Condensed:
    """What is known of all events of a log, where some of them are left out.

    Attributes:
        events: How many there are.
        number: Of each event that is kept its number among all of them, from 0, rising, int64.
        allocated: Of each the bytes allocated before it in the whole log, int64; empty where ``lives`` is false, for nothing else asks for it.
        level: Of each the allocated level right after it, int64.
        tally: The figures of all events; edges and summits are indices of events that are kept.
        timeline: The levels over all events.
        above_event: The first event that is kept at which blocks hold more than chunks; ``None`` where they never do.
        above_bytes: By how much they do at most.
        sizes: What its histograms are made of.
        shallow: Stretches of whose peaks the live blocks are not kept, for there are too many: the index of the first event of each, rising, and that
            after its last; two rows, int64.
        lives: The longest-lived and most wasteful blocks of each window are kept: there are not too many windows.
        near_cuts: The events next to cuts; ``None`` where nobody asked for them.
    """

    events: int
    number: Ints
    allocated: Ints
    level: Ints
    tally: Tally
    timeline: Timeline
    above_event: int | None
    above_bytes: int
    sizes: Sizes
    shallow: Ints
    lives: bool
    near_cuts: NearCuts | None = None

    def is_shallow(self, event: int) -> bool:
        """Whether the blocks are not kept that are live at an event, the peak of its window."""
        k = int(np.searchsorted(self.shallow[0], event, "right")) - 1
        return k >= 0 and event < int(self.shallow[1, k])

    def numbers_at(self, indices: NDArray[np.integer]) -> Ints:
        """The numbers of events by their indices, int64; the index after the last one is that of the end."""
        inside = np.asarray(indices) < len(self.number)
        found = np.full(len(indices), self.events, np.int64)
        found[inside] = self.number[indices[inside]]
        return found

    def indices_of(self, numbers: NDArray[np.integer]) -> Ints:
        """The indices of events by their numbers, int64: the reverse of :meth:`numbers_at`."""
        found: Ints = np.searchsorted(self.number, numbers)
        return found
