"""Who is alive from when to when: the blocks of a window that a page has bars for, and counts of those alive at any moment, by size and owner."""

from __future__ import annotations

from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from memlens.analyzers.fates import live_events
from memlens.analyzers.groups import holders_of, kinds_of_blocks, owner_labels
from memlens.analyzers.places import context_lines, elapsed_us, lines_at
from memlens.columns import Ints, distinct
from memlens.drawing.page import Owners, pack_json
from memlens.facts import Kind
from memlens.folding import levels_before, profile, tally
from memlens.spool import leave, walk
from memlens.text import visible
from memlens.trust.failures import failures_in, refused_before

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from memlens.windows.windows import Window


#: Blocks that have a bar of their own at most, beside those that are asked for by name.
MOST = 1 << 14
#: Blocks that the page has log lines of, and the lines before and after each of their events.
CONTEXTS, EACH_SIDE = 300, 2
#: Events of the grid of moments at most, and how many of them may be failures.
GRID, FAILURES = 1024, 64
#: Blocks that are looked at together.
PIECE = 1 << 19
#: Groups of blocks alike: those of the most bytes times events, and those that are largest at the peak.
BY_AREA, AT_PEAK = 44, 20


class Fate(IntEnum):
    """The fate of a block in a window; the numbers are those of the page."""

    TEMPORARY = 0
    """Born and freed in the window."""
    HELD = 1
    """Born in the window and not freed in it."""
    RELEASED = 2
    """Carried into the window and freed in it."""
    KEPT = 3
    """Carried into the window and not freed in it."""


#: Their colours in the style sheet and what the page calls them, in their order.
FATES = {
    Fate.TEMPORARY: ("owner-2", "temporary"),
    Fate.HELD: ("owner-6", "held: not freed in what is shown"),
    Fate.RELEASED: ("owner-3", "released: carried in, freed here"),
    Fate.KEPT: ("owner-8", "carried in, not freed here"),
}


class Blocks:
    """Blocks that have columns: ``size``, their bytes, int64, ``at_peak``, whether each is live at the peak, and :meth:`area`."""

    size: Ints
    at_peak: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.size)

    def area(self, part: slice | Ints = slice(None)) -> NDArray[np.float64]:
        """The bytes of each of some times the events that it is live for."""
        raise NotImplementedError

    def each(self, find: Callable[[slice], NDArray[Any]], kind: DTypeLike) -> NDArray[Any]:
        """A column of the blocks, found a piece at a time: all at once would have temporaries as long as it."""
        found = np.empty(len(self), kind)
        for at, end in walk(0, len(self), PIECE):
            found[at:end] = find(slice(at, end))
        return found

    def sums(self, label: NDArray[Any], count: int, *, area: bool = False) -> NDArray[np.float64]:
        """The bytes of the blocks of each label, or their bytes times events: likewise."""
        found = np.zeros(count)
        for at, end in walk(0, len(self), PIECE):
            part = slice(at, end)
            found += np.bincount(label[part], self.area(part) if area else self.size[part], count)
        return found


