"""The blocks of windows aligned in their order: that of the whole window, or that of each thread where this is cheaper.

How threads interleave is chance, and so are their ids.  Each thread of base pairs with at most one of head, such that aligning the
threads on their own costs least: those that do the same pair first (no other pairing can be cheaper, for costs obey the triangle
inequality), the others by a table of what each two of them save.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.columns import Flags, Ints, Symbols, Words, mix, spans
from memlens.diffing.alignment.align import Inexact, align, keys_and_fates
from memlens.diffing.alignment.blocks import Blocks, Keys, as_symbols, unordered_costs
from memlens.diffing.alignment.indices import batches, nth_with_nth, starts_of, unpaired
from memlens.diffing.alignment.tables import alone, savings_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    IntsOfBoth = tuple[Ints, Ints]


#: Entries of the sequences that are laid out at once to align every thread of base with every one of head, at most.
_LAID_OUT = 1 << 22
#: Cells that are filled for the threads of one window, at most.
_CELLS = 1 << 27
#: Where either is too much, those threads pair that share most grams of so many symbols, counted in so many bins.
_GRAM, _BINS = 3, 1 << 10


class Ordered(Struct, frozen=True, eq=False):
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


def align_windows(base: Blocks, head: Blocks, keys: Keys) -> Ordered:
    """Align the blocks of each window of base with those of head's.

    Args:
        base: Base's blocks.
        head: Head's blocks.
        keys: What may pair.
    """
    symbols = as_symbols(keys, base, head)
    found = align(*symbols, base.starts, head.starts)
    costs = _costs(base, head, symbols, found.partner)
    ordered = Ordered(found.partner, costs, found.inexact, np.zeros(len(costs), np.int64), (base.window, head.window))
    several = np.ones(len(costs), np.bool_)
    for blocks in (base, head):
        changes = (np.diff(blocks.thread) != 0) & (np.diff(blocks.window) == 0)
        several &= blocks.sums(np.append(False, changes)) > 0
    if several.any():
        ordered = _by_thread(ordered, base, head, keys, symbols, several)

    def in_half_bytes(part: Inexact) -> Inexact:
        return part._replace(excess=lambda: part.excess() * keys.unit)

    inexact = {window: in_half_bytes(part) for window, part in ordered.inexact.items()}
    return replace(ordered, half_costs=ordered.half_costs * keys.unit, inexact=inexact)


def _by_thread(
    whole: Ordered, base: Blocks, head: Blocks, keys: Keys, symbols: tuple[Symbols, Symbols], several: Flags
) -> Ordered:
    """The threads of some windows on their own where that is cheaper, the other windows as they were; costs in units of weight."""
    # No alignment is cheaper than the one that does not look at the order.
    least = unordered_costs(keys, base, head)
    several = several & (whole.half_costs > least)
    if not several.any():
        return whole
    sides = _Threads.of(base, symbols[0], several), _Threads.of(head, symbols[1], several)
    left, right, guessed = _pair_threads(sides)
    window = np.where(left >= 0, sides[0].window[left], sides[1].window[right])
    laid_out = [side.blocks_of(threads) for side, threads in zip(sides, (left, right), strict=True)]
    (of_base, base_starts), (of_head, head_starts) = laid_out
    found = align(symbols[0].take(of_base), symbols[1].take(of_head), base_starts, head_starts)
    pairs = np.flatnonzero(found.partner >= 0)
    partner = np.full(len(base), -1, np.int64)
    partner[of_base[pairs]] = of_head[found.partner[pairs]]
    costs = _costs(base, head, symbols, partner)
    threads = np.bincount(window[(left >= 0) & (right >= 0)], minlength=len(costs))
    inexact: dict[int, Inexact] = {}
    for number, part in found.inexact.items():
        inexact[int(window[number])] = part.plus(inexact.get(int(window[number])))
    for number in guessed:
        # Other pairs of threads may be cheaper.
        entries = int(np.diff(base.starts)[number] + np.diff(head.starts)[number])
        inexact[number] = Inexact(entries, int(threads[number]), 0, partial(int, costs[number] - least[number]))
    taken = several & (costs < whole.half_costs)
    sequences = base.window.copy(), head.window.copy()
    for numbers, (blocks, starts) in zip(sequences, laid_out, strict=True):
        # Numbers of their own, after those of the windows.
        of_thread = np.repeat(np.arange(len(window)), np.diff(starts))
        mine = taken[window[of_thread]]
        numbers[blocks[mine]] = of_thread[mine] + len(costs)
    return Ordered(
        np.where(taken[base.window], partner, whole.partner),
        np.where(taken, costs, whole.half_costs),
        _joined(whole, costs, inexact, taken, least),
        np.where(taken, threads, 0),
        sequences,
    )


def _joined(
    whole: Ordered, costs: Ints, inexact: Mapping[int, Inexact], taken: Flags, least: Ints
) -> dict[int, Inexact]:
    """Return the parts of the cheaper one of two alignments that are not exact: either may have missed what is cheaper still.

    None costs less than ``least``, so that is the end of looking for it.
    """

    def excess(window: int) -> int:
        parts = (costs, inexact.get(window)), (whole.half_costs, whole.inexact.get(window))
        cost = lowest = min(int(whole.half_costs[window]), int(costs[window]))
        for of, part in parts:
            if part and lowest > least[window]:
                lowest = min(lowest, int(of[window]) - part.excess())
        return cost - lowest

    found: dict[int, Inexact] = {}
    for window in {*whole.inexact, *inexact}:
        both = whole.inexact.get(window), inexact.get(window)
        own = both[int(taken[window])]
        part = own or both[0] or both[1]
        if part and (own or excess(window)):
            found[window] = part._replace(excess=partial(excess, window))
    return found


def _costs(base: Blocks, head: Blocks, symbols: tuple[Symbols, Symbols], partner: Ints) -> Ints:
    """Return the cost of the alignment of each window, in halves of a unit of weight."""
    saved = savings_of(*symbols, partner)
    return base.sums(alone(symbols[0]) - saved) + head.sums(alone(symbols[1]))


class _Threads(Struct, frozen=True, eq=False):
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
    look: Words

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
        word = mix(mix(keys_and_fates(symbols.take(own))) ^ within.astype(np.uint64))
        return cls(symbols, own, starts, window[order][starts[:-1]], np.add.reduceat(word, starts[:-1]))

    def blocks_of(self, threads: Ints) -> IntsOfBoth:
        """The blocks of some threads (-1 has none), thread by thread, and where each one's begin and the last one's end."""
        lengths = np.where(threads >= 0, np.diff(self.starts)[threads], 0)
        return self.blocks[spans(self.starts[threads], lengths)], starts_of(lengths)

    def in_window(self, window: int, among: Ints) -> Ints:
        """The threads of a window among some, in an order that depends on nothing but what they do."""
        threads = among[self.window[among] == window]
        ordered: Ints = threads[np.argsort(self.look[threads], kind="stable")]
        return ordered


def _pair_threads(sides: tuple[_Threads, _Threads]) -> tuple[Ints, Ints, list[int]]:
    """Pair the threads of base's windows and of head's, window by window.

    Returns:
        Threads of base and of head, -1 where one has no partner, int64; and the windows whose threads are too long to be paired by what
        they save: by what they share.
    """
    # The window is mixed into the word, so that only threads of one window meet.
    looks = [(side.look ^ mix(side.window.astype(np.uint64))).view(np.int64) for side in sides]
    pairs = [nth_with_nth(looks[0], looks[1])]
    left, right = (unpaired(taken, len(side.window)) for side, taken in zip(sides, pairs[0], strict=True))
    both = np.intersect1d(sides[0].window[left], sides[1].window[right])
    tables = [(sides[0].in_window(window, left), sides[1].in_window(window, right)) for window in both.tolist()]
    pairs += [table for table in tables if len(table[0]) == len(table[1]) == 1]
    guessed = []
    for (of_base, of_head), saved, exact in _tables(sides, [table for table in tables if max(map(len, table)) > 1]):
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
    return left, np.concatenate((right, np.full(len(alone), -1), alone_too)), guessed


def _tables(sides: tuple[_Threads, _Threads], tables: Sequence[IntsOfBoth]) -> Iterator[tuple[IntsOfBoth, Ints, bool]]:
    """Yield the savings of each thread of base with each of head, window by window, int64 (of base, of head), and whether they are exact."""
    short, entries = [], []
    for table in tables:
        blocks = [int(np.diff(side.starts)[own].sum()) for side, own in zip(sides, table, strict=True)]
        laid_out = blocks[0] * len(table[1]) + blocks[1] * len(table[0])
        if laid_out > _LAID_OUT or blocks[0] * blocks[1] > _CELLS:
            yield table, _shared_grams(sides, table), False
        else:
            short.append(table)
            entries.append(laid_out)
    for some in batches(entries, _LAID_OUT):
        yield from _aligned(sides, short[some])


def _aligned(sides: tuple[_Threads, _Threads], tables: Sequence[IntsOfBoth]) -> Iterator[tuple[IntsOfBoth, Ints, bool]]:
    """The same, by aligning each of base's threads with each of head's."""
    left, left_starts = sides[0].blocks_of(np.concatenate([np.repeat(one, len(two)) for one, two in tables]))
    right, right_starts = sides[1].blocks_of(np.concatenate([np.tile(two, len(one)) for one, two in tables]))
    base, head = sides[0].symbols.take(left), sides[1].symbols.take(right)
    found = align(base, head, left_starts, right_starts)
    saved = np.diff(starts_of(savings_of(base, head, found.partner))[left_starts])
    ends = np.cumsum([len(one) * len(two) for one, two in tables])
    for table, own in zip(tables, np.split(saved, ends[:-1]), strict=True):
        yield table, own.reshape(len(table[0]), len(table[1])), not found.inexact


def _shared_grams(sides: tuple[_Threads, _Threads], table: IntsOfBoth) -> Ints:
    """Instead of what threads save, for those that are too long: the bytes of the grams that they share."""
    counts = []
    for side, threads in zip(sides, table, strict=True):
        blocks, starts = side.blocks_of(threads)
        word = keys_and_fates(side.symbols.take(blocks))
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
