"""Pair the windows of two runs whose numbers may not mean the same: one was inserted or lost, or they start elsewhere.

Names are what people see, so they decide unless what the windows do says clearly that they mislead.  A window that changed keeps
its partner: that it differs is what a comparison is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.inorder import Series, in_order
from memlens.diffing.window_pairs import WindowPairs, named_pairs, names_of, nothing_in_common
from memlens.diffing.work import Work, likeness
from memlens.windows.windows import BEFORE, kind_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.windows.windows import Window

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int64]
    Pairs = list[tuple[int, int]]

__all__ = ["pair_by_name_or_work"]

#: Two windows that are so much alike do nearly the same: nothing asks for another partner.
_NEARLY = 0.75
#: What pairs by work must gain over pairs by name, in pairs of windows that do the same instead of something else …
_GAIN = 1.5
#: … where the numbers start elsewhere in the two runs …
_GAIN_ELSEWHERE = 0.5
#: … for each change of the numbering …
_EACH_CHANGE = 1
#: … and as a share of what windows of one name lack in being as alike as this quantile of the pairs by work.
_SHARE, _MOST = 0.5, 0.75
#: So much may the pairs by work lack of that, on average: steps that come in another order by chance can be paired this way and that.
_LEFT = 0.2
#: Two runs without a name in common are one program where so many windows are so much alike, on average.
_FEWEST, _ALIKE = 2, 0.4


def pair_by_name_or_work(base: Sequence[Window], head: Sequence[Window]) -> WindowPairs:
    """Pair the windows of two series: by name, or by what they do where the numbers in the names mislead.

    The windows pair by name (see :func:`memlens.diffing.window_pairs.pair_windows`), unless the best alignment in order by what they do (which
    sizes they allocate and free, and how often) explains substantially more.  What counts for it are pairs of windows that do
    the same, both of which are paired by name with a window that does something else; steps that are all alike are no reason
    to leave the names, nor is a window that changed.  Where fewer than half of the windows have a partner by name, it
    is enough that they do the same.  ``(before)`` pairs with ``(before)``.

    Args:
        base: Windows of one log, as :meth:`EventLog.windows` gives them.
        head: Windows of another one.

    Returns:
        Each window once: in a pair, or alone.  With the two runs exchanged the pairs are the same.

    Raises:
        AnchorError: No window of one run has a partner in the other, but for what precedes both series.
    """
    named = named_pairs(base, head)
    none = all(base[i].name == BEFORE for i in named)
    found = _by_work(base, head, named)
    if found is not None:
        return WindowPairs.of(base, head, found, by_work=True)
    if none:
        raise nothing_in_common(base, head)
    return WindowPairs.of(base, head, named)


@dataclass(frozen=True, eq=False)
class _Side:
    """The windows of one run, without what precedes the series."""

    names: Sequence[str]
    series: Series

    def __len__(self) -> int:
        return len(self.names)

    @property
    def order(self) -> tuple[int, Sequence[str], bytes]:
        """What puts two sides into an order, whichever is called base."""
        return len(self.names), self.names, self.series.work.roots.tobytes()


@dataclass(frozen=True, eq=False)
class _Pairing:
    """A way to pair the windows of two runs.

    Attributes:
        base: Windows of base, by place, int64, one entry a pair in which what the windows do says something …
        head: … their partners …
        alike: … and how much alike they are, float32.
        of_base: How much alike each window of base and its partner are, float32: 0 for none, 1 where that says nothing.
        of_head: The same for head.
        paired_base: Whether each window of base has a partner, bool.
        paired_head: The same for head.
    """

    base: Ints
    head: Ints
    alike: Floats
    of_base: Floats
    of_head: Floats
    paired_base: NDArray[np.bool_]
    paired_head: NDArray[np.bool_]

    @classmethod
    def of(cls, base: Series, head: Series, pairs: Pairs) -> _Pairing:
        """Look at pairs of places."""
        i, j = np.array(pairs, np.int64).reshape(-1, 2).T
        common = np.einsum("ij,ij->i", base.work.roots[i], head.work.roots[j])
        alike = likeness(common, base.work.total[i], head.work.total[j])
        informative = base.informative[i] & head.informative[j]
        alike[~informative] = 1
        of_base, of_head = np.zeros(len(base), np.float32), np.zeros(len(head), np.float32)
        of_base[i], of_head[j] = alike, alike
        paired_base, paired_head = np.zeros(len(base), np.bool_), np.zeros(len(head), np.bool_)
        paired_base[i] = paired_head[j] = True
        return cls(i[informative], j[informative], alike[informative], of_base, of_head, paired_base, paired_head)

    def better_than(self, other: _Pairing, alone: NDArray[np.bool_]) -> float:
        """By how much pairs of this one are more alike than either of their windows is with its partner in another one.

        Args:
            other: The other way to pair.
            alone: Windows of base to count also where neither they nor their partners have one there, bool.
        """
        before = np.maximum(other.of_base[self.base], other.of_head[self.head])
        counts = other.paired_base[self.base] | other.paired_head[self.head] | alone[self.base]
        return float(np.maximum(self.alike - before, 0)[counts].sum())


def _by_work(base: Sequence[Window], head: Sequence[Window], named: dict[int, int]) -> dict[int, int] | None:
    """The pairs by what the windows do, by their places; ``None`` where the names stay."""
    skip, skip_too = (int(bool(windows) and windows[0].name == BEFORE) for windows in (base, head))
    if len(base) == skip or len(head) == skip_too:
        return None
    ours, theirs = _sides(base[skip:], head[skip_too:])
    by_name = [(i - skip, j - skip_too) for i, j in named.items() if i >= skip and j >= skip_too]
    turned = theirs.order < ours.order
    if turned:  # whichever run is called base, one and the same question is answered
        ours, theirs, by_name = theirs, ours, [(j, i) for i, j in by_name]
    pairs = _better(ours, theirs, by_name)
    if pairs is None:
        return None
    found = {(j if turned else i) + skip: (i if turned else j) + skip_too for i, j in pairs}
    return {0: 0, **found} if skip and skip_too else found


def _sides(base: Sequence[Window], head: Sequence[Window]) -> tuple[_Side, _Side]:
    kinds: dict[str, int] = {}
    sides = []
    for windows in (base, head):
        names, work = names_of(windows), Work.of(windows)
        kind = [kinds.setdefault(kind_of(name), len(kinds)) for name in names]
        informative = (work.total > 0) & ~np.array([window.open_end for window in windows])
        sides.append(_Side(names, Series(work, np.array(kind, np.int64), informative)))
    return sides[0], sides[1]


def _better(base: _Side, head: _Side, named: Pairs) -> Pairs | None:
    """The pairs by work, where they explain substantially more than those by name."""
    ours, theirs = base.series, head.series
    by_name = _Pairing.of(ours, theirs, named)
    uncovered = _uncovered(ours, theirs, by_name)
    if not uncovered.any() and (by_name.alike >= _NEARLY).all():
        return None
    partner = np.full(len(base), -1, np.int64)
    for i, j in named:
        partner[i] = j
    pairs = in_order(ours, theirs, partner)
    by_work = _Pairing.of(ours, theirs, pairs)
    gain = by_work.better_than(by_name, uncovered)
    elsewhere = base.names[0] != head.names[0] or uncovered.any()
    # What could be had: what most pairs by work reach, which is less than 1 where every window of head has changed.
    if not len(by_work.alike):
        return None
    reached = max(float(np.quantile(by_work.alike, _MOST)), _ALIKE)
    differs = float(np.maximum(reached - by_name.alike, 0).sum())
    least = (_GAIN_ELSEWHERE if elsewhere else _GAIN) * reached
    if gain < max(least, _SHARE * differs, _EACH_CHANGE * _changes(pairs)):
        return None
    if np.maximum(reached - by_work.alike, 0).mean() > _LEFT:
        return None
    if uncovered.any() and by_work.alike.mean() < _ALIKE:
        return None
    if _slides(ours, theirs, by_name, pairs):
        return None
    return _filled(base, head, pairs)


def _uncovered(base: Series, head: Series, by_name: _Pairing) -> NDArray[np.bool_]:
    """Windows of base of kinds of which names pair fewer than half, bool."""
    kinds = int(max(base.kind.max(), head.kind.max())) + 1
    ours, theirs = (np.bincount(side.kind[side.informative], minlength=kinds) for side in (base, head))
    both = np.minimum(ours, theirs)
    uncovered: NDArray[np.bool_] = (both >= _FEWEST) & (
        2 * np.bincount(base.kind[by_name.base], minlength=kinds) < both
    )
    return uncovered[base.kind]


def _slides(base: Series, head: Series, by_name: _Pairing, pairs: Pairs) -> bool:
    """Whether only sizes slide along the series: a batch that grows step by step, in head from another size on.

    Then windows of one name allocate equally often, and what one run has more before, the other has more at the end:
    a run that has a window more is longer by it.
    """
    alike = base.work.counts[by_name.base, 0] == head.work.counts[by_name.head, 0]
    i, j = pairs[-1]
    left = len(base) > i + 1 if j > i else len(head) > j + 1 if j < i else False
    return left and bool(3 * np.count_nonzero(alike) > 2 * len(alike))


def _changes(pairs: Pairs) -> int:
    """How often the numbering changes along the pairs: runs of windows alone, but for those at the end of the longer run."""
    return sum((j - i != next_j - next_i) for (i, j), (next_i, next_j) in pairwise([(-1, -1), *pairs]))


def _filled(base: _Side, head: _Side, pairs: Pairs) -> Pairs:
    """The pairs, and those of windows that are left between the same two of them: by name, or in order where as many are left."""
    ends = (len(base), len(head))
    more: Pairs = []
    for (i, j), (next_i, next_j) in pairwise([(-1, -1), *pairs, ends]):
        left, right = range(i + 1, next_i), range(j + 1, next_j)
        if not left or not right:
            continue
        places = {head.names[place]: place for place in right}
        found = [(place, places[base.names[place]]) for place in left if base.names[place] in places]
        if not found and len(left) == len(right):
            found = list(zip(left, right, strict=True))
        kinds = base.series.kind, head.series.kind
        more += [(one, other) for one, other in found if kinds[0][one] == kinds[1][other]]
    return sorted(pairs + more)
