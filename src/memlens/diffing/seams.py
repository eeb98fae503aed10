"""Where a long problem was cut, what lies on both sides of a cut is aligned once more, as one.

A cut may go between two neighbours that changed places, and then neither side can pair them.  The stretch around a cut begins and ends
where the alignment that was found goes through, so aligning it exactly can only make the whole cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.lanes import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["around_cuts"]

#: Rows on each side of a cut that are aligned again.
_REACH = 256


def around_cuts(problem: Problem, pieces: Sequence[Problem], partner: Ints, limit: int) -> list[Problem]:
    """The stretches around the cuts of a problem; no two of them share a row or a column.

    Args:
        problem: What was cut.
        pieces: Into what.
        partner: For each row of the problem the place of its partner among the problem's columns, -1 for none, int64.
        limit: Cells of the largest stretch.
    """
    rows, columns = problem.rows, problem.columns
    edges = np.searchsorted(rows, np.array([piece.rows[0] for piece in pieces], np.int64))
    middles = (edges[1:] + np.append(edges[2:], len(rows))) // 2
    first = np.maximum(edges[1:] - _REACH, np.append(0, middles[:-1]))
    last = np.minimum(edges[1:] + _REACH, middles)
    # Up to which column a stretch may reach: the first one that a later row pairs with.
    following = np.append(np.where(partner >= 0, partner, len(columns)), len(columns))
    following = np.minimum.accumulate(following[::-1])[::-1]
    passed = np.append(0, np.maximum.accumulate(partner) + 1)
    stretches, free = [], 0
    for top, bottom in zip(first.tolist(), last.tolist(), strict=True):
        stretch = Problem(rows[top:bottom], columns[max(int(passed[top]), free) : following[bottom]])
        free = int(following[bottom])
        if 0 < stretch.cells <= limit:
            stretches.append(stretch)
    return stretches
