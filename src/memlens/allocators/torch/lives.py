"""The blocks of a memory snapshot: from when to when they are there, and what those from before its trace occupy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlens.allocators.torch.sizes import LARGE_REST, SMALL, rounded
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.history import OpeningChunks
    from memlens.allocators.torch.settings import Configuration
    from memlens.events import EventLog

    Ints = NDArray[np.int64]

__all__ = ["Lives", "lives_of", "occupied_bytes"]


class Lives(NamedTuple):
    """Blocks of the log, one entry each: those before the trace first.

    Attributes:
        alloc: The event that allocates it, -1 for one that was given back before the trace, and waits.
        free: The event that gives it back, -1 for none.
        addr, size: Where it lies, and what was asked for.
        kept: What it occupies as far as the log says, else 0.
        last: The event after which it can be used again, -1 where it stays.
    """

    alloc: Ints
    free: Ints
    addr: NDArray[np.uint64]
    size: Ints
    kept: Ints
    last: Ints

    def at(self, rows: Ints) -> Lives:
        """Some of them."""
        columns: Any = (column[rows] for column in self)
        return Lives(*columns)


def lives_of(log: EventLog) -> Lives:
    """All blocks, those among them that were given back before the trace and can be used again only in it."""
    partner = log.lifetimes.partner
    alloc = np.flatnonzero(log.kind == Kind.ALLOC)
    free = partner[alloc].astype(np.int64)
    kept, last, last_known = np.zeros(len(alloc), np.int64), free.copy(), log.facts.kept
    addr, size = log.addr[alloc], log.size[alloc]
    if last_known is None:
        return Lives(alloc, free, addr, size, kept, last)
    # Of those before the trace an address is given once, of the others the ALLOC.
    early = np.flatnonzero(last_known.born < log.facts.opening)
    before = np.flatnonzero(alloc < log.facts.opening)
    by_address = before[np.argsort(addr[before], kind="stable")]
    found = np.searchsorted(addr[by_address], last_known.addr[early])
    same = np.append(addr[by_address], np.uint64(0))[found] == last_known.addr[early] if len(early) else early > 0
    same &= found < len(by_address)
    later = np.flatnonzero(last_known.born >= log.facts.opening)
    rows = np.concatenate((early[same], later))
    block = np.concatenate((by_address[found[same]], np.searchsorted(alloc, last_known.born[later])))
    kept[block] = last_known.size[rows]
    waits = (free[block] >= 0) & (last_known.last[rows] > free[block])
    last[block[waits]] = last_known.last[rows][waits]
    waiting = early[~same]
    unknown = np.full(len(waiting), -1, np.int64)
    lives = Lives(
        np.concatenate((unknown, alloc)),
        np.concatenate((unknown, free)),
        np.concatenate((last_known.addr[waiting], addr)),
        np.concatenate((last_known.size[waiting], size)),
        np.concatenate((last_known.size[waiting], kept)),
        np.concatenate((last_known.last[waiting], last)),
    )
    return lives._replace(last=np.where(lives.last >= len(log), -1, lives.last))


def occupied_bytes(log: EventLog, conf: Configuration, lives: Lives, opened: int, chunks: OpeningChunks) -> Ints:
    """What blocks from before the trace occupy, int64.

    A large one keeps what lies between it and the nearest block that is ever allocated behind it while it is there, if that is not more than 1 MiB.

    Args:
        log: The log.
        conf: The settings of the run.
        lives: All blocks, those from before the trace first.
        opened: How many those are.
        chunks: The chunks they lie in, by address.
    """
    size = np.maximum(rounded(lives.size[:opened], conf.divisions), lives.kept[:opened])
    if conf.expandable or log.facts.chunks_join:
        return size
    large = np.flatnonzero((size > SMALL) & (lives.kept[:opened] == 0))
    end = lives.addr[large] + size[large].astype(np.uint64)
    until = np.where(lives.last[large] < 0, len(log), lives.last[large])
    born = np.where(np.arange(len(lives.alloc)) < opened, -1, lives.alloc)
    order = np.lexsort((born, lives.addr))
    places, begins = lives.addr[order], born[order]
    earliest = np.append(True, places[1:] != places[:-1])[: len(places)]  # of those that lay at one address
    places, begins = places[earliest], begins[earliest]
    at, left = np.searchsorted(places, end), np.arange(len(large))
    while len(left):  # on to the next block behind, until one was allocated in time
        left = left[at[left] < len(places)]
        left = left[places[at[left]] - end[left] < np.uint64(LARGE_REST)]
        there = begins[at[left]] < until[left]
        found = left[there]
        size[large[found]] += (places[at[found]] - end[found]).astype(np.int64)
        left = left[~there]
        at[left] += 1
    # A block in no chunk is reported elsewhere; one that would reach beyond its chunk ends with it.
    if len(chunks.addr):
        piece = np.maximum(np.searchsorted(chunks.addr, lives.addr[:opened], "right") - 1, 0)
        room = (chunks.addr + chunks.size.astype(np.uint64))[piece] - lives.addr[:opened]
        inside = (room > 0) & (room < np.uint64(1 << 62))
        whole = np.minimum(room, np.uint64(1 << 62)).astype(np.int64)
        # Of a block that is too large to be split nothing is left over.
        size = np.where(inside & (size >= conf.max_split), whole, size)
        size = np.where(inside, np.minimum(size, whole), size)
    return size