class WindowBlocks(Blocks):
    """Every block that is live at some time of a window, one entry a block, in the order of their ALLOCs.

    There are none where the lines of the log have no addresses: which blocks are live is not known there.

    Args:
        window: The window.

    Attributes:
        log: Its log.
        lo: Its first event.
        hi: The event after its last one.
        alloc: The ALLOC of each block, before the window for those that are carried in, rising; int32 where that is enough for the log, or int64.
        size: Its bytes, as its ALLOC says, int64.
        end: Its FREE as far as the window goes, ``hi`` for a block that is not freed in it, likewise.
        peak: The event right after which the level is highest; ``lo - 1`` where nothing rises above what is carried in.
        at_peak: Whether each is live right after it.
    """

    def __init__(self, window: Window) -> None:
        self.log, self.lo, self.hi = window.log, window.lo, window.hi
        figures = profile([window])
        self.peak = int(figures.summit[0]) if figures["rise_bytes"][0] > 0 else self.lo - 1
        index: Any = np.int32 if len(self.log) < 1 << 31 else np.int64
        born = (np.flatnonzero(self.log.kind[at:end] == Kind.ALLOC) + at for at, end in walk(self.lo, self.hi, PIECE))
        parts = chain([live_events(self.log, self.lo)], born) if self.log.facts.addresses else ()
        self.alloc: Ints = np.concatenate([np.zeros(0, index), *(part.astype(index) for part in parts)])
        self.size = self.log.size[self.alloc]
        self.end: Ints = np.asarray(self.freed(), index)
        self.end[(self.end < 0) | (self.end > self.hi)] = self.hi
        self.at_peak = (self.alloc <= self.peak) & (self.end > self.peak)

    def freed(self, rows: slice | Ints = slice(None)) -> Ints:
        """The FREE of each of some, wherever in the log, -1 for none."""
        return cast("Ints", self.log.lifetimes.partner[self.alloc[rows]])

    def area(self, part: slice | Ints = slice(None)) -> NDArray[np.float64]:
        """The bytes of each of some times the events that it is live for in the window; of a state without any their bytes."""
        life = self.end[part] - np.maximum(self.alloc[part], self.lo) if self.hi > self.lo else np.int64(1)
        area: NDArray[np.float64] = np.multiply(self.size[part], life, dtype=np.float64)
        return area

    def live_after(
        self, events: Ints, groups: Sequence[tuple[int, Callable[[slice], NDArray[Any]]]], *, counted: bool = False
    ) -> list[Ints]:
        """What is live right after some events, by groups.

        Args:
            events: The events, rising.
            groups: Ways to group the blocks: how many groups there are, and what gives the group of each of some blocks.
            counted: Count blocks instead of their bytes.

        Returns:
            Of each way the bytes of each group, a row a group, a column an event, int64.
        """
        width = len(events) + 1
        changes = [np.zeros(count * width, np.int64) for count, _ in groups]
        for begin, end in walk(0, len(self), PIECE):
            part = slice(begin, end)
            born, gone = events.searchsorted(self.alloc[part]), events.searchsorted(self.end[part])
            size = None if counted else self.size[part]
            for (_, group), sums in zip(groups, changes, strict=True):
                cells = group(part).astype(np.int64) * width
                # Sums of bytes are floats, and exact below 2**53.
                more, less = (np.bincount(cells + at, size, len(sums)) for at in (born, gone))
                np.add(sums, more - less, out=sums, casting="unsafe")
        return [sums.reshape(-1, width).cumsum(axis=1)[:, :-1] for sums in changes]

    @property
    def fate(self) -> NDArray[np.int8]:
        """The fate of each, a :class:`Fate`, int8."""
        fate: NDArray[np.int8] = (self.end == self.hi) + 2 * (self.alloc < self.lo).astype(np.int8)
        return fate


