"""Indices into columns: stretches laid end to end, what meets by number, and what is left over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import Flags, Ints, Words, mix, rank_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


def starts_of(lengths: Ints | Flags) -> Ints:
    """Return where each of several stretches laid end to end begins, and where the last one ends: sums from 0 on, int64."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def batches(sizes: Sequence[int], most: int) -> Iterator[slice]:
    """Neighbouring entries to work on together: runs of as many as come to at most so much, or of a single one that is more."""
    start = total = 0
    for index, size in enumerate(sizes):
        if index > start and total + size > most:
            yield slice(start, index)
            start, total = index, 0
        total += size
    if sizes:
        yield slice(start, len(sizes))


def values_at(values: NDArray[np.integer | np.bool_], at: Ints, none: int = -1) -> Ints:
    """The values at some indices, and another one for -1, int64."""
    return np.where(at >= 0, values[at], none) if len(values) else np.full(len(at), none)


def unpaired(partner: Ints, heads: int) -> Ints:
    """Indices of head's entries, of so many, that are nobody's partner, rising, int64."""
    free = np.ones(heads, np.bool_)
    free[partner[partner >= 0]] = False
    return np.flatnonzero(free)


def partners_of(pairs: tuple[Ints, Ints], events: Ints) -> Ints:
    """Return what some numbers pair with, -1 for nothing; ``pairs`` are numbers of the one kind, and their partners."""
    if not len(pairs[0]):
        return np.full(len(events), -1)
    order = np.argsort(pairs[0], kind="stable")
    at = order[np.minimum(np.searchsorted(pairs[0][order], events), len(order) - 1)]
    return np.where(pairs[0][at] == events, pairs[1][at], -1)


def nth_with_nth(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return where two columns hold the same number: the first place with the first, the second with the second.

    Returns:
        Places in ``left`` and in ``right``, int64.
    """
    numbers, number = np.unique(np.concatenate((left, right)), return_inverse=True)
    one, two = (own + rank_of(own) * len(numbers) for own in np.split(number, [len(left)]))
    _, at_left, at_right = np.intersect1d(one, two, assume_unique=True, return_indices=True)
    return at_left, at_right


def grams(words: Words, length: int) -> Words:
    """So many words in a row as one, from each place on where there are so many: a polynomial of them modulo 2**64, mixed."""
    words, found = mix(words), np.zeros(max(len(words) - length + 1, 0), np.uint64)
    for step in range(length):
        found *= np.uint64(0x9E3779B97F4A7C15)
        found += words[step : step + len(found)]
    return mix(found)
