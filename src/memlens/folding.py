"""Figures that add up over parts of a log: sums, levels and peaks of many stretches of events in one pass.

The edges of the stretches cut a log into *segments*; a stretch is a run of neighbouring segments, however stretches overlap.  For
each segment a :class:`Tally` keeps a row of figures that starts from nothing at the segment's first event, so rows need no
knowledge of each other.  That makes it a *fold*: :func:`tally` turns any batch of events into rows, :meth:`Tally.join`
puts the rows of neighbouring stretches side by side, :meth:`Tally.over` merges runs of rows into one row each, and
merging is associative.  So the batches of one log may be tallied in any order, on many cores, as they arrive from a log that
still grows, or on the machines where the logs are.

Temporaries are as long as a batch, and a row is 17 integers, so 10,000 windows cost a few MB.  All sums are exact int64.

The figures of windows are those of one tally of their log, which analyzers share (:func:`profile`); the levels at single moments are, too.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from memlens.columns import among, distinct
from memlens.events import running_sums
from memlens.results import Deferred, OnDemand
from memlens.spool import walk
from memlens.windows.windows import Windows, edges_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window

T = TypeVar("T")


class Sized(Protocol):
    """Events, one entry each, as the columns of :class:`~memlens.events.EventLog` of these names."""

    @property
    def kind(self) -> NDArray[np.int8]: ...
    @property
    def size(self) -> Ints: ...
    @property
    def requested(self) -> Ints | None: ...


#: Events in one batch: at 64 Ki a batch and its temporaries stay in the second-level cache.
BATCH = 1 << 16

#: Figures that add up over events.  ``requested_bytes``, ``aligned_bytes`` and ``requested_allocs`` are of the ALLOCs whose
#: requested size is known.
SUMS = (
    "alloc_bytes", "free_bytes", "allocs", "frees", "reserve_bytes", "release_bytes", "reserves", "releases",
    "requested_bytes", "aligned_bytes", "requested_allocs",
)  # fmt: skip
#: Those of them that make the allocated and the reserved level.
_SIGNS = {"alloc_bytes": (0, 1), "free_bytes": (0, -1), "reserve_bytes": (1, 1), "release_bytes": (1, -1)}


class Tally(Struct, frozen=True, eq=False, dict=True):
    """Figures of consecutive segments, one entry a segment; segment ``k`` holds events ``edges[k] … edges[k+1]-1``.

    Attributes:
        edges: Event indices, rising, one more than there are segments, int64.
        sums: A row for each of :data:`SUMS`, int64.
        largest: The largest ALLOC and the largest FREE, 0 where there is none; two rows, int64.
        rise: The highest running sum of allocated and of reserved bytes within the segment, which starts from 0 at its
            start and counts that 0: never negative; two rows, int64.
        summit: The event that first reaches ``rise[0]``; of no meaning where that is 0; int64.
    """

    edges: Ints
    sums: Ints
    largest: Ints
    rise: Ints
    summit: Ints

    @classmethod
    def zeros(cls, edges: Ints) -> Tally:
        """Segments without an event."""
        count = len(edges) - 1
        sums, largest, rise = (np.zeros((rows, count), np.int64) for rows in (len(SUMS), 2, 2))
        return cls(edges, sums, largest, rise, np.zeros(count, np.int64))

    def __len__(self) -> int:
        return len(self.summit)

    @property
    def measures(self) -> tuple[Ints, Ints, Ints, Ints]:
        """All but the edges; the last axis of each is that of the segments."""
        return self.sums, self.largest, self.rise, self.summit

    @cached_property
    def levels(self) -> Ints:
        """Allocated and reserved bytes right before each edge, counted from the tally's start; two rows, int64."""
        return self.over(self.edges, self.edges).levels

    def join(self, *later: Tally) -> Tally:
        """These segments and then those of the tallies that follow, each of which starts where the one before ends."""
        parts = (self, *later)
        if any(a.edges[-1] != b.edges[0] for a, b in zip(parts, later, strict=False)):
            raise ValueError("only neighbouring tallies can be joined")
        edges = np.concatenate([self.edges, *(part.edges[1:] for part in later)])
        together = zip(*(part.measures for part in parts), strict=True)
        return Tally(edges, *(np.concatenate(measure, axis=-1) for measure in together))

    def over(self, lo: Ints, hi: Ints) -> Figures:
        """The figures of each stretch ``lo … hi-1`` of events; both must be among the edges.  Stretches may overlap."""
        first, last = np.searchsorted(self.edges, lo), np.searchsorted(self.edges, hi)
        sums = np.zeros((len(SUMS), len(lo)), np.int64)
        levels = np.zeros((2, len(self) + 1), np.int64)  # allocated, reserved at each edge
        before = np.zeros(len(self) + 1, np.int64)
        for row, name in enumerate(SUMS):  # one by one, for there may be very many segments
            if not self.sums[row].any():
                continue
            np.cumsum(self.sums[row], out=before[1:])
            sums[row] = before[last] - before[first]
            if name in _SIGNS:
                level, sign = _SIGNS[name]
                levels[level] += sign * before
        rise = np.zeros((2, len(lo)), np.int64)
        summit = np.zeros(len(lo), np.int64)
        full = np.flatnonzero(last > first)
        a, b = first[full], last[full]
        for row in (0, 1):
            # Levels count from the tally's start, so that segments can be compared; the window's own start is taken off.
            top = levels[row, :-1] + self.rise[row]
            best = _first_highest(top, a, b)
            rise[row, full] = top[best] - levels[row, a]
            if row == 0:
                summit[full] = self.summit[best]
        largest = np.zeros((2, len(lo)), np.int64)
        for row in (0, 1):
            largest[row, full] = self.largest[row, _first_highest(self.largest[row], a, b)]
        return Figures(sums, largest, rise, summit, levels[:, first])

    def part(self, start: int, stop: int) -> Tally:
        """Segments ``start … stop-1``."""
        return Tally(self.edges[start : stop + 1], *(measure[..., start:stop] for measure in self.measures))

    def squeeze(self, edges: Ints) -> Tally:
        """The same stretch with only these edges left, which must be among the present ones: neighbours are merged."""
        merged = self.over(edges[:-1], edges[1:])
        return Tally(edges, merged.sums, merged.largest, merged.rise, merged.summit)