def largest_blocks(
    of: WindowBlocks, owners: Owners, *, also: ArrayLike = (), most: int = MOST, contexts: int = CONTEXTS
) -> dict[str, Any]:
    """Return the page's blocks of a window that have bars: half of them the largest, half those of the most bytes times events.

    Of blocks that are alike in that, those that are live at the peak come first, and the others are taken evenly from the whole window.

    Args:
        of: The blocks of the window.
        owners: Gives the numbers of their owners.
        also: ALLOC events of blocks that have bars in any case: those that another part of the page names.
        most: How many bars there are, beside ``also``.
        contexts: Of how many blocks the lines around their events are looked up.

    Returns:
        Columns with one entry a block, in the order of their ALLOCs, int64 (what is not said here stands in :func:`block_columns`): ``fate``; ``life_events``,
        events from its ALLOC to its FREE wherever in the log, or to the end of the log; ``life_us``, microseconds between the two, -1 where a time is
        unknown or it is never freed; ``free_line``, 1-based, 0 for none; ``free_owner``, the page's number of that of its FREE, and ``holder``, -1 for
        none.  ``contexts``, of the most important ones ``[index, ALLOC, FREE]``, the latter ``[number of the first line, its text, …]``, texts from the
        log, made harmless; empty where there are none.  ``fates``, what each fate is called; ``holders``, the texts of holders by their numbers, and
        ``pools``, those of pools.  ``left_out``, the blocks without bars.  ``known``, whether the log tells which blocks are live.
    """
    log = of.log
    chosen = np.zeros(len(of), bool)
    named = np.asarray(also, np.int64)
    places = of.alloc.searchsorted(named)
    there = places < len(of)
    chosen[places[there][of.alloc[places[there]] == named[there]]] = True
    chosen[_highest(of.size.__getitem__, of.at_peak, most - most // 2)] = True
    # What is among the largest takes no place among the others.
    chosen[_highest(lambda part: np.where(chosen[part], -1, of.area(part)), of.at_peak, most // 2)] = True
    leave()
    bars = np.flatnonzero(chosen)
    alloc, freed, size = of.alloc[bars], of.freed(bars), of.size[bars]
    lines = lines_at(log, np.append(alloc, freed))
    free_owner = np.full(len(bars), -1, np.int64)
    free_owner[freed >= 0] = owners.code(freed[freed >= 0])
    holder, names = holders_of(log) or (None, ())
    held_by = np.full(len(bars), -1) if holder is None else holder[alloc]
    # In the order in which they come: their numbers in the log are chance.
    holders = [*dict.fromkeys(held_by[held_by >= 0].tolist())]
    number = np.full(len(names) + 1, -1)  # the last one is for none
    number[holders] = np.arange(len(holders))
    untimed = np.full(len(bars), -1)
    stamps = [
        untimed if log.time_us is None else np.where(there, log.time_us[at], -1)
        for there, at in ((alloc >= log.facts.opening, alloc), (freed >= 0, freed))
    ]
    leave()
    at_peak = of.at_peak[bars]
    scores = (size.__getitem__, contexts - contexts // 2), (of.area(bars).__getitem__, contexts // 2)
    shown = sorted({row for score, count in scores for row in _highest(score, at_peak, count).tolist()})
    return {
        **block_columns(of, bars, owners, lines[: len(bars)]),
        "fate": of.fate[bars],
        "life_events": np.where(freed >= 0, freed, len(log)) - alloc,
        "life_us": elapsed_us(*stamps),
        "free_line": lines[len(bars) :],
        "free_owner": free_owner,
        "holder": number[held_by],
        "holders": pack_json([visible(names[code]) for code in holders]),
        "pools": pack_json([*map(visible, log.pool_names)]),
        "contexts": pack_json(_contexts(of, bars, shown)),
        "fates": [words for _, words in FATES.values()],
        "left_out": {"blocks": len(of) - len(bars), "bytes": int(of.size.sum() - size.sum())},
        "known": log.facts.addresses,
    }


def block_columns(of: WindowBlocks, rows: Ints, owners: Owners, lines: Ints) -> dict[str, Ints]:
    """Return what the page knows of every block: a column each, int64.

    These are ``alloc``; ``free``, which is ``end`` in :class:`WindowBlocks`; ``size_bytes``; ``alloc_line``, 1-based, 0 for none; ``owner``, the page's
    number of it, -1 for none; ``at``, its address, -1 where it is not known, or too large for a number of JavaScript; ``stream`` and ``pool``, its number,
    -1 where unknown.
    """
    log, alloc = of.log, of.alloc[rows]
    return {
        "alloc": alloc,
        "free": of.end[rows],
        "size_bytes": of.size[rows],
        "alloc_line": lines,
        "owner": owners.code(alloc),
        "at": places_of(log.addr[alloc]),
        **{
            name: np.full(len(rows), -1) if column is None else column[alloc].astype(np.int64)
            for name, column in (("stream", log.stream), ("pool", log.pool))
        },
    }


def places_of(addresses: NDArray[np.uint64]) -> Ints:
    """Addresses as the page has them, int64: -1 for those that a number of JavaScript could not hold."""
    return np.where(addresses < 1 << 52, addresses, 0).astype(np.int64) - (addresses >= 1 << 52)


def _highest(score: Callable[[slice], NDArray[Any]], first: NDArray[np.bool_], most: int) -> Ints:
    """The indices of the highest scores, which are asked for a piece at a time; of those equal to the lowest of them the ones marked ``first``, then some of all the others."""
    count = len(first)
    if count <= most or not most:
        return np.arange(min(count, most))
    highest = np.zeros(0)
    for at, end in walk(0, count, PIECE):
        highest = np.append(highest, score(slice(at, end)))
        highest = np.partition(highest, max(len(highest) - most, 0))[-most:]
    least, found, ties = highest.min(), [], []
    for at, end in walk(0, count, PIECE):
        scores = score(slice(at, end))
        found.append(np.flatnonzero(scores > least) + at)
        ties.append(np.flatnonzero(scores == least) + at)
    tied = np.concatenate(ties)
    for group in (tied[first[tied]], tied[~first[tied]]):
        room = min(most - sum(map(len, found)), len(group))
        found.append(group[np.arange(room) * len(group) // max(room, 1)])
    return np.concatenate(found)


def _contexts(of: WindowBlocks, bars: Ints, shown: list[int]) -> list[list[Any]]:
    """The lines around the ALLOC and the FREE of some bars."""
    leave()
    events = np.stack([of.alloc[bars[shown]], of.freed(bars[shown])], axis=1).tolist()
    wanted = [event for pair in events for event in pair if event >= 0]
    around = dict(zip(wanted, context_lines(of.log, wanted, EACH_SIDE), strict=True))
    texts = [[around.get(event, ()) for event in pair] for pair in events]
    return [
        [k, *([lines[0].line, *(visible(line.text) for line in lines)] if lines else [] for lines in pair)]
        for k, pair in zip(shown, texts, strict=True)
        if any(pair)
    ]


def moments(window: Window, of: WindowBlocks, owners: Owners) -> dict[str, Any]:
    """Return the page's counts of what is live right after each event of a grid.

    Args:
        window: The window.
        of: Its blocks.
        owners: Gives the numbers of their owners.

    Returns:
        Int64 columns; at each event ``Σ size × count + other_bytes + odd_bytes`` is the level.  ``event``, the events, rising, the first one the event
        before the window (-1 where there is none), which has what is carried in; ``line``, their lines, 1-based, 0 where there is none; ``level_bytes``.
        ``size_bytes`` and ``owner`` of each group of blocks alike, -1 for no owner, the group of the most bytes times events first; ``counts``, how many blocks
        of each group are live right after each event, group by group.  ``other_counts`` and ``other_bytes`` of the blocks of no group, the latter all of the
        level where the log does not tell which blocks are live.  ``odd_bytes``, what the level has beyond the live blocks: ALLOC sizes less FREE sizes of
        the pairs that differ, less the frees of what the log never allocates; below 0 as a rule where it is not 0.
    """
    log, grid = window.log, _grid(window, of.peak)
    level = levels_before(log, grid + 1)[:, 0]
    leave()
    number, sizes, labels = kinds_of_blocks(log, of.alloc, sizes=of.size)
    number = number.astype(np.int32)
    area = of.sums(number, len(sizes), area=True)
    at_peak = np.bincount(number[of.at_peak], minlength=len(sizes)) * sizes
    chosen = np.argsort(-area, kind="stable")[:BY_AREA].tolist()
    largest = np.argsort(-at_peak, kind="stable")[:AT_PEAK]
    chosen = list(dict.fromkeys([*chosen, *largest[at_peak[largest] > 0].tolist()]))
    group_of = np.full(len(sizes), len(chosen), np.int64)  # the last group is all others
    group_of[chosen] = np.arange(len(chosen))
    (counts,) = of.live_after(grid, [(len(chosen) + 1, lambda part: group_of[number[part]])], counted=True)
    anomalous = _odd_bytes(window, grid) if log.facts.addresses else np.zeros(len(grid), np.int64)
    names = owner_labels(log)
    return {
        "event": grid,
        "line": lines_at(log, grid),
        "level_bytes": level,
        "size_bytes": sizes[chosen],
        "owner": owners.code_texts(names[label] for label in labels[chosen].tolist()),
        "counts": counts[:-1].ravel(),
        "other_counts": counts[-1],
        "other_bytes": level - anomalous - sizes[chosen] @ counts[:-1],
        "odd_bytes": anomalous,
    }


def _grid(window: Window, peak: int) -> Ints:
    """The window's edges, its peak and its failures, and of each of many stretches the event with the highest level."""
    log, (lo, hi) = window.log, (window.lo, window.hi)
    before = refused_before(log, failures_in(window))[:FAILURES] - 1
    fixed = np.clip(np.array([lo - 1, hi - 1, peak, *before.tolist()], np.int64), lo - 1, max(hi - 1, lo - 1))
    stretches = min(GRID - len(fixed), hi - lo)
    if not stretches:
        return distinct(fixed)
    edges = lo + np.arange(stretches + 1, dtype=np.int64) * (hi - lo) // stretches
    found = tally(log, edges).over(edges[:-1], edges[1:])
    # A stretch that never rises above its start is highest right after its first event.
    return distinct(np.append(fixed, np.where(found.rise[0] > 0, found.summit, edges[:-1])))


def _odd_bytes(window: Window, grid: Ints) -> Ints:
    """Σ (ALLOC - FREE) over the pairs whose sizes differ, less Σ unknown frees, from the start of the log to right after each event."""
    log, anomalies = window.log, window.log.free_anomalies
    sums = np.zeros(len(grid), np.int64)
    for events, amounts in (
        (anomalies.unknown, -log.size[anomalies.unknown]),
        (anomalies.mismatched, anomalies.excess),
    ):
        sums += np.append(0, np.cumsum(amounts))[np.searchsorted(events, grid, "right")]
    return sums
