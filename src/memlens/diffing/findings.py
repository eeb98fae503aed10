"""Findings: groups of alike items, with the places and the log lines that go with them, looked up when they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from memlens.analyzers.groups import owner_labels, owners_of
from memlens.analyzers.places import Lines
from memlens.analyzers.result import Later
from memlens.diffing.context import context_lines
from memlens.diffing.differences import FATES, KIND_NAMES, Items, group
from memlens.diffing.finding import ContextLine, Finding, Kind, Member, Side
from memlens.diffing.result import Repeated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

    Ints = NDArray[np.int64]

__all__ = ["Runs", "findings_of", "repeated_in"]

#: Findings whose context is looked up at once.
_TOGETHER = 16


@dataclass(frozen=True, eq=False)
class Runs:
    """What findings are told from.

    Attributes:
        base: Base's log.
        head: Head's log.
        owners: The owners of both runs.
        names: The name of each window pair.
        base_ends: The event after each window of base, int64.
        head_ends: The same for head.
        items: The items of all windows, by window.
        context: Log lines shown on each side of an event.
    """

    base: EventLog
    head: EventLog
    owners: Sequence[str]
    names: Sequence[str]
    base_ends: Ints
    head_ends: Ints
    items: Items
    context: int


def findings_of(runs: Runs, window: int) -> tuple[Finding, ...]:
    """The findings of one window pair, the largest effect first."""
    lo, hi = np.searchsorted(runs.items.window, (window, window + 1))
    items = runs.items.take(np.arange(lo, hi))
    return tuple(_findings(runs, items, group(items)))


def repeated_in(runs: Runs) -> tuple[Repeated, ...]:
    """The findings of all window pairs, alike ones as one, the largest effect first."""
    items = runs.items
    groups = group(items)
    # Of each group the items of the first window that has one; its finding stands for all.
    firsts = [places[items.window[places] == items.window[places[0]]] for places in groups]
    rows = [
        Repeated(
            len(np.unique(items.window[places])),
            len(places),
            int(items.size[places].sum()),
            int(items.remaining[places].sum()),
            *_largest_peak(runs, items.window[places], items.peak[places]),
            runs.names[int(items.window[places[0]])],
            finding,
        )
        for places, finding in zip(groups, _findings(runs, items, firsts), strict=True)
    ]
    # Not as they are grouped: peaks of several windows do not add up.
    return tuple(sorted(rows, key=lambda row: row.weight, reverse=True))


def _largest_peak(runs: Runs, window: Ints, peak: Ints) -> tuple[int, str | None]:
    """The largest of the sums over one window each, and the name of that window; windows rise."""
    windows, first = np.unique(window, return_index=True)
    sums = np.add.reduceat(peak, first)
    largest = int(np.abs(sums).argmax())
    return int(sums[largest]), runs.names[int(windows[largest])] if sums[largest] else None


def _findings(runs: Runs, items: Items, groups: Sequence[Ints]) -> Iterator[Finding]:
    leading = items.take(np.array([places[0] for places in groups], np.int64))
    sides, contexts = _Sides(runs, leading), _Contexts(runs, leading)
    for number, places in enumerate(groups):
        kind = KIND_NAMES[int(leading.kind[number])]
        size, count = int(leading.size[number]), len(places)
        requested = int(leading.requested[number])
        member = sides.member(number)
        yield Finding(
            cast("Kind", kind),
            FATES[int(leading.fate[number])],
            size,
            None if requested < 0 else requested,
            count,
            size * count,
            int(items.remaining[places].sum()),
            int(items.peak[places].sum()),
            _largest(items.apart[places]),
            _largest(items.apart_bytes[places]),
            _owner(runs, leading, number),
            _name(runs, int(leading.freed_by[number])),
            member.base,
            member.head,
            contexts.places[number][0],
            context=Later(contexts.of, number),
            members=Later(_members, runs, items, places),
        )


def _largest(values: Ints) -> int | None:
    """The largest of some figures of which -1 is none."""
    most = int(values.max())
    return None if most < 0 else most


class _Contexts:
    """The log lines around the events that tell the runs apart, one item an entry.

    A compressed log is read from its start for every look at it, so what is probably shown together is looked up together.
    """

    def __init__(self, runs: Runs, items: Items) -> None:
        self._runs = runs
        self.places = [_telling(items, number) for number in range(len(items))]
        opening = {"base": runs.base.facts.opening, "head": runs.head.facts.opening}
        # What comes before an input has no line in it.
        self._known: dict[int, tuple[ContextLine, ...]] = {
            k: () for k, (side, event) in enumerate(self.places) if event < opening[side]
        }

    def of(self, number: int) -> tuple[ContextLine, ...]:
        """The lines for one item, and with them those for its neighbours."""
        if number not in self._known:
            first = number - number % _TOGETHER
            for side, log in (("base", self._runs.base), ("head", self._runs.head)):
                near = range(first, min(first + _TOGETHER, len(self.places)))
                wanted = [k for k in near if self.places[k][0] == side and k not in self._known]
                events = [self.places[k][1] for k in wanted]
                self._known.update(zip(wanted, context_lines(log, events, self._runs.context), strict=True))
        return self._known[number]


def _telling(items: Items, number: int) -> tuple[str, int]:
    """The event that tells the runs apart, and in which of them: the FREE that only one has, or has sooner, or else an ALLOC."""
    kind = KIND_NAMES[int(items.kind[number])]
    if kind in ("missing_free", "extra_free", "late_free", "early_free"):
        in_head = kind in ("extra_free", "early_free")
    else:
        in_head = bool(items.base_alloc[number] < 0 or (kind == "elsewhere" and items.peak[number] > 0))
    of_free = not kind.endswith(("only_head", "only_base", "elsewhere"))
    base, head = (items.base_free, items.head_free) if of_free else (items.base_alloc, items.head_alloc)
    return ("head", int(head[number])) if in_head else ("base", int(base[number]))


def _members(runs: Runs, items: Items, places: Ints) -> tuple[Member, ...]:
    sides = _Sides(runs, items.take(places))
    return tuple(sides.member(number) for number in range(len(places)))


def _owner(runs: Runs, items: Items, number: int) -> str | None:
    """What an item's allocation is blamed on; where an input with stacks has none of it, what it is instead."""
    known = _name(runs, int(items.owner[number]))
    if known is not None:
        return known
    log, event = (
        (runs.head, int(items.head_alloc[number]))
        if items.base_alloc[number] < 0
        else (runs.base, int(items.base_alloc[number]))
    )
    return owner_labels(log)[int(owners_of(log, np.array([event], np.int64))[0])]