class Figures(Struct, frozen=True, eq=False, dict=True):
    """Figures of windows, one entry a window; see :class:`Tally` for the columns.

    Attributes:
        levels: Allocated and reserved bytes right before each window, counted from the tally's start; two rows, int64.
    """

    sums: Ints
    largest: Ints
    rise: Ints
    summit: Ints
    levels: Ints

    @cached_property
    def columns(self) -> dict[str, Ints]:
        """The figures by the names of the machine output, int64, one entry a window; all of :data:`SUMS` are among them."""
        (carried, reserved), (rise, reserved_rise) = self.levels, self.rise
        remaining = self.sums[0] - self.sums[1]
        return {
            **dict(zip(SUMS, self.sums, strict=True)),
            "largest_alloc_bytes": self.largest[0],
            "largest_free_bytes": self.largest[1],
            "carried_in_bytes": carried,
            "remaining_bytes": remaining,
            "live_bytes": carried + remaining,
            "rise_bytes": rise,
            "peak_bytes": carried + rise,
            "reserved_peak_bytes": reserved + reserved_rise,
        }

    def __getitem__(self, name: str) -> Ints:
        """One of :attr:`columns`."""
        return self.columns[name]


def tally(log: Sized, cuts: Ints) -> Tally:
    """Tally events ``cuts[0] … cuts[-1]-1`` with an edge at every cut (rising), and at some places between."""
    lo, hi = int(cuts[0]), int(cuts[-1])
    edges = distinct(np.concatenate((cuts, np.arange(lo, hi, BATCH))))
    found = Tally.zeros(edges)
    for start, stop in walk(lo, hi, BATCH):
        k, m = np.searchsorted(edges, (start, stop))
        _tally_batch(log, start, stop, edges[k:m] - start, found, slice(int(k), int(m)))
    return found


def _tally_batch(log: Sized, start: int, stop: int, begins: Ints, found: Tally, rows: slice) -> None:
    """Write the rows of the segments of one batch; ``begins`` are their first events, counted from the batch's start."""
    kind, size = log.kind[start:stop], log.size[start:stop]
    sums, ends = found.sums[:, rows], np.append(begins[1:], stop - start)
    if kind.max() > 1:  # chunks among the blocks: tally them by themselves, and see them as blocks of 0 bytes here
        chunks = np.flatnonzero(kind > 1)
        _tally_chunks(kind[chunks] & 1, size[chunks], np.searchsorted(chunks, begins), found, rows)
        kind, size = kind.copy(), size.copy()
        kind[chunks], size[chunks] = 0, 0
        sums[2] -= sums[6] + sums[7]
    signed, level = _levels(kind, size)
    edge = np.concatenate([[0], level[ends - 1]])
    net, total = np.diff(edge), np.add.reduceat(size, begins)  # A - F and A + F
    sums[0] = (total + net) >> 1
    sums[1] = (total - net) >> 1
    sums[3] = np.add.reduceat(kind, begins, dtype=np.int64)
    sums[2] += ends - begins - sums[3]
    found.largest[0, rows] = np.maximum(np.maximum.reduceat(signed, begins), 0)
    found.largest[1, rows] = np.maximum(-np.minimum.reduceat(signed, begins), 0)
    top = np.maximum.reduceat(level, begins)
    found.rise[0, rows] = np.maximum(top - edge[:-1], 0)
    found.summit[rows] = start + _first_at(level, top, begins, ends)
    if log.requested is not None:
        requested = log.requested[start:stop]
        known = (requested >= 0) & (log.kind[start:stop] == 0)
        sums[8] = np.add.reduceat(np.where(known, requested, 0), begins)
        sums[9] = np.add.reduceat(np.where(known, size, 0), begins)
        sums[10] = np.add.reduceat(known, begins, dtype=np.int64)


