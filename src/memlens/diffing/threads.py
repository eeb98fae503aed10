"""Windows of several threads as the programs of their threads, which pair by what they do.

How threads interleave is chance, and so are their ids.  Each thread of base pairs with at most one of head, such that aligning the
threads on their own costs least: those that do the same pair first (no other pairing can be cheaper, for costs obey the triangle
inequality), the others by a table of what each two of them save.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import Symbols, mix
from memlens.diffing.align import align
from memlens.diffing.blocks import nth_with_nth
from memlens.diffing.costs import savings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.blocks import Blocks

    Ints = NDArray[np.int64]

__all__ = ["Programs", "pair_threads"]

#: Entries of the sequences that are laid out at once to align every thread of base with every one of head, at most.
_LAID_OUT = 1 << 22
#: Cells that are filled for the threads of one window, at most.
_CELLS = 1 << 27
#: Where either is too much, those threads pair that share most grams of so many symbols, counted in so many bins.
_GRAM, _BINS = 3, 1 << 10


@dataclass(frozen=True, eq=False)
class Programs:
    """The blocks of some windows by thread: sequence ``k`` of base and of head are one pair of threads, or one without a partner.

    Attributes:
        places: Places of base's blocks and of head's, one sequence after the other, int64 each.
        starts: Where each sequence begins and where the last one ends, likewise.
        window: The window of each sequence, int64.
        guessed: Windows whose threads are too long to be paired by what they save: by what they share.
    """

    places: tuple[Ints, Ints]
    starts: tuple[Ints, Ints]
    window: Ints
    guessed: tuple[int, ...]

    @property
    def paired(self) -> NDArray[np.bool_]:
        """Which sequences have blocks on both sides."""
        left, right = (np.diff(starts) > 0 for starts in self.starts)
        return left & right

    def numbers(self, side: int) -> Ints:
        """The sequence of each of base's blocks (0) or of head's (1), as they are laid out, int64."""
        return np.repeat(np.arange(len(self.window)), np.diff(self.starts[side]))


@dataclass(frozen=True, eq=False)
class _Threads:
    """The threads of one run's windows, in order of their first block.

    Attributes:
        symbols: The blocks of the run.
        places: Places of the threads' blocks, one thread after the other, int64.
        starts: Where each thread's begin and where the last one's end, int64.
        window: The window of each thread, int64.
        look: What each one does, keys and fates in order, as one word, uint64.
    """

    symbols: Symbols
    places: Ints
    starts: Ints
    window: Ints
    look: NDArray[np.uint64]

    @classmethod
    def of(cls, blocks: Blocks, symbols: Symbols, windows: NDArray[np.bool_]) -> _Threads:
        """The threads of the windows that a mask chooses."""
        places = np.flatnonzero(windows[blocks.window])
        window = blocks.window[places]
        _, thread = np.unique(blocks.thread[places], return_inverse=True)
        _, first, number = np.unique(window * (len(places) + 1) + thread, return_index=True, return_inverse=True)
        number = np.argsort(np.argsort(first))[number]  # by their first block, not by their ids
        order = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[order], np.arange(len(first) + 1))
        places = places[order]
        word = (symbols.key[places].astype(np.uint64) << np.uint64(1)) | symbols.held[places]
        within = np.arange(len(places)) - np.repeat(starts[:-1], np.diff(starts))
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mix(mix(word) ^ within.astype(np.uint64)))))
        return cls(symbols, places, starts, window[order][starts[:-1]], np.diff(sums[starts]))

    def __len__(self) -> int:
        return len(self.window)

    def blocks_of(self, threads: Ints) -> tuple[Ints, Ints]:
        """The places of some threads' blocks, thread by thread, and where each one's begin and the last one's end."""
        lengths = np.diff(self.starts)[threads]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        return self.places[np.arange(starts[-1]) + np.repeat(self.starts[threads] - starts[:-1], lengths)], starts

    def in_window(self, window: int, among: Ints) -> Ints:
        """The threads of a window among some, in an order that depends on nothing but what they do."""
        threads = among[self.window[among] == window]
        ordered: Ints = threads[np.argsort(self.look[threads], kind="stable")]
        return ordered


