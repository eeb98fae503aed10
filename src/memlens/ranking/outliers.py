"""Which ranks stand out among their peers.

A rank stands out where it does by the rule of :mod:`memlens.comparing.statistics` among its peers (a robust z-score beyond 3.5, 1 % and 1 MiB off their median),
and where the number of ranks does not make that a matter of chance:

* its distance from the median of its peers, in units of how far ranks usually are from theirs, is beyond what of so many ranks that differ by chance alone
  the farthest one reaches: ``0.6745 |off| / MAD > z (1 + 8 / n)`` for the MAD of its *n* peers and for that of all ranks, where ``z`` is 3.5, or of more than 107 ranks
  the quantile of the normal distribution beyond which one of them is once in twenty times;
* it is at least three times as far as any rank on the same side that does not stand out, measured so: a tail of a distribution thins out, and has no such gap;
* no more of its peers stand out than may (see :mod:`memlens.ranking.peers`): else they are none that stand out, but a part of the job.

A rank that ran out of memory stands out upwards only: what it would have held is not known.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.comparing.statistics import stand_out
from memlens.ranking.peers import FEWEST, medians, members_of, most_outliers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.ranking.peers import Peers

    Ints = NDArray[np.int64]

__all__ = ["OffPeers", "standing_out"]

_NORMAL = 0.6745
_BEYOND = 3.5
_ONCE_IN = 20
_FEW = 8
_GAP = 3


class OffPeers(NamedTuple):
    """A rank that stands out.

    Attributes:
        rank: Its index.
        off: Its figure less the median of its peers.
        median: That median.
        z: The robust z-score among its peers; ``None`` where more than half of them are alike.
        peers: Ranks in its group, itself included.
    """

    rank: int
    off: int
    median: int
    z: float | None
    peers: int


def standing_out(
    figures: Ints, peers: Peers, least_change: int, failed: NDArray[np.bool_] | None = None
) -> list[OffPeers]:
    """The ranks that stand out by one figure, the farthest from its median first.

    Args:
        figures: A figure a rank, int64.
        peers: Which of them are compared with which.
        least_change: The smallest difference that is worth a word.
        failed: Ranks that ran out of memory.
    """
    if not len(figures):
        return []
    group = peers.group
    count = np.bincount(group)
    middle = medians(figures, group)
    off = figures - middle[group]
    far = _scaled(off, group, count, least_change)
    score: dict[int, float | None] = {}
    for ranks in members_of(figures, group):
        if len(ranks) >= FEWEST:
            score |= {int(ranks[at]): z for at, _, z in stand_out(figures[ranks].tolist(), least_change)}
    candidate = np.zeros(len(figures), bool)
    candidate[list(score)] = True
    if failed is not None:
        candidate &= ~failed | (off > 0)
    chosen = np.concatenate([_beyond_gap(far * sign, candidate & (off * sign > 0)) for sign in (1, -1)])
    many = np.bincount(group[chosen], minlength=len(count)) > [most_outliers(each) for each in count.tolist()]
    chosen = chosen[~many[group[chosen]]]
    found = [
        OffPeers(rank, int(off[rank]), int(middle[group[rank]]), score[rank], int(count[group[rank]]))
        for rank in chosen.tolist()
    ]
    return sorted(found, key=lambda one: (-abs(one.off), one.rank))


def _scaled(off: Ints, group: Ints, count: Ints, least_change: int) -> NDArray[np.float64]:
    """The distance of each rank from its peers' median, in units of what chance reaches: beyond 1 it is beyond chance."""
    total = len(off)
    limit = max(_BEYOND, NormalDist().inv_cdf(1 - 0.5 / _ONCE_IN / total)) / _NORMAL
    distance = np.abs(off)
    own = medians(distance, group) * (1 + _FEW / count)
    usual = float(np.median(distance)) * (1 + _FEW / total)
    scale = np.maximum(np.maximum(own, usual) * limit, least_change)
    scaled: NDArray[np.float64] = off / scale[group]
    return scaled


def _beyond_gap(far: NDArray[np.float64], candidate: NDArray[np.bool_]) -> Ints:
    """The candidates on the far side of the first gap, int64: each is three times as far as all ranks before the gap."""
    order = np.argsort(far, kind="stable")
    far, candidate = far[order], candidate[order]
    before = np.maximum(np.concatenate(([0.0], far[:-1])), 0)
    gap = candidate & (far >= 1) & (far >= _GAP * before)
    first = int(gap.argmax()) if gap.any() else len(far)
    # A rank beyond the gap that is no candidate (one that failed low, one of too few peers) is none all the same.
    chosen: Ints = order[first:][candidate[first:]]
    return chosen
