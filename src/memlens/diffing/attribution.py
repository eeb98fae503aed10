"""What explains a difference of two runs: what is live at head's peak and not at base's, and what head leaves behind and base does not.

Blocks of one size cancel, whichever window they are of: what is left of a size is what one run has more of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.analyzers.fates import live_events
from memlens.columns import among, rows_alike
from memlens.diffing.alignment.blocks import Blocks, Keys, owners_of
from memlens.diffing.alignment.indices import nth_with_nth, partners_of, values_at
from memlens.diffing.differences import FATES, KINDS, OF_FREES, Items, Paired, allocs_between, group, items_of, levels
from memlens.diffing.finding import Finding, Runs, findings_in, label_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memlens.columns import Flags, Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window


#: Blocks of a kind are freed late in every window where so many windows have one.
_EACH = 2
_CARRIED_IN = FATES.index("carried_in")
_KIND = {name: number for number, name in enumerate(KINDS)}
_OPENING = np.array([_KIND["opening_only_head"], _KIND["opening_only_base"]])
#: Kinds of blocks that head has more of, and, in the same order, those that base has more of.
_KINDS = (
    ("missing_free", "late_free", "elsewhere", "only_head"),
    ("extra_free", "early_free", "elsewhere", "only_base"),
)


class Cause(NamedTuple):
    """Blocks alike that one run has more of.

    Attributes:
        finding: The blocks; their effect is in ``d_peak_bytes`` at the peaks, else in ``d_remaining_bytes``.
        effect: That effect, above 0 where head has more.
        window: The window that the first block is of, ``None`` for none: of a missing or an extra Free that in which one run frees it.
        windows: Windows that have some of them.
        base_blocks, head_blocks: How many blocks of this size each run has at its peak; 0 of what is left behind.
        of_owner: How many of these are of this owner, in base and in head.
        late_by: How many windows later than the other run the run that has more frees each of them, where that is so in several windows; else 0.
        late_windows: In how many windows it frees such a block so late.
        alike: Blocks of any size that are of this kind, and pairs of windows that have some.
        alike_effect: The effect of all of these.
        base_lives, head_lives: How many allocations lie between the ALLOC and the FREE of the first block in each run; -1 where it has none.
    """

    finding: Finding
    effect: int
    window: str | None
    windows: int
    base_blocks: int
    head_blocks: int
    of_owner: tuple[int, int]
    late_by: int
    late_windows: int
    alike: tuple[int, int]
    alike_effect: int
    base_lives: int
    head_lives: int

    @property
    def more_bytes(self) -> int:
        """The bytes of this size that head has more of at its peak."""
        return (self.head_blocks - self.base_blocks) * self.finding.size_bytes


def causes_at_peak(runs: Runs, judged: Sequence[bool]) -> tuple[Cause, ...]:
    """What is live in one run and not in the other where the higher one has its peak, for both, the largest effect first.

    The other run is looked at where its level is highest in the same window.  That may be another place of the program: then blocks that both
    allocate elsewhere come after those that it has freed where it does what the higher run does at its peak, if these are what the higher
    run has more of, and as much as the peaks differ by.
    """
    higher, ends = _same_place(runs)
    found = _live_in_one(runs, judged, ends, ends)
    sign = 1 if higher else -1
    first = next((one for one in found if sign * one.effect > 0), None)
    if first is None or first.finding.kind != "elsewhere":
        return found
    late = [one for one in _live_in_one(runs, judged, _aligned_place(runs, higher, ends), ends) if _is_late(one, sign)]
    base, head = _levels_before(runs, ends)
    if sum(one.effect for one in late) * sign < abs(head - base):
        return found
    sizes = {one.finding.size_bytes for one in late}
    return (*late, *(one for one in found if one.finding.size_bytes not in sizes))


def _is_late(cause: Cause, sign: int) -> bool:
    """Whether the blocks are all that a run has more of in this size at its peak, and the other run has freed them."""
    more = cause.more_bytes
    return cause.finding.kind in OF_FREES and cause.effect == more and sign * more > 0


def _live_in_one(
    runs: Runs, judged: Sequence[bool], ends: tuple[int, int], peaks: tuple[int, int]
) -> tuple[Cause, ...]:
    """What is live in one run before an event and not in the other before one of its own, for both; how many there are at their peaks is counted."""
    logs, sides = (runs.base[0].log, runs.head[0].log), range(2)
    live = [live_events(log, end) for log, end in zip(logs, ends, strict=True)]
    partner = [partners_of(runs.pairs, live[0]), partners_of(runs.pairs[::-1], live[1])]
    alone = [~among(partner[side], live[1 - side]) for side in sides]
    live, partner = ([of[side][alone[side]] for side in sides] for of in (live, partner))
    size, owner = (
        [read(log, events) for log, events in zip(logs, live, strict=True)]
        for read in (lambda log, events: log.size[events], lambda log, events: owners_of(log, runs.owners, events))
    )
    # What the other run has freed by then explains more than what it has not allocated yet.
    freed = [values_at(logs[1 - side].lifetimes.partner, partner[side]) for side in sides]
    gone = [(free >= 0) & (free < ends[1 - side]) for side, free in zip(sides, freed, strict=True)]
    for side, some in zip(sides, gone, strict=True):
        some[some] = _lives_longer(runs, side, live[side][some], partner[side][some])
    rank = np.concatenate([np.where(some, 2, of < 0) for some, of in zip(gone, partner, strict=True)])
    side_of = np.repeat([0, 1], [len(events) for events in live])
    left = _left_over(side_of == 1, np.concatenate(size), np.concatenate(owner), rank)
    held = [live_events(log, peak) for log, peak in zip(logs, peaks, strict=True)]
    counts = [
        np.unique((log.size[events], owners_of(log, runs.owners, events)), return_counts=True, axis=1)
        for log, events in zip(logs, held, strict=True)
    ]
    found: list[Cause] = []
    for side in sides:
        rows = left[side_of[left] == side] - side * len(live[0])
        items = _live_items(runs, side, live[side][rows], partner[side][rows], gone[side][rows], ends, peaks, judged)
        found += _causes(runs, items, items.peak, judged, counts)
    return by_effect(found)


def _lives_longer(runs: Runs, side: int, own: Ints, other: Ints) -> Flags:
    """Whether blocks of one run live for more allocations than their partners do in the other: what lives as long is not freed late."""
    lives = []
    for windows, allocs in ((runs.head if side else runs.base, own), (runs.base if side else runs.head, other)):
        log = windows[0].log
        free = values_at(log.lifetimes.partner, allocs)
        lives.append(allocs_between(log, allocs + 1, np.where(free < 0, len(log), free)))
    longer: Flags = lives[0] > lives[1]
    return longer


def causes_left_behind(runs: Runs, judged: Sequence[bool]) -> tuple[Cause, ...]:
    """What one run leaves behind in the judged windows and the other does not, for both, the largest effect first."""
    every = runs.items
    # Of what only one input has from before it counts what becomes of it as well.
    effect = np.where(among(every.kind, _OPENING), every.peak, every.remaining)
    rows = np.flatnonzero((effect != 0) & np.array(judged)[every.window])
    items, effect = every.take(rows), effect[rows]
    found: list[Cause] = []
    left = _left_over(effect > 0, items.size, items.owner, np.zeros(len(rows), np.int64), items)
    for sign in (1, -1):
        some = left[np.sign(effect[left]) == sign]
        found += _causes(runs, items.take(some), effect[some], judged)
    return by_effect(found)


def window_of(windows: Sequence[Window], events: Ints) -> Ints:
    """The number of the window that each event is in, -1 for none, and for an event that is none."""
    lo, hi = (np.array([getattr(window, name) for window in windows], np.int64) for name in ("lo", "hi"))
    order = np.argsort(lo, kind="stable")
    at = order[np.maximum(np.searchsorted(lo[order], events, "right") - 1, 0)]
    return np.where((events >= lo[at]) & (events < hi[at]), at, -1)


def by_effect(found: Iterable[Cause]) -> tuple[Cause, ...]:
    """Put the largest effect first."""
    return tuple(sorted(found, key=lambda cause: -abs(cause.effect)))


def _levels_before(runs: Runs, ends: tuple[int, int]) -> tuple[int, int]:
    """The allocated level of each run before an event."""
    base, head = (
        windows[0].log.level_before(end)[0] for windows, end in zip((runs.base, runs.head), ends, strict=True)
    )
    return base, head


def _aligned_place(runs: Runs, higher: int, ends: tuple[int, int]) -> tuple[int, int]:
    """Instead of the other run's peak, the event after the partner of the last block that is live at the higher run's peak and has one."""
    log = (runs.base, runs.head)[higher][0].log
    of_base, of_head = runs.pairs
    pairs = (of_head, of_base) if higher else runs.pairs
    partner = partners_of(pairs, live_events(log, ends[higher]))
    known = partner[partner >= 0]
    there = int(known[-1]) + 1 if len(known) else ends[1 - higher]
    return (there, ends[1]) if higher else (ends[0], there)


def _same_place(runs: Runs) -> tuple[int, tuple[int, int]]:
    """Which run goes higher, and the event after its peak and after the other's highest level in that window, in the order of the runs."""
    base, head = _levels_before(runs, runs.peaks)
    higher = int(head > base)
    mine, others = (runs.head, runs.base) if higher else (runs.base, runs.head)
    at = int(window_of(mine, np.array([runs.peaks[higher] - 1]))[0])
    there = runs.peaks[1 - higher] if at < 0 else int(levels([others[at]]).peak_end[0])
    return higher, ((there, runs.peaks[1]) if higher else (runs.peaks[0], there))


