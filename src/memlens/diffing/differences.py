"""Every byte of Δremaining and Δpeak put down to what the runs do differently, in sum and block by block; what is left over is 0.

``remaining = Σ held - Σ released - Σ unknown frees + Σ mismatches`` holds in any window of one log.  The rise of a window is what
remains of the window cut off right after the event that reaches its peak, so one identity serves both; the peak is the rise and what
was carried in.

An *item* is a pair of blocks, or a block that only one run has.  Items of all windows lie in one table, so that grouping those alike,
within a window or over all windows, is one sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from memlens.analyzers.fates import pairing
from memlens.diffing.alignment.blocks import Blocks, Keys, owners_of
from memlens.diffing.alignment.indices import partners_of, values_at
from memlens.diffing.pairing import Match, pair_alike
from memlens.facts import Kind
from memlens.folding import peak_ends, profile
from memlens.windows.windows import edges_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window

    Column = NDArray[np.integer | np.bool_]


#: The kinds of findings, in the order in which those of equal weight are shown; ``docs/diff.md`` says what each means.
KINDS = (
    "missing_free",
    "extra_free",
    "only_head",
    "only_base",
    "released",
    "late_free",
    "early_free",
    "elsewhere",
    "opening_only_head",
    "opening_only_base",
)
#: Kinds of blocks that both runs free, each on another side of its peak.
UNTIMELY = ("late_free", "early_free")
#: Kinds of blocks that both runs have, and whose FREE one of them has, and the other lacks or has later.
OF_FREES = ("missing_free", "extra_free", *UNTIMELY)
_KIND = {name: number for number, name in enumerate(KINDS)}
#: Fates by number; ``base`` and ``head`` say which run frees a block that was carried in.
FATES = ("held", "temporary", "base", "head", "carried_in")
_FATE = {name: number for number, name in enumerate(FATES)}
#: Kinds whose items have a FREE that one run has, or has before its peak, those that are shown by it, and those of which it is head's.
_HAS_FREE = np.array([not name.endswith(("only_head", "only_base")) for name in KINDS])
_SHOWN_BY_FREE = np.array([has and name != "elsewhere" for name, has in zip(KINDS, _HAS_FREE, strict=True)])
_UNTIMELY = np.array([name in UNTIMELY for name in KINDS])
_FREED_BY_HEAD = np.array([name in ("extra_free", "early_free") for name in KINDS])
#: For each kind 1 where its blocks count at head's peak as a rule, or at neither, -1 where at base's, 0 where there is no rule.
_RAISES = np.array([{"only_head": 1, "late_free": 1, "only_base": -1, "early_free": -1}.get(name, 0) for name in KINDS])


class Levels(NamedTuple):
    """One run's figures of windows, int64, one entry a window along the last axis.

    Attributes:
        remaining: Bytes left behind.
        carried_in: Bytes live right before the window.
        peak: The highest level, what was carried in included.
        peak_end: The event after the one that reaches the peak; the window's first event where it never rises above its start.
        released: Two rows: bytes freed of blocks carried in, and of these what was freed up to the peak.
        unknown: Bytes of unknown frees, likewise.
        mismatch: Σ (ALLOC - FREE) over pairs whose sizes differ, likewise.
    """

    remaining: Ints
    carried_in: Ints
    peak: Ints
    peak_end: Ints
    released: Ints
    unknown: Ints
    mismatch: Ints

    def part(self, windows: slice) -> Levels:
        """The figures of some neighbouring windows."""
        return Levels(*(column[..., windows] for column in self))


def levels(windows: Sequence[Window]) -> Levels:
    """The figures of windows of one log."""
    figures = profile(windows)
    peak_end = peak_ends(windows)
    risen = [replace(window, hi=hi) for window, hi in zip(windows, peak_end.tolist(), strict=True)]
    both = pairing(windows), pairing(risen)
    return Levels(
        figures["remaining_bytes"],
        figures["carried_in_bytes"],
        figures["peak_bytes"],
        peak_end,
        *(np.stack([of[f"{name}_bytes"] for of in both]) for name in ("released", "unknown_free", "mismatch")),
    )


class Items(NamedTuple):
    """One entry an item, windows in order, int64.

    Attributes:
        window: Number of the window pair.
        kind: Index into :data:`KINDS`.
        fate: Index into :data:`FATES`, -1 where it has none.
        size: Bytes of the block.
        requested: What was asked for, -1 where unknown, or not the same in both runs.
        owner: Index into the owners of both runs, -1 where unknown.
        freed_by: Likewise, of the FREE that one run has and the other has not.
        ends: What becomes of the block in the run that keeps it: 0 it is freed later in the log, 1 never, 2 neither or both keep it.
        remaining, peak: What it contributes to Δremaining, and to Δpeak.
        base_after_peak: ALLOCs of base from its peak to its FREE, the peak's own left out; up to the peak they count below 0.
        head_after_peak: The same of head.  Both are of meaning for :data:`UNTIMELY` kinds alone.
        base_alloc: Base's ALLOC, -1 where base has none.
        base_free: Base's FREE, wherever it is, -1 where there is none.
        head_alloc, head_free: The same of head.
        in_head: Whether it is head whose event tells the two runs apart, 0 or 1.
        shown: That event: the FREE that only one run has, or has sooner, or else an ALLOC.
    """

    window: Ints
    kind: Ints
    fate: Ints
    size: Ints
    requested: Ints
    owner: Ints
    freed_by: Ints
    ends: Ints
    remaining: Ints
    peak: Ints
    base_after_peak: Ints
    head_after_peak: Ints
    base_alloc: Ints
    base_free: Ints
    head_alloc: Ints
    head_free: Ints
    in_head: Ints
    shown: Ints

    def take(self, at: Ints | slice) -> Items:
        """Some of them."""
        return Items(*(column[at] for column in self))

    @classmethod
    def joined(cls, parts: Sequence[Items]) -> Items:
        """Several tables one after the other."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


