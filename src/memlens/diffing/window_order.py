"""Two series of windows aligned in order: by equal names, or by what they do, at few changes of the numbering.

What windows do is told in figures that mean something across runs: which sizes they allocate and free, and how often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from memlens.columns import Symbols
from memlens.diffing.alignment.align import align
from memlens.events import BATCH, Kind
from memlens.folding import bounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.windows.windows import Window

    Floats = NDArray[np.float32]


#: Sizes are told apart by so many bits of a hash, ALLOCs and FREEs apart.
_BITS = 7
#: What a FREE counts beside an ALLOC.
_FREE = 0.25
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
#: Below it is what rounding leaves of 1 - 1.
_ROUNDING = 1e-5
#: Entries of the table that are worked out; of longer series a band of it, as wide as this allows.
_CELLS, _MOST_CELLS, _BESIDE = 16_000_000, 64_000_000, 256
#: So alike are windows that do not do the same work by chance: a pair gains what it is above, and loses what it is below.
_BY_CHANCE = 0.25
#: What a run of windows without a partner costs, and each window of it; a pair of windows that do the same gains 0.75.
_OPENING, _EACH = 0.75, 0.25
#: What an equal name is worth, so that windows which are all alike pair by it.
_NAME = 0.02
#: Rows whose likenesses are worked out at once.
_ROWS = 64
_NEVER = np.float32(-np.inf)

# How the best way to a cell ends: with a pair, with a window of base alone, with a window of head alone.
_PAIR, _ROW, _COLUMN = 0, 1, 2
_ENDING, _ROW_GOES_ON, _COLUMN_GOES_ON, _COLUMN_AFTER_ROW = 3, 4, 8, 16


def longest_common(base: Sequence[Any], head: Sequence[Any]) -> list[tuple[int, int]]:
    """A longest common subsequence of two sequences of what can be ordered, as pairs of positions: their alignment, where each entry costs the same."""
    numbers = {name: number for number, name in enumerate(sorted({*base, *head}))}
    sides, starts = [], []
    for names in (base, head):
        key, nothing = np.array([numbers[name] for name in names], np.int32), np.zeros(len(names), np.uint64)
        sides.append(Symbols(key, nothing.astype(np.bool_), np.ones(len(names), np.int64), nothing))
        starts.append(np.array([0, len(names)]))
    partner = align(sides[0], sides[1], starts[0], starts[1]).partner
    paired = np.flatnonzero(partner >= 0)
    return list(zip(paired.tolist(), partner[paired].tolist(), strict=True))


class Work(Struct, frozen=True, eq=False):
    """The work of the windows of one run, one row a window.

    Attributes:
        roots: Square roots of the shares that sizes have in the ALLOCs and FREEs of a window, float32, a column a bucket of sizes.
            An event counts by the logarithm of its size, so that one large tensor does not outweigh all others, and a FREE
            for a part of an ALLOC, for frees are what regressions lose.
        total: What the events count together, float32; 0 for a window without any.
        counts: ALLOCs and FREEs, int64, two columns.
    """

    roots: Floats
    total: Floats
    counts: Ints

    @classmethod
    def of(cls, windows: Sequence[Window]) -> Work:
        """The work of windows of one log.

        Args:
            windows: In file order, none overlapping another; at least one.
        """
        log, lo, hi = bounds(windows)
        weights, counts = np.zeros(len(windows) << _BITS, np.float64), np.zeros(2 * len(windows), np.int64)
        for begin in range(int(lo[0]), int(hi[-1]), BATCH):
            end = min(begin + BATCH, int(hi[-1]))
            window = np.searchsorted(lo, np.arange(begin, end), "right") - 1
            taken = (log.kind[begin:end] <= Kind.FREE) & (np.arange(begin, end) < hi[window])
            window, size = window[taken], log.size[begin:end][taken]
            free = log.kind[begin:end][taken] == Kind.FREE
            bucket = ((2 * size + free).view(np.uint64) * _GOLDEN >> np.uint64(64 - _BITS)).astype(np.int64)
            counts += np.bincount(2 * window + free, minlength=len(counts))
            if len(window):
                here = slice(int(window[0]) << _BITS, int(window[-1]) + 1 << _BITS)
                weight = np.log2(size + 2.0) * np.where(free, _FREE, 1)
                places = (window << _BITS) + bucket - here.start
                weights[here] += np.bincount(places, weight, here.stop - here.start)
        table = weights.reshape(len(windows), -1)
        total = table.sum(axis=1)
        shares = table / np.maximum(total, 1)[:, None]
        return cls(np.sqrt(shares).astype(np.float32), total.astype(np.float32), counts.reshape(-1, 2))

    def take(self, places: Ints | slice) -> Work:
        """Some of the windows, in the order given."""
        return Work(self.roots[places], self.total[places], self.counts[places])


def likeness(common: Floats, total: Floats, other_total: Floats) -> Floats:
    """Return how much two windows do the same: 1 for the same sizes equally often, 0 where no size is in both.

    It is one less the Hellinger distance of the two mixes of sizes, where unequal amounts of work count like unequal mixes.

    Args:
        common: The inner products of the ``roots`` of the two, any shape.
        total: The ``total`` of the one, of a shape that broadcasts to it.
        other_total: That of the other.
    """
    found = np.minimum(total, other_total)
    found /= np.maximum(np.maximum(total, other_total), 1)
    found *= common
    # In place: of very many windows this is what takes the time.
    np.subtract(1, found, out=found)
    found *= found >= _ROUNDING
    np.sqrt(found, out=found)
    np.subtract(1, found, out=found)
    return found


class Series(Struct, frozen=True, eq=False):
    """The windows of one run as they are aligned, one entry each.

    Attributes:
        work: What they do.
        kind: The kind of their names, int64; only windows of one kind pair.
        informative: Whether what a window does says anything: it holds events, and is not open; bool.
        names: Their names, as they stand in the log.
    """

    work: Work
    kind: Ints
    informative: Flags
    names: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.kind)


def in_order(base: Series, head: Series, named: Ints) -> list[tuple[int, int]]:
    """The pairs of the best alignment in order, of windows of one kind.

    The best one has the highest sum of what pairs gain, less what runs of windows without a partner cost.  Windows of one run
    that are left at the end cost nothing: the other run is shorter.

    Args:
        base: Windows of one run; not empty, best the shorter one, a step in Python each.
        head: Windows of the other run; not empty.
        named: For each window of base the one of head that has its name, -1 for none, int64.
    """
    low, width = _band(len(base), len(head))
    ways, end = _table(base, head, named, low, width)
    pairs = []
    i, k = end
    state = int(ways[i, k]) & _ENDING
    while i >= 0 and i + low + k >= 0:
        way = int(ways[i, k])
        if state == _PAIR:
            pairs.append((i, i + low + k))
            i -= 1
            state = int(ways[i, k]) & _ENDING if i >= 0 else _PAIR
        elif state == _ROW:
            i, k = i - 1, k + 1
            if i >= 0 and not way & _ROW_GOES_ON:
                state = int(ways[i, k]) & _ENDING
        else:
            k -= 1
            if not way & _COLUMN_GOES_ON:
                state = _ROW if way & _COLUMN_AFTER_ROW else _PAIR
    return pairs[::-1]


def _band(rows: int, columns: int) -> tuple[int, int]:
    """Return the part of the table that is worked out: column ``row + low`` and so many more, in each row; the whole, where it is not large."""
    more = columns - rows
    # Both ends of the series are in it, unless one is longer by far.
    wanted = max(_CELLS // rows, min(abs(more) + _BESIDE, _MOST_CELLS // rows), 3)
    width = min(rows + columns + 1, wanted)
    beside = (width - abs(more)) // 2
    return (min(more, 0) - beside if beside > 0 else -(width // 2)), width


def _table(base: Series, head: Series, named: Ints, low: int, width: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """Return how the best way to each cell goes, uint8, and the cell at which the best alignment ends.

    Cell ``k`` of row ``i`` stands for the windows of base up to ``i`` and those of head up to ``i + low + k``.
    """
    ways = np.zeros((len(base), width), np.uint8)
    cell = np.arange(width, dtype=np.int64)
    along = (_EACH * cell).astype(np.float32)
    # Before the first row: windows of head alone, column -1 being none.
    column = cell + low - 1
    best = np.where(column < -1, _NEVER, -(_OPENING * (column >= 0) + _EACH * (column + 1))).astype(np.float32)
    best[column >= len(head)] = _NEVER
    alone = np.full(width, _NEVER, np.float32)
    pair, after, before = (np.full(width, _NEVER, np.float32) for _ in range(3))
    highest, end = _NEVER, (0, 0)
    for i, gains in enumerate(_gains(base, head, named, low, width)):
        np.add(best, gains, out=pair)
        # A window of base alone: from the row above, one cell further on.
        goes_on = alone[1:] > best[1:] - _OPENING
        after[:-1] = np.where(goes_on, alone[1:], best[1:] - np.float32(_OPENING)) - np.float32(_EACH)
        alone, after = after, alone
        after_row = alone > pair
        either = np.maximum(pair, alone)
        # A window of head alone: from any cell before, in this row.
        reach = np.maximum.accumulate(either + along)
        before[1:] = reach[:-1] - along[1:] - np.float32(_OPENING)
        before[: max(-low - i, 0)] = _NEVER
        before[max(len(head) - low - i, 0) :] = _NEVER
        best = np.maximum(either, before)
        way = ways[i]
        np.multiply(before > either, _COLUMN, out=way, casting="unsafe")
        way[(before <= either) & after_row] = _ROW
        way[:-1] |= goes_on.astype(np.uint8) * _ROW_GOES_ON
        way[1:] |= (reach[:-1] > either[:-1] + along[:-1]).astype(np.uint8) * _COLUMN_GOES_ON
        way[1:] |= after_row[:-1].astype(np.uint8) * _COLUMN_AFTER_ROW
        last = len(head) - 1 - low - i
        if 0 <= last < width and best[last] > highest:
            highest, end = best[last], (i, last)
    if best.max() > highest:
        end = len(base) - 1, int(best.argmax())
    return ways, end


def _gains(base: Series, head: Series, named: Ints, low: int, width: int) -> Iterator[Floats]:
    """Yield the gains of the pairs of each row, float32."""
    for first in range(0, len(base), _ROWS):
        rows = slice(first, min(first + _ROWS, len(base)))
        begin = max(first + low, 0)
        columns = slice(begin, max(min(rows.stop + low + width, len(head)), begin))
        ours, theirs = base.work.take(rows), head.work.take(columns)
        gains = likeness(ours.roots @ theirs.roots.T, ours.total[:, None], theirs.total[None, :]) - np.float32(
            _BY_CHANCE
        )
        if not (base.informative[rows].all() and head.informative[columns].all()):
            gains[~(base.informative[rows, None] & head.informative[None, columns])] = 0
        if not (base.kind[rows] == base.kind[first]).all() or not (head.kind[columns] == base.kind[first]).all():
            gains[base.kind[rows, None] != head.kind[None, columns]] = _NEVER
        for i, row in enumerate(gains, first):
            if begin <= named[i] < columns.stop:
                row[named[i] - begin] += np.float32(_NAME)
            found = np.full(width, _NEVER, np.float32)
            start = i + low
            lo, hi = max(start, begin), min(start + width, columns.stop)
            if lo < hi:
                found[lo - start : hi - start] = row[lo - begin : hi - begin]
            yield found
