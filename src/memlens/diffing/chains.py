"""Where two long sequences run side by side: places that both have, chained at least change of *lag*.

A *gram* is so many symbols in a row.  The rarest gram of each stretch of the rows is looked for among the columns, and of the places
found there one is taken for each gram, or none, so that places rise on both sides.  How much further on a place is in the columns than in the
rows is its lag.  A change of lag means that so many symbols of one side have no partner, so the chain that wins is the one whose
grams cover the most symbols, less what its lag changes.  Most programs repeat a step thousands of times, and then each gram is found in every step: nothing
but the lag tells the steps apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.lanes import mix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Words = NDArray[np.uint64]

__all__ = ["side_by_side"]

#: Grams of the rows that are looked for at most.
_GRAMS = 1 << 13
#: Places in the columns that are kept for each, those nearest to where it would be if both sides had the same pace.
_PLACES = 32
#: A gram follows one of so many before it, or the best chain up to there.
_BACK = 24
#: A chain is trusted where the lag changes by no more than this share of the way from one gram to the next, or by so many.
_DRIFT, _JITTER = 0.125, 2


def side_by_side(rows: Words, columns: Words, gram: int) -> tuple[Ints, Ints]:
    """Places where both sequences say the same, and go on doing so before and after.

    Args:
        rows: The symbols of one sequence, in one word each.
        columns: Those of the other.
        gram: Symbols in a gram.

    Returns:
        Places in the rows and in the columns, int64, both rising: the middles of grams.
    """
    if min(len(rows), len(columns)) < gram:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # Stretches no shorter than a gram: one edit then takes one or two grams away, and the chain reaches over them.
    stretch = max(-(-len(rows) // _GRAMS), gram)
    at, places = _candidates(_grams(rows, gram), _grams(columns, gram), stretch, len(columns) / len(rows))
    chain = _chain(at, places, len(columns) - len(rows), gram)
    first = np.flatnonzero(chain >= 0)
    at, found = at[first], places[first, chain[first]]
    sure = _steady(at, found)
    return at[sure] + gram // 2, found[sure] + gram // 2


def _grams(words: Words, gram: int) -> Words:
    """The gram that begins at each place: a polynomial of its symbols modulo 2**64."""
    words, grams = mix(words), np.zeros(len(words) - gram + 1, np.uint64)
    for step in range(gram):
        grams *= np.uint64(0x9E3779B97F4A7C15)
        grams += words[step : step + len(grams)]
    return mix(grams)


def _candidates(rows: Words, columns: Words, stretch: int, pace: float) -> tuple[Ints, Ints]:
    """The rarest gram of each stretch of the rows, and where it may stand in the columns: int64 (n,) and (n, places), -1 for none."""
    order = np.argsort(columns, kind="stable")
    kinds, begins, often = np.unique(columns[order], return_index=True, return_counts=True)
    kind = np.minimum(np.searchsorted(kinds, rows), len(kinds) - 1)
    count = np.where(kinds[kind] == rows, often[kind], np.iinfo(np.int64).max)
    # The rarest of each stretch; of equally rare ones the first.
    padded = np.full(-(-len(rows) // stretch) * stretch, np.iinfo(np.int64).max)
    padded[: len(rows)] = count
    at = padded.reshape(-1, stretch).argmin(axis=1) + np.arange(0, len(padded), stretch)
    at = at[padded[at] < np.iinfo(np.int64).max]
    # Of each gram's places, which rise, those nearest to the expected one.
    lo, hi = begins[kind[at]], begins[kind[at]] + often[kind[at]]
    ranked = np.repeat(np.arange(len(kinds)), often) * np.int64(len(columns) + 1) + order
    middle = np.searchsorted(ranked, kind[at] * np.int64(len(columns) + 1) + (at * pace).astype(np.int64))
    first = np.clip(middle - _PLACES // 2, lo, np.maximum(hi - _PLACES, lo))
    chosen = first[:, None] + np.arange(_PLACES)
    return at, np.where(chosen < hi[:, None], order[np.minimum(chosen, len(order) - 1)], -1)


def _chain(at: Ints, places: Ints, last_lag: int, gram: int) -> Ints:
    """For each gram which of its places is on the best chain, -1 for none, int64."""
    n = len(at)
    never = -(1 << 50)
    lag = np.where(places >= 0, places - at[:, None], 0)
    # Every chain begins at lag 0, where both sequences do.
    score = np.where(places >= 0, gram - np.abs(lag), never)
    before = np.full(places.shape, -1, np.int64)  # (gram, place) as one number
    flat_places, flat_lag, flat_score = places.ravel(), lag.ravel(), score.ravel()
    best = -1
    for k in range(1, n):
        start = max(k - _BACK, 0) * _PLACES
        near = slice(start, k * _PLACES)
        # Grams that overlap cover no more than they take together.
        way = places[k][:, None] - flat_places[near]
        gain = flat_score[near] - np.abs(lag[k][:, None] - flat_lag[near])
        gain += np.minimum(np.minimum(way, np.repeat(at[k] - at[start // _PLACES : k], _PLACES)), gram)
        gain[way <= 0] = never
        which = gain.argmax(axis=1)
        value, origin = gain[np.arange(_PLACES), which], which + start
        if best >= 0:  # the best chain so far, if it ended longer ago
            way = np.minimum(places[k] - flat_places[best], at[k] - at[best // _PLACES])
            far = flat_score[best] - np.abs(lag[k] - flat_lag[best]) + np.minimum(way, gram)
            far[way <= 0] = never
            origin = np.where(far > value, best, origin)
            value = np.maximum(value, far)
        follows = (value > score[k]) & (places[k] >= 0)
        score[k][follows] = value[follows]
        before[k][follows] = origin[follows]
        leader = (k - 1) * _PLACES + int(score[k - 1].argmax())
        if best < 0 or flat_score[leader] > flat_score[best]:
            best = leader
    chain = np.full(n, -1, np.int64)
    if n:
        here = int((flat_score - np.abs(flat_lag - last_lag)).argmax())
        while here >= 0 and flat_score[here] > never // 2:
            chain[here // _PLACES] = here % _PLACES
            here = int(before.ravel()[here])
    return chain


def _steady(at: Ints, found: Ints) -> Ints:
    """Which grams of a chain have the lag of the ones before and after them, but for what a few edits change."""
    if not len(at):
        return at
    way, change = np.diff(at), np.abs(np.diff(found - at))
    linked = change <= np.maximum(_DRIFT * way, _JITTER)
    return np.flatnonzero(np.concatenate(([True], linked)) & np.concatenate((linked, [True])))