def collect(allocs: Match, released: Match, opening: Match, base: Levels, head: Levels) -> Items:
    """The items of all windows, by window."""
    live = live_at_peak(allocs.base, base.peak_end), live_at_peak(allocs.head, head.peak_end)
    parts = (_born, pair_alike(allocs, live)), (_released, released), (_opening, opening)
    every = Items.joined([items_of(Paired.of(match, base, head)) for items_of, match in parts])
    return every.take(np.argsort(every.window, kind="stable"))


def follow_older(items: Items, pairs: tuple[Ints, Ints], sides: Sequence[Sequence[Window]]) -> Items:
    """Make missing and extra Frees of older blocks that one run frees and the other has from before its window as well, and frees later or never.

    Args:
        items: All items.
        pairs: ALLOCs of base and their partners in head, of all blocks that outlive the window that they are born in.
        sides: The windows of base, and of head.
    """
    columns = items._asdict()
    for fate, kind, of, other in (("base", "missing_free", "base", "head"), ("head", "extra_free", "head", "base")):
        windows = sides[other == "head"]
        own = np.flatnonzero((items.kind == _KIND["released"]) & (items.fate == _FATE[fate]))
        alloc = partners_of(pairs if of == "base" else pairs[::-1], columns[f"{of}_alloc"][own])
        free = values_at(windows[0].log.lifetimes.partner, alloc)
        begins, ends = (edges_of(windows, edge)[items.window[own]] for edge in ("lo", "hi"))
        kept = np.flatnonzero((alloc >= 0) & (alloc < begins) & ((free < 0) | (free >= ends)))
        own = own[kept]
        changes = {f"{other}_alloc": alloc[kept], f"{other}_free": free[kept], "ends": free[kept] < 0}
        for name, values in {**changes, "kind": _KIND[kind], "fate": _FATE["carried_in"]}.items():
            columns[name] = columns[name].copy()
            columns[name][own] = values
    return Items(**columns)


def terms(items: Items, base: Levels, head: Levels) -> tuple[dict[str, Ints], dict[str, Ints], dict[str, Ints]]:
    """Return the sums of the items of each window, int64, by name.

    Args:
        items: All items of these windows.
        base: Base's figures.
        head: Head's.

    Returns:
        Δremaining, term by term (see :class:`memlens.diffing.result.RemainingAccount`); Δpeak, likewise (see
        :class:`memlens.diffing.result.PeakAccount`); and the bytes of temporaries that one run alone has.
    """
    # What is freed of blocks carried in is a term of its own, whichever run frees it.
    born = items.take(np.flatnonzero(items.fate != _FATE["carried_in"]))
    sums = np.zeros((3, len(KINDS), len(base.remaining)), np.int64)
    for row, column in zip(sums, (born.remaining, born.peak, born.size - np.abs(born.remaining)), strict=True):
        np.add.at(row, (born.kind, born.window), column)
    left, live, not_left = (dict(zip(KINDS, row, strict=True)) for row in sums)
    remaining = {
        "missing_free_bytes": left["missing_free"],
        "extra_free_bytes": -left["extra_free"],
        "only_head_held_bytes": left["only_head"],
        "only_base_held_bytes": -left["only_base"],
        "d_released_bytes": head.released[0] - base.released[0],
        "d_unknown_free_bytes": head.unknown[0] - base.unknown[0],
        "d_mismatch_bytes": head.mismatch[0] - base.mismatch[0],
    }
    explained = sum(sign * term for sign, term in zip((1, -1, 1, -1, -1, -1, 1), remaining.values(), strict=True))
    opening = live["opening_only_head"] + live["opening_only_base"]
    peak = {f"{kind}_bytes": term for kind, term in live.items()} | {
        "carried_in_bytes": head.carried_in - base.carried_in - opening,
        "released_bytes": base.released[1] - head.released[1],
        "unknown_free_bytes": base.unknown[1] - head.unknown[1],
        "mismatch_bytes": head.mismatch[1] - base.mismatch[1],
    }
    return (
        {**remaining, "unexplained_bytes": head.remaining - base.remaining - explained},
        {**peak, "unexplained_bytes": head.peak - base.peak - sum(peak.values())},
        {f"{kind}_temporary_bytes": not_left[kind] for kind in ("only_head", "only_base")},
    )


