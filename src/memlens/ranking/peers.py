"""Which ranks are compared with which: those that are alike by design, told from the fields of their paths or else from the figures.

**Peers by a field.**  A stage of a pipeline holds what others do not.  A field of the paths, but for those that number machines, makes groups of peers where

* each group has at least four ranks (groups of fewer may hold one rank in twenty: those are not judged), and
* the mean distance of the groups' medians from the median of all, a rank counting as one, is larger than the mean distance of ranks from their group's
  median, the farthest twentieth of these (at least one) left out: the spread between groups explains more than the one within; and
* that leaves less than half of the distance that there was without these groups; and
* some group's median is as far from the median of all as a rank has to be to stand out: 1 % of it, and 1 MiB.

The field that leaves least within comes first, then further fields by the same rule within its groups.

**Modes.**  Within a group ranks fall into two modes where a gap between neighbouring figures has, on either side, more ranks than may stand out (a tenth of
the group, and at least a quarter of up to ten), is so large (1 %, 1 MiB), and is at least three times as wide as either side is, its outer twentieths left out.  A mode may fall
into further ones.  Of each mode the ranks are peers, for so many of them do not stand out one by one.

Medians are the lower ones of two: figures that some rank has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["FEWEST", "SHARE", "Peers", "codes_of", "explained", "medians", "members_of", "most_outliers", "peers_of"]

#: Ranks that a group has at least, in which one may stand out.
FEWEST = 4
#: Of a figure: a smaller difference is not worth a word.
SHARE = 0.01
_LEFT_OUT = 20
#: A gap is so many times as wide as the modes on its sides.
_APART = 3
_MOST_MODES = 8


@dataclass(frozen=True, eq=False)
class Peers:
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


def most_outliers(count: int) -> int:
    """How many ranks of a group may stand out: more of them are a mode."""
    return max(min(count // 4, 2), count // 10)


def codes_of(values: NDArray[np.str_] | Ints) -> Ints:
    """Values as numbers from 0, int64."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64).reshape(-1)


def medians(figures: Ints, group: Ints) -> Ints:
    """The lower median of each group, int64.

    Args:
        figures: A figure a rank, int64.
        group: Its group, numbers from 0 of which each has a rank, int64.
    """
    order = np.lexsort((figures, group))
    count = np.bincount(group)
    first = np.cumsum(count) - count
    middle: Ints = figures[order[first + (count - 1) // 2]]
    return middle


def members_of(figures: Ints, group: Ints) -> list[Ints]:
    """The ranks of each group by rising figure, int64; arguments as for :func:`medians`."""
    return np.split(np.lexsort((figures, group)), np.cumsum(np.bincount(group))[:-1])


def explained(figures: Ints, group: Ints, within: Ints | None = None) -> tuple[float, float]:
    """How far groups are apart, and how far ranks are from the medians of their groups: ``(between, within)``, mean bytes a rank.

    Args:
        figures: A figure a rank, int64.
        group: Its group.
        within: The coarser group that it is in; ``None`` for one of all ranks.
    """
    own = medians(figures, group)[group]
    coarse = np.zeros_like(group) if within is None else within
    between = np.abs(own - medians(figures, coarse)[coarse])
    return float(between.mean()), _mean_of_most(np.abs(figures - own))


def _mean_of_most(distances: Ints) -> float:
    """The mean distance, without the farthest twentieth, at least one."""
    return float(np.sort(distances)[: -max(len(distances) // _LEFT_OUT, 1)].mean()) if len(distances) > 1 else 0.0


def peers_of(figures: Ints, fields: Mapping[str, Ints], least_change: int) -> Peers:
    """The groups that ranks are judged in.

    Args:
        figures: A figure a rank, int64.
        fields: For each field that may make peers the value of each rank, as numbers from 0, int64.
        least_change: The smallest difference that is worth a word.
    """
    group = np.zeros(len(figures), np.int64)
    chosen: list[str] = []
    left = dict(fields)
    least = max(SHARE * abs(int(np.median(figures))), least_change)
    while found := _best(figures, group, left, least):
        name, group = found
        chosen.append(name)
        del left[name]
    parted = _with_modes(figures, group, least_change)
    return Peers(parted, group, tuple(chosen), int(parted.max()) > int(group.max()))


def _best(figures: Ints, group: Ints, fields: Mapping[str, Ints], least: float) -> tuple[str, Ints] | None:
    """The field that leaves least within, of those that explain more than they leave, and the groups that it makes."""
    best: tuple[float, str, Ints] | None = None
    before = medians(figures, group)
    usual = _mean_of_most(np.abs(figures - before[group]))
    for name, codes in fields.items():
        parted = codes_of(group * (int(codes.max()) + 1) + codes)
        count = np.bincount(parted)
        if len(count) == int(group.max()) + 1 or count[count < FEWEST].sum() * _LEFT_OUT > len(figures):
            continue
        apart = np.abs(medians(figures, parted)[parted] - before[group])[count[parted] >= FEWEST]
        between, within = explained(figures, parted, group)
        if between > within and 2 * within < usual and apart.max() >= least and (best is None or within < best[0]):
            best = within, name, parted
    return best[1:] if best else None


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
    fewest = max(most_outliers(count) + 1, FEWEST)
    if count < 2 * fewest:
        return None
    gaps = np.diff(values)[fewest - 1 : count - fewest]
    at = int(gaps.argmax()) + fewest
    gap = int(values[at] - values[at - 1])
    least = max(SHARE * abs(int(values[count // 2])), least_change)
    widest = max(_width(values[:at]), _width(values[at:]))
    return at if gap >= least and gap >= _APART * widest else None


def _width(values: Ints) -> int:
    """How wide figures lie, their outer twentieths left out."""
    outer = len(values) // _LEFT_OUT
    return int(values[len(values) - 1 - outer] - values[outer])