def pair_threads(base: Blocks, head: Blocks, symbols: tuple[Symbols, Symbols], windows: NDArray[np.bool_]) -> Programs:
    """Pair the threads of windows, window by window.

    Args:
        base: Base's blocks; its log tells threads apart.
        head: Head's blocks; likewise.
        symbols: Base's and head's blocks as symbols.
        windows: Which windows to look at, a mask.
    """
    sides = _Threads.of(base, symbols[0], windows), _Threads.of(head, symbols[1], windows)
    # The window is mixed into the word, so that only threads of one window meet.
    looks = [(side.look ^ mix(side.window.astype(np.uint64))).view(np.int64) for side in sides]
    pairs = [nth_with_nth(looks[0], looks[1])]
    left, right = (_without(len(side), taken) for side, taken in zip(sides, pairs[0], strict=True))
    both = np.intersect1d(sides[0].window[left], sides[1].window[right])
    tables = [(sides[0].in_window(window, left), sides[1].in_window(window, right)) for window in both.tolist()]
    guessed = []
    for (of_base, of_head), saved, exact in _tables(sides, tables):
        if not exact:
            guessed.append(int(sides[0].window[of_base[0]]))
        # In an order that does not depend on which run is base, so that turning the comparison round gives the same pairs.
        ranks = [(len(own), side.look[own].tolist()) for side, own in zip(sides, (of_base, of_head), strict=True)]
        if ranks[0] <= ranks[1]:
            pairs.append((of_base, of_head[_assign(saved)]))
        else:
            pairs.append((of_base[_assign(saved.T)], of_head))
    chosen = [np.concatenate([pair[side] for pair in pairs]) for side in (0, 1)]
    return _programs(sides, chosen[0], chosen[1], tuple(guessed))


def _without(count: int, taken: Ints) -> Ints:
    """The numbers below ``count`` that are not taken."""
    return np.setdiff1d(np.arange(count), taken, assume_unique=True)


def _programs(sides: tuple[_Threads, _Threads], left: Ints, right: Ints, guessed: tuple[int, ...]) -> Programs:
    """Pairs of threads, and after them the threads that are in none."""
    alone = _without(len(sides[0]), left), _without(len(sides[1]), right)
    window = np.concatenate((sides[0].window[left], sides[0].window[alone[0]], sides[1].window[alone[1]]))
    base, base_starts = sides[0].blocks_of(np.concatenate((left, alone[0])))
    head, head_starts = sides[1].blocks_of(np.concatenate((right, alone[1])))
    return Programs(
        (base, head),
        (
            np.concatenate((base_starts, np.repeat(base_starts[-1:], len(alone[1])))),
            np.concatenate((head_starts[: len(right) + 1], np.repeat(head_starts[len(right)], len(alone[0])),
                            head_starts[len(right) + 1 :])),
        ),
        window,
        guessed,
    )  # fmt: skip


_Pair = tuple["Ints", "Ints"]


def _tables(sides: tuple[_Threads, _Threads], tables: Sequence[_Pair]) -> Iterator[tuple[_Pair, Ints, bool]]:
    """What each thread of base saves with each of head, window by window, int64 (of base, of head), and whether that is exact."""
    batch: list[_Pair] = []
    laid_out = 0
    for table in tables:
        blocks = [int(np.diff(side.starts)[own].sum()) for side, own in zip(sides, table, strict=True)]
        entries = blocks[0] * len(table[1]) + blocks[1] * len(table[0])
        if len(table[0]) == len(table[1]) == 1:
            yield table, np.zeros((1, 1), np.int64), True
            continue
        if entries > _LAID_OUT or blocks[0] * blocks[1] > _CELLS:
            yield table, _shared_grams(sides, table), False
            continue
        if laid_out + entries > _LAID_OUT:
            yield from _aligned(sides, batch)
            batch, laid_out = [], 0
        batch.append(table)
        laid_out += entries
    if batch:
        yield from _aligned(sides, batch)


