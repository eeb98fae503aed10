"""Findings, which the two runs treat differently: blocks alike in kind, fate, size, owner and place, with where each run has them.

Line numbers and the text of the log are looked up when they are shown.
"""

from __future__ import annotations

from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from msgspec import structs

from memlens.analyzers.groups import holders_of, owner_labels, owners_of
from memlens.analyzers.places import ContextLine, context_lines, lines_at
from memlens.diffing.differences import FATES, KINDS, UNTIMELY, Items, group
from memlens.results import Result, Rows, deferred, lazy
from memlens.windows.windows import edges_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from memlens.columns import Ints
    from memlens.diffing.alignment.blocks import Owners
    from memlens.windows.windows import Window


#: Findings whose context is looked up at once: a compressed log is read from its start for every look at it.
_TOGETHER = 16
#: What says of an item where the runs have it.
_PLACES = ("window", "base_alloc", "base_free", "head_alloc", "head_free")
_FREED = np.array(["never", "in_window", "later"], object)
#: What is less in a row of windows, of ALLOCs, of FREEs, of the lines of either is none.
_LEAST = np.array([[0], [0], [0], [1], [1]])


class Side(Result, frozen=True):
    """A block in one run: where it is allocated and freed.

    Attributes:
        alloc_event: Its ALLOC, 0-based in the log; ``None`` for the FREE of a block of another size's ALLOC.
        alloc_line: The line of that, 1-based; ``None`` where it cannot be told.
        free_event: The FREE that ends it, wherever in the log it stands; ``None`` where none does.
        free_line: The line of that.
        freed: ``in_window``, ``later`` or ``never``.
        holder: Who held it when that was last recorded: ``variable feats[*] (main, train.py)``; ``None`` where it was not.
    """

    alloc_event: int | None
    alloc_line: int | None
    free_event: int | None
    free_line: int | None
    freed: str
    holder: str | None = None


class Member(Result, frozen=True):
    """One block of a finding: where each of the runs that have it allocates and frees it."""

    base: Side | None
    head: Side | None


@lazy("context", "members")
class Finding(Result, frozen=True, eq=False):
    """Blocks that the two runs treat differently, alike in kind, fate, size, owner and place.

    Attributes:
        kind: One of :data:`memlens.diffing.differences.KINDS`.
        fate: ``held`` or ``temporary`` for ``only_head`` and ``only_base``; ``base`` or ``head`` for ``released``: the run that
            frees it; ``carried_in`` for ``late_free`` and ``early_free`` of blocks born before the window; else ``None``.
        size_bytes: Of each block.
        requested_bytes: What the tensor asked for, ``None`` where unknown.
        count: Blocks.
        total_bytes: ``size_bytes * count``.
        d_remaining_bytes: What they contribute to the window's Δremaining.
        d_peak_bytes: What they contribute to the window's Δpeak.
        base_allocs_after_peak: Of a ``late_free`` or an ``early_free`` how many allocations after base's peak base frees the first of the
            blocks; below 0 where it frees it before.  ``None`` for other kinds.
        head_allocs_after_peak: The same of head.
        owner: What the allocation is blamed on, or ``None``; text from the log.  ``(before the input)`` and ``(no stack)`` where an
            input with stacks has none of it.
        freed_by: The owner of the FREE that one run has and the other has not, or ``None``; text from the log.
        base: The first of the blocks in base, ``None`` where base has none.
        head: The first of the blocks in head, ``None`` where head has none.
        context_of: Whose log the context lines are from: ``base`` or ``head``.
        context: The log lines around the FREE (or, for what is never freed, the ALLOC) that tells the two runs apart.
        members: All blocks, in log order.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        *("kind", "fate", "size_bytes", "requested_bytes", "count", "total_bytes", "d_remaining_bytes", "d_peak_bytes"),
        *("base_allocs_after_peak", "head_allocs_after_peak", "owner", "freed_by", "base", "head", "context_of"),
        *("context", "members=several"),
    )

    kind: str
    fate: str | None
    size_bytes: int
    requested_bytes: int | None
    count: int
    total_bytes: int
    d_remaining_bytes: int
    d_peak_bytes: int
    base_allocs_after_peak: int | None
    head_allocs_after_peak: int | None
    owner: str | None
    freed_by: str | None
    base: Side | None
    head: Side | None
    context_of: str
    context: tuple[ContextLine, ...] = ()
    members: Sequence[Member] = ()

    @property
    def several(self) -> Sequence[Member]:
        """The blocks where there are several: a single one stands in ``base`` and ``head``."""
        return self.members if self.count > 1 else ()

    @property
    def untimely(self) -> bool:
        """It is a late or an early Free: both runs free the blocks, each on another side of its peak."""
        return self.kind in UNTIMELY


@lazy("members")
class Repeated(Result, frozen=True, eq=False):
    """Findings alike in kind, fate, size, owner and place, in any number of windows.

    Attributes:
        windows: Windows that have such a finding.
        count: Blocks, over all of them.
        total_bytes: Their bytes.
        d_remaining_bytes: What they contribute to Δremaining, over all windows.
        largest_d_peak_bytes: The most that they contribute to the Δpeak of any one window; peaks of several moments do not add up.
        largest_window: The name of that window, ``None`` where they contribute to none.
        first_window: The name of the first window that has it.
        finding: The finding of that window.
        members: The blocks, over all of them, in log order.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        *("windows", "count", "total_bytes", "d_remaining_bytes", "largest_d_peak_bytes", "largest_window"),
        *("first_window", "finding=alone"),
    )

    windows: int
    count: int
    total_bytes: int
    d_remaining_bytes: int
    largest_d_peak_bytes: int
    largest_window: str | None
    first_window: str
    finding: Finding
    members: Sequence[Member] = ()

    @property
    def alone(self) -> Finding:
        """The finding without its members, as the machine output has it: the windows' own list them."""
        return structs.replace(self.finding, members=())

    @property
    def size_bytes(self) -> int:
        """Bytes of each block."""
        return self.finding.size_bytes


