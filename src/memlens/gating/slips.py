"""Events that came on the other side of an anchor by chance: threads run ahead of the one that prints it, or behind.

Such an event moves the level at the anchor, and so what the windows on both sides leave behind and rise by, while nothing more is held at
any moment.  It is known by this: one of the last events before the anchor in one run is, alike in kind and size, one of the first after it
in the other run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["NEAR", "Near", "near", "slipped"]

#: Events on each side of an anchor that chance may move over it.
NEAR = 2

#: The events next to an anchor as signed sizes, ALLOC above 0 and FREE below: the last ones before it, the first ones after it.
Near: TypeAlias = tuple[int, ...]


def near(log: EventLog, at: NDArray[np.int64]) -> list[Near]:
    """The events next to each of some places (the index of the first event after them, int64); 0 where there is none of a block."""
    blocks = np.flatnonzero(log.kind <= Kind.FREE)  # among the events, int64
    if not len(blocks):
        return [(0,) * (2 * NEAR)] * len(at)
    places = np.searchsorted(blocks, at)[:, None] + np.arange(-NEAR, NEAR)
    there = (places >= np.searchsorted(blocks, log.facts.opening)) & (places < len(blocks))
    places = blocks[np.clip(places, 0, len(blocks) - 1)]
    sizes = np.where(log.kind[places] == Kind.ALLOC, log.size[places], -log.size[places])
    return list(map(tuple, np.where(there, sizes, 0).tolist()))


def slipped(base: Near, head: Near) -> int:
    """By how many bytes head's level at an anchor is higher than base's for events on the other side of it; below 0 where it is lower."""
    earlier, later = _moved(head, base), _moved(base, head)
    return sum(earlier.elements()) - sum(later.elements())


def _moved(one: Near, other: Near) -> Counter[int]:
    """The events that stand before the anchor in one run and after it in the other."""
    before, after = _more(one[:NEAR], other[:NEAR]), _more(other[NEAR:], one[NEAR:])
    return before & after


def _more(one: Sequence[int], other: Iterable[int]) -> Counter[int]:
    return Counter(one) - Counter(other)