class Paired(NamedTuple):
    """Blocks of two runs, one entry a pair or a block without a partner.

    Attributes:
        base: Base's blocks.
        head: Head's blocks.
        keys: What they are told apart by.
        peak_ends: The event after the one that reaches the peak of each of base's windows, and of head's.
        left: Indices in base, -1 for none, int64.
        right: The same in head.
    """

    base: Blocks
    head: Blocks
    keys: Keys
    peak_ends: tuple[Ints, Ints]
    left: Ints
    right: Ints

    @classmethod
    def of(cls, pairs: Match, base: Levels, head: Levels) -> Paired:
        """All blocks of a match."""
        alone = pairs.only_head
        left = np.concatenate((np.arange(len(pairs.base)), np.full(len(alone), -1)))
        right = np.concatenate((pairs.partner, alone))
        return cls(pairs.base, pairs.head, pairs.keys, (base.peak_end, head.peak_end), left, right)

    def both(self, of_base: Column, of_head: Column, none: int = -1) -> tuple[Ints, Ints]:
        """Values of base's blocks and of head's."""
        return values_at(of_base, self.left, none), values_at(of_head, self.right, none)

    def more(self, of_base: Column, of_head: Column) -> Ints:
        """Return how much more head's block has of something than base's; one that is not there has 0."""
        one, two = self.both(of_base, of_head, 0)
        return two - one

    def only_head(self) -> Ints:
        """1 for a block that only head has, -1 for one that only base has, 0 for a pair."""
        return (self.right >= 0).astype(np.int64) - (self.left >= 0)

    def window(self) -> Ints:
        """The number of the window of each."""
        return np.maximum(*self.both(self.base.window, self.head.window))


def _born(blocks: Paired) -> Items:
    """Of blocks born in the window those that one run lacks, and pairs of different fate or live at one peak only."""
    one, two, (base, head) = blocks.base, blocks.head, blocks.peak_ends
    lacking, moves = blocks.only_head(), blocks.more(one.held, two.held)
    at_peak = blocks.more(live_at_peak(one, base), live_at_peak(two, head))
    # A block that is live at one run's peak only is freed late in it, unless the other run had not allocated it yet.
    window, allocs = blocks.window(), blocks.both(one.alloc, two.alloc)
    known = np.where(at_peak > 0, allocs[0] < base[window], allocs[1] < head[window])
    kind = _numbered(
        _KIND,
        only_head=lacking > 0,
        only_base=lacking < 0,
        missing_free=moves > 0,
        extra_free=moves < 0,
        late_free=known & (at_peak > 0),
        early_free=known & (at_peak < 0),
        elsewhere=at_peak != 0,
    )
    fate = _numbered(_FATE, held=(lacking != 0) & (moves != 0), temporary=lacking != 0)
    return items_of(blocks, kind, fate, moves, at_peak)


def _released(blocks: Paired) -> Items:
    """Of blocks carried in those that only one run frees, and those that one run frees before its peak and the other after."""
    one, two, (base, head) = blocks.base, blocks.head, blocks.peak_ends
    gone = blocks.only_head()
    gone_at_peak = blocks.more(one.free < base[one.window], two.free < head[two.window])
    kind = _numbered(_KIND, released=gone != 0, late_free=gone_at_peak < 0, early_free=gone_at_peak > 0)
    fate = _numbered(_FATE, base=gone < 0, head=gone > 0, carried_in=gone == 0)
    return items_of(blocks, kind, fate, -gone, -gone_at_peak)


def _opening(blocks: Paired) -> Items:
    """Opening blocks that only one run has; whether it frees them in the window, later or never is a trait of theirs."""
    more = blocks.only_head()
    kind = _numbered(_KIND, opening_only_head=more > 0, opening_only_base=more < 0)
    return items_of(blocks, kind, np.full(len(more), -1), np.zeros(len(more), np.int64), more)


