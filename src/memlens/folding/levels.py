"""The figures of windows: sums, levels and peaks from one pass over their log, which analyzers share; and the levels at single moments."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from memlens.columns import distinct
from memlens.facts import Kind
from memlens.folding.tally import Figures, Tally, tally
from memlens.windows.windows import Windows, edges_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window


def bounds(windows: Sequence[Window]) -> tuple[EventLog, Ints, Ints]:
    """The log that the windows share, and their first events and the events after their last, both int64.

    Raises:
        ValueError: The windows are of several logs, or there are none.
    """
    several = windows[:1] if isinstance(windows, Windows) else windows
    if (logs := len({id(window.log) for window in several})) != 1:
        raise ValueError(f"windows of one log are needed, not of {logs}")
    return windows[0].log, edges_of(windows, "lo"), edges_of(windows, "hi")


#: Of each log the last tally, and what was asked of it.
_LAST: WeakKeyDictionary[EventLog, tuple[Tally, dict[bytes, Figures]]] = WeakKeyDictionary()


def profile(windows: Sequence[Window]) -> Figures:
    """The figures of windows of one log, from one pass over it; see :func:`figures`."""
    return figures(*bounds(windows))


def figures(log: EventLog, lo: Ints, hi: Ints) -> Figures:
    """The figures of stretches ``lo … hi-1`` of the events of a log, from one pass over it.

    The tally and the answers are kept: analyzers that are asked about the same stretches share one pass, and so do those that are asked
    about stretches with the same edges, or with fewer.
    """
    cuts = distinct(np.concatenate([lo, hi, [0]]))
    known = _LAST.get(log)
    if known is None and log.condensed is not None:
        known = _LAST[log] = log.condensed.tally, {}
    if known is None or not np.isin(cuts, known[0].edges).all():
        if log.condensed is not None:
            raise ValueError("a condensed log has no figures of stretches that it was not folded for")
        known = _LAST[log] = tally(log, cuts), {}
    key = lo.tobytes() + hi.tobytes()
    if key not in known[1]:
        known[1][key] = known[0].over(lo, hi)
    return known[1][key]


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
    if log not in _LAST:
        figures(log, np.zeros(1, np.int64), np.array([len(log)]))
    last = _LAST[log][0]  # which begins with the first event of the log
    if (events > last.edges[-1]).any():
        whole = tally(log, distinct(np.append(0, events)))
        return list(map(tuple, whole.over(events, events).levels.T.tolist()))
    found = []
    for event, k in zip(events.tolist(), (np.searchsorted(last.edges, events, "right") - 1).tolist(), strict=True):
        between = slice(int(last.edges[k]), event)
        signed = log.size[between] * (1 - 2 * (log.kind[between] & 1))
        block = log.kind[between] <= Kind.FREE
        allocated, reserved = last.levels[:, k].tolist()
        found.append((allocated + int(signed[block].sum()), reserved + int(signed[~block].sum())))
    return found
