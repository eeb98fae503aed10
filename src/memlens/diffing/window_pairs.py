"""Pair the windows of two runs: by name, or by what they do where the numbers in the names mislead.

:meth:`EventLog.windows` calls the third ``OPT`` ``OPT #3``.  Paired by such a name, one ``OPT`` that is missing in the middle of a run
would shift all later ones by a step.  So the two series of names, without the ``#3``, are aligned as sequences.

Names are what people see, so they decide unless what the windows do says clearly that they mislead: one was inserted or lost, or they
start elsewhere.  A window that changed keeps its partner: that it differs is what a comparison is for.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.diffing.window_order import Series, Work, in_order, likeness, longest_common
from memlens.errors import AnchorError
from memlens.windows.windows import BEFORE, Window, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.events import EventLog

    Floats = NDArray[np.float32]
    Pairs = list[tuple[int, int]]


_OCCURRENCE = re.compile(r"(?s)(.+) #([1-9][0-9]*)")
_SHOWN = 3
_LONGEST_SHOWN = 60
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


class WindowPairs(Struct, frozen=True):
    """The windows of two runs, paired.

    Attributes:
        pairs: Base's window and head's, in base's order.
        only_base: Windows of base without a partner, in order.
        only_head: Windows of head without a partner, in order.
        by_work: The windows pair by what they do, for the numbers in their names do not mean the same in the two runs.
        by: What cut both runs into a series; ``None`` for a single pair, or where it was not said.
        ends: Each window has the name of the line that ends it.
    """

    pairs: tuple[tuple[Window, Window], ...]
    only_base: tuple[Window, ...] = ()
    only_head: tuple[Window, ...] = ()
    by_work: bool = False
    by: str | None = None
    ends: bool = False

    @property
    def logs(self) -> tuple[EventLog, EventLog]:
        """Base's log, and head's."""
        base, head = self.pairs[0]
        return base.log, head.log

    @classmethod
    def of(cls, base: Sequence[Window], head: Sequence[Window], pairs: Mapping[int, int], by_work: bool) -> WindowPairs:
        """The windows of two series, of which some are paired: by their indices, those of base with their partners in head."""
        paired_head = set(pairs.values())
        return cls(
            tuple((base[i], head[pairs[i]]) for i in sorted(pairs)),
            tuple(window for i, window in enumerate(base) if i not in pairs),
            tuple(window for j, window in enumerate(head) if j not in paired_head),
            by_work,
        )


def named_pairs(base: Sequence[Window], head: Sequence[Window]) -> dict[int, int]:
    """Return which window of head each window of base pairs with by its name, by their indices.

    Windows of different names never pair.  A name that each run has once pairs, wherever it stands.  Names that come again
    pair in order, so that as many as can be do; what was inserted or left out in the middle stays alone and shifts nothing.
    """
    ours, theirs = _names_of(base), _names_of(head)
    if len(set(ours)) == len(ours) and len(set(theirs)) == len(theirs):
        where = {name: j for j, name in enumerate(theirs)}
        return {i: where[name] for i, name in enumerate(ours) if name in where}
    pairs = dict(longest_common(ours, theirs))
    # A name that stands alone in both pairs even where the order of the windows differs.
    times, times_too = Counter(ours), Counter(theirs)
    where = {name: j for j, name in enumerate(theirs) if times_too[name] == 1}
    alone = where.keys() - {theirs[j] for j in pairs.values()}
    return pairs | {i: where[name] for i, name in enumerate(ours) if times[name] == 1 and name in alone}


def _names_of(windows: Sequence[Window]) -> list[str]:
    """The names as they stand in the log: without the ``#2`` of a name that came before."""
    seen: set[str] = set()
    names = []
    for window in windows:
        match = _OCCURRENCE.fullmatch(window.name)
        name = match[1] if match and match[1] in seen else window.name
        seen.add(name)
        names.append(name)
    return names