def _tally_chunks(releases: NDArray[np.int8], size: Ints, begins: Ints, found: Tally, rows: slice) -> None:
    """The same for the RESERVE and RELEASE events of a batch, which many of its segments have none of."""
    ends = np.append(begins[1:], len(size))
    some = np.flatnonzero(ends > begins)
    begins, ends, rows_of = begins[some], ends[some], some + rows.start
    _, level = _levels(releases, size)
    before = np.concatenate([[0], level])[begins]
    net, total = level[ends - 1] - before, np.add.reduceat(size, begins)
    found.sums[4, rows_of] = (total + net) >> 1
    found.sums[5, rows_of] = (total - net) >> 1
    found.sums[7, rows_of] = np.add.reduceat(releases, begins, dtype=np.int64)
    found.sums[6, rows_of] = ends - begins - found.sums[7, rows_of]
    found.rise[1, rows_of] = np.maximum(np.maximum.reduceat(level, begins) - before, 0)


def _levels(releases: NDArray[np.int8], size: Ints) -> tuple[Ints, Ints]:
    """Signed sizes (- where ``odd``, a FREE or RELEASE), and their running sum, both int64."""
    signed: Ints = size * (1 - 2 * releases)  # int64 times int8
    return signed, np.cumsum(signed)


def _first_at(level: Ints, top: Ints, begins: Ints, ends: Ints) -> Ints:
    """Where each segment first reaches its highest level."""
    if len(begins) == 1:
        return np.array([level.argmax()], np.int64)
    places = np.flatnonzero(level == np.repeat(top, ends - begins))
    return places[np.searchsorted(places, begins)]


def _first_highest(values: Ints, first: Ints, last: Ints) -> Ints:
    """The place of the highest of ``values[first … last-1]`` for each pair, the first one among equals; no pair is empty.

    A sparse table: places of the highest of 2**k neighbours, for rising k, as far as the longest stretch needs.
    """
    best = np.arange(len(values), dtype=np.int64)
    found: Ints = first.copy()
    longer = np.flatnonzero(last - first > 1)
    # The highest power of two that fits each stretch.
    power = np.frexp((last - first)[longer].astype(np.float64))[1] - 1
    for k in range(1, int(power.max(initial=0)) + 1):
        left, right = best[: -(1 << (k - 1))], best[1 << (k - 1) :]
        best = np.where(values[right] > values[left], right, left)
        here = longer[power == k]
        a, b = best[first[here]], best[last[here] - (1 << k)]
        found[here] = np.where(values[b] > values[a], b, a)
    return found


