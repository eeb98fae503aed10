"""Pair the windows of two runs: by name, and, where a name comes again and again, by the order of the names.

:meth:`EventLog.windows` calls the third ``OPT`` ``OPT #3``.  Paired by such a name, one ``OPT`` that is missing in the middle of a run
would shift all later ones by a step.  So the two series of names, without the ``#3``, are aligned as sequences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING

from memlens.errors import AnchorError
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from memlens.windows.windows import Window

__all__ = ["WindowPairs", "longest_common", "named_pairs", "names_of", "nothing_in_common", "pair_windows"]

_OCCURRENCE = re.compile(r"(?s)(.+) #([1-9][0-9]*)")
_SHOWN = 3
_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class WindowPairs:
    """The windows of two runs, paired.

    Attributes:
        pairs: Base's window and head's, in base's order.
        only_base: Windows of base without a partner, in order.
        only_head: Windows of head without a partner, in order.
        by_work: The windows pair by what they do, for the numbers in their names do not mean the same in the two runs.
    """

    pairs: tuple[tuple[Window, Window], ...]
    only_base: tuple[Window, ...]
    only_head: tuple[Window, ...]
    by_work: bool = False

    @classmethod
    def of(
        cls, base: Sequence[Window], head: Sequence[Window], pairs: Mapping[int, int], *, by_work: bool = False
    ) -> WindowPairs:
        """The windows of two series, of which some are paired.

        Args:
            base: The one series.
            head: The other one.
            pairs: For a window of base, by its place, the place of its partner in head.
            by_work: They pair by what they do.
        """
        paired_head = set(pairs.values())
        return cls(
            tuple((base[i], head[pairs[i]]) for i in sorted(pairs)),
            tuple(window for i, window in enumerate(base) if i not in pairs),
            tuple(window for j, window in enumerate(head) if j not in paired_head),
            by_work,
        )


def pair_windows(base: Sequence[Window], head: Sequence[Window]) -> WindowPairs:
    """Pair the windows of two series by their names.

    Windows of different names never pair.  A name that each run has once pairs, wherever it stands.  Names that come again
    pair in order, so that as many as can be do; what was inserted or left out in the middle stays alone and shifts nothing.

    Args:
        base: Windows of one log, as :meth:`EventLog.windows` gives them.
        head: Windows of another one.

    Returns:
        Each window once: in a pair, or alone.

    Raises:
        AnchorError: No window of one run has a partner in the other, but for what precedes both series.
    """
    pairs = named_pairs(base, head)
    if all(base[i].name == BEFORE for i in pairs):
        raise nothing_in_common(base, head)
    return WindowPairs.of(base, head, pairs)


def named_pairs(base: Sequence[Window], head: Sequence[Window]) -> dict[int, int]:
    """Which window of head each window of base pairs with by its name, by their places; see :func:`pair_windows`."""
    ours, theirs = names_of(base), names_of(head)
    pairs = _aligned(ours, theirs)
    once, once_too = _only_once(ours), _only_once(theirs)
    # A name that stands alone in both pairs even where the order of the windows differs.
    paired_head = set(pairs.values())
    for name in once.keys() & once_too.keys():
        if once[name] not in pairs and once_too[name] not in paired_head:
            pairs[once[name]] = once_too[name]
            paired_head.add(once_too[name])
    return pairs


def longest_common(base: Sequence[Hashable], head: Sequence[Hashable]) -> list[tuple[int, int]]:
    """A longest common subsequence of two sequences, as pairs of positions; of several, one that pairs early in base.

    The rows of the usual table (best length up to here) are kept as integers of one bit an entry, after Crochemore, Iliopoulos,
    Pinzon and Reid (2001): 10,000 × 10,000 takes a tenth of a second.  Every so many rows one is kept, and the rows between are worked
    out again on the way back, so that memory grows with ``len(base) * sqrt(len(head)) / 8`` bytes only.
    """
    begin, stop, other_stop = 0, len(base), len(head)
    while begin < min(stop, other_stop) and base[begin] == head[begin]:
        begin += 1
    while min(stop, other_stop) > begin and base[stop - 1] == head[other_stop - 1]:
        stop, other_stop = stop - 1, other_stop - 1
    same = [(i, i) for i in range(begin)]
    middle = _longest_common(base[begin:stop], head[begin:other_stop])
    same += [(begin + i, begin + j) for i, j in middle]
    return same + list(zip(range(stop, len(base)), range(other_stop, len(head)), strict=True))


def _longest_common(base: Sequence[Hashable], head: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not base or not head:
        return []
    where: dict[Hashable, int] = {}
    for i, name in enumerate(base):
        where[name] = where.get(name, 0) | 1 << i
    everywhere = (1 << len(base)) - 1
    step = isqrt(len(head)) + 1

    def rows(row: int, names: Sequence[Hashable]) -> list[int]:
        """The rows after each of the names: bit i is 0 where base[i] lengthens the subsequence."""
        found = []
        for name in names:
            places = where.get(name, 0)
            matched = row & places
            row = (row + matched | row & ~places) & everywhere
            found.append(row)
        return found

    # kept[k]: the row before head[k * step]
    kept = [everywhere]
    for start in range(0, len(head) - step, step):
        kept.append(rows(kept[-1], head[start : start + step])[-1])
    pairs: list[tuple[int, int]] = []
    i = len(base) - 1
    for k in range(len(kept) - 1, -1, -1):
        stretch = head[k * step : (k + 1) * step]
        table = [kept[k], *rows(kept[k], stretch)]
        for j in range(len(stretch), 0, -1):
            # Back to the last name of base that lengthens the subsequence up to here …
            lengthens = ~table[j] & everywhere & (2 << i) - 1
            i = lengthens.bit_length() - 1
            if i < 0:
                return pairs[::-1]
            # … which pairs with this name of head unless it did so without it.
            if table[j - 1] >> i & 1:
                pairs.append((i, k * step + j - 1))
                i -= 1
                if i < 0:
                    return pairs[::-1]
    return pairs[::-1]


def _aligned(base: Sequence[str], head: Sequence[str]) -> dict[int, int]:
    """Which window of head each window of base pairs with, by the order of the names; none where all names stand alone."""
    if len(set(base)) == len(base) and len(set(head)) == len(head):
        return {}
    # Of several longest ones always the same is taken, whichever run is called base.
    if (len(head), head) < (len(base), base):
        return {i: j for j, i in longest_common(head, base)}
    return dict(longest_common(base, head))


def _only_once(names: Sequence[str]) -> dict[str, int]:
    """Where each name stands that comes once."""
    times = Counter(names)
    return {name: i for i, name in enumerate(names) if times[name] == 1}


def names_of(windows: Sequence[Window]) -> list[str]:
    """The names as they stand in the log: without the ``#2`` of a name that came before."""
    seen: set[str] = set()
    names = []
    for window in windows:
        match = _OCCURRENCE.fullmatch(window.name)
        name = match[1] if match and match[1] in seen else window.name
        seen.add(name)
        names.append(name)
    return names


def nothing_in_common(base: Sequence[Window], head: Sequence[Window]) -> AnchorError:
    """The error for two series of which nothing pairs, with their names."""
    sides = [f"{side} has {_listed(windows)}" for side, windows in (("base", base), ("head", head))]
    return AnchorError(
        f"no window of one run has a window of the same name in the other: {'; '.join(sides)}",
        "Cut both runs by a line that both print (--by), or name the start of each (--base-start, --head-start).",
    )


def _listed(windows: Sequence[Window]) -> str:
    names = [_shown(window.name) for window in windows]
    if len(names) > _SHOWN:
        return f"{len(names):,}, from {names[0]} to {names[-1]}"
    return ", ".join(names) if names else "none"


def _shown(name: str) -> str:
    """A name of a log without characters that a terminal would obey."""
    name = name if name.isprintable() else repr(name)[1:-1]
    return name if len(name) <= _LONGEST_SHOWN else name[: _LONGEST_SHOWN - 1] + "…"
