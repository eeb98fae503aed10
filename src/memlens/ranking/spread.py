"""How far a figure of many ranks is spread, and how much of that the fields of their paths explain.

Quartiles are figures that some rank has: of *n* figures in order the one at ``ceil(q n)``, counted from 1.

What a field explains of the distance of ranks from the median of all: ``1 - (W / (n - g)) / (T / (n - 1))``, at least 0, where T is the sum of these distances, W that of the
distances of *n* ranks from the lower median of their own of *g* groups.  Groups by chance explain about nothing, groups that are the only difference all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.analyzers.result import Row
from memlens.diffing.finding import Record
from memlens.ranking.outliers import standing_out
from memlens.ranking.peers import Peers, medians, members_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["BINS", "FieldSkew", "FieldValue", "MetricSpread", "PeerGroup", "field_skew", "metric_spread", "peer_groups"]

#: Bins of a histogram.
BINS = 40
#: Groups of peers, or values of a field, that a result lists.
_MOST = 100


@dataclass(frozen=True)
class PeerGroup(Row):
    """Ranks that are compared with each other.

    Attributes:
        name: The values of the fields that make it, ``pp 0``; ``""`` where none do; text from paths.
        ranks: How many.
        min_bytes: The lowest figure.
        median_bytes: The lower median.
        max_bytes: The highest.
    """

    name: str
    ranks: int
    min_bytes: int
    median_bytes: int
    max_bytes: int


@dataclass(frozen=True)
class MetricSpread(Record):
    """The spread of one figure over the ranks.

    Attributes:
        metric: ``peak_bytes``, ``reserved_peak_bytes`` or ``live_bytes``.
        ranks: Ranks that have it.
        min_bytes: The lowest.
        min_rank: The first rank that has it; text from paths, like all ranks.
        lower_quartile_bytes: A quarter of the ranks have no more.
        median_bytes: The lower median.
        median_rank: The first rank that has it.
        upper_quartile_bytes: Three quarters of them have no more.
        max_bytes: The highest.
        max_rank: The first rank that has it.
        histogram: How many ranks lie in each of :data:`BINS` parts of equal width from the lowest to the highest; one part where all are alike.
        peers_by: The fields that make groups of peers.
        modes: Whether ranks fall into modes that no field tells apart.
        groups: The groups of peers, where there are several; the first :data:`_MOST` of them.
        group_count: How many groups there are.
    """

    metric: str
    ranks: int
    min_bytes: int
    min_rank: str
    lower_quartile_bytes: int
    median_bytes: int
    median_rank: str
    upper_quartile_bytes: int
    max_bytes: int
    max_rank: str
    histogram: tuple[int, ...]
    peers_by: tuple[str, ...]
    modes: bool
    groups: tuple[PeerGroup, ...]
    group_count: int


@dataclass(frozen=True)
class FieldValue(Row):
    """A value of a field whose ranks stand out as a group among the other values: by the median of each.

    Attributes:
        value: The value; text from paths.
        ranks: Ranks that have it.
        off_bytes: Their median less the median of all values' medians.
    """

    value: str
    ranks: int
    off_bytes: int


@dataclass(frozen=True)
class FieldSkew(Record):
    """How the median of one figure differs by the values of one field.

    Attributes:
        field: The field.
        metric: The figure, by its name in machine output.
        values: Values that it has.
        lowest: The value with the lowest median; text from paths.
        lowest_off_bytes: That median less the median of all.
        highest: The value with the highest one.
        highest_off_bytes: That one less the median of all.
        skew_bytes: ``highest_off_bytes - lowest_off_bytes``.
        beyond: The fields that make peers, where this one is none of them: what ranks differ by from the median of their peers is what counts.
        explained: How much of the distances from the median of all the field explains, 0 to 1, by the formula of this module.
        stand_out: The values that stand out among at least four, the farthest first.
    """

    field: str
    metric: str
    values: int
    lowest: str
    lowest_off_bytes: int
    highest: str
    highest_off_bytes: int
    skew_bytes: int
    beyond: tuple[str, ...]
    explained: float
    stand_out: tuple[FieldValue, ...]


def metric_spread(
    metric: str, figures: Ints, names: Sequence[str], peers: Peers, groups: Sequence[str]
) -> MetricSpread:
    """The spread of one figure.

    Args:
        metric: Its name in machine output.
        figures: One a rank, int64; at least one.
        names: What the ranks are called.
        peers: Their groups.
        groups: What each rank's group is called.
    """
    order = np.argsort(figures, kind="stable")
    count = len(order)
    ranked = figures[order]
    lowest, quarter, median, three, highest = (ranked[-(-part * count // 4) - 1 if part else 0] for part in range(5))

    def name(figure: np.int64) -> str:
        return names[int(order[ranked.searchsorted(figure)])]

    bins = BINS if highest > lowest else 1
    histogram = np.bincount((figures - lowest) * bins // (int(highest) - int(lowest) + 1), minlength=bins)
    listed = peer_groups(figures, peers, groups)
    return MetricSpread(
        metric,
        count,
        int(lowest),
        name(lowest),
        int(quarter),
        int(median),
        name(median),
        int(three),
        int(highest),
        name(highest),
        tuple(histogram.tolist()),
        peers.fields,
        peers.modes,
        tuple(listed[:_MOST]) if len(listed) > 1 else (),
        len(listed),
    )


def peer_groups(figures: Ints, peers: Peers, groups: Sequence[str]) -> list[PeerGroup]:
    """The groups of peers with their figures, in the order of their first ranks; arguments as for :func:`metric_spread`."""
    named = dict(zip(reversed(peers.group.tolist()), reversed(groups), strict=True))
    middle = medians(figures, peers.group).tolist()
    rows = [
        PeerGroup(named[k], len(ranks), int(figures[ranks[0]]), middle[k], int(figures[ranks[-1]]))
        for k, ranks in enumerate(members_of(figures, peers.group))
    ]
    return [rows[k] for k in dict.fromkeys(peers.group.tolist())]


def field_skew(
    field: str, metric: str, figures: Ints, values: Sequence[str], peers: Peers, least_change: int
) -> FieldSkew | None:
    """How the median of a figure differs by the values of a field; ``None`` where it has one value, or one for nearly every rank.

    Args:
        field: The field.
        metric: The figure's name in machine output.
        figures: One a rank, int64.
        values: The value of each rank.
        peers: Which ranks are alike by design.
        least_change: The smallest difference that is worth a word.
    """
    beyond = () if field in peers.fields else peers.fields
    usual = int(medians(figures, np.zeros_like(peers.group))[0])
    if beyond:
        figures = figures - medians(figures, peers.by_fields)[peers.by_fields] + usual
    names = list(dict.fromkeys(values))
    if not 1 < len(names) <= len(values) // 2:
        return None
    code = {name: k for k, name in enumerate(names)}
    group = np.array([code[value] for value in values], np.int64)
    middle, count = medians(figures, group), np.bincount(group)
    usual = int(medians(figures, np.zeros_like(group))[0])
    total = float(np.abs(figures - usual).sum()) / (len(values) - 1)
    within = float(np.abs(figures - middle[group]).sum()) / (len(values) - len(names))
    low, high = int(middle.argmin()), int(middle.argmax())
    alone = np.zeros(len(names), np.int64)
    apart = standing_out(middle, Peers(alone, alone), least_change)
    return FieldSkew(
        field,
        metric,
        len(names),
        names[low],
        int(middle[low]) - usual,
        names[high],
        int(middle[high]) - usual,
        int(middle[high] - middle[low]),
        beyond,
        max(0.0, 1 - within / total) if total else 0.0,
        tuple(FieldValue(names[one.rank], int(count[one.rank]), one.off) for one in apart),
    )
