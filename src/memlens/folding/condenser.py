"""Counts the events of a log as they are read, and says which of them need not be kept; see :mod:`memlens.folding.condensed`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.columns import distinct, pair
from memlens.facts import Kind
from memlens.folding.chunk_use import serving_chunks
from memlens.folding.condensed import Condensed, Timeline
from memlens.folding.growing import GrowingSizes, GrowingTally
from memlens.folding.tally import SUMS, Tally, size_code, tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints

    Floats = NDArray[np.float64]


#: The first events of a log are kept whole: what is odd about a log is told by them.
FIRST_EVENTS = 1 << 16
#: Blocks of each window that are kept for their long life, and as many for what that costs.
LIVES = 100
#: Windows of which they are kept.
_MOST_WITH_LIVES = 1000
#: Blocks that are kept because they are live at the peak of one of many windows, and for no other reason.
_MOST_AT_PEAKS = 1 << 17
#: Stretches of the timeline at most.
_STRETCHES = 1024
#: Events that are counted at once.
_AT_ONCE = 1 << 17


class Events(NamedTuple):
    """Events in file order, one entry each, as the columns of :class:`~memlens.events.EventLog` of these names."""

    kind: NDArray[np.int8]
    size: Ints
    addr: NDArray[np.uint64]
    offset: Ints
    requested: Ints | None = None

    def part(self, start: int, stop: int | None = None) -> Events:
        """Events ``start … stop-1`` of them."""
        some = slice(start, stop)
        requested = None if self.requested is None else self.requested[some]
        return Events(self.kind[some], self.size[some], self.addr[some], self.offset[some], requested)


class Counted(NamedTuple):
    """Events that were counted, one entry each, int64; see :class:`~memlens.folding.condensed.Condensed`."""

    number: Ints
    allocated: Ints
    level: Ints


class Condenser:
    """Takes the events of one log, in order, part by part; places are byte offsets in its text.

    Attributes:
        with_lives: The longest-lived and most wasteful blocks of each window are kept: there were not too many windows so far.
    """

    def __init__(self) -> None:
        self._tally = GrowingTally(Tally.zeros(np.zeros(1, np.int64)))
        self._stretch = 1
        self._lines = np.zeros((3, 0), np.int64)  # the rows of the timeline
        self._events = self._allocated = self._level = self._reserved = self._end = 0
        # The first event at which blocks hold more than chunks, and by how much they do at most.
        self._above: tuple[int, int] | None = None
        self._shallow = np.zeros(0, np.int64)  # the places where the stretches begin whose peaks are given up
        self.with_lives = True
        self._sizes = GrowingSizes()

    def count(self, events: Events, cuts: Ints, folds: Ints, end: int) -> Counted:
        """Count the next events.

        Args:
            events: They.
            cuts: Where windows begin and end, rising.
            folds: Where figures are wanted, rising, the cuts among them; those before these events do not matter.
            end: Where the text ends that they stand in.
        """
        # Few at once, for what is worked out on the way is larger than they are; events of one line stay together.
        lines = events.offset[_AT_ONCE::_AT_ONCE]
        starts = distinct(np.append(0, np.searchsorted(events.offset, lines))).tolist()
        stops = [*starts[1:], len(events.kind)]
        ends = [*(int(events.offset[start]) for start in starts[1:]), end]
        parts = [
            self._count(events.part(start, stop), cuts, folds, until)
            for start, stop, until in zip(starts, stops, ends, strict=True)
        ]
        return Counted(*map(np.concatenate, zip(*parts, strict=True)))

    def _count(self, events: Events, cuts: Ints, folds: Ints, end: int) -> Counted:
        kind, size = events.kind, events.size
        signed = size * (1 - 2 * (kind & 1))
        reserved: Ints | int = self._reserved
        if len(kind) and kind.max() > Kind.FREE:
            block = kind <= Kind.FREE
            reserved = np.cumsum(signed * ~block) + self._reserved
            signed *= block
        level = np.cumsum(signed)
        level += self._level
        np.maximum(signed, 0, out=signed)  # what ALLOCs add
        allocated = np.cumsum(signed)
        allocated -= signed
        allocated += self._allocated
        number = np.arange(self._events, self._events + len(kind))
        self._add_figures(events, folds, end)
        self._add_sizes(events, cuts)
        if len(kind):
            self._add_levels(level, reserved)
            over = level - reserved
            if (most := int(over.max())) > 0:
                first = int(number[(over > 0).argmax()]) if self._above is None else self._above[0]
                self._above = first, max(most, 0 if self._above is None else self._above[1])
            self._level, self._allocated = int(level[-1]), int(allocated[-1] + signed[-1])
            self._reserved = reserved if isinstance(reserved, int) else int(reserved[-1])
        self._events += len(kind)
        return Counted(number, allocated, level)

    def _add_figures(self, events: Events, folds: Ints, end: int) -> None:
        edges = distinct(np.concatenate(([self._end, end], folds[(folds > self._end) & (folds < end)])))
        if end > self._end:
            at = np.searchsorted(events.offset, edges)
            at[0], at[-1] = 0, len(events.kind)
            found = tally(events, distinct(np.append(0, at))).over(at[:-1], at[1:])
            more = Tally(edges, found.sums, found.largest, found.rise, found.summit + self._events)
            self._tally.add(more, kept=self._end == 0 or bool(np.isin(self._end, folds)))
            self._end = end

    def _add_sizes(self, events: Events, cuts: Ints) -> None:
        """Go on with the histograms, each of the events between two cuts."""
        kind, size = events.kind, events.size
        part = parts(events.offset, cuts)
        if not len(part):
            return
        first, count = int(part[0]), int(part[-1] - part[0]) + 1
        key = (part - first) * 128 + size_code(kind & 1, size)
        if kind.max() > Kind.FREE:
            key, size = key[kind <= Kind.FREE], size[kind <= Kind.FREE]
        counts, totals = np.bincount(key, minlength=128 * count), np.zeros(128 * count, np.int64)
        np.add.at(totals, key, size)
        self._sizes.add(first, counts.reshape(-1, 128), totals.reshape(-1, 128))

    def _add_levels(self, level: Ints, reserved: Ints | int) -> None:
        """Go on with the timeline."""
        first, last = self._events, self._events + len(level)
        while last > self._stretch * _STRETCHES:
            self._stretch *= 2
            pairs = np.arange(0, self._lines.shape[1], 2)
            if len(pairs):
                low = np.minimum.reduceat(self._lines[:1], pairs, axis=1)
                self._lines = np.concatenate((low, np.maximum.reduceat(self._lines[1:], pairs, axis=1)))
        starts = np.arange(-(-first // self._stretch) * self._stretch, last, self._stretch) - first
        # 1 where the first events belong to a stretch that is there already.
        begun = int(len(starts) == 0 or starts[0] > 0)
        starts = np.append(0, starts) if begun else starts
        new = np.stack(
            (
                np.minimum.reduceat(level, starts),
                np.maximum.reduceat(level, starts),
                np.maximum.reduceat(np.broadcast_to(reserved, level.shape), starts),
            )
        )
        if begun:
            self._lines[0, -1] = min(self._lines[0, -1], new[0, 0])
            self._lines[1:, -1] = np.maximum(self._lines[1:, -1], new[1:, 0])
        self._lines = np.concatenate((self._lines, new[:, begun:]), axis=1)

    def events_at_folds(self) -> tuple[Ints, Ints]:
        """The places at which figures are kept, the end of the text so far among them, and how many events stand before each, int64."""
        found = self._tally.tally
        counts = sum(found.sums[SUMS.index(name)] for name in ("allocs", "frees", "reserves", "releases"))
        return found.edges, np.append(0, np.cumsum(counts))

    def forget(self, folds: Ints) -> None:
        """Keep figures at these places alone from now on, which are among those so far; and at the end of what was counted."""
        edges = self._tally.tally.edges
        kept = edges[np.isin(edges, folds)]
        kept = distinct(np.concatenate((edges[:1], kept, edges[-1:])))
        if len(kept) < len(edges):
            self._tally.squeeze(kept)

    def needless(self, events: Events, counted: Counted, cuts: Ints, keeps: Ints) -> NDArray[np.bool_]:
        """Which events need not be kept.

        Args:
            events: All that were counted and are kept so far.
            counted: What is known of them.
            cuts: Where windows begin and end, rising; among the folds.
            keeps: Further places over which blocks are kept that live there, rising; among the folds.
        """
        kind, size, number = events.kind, events.size, counted.number
        partner, doubled = pair(kind, events.addr)
        alloc = np.flatnonzero((kind == Kind.ALLOC) & (partner >= 0))
        free = partner[alloc].astype(np.int64)
        stretch = parts(events.offset, distinct(np.concatenate((cuts, keeps))))
        marked = self._marked(events, number)
        marked[doubled] = True
        spare = (stretch[alloc] == stretch[free]) & (size[alloc] == size[free]) & ~marked[alloc] & ~marked[free]
        spare &= number[alloc] >= FIRST_EVENTS
        alloc, free = alloc[spare], free[spare]
        window = parts(events.offset, cuts)[alloc]
        at_peak = self._live_at_peak(number[alloc], number[free], window, cuts)
        alloc, free, window = alloc[~at_peak], free[~at_peak], window[~at_peak]
        long_lived = _last_in_chunk(events, alloc, free)
        self.with_lives &= len(cuts) < _MOST_WITH_LIVES
        if self.with_lives:
            meanwhile = counted.allocated[free] - counted.allocated[alloc] - size[alloc]
            waste = size[alloc].astype(np.float64) * meanwhile
            for score in (number[free] - number[alloc], waste):
                for lo, hi in _runs(window):
                    long_lived[lo + best(score[lo:hi], size[alloc[lo:hi]], LIVES)] = True
        dropped = np.zeros(len(kind), np.bool_)
        dropped[alloc[~long_lived]] = dropped[free[~long_lived]] = True
        return dropped

    def _marked(self, events: Events, number: Ints) -> NDArray[np.bool_]:
        """The first, the last and the highest event between two folds."""
        marked = np.zeros(len(number), np.bool_)
        if not len(number):
            return marked
        found = self._tally.tally
        part = parts(events.offset, found.edges)
        first = np.append(0, np.flatnonzero(np.diff(part)) + 1)
        marked[first] = marked[np.append(first[1:], len(number)) - 1] = True
        marked[np.searchsorted(number, found.summit[found.rise[0] > 0])] = True
        if self._above is not None:
            marked[np.searchsorted(number, self._above[0])] = True
        return marked

    def _live_at_peak(self, born: Ints, freed: Ints, window: Ints, cuts: Ints) -> NDArray[np.bool_]:
        """Which blocks are live at the peak of their window, but for those windows whose peaks are given up."""
        edges = np.concatenate(([0], cuts[cuts < self._end], [self._end]))
        edges = edges[1:] if len(cuts) and cuts[0] == 0 else edges
        figures = self._tally.tally.over(edges[:-1], edges[1:])
        summit = np.where(figures.rise[0] > 0, figures.summit, -1)
        index = window - (len(cuts) > 0 and cuts[0] == 0)
        summit[np.isin(edges[:-1], self._shallow)] = -1
        live = (born <= summit[index]) & (freed > summit[index])
        if np.count_nonzero(live) > _MOST_AT_PEAKS:
            counts = np.bincount(index[live], minlength=len(summit))
            order = np.argsort(-(figures.levels[0] + figures.rise[0]), kind="stable")
            low = order[np.cumsum(counts[order]) > _MOST_AT_PEAKS // 2]
            low = low[low != order[0]]
            self._shallow = distinct(np.concatenate((self._shallow, edges[low[counts[low] > 0]])))
            live &= ~np.isin(index, low)
        return live

    def finish(self, offset: Ints, counted: Counted, cuts: Ints) -> Condensed:
        """Return the counts of the log, given the events that are kept: where they stand, and what was counted.

        Args:
            offset: Where they stand.
            counted: What is known of them.
            cuts: As for :meth:`needless`.
        """
        found = self._tally.tally
        at = np.searchsorted(offset, found.edges)
        at[-1] = len(offset)
        some = np.diff(at) > 0
        sums, largest, rise, summit = (measure[..., some] for measure in found.measures)
        summit = np.minimum(np.searchsorted(counted.number, summit), len(offset) - 1)
        folded = Tally(np.append(at[:-1][some], len(offset)), sums, largest, rise, summit)
        sizes = self._sizes.finish(np.searchsorted(offset, np.append(0, cuts)))
        until = np.append(cuts, self._end)[np.searchsorted(cuts, self._shallow, "right")]
        above = None if self._above is None else int(np.searchsorted(counted.number, self._above[0]))
        return Condensed(
            self._events,
            *counted,
            folded,
            Timeline(self._stretch, *self._lines),
            above,
            0 if self._above is None else self._above[1],
            sizes,
            np.searchsorted(offset, np.stack((self._shallow, until))),
            self.with_lives,
        )


def _last_in_chunk(events: Events, alloc: Ints, free: Ints) -> NDArray[np.bool_]:
    """Which blocks are the last of some that are freed in their chunks, bool: by them it is known which chunk a line without an address gives back."""
    last = np.zeros(len(alloc), np.bool_)
    if not ((events.kind == Kind.RELEASE) & (events.addr == 0)).any():
        return last
    born = np.flatnonzero(events.kind == Kind.RESERVE)
    chunk = serving_chunks((born, events.addr[born], events.size[born]), alloc, events.addr[alloc])
    order = np.lexsort((free, chunk))
    last[order[np.append(np.diff(chunk[order]) > 0, True)[: len(order)]]] = True
    return last


def parts(offset: Ints, places: Ints) -> Ints:
    """Of each of some rising offsets how many of some rising places are not behind it, int64."""
    return np.cumsum(np.bincount(np.searchsorted(offset, places), minlength=len(offset) + 1)[: len(offset)])


def _runs(numbers: Ints) -> Sequence[tuple[int, int]]:
    """Where numbers that do not fall are equal: the first index of each run and the one after its last."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=False))


def best(score: Ints | Floats, size: Ints, count: int) -> Ints:
    """The entries that score highest, so many at most; among equals the larger ones, then the earlier ones; int64, in no order."""
    if len(score) <= count:
        return np.arange(len(score))
    least = np.partition(score, -count)[-count]
    sure, equal = np.flatnonzero(score > least), np.flatnonzero(score == least)
    left = count - len(sure)
    if len(equal) > left:
        smallest = np.partition(size[equal], -left)[-left]
        larger = equal[size[equal] > smallest]
        equal = np.append(larger, equal[size[equal] == smallest][: left - len(larger)])
    return np.append(sure, equal)