def pair_by_name_or_work(base: Sequence[Window], head: Sequence[Window]) -> WindowPairs:
    """Pair the windows of two series: by name, or by what they do where the numbers in the names mislead.

    The windows pair by name (see :func:`named_pairs`), unless the best alignment in order by what they do (which
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
    found = _by_work(base, head, named)
    if found is None and all(base[i].name == BEFORE for i in named):
        sides = [f"{side} has {_listed(windows)}" for side, windows in (("base", base), ("head", head))]
        raise AnchorError(
            f"no window of one run has a window of the same name in the other: {'; '.join(sides)}",
            "Cut both runs by a line that both print (--by), or name the start of each (--base-start, --head-start).",
        )
    return WindowPairs.of(base, head, named if found is None else found, by_work=found is not None)


def _listed(windows: Sequence[Window]) -> str:
    names = [_shown(window.name) for window in windows]
    if len(names) > _SHOWN:
        return f"{len(names):,}, from {names[0]} to {names[-1]}"
    return ", ".join(names) if names else "none"


def _shown(name: str) -> str:
    """A name of a log without characters that a terminal would obey."""
    name = name if name.isprintable() else repr(name)[1:-1]
    return name if len(name) <= _LONGEST_SHOWN else name[: _LONGEST_SHOWN - 1] + "…"


class _Pairing(NamedTuple):
    """A way to pair the windows of two runs.

    Attributes:
        base: Windows of base, by index, int64, one entry a pair in which what the windows do says something …
        head: … their partners …
        alike: … and how much alike they are, float32.
        of_base: How much alike each window of base and its partner are, float32: -1 for none, 1 where that says nothing.
        of_head: The same for head.
    """

    base: Ints
    head: Ints
    alike: Floats
    of_base: Floats
    of_head: Floats

    @classmethod
    def of(cls, base: Series, head: Series, pairs: Pairs) -> _Pairing:
        """Look at pairs of indices."""
        i, j = np.array(pairs, np.int64).reshape(-1, 2).T
        common = np.einsum("ij,ij->i", base.work.roots[i], head.work.roots[j])
        alike = likeness(common, base.work.total[i], head.work.total[j])
        informative = base.informative[i] & head.informative[j]
        alike[~informative] = 1
        of_base, of_head = np.full(len(base), -1, np.float32), np.full(len(head), -1, np.float32)
        of_base[i], of_head[j] = alike, alike
        return cls(i[informative], j[informative], alike[informative], of_base, of_head)

    def better_than(self, other: _Pairing, alone: Flags) -> float:
        """By how much pairs of this one are more alike than either of their windows is with its partner in another one.

        Args:
            other: The other way to pair.
            alone: Windows of base to count also where neither they nor their partners have one there, bool.
        """
        before = np.maximum(other.of_base[self.base], other.of_head[self.head])
        counts = (before >= 0) | alone[self.base]
        return float(np.maximum(self.alike - np.maximum(before, 0), 0)[counts].sum())


def _by_work(base: Sequence[Window], head: Sequence[Window], named: Mapping[int, int]) -> dict[int, int] | None:
    """The pairs by what the windows do, by their indices; ``None`` where the names stay."""
    skip, skip_too = (int(bool(windows) and windows[0].name == BEFORE) for windows in (base, head))
    if len(base) == skip or len(head) == skip_too:
        return None
    kinds: dict[str, int] = {}
    ours, theirs = (_series(windows, kinds) for windows in (base[skip:], head[skip_too:]))
    by_name = [(i - skip, j - skip_too) for i, j in named.items() if i >= skip and j >= skip_too]
    # Whichever run is called base, one and the same question is answered.
    orders = [(len(of), of.names, of.work.roots.tobytes()) for of in (ours, theirs)]
    turned = orders[1] < orders[0]
    pairs = _better(theirs, ours, [(j, i) for i, j in by_name]) if turned else _better(ours, theirs, by_name)
    if pairs is None:
        return None
    found = {(j if turned else i) + skip: (i if turned else j) + skip_too for i, j in pairs}
    return {0: 0, **found} if skip and skip_too else found


def _series(windows: Sequence[Window], kinds: dict[str, int]) -> Series:
    """The windows of one run as they are aligned; ``kinds`` numbers the kinds of names."""
    names, work = _names_of(windows), Work.of(windows)
    kind = np.array([kinds.setdefault(kind_of(name), len(kinds)) for name in names], np.int64)
    return Series(work, kind, (work.total > 0) & ~np.array([window.open_end for window in windows]), names)


def _better(base: Series, head: Series, named: Pairs) -> Pairs | None:
    """The pairs by work, where they explain substantially more than those by name."""
    by_name = _Pairing.of(base, head, named)
    uncovered = _uncovered(base, head, by_name)
    if not uncovered.any() and (by_name.alike >= _NEARLY).all():
        return None
    partner = np.full(len(base), -1, np.int64)
    for i, j in named:
        partner[i] = j
    pairs = in_order(base, head, partner)
    by_work = _Pairing.of(base, head, pairs)
    if not len(by_work.alike):
        return None
    # What could be had: what most pairs by work reach, which is less than 1 where every window of head has changed.
    reached = max(float(np.quantile(by_work.alike, _MOST)), _ALIKE)
    elsewhere = base.names[0] != head.names[0] or uncovered.any()
    least = max(
        (_GAIN_ELSEWHERE if elsewhere else _GAIN) * reached,
        _SHARE * float(np.maximum(reached - by_name.alike, 0).sum()),
        _EACH_CHANGE * _changes(pairs),
    )
    if (
        by_work.better_than(by_name, uncovered) < least
        or np.maximum(reached - by_work.alike, 0).mean() > _LEFT
        or (uncovered.any() and by_work.alike.mean() < _ALIKE)
        or _slides(base, head, by_name, pairs)
    ):
        return None
    return _filled(base, head, pairs)


def _uncovered(base: Series, head: Series, by_name: _Pairing) -> Flags:
    """Windows of base of kinds of which names pair fewer than half, bool."""
    kinds = int(max(base.kind.max(), head.kind.max())) + 1
    both = np.minimum(*(np.bincount(side.kind[side.informative], minlength=kinds) for side in (base, head)))
    found: Flags = ((both >= _FEWEST) & (2 * np.bincount(base.kind[by_name.base], minlength=kinds) < both))[base.kind]
    return found


def _slides(base: Series, head: Series, by_name: _Pairing, pairs: Pairs) -> bool:
    """Return whether only sizes slide along the series: a batch that grows step by step, in head from another size on.

    Then windows of one name allocate equally often, and what one run has more before, the other has more at the end:
    a run that has a window more is longer by it.
    """
    alike = base.work.counts[by_name.base, 0] == head.work.counts[by_name.head, 0]
    i, j = pairs[-1]
    left = len(base) > i + 1 if j > i else len(head) > j + 1 if j < i else False
    return left and bool(3 * np.count_nonzero(alike) > 2 * len(alike))


def _changes(pairs: Pairs) -> int:
    """Return how often the numbering changes along the pairs: runs of windows alone, but for those at the end of the longer run."""
    return sum((j - i != next_j - next_i) for (i, j), (next_i, next_j) in pairwise([(-1, -1), *pairs]))


def _filled(base: Series, head: Series, pairs: Pairs) -> Pairs:
    """The pairs, and those of windows that are left between the same two of them: by name, or in order where as many are left."""
    more: Pairs = []
    for (i, j), (next_i, next_j) in pairwise([(-1, -1), *pairs, (len(base), len(head))]):
        left, right = range(i + 1, next_i), range(j + 1, next_j)
        where = {head.names[k]: k for k in right}
        found = [(k, where[base.names[k]]) for k in left if base.names[k] in where]
        if not found and len(left) == len(right):
            found = list(zip(left, right, strict=True))
        more += [(one, other) for one, other in found if base.kind[one] == head.kind[other]]
    return sorted(pairs + more)