def _left_over(more: Flags, size: Ints, owner: Ints, rank: Ints, items: Items | None = None) -> Ints:
    """The rows that are left, rising, where rows of one size with and without a flag cancel: those of one block, of one owner, then any.

    Those of a low rank cancel first.
    """
    left = np.arange(len(more))
    codes = [size * (int(owner.max(initial=0)) + 2) + owner + 1, size]
    if items is not None:
        codes[:0] = [items.base_alloc, items.head_alloc]
    for number, code in enumerate(codes):
        known = left[code[left] >= 0] if number < len(codes) - 2 else left
        sides = [own[np.argsort(rank[own], kind="stable")] for own in (known[more[known]], known[~more[known]])]
        one, two = nth_with_nth(code[sides[0]], code[sides[1]])
        kept = np.ones(len(more), bool)
        kept[sides[0][one]] = kept[sides[1][two]] = False
        left = left[kept[left]]
    return left


def _live_items(
    runs: Runs,
    side: int,
    own: Ints,
    other: Ints,
    gone: Flags,
    ends: tuple[int, int],
    peaks: tuple[int, int],
    judged: Sequence[bool],
) -> Items:
    """Blocks of one run that are live before an event and whose partners in the other run are not, as items; they are timed by the peaks."""
    allocs = (own, other) if side == 0 else (other, own)
    blocks = [
        _blocks(windows[0].log, some[some >= 0], end)
        for windows, some, end in zip((runs.base, runs.head), allocs, ends, strict=True)
    ]
    at = [np.where(some >= 0, np.cumsum(some >= 0) - 1, -1) for some in allocs]
    mine = runs.head if side else runs.base
    free = values_at(mine[0].log.lifetimes.partner, own)
    freed_in, born_in = (window_of([*mine, *runs.alone[side]], events) for events in (free, own))
    held = (freed_in < 0) | (freed_in != born_in)
    freed_in = np.where(freed_in < len(mine), freed_in, -1)
    others = runs.base if side else runs.head
    # Freed in a window that is judged, or in that in which the other run frees it, it is freed late; else it is missing there.
    others_free = values_at(others[0].log.lifetimes.partner, other)
    there = window_of(others, others_free)
    sooner = freed_in <= there
    late = (freed_in >= 0) & (np.array([*judged, False])[freed_in] | sooner)
    names = [_KIND[name] for name in _KINDS[1 - side]]
    kind = np.select([gone & ~late, gone, other >= 0], names[:3], names[3])
    fate = np.where(other >= 0, -1, np.where(held, FATES.index("held"), FATES.index("temporary")))
    sign = np.full(len(own), 1 if side else -1)
    peak_ends = np.array(peaks[:1]), np.array(peaks[1:])
    pairs = Paired(blocks[0], blocks[1], Keys.of(*blocks), peak_ends, at[0], at[1])
    items = items_of(pairs, kind, fate, np.zeros(len(own), np.int64), sign)
    missing = (kind == names[0]) & (there >= 0)
    order = np.argsort(np.where(missing, others_free, own), kind="stable")
    return items._replace(window=np.where(missing, there, born_in)).take(order)


