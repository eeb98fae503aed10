"""Of whom more and more is live over a series of windows, whatever the sizes of his blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.analyzers.fates import held_events, until
from memlens.analyzers.groups import UNOWNED, by_label, by_size_and_owner, holder_of
from memlens.analyzers.series.trend import judge
from memlens.facts import Kind
from memlens.folding import bounds
from memlens.results import Result
from memlens.spool import walk
from memlens.text import STACK, innermost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window

#: Of so many owners with the most live bytes it is asked whether they come to more and more.
_LOOKED_AT = 20


class Grown(Result, frozen=True):
    """An owner of whom more and more is live, whatever the sizes of its blocks: a tensor that is made anew, larger, or results of one line of any length.

    Attributes:
        owner: It, as sentences name it: the operator or innermost frame, and the innermost of the user's own.
        gained_bytes: By how much the floor of its live bytes at the ends of windows rose, as :attr:`memlens.analyzers.series.growth.Growth.gained_bytes` of all.
        gained_bytes_per_window: As that of all.
        since: Name of the window in which the first of these bytes were gained.
        count: Its blocks that are live at the end of the last judged window.
        holder: Who holds more than half of these bytes, where that was recorded.
        held_in_part: Somebody else was seen to hold one of these blocks.
        at_exit: So much of it is freed after the last ALLOC of the log.
    """

    owner: str
    gained_bytes: int
    gained_bytes_per_window: float
    since: str
    count: int
    holder: str | None = None
    held_in_part: bool = False
    at_exit: bool = False


def freed_last(log: EventLog, blocks: Ints, end: int) -> NDArray[np.bool_]:
    """Which of the blocks that are live at event ``end`` are freed after the last ALLOC of the log."""
    freed, allocs = until(log.lifetimes.partner)[blocks], np.flatnonzero(log.kind[end:] == Kind.ALLOC)
    late: NDArray[np.bool_] = (freed < len(log)) & (freed >= (end + int(allocs[-1]) if len(allocs) else end))
    return late


def grown_of(windows: Sequence[Window], before: int, least: int) -> Grown | None:
    """The owner of whom most is gained over a series, where his live bytes grow by themselves, by more than so many.

    Args:
        windows: The series that is judged, of one log.
        before: How many of them precede it.
        least: What must be gained.
    """
    log, _, hi = bounds(windows)
    if log.owner is None:
        return None
    end, ends = int(hi.max()), np.sort(hi)
    blocks = held_events(log, 0, end, end)
    groups = by_size_and_owner(log, blocks)
    live = {label: found for label, found in by_label(groups).items() if label not in UNOWNED}
    labels = [label for label, (size, _) in live.items() if size > least][:_LOOKED_AT]
    number, first = {label: k for k, label in enumerate(labels)}, {label.partition(STACK)[0] for label in labels}
    alike = (name if name and name.partition(STACK)[0] in first else None for name in groups.names)
    row = np.array([number.get(innermost(name), -1) if name else -1 for name in alike])
    changes, partner = np.zeros((len(labels), len(ends) + 1), np.int64), until(log.lifetimes.partner)
    for start, stop in walk(0, end):
        of = row[log.owner[start:stop]]
        events = np.flatnonzero((of >= 0) & (log.kind[start:stop] == Kind.ALLOC))
        of, size = of[events], log.size[start:stop][events]
        freed = np.minimum(partner[start:stop][events], end).astype(np.int64)
        np.add.at(changes, (of, ends.searchsorted(start + events, "right")), size)
        np.add.at(changes, (of, ends.searchsorted(freed, "right")), -size)
    trends = zip(labels, (judge(levels, before) for levels in changes.cumsum(axis=1)[:, :-1]), strict=True)
    grow = [(label, trend) for label, trend in trends if trend.since is not None and trend.gained_bytes > least]
    if not grow:
        return None
    owner, trend = max(grow, key=lambda one: one[1].gained_bytes)
    holder, in_part = holder_of(groups, owner, live[owner][0])
    theirs = blocks[row[log.owner[blocks]] == number[owner]]
    gained, rate = trend.gained_bytes, trend.gained_bytes_per_window
    at_exit = int(log.size[theirs][freed_last(log, theirs, end)].sum()) >= gained
    return Grown(owner, gained, rate, windows[trend.since or 0].name, live[owner][1], holder, bool(in_part), at_exit)