def by_weight(rows: Iterable[Repeated]) -> tuple[Repeated, ...]:
    """Rows by falling effect on Δremaining or on the Δpeak of one window, then on Δremaining, then by bytes."""

    def weight(row: Repeated) -> tuple[int, int, int]:
        remaining = abs(row.d_remaining_bytes)
        return max(remaining, abs(row.largest_d_peak_bytes)), remaining, row.total_bytes

    return tuple(sorted(rows, key=weight, reverse=True))


def label_of(base: str, head: str) -> str:
    """Return the name of a pair of windows, or both where the runs name it differently."""
    return base if base == head else f"{base} / {head}"


class Runs(NamedTuple):
    """Two runs as findings are made from them.

    Attributes:
        base: Windows of base's log.
        head: Each one's partner in head's.
        owners: The owners of both runs.
        items: The items of all windows, by window.
        pairs: ALLOCs of base and their partners in head, of blocks that outlive their window or are live at a run's peak, int64.
        peaks: The event after the one that reaches base's peak, and after the one that reaches head's.
        context: Log lines shown on each side of an event.
        alone: Windows of base, and of head, without a partner: their numbers follow those of the pairs.
    """

    base: Sequence[Window]
    head: Sequence[Window]
    owners: Owners
    items: Items
    pairs: tuple[Ints, Ints]
    peaks: tuple[int, int]
    context: int
    alone: tuple[Sequence[Window], Sequence[Window]] = ((), ())


def findings_of(runs: Runs, window: int) -> tuple[Finding, ...]:
    """The findings of one window pair, the largest effect first."""
    items = runs.items.take(slice(*np.searchsorted(runs.items.window, (window, window + 1))))
    return tuple(findings_in(runs, items, group(items)))


def repeated_in(runs: Runs, judged: Sequence[bool]) -> tuple[Repeated, ...]:
    """The findings of all window pairs that are judged, alike ones as one, the largest effect first."""
    items = runs.items.take(np.flatnonzero(np.array(judged)[runs.items.window]))
    groups = group(items)
    # Of each group the items of the first window that has one; its finding stands for all.
    firsts = [own[items.window[own] == items.window[own[0]]] for own in groups]
    rows = []
    for own, finding in zip(groups, findings_in(runs, items, firsts), strict=True):
        windows, first = np.unique(items.window[own], return_index=True)
        peaks = np.add.reduceat(items.peak[own], first)
        largest = int(np.abs(peaks).argmax())
        rows.append(
            Repeated(
                len(windows),
                len(own),
                int(items.size[own].sum()),
                int(items.remaining[own].sum()),
                int(peaks[largest]),
                runs.base[windows[largest]].name if peaks[largest] else None,
                runs.base[windows[0]].name,
                finding,
                deferred(_members_of(runs, items, [own]), 0),
            )
        )
    # Not as they are grouped: peaks of several windows do not add up.
    return by_weight(rows)


def findings_in(runs: Runs, items: Items, groups: Sequence[Ints]) -> Iterator[Finding]:
    """Yield items put together as findings, one a group of their indices."""
    firsts = np.array([own[0] for own in groups], np.int64)
    leading = items.take(firsts)
    contexts: dict[int, tuple[ContextLine, ...]] = {}
    members = _members_of(runs, items, groups)
    places = _places(runs, items, firsts)
    free, of_alloc, of_free = (np.where(leading.in_head, places[row + 2], places[row]) for row in (2, 5, 6))
    lines = np.where(free == leading.shown, of_free, of_alloc)
    for number, (own, member) in enumerate(zip(groups, _members(runs)(places), strict=True)):
        kind, size = KINDS[int(leading.kind[number])], int(leading.size[number])
        yield Finding(
            kind,
            _named(FATES, leading.fate[number]),
            size,
            None if leading.requested[number] < 0 else int(leading.requested[number]),
            len(own),
            size * len(own),
            int(items.remaining[own].sum()),
            int(items.peak[own].sum()),
            int(leading.base_after_peak[number]) if kind in UNTIMELY else None,
            int(leading.head_after_peak[number]) if kind in UNTIMELY else None,
            _owner(runs, leading, number),
            _named(runs.owners.names, leading.freed_by[number]),
            member.base,
            member.head,
            ("base", "head")[leading.in_head[number]],
            context=deferred(_context, runs, leading, lines, contexts, number),
            members=deferred(members, number),
        )


