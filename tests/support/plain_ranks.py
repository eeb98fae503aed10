"""The rules by which ranks are grouped and stand out, written out rank by rank as ``docs/compare.md`` words them: a reference for the columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist, mean, median, median_low


def _most(count: int) -> int:
    """A tenth, of few a quarter and at most two."""
    return max(min(count // 4, 2), count // 10)


def _groups(group: Sequence[object]) -> dict[object, list[int]]:
    found: dict[object, list[int]] = {}
    for rank, name in enumerate(group):
        found.setdefault(name, []).append(rank)
    return found


def plain_outliers(
    figures: Sequence[int], group: Sequence[object], least: int, failed: frozenset[int] = frozenset()
) -> set[int]:
    """The ranks that stand out."""
    total, groups = len(figures), _groups(group)
    middle = {name: median_low([figures[k] for k in ranks]) for name, ranks in groups.items()}
    off = [figure - middle[name] for figure, name in zip(figures, group, strict=True)]
    z = max(3.5, NormalDist().inv_cdf(1 - 1 / 20 / 2 / total))
    usual = median(abs(one) for one in off) * (1 + 8 / total)
    far, candidates = [0.0] * total, set()
    for name, ranks in groups.items():
        own = median_low([abs(off[k]) for k in ranks]) * (1 + 8 / len(ranks))
        for k in ranks:
            far[k] = off[k] / max(max(own, usual) * (z / 0.6745), 0.01 * abs(middle[name]), least)
            if len(ranks) >= 4 and (k not in failed or off[k] > 0):
                candidates.add(k)
    chosen: set[int] = set()
    for sign in (1, -1):
        order, before, begun = sorted(range(total), key=lambda k: sign * far[k]), 0.0, False
        for k in order:
            own_far = sign * far[k]
            candidate = k in candidates and own_far > 0
            begun = begun or (candidate and own_far >= 1 and own_far >= 3 * before)
            if begun and candidate:
                chosen.add(k)
            before = max(own_far, 0.0)
    return {k for k in chosen if sum(other in chosen for other in groups[group[k]]) <= _most(len(groups[group[k]]))}


def plain_peers(figures: Sequence[int], fields: Mapping[str, Sequence[int]], least: int) -> list[str]:
    """The fields that make groups of peers, in their order."""
    chosen: list[str] = []
    group: list[tuple[int, ...]] = [()] * len(figures)
    worth = max(0.01 * abs(median(figures)), least)
    while True:
        best: tuple[float, str] | None = None
        usual = _within(figures, group)
        before = _medians(figures, group)
        for name in fields:
            if name in chosen:
                continue
            parted = [(*own, fields[name][k]) for k, own in enumerate(group)]
            groups = _groups(parted)
            small = sum(len(ranks) for ranks in groups.values() if len(ranks) < 4)
            if len(groups) == len(_groups(group)) or small * 20 > len(figures):
                continue
            after = _medians(figures, parted)
            apart = [abs(after[parted[k]] - before[group[k]]) for k in range(len(figures))]
            within = _within(figures, parted)
            large = max(apart[k] for ranks in groups.values() if len(ranks) >= 4 for k in ranks)
            if mean(apart) > within and 2 * within < usual and large >= worth and (best is None or within < best[0]):
                best = within, name
        if best is None:
            return chosen
        chosen.append(best[1])
        group = [(*own, fields[best[1]][k]) for k, own in enumerate(group)]


def _medians(figures: Sequence[int], group: Sequence[object]) -> dict[object, int]:
    return {name: median_low([figures[k] for k in ranks]) for name, ranks in _groups(group).items()}


def _within(figures: Sequence[int], group: Sequence[object]) -> float:
    """The mean distance from the median of the own group, without the farthest twentieth, at least one."""
    middle = _medians(figures, group)
    distances = sorted(abs(figure - middle[name]) for figure, name in zip(figures, group, strict=True))
    kept = distances[: -max(len(distances) // 20, 1)]
    return mean(kept) if kept else 0.0
