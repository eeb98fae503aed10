"""Blocks allocated in a window and not freed in it, and frees of blocks that it did not allocate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.analyzers.fates import held_events, pairing, released_events
from memlens.analyzers.groups import Alike, Groups, SizeGroups, by_size_and_owner
from memlens.analyzers.places import both_ends
from memlens.folding import per_window
from memlens.results import OnDemand, Result, Tables, lazy

if TYPE_CHECKING:
    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window


class HeldGroup(Alike, frozen=True):
    """Held or opening blocks of one size (and owner, where that is known) that are all freed later in the log, or all never.

    Attributes:
        freed: ``"later"`` or ``"never"``.
        first_event: The first ALLOC among them, 0-based in the log.
        first_line: Its line, 1-based; ``None`` for opening blocks, which have none.
        first_free_event: The FREE that ends that first block; ``None`` where it is never freed.
        first_free_line: The line of that FREE.
        holder: Who holds half of them or more, where that was recorded: ``variable feats[*] (main, train.py)``.
    """

    freed: str
    owner: str | None
    first_event: int
    first_line: int | None
    first_free_event: int | None
    first_free_line: int | None
    holder: str | None = None


class FreedGroup(Alike, frozen=True):
    """FREEs of blocks of one size (and owner, where that is known) that the window did not allocate.

    Attributes:
        owner: What their ALLOCs are blamed on; of unknown frees, what the FREEs themselves are.
        first_event: The first FREE among them, 0-based in the log.
        first_line: Its line, 1-based.
        first_alloc_event: The ALLOC of that first block, before the window; ``None`` for unknown frees.
        first_alloc_line: The line of that ALLOC.
    """

    owner: str | None
    first_event: int
    first_line: int | None
    first_alloc_event: int | None
    first_alloc_line: int | None


@lazy("held", "opening", "released", "unknown")
class Unmatched(Result, frozen=True):
    """ALLOCs and FREEs of a window whose other half is not in it.

    Attributes:
        held_allocs: Blocks born in the window and not freed in it.
        held_bytes: Their bytes.
        opening_blocks: Blocks from before the input that are not freed up to the window's end.
        opening_bytes: Their bytes.
        earlier_bytes: Bytes of the blocks that the log allocates before the window, and that are not freed up to its end.  Together
            with ``held_bytes`` and ``opening_bytes`` they are what is live at its end, in a sound log.
        released_frees: FREEs in the window of blocks born before it.
        released_bytes: The bytes of those blocks, as their ALLOC says.
        unknown_frees: FREEs in the window of what no ALLOC in the log before them accounts for.
        unknown_free_bytes: Their bytes.
        double_allocs: ALLOCs in the window of an address that is still live.
        size_mismatches: FREEs in the window whose ALLOC has another size.
        mismatch_bytes: Σ (ALLOC - FREE) over those.
        held: The held blocks in groups, the largest total first.
        opening: The opening blocks that are left in groups, the largest total first.
        released: The released blocks in groups, the largest total first.
        unknown: The unknown frees in groups, the largest total first.
    """

    tables: ClassVar[Tables] = {"held": HeldGroup, "opening": HeldGroup, "released": FreedGroup, "unknown": FreedGroup}

    held_allocs: int
    held_bytes: int
    opening_blocks: int
    opening_bytes: int
    earlier_bytes: int
    released_frees: int
    released_bytes: int
    unknown_frees: int
    unknown_free_bytes: int
    double_allocs: int
    size_mismatches: int
    mismatch_bytes: int
    held: Sequence[HeldGroup] = ()
    opening: Sequence[HeldGroup] = ()
    released: Sequence[FreedGroup] = ()
    unknown: Sequence[FreedGroup] = ()


def unmatched(windows: Sequence[Window]) -> OnDemand[Unmatched]:
    """Analyze windows of one log in one pass; the groups are worked out when they are asked for."""
    tables = {"held": held_groups, "opening": opening_groups, "released": released_groups, "unknown": unknown_groups}
    return per_window(Unmatched, windows, pairing(windows), **tables)


def held_groups(window: Window) -> Groups[HeldGroup]:
    """The held blocks of a window, in groups."""
    return _kept_groups(window.log, held_events(window.log, window.lo, window.hi, window.hi))


def opening_groups(window: Window) -> Groups[HeldGroup]:
    """The opening blocks that are not freed up to a window's end, in groups."""
    return _kept_groups(window.log, held_events(window.log, 0, window.log.facts.opening, window.hi))


def _kept_groups(log: EventLog, blocks: Ints) -> Groups[HeldGroup]:
    partner = log.lifetimes.partner
    groups = by_size_and_owner(log, blocks, apart=partner[blocks] >= 0)

    def rows(some: SizeGroups) -> Iterator[HeldGroup]:
        frees = [free if free >= 0 else None for free in partner[some.first].tolist()]
        places = both_ends(log, list(zip(some.first.tolist(), frees, strict=True)))
        for (size, count, total, owner), holder, free, at in zip(
            some.rows(), some.held_by(), frees, places, strict=True
        ):
            yield HeldGroup(size, count, total, "never" if free is None else "later", owner, *at, holder)

    return Groups(groups, rows)


def released_groups(window: Window) -> Groups[FreedGroup]:
    """The blocks that a window frees and that were born before it, in groups by the size and the owner of their ALLOC."""
    frees = released_events(window.log, window.lo, window.hi)
    return _freed_groups(window.log, frees, window.log.lifetimes.partner[frees].astype(np.int64))


def unknown_groups(window: Window) -> Groups[FreedGroup]:
    """The FREEs of a window that no ALLOC accounts for, in groups."""
    unknown = window.log.free_anomalies.unknown
    first, last = np.searchsorted(unknown, (window.lo, window.hi))
    return _freed_groups(window.log, unknown[first:last], None)


def _freed_groups(log: EventLog, frees: Ints, allocs: Ints | None) -> Groups[FreedGroup]:
    def rows(some: SizeGroups) -> Iterator[FreedGroup]:
        born = [None] * len(some) if allocs is None else log.lifetimes.partner[some.first].tolist()
        places = both_ends(log, list(zip(some.first.tolist(), born, strict=True)))
        return (FreedGroup(*row, *at) for row, at in zip(some.rows(), places, strict=True))

    return Groups(by_size_and_owner(log, frees if allocs is None else allocs, frees), rows)