def _blocks(log: EventLog, allocs: Ints, end: int) -> Blocks:
    """Some blocks of a log, and which of them are not freed before an event."""
    free, nothing = values_at(log.lifetimes.partner, allocs), np.zeros(len(allocs), np.uint64)
    held, starts = (free < 0) | (free >= end), np.array([0, len(allocs)])
    return Blocks(log, starts, allocs, allocs, free, held, nothing, nothing, nothing, np.full(len(allocs), -1))


def _causes(
    runs: Runs, items: Items, effect: Ints, judged: Sequence[bool], counts: Sequence[tuple[Ints, Ints]] = ()
) -> Iterator[Cause]:
    """Yield items of one sign put together.

    Args:
        runs: The runs.
        items: What one run has more of.
        effect: What each adds, with its sign.
        judged: Which pairs of windows are judged.
        counts: For each run the sizes and owners of what is live at its peak, two rows, and how many blocks there are of each.
    """
    late_by, late_windows = _lateness(runs, items, judged)
    groups = group(items._replace(remaining=effect, peak=np.zeros_like(effect)))
    for own, finding in zip(groups, findings_in(runs, items, groups), strict=True):
        size, windows = finding.size_bytes, items.window[own]
        alike = np.flatnonzero(items.kind == items.kind[own[0]])
        same = [(of[0] == size, of[1] == items.owner[own[0]], times) for of, times in counts]
        held = [int(times @ of_size) for of_size, _, times in same] or [0, 0]
        of_owner = [int(times @ (of_size & of)) for of_size, of, times in same] or [0, 0]
        yield Cause(
            finding,
            int(effect[own].sum()),
            _label_of(runs, int(windows[0]), in_head=bool(items.base_alloc[own[0]] < 0)),
            len(np.unique(windows)),
            held[0],
            held[1],
            (of_owner[0], of_owner[1]),
            int(late_by[own[0]]),
            int(late_windows[own[0]]),
            (len(alike), len(np.unique(items.window[alike]))),
            int(effect[alike].sum()),
            *_lives(runs, items, own[:1]),
        )


