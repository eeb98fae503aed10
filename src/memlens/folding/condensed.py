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

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.folding.tally import Tally


class Timeline(Struct, frozen=True, eq=False):
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


class Sizes(Struct, frozen=True, eq=False):
    """The events of blocks by size, between two cuts each; several entries may be of one stretch.

    Attributes:
        first: The index of the first event that is kept after the cut, int32, not falling; one entry a histogram.
        which: Where its bins are: entries ``ends[which] … ends[which + 1] - 1`` of the others, int32.
        ends: Rising, int64.
        code: The bin (:func:`~memlens.folding.tally.size_code`), uint8.
        count: How many events there are, int32.
        total: Their bytes, int64.
    """

    first: NDArray[np.int32]
    which: NDArray[np.int32]
    ends: Ints
    code: NDArray[np.uint8]
    count: NDArray[np.int32]
    total: Ints


class Condensed(Struct, frozen=True, eq=False):
    """Figures of all events of a log of which some are left out.

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
        return np.searchsorted(self.number, numbers)
