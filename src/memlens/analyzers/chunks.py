"""Chunks as intervals of addresses: when each is there, and what lies free between the blocks in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from memlens.analyzers.fates import joined, until
from memlens.columns import Ints, spans
from memlens.events import EventLog, once
from memlens.facts import Kind
from memlens.spool import walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Addresses = NDArray[np.uint64]


_NOTHING = np.zeros(0, np.uint64), np.zeros(0, np.int64)
#: Events whose chunks are looked up at once.
_MANY = 1 << 22
_LAST_ADDRESS = np.uint64((1 << 64) - 1)


def ends_of(addr: Addresses, size: Ints) -> Addresses:
    """The addresses after the last bytes of stretches, uint64; what a torn line made larger than the address space ends with it."""
    ends: Addresses = addr + np.minimum(size.astype(np.uint64), _LAST_ADDRESS - addr)
    return ends


def serving_chunks(chunks: tuple[Ints, Addresses, Ints], allocs: Ints, addr: Addresses) -> Ints:
    """The chunk that each block lies in: the one that was reserved over its address last.

    Args:
        chunks: The RESERVE of each, its address and its bytes.
        allocs: The ALLOC of each block.
        addr: Its address.

    Returns:
        Indices of ``chunks``, -1 where none is reserved there, int64.
    """
    born, begin, size = chunks
    end = ends_of(begin, size)
    edges = np.unique(np.concatenate((begin, end)))
    first, last = np.searchsorted(edges, begin), np.searchsorted(edges, end)
    # A row for each chunk and stretch between two edges that it covers, by stretch and then by event.
    chunk = np.repeat(np.arange(len(born)), last - first)
    stretch = spans(first, last - first)
    events = np.int64(max(int(born.max(initial=0)), int(allocs.max(initial=0))) + 2)
    key = stretch * events + born[chunk]
    order = np.argsort(key)
    key, chunk, stretch = key[order], chunk[order], stretch[order]
    of_alloc = np.searchsorted(edges, addr, "right") - 1
    row = np.searchsorted(key, of_alloc * events + allocs) - 1
    found = np.full(len(allocs), -1, np.int64)
    known = np.flatnonzero((row >= 0) & (of_alloc >= 0))
    known = known[stretch[row[known]] == of_alloc[known]]
    found[known] = chunk[row[known]]
    return found


def gaps_between(
    chunks: tuple[Addresses, Ints],
    blocks: tuple[Addresses, Ints] = _NOTHING,
    *,
    unmapped: tuple[Addresses, Ints] = _NOTHING,
    join: bool = False,
) -> tuple[Addresses, Ints]:
    """The longest stretches of chunks that no block covers.

    Args:
        chunks: Where each begins, uint64, and its bytes, int64.
        blocks: Likewise; they may overlap, and lie outside.
        unmapped: Stretches of chunks that were given back, likewise.
        join: A gap may go from one chunk into the next one beside it.

    Returns:
        Where each gap begins, uint64, rising, and its bytes, int64; none is empty.
    """
    stretches = [chunks, unmapped, blocks]
    begins = np.concatenate([begin for begin, _ in stretches])
    ends = ends_of(begins, np.concatenate([size for _, size in stretches]))
    edges, place = np.unique(np.concatenate((begins, ends)), return_inverse=True)
    if len(edges) < 2:
        return _NOTHING
    reserved, covered = (
        # int64, one entry a stretch between two edges: how many chunks reserve it, and how many blocks cover it
        np.cumsum(_changes(place, np.repeat(weights, [len(begin) for begin, _ in stretches]), len(edges)))[:-1]
        for weights in ([1, -1, 0], [0, 0, 1])
    )
    free = np.flatnonzero((reserved > 0) & (covered == 0))
    if not len(free):
        return _NOTHING
    ends_chunk = np.zeros(len(edges), np.bool_)
    if not join:
        at_edge = place.reshape(2, -1)[:, : len(chunks[0])]
        ends_chunk[at_edge] = True
    fresh = np.append(True, np.diff(free) > 1) | ends_chunk[free]
    first = np.flatnonzero(fresh)
    lengths = (edges[1:] - edges[:-1])[free].astype(np.int64)
    return edges[free[first]], np.add.reduceat(lengths, first)


def _changes(place: NDArray[np.intp], weights: Ints, edges: int) -> Ints:
    """Return the change at each edge where stretches of these weights begin and end; their places begin with all beginnings."""
    changes = np.zeros(edges, np.int64)
    np.add.at(changes, place, np.concatenate((weights, -weights)))
    return changes


def inside(wanted: Addresses, addr: Addresses, size: Ints) -> Ints:
    """The number of the chunk that holds each address, -1 where none does, int64; chunks by rising address."""
    if not len(addr):
        return np.full(len(wanted), -1, np.int64)
    number = np.searchsorted(addr, wanted, "right") - 1
    held = (number >= 0) & (wanted - addr[number] < size[number].astype(np.uint64))
    return np.where(held, number, -1)


def occupied_before(log: EventLog, event: int, blocks: NDArray[np.integer[Any]]) -> tuple[Addresses, Ints]:
    """Return the stretches of chunks in use right before an event, in the form of :func:`gaps_between`: some blocks, and what any block keeps beyond."""
    granule = log.facts.block_granularity
    addr, size = log.addr[blocks], -(-log.size[blocks] // granule) * granule
    if (kept := log.facts.kept) is not None:
        rows = kept.before(event)
        addr, size = np.append(addr, kept.addr[rows]), np.append(size, kept.size[rows])
    return addr, size


class Chunks(Struct, frozen=True, eq=False):
    """The chunks of a log, one entry a RESERVE.

    Attributes:
        addr: uint64.
        size: int64.
        born: The RESERVE, int64.
        dead: The RELEASE of all of it, or the length of the log, int64.
        stream: int64, -1 where unknown.
        pool: A number of the log's pool names, int64, -1 where unknown.
        unmapped_addr: Stretches given back that are no whole chunk (expandable segments), uint64.
        unmapped_size: int64.
        unmapped_event: int64.
    """

    addr: Addresses
    size: Ints
    born: Ints
    dead: Ints
    stream: Ints
    pool: Ints
    unmapped_addr: Addresses
    unmapped_size: Ints
    unmapped_event: Ints


@once
def chunks_of(log: EventLog) -> Chunks | None:
    """The chunks of a log; ``None`` where an address is not known."""
    born, gone = (
        joined(np.flatnonzero(log.kind[lo:hi] == kind) + lo for lo, hi in walk(0, len(log)))
        for kind in (Kind.RESERVE, Kind.RELEASE)
    )
    addr, size = log.addr[born], log.size[born]
    if not log.facts.addresses or not addr.all():
        return None
    dead = np.full(len(born), len(log), np.int64)
    placed = log.addr[gone] != 0
    if placed.all():
        rest = _end_by_address(log, born, gone, dead)
    elif not placed.any() and _end_by_size(log, born, gone, dead):
        rest = gone[:0]
    else:
        return None
    stream, pool = (
        np.full(len(born), -1, np.int64) if column is None else column[born].astype(np.int64)
        for column in (log.stream, log.pool)
    )
    return Chunks(addr, size, born, dead, stream, pool, log.addr[rest], log.size[rest], rest)


def _end_by_address(log: EventLog, born: Ints, gone: Ints, dead: Ints) -> Ints:
    """Write the RELEASE of each chunk of its address and size into ``dead``; returns those that end no whole chunk."""
    event = np.concatenate((born, gone))
    order = np.lexsort((event, log.size[event], log.addr[event]))
    event = event[order]
    alike = (log.addr[event][1:] == log.addr[event][:-1]) & (log.size[event][1:] == log.size[event][:-1])
    is_release = log.kind[event] == Kind.RELEASE
    ends = np.flatnonzero(alike & ~is_release[:-1] & is_release[1:])
    dead[np.searchsorted(born, event[ends])] = event[ends + 1]
    is_release[ends + 1] = False
    return np.sort(event[is_release])


def _end_by_size(log: EventLog, born: Ints, gone: Ints, dead: Ints) -> bool:
    """Write into ``dead`` which chunk each RELEASE ends where its line names a size alone; whether all can be told.

    Paddle gives back all chunks that are idle, so a chunk that is not used again is gone with the next RELEASE of its size:
    the k-th RELEASE of a size ends the chunk that is used for the last time as the k-th of that size.
    """
    last_use = _last_use(log, born)
    by_use, by_event = np.lexsort((last_use, log.size[born])), np.lexsort((gone, log.size[gone]))
    sizes, released = log.size[born][by_use], log.size[gone][by_event]
    rank = np.arange(len(released)) - np.searchsorted(released, released)
    place = np.searchsorted(sizes, released) + rank
    if (place >= np.searchsorted(sizes, released, "right")).any():
        return False
    chunk, release = by_use[place], gone[by_event]
    dead[chunk] = release
    return bool((last_use[chunk] < release).all())


def _last_use(log: EventLog, born: Ints) -> Ints:
    """The last event of each chunk: its RESERVE, or the last ALLOC or FREE of a block in it, int64."""
    addr, size, used = log.addr[born], log.size[born], born.copy()
    for start in range(0, len(log), _MANY):  # each time the chunks are sorted anew
        allocs = np.flatnonzero(log.kind[start : start + _MANY] == Kind.ALLOC) + start
        chunk = serving_chunks((born, addr, size), allocs, log.addr[allocs])
        allocs, chunk = allocs[chunk >= 0], chunk[chunk >= 0]
        free = until(log.lifetimes.partner)[allocs].astype(np.int64, copy=False)
        # A block that is never freed keeps its chunk to the end.
        np.maximum.at(used, chunk, np.where(free >= len(log), len(log), np.maximum(free, allocs)))
    return used