def live_at_peak(blocks: Blocks, peak_end: Ints) -> Flags:
    """Return the blocks, born in their window, that are live when it reaches its peak, as flags."""
    end = peak_end[blocks.window]
    live: Flags = (blocks.alloc < end) & ((blocks.free >= end) | (blocks.free < 0))
    return live


def _numbered(numbers: Mapping[str, int], **choices: Flags) -> Ints:
    """The number of the first name that is true of each entry, -1 where none is."""
    return np.select(list(choices.values()), [numbers[name] for name in choices], -1)


def items_of(blocks: Paired, kind: Ints, fate: Ints, remaining: Ints, peak: Ints) -> Items:
    """Items of those blocks that are of a kind (not -1), given how often their sizes count in Δremaining and in Δpeak."""
    some = np.flatnonzero(kind >= 0)
    kind, fate, remaining, peak = (column[some] for column in (kind, fate, remaining, peak))
    blocks = blocks._replace(left=blocks.left[some], right=blocks.right[some])
    (keys, one, two), lacking = (blocks.keys, blocks.base, blocks.head), blocks.only_head()
    size = np.maximum(*blocks.both(one.size, two.size))
    alloc, free = blocks.both(one.alloc, two.alloc), blocks.both(one.free, two.free)
    held, owners = blocks.both(one.held, two.held, 0), blocks.both(keys.base_owner, keys.head_owner)
    requested = [values_at(keys.requested, key) for key in blocks.both(keys.base, keys.head)]
    # The run whose event tells the two apart has what the other lacks, or frees in the window or sooner, or is at its peak.
    in_head = np.where(lacking, lacking > 0, _FREED_BY_HEAD[kind] | ((kind == _KIND["elsewhere"]) & (peak > 0)))
    # Of blocks that other lines of the program made, that counts which is live at its run's peak.
    owner = np.where(np.where(_UNTIMELY[kind], peak > 0, in_head), owners[1], owners[0])
    freed_by = [owners_of(log, keys.owners, event) for log, event in ((one.log, free[0]), (two.log, free[1]))]
    shown = [np.where(_SHOWN_BY_FREE[kind], free[run], alloc[run]) for run in (0, 1)]
    window = blocks.window()
    columns = (
        window,
        kind,
        fate,
        size,
        np.where(lacking, np.maximum(*requested), np.where(requested[0] == requested[1], requested[0], -1)),
        np.where(owner >= 0, owner, np.maximum(*owners)),
        np.where(_HAS_FREE[kind], np.where(in_head, freed_by[1], freed_by[0]), -1),
        np.where(held[0] == held[1], 2, np.where(held[0], free[0] < 0, free[1] < 0)),
        size * remaining,
        size * peak,
        *(
            allocs_between(side.log, ends[window], np.where(_UNTIMELY[kind], freed, ends[window]))
            for side, ends, freed in zip((one, two), blocks.peak_ends, free, strict=True)
        ),
        *(alloc[0], free[0], alloc[1], free[1]),
        in_head,
        np.where(in_head, shown[1], shown[0]),
    )
    return Items(*(np.asarray(column, np.int64) for column in columns))


def allocs_between(log: EventLog, first: Ints, last: Ints) -> Ints:
    """ALLOCs from some events up to others, without these; below 0 where the other comes first, int64."""
    edges = np.concatenate((first, last))
    lo, hi = int(edges.min(initial=len(log))), int(edges.max(initial=0))
    allocs = lo + np.flatnonzero(log.kind[lo:hi] == Kind.ALLOC)
    found: Ints = np.searchsorted(allocs, last) - np.searchsorted(allocs, first)
    return found


def group(items: Items) -> list[Ints]:
    """Put items alike in kind, fate, size, owner and place together, whatever their window.

    Returns:
        For each group the indices of its items, in order, int64; the group of the largest effect first.
    """
    if not len(items.window):
        return []
    # Whether a block counts at head's peak or at base's is a trait too: together they would hide each other.
    at_peak = np.sign(items.peak)
    at_peak[at_peak == _RAISES[items.kind]] = 0
    small = ((items.kind * (len(FATES) + 1) + items.fate + 1) * 3 + items.ends) * 3 + at_peak + 1
    traits = np.stack(((small << 32) + items.owner, items.size, items.requested, items.freed_by))
    order = np.lexsort(traits)
    traits = traits[:, order]
    first = np.flatnonzero(np.concatenate(([True], (traits[:, 1:] != traits[:, :-1]).any(axis=0))))
    remaining, peak, total = (
        np.abs(np.add.reduceat(column[order], first)) for column in (items.remaining, items.peak, items.size)
    )
    leading = order[first]
    shown = np.lexsort((leading, items.kind[leading], -total, -remaining, -np.maximum(remaining, peak)))
    groups = np.split(order, first[1:])
    return [groups[number] for number in shown.tolist()]