def _label_of(runs: Runs, number: int, *, in_head: bool) -> str | None:
    """What a pair of windows is called, or a window of one run that has no partner; ``None`` for -1."""
    if number >= len(runs.base):
        return runs.alone[in_head][number - len(runs.base)].name
    return None if number < 0 else label_of(runs.base[number].name, runs.head[number].name)


def _lives(runs: Runs, items: Items, first: Ints) -> Iterator[int]:
    """Yield how many allocations lie between the ALLOC and the FREE of a block in base, and in head; -1 where one is not there."""
    for log, alloc, free in (
        (runs.base[0].log, items.base_alloc[first], items.base_free[first]),
        (runs.head[0].log, items.head_alloc[first], items.head_free[first]),
    ):
        yield int(allocs_between(log, alloc + 1, free)[0]) if alloc[0] >= 0 and free[0] >= 0 else -1


def _lateness(runs: Runs, items: Items, judged: Sequence[bool]) -> tuple[Ints, Ints]:
    """Return how many windows after the other run the run that has more frees each block, and in how many windows blocks alike are so late.

    Both are 0 where that is so in a single window, or where a run does not free the block in any window.
    """
    late, _ = _windows_late(runs, items.base_free, items.head_free)
    logs = runs.base[0].log, runs.head[0].log
    # Blocks alike are paired over all windows: within one those that both free there pair with one another, late or not.
    alike = among(logs[0].size[runs.pairs[0]], items.size[late != 0])
    pairs = [allocs[alike] for allocs in runs.pairs]
    frees = (values_at(log.lifetimes.partner, allocs) for log, allocs in zip(logs, pairs, strict=True))
    others, window = _windows_late(runs, *frees)
    owners = [owners_of(log, runs.owners, allocs) for log, allocs in zip(logs, pairs, strict=True)]
    some = np.flatnonzero((others != 0) & np.array(judged)[window])
    of_others = np.stack((logs[0].size[pairs[0]], np.where(others > 0, owners[1], owners[0]), others))[:, some]
    _, code = rows_alike(*np.concatenate((np.stack((items.size, items.owner, late)), of_others), axis=1))
    own, others = np.split(code, [len(late)])
    first, _ = rows_alike(others, window[some])
    windows = np.bincount(others[first], minlength=int(code.max(initial=0)) + 1)[own]
    known = (late != 0) & (windows >= _EACH)
    return np.abs(late) * known, windows * known


def _windows_late(runs: Runs, base: Ints, head: Ints) -> tuple[Ints, Ints]:
    """Return how many windows later than base head frees blocks, below 0 where sooner, 0 of those that a run frees in no window; and the later window."""
    windows = window_of(runs.base, base), window_of(runs.head, head)
    later: Ints = np.maximum(*windows)
    return np.where(np.minimum(*windows) >= 0, windows[1] - windows[0], 0), later
