"""Which of many intervals of time is the innermost one around each of many moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = ["innermost"]

_RANK_BITS = np.int64(32)


def innermost(track: Integers, start: Integers, end: Integers, of_track: Integers, moment: Integers) -> Integers:
    """The interval of the same track that holds a moment and started last; of those that started together, the one that ends first.

    Intervals may overlap in any way.  Both ends belong to an interval.

    Args:
        track: Whose each interval is, numbered from 0, below 2**31; int64, ``(n,)``.
        start: When it starts, int64.
        end: When it ends, int64.
        of_track: Whose each moment is, int64, ``(m,)``.
        moment: The moments, int64.

    Returns:
        For each moment the index of an interval, or -1; int64, ``(m,)``.
    """
    if not len(track) or not len(moment):
        return np.full(len(moment), -1, np.int64)
    # Times as ranks, so that a track and a time make one number.
    _, rank = np.unique(np.concatenate((start, moment)), return_inverse=True)
    rank = rank.astype(np.int64).reshape(-1)
    place = (track << _RANK_BITS) | rank[: len(start)]
    order = np.lexsort((np.arange(len(end)), -end, place))
    place = place[order]
    last = place.searchsorted((of_track << _RANK_BITS) | rank[len(start) :], "right") - 1
    first = place.searchsorted(of_track << _RANK_BITS, "left")
    found = _last_reaching(end[order], last, moment)
    found[found < first] = -1  # what was found is another track's
    return np.where(found >= 0, order[found], -1)


def _last_reaching(values: Integers, last: Integers, least: Integers) -> Integers:
    """The last index up to ``last`` whose value is at least ``least``, or -1, for each pair of the two.

    The values are the leaves of a binary tree whose inner nodes hold the larger of their two children: from the leaf the way goes
    up until a sibling on the left is large enough, and from there down again to its rightmost such leaf.
    """
    leaves = 1 << max(int(len(values) - 1).bit_length(), 0)
    lowest = np.iinfo(np.int64).min
    tree = np.full(2 * leaves, lowest, np.int64)
    tree[leaves : leaves + len(values)] = values
    level = leaves
    while level > 1:
        level //= 2
        np.maximum(tree[2 * level : 4 * level : 2], tree[2 * level + 1 : 4 * level : 2], out=tree[level : 2 * level])
    node = np.where(last >= 0, last + leaves, 0)
    left = np.flatnonzero((last >= 0) & (tree[node] < least))  # those still on the way up
    node[last < 0] = 0
    while len(left):
        here = node[left]
        beside = (here & 1 == 1) & (here > 1) & (tree[here - 1] >= least[left])
        node[left] = np.where(beside, here - 1, here >> 1)
        left = left[~beside & (node[left] > 1)]
    if leaves > 1:
        node[node == 1] = 0  # at the root nothing is left to try
    down = np.flatnonzero((node > 0) & (node < leaves))
    while len(down):
        right = 2 * node[down] + 1
        node[down] = np.where(tree[right] >= least[down], right, right - 1)
        down = down[node[down] < leaves]
    return np.where(node > 0, node - leaves, -1)
