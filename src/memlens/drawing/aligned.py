"""Two runs over one axis: what the diff aligned in order stands at one place, and what only one run does takes its own room.

The axis has *slots*.  Each event of either run has one, in the order of its log; two events that stand for each other have the same, and
between two such pairs there are as many slots as the run that does more there has events.  So the runs are side by side wherever they do the
same, whatever the time that it took and however much one of them does in between.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.columns import Ints, first_highest
from memlens.diffing.window_order import longest_common
from memlens.windows.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.diffing.pairing import InOrder
    from memlens.events import EventLog


#: Slots whose levels are laid out at once, unless one bucket alone has more.
_TOGETHER = 1 << 20


class AlignedRun(Struct, frozen=True, eq=False, dict=True):
    """One of the runs on the axis.

    Attributes:
        log: Its log.
        lo: Its first event on the axis.
        hi: The event after its last one.
        cuts: Events at which a stretch of the axis begins, not falling, int64; one more than there are stretches, the last one is ``hi``.
        starts: The slot at which each stretch begins, and after the last one the end of the axis, rising, int64.
    """

    log: EventLog
    lo: int
    hi: int
    cuts: Ints
    starts: Ints

    def slots_of(self, events: Ints) -> Ints:
        """The slots of some events of the stretch ``lo … hi-1``, int64; of ``hi`` the end of the axis."""
        stretch = np.searchsorted(self.cuts, events, "right") - 1
        found: Ints = self.starts[stretch] + events - self.cuts[stretch]
        return found

    def events_at(self, slots: Ints) -> Ints:
        """The last event at or before each slot, int64; ``lo - 1`` where there is none yet."""
        stretch = np.minimum(np.searchsorted(self.starts, slots, "right"), len(self.starts) - 1) - 1
        length = self.cuts[stretch + 1] - self.cuts[stretch]
        found: Ints = self.cuts[stretch] + np.minimum(slots - self.starts[stretch], length - 1)
        return found

    @property
    def window(self) -> Window:
        """Its stretch of the axis."""
        return Window(self.log, "", self.lo, self.hi, 0, 0, 1, 1)

    @cached_property
    def levels(self) -> Ints:
        """Allocated bytes before the first event and right after each event, int64; one more than there are events."""
        parts = [batch.allocated for batch in self.log.batches(self.lo, self.hi)]
        return np.concatenate(([self.log.level_before(self.lo)[0]], *parts))


class AlignedAxis(Struct, frozen=True, eq=False):
    """The axis.

    Attributes:
        base: The run that is compared against.
        head: The run that is judged.
    """

    base: AlignedRun
    head: AlignedRun

    def __len__(self) -> int:
        """Slots."""
        return int(self.base.starts[-1])


def aligned(pairs: InOrder) -> AlignedAxis:
    """The axis of two runs.

    It holds the windows that were compared, and what lies between them.  Pairs of allocations go first, and those of the threads with most pairs
    before those of other threads that cross them.  Windows that come in another order in head than in base stand apart, but for the longest
    run of them that comes in one order.

    Args:
        pairs: What a diff aligned in order, of one device (:attr:`memlens.diffing.result.Diff.in_order`).
    """
    found = pairs.windows
    sides = [
        sorted([*paired, *alone], key=lambda window: (window.lo, window.hi))
        for paired, alone in zip(zip(*found.pairs, strict=True), (found.only_base, found.only_head), strict=True)
    ]
    bounds = [(side[0].lo, max(window.hi for window in side)) for side in sides]
    chain = _Chain.of_windows(found.pairs, bounds)
    for turn in np.unique(pairs.turn).tolist():
        own = pairs.turn == turn
        chain = chain.joined(pairs.base[own], pairs.head[own])
    lengths = np.maximum(np.diff(chain.base), np.diff(chain.head))
    starts = np.concatenate(([0], np.cumsum(lengths)))
    # Stretches of no length are those of two windows that meet.
    kept = np.concatenate((np.flatnonzero(lengths), [len(lengths)]))
    base, head = (
        AlignedRun(log, lo, hi, cuts[kept], starts[kept])
        for log, (lo, hi), cuts in zip(found.logs, bounds, (chain.base, chain.head), strict=True)
    )
    return AlignedAxis(base, head)


class _Chain(NamedTuple):
    """Places where both runs are side by side, neither falling: events that stand for each other, and edges of windows; int64."""

    base: Ints
    head: Ints

    @classmethod
    def of_windows(cls, pairs: Sequence[tuple[Window, Window]], bounds: Sequence[tuple[int, int]]) -> _Chain:
        """The ends of the axis, and the edges of the windows that come in one order."""
        pairs = sorted(pairs, key=lambda pair: (pair[0].lo, pair[0].hi, pair[1].lo, pair[1].hi))
        by_head = sorted(range(len(pairs)), key=lambda k: (pairs[k][1].lo, pairs[k][1].hi))
        kept = [pairs[k] for k, _ in longest_common(range(len(pairs)), by_head)]
        edges = [(base.lo, base.hi, head.lo, head.hi) for base, head in kept]
        columns = np.array(edges, np.int64).reshape(-1, 4)
        sides = [columns[:, 2 * side : 2 * side + 2].ravel() for side in (0, 1)]
        return cls(*(np.concatenate(([lo], side, [hi])) for side, (lo, hi) in zip(sides, bounds, strict=True)))

    def joined(self, base: Ints, head: Ints) -> _Chain:
        """With those of some further pairs that cross none of these, and not each other: of those that do, each that is later in head than all before."""
        stretch = np.searchsorted(self.base, base, "right")
        inside = np.flatnonzero(stretch == np.searchsorted(self.head, head, "right"))
        inside = inside[np.argsort(base[inside])]
        base, head = base[inside], head[inside]
        rising = head == np.maximum.accumulate(head)
        both = np.concatenate((self.base, base[rising])), np.concatenate((self.head, head[rising]))
        order = np.lexsort((both[1], both[0]))
        return _Chain(both[0][order], both[1][order])


#: Columns of the curves beside their edges.
_COLUMNS = (
    *("base_low", "base_high", "head_low", "head_high", "low", "high"),
    *("slot", "base_event", "head_event", "base_bytes", "head_bytes", "base_top", "head_top"),
)


def aligned_curves(axis: AlignedAxis, buckets: int) -> dict[str, Ints]:
    """The levels of both runs over an axis, exactly: extremes are those of the step functions, whatever the buckets.

    A run that has no event at a slot has the level there that it had before.  The first bucket also has what both runs start from, so that the
    largest of ``base_high`` is base's peak, and the last of ``base_bytes``, where a bucket is a slot, what is live at its end.

    Args:
        axis: The axis.
        buckets: How many buckets of neighbouring slots there are at most; where there are as many slots or fewer, each is a bucket.

    Returns:
        ``edges``, the first slot of each bucket and the end of the axis, rising, one more than there are buckets.  Of each bucket the lowest and the
        highest allocated level of base and of head in bytes (``base_low`` …), and of head less base at any one slot (``low``, ``high``);
        ``slot``, the first one at which the two are farthest apart; ``base_event`` and ``head_event``, the last event of each run at or before that
        slot, or the event before its first one; ``base_bytes`` and ``head_bytes``, the levels there; and ``base_top`` and ``head_top``, the event right after
        which the level of each is highest, the first of several.  All int64.
    """
    count = min(buckets, len(axis))
    edges = np.arange(count + 1, dtype=np.int64) * len(axis) // max(count, 1)
    parts = [_bucketed(axis, edges[first : last + 1]) for first, last in _batches(edges)]
    columns = np.concatenate([np.zeros((len(_COLUMNS), 0), np.int64), *parts], axis=1)
    start = int(axis.base.levels[0]), int(axis.head.levels[0])
    for top, high, run, level in zip((-2, -1), (1, 3), (axis.base, axis.head), start, strict=True):
        columns[top, :1] = np.where(level > columns[high, :1], run.lo - 1, columns[top, :1])
    for row, level in zip((0, 2, 4), (*start, start[1] - start[0]), strict=True):
        columns[row, :1] = np.minimum(columns[row, :1], level)
        columns[row + 1, :1] = np.maximum(columns[row + 1, :1], level)
    return {"edges": edges, **dict(zip(_COLUMNS, columns, strict=True))}


def _batches(edges: Ints) -> Iterator[tuple[int, int]]:
    """Neighbouring buckets to look at together."""
    first = 0
    while first < len(edges) - 1:
        last = max(int(np.searchsorted(edges, edges[first] + _TOGETHER, "right")) - 1, first + 1)
        yield first, last
        first = last


def _bucketed(axis: AlignedAxis, edges: Ints) -> Ints:
    """The columns of some neighbouring buckets, a row each, int64."""
    slots = np.arange(edges[0], edges[-1])
    begins = edges[:-1] - edges[0]
    events = [run.events_at(slots) for run in (axis.base, axis.head)]
    base, head = (run.levels[own - run.lo + 1] for run, own in zip((axis.base, axis.head), events, strict=True))
    apart = head - base
    extremes = [fold.reduceat(row, begins) for row in (base, head, apart) for fold in (np.minimum, np.maximum)]

    at = first_highest(np.abs(apart), begins)
    tops = [own[first_highest(row, begins)] for own, row in zip(events, (base, head), strict=True)]
    return np.stack([*extremes, slots[at], events[0][at], events[1][at], base[at], head[at], *tops])
