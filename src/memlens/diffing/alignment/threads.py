"""The blocks of windows aligned in their order: that of the whole window, or that of each thread where this is cheaper.

How threads interleave is chance, and so are their ids.  Each thread of base pairs with at most one of head, such that aligning the
threads on their own costs least: those that do the same pair first (no other pairing can be cheaper, for costs obey the triangle
inequality), the others by a table of what each two of them save.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.columns import Symbols, mix
from memlens.diffing.alignment.align import Inexact, align
from memlens.diffing.alignment.blocks import as_symbols, unordered_costs
from memlens.diffing.alignment.costs import ALONE, PAIRED, savings
from memlens.diffing.alignment.indices import nth_with_nth, spans, unpaired

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.alignment.blocks import Blocks, Keys

    Flags = NDArray[np.bool_]
    Ints = NDArray[np.int64]
    IntsOfBoth = tuple[Ints, Ints]

__all__ = ["Ordered", "align_windows"]

#: Entries of the sequences that are laid out at once to align every thread of base with every one of head, at most.
_LAID_OUT = 1 << 22
#: Cells that are filled for the threads of one window, at most.
_CELLS = 1 << 27
#: Where either is too much, those threads pair that share most grams of so many symbols, counted in so many bins.
_GRAM, _BINS = 3, 1 << 10


@dataclass(frozen=True, eq=False)
class Ordered:
    """Who pairs with whom in order.

    Attributes:
        partner: For each block of base its place in head, -1 where it is unpaired, int64.
        half_costs: The cost of each window's alignment in half bytes, int64.
        inexact: By number of the window, what was not aligned as a whole; excess in half bytes.
        threads: How many pairs of threads of each window were aligned on their own; 0: the window was aligned as a whole, int64.
        sequences: For each block of base, and of head, the number of the sequence that it was aligned in, int64.
    """

    partner: Ints
    half_costs: Ints
    inexact: Mapping[int, Inexact]
    threads: Ints
    sequences: tuple[Ints, Ints]


def align_windows(base: Blocks, head: Blocks, keys: Keys, *, threads: bool) -> Ordered:
    """Align the blocks of each window of base with those of head's.

    Args:
        base: Base's blocks.
        head: Head's blocks.
        keys: What may pair.
        threads: Both logs tell threads apart.
    """
    symbols = as_symbols(keys, base, head)
    found = align(*symbols, base.starts, head.starts)
    whole = Ordered(
        found.partner,
        _half_costs(base, head, found.partner),
        {window: part._replace(excess=part.excess * keys.unit) for window, part in found.inexact.items()},
        np.zeros(len(base.starts) - 1, np.int64),
        (base.window, head.window),
    )
    if not threads:
        return whole
    # No alignment is cheaper than the one that does not look at the order.
    least = unordered_costs(keys, base, head)
    several = whole.half_costs > least
    for blocks in (base, head):
        first = blocks.thread[np.minimum(blocks.starts[:-1], len(blocks) - 1)] if len(blocks) else blocks.thread
        several &= blocks.sums(blocks.thread != first[blocks.window]) > 0
    return _by_thread(whole, base, head, keys, symbols, several, least) if several.any() else whole


def _by_thread(
    whole: Ordered,
    base: Blocks,
    head: Blocks,
    keys: Keys,
    symbols: tuple[Symbols, Symbols],
    several: Flags,
    least: Ints,
) -> Ordered:
    """The threads of some windows on their own where that is cheaper, the other windows as they were."""
    programs = _pair_threads(base, head, symbols, several)
    left, right = programs.blocks
    found = align(symbols[0].take(left), symbols[1].take(right), *programs.starts)
    pairs = np.flatnonzero(found.partner >= 0)
    partner = np.full(len(base), -1, np.int64)
    partner[left[pairs]] = right[found.partner[pairs]]
    costs = _half_costs(base, head, partner)
    lengths = [np.diff(starts) for starts in programs.starts]
    threads = np.bincount(programs.window[(lengths[0] > 0) & (lengths[1] > 0)], minlength=len(costs))
    inexact: dict[int, Inexact] = {}
    for number, part in found.inexact.items():
        window = int(programs.window[number])
        inexact[window] = part._replace(excess=part.excess * keys.unit).plus(inexact.get(window))
    for window in programs.guessed:
        # Other pairs of threads may be cheaper.
        entries = int(np.diff(base.starts)[window] + np.diff(head.starts)[window])
        inexact[window] = Inexact(entries, int(threads[window]), 0, int(costs[window] - least[window]))
    taken = several & (costs < whole.half_costs)
    half_costs = np.where(taken, costs, whole.half_costs)
    sequences = tuple(of.copy() for of in whole.sequences)
    for numbers, blocks, own in zip(sequences, programs.blocks, lengths, strict=True):
        # Numbers of their own, after those of the windows.
        of_thread = np.repeat(np.arange(len(own)), own)
        mine = taken[programs.window[of_thread]]
        numbers[blocks[mine]] = of_thread[mine] + len(costs)
    return Ordered(
        np.where(taken[base.window], partner, whole.partner),
        half_costs,
        _joined(whole, costs, inexact, taken, half_costs),
        np.where(taken, threads, 0),
        (sequences[0], sequences[1]),
    )


def _joined(
    whole: Ordered, costs: Ints, inexact: Mapping[int, Inexact], taken: Flags, half_costs: Ints
) -> dict[int, Inexact]:
    """What is not exact about the cheaper one of two alignments: either may have missed what is cheaper still."""
    found: dict[int, Inexact] = {}
    for window in sorted({*whole.inexact, *inexact}):
        both = inexact.get(window), whole.inexact.get(window)
        lowest = int(whole.half_costs[window]) - (both[1].excess if both[1] else 0)
        if taken[window] or both[0]:
            lowest = min(lowest, int(costs[window]) - (both[0].excess if both[0] else 0))
        own, other = both if taken[window] else both[::-1]
        excess = int(half_costs[window]) - lowest
        part = own or other
        if part and (own or excess):
            found[window] = part._replace(excess=excess)
    return found


def _half_costs(base: Blocks, head: Blocks, partner: Ints) -> Ints:
    """What the alignment of each window costs, in half bytes."""
    fates = base.held.astype(np.intp), head.held.astype(np.intp)
    of_base, of_head = ALONE[fates[0]] * base.size, ALONE[fates[1]] * head.size
    paired = np.flatnonzero(partner >= 0)
    of_base[paired] = PAIRED[fates[0][paired], fates[1][partner[paired]]] * base.size[paired]
    of_head[partner[paired]] = 0
    return base.sums(of_base) + head.sums(of_head)


class _Programs(NamedTuple):
    """The blocks of some windows by thread: sequence ``k`` of base and of head are one pair of threads, or one without a partner.

    Attributes:
        blocks: Indices of base's blocks and of head's, one sequence after the other, int64 each.
        starts: Where each sequence begins and where the last one ends, likewise.
        window: The window of each sequence, int64.
        guessed: Windows whose threads are too long to be paired by what they save: by what they share.
    """

    blocks: IntsOfBoth
    starts: IntsOfBoth
    window: Ints
    guessed: list[int]


@dataclass(frozen=True, eq=False)
class _Threads:
    """The threads of one run's windows, in order of their first block.

    Attributes:
        symbols: The blocks of the run.
        blocks: Indices of the threads' blocks, one thread after the other, int64.
        starts: Where each thread's begin and where the last one's end, int64.
        window: The window of each thread, int64.
        look: What each one does, keys and fates in order, as one word, uint64.
    """

    symbols: Symbols
    blocks: Ints
    starts: Ints
    window: Ints
    look: NDArray[np.uint64]

    @classmethod
    def of(cls, blocks: Blocks, symbols: Symbols, windows: Flags) -> _Threads:
        """The threads of the windows that a mask chooses."""
        own = np.flatnonzero(windows[blocks.window])
        window = blocks.window[own]
        _, thread = np.unique(blocks.thread[own], return_inverse=True)
        _, first, number = np.unique(window * (len(own) + 1) + thread, return_index=True, return_inverse=True)
        number = np.argsort(np.argsort(first))[number]  # by their first block, not by their ids
        order = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[order], np.arange(len(first) + 1))
        own = own[order]
        within = np.arange(len(own)) - np.repeat(starts[:-1], np.diff(starts))
        word = mix(mix(_words(symbols, own)) ^ within.astype(np.uint64))
        sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(word)))
        return cls(symbols, own, starts, window[order][starts[:-1]], np.diff(sums[starts]))

    def blocks_of(self, threads: Ints) -> IntsOfBoth:
        """The blocks of some threads (-1 has none), thread by thread, and where each one's begin and the last one's end."""
        lengths = np.where(threads >= 0, np.diff(self.starts)[threads], 0)
        starts = np.concatenate(([0], np.cumsum(lengths)))
        return self.blocks[spans(self.starts[threads], lengths)], starts

    def in_window(self, window: int, among: Ints) -> Ints:
        """The threads of a window among some, in an order that depends on nothing but what they do."""
        threads = among[self.window[among] == window]
        ordered: Ints = threads[np.argsort(self.look[threads], kind="stable")]
        return ordered


def _words(symbols: Symbols, at: Ints) -> NDArray[np.uint64]:
    """Key and fate of some blocks as one word."""
    word: NDArray[np.uint64] = (symbols.key[at].astype(np.uint64) << np.uint64(1)) | symbols.held[at]
    return word


def _pair_threads(base: Blocks, head: Blocks, symbols: tuple[Symbols, Symbols], windows: Flags) -> _Programs:
    """Pair the threads of the windows that a mask chooses, window by window."""
    sides = _Threads.of(base, symbols[0], windows), _Threads.of(head, symbols[1], windows)
    # The window is mixed into the word, so that only threads of one window meet.
    looks = [(side.look ^ mix(side.window.astype(np.uint64))).view(np.int64) for side in sides]
    pairs = [nth_with_nth(looks[0], looks[1])]
    left, right = (unpaired(taken, len(side.window)) for side, taken in zip(sides, pairs[0], strict=True))
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
    left, right = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    # After the pairs the threads that are in none.
    alone, alone_too = (unpaired(own, len(side.window)) for side, own in zip(sides, (left, right), strict=True))
    left = np.concatenate((left, alone, np.full(len(alone_too), -1)))
    right = np.concatenate((right, np.full(len(alone), -1), alone_too))
    (base_blocks, base_starts), (head_blocks, head_starts) = sides[0].blocks_of(left), sides[1].blocks_of(right)
    window = np.where(left >= 0, sides[0].window[left], sides[1].window[right])
    return _Programs((base_blocks, head_blocks), (base_starts, head_starts), window, guessed)


def _tables(sides: tuple[_Threads, _Threads], tables: Sequence[IntsOfBoth]) -> Iterator[tuple[IntsOfBoth, Ints, bool]]:
    """What each thread of base saves with each of head, window by window, int64 (of base, of head), and whether that is exact."""
    batch: list[IntsOfBoth] = []
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


def _aligned(sides: tuple[_Threads, _Threads], tables: Sequence[IntsOfBoth]) -> Iterator[tuple[IntsOfBoth, Ints, bool]]:
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


def _shared_grams(sides: tuple[_Threads, _Threads], table: IntsOfBoth) -> Ints:
    """Instead of what threads save, for those that are too long: the bytes of the grams that they share."""
    counts = []
    for side, threads in zip(sides, table, strict=True):
        blocks, starts = side.blocks_of(threads)
        word = _words(side.symbols, blocks)
        gram = word.copy()
        for step in range(1, _GRAM):
            gram[:-step] = mix(gram[:-step]) ^ word[step:]
        row = np.repeat(np.arange(len(threads)), np.diff(starts)) * _BINS
        bins = row + (mix(gram) & np.uint64(_BINS - 1)).astype(np.int64)
        count = np.zeros(len(threads) * _BINS, np.int64)
        np.add.at(count, bins, side.symbols.weight[blocks])
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