def power_of_two(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 for 0, else 1 + the power of two that each size reaches, int64."""
    # A double rounds a larger size up, perhaps to the next power, but not one without the bits below set ones.
    if size.max(initial=0) >= 1 << 53:
        size = size & ~(size >> 1)
    exponent: NDArray[np.int64] = size.astype(np.float64).view(np.int64) >> 52
    return np.maximum(exponent - 1022, 0)


def size_code(kind: NDArray[np.int8], size: Ints) -> Ints:
    """The bin of each event of a block in a histogram by power of two and kind, below 128, int64."""
    return 2 * power_of_two(size) + kind


# --- the figures of windows, and levels at single moments ---


def bounds(windows: Sequence[Window]) -> tuple[EventLog, Ints, Ints]:
    """The log that the windows share, and their first events and the events after their last, both int64.

    Raises:
        ValueError: The windows are of several logs, or there are none.
    """
    several = windows[:1] if isinstance(windows, Windows) else windows
    if (logs := len({id(window.log) for window in several})) != 1:
        raise ValueError(f"windows of one log are needed, not of {logs}")
    return windows[0].log, edges_of(windows, "lo"), edges_of(windows, "hi")


#: So many events between two whose levels are looked up cost less than to look each up by itself.
_NEAR = 1 << 12
#: Entries of a column that are Python's own at once.
_LISTED = 1 << 12
#: Of each log the last tally, and what was asked of it.
_LAST: WeakKeyDictionary[EventLog, tuple[Tally, dict[bytes, Figures]]] = WeakKeyDictionary()


def profile(windows: Sequence[Window]) -> Figures:
    """The figures of windows of one log, from one pass over it; see :func:`figures`."""
    return figures(*bounds(windows))


def peak_ends(windows: Sequence[Window]) -> Ints:
    """The event after the one that reaches the peak of each window; its first event where it never rises above its start."""
    found = profile(windows)
    ends: Ints = np.where(found["rise_bytes"] > 0, found.summit + 1, bounds(windows)[1])
    return ends


def figures(log: EventLog, lo: Ints, hi: Ints) -> Figures:
    """The figures of stretches ``lo … hi-1`` of the events of a log, from one pass over it.

    The tally and the answers are kept: analyzers that are asked about the same stretches share one pass, and so do those that are asked
    about stretches with the same edges, or with fewer.
    """
    cuts = distinct(np.concatenate([lo, hi, [0]]))
    known = _LAST.get(log)
    if known is None or not among(cuts, known[0].edges).all():
        known = _LAST[log] = tally(log, cuts), {}
    key = lo.tobytes() + hi.tobytes()
    if key not in known[1]:
        known[1][key] = known[0].over(lo, hi)
    return known[1][key]


def levels_before(log: EventLog, events: Ints) -> Ints:
    """The allocated and the reserved level right before each of some events, in bytes; int64, a row an event."""
    if log not in _LAST:
        figures(log, np.zeros(1, np.int64), np.array([len(log)]))
    last = _LAST[log][0]  # which begins with the first event of the log
    if (events > last.edges[-1]).any():
        last = tally(log, np.array([0, len(log)]))
    order, found = events.argsort(kind="stable"), np.empty((len(events), 2), np.int64)
    rising = events[order]
    edge = np.searchsorted(last.edges, rising, "right") - 1
    # Near ones are looked up together, from the edge before the first of them on; there is an edge wherever a batch begins.
    apart = (last.edges[edge[1:]] - rising[:-1] > _NEAR) | (rising[1:] // BATCH != rising[:-1] // BATCH)
    for some in np.split(np.arange(len(order)), np.flatnonzero(apart) + 1) if len(order) else ():
        k, stop = edge[some[0]], int(rising[some[-1]])
        lo = int(last.edges[k])
        for row, after in enumerate(running_sums(log.kind[lo:stop], log.size[lo:stop], *last.levels[:, k].tolist())):
            found[order[some], row] = np.append(last.levels[row, k], after)[rising[some] - lo]
    return found


def per_window(
    kind: Callable[..., T],
    windows: Sequence[Window],
    columns: Mapping[str, NDArray[Any]],
    **more: Callable[[Window], object],
) -> OnDemand[T]:
    """A result a window, from columns by the names of its fields, one entry a window.

    Args:
        kind: The result's type.
        windows: The windows.
        columns: All fields but the last ones, and perhaps more.
        more: What gives each of those last fields, in their order, given the window, when it is asked for.
    """
    fields = [name for name in cast("Any", kind).__struct_fields__ if name not in more]
    rows = [columns[name] for name in fields]
    works = [(lambda k, work=work: work(windows[k])) for work in more.values()]

    def one(k: int) -> T:
        return kind(*[row.item(k) for row in rows], *[Deferred(partial(work, k)) for work in works])

    known = more.keys() <= cast("Any", kind).tables.keys()  # but for lists all are columns
    return OnDemand(len(windows), one, (lambda: plain_rows(dict(zip(fields, rows, strict=True)))) if known else None)


def of_lists(windows: Sequence[Window], make: Callable[[int], T]) -> OnDemand[T]:
    """Results of windows, by their indices, that consist of lists alone: without these the machine output says nothing of them."""
    return OnDemand(len(windows), make, lambda: repeat({}, len(windows)))


def plain_rows(columns: Mapping[str, NDArray[Any] | Iterable[Any]]) -> Iterator[dict[str, Any]]:
    """Columns as rows of the machine output, by their names; few are held at once."""
    named = [entries(column) if isinstance(column, np.ndarray) else column for column in columns.values()]
    return (dict(zip(columns, row, strict=True)) for row in zip(*named, strict=True))


def entries(column: NDArray[Any]) -> Iterator[Any]:
    """The entries of a column, as Python has them; few are held at once."""
    return chain.from_iterable(column[start:stop].tolist() for start, stop in walk(0, len(column), _LISTED))