def _named(names: Sequence[str], number: np.int64) -> str | None:
    """One of some names, or none for -1."""
    return None if number < 0 else names[int(number)]


def _context(
    runs: Runs, items: Items, lines: Ints, known: dict[int, tuple[ContextLine, ...]], number: int
) -> tuple[ContextLine, ...]:
    """The lines around the event that tells the runs apart, and with them those for its neighbours, which are probably shown together."""
    if number not in known:
        first = number - number % _TOGETHER
        near = np.arange(first, min(first + _TOGETHER, len(items.window)))
        for in_head, windows in enumerate((runs.base, runs.head)):
            wanted = near[items.in_head[near] == in_head]
            shown, of_shown = items.shown[wanted].tolist(), lines[wanted].tolist()
            known.update(
                zip(wanted.tolist(), context_lines(windows[0].log, shown, runs.context, of_shown), strict=True)
            )
    return known[number]


def _owner(runs: Runs, items: Items, number: int) -> str | None:
    """Return the owner of an item's allocation; where an input with stacks has none of it, what it is instead."""
    if items.owner[number] >= 0:
        return _named(runs.owners.names, items.owner[number])
    in_head = items.base_alloc[number] < 0
    log, alloc = (runs.head[0].log, items.head_alloc) if in_head else (runs.base[0].log, items.base_alloc)
    return owner_labels(log)[int(owners_of(log, alloc[number : number + 1])[0])]


def _members_of(runs: Runs, items: Items, groups: Sequence[Ints]) -> Callable[[int], Rows[Member]]:
    """What gives the blocks of each group; where all of them are is looked up together."""

    @cache
    def places() -> Ints:
        at = np.concatenate(groups)
        found = np.zeros((len(_PLACES) + 4, len(items.window)), np.int64)
        found[:, at] = _places(runs, items, at)
        return found

    members = cache(lambda: _members(runs))

    def of(number: int) -> Rows[Member]:
        at = groups[number]
        return Rows(len(at), lambda some: members()(places()[:, at[some]]))

    return of


def _places(runs: Runs, items: Items, at: Ints) -> Ints:
    """The windows of some items, their ALLOC and FREE in base and in head, and the lines of these four: nine rows, int64."""
    places = [getattr(items, name)[at] for name in _PLACES]
    # All are looked up at once, for each look-up opens the log.
    lines = [
        lines_at(windows[0].log, np.concatenate(ends)).reshape(2, -1)
        for windows, ends in ((runs.base, places[1:3]), (runs.head, places[3:]))
    ]
    return np.concatenate((places, *lines))


def _members(runs: Runs) -> Callable[[Ints], Iterator[Member]]:
    """What gives the blocks whose places are given."""
    base, head = (
        _sides_of([*paired, *alone]) for paired, alone in zip((runs.base, runs.head), runs.alone, strict=True)
    )

    def of(places: Ints) -> Iterator[Member]:
        return map(Member, base(places[[0, 1, 2, 5, 6]]), head(places[[0, 3, 4, 7, 8]]))

    return of


def _sides_of(windows: Sequence[Window]) -> Callable[[Ints], list[Side | None]]:
    """What gives one run's side of each of some blocks, from rows: windows, ALLOCs, FREEs, their lines; none where it has no ALLOC (-1) of it."""
    edges = np.append(edges_of(windows, "hi"), np.iinfo(np.int64).max)
    held = holders_of(windows[0].log)
    names = None if held is None else np.array([*held[1], None], object)

    def sides(rows: Ints) -> list[Side | None]:
        known = rows[1] >= 0
        found = np.full(len(known), None, object)
        if not known.any():
            return [*found]
        rows = rows[:, known]
        window, alloc, free = rows[:3]
        freed = _FREED[np.where(free < 0, 0, np.where(free < edges[window], 1, 2))]
        holders: Iterable[str | None] = repeat(None)
        if held is not None and names is not None:
            holders = names[np.maximum(held[0][alloc], -1)]
        values = rows.astype(object)
        values[rows < _LEAST] = None
        _, allocs, frees, *lines = values.tolist()
        made = map(Side, allocs, lines[0], frees, lines[1], freed, holders)
        found[known] = np.fromiter(made, object, len(alloc))
        return [*found]

    return sides
