"""Who is alive from when to when: the blocks of a window that a picture has bars for, and where each is allocated and freed."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from memlens.analyzers.context import context_lines
from memlens.analyzers.fates import joined, live_events
from memlens.analyzers.places import all_elapsed_us, lines_at
from memlens.drawing.packing import pack, pack_json, packed
from memlens.facts import Kind
from memlens.folding.levels import profile
from memlens.text import visible
from memlens.units import format_bytes

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from memlens.columns import Ints
    from memlens.drawing.packing import Owners
    from memlens.windows.windows import Window


#: Blocks that have a bar of their own at most, beside those that are asked for by name.
MOST = 4000
#: Blocks that the page has log lines of, and the lines before and after each of their events.
CONTEXTS, EACH_SIDE = 300, 2
#: Owners that have colours of their own.
_COLORED = 7
#: Columns that the page gets by their names.
_COLUMNS = ("size_bytes", "fate", "life_events", "life_us", "alloc_line", "free_line", "owner", "free_owner")


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


#: What the page calls them, in their order.
_WORDS = {
    Fate.TEMPORARY: "temporary",
    Fate.HELD: "held: not freed in what is shown",
    Fate.RELEASED: "released: carried in, freed here",
    Fate.KEPT: "carried in, not freed here",
}


class WindowBlocks:
    """Every block that is live at some time of a window, one entry a block, in the order of their ALLOCs.

    There are none where the lines of the log have no addresses: which blocks are live is not known there.

    Args:
        window: The window.

    Attributes:
        log: Its log.
        lo: Its first event.
        hi: The event after its last one.
        alloc: The ALLOC of each block, before the window for those that are carried in, int64, rising.
        size: Its bytes, as its ALLOC says, int64.
        freed: Its FREE, wherever in the log, -1 for none, int64.
        end: The same as far as the window goes, ``hi`` for a block that is not freed in it, int64.
        peak: The event right after which the level is highest; ``lo - 1`` where nothing rises above what is carried in.
    """

    def __init__(self, window: Window) -> None:
        self.log, self.lo, self.hi = window.log, window.lo, window.hi
        figures = profile([window])
        self.peak = int(figures.summit[0]) if figures["rise_bytes"][0] > 0 else self.lo - 1
        born = np.flatnonzero(self.log.kind[self.lo : self.hi] == Kind.ALLOC) + self.lo
        self.alloc = joined([live_events(self.log, self.lo), born] if self.log.facts.addresses else [])
        self.size = self.log.size[self.alloc]
        self.freed = self.log.lifetimes.partner[self.alloc].astype(np.int64)
        self.end = np.where((self.freed < 0) | (self.freed > self.hi), self.hi, self.freed)

    def __len__(self) -> int:
        return len(self.alloc)

    @property
    def life(self) -> Ints:
        """How long each is live in the window, in events, int64."""
        return self.end - np.maximum(self.alloc, self.lo)

    @cached_property
    def at_peak(self) -> NDArray[np.bool_]:
        """Whether each is live right after :attr:`peak`."""
        return (self.alloc <= self.peak) & (self.end > self.peak)

    @property
    def fate(self) -> NDArray[np.int8]:
        """The fate of each, a :class:`Fate`, int8."""
        fate: NDArray[np.int8] = (self.end == self.hi) + 2 * (self.alloc < self.lo).astype(np.int8)
        return fate


class LargestBlocks(Struct, frozen=True, eq=False):
    """The blocks of a window that have bars, one entry a block, in the order of their ALLOCs; what is not said here stands in :class:`WindowBlocks`.

    Attributes:
        alloc: Int64.
        end: Int64.
        size_bytes: Int64.
        fate: Int8.
        life_events: Events from its ALLOC to its FREE wherever in the log, or to the end of the log, int64.
        life_us: Microseconds between the two, int64, -1 where a time is unknown or it is never freed.
        alloc_line: The line of its ALLOC, 1-based, int64; 0 where it has none.
        free_line: The line of its FREE wherever in the log, int64; 0 where it has none.
        owner: The page's number of its owner, int64, -1 for none.
        free_owner: That of its FREE.
        contexts: Of the most important ones ``[index, ALLOC, FREE]``; the latter are ``[number of the first line, its text, …]``, texts from the
            log, made harmless; empty where there are none.
        fates: Of all blocks of the window how many have each fate and how many bytes they are, those without bars included.
        blocks: How many blocks the window has.
        total_bytes: Their bytes.
        known: Whether the log tells which blocks are live: its lines have addresses.
    """

    alloc: Ints
    end: Ints
    size_bytes: Ints
    fate: NDArray[np.int8]
    life_events: Ints
    life_us: Ints
    alloc_line: Ints
    free_line: Ints
    owner: Ints
    free_owner: Ints
    contexts: list[list[Any]]
    fates: list[tuple[int, int]]
    blocks: int
    total_bytes: int
    known: bool

    def __len__(self) -> int:
        return len(self.alloc)

    @property
    def most_bytes(self) -> int:
        """The most bytes of these blocks that are live together: more than the peak where a log frees what it never allocated."""
        order = np.argsort(np.concatenate([self.alloc, self.end]), kind="stable")
        return int(np.concatenate([self.size_bytes, -self.size_bytes])[order].cumsum().max(initial=0))

    @property
    def largest_owners(self) -> list[int]:
        """The owners whose blocks are largest in bytes times events, by their numbers: those that have colours of their own."""
        owners, place = np.unique(self.owner, return_inverse=True)
        area = np.bincount(place, self.size_bytes * (self.end - self.alloc).astype(np.float64), len(owners))
        largest: list[int] = owners[np.argsort(-area, kind="stable")].tolist()
        return [owner for owner in largest if owner >= 0][:_COLORED]

    def to_dict(self) -> dict[str, Any]:
        """Return it as the page gets it."""
        return {
            "alloc": pack(self.alloc),
            "free": pack(self.end),
            **packed(self, *_COLUMNS),
            "contexts": pack_json(self.contexts),
            "fates": [
                {"ink": f"fate-{fate.name.lower()}", "words": words, "name": f"{words} ({n:,}, {format_bytes(b)})"}
                for (fate, words), (n, b) in zip(_WORDS.items(), self.fates, strict=True)
            ],
            "most_bytes": self.most_bytes,
            "largest_owners": self.largest_owners,
            "left_out": {"blocks": self.blocks - len(self), "bytes": self.total_bytes - int(self.size_bytes.sum())},
            "known": self.known,
        }


def largest_blocks(
    of: WindowBlocks, owners: Owners, *, also: ArrayLike = (), most: int = MOST, contexts: int = CONTEXTS
) -> LargestBlocks:
    """Choose the blocks of a window that have bars: half of them the largest, half those of the most bytes times events.

    Of blocks that are alike in that, those that are live at the peak come first, and the others are taken evenly from the whole window.

    Args:
        of: The blocks of the window.
        owners: Gives the numbers of their owners.
        also: ALLOC events of blocks that have bars in any case: those that another part of the page names.
        most: How many bars there are, beside ``also``.
        contexts: Of how many blocks the lines around their events are looked up.
    """
    log, area = of.log, of.size * of.life.astype(np.float64)
    chosen = np.zeros(len(of), bool)
    named = np.asarray(also, np.int64)
    places = of.alloc.searchsorted(named)
    there = places < len(of)
    chosen[places[there][of.alloc[places[there]] == named[there]]] = True
    chosen[_highest(of.size, of.at_peak, most - most // 2)] = True
    # What is among the largest takes no place among the others.
    others = np.flatnonzero(~chosen)
    chosen[others[_highest(area[others], of.at_peak[others], most // 2)]] = True
    bars = np.flatnonzero(chosen)
    alloc, freed, size = of.alloc[bars], of.freed[bars], of.size[bars]
    lines = lines_at(log, np.append(alloc, freed))
    free_owner = np.full(len(bars), -1, np.int64)
    free_owner[freed >= 0] = owners.code(freed[freed >= 0])
    time = np.full(len(log), -1) if log.time_us is None else log.time_us
    stamps = np.where(alloc >= log.facts.opening, time[alloc], -1), np.where(freed >= 0, time[freed], -1)
    fate, at_peak = of.fate, of.at_peak[bars]
    shown = _highest(size, at_peak, contexts - contexts // 2), _highest(area[bars], at_peak, contexts // 2)
    return LargestBlocks(
        alloc=alloc,
        end=of.end[bars],
        size_bytes=size,
        fate=fate[bars],
        life_events=np.where(freed >= 0, freed, len(log)) - alloc,
        life_us=all_elapsed_us(*stamps),
        alloc_line=lines[: len(bars)],
        free_line=lines[len(bars) :],
        owner=owners.code(alloc),
        free_owner=free_owner,
        contexts=_contexts(of, bars, sorted({*shown[0].tolist(), *shown[1].tolist()})),
        fates=[(int(np.count_nonzero(fate == k)), int(of.size[fate == k].sum())) for k in Fate],
        blocks=len(of),
        total_bytes=int(of.size.sum()),
        known=log.facts.addresses,
    )


def _highest(score: NDArray[Any], first: NDArray[np.bool_], most: int) -> Ints:
    """The indices of the highest scores; of those equal to the lowest of them the ones marked ``first``, then some of all the others."""
    if len(score) <= most or not most:
        return np.arange(min(len(score), most))
    least = np.partition(score, len(score) - most)[len(score) - most]
    found, tied = [np.flatnonzero(score > least)], np.flatnonzero(score == least)
    for group in (tied[first[tied]], tied[~first[tied]]):
        room = min(most - sum(map(len, found)), len(group))
        found.append(group[np.arange(room) * len(group) // max(room, 1)])
    return np.concatenate(found)


def _contexts(of: WindowBlocks, bars: Ints, shown: list[int]) -> list[list[Any]]:
    """The lines around the ALLOC and the FREE of some bars."""
    events = [[int(of.alloc[bars[k]]), int(of.freed[bars[k]])] for k in shown]
    wanted = [event for pair in events for event in pair if event >= 0]
    around = dict(zip(wanted, context_lines(of.log, wanted, EACH_SIDE), strict=True))
    texts = [[around.get(event, ()) for event in pair] for pair in events]
    return [
        [k, *([lines[0].line, *(visible(line.text) for line in lines)] if lines else [] for lines in pair)]
        for k, pair in zip(shown, texts, strict=True)
        if any(pair)
    ]
