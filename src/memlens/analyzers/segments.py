"""What the device's chunks hold, and what lies free between their blocks, at the moments that matter.

Sums tell how much of what is reserved holds no block.  Whether a further allocation fits into that is a question of addresses: chunks and
blocks are intervals, and a *gap* is a longest stretch of a chunk that no live block covers.  Gaps of two chunks never join, for no
allocator serves a block across them, but for chunks that the input says are mapped side by side (:attr:`Facts.chunks_join`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from memlens.analyzers.levels import profile
from memlens.analyzers.pairing import live_events, until
from memlens.analyzers.places import Lines
from memlens.analyzers.result import Later, Lazy, Result, Row
from memlens.events import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.slicing import Window

    Ints = NDArray[np.int64]
    Addresses = NDArray[np.uint64]

__all__ = ["GapBin", "Moment", "Pool", "Segments", "gaps_between", "segments"]

_LAST_ADDRESS = np.uint64((1 << 64) - 1)


@dataclass(frozen=True)
class Moment(Row):
    """What is reserved, allocated and free at one moment.

    Attributes:
        at: ``"peak"`` of the allocated bytes, ``"oom"``, an out-of-memory failure, or ``"end"`` of the window.
        event: The last event before the moment, 0-based in the log; ``None`` where the input has none.
        line: Its line, 1-based; of a failure the line of the message.
        reserved_bytes: What chunks hold.
        allocated_bytes: What blocks hold.
        free_bytes: ``reserved_bytes - allocated_bytes``; ``None`` where blocks lie in chunks that the input does not name.
        chunks: Chunks taken and not given back; ``None`` where their addresses are not known.
        gaps: Stretches of chunks between blocks; ``None`` where addresses are not known.
        gap_bytes: Their sum.  It is less than ``free_bytes`` by what blocks occupy beyond their size, and more by blocks outside.
        largest_gap_bytes: The longest of them, 0 where there is none: the largest block that still fits.
        outside_bytes: Blocks that lie in no chunk that the input names.
        requested_bytes: What the allocation that failed asked for; ``None`` where unknown, and at other moments.
    """

    at: str
    event: int | None
    line: int | None
    reserved_bytes: int
    allocated_bytes: int
    free_bytes: int | None
    chunks: int | None
    gaps: int | None
    gap_bytes: int | None
    largest_gap_bytes: int | None
    outside_bytes: int | None
    requested_bytes: int | None


@dataclass(frozen=True)
class GapBin(Row):
    """Gaps of ``low_bytes`` to ``high_bytes`` (both included), a power of two wide.

    Attributes:
        moment: The row of ``moments`` that this is of, from 0.
    """

    moment: int
    low_bytes: int
    high_bytes: int
    gaps: int
    gap_bytes: int


@dataclass(frozen=True)
class Pool(Row):
    """The chunks of one stream at a moment.

    Attributes:
        moment: The row of ``moments`` that this is of, from 0.
        stream: The stream, ``None`` for chunks without a block and of no known stream.
    """

    moment: int
    stream: int | None
    reserved_bytes: int
    allocated_bytes: int
    chunks: int
    gaps: int
    gap_bytes: int
    largest_gap_bytes: int


@dataclass(frozen=True)
class Segments(Result):
    """Chunks and the gaps in them, at the peak, at the end, and at each out-of-memory failure of a window.

    Attributes:
        moments: The peak, the end, and then failures in order; none where the input tells nothing of chunks.
        histogram: The gaps of each moment by size.
        pools: The same figures by stream, where the input has streams: the largest reserved first.
    """

    tables: ClassVar[dict[str, type[Row]]] = {"moments": Moment, "histogram": GapBin, "pools": Pool}

    moments: Lazy[tuple[Moment, ...]] = field(default=Lazy(()), repr=False)
    histogram: Lazy[tuple[GapBin, ...]] = field(default=Lazy(()), repr=False)
    pools: Lazy[tuple[Pool, ...]] = field(default=Lazy(()), repr=False)


def segments(windows: Sequence[Window]) -> list[Segments]:
    """Analyze windows of one log; each moment is worked out when a table is asked for."""
    if not windows:
        return []
    figures = profile(windows)
    peaks = np.where(figures.rise[0] > 0, figures.summit + 1, [window.lo for window in windows]).tolist()
    surveys = [_Survey(window, peak) for window, peak in zip(windows, peaks, strict=True)]
    return [Segments(Later(s.moments), Later(s.histogram), Later(s.pools)) for s in surveys]


class _Survey:
    """The tables of one window, from one look at each of its moments.

    Args:
        window: The window.
        peak: The event after the one that reaches its peak.
    """

    def __init__(self, window: Window, peak: int) -> None:
        self._window = window
        self._peak = peak

    def moments(self) -> tuple[Moment, ...]:
        """A row a moment."""
        return self._tables[0]

    def histogram(self) -> tuple[GapBin, ...]:
        """The gaps of each."""
        return self._tables[1]

    def pools(self) -> tuple[Pool, ...]:
        """The streams of each."""
        return self._tables[2]

    @cached_property
    def _tables(self) -> tuple[tuple[Moment, ...], tuple[GapBin, ...], tuple[Pool, ...]]:
        log = self._window.log
        rows: list[Moment] = []
        bins: list[GapBin] = []
        pools: list[Pool] = []
        at_moments = list(self._moments()) if (log.kind > Kind.FREE).any() else []
        events = [stop - 1 if stop > log.facts.opening else None for _, stop, _, _ in at_moments]
        lines = Lines(log, events)
        for number, ((at, stop, message, requested), event) in enumerate(zip(at_moments, events, strict=True)):
            allocated, reserved = log.level_before(stop)
            found = _layout(log, stop)
            chunks, gaps, gap_bytes, largest, outside = (None,) * 5 if found is None else found.figures()
            free = None if outside or reserved < allocated else reserved - allocated
            line = lines.of(event) if message is None else message
            rows.append(
                Moment(at, event, line, reserved, allocated, free, chunks, gaps, gap_bytes, largest, outside, requested)
            )
            if found is not None:
                bins.extend(_bins(number, found.gap_size))
                pools.extend(found.pools(number))
        return tuple(rows), tuple(bins), tuple(pools)

    def _moments(self) -> Iterator[tuple[str, int, int | None, int | None]]:
        """For each moment its name, the event before which it is, and of a failure its line and what was asked for."""
        window = self._window
        yield "peak", self._peak, None, None
        yield "end", window.hi, None, None
        for oom in window.log.facts.ooms:
            if window.start_offset <= oom.offset < window.end_offset:
                stop = int(np.searchsorted(window.log.offset, oom.offset))
                yield "oom", stop, oom.line, oom.requested_bytes


@dataclass(frozen=True, eq=False)
class _Layout:
    """Chunks, blocks and gaps of one moment, one entry each, by rising address; a chunk number of -1 is none.

    Attributes:
        chunk_size: int64.
        chunk_stream: -1 where unknown, int64.
        block_size: int64.
        block_chunk: The number of the chunk that the block begins in, int64.
        gap_size: int64.
        gap_chunk: The number of the chunk that the gap begins in, int64.
        streams: The input has streams.
    """

    chunk_size: Ints
    chunk_stream: Ints
    block_size: Ints
    block_chunk: Ints
    gap_size: Ints
    gap_chunk: Ints
    streams: bool

    def figures(self) -> tuple[int, int, int, int, int]:
        """Chunks, gaps, their bytes, the largest gap, and bytes of blocks outside."""
        outside = self.block_size[self.block_chunk < 0]
        gaps = self.gap_size
        return len(self.chunk_size), len(gaps), int(gaps.sum()), int(gaps.max(initial=0)), int(outside.sum())

    def pools(self, moment: int) -> Iterator[Pool]:
        """The figures by stream, the largest reserved first; blocks outside of all chunks are in none."""
        if not self.streams:
            return
        found = []
        inside = self.block_chunk >= 0
        of_block, of_gap = self.chunk_stream[self.block_chunk], self.chunk_stream[self.gap_chunk]
        for stream in np.unique(self.chunk_stream).tolist():
            own = self.chunk_stream == stream
            gaps = self.gap_size[of_gap == stream]
            found.append(
                Pool(
                    moment,
                    None if stream < 0 else stream,
                    int(self.chunk_size[own].sum()),
                    int(self.block_size[inside & (of_block == stream)].sum()),
                    int(own.sum()),
                    len(gaps),
                    int(gaps.sum()),
                    int(gaps.max(initial=0)),
                )
            )
        yield from sorted(found, key=lambda pool: -pool.reserved_bytes)


def _layout(log: EventLog, stop: int) -> _Layout | None:
    """What lies where right before an event; ``None`` where the input does not tell all addresses."""
    chunks = _chunks(log)
    if chunks is None:
        return None
    live = np.flatnonzero((chunks.born < stop) & (chunks.dead >= stop))
    live = live[np.argsort(chunks.addr[live], kind="stable")]
    addr, size, stream = chunks.addr[live], chunks.size[live], chunks.stream[live].copy()
    blocks = live_events(log, stop)
    block_addr, block_size = log.addr[blocks], log.size[blocks]
    granule = log.facts.block_granularity
    occupied = -(-block_size // granule) * granule
    away = chunks.unmapped_event < stop
    gap_addr, gap_size = gaps_between(
        (addr, size),
        (block_addr, occupied),
        (chunks.unmapped_addr[away], chunks.unmapped_size[away]),
        join=log.facts.chunks_join,
    )
    block_chunk, gap_chunk = _inside(block_addr, addr, size), _inside(gap_addr, addr, size)
    if log.stream is not None:
        # A chunk from before the input may have no stream of its own: its blocks tell.
        told = np.full(len(addr), -1, np.int64)
        of_known = block_chunk >= 0
        np.maximum.at(told, block_chunk[of_known], log.stream[blocks][of_known])
        stream = np.where(stream < 0, told, stream)
    return _Layout(size, stream, block_size, block_chunk, gap_size, gap_chunk, log.stream is not None)


def gaps_between(
    chunks: tuple[Addresses, Ints],
    blocks: tuple[Addresses, Ints],
    unmapped: tuple[Addresses, Ints] | None = None,
    *,
    join: bool = False,
) -> tuple[Addresses, Ints]:
    """The longest stretches of chunks that no block covers.

    Args:
        chunks: Where each begins, uint64, and its bytes, int64.
        blocks: Likewise; they may overlap, and lie outside.
        unmapped: Stretches that are not reserved although a chunk covers them.
        join: A gap may go from one chunk into the next one beside it.

    Returns:
        Where each gap begins, uint64, rising, and its bytes, int64; none is empty.
    """
    nothing = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    stretches = [chunks, unmapped or nothing, blocks]
    begins = np.concatenate([begin for begin, _ in stretches])
    # What a torn line made larger than the address space ends with it.
    sizes = np.minimum(np.concatenate([size for _, size in stretches]).astype(np.uint64), _LAST_ADDRESS - begins)
    edges, place = np.unique(np.concatenate((begins, begins + sizes)), return_inverse=True)
    if len(edges) < 2:
        return nothing
    reserved, covered = (
        # int64, one entry a stretch between two edges: how many chunks reserve it, and how many blocks cover it
        np.cumsum(_changes(place, np.repeat(weights, [len(begin) for begin, _ in stretches]), len(edges)))[:-1]
        for weights in ([1, -1, 0], [0, 0, 1])
    )
    free = np.flatnonzero((reserved > 0) & (covered == 0))
    if not len(free):
        return nothing
    ends_chunk = np.zeros(len(edges), np.bool_)
    if not join:
        at_edge = place.reshape(2, -1)[:, : len(chunks[0])]
        ends_chunk[at_edge] = True
    fresh = np.append(True, np.diff(free) > 1) | ends_chunk[free]
    first = np.flatnonzero(fresh)
    lengths = (edges[1:] - edges[:-1])[free].astype(np.int64)
    return edges[free[first]], np.add.reduceat(lengths, first)


def _changes(place: NDArray[np.intp], weights: Ints, edges: int) -> Ints:
    """What changes at each edge where stretches of these weights begin and end; their places begin with all beginnings."""
    changes = np.zeros(edges, np.int64)
    np.add.at(changes, place, np.concatenate((weights, -weights)))
    return changes


def _inside(wanted: Addresses, addr: Addresses, size: Ints) -> Ints:
    """The number of the chunk that holds each address, -1 where none does, int64; chunks by rising address."""
    if not len(addr):
        return np.full(len(wanted), -1, np.int64)
    number = np.searchsorted(addr, wanted, "right") - 1
    held = (number >= 0) & (wanted - addr[number] < size[number].astype(np.uint64))
    return np.where(held, number, -1)


@dataclass(frozen=True, eq=False)
class _Chunks:
    """The chunks of a log, one entry a RESERVE.

    Attributes:
        addr: uint64.
        size: int64.
        born: The RESERVE, int64.
        dead: The RELEASE of all of it, or the length of the log, int64.
        stream: int64, -1 where unknown.
        unmapped_addr: Stretches given back that are no whole chunk (expandable segments), uint64.
        unmapped_size: int64.
        unmapped_event: int64.
    """

    addr: Addresses
    size: Ints
    born: Ints
    dead: Ints
    stream: Ints
    unmapped_addr: Addresses
    unmapped_size: Ints
    unmapped_event: Ints


_CHUNKS: WeakKeyDictionary[EventLog, _Chunks | None] = WeakKeyDictionary()


def _chunks(log: EventLog) -> _Chunks | None:
    """The chunks of a log, worked out once; ``None`` where an address is not known."""
    if log not in _CHUNKS:
        _CHUNKS[log] = _find_chunks(log)
    return _CHUNKS[log]


def _find_chunks(log: EventLog) -> _Chunks | None:
    born, gone = np.flatnonzero(log.kind == Kind.RESERVE), np.flatnonzero(log.kind == Kind.RELEASE)
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
    stream = np.full(len(born), -1, np.int64) if log.stream is None else log.stream[born]
    return _Chunks(addr, size, born, dead, stream, log.addr[rest], log.size[rest], rest)


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
    """The last event of each chunk: its RESERVE, or the last ALLOC or FREE of a block in it, int64.

    An address belongs to the chunk that was reserved over it last.
    """
    addr, size = log.addr[born], log.size[born].astype(np.uint64)
    edges = np.unique(np.concatenate((addr, addr + size)))
    first, last = np.searchsorted(edges, addr), np.searchsorted(edges, addr + size)
    # A row for each chunk and stretch between two edges that it covers, by stretch and then by event.
    chunk = np.repeat(np.arange(len(born)), last - first)
    starts = np.cumsum(last - first) - (last - first)
    stretch = np.arange(len(chunk)) - np.repeat(starts - first, last - first)
    events = np.int64(len(log) + 1)
    key = stretch * events + born[chunk]
    order = np.argsort(key)
    key, chunk, stretch = key[order], chunk[order], stretch[order]
    allocs = np.flatnonzero(log.kind == Kind.ALLOC)
    of_alloc = np.searchsorted(edges, log.addr[allocs], "right") - 1
    row = np.searchsorted(key, of_alloc * events + allocs) - 1
    known = np.flatnonzero((row >= 0) & (of_alloc >= 0))
    known = known[stretch[row[known]] == of_alloc[known]]
    free = until(log.lifetimes.partner)[allocs[known]].astype(np.int64, copy=False)
    used = born.copy()
    # A block that is never freed keeps its chunk to the end.
    np.maximum.at(used, chunk[row[known]], np.where(free >= len(log), len(log), np.maximum(free, allocs[known])))
    return used


def _bins(moment: int, sizes: Ints) -> Iterator[GapBin]:
    """Gaps by power of two of their size, the smallest first."""
    power = np.frexp(sizes.astype(np.float64))[1] - 1
    power -= (np.int64(1) << power) > sizes  # rounded up to the next power as a float
    counts = np.bincount(power, minlength=1)
    for k in np.flatnonzero(counts).tolist():
        yield GapBin(moment, 1 << k, (2 << k) - 1, int(counts[k]), int(sizes[power == k].sum()))
