"""Windows of real logs in which some blocks are freed after the peak instead of before it, and which Frees are late."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from memlens.diffing.result import WindowDiff
from memlens.events import EventLog, Kind
from memlens.log import Log
from memlens.windows.windows import Window

_COLUMNS = ("kind", "size", "addr", "thread", "requested", "owner")
Row = tuple[Kind, int, int]


@dataclass(frozen=True, eq=False)
class Late:
    """Two runs of one window.

    Attributes:
        base: A copy, of which some neighbours may have changed places.
        head: A copy, some of whose Frees come later.
        late: How many blocks of each size both free that are live at head's peak and gone at base's.
        early: The opposite.
        at_peak: How many blocks of each size are live at base's peak and not at head's, and the opposite: of blocks alike nothing tells which is which.
    """

    base: Window
    head: Window
    late: Counter[int]
    early: Counter[int]
    at_peak: tuple[Counter[int], Counter[int]]

    @property
    def sure(self) -> tuple[Counter[int], Counter[int]]:
        """The late and the early ones of which no block alike does the opposite."""
        return self.late - self.at_peak[0], self.early - self.at_peak[1]


def late_frees(window: Window, chance: Random, most: int, swaps: float = 0.0) -> Late:
    """Free up to so many blocks, each gone at the peak, only after it; and let a share of all neighbours change places in base."""
    log, partner = window.log, window.log.lifetimes.partner
    rows = list(range(window.lo, window.hi))
    top = _peak(log, rows)
    gone = [event for event in rows[: top + 1] if log.kind[event] == Kind.FREE and partner[event] >= window.lo]
    moved = chance.sample(gone, min(most, len(gone)))
    head = [event for event in rows if event not in moved]
    for event in moved:
        head.insert(chance.randint(top + 1 - len(moved), len(head)), event)
    for at in range(len(rows) - 1):
        if chance.random() < swaps and log.addr[rows[at]] != log.addr[rows[at + 1]]:
            rows[at], rows[at + 1] = rows[at + 1], rows[at]
    live, known = zip(*(_at_peak(window, side) for side in (rows, head)), strict=True)
    only = live[0] - live[1], live[1] - live[0]
    early, late = (Counter(int(log.size[alloc]) for alloc in only[here] if alloc in known[1 - here]) for here in (0, 1))
    at_peak = Counter(log.size[list(only[0])].tolist()), Counter(log.size[list(only[1])].tolist())
    # A block whose FREE was moved may not share its address with a later one.
    fresh = {event: number for number, event in enumerate([*moved, *(int(partner[event]) for event in moved)])}
    fresh |= {event: fresh[int(partner[event])] for event in moved}
    return Late(_copy(window, rows, {}), _copy(window, head, fresh), late, early, at_peak)


def _peak(log: EventLog, rows: list[int]) -> int:
    """The place of the event that reaches the highest level; -1 where none rises above the start."""
    level, highest, top = 0, 0, -1
    for at, event in enumerate(rows):
        level += int(log.size[event]) * {Kind.ALLOC: 1, Kind.FREE: -1}.get(Kind(log.kind[event]), 0)
        if level > highest:
            highest, top = level, at
    return top


def _at_peak(window: Window, rows: list[int]) -> tuple[set[int], set[int]]:
    """The ALLOCs of blocks that are freed in the window: those live at the peak, and those allocated up to it."""
    log, partner, top = window.log, window.log.lifetimes.partner, _peak(window.log, rows)
    place = {event: at for at, event in enumerate(rows)}
    freed = [event for event in rows if log.kind[event] == Kind.FREE and partner[event] >= 0]
    known = {int(partner[free]) for free in freed if place.get(int(partner[free]), -1) <= top}
    return {alloc for alloc in known if place[int(partner[alloc])] > top}, known


def _copy(window: Window, rows: list[int], fresh: dict[int, int]) -> Window:
    """The window's events in this order, in a log of its own at other addresses; events of ``fresh`` blocks have addresses that nobody else has."""
    log = window.log
    order = np.concatenate((np.arange(window.lo), np.array(rows, np.int64), np.arange(window.hi, len(log))))
    columns: dict[str, Any] = {name: getattr(log, name)[order] for name in _COLUMNS if getattr(log, name) is not None}
    beyond = int(log.addr.max()) + (1 << 20)
    for place in np.flatnonzero(np.isin(order, list(fresh))).tolist():
        columns["addr"][place] = beyond + 512 * fresh[int(order[place])]
    columns["addr"] = columns["addr"] ^ np.uint64(1 << 62)
    places = np.arange(len(order), dtype=np.int64)
    copy = Log(**columns, offset=places, line=places + 1, owner_names=log.owner_names)
    return Window(copy, window.name, window.lo, window.hi, window.lo, window.hi, window.lo + 1, window.hi)


def whole(rows: list[Row], threads: list[int] | None = None) -> Window:
    """A window that is all of a log."""
    columns = {} if threads is None else {"thread": np.array(threads, np.int64)}
    log = Log.from_rows(rows, line=np.arange(1, len(rows) + 1), **columns)
    return Window(log, "all", 0, len(rows), 0, len(rows), 1, len(rows))


def named(found: WindowDiff, kind: str) -> Counter[int]:
    """How many blocks of each size findings of a kind name."""
    sizes: Counter[int] = Counter()
    for finding in found.findings:
        if finding.kind == kind:
            sizes[finding.size_bytes] += finding.count
    return sizes
