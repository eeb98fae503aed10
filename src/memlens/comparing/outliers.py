"""Which ranks stand out among their peers: those that are alike by design, by the fields of their paths or else by their figures.

**Peers by a field.**  A stage of a pipeline holds what others do not.  A field, but for those that number machines, makes groups of peers where

* each group has at least four ranks (groups of fewer may hold one rank in twenty: those are not judged), and
* the mean distance of the groups' medians from the median of all, a rank counting as one, is larger than the mean distance of ranks from their group's
  median, the farthest twentieth of these (at least one) left out: the spread between groups explains more than the one within; and
* that leaves less than half of the distance that there was without these groups; and
* some group's median is as far from the median of all as a rank has to be to stand out: 1 % of it, and 1 MiB (1 block, 1 ms).

The field that leaves least within comes first, then further fields by the same rule within its groups.

**Modes.**  Within a group ranks fall into two modes where a gap between neighbouring figures has, on either side, more ranks than may stand out (a tenth of
the group, and at least a quarter of up to ten), is so large (1 %, 1 MiB), and is at least three times as wide as either side is, its outer twentieths left out.  A mode may fall
into further ones.  Of each mode the ranks are peers, for so many of them do not stand out one by one.

**A rank stands out** where

* it has at least three peers, and is 1 % and 1 MiB (1 block, 1 ms) off their median;
* its distance from that median, in units of how far ranks usually are from theirs, is beyond what of so many ranks that differ by chance alone the farthest one reaches:
  ``0.6745 |off| / MAD > z (1 + 8 / n)`` for the MAD of its *n* peers and for that of all ranks, where ``z`` is 3.5, or of more than 107 ranks
  the quantile of the normal distribution beyond which one of them is once in twenty times;
* it is at least three times as far as any rank on the same side that does not stand out, measured so: a tail of a distribution thins out, and has no such gap;
* no more of its peers stand out than may: else they are none that stand out, but a part of the job.  All ranks of one machine count as one,
  as long as fewer than half of the peers stand out.

A rank that ran out of memory stands out upwards only: what it would have held is not known.  Medians are the lower ones of two: figures that some rank has.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints


#: Ranks that a group has at least, in which one may stand out.
_FEWEST = 4
#: Of a figure: a smaller difference is not worth a word.
_SHARE = 0.01
_LEFT_OUT = 20
#: A gap is so many times as wide as the modes on its sides, or as all that is before it.
_APART = 3
_MOST_MODES = 8
#: Makes the MAD of a normal distribution its standard deviation.
_NORMAL = 0.6745
_BEYOND = 3.5
_ONCE_IN = 20
_FEW = 8


class Peers(Struct, frozen=True, eq=False):
    """The groups that ranks are judged in, by one figure.

    Attributes:
        group: The group of each rank, numbers from 0, int64.
        by_fields: The same before groups were parted into modes.
        fields: The fields whose values make the groups, in order.
        modes: Whether groups were parted into modes beyond that.
    """

    group: Ints
    by_fields: Ints
    fields: tuple[str, ...] = ()
    modes: bool = False


class StandsOut(NamedTuple):
    """A rank that stands out.

    Attributes:
        rank: Its index.
        off: Its figure less the median of its peers.
        median: That median.
        peers: Ranks in its group, itself included.
        median_rank: The first of them whose figure is the median.
    """

    rank: int
    off: int
    median: int
    peers: int
    median_rank: int


def codes_of(values: NDArray[np.str_] | Ints) -> Ints:
    """Values as numbers from 0, int64; of several rows their columns."""
    return np.unique(values, return_inverse=True, axis=-1)[1].astype(np.int64).reshape(-1)


def medians(figures: Ints, group: Ints) -> Ints:
    """The lower median of each group, int64.

    Args:
        figures: A figure a rank, int64.
        group: Its group, numbers from 0 of which each has a rank, int64.
    """
    return np.array([figures[ranks[(len(ranks) - 1) // 2]] for ranks in members_of(figures, group)], np.int64)


def members_of(figures: Ints, group: Ints) -> list[Ints]:
    """The ranks of each group by rising figure, int64; arguments as for :func:`medians`."""
    return np.split(np.lexsort((figures, group)), np.cumsum(np.bincount(group))[:-1])


def peers_of(figures: Ints, fields: Mapping[str, Ints], least_change: int) -> Peers:
    """The groups that ranks are judged in.

    Args:
        figures: A figure a rank, int64; at least one.
        fields: For each field that may make peers the value of each rank, as numbers from 0, int64.
        least_change: The smallest difference that is worth a word.
    """
    group = np.zeros(len(figures), np.int64)
    chosen: list[str] = []
    left = dict(fields)
    least = max(_SHARE * abs(int(np.median(figures))), least_change)
    while found := _best(figures, group, left, least):
        name, group = found
        chosen.append(name)
        del left[name]
    parted = _with_modes(figures, group, least_change)
    return Peers(parted, group, tuple(chosen), int(parted.max()) > int(group.max()))


def _best(figures: Ints, group: Ints, fields: Mapping[str, Ints], least: float) -> tuple[str, Ints] | None:
    """The field that leaves least within, of those that explain more than they leave, and the groups that it makes."""
    best: tuple[float, str, Ints] | None = None
    before = medians(figures, group)[group]
    usual = _mean_of_most(np.abs(figures - before))
    for name, codes in fields.items():
        parted = codes_of(group * (int(codes.max()) + 1) + codes)
        count = np.bincount(parted)
        if len(count) == int(group.max()) + 1 or count[count < _FEWEST].sum() * _LEFT_OUT > len(figures):
            continue
        own = medians(figures, parted)[parted]
        between, within = np.abs(own - before), _mean_of_most(np.abs(figures - own))
        far = between[count[parted] >= _FEWEST].max() >= least
        if far and between.mean() > within and 2 * within < usual and (best is None or within < best[0]):
            best = within, name, parted
    return best[1:] if best else None


def _mean_of_most(distances: Ints) -> float:
    """The mean distance, without the farthest twentieth, at least one."""
    return float(np.sort(distances)[: -max(len(distances) // _LEFT_OUT, 1)].mean()) if len(distances) > 1 else 0.0


def tells_apart(codes: Ints, group: Ints) -> bool:
    """Whether a field of which values have two ranks or more has in each group other values."""
    values, pairs = codes_of(codes), codes_of(np.stack((codes, group)))
    return 0 < int(values.max()) == int(pairs.max()) < len(codes) // 2


def _most_outliers(count: int) -> int:
    """How many ranks of a group may stand out: more of them are a mode."""
    return max(min(count // 4, 2), count // 10)


def _with_modes(figures: Ints, group: Ints, least_change: int) -> Ints:
    """Groups parted into their modes."""
    parted, next_number = group.copy(), int(group.max()) + 1
    for ranks in members_of(figures, group):
        for begin, end in _modes(figures[ranks], least_change)[1:]:
            parted[ranks[begin:end]] = next_number
            next_number += 1
    return parted


def _modes(values: Ints, least_change: int) -> list[tuple[int, int]]:
    """The modes of sorted figures: the first index of each and the one behind it."""
    done: list[tuple[int, int]] = []
    waiting = [(0, len(values))]
    while waiting:
        begin, end = waiting.pop()
        cut = None if len(done) + len(waiting) >= _MOST_MODES else _widest(values[begin:end], least_change)
        if cut is None:
            done.append((begin, end))
        else:
            waiting += [(begin, begin + cut), (begin + cut, end)]
    return sorted(done)


def _widest(values: Ints, least_change: int) -> int | None:
    """Where sorted figures fall into two modes; ``None`` where they do not."""
    count = len(values)
    fewest = max(_most_outliers(count) + 1, _FEWEST)
    if count < 2 * fewest:
        return None
    gaps = np.diff(values)[fewest - 1 : count - fewest]
    at = int(gaps.argmax()) + fewest
    gap = int(values[at] - values[at - 1])
    least = max(_SHARE * abs(int(values[count // 2])), least_change)
    widest = max(_width(values[:at]), _width(values[at:]))
    return at if gap >= least and gap >= _APART * widest else None


def _width(values: Ints) -> int:
    """How wide figures lie, their outer twentieths left out."""
    outer = len(values) // _LEFT_OUT
    return int(values[len(values) - 1 - outer] - values[outer])


def standing_out(
    figures: Ints, peers: Peers, least_change: int, failed: Flags | None = None, machine: Ints | None = None
) -> list[StandsOut]:
    """The ranks that stand out by one figure, the farthest from its median first.

    Args:
        figures: A figure a rank, int64; at least one.
        peers: Which of them are compared with which.
        least_change: The smallest difference that is worth a word.
        failed: Ranks that ran out of memory.
        machine: The machine of each rank, as numbers from 0; without it each has its own.
    """
    group = peers.group
    machine = np.arange(len(figures)) if machine is None else machine
    count = np.bincount(group)
    middle = medians(figures, group)
    off = figures - middle[group]
    far = _scaled(off, middle, group, count, least_change)
    candidate = count[group] >= _FEWEST
    if failed is not None:
        candidate &= ~failed | (off > 0)
    chosen = np.concatenate([_beyond_gap(far * sign, candidate & (off * sign > 0)) for sign in (1, -1)])
    own = np.bincount(machine[chosen], minlength=len(figures))[machine[chosen]]
    whole = own == np.bincount(machine)[machine[chosen]]
    shares = np.bincount(group[chosen], np.where(whole, 1 / own, 1), len(count))
    many = np.round(shares) > [_most_outliers(each) for each in count.tolist()]
    many |= 2 * np.bincount(group[chosen], minlength=len(count)) >= count
    found = []
    for rank in chosen[~many[group[chosen]]].tolist():
        usual = int(((group == group[rank]) & (off == 0)).argmax())
        found.append(StandsOut(rank, int(off[rank]), int(figures[usual]), int(count[group[rank]]), usual))
    return sorted(found, key=lambda one: (-abs(one.off), one.rank))


def _scaled(off: Ints, middle: Ints, group: Ints, count: Ints, least_change: int) -> NDArray[np.float64]:
    """The distance of each rank from its peers' median, in units of what chance reaches and of what is worth a word: from 1 on it is beyond both."""
    total = len(off)
    limit = max(_BEYOND, NormalDist().inv_cdf(1 - 0.5 / _ONCE_IN / total)) / _NORMAL
    distance = np.abs(off)
    own = medians(distance, group) * (1 + _FEW / count)
    usual = float(np.median(distance)) * (1 + _FEW / total)
    worth = np.maximum(_SHARE * np.abs(middle), least_change)
    scaled: NDArray[np.float64] = off / np.maximum(np.maximum(own, usual) * limit, worth)[group]
    return scaled


def _beyond_gap(far: NDArray[np.float64], candidate: Flags) -> Ints:
    """The candidates on the far side of the first gap, int64: each is three times as far as all ranks before the gap."""
    order = np.argsort(far, kind="stable")
    far, candidate = far[order], candidate[order]
    before = np.maximum(np.concatenate(([0.0], far[:-1])), 0)
    gap = candidate & (far >= 1) & (far >= _APART * before)
    first = int(gap.argmax()) if gap.any() else len(far)
    # A rank beyond the gap that is no candidate (one that failed low, one of too few peers) is none all the same.
    chosen: Ints = order[first:][candidate[first:]]
    return chosen
