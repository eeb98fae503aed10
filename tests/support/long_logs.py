"""Long logs made of short ones or of nothing, copies of them with edits, and what comparing these costs at least and at most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from exact_alignment import Born, exact_cost
from numpy.typing import NDArray

from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import Window

Ints = NDArray[np.int64]

#: Sizes of the blocks of made-up logs; the same as those of ``make_log.py``.
SIZES = np.array([256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 3538944, 7077888, 28311552], np.int64)


#: The columns of :class:`Columns`.
NAMES = ("kind", "size", "addr", "place", "origin")


@dataclass(frozen=True, eq=False)
class Columns:
    """The events of a log, one entry each.

    Attributes:
        kind: int8.
        size: int64.
        addr: uint64.
        place: Where the event stands in the log that it was made from, float64; inserted ones stand between two others.
        origin: The event of that log that it was, -1 where it is new, int64.
    """

    kind: NDArray[np.int8]
    size: Ints
    addr: NDArray[np.uint64]
    place: NDArray[np.float64]
    origin: Ints

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, at: NDArray[Any]) -> Columns:
        """Some of them, in the order given."""
        return Columns(*(getattr(self, name)[at] for name in NAMES))

    def log(self) -> Log:
        """The events as a log."""
        events = np.arange(len(self), dtype=np.int64)
        return Log(self.kind, self.size, self.addr, events, line=events + 1)


def columns(kind: NDArray[Any], size: NDArray[Any], addr: NDArray[Any]) -> Columns:
    """Events in order."""
    events = np.arange(len(kind), dtype=np.int64)
    return Columns(
        kind.astype(np.int8), size.astype(np.int64), addr.astype(np.uint64), events.astype(np.float64), events
    )


def cut(log: Log, lo: int, hi: int) -> Window:
    """Events ``lo … hi-1`` of a log made in memory, a line an event."""
    return Window(log, f"events {lo:,}-{hi:,}", lo, hi, lo, hi, lo + 1, hi)


def random_fates(sizes: Ints, events: int, chance: np.random.Generator) -> Columns:
    """Blocks of the given sizes, in order, each freed some time after it was allocated, or never (one in twenty)."""
    allocs = events // 2
    sizes = sizes[:allocs]
    born = np.sort(chance.random(allocs))
    life = chance.exponential(min(200, events / 10) / events, allocs)
    died = np.where(chance.random(allocs) < 0.05, np.inf, born + life)
    freed = np.flatnonzero(died < 1)
    when = np.concatenate((born, died[freed]))
    order = np.argsort(when, kind="stable")
    kind = np.concatenate((np.full(allocs, Kind.ALLOC), np.full(len(freed), Kind.FREE)))
    number = np.concatenate((np.arange(allocs), freed))
    return columns(kind[order], sizes[number[order]], (number[order] + 1) * 256)


def half_freed(side: Columns, events: int, chance: np.random.Generator) -> Columns:
    """Every second of the FREEs taken out, at random."""
    freed = np.flatnonzero(side.kind == Kind.FREE)
    kept = np.ones(len(side), np.bool_)
    kept[chance.permutation(freed)[: len(freed) // 2]] = False
    rest = side.take(np.flatnonzero(kept)[:events])
    return columns(rest.kind, rest.size, rest.addr)


def repeated(log: Log, events: int) -> Columns:
    """A log's allocations and FREEs again and again; each time at the same addresses, as steps of a run are."""
    block = np.flatnonzero(log.kind <= Kind.FREE)
    times = -(-events // len(block))
    again = np.tile(block, times)[:events]
    return columns(log.kind[again], log.size[again], log.addr[again])


def edited(base: Columns, share: float, chance: np.random.Generator) -> Columns:
    """Another run of the same: so large a share of the events is gone, new, or in another place, and all addresses differ.

    Of ten edited events one is a FREE that is missing, three belong to temporaries that are gone, three to new ones, and three have
    changed places with their neighbours.
    """
    edits = int(share * len(base))
    partner = base.log().lifetimes.partner
    temporary = np.flatnonzero((base.kind == Kind.ALLOC) & (partner >= 0))
    chosen = chance.permutation(temporary)
    missing, gone = chosen[: edits // 10], chosen[edits // 10 : edits // 10 + edits * 3 // 20]
    kept = np.ones(len(base), np.bool_)
    kept[partner[missing]] = False
    kept[gone] = kept[partner[gone]] = False
    place = base.place.copy()
    swap = np.unique(chance.integers(0, len(base) - 1, edits * 3 // 20) // 2 * 2)
    swap = swap[base.addr[swap] != base.addr[swap + 1]]
    place[swap], place[swap + 1] = place[swap + 1], place[swap]
    new = edits * 3 // 20
    at = chance.random(new) * len(base)
    until = at + chance.exponential(20, new)
    sizes = np.where(
        chance.random(new) < 0.5,
        base.size[chance.choice(temporary, new)],
        (2 ** chance.uniform(8, 25, new)).astype(np.int64) // 256 * 256,
    )
    address = base.addr.max() + np.arange(1, new + 1, dtype=np.uint64) * np.uint64(256)
    nowhere = np.full(new, -1, np.int64)
    parts = (
        replace(base, place=place).take(kept),
        Columns(np.full(new, Kind.ALLOC, np.int8), sizes, address, at, nowhere),
        Columns(np.full(new, Kind.FREE, np.int8), sizes, address, until, nowhere),
    )
    every = Columns(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES))
    head = every.take(np.argsort(every.place, kind="stable"))
    return replace(head, addr=head.addr ^ np.uint64(0x5A5A5A5A5A00))


def fates(side: Window) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """The allocations of a window: their events, their sizes, and whether the window holds them."""
    partner, kind = side.log.lifetimes.partner, side.log.kind
    events = np.flatnonzero(kind[side.lo : side.hi] == Kind.ALLOC) + side.lo
    free = partner[events]
    return events, side.log.size[events], (free < 0) | (free >= side.hi)


def least_cost(base: Window, head: Window) -> float:
    """Bytes that any alignment costs at least: the same blocks without their order, each size for itself."""
    sides = [fates(side)[1:] for side in (base, head)]
    sizes = np.unique(np.concatenate([size for size, _ in sides]))
    counts = np.array([
        [np.bincount(np.searchsorted(sizes, size[held == fate]), minlength=len(sizes)) for fate in (False, True)]
        for size, held in sides
    ])  # fmt: skip
    more = counts[0] - counts[1]  # base less head: temporaries, held ones
    cross = np.where(more[0] * more[1] < 0, np.minimum(abs(more[0]), abs(more[1])), 0)
    rest = abs(more) - cross
    return float((sizes * (2 * cross + rest[0] + 2 * rest[1])).sum() / 2)


def cheapest_cost(base: Window, head: Window) -> float:
    """Bytes that the cheapest alignment costs, by the exact program."""
    left, right = (
        [Born((size,), held, size) for size, held in zip(sizes.tolist(), kept.tolist(), strict=True)]
        for _, sizes, kept in (fates(base), fates(head))
    )
    return exact_cost(left, right) / 2
