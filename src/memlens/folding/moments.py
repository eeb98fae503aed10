"""The levels at single moments of a log."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from memlens.columns import distinct
from memlens.facts import Kind
from memlens.folding.levels import last_tally
from memlens.folding.tally import tally

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.folding.tally import Tally

    Ints = NDArray[np.int64]


#: Of each log the edges of its last tally, and the levels right before each, two rows, int64.
_AT_EDGES: WeakKeyDictionary[EventLog, tuple[Ints, Ints]] = WeakKeyDictionary()
#: Of each condensed log the levels right before its first event that is kept and right after each, two rows, int64.
_LEVELS: WeakKeyDictionary[EventLog, Ints] = WeakKeyDictionary()


def levels_before(log: EventLog, events: Ints) -> list[tuple[int, int]]:
    """The allocated and the reserved level right before each of some events, in bytes; of a condensed log right after the one before it that is kept."""
    if log.condensed is not None:
        if log not in _LEVELS:  # once for the log: of each of many windows some moments are asked for
            signed = np.where(log.kind & 1, -log.size, log.size)
            _LEVELS[log] = np.zeros((2, len(log) + 1), np.int64)
            _LEVELS[log][:, 1:] = log.condensed.level, np.cumsum(np.where(log.kind > Kind.FREE, signed, 0))
        known: list[tuple[int, int]] = _LEVELS[log][:, events].T.tolist()
        return known
    edges, levels = _at_edges(log, last_tally(log))
    beyond = events > edges[-1]
    if beyond.any():
        whole = tally(log, distinct(np.append(0, events)))
        return list(map(tuple, whole.over(events, events).levels.T.tolist()))
    found = []
    for event, k in zip(events.tolist(), (np.searchsorted(edges, events, "right") - 1).tolist(), strict=True):
        allocated, reserved = _net(log.kind[edges[k] : event], log.size[edges[k] : event])
        found.append((int(levels[0, k]) + allocated, int(levels[1, k]) + reserved))
    return found


def _at_edges(log: EventLog, known: Tally) -> tuple[Ints, Ints]:
    """The edges of the last tally of a log, and the allocated and the reserved level right before each; both kept."""
    kept = _AT_EDGES.get(log)
    if kept is None or kept[0] is not known.edges:
        kept = _AT_EDGES[log] = known.edges, known.over(known.edges, known.edges).levels
    return kept


def _net(kind: NDArray[np.int8], size: Ints) -> tuple[int, int]:
    """The bytes that events add to the allocated and to the reserved level."""
    signed = size * (1 - 2 * (kind & 1))
    block = kind <= Kind.FREE
    return int(signed[block].sum()), int(signed[~block].sum())