def _name(runs: Runs, owner: int) -> str | None:
    return None if owner < 0 else runs.owners[owner]


class _Sides:
    """Where the runs allocate and free the blocks of some items; all line numbers are looked up together."""

    def __init__(self, runs: Runs, items: Items) -> None:
        window = items.window
        self._sides = [
            (alloc.tolist(), free.tolist(), ends[window].tolist(), Lines(log, _events(alloc, free)))
            for log, alloc, free, ends in (
                (runs.base, items.base_alloc, items.base_free, runs.base_ends),
                (runs.head, items.head_alloc, items.head_free, runs.head_ends),
            )
        ]

    def member(self, number: int) -> Member:
        """The two sides of one item."""
        base, head = (_side(number, *columns) for columns in self._sides)
        return Member(base, head)


def _events(alloc: Ints, free: Ints) -> list[int]:
    events = np.concatenate((alloc, free))
    known: list[int] = events[events >= 0].tolist()
    return known


def _side(number: int, alloc: list[int], free: list[int], end: list[int], lines: Lines) -> Side | None:
    if alloc[number] < 0:
        return None
    ended = free[number] if free[number] >= 0 else None
    freed = "never" if ended is None else "in_window" if ended < end[number] else "later"
    return Side(alloc[number], lines.of(alloc[number]), ended, lines.of(ended), freed)
