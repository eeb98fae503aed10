"""Two series of windows aligned in order by what they do: which pairs are most alike, at few changes of the numbering."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.work import likeness

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.work import Work

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float32]
    Ints = NDArray[np.int64]

__all__ = ["Series", "in_order"]

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


@dataclass(frozen=True, eq=False)
class Series:
    """The windows of one run as they are aligned, one entry each.

    Attributes:
        work: What they do.
        kind: The kind of their names, int64; only windows of one kind pair.
        informative: Whether what a window does says anything: it holds events, and is not open; bool.
    """

    work: Work
    kind: Ints
    informative: Bools

    def __len__(self) -> int:
        return len(self.kind)


def in_order(base: Series, head: Series, named: Ints) -> list[tuple[int, int]]:
    """The pairs of the best alignment in order, of windows of one kind.

    The best one has the highest sum of what pairs gain, less what runs of windows without a partner cost.  Windows of one run
    that are left at the end cost nothing: the other run is shorter.

    Args:
        base: Windows of one run; best the shorter one, a step in Python each.
        head: Windows of the other run.
        named: For each window of base the one of head that has its name, -1 for none, int64.
    """
    if not len(base) or not len(head):
        return []
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
    """Which part of the table is worked out: column ``row + low`` and so many more, in each row; the whole, where it is not large."""
    more = columns - rows
    # Both ends of the series are in it, unless one is longer by far.
    wanted = max(_CELLS // rows, min(abs(more) + _BESIDE, _MOST_CELLS // rows), 3)
    width = min(rows + columns + 1, wanted)
    beside = (width - abs(more)) // 2
    return (min(more, 0) - beside if beside > 0 else -(width // 2)), width


def _table(base: Series, head: Series, named: Ints, low: int, width: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """How the best way to each cell goes, uint8, and the cell at which the best alignment ends.

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
    """What the pairs of each row gain, float32."""
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