def _aligned(sides: tuple[_Threads, _Threads], tables: Sequence[_Pair]) -> Iterator[tuple[_Pair, Ints, bool]]:
    """The same, by aligning each of base's threads with each of head's."""
    left, left_starts = sides[0].blocks_of(np.concatenate([np.repeat(one, len(two)) for one, two in tables]))
    right, right_starts = sides[1].blocks_of(np.concatenate([np.tile(two, len(one)) for one, two in tables]))
    base, head = sides[0].symbols.take(left), sides[1].symbols.take(right)
    found = align(base, head, left_starts, right_starts)
    pairs = np.flatnonzero(found.partner >= 0)
    value = np.zeros(len(base) + 1, np.int64)
    value[pairs + 1] = savings(base, head, pairs, found.partner[pairs])
    saved = np.diff(np.cumsum(value)[left_starts])
    ends = np.cumsum([len(one) * len(two) for one, two in tables])
    for table, own in zip(tables, np.split(saved, ends[:-1]), strict=True):
        yield table, own.reshape(len(table[0]), len(table[1])), not found.inexact


def _shared_grams(sides: tuple[_Threads, _Threads], table: _Pair) -> Ints:
    """Instead of what threads save, for those that are too long: the bytes of the grams that they share."""
    counts = []
    for side, threads in zip(sides, table, strict=True):
        places, starts = side.blocks_of(threads)
        word = (side.symbols.key[places].astype(np.uint64) << np.uint64(1)) | side.symbols.held[places]
        gram = word.copy()
        for step in range(1, _GRAM):
            gram[:-step] = mix(gram[:-step]) ^ word[step:]
        row = np.repeat(np.arange(len(threads)), np.diff(starts)) * _BINS
        bins = row + (mix(gram) & np.uint64(_BINS - 1)).astype(np.int64)
        count = np.zeros(len(threads) * _BINS, np.int64)
        np.add.at(count, bins, side.symbols.weight[places])
        counts.append(count.reshape(-1, _BINS))
    return np.array([np.minimum(row, counts[1]).sum(axis=1) for row in counts[0]], np.int64)


def _assign(saved: Ints) -> Ints:
    """The column of each row, no two the same, so that most is saved in all (the Hungarian method); no more rows than columns."""
    rows, columns = saved.shape
    if columns == 1:
        return np.zeros(rows, np.int64)
    cost = np.zeros((rows + 1, columns + 1), np.int64)
    cost[1:, 1:] = saved.max() - saved
    of_row, of_column = np.zeros(rows + 1, np.int64), np.zeros(columns + 1, np.int64)  # the potentials
    row_at = np.zeros(columns + 1, np.int64)  # the row of each column, 0 for none; column 0 is where a new row starts
    for row in range(1, rows + 1):
        row_at[0], column = row, 0
        least = np.full(columns + 1, np.iinfo(np.int64).max)
        before, seen = np.zeros(columns + 1, np.int64), np.zeros(columns + 1, np.bool_)
        while row_at[column]:
            seen[column] = True
            reduced = cost[row_at[column]] - of_row[row_at[column]] - of_column
            better = ~seen & (reduced < least)
            least[better], before[better] = reduced[better], column
            nearest = int(np.where(seen, np.iinfo(np.int64).max, least).argmin())
            step = least[nearest]
            of_row[row_at[seen]] += step
            of_column[seen] -= step
            least[~seen] -= step
            column = nearest
        while column:
            row_at[column] = row_at[before[column]]
            column = int(before[column])
    taken = np.flatnonzero(row_at[1:])
    found = np.zeros(rows, np.int64)
    found[row_at[1:][taken] - 1] = taken
    return found
