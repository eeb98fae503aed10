"""Allocated and free bytes inside the device's chunks, at the moments that matter.

Sums tell how much of what is reserved holds no block.  Whether a further allocation fits into that is a question of addresses: chunks and
blocks are intervals, and a *gap* is a longest stretch of a chunk that no live block covers.  Gaps of two chunks never join, for no
allocator serves a block across them, but for chunks that the input says are mapped side by side (:attr:`Facts.chunks_join`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from msgspec import Struct

from memlens.analyzers.chunks import chunks_of, gaps_between, inside, occupied_before
from memlens.analyzers.fates import live_events
from memlens.analyzers.places import lines_of
from memlens.folding import levels_before, of_lists, peak_ends, power_of_two
from memlens.results import OnDemand, Result, Tables, deferred, lazy
from memlens.trust.failures import failures_in, refused_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.windows.windows import Window

    _OfChunks = tuple[int | None, int | None, int | None, int | None, int | None]


#: So many failures of a window are looked at.
FAILURES = 10
#: The figures of chunks where no address tells them.
_UNKNOWN: _OfChunks = (None, None, None, None, None)


class Moment(Result, frozen=True):
    """Reserved, allocated and free bytes at one moment.

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


class GapBin(Result, frozen=True):
    """Gaps of ``low_bytes`` to ``high_bytes`` (both included), a power of two wide.

    Attributes:
        moment: The row of ``moments`` that this is of, from 0.
    """

    moment: int
    low_bytes: int
    high_bytes: int
    gaps: int
    gap_bytes: int


class Pool(Result, frozen=True):
    """The chunks of one memory pool and one stream at a moment: what is free there serves no other.

    Attributes:
        moment: The row of ``moments`` that this is of, from 0.
        pool: The pool, ``None`` where the input does not report it, or reports no private one.
        stream: The stream, ``None`` where the input does not report it.
    """

    moment: int
    pool: str | None
    stream: int | None
    reserved_bytes: int
    allocated_bytes: int
    chunks: int
    gaps: int
    gap_bytes: int
    largest_gap_bytes: int


@lazy("moments", "histogram", "pools")
class Segments(Result, frozen=True):
    """Chunks and the gaps in them, at the peak, at the end, and at each out-of-memory failure of a window.

    Attributes:
        moments: The peak, the end, and then failures in order, :data:`FAILURES` at most; none where the input reports no chunk, or no block.
        histogram: The gaps of each moment by size.
        pools: The same figures by memory pool and stream, where the input has them: the largest reserved first.
    """

    tables: ClassVar[Tables] = {"moments": Moment, "histogram": GapBin, "pools": Pool}

    moments: tuple[Moment, ...] = ()
    histogram: tuple[GapBin, ...] = ()
    pools: tuple[Pool, ...] = ()


def segments(windows: Sequence[Window]) -> OnDemand[Segments]:
    """Analyze windows of one log; each moment is worked out when a table is asked for."""
    peaks = peak_ends(windows).tolist()
    tables = lru_cache(maxsize=1)(lambda k: _tables(windows[k], peaks[k]))

    def table(k: int, number: int) -> tuple[Any, ...]:
        return tables(k)[number]

    return of_lists(windows, lambda k: Segments(*(deferred(table, k, number) for number in range(3))))


def _tables(window: Window, peak: int) -> tuple[tuple[Moment, ...], tuple[GapBin, ...], tuple[Pool, ...]]:
    """The tables of one window, from one look at each of its moments; ``peak`` is the event after the one that reaches its peak."""
    log = window.log
    rows: list[Moment] = []
    bins: list[GapBin] = []
    pools: list[Pool] = []
    moments = list(_moments(window, peak)) if log.tells_of_chunks and log.tells_of_blocks else []
    stops = np.array([stop for _, stop, _, _ in moments], np.int64)
    levels = levels_before(log, stops)
    events = [stop - 1 if stop > log.facts.opening else None for stop in stops.tolist()]
    line_of = lines_of(log, events)
    for number, ((at, stop, message, requested), event) in enumerate(zip(moments, events, strict=True)):
        allocated, reserved = levels[number].tolist()
        found = layout_before(log, stop)
        of_chunks = _UNKNOWN if found is None else found.figures()
        free = None if of_chunks[-1] or reserved < allocated else reserved - allocated
        line = line_of(event) if message is None else message
        rows.append(Moment(at, event, line, reserved, allocated, free, *of_chunks, requested))
        if found is not None:
            bins.extend(_bins(number, found.gap_size))
            pools.extend(found.pools(number, log.pool_names))
    return tuple(rows), tuple(bins), tuple(pools)


def _moments(window: Window, peak: int) -> Iterator[tuple[str, int, int | None, int | None]]:
    """For each moment its name, the event before which it is, and of a failure its line and what was asked for."""
    yield "peak", peak, None, None
    yield "end", window.hi, None, None
    found = failures_in(window)
    stops = refused_before(window.log, found)[:FAILURES].tolist()
    for oom, stop in zip(found, stops, strict=False):
        yield "oom", stop, oom.line, oom.asked_bytes


class Layout(Struct, frozen=True, eq=False):
    """Chunks, blocks and gaps of one moment, one entry each; a chunk number of -1 is none.

    Attributes:
        chunk_addr: Where each chunk begins, rising, uint64.
        chunk_size: int64.
        chunk_place: The pool and the stream of each, -1 where unknown; two columns, int64.
        block_event: The ALLOC of each block, rising, int64.
        block_addr: uint64.
        block_size: int64.
        block_chunk: The number of the chunk that the block begins in, int64.
        gap_addr: Where each gap begins, rising, uint64.
        gap_size: int64.
        gap_chunk: The number of the chunk that the gap begins in, int64.
        reported: The input reports pools or streams.
    """

    chunk_addr: NDArray[np.uint64]
    chunk_size: Ints
    chunk_place: Ints
    block_event: Ints
    block_addr: NDArray[np.uint64]
    block_size: Ints
    block_chunk: Ints
    gap_addr: NDArray[np.uint64]
    gap_size: Ints
    gap_chunk: Ints
    reported: bool

    def figures(self) -> _OfChunks:
        """Chunks, gaps, their bytes, the largest gap, and bytes of blocks outside, in the order of :class:`Moment`."""
        outside = self.block_size[self.block_chunk < 0]
        return len(self.chunk_size), *_figures_of(self.gap_size), int(outside.sum())

    def idle(self) -> Ints:
        """The sizes of the chunks that nothing occupies, int64."""
        whole: Ints = self.gap_size[self.gap_size == self.chunk_size[self.gap_chunk]]
        return whole

    def pools(self, moment: int, names: Sequence[str]) -> Iterator[Pool]:
        """The figures by pool and stream, the largest reserved first; blocks outside of all chunks are in none."""
        if not self.reported:
            return
        found = []
        places, of_chunk = np.unique(self.chunk_place, axis=0, return_inverse=True)
        of_chunk = of_chunk.reshape(-1)
        inside = self.block_chunk >= 0
        of_block, of_gap = of_chunk[self.block_chunk[inside]], of_chunk[self.gap_chunk]
        for number, (pool, stream) in enumerate(places.tolist()):
            own = of_chunk == number
            place = None if pool < 0 else names[pool], None if stream < 0 else stream
            reserved, allocated = self.chunk_size[own].sum(), self.block_size[inside][of_block == number].sum()
            gaps = _figures_of(self.gap_size[of_gap == number])
            found.append(Pool(moment, *place, int(reserved), int(allocated), int(own.sum()), *gaps))
        yield from sorted(found, key=lambda pool: -pool.reserved_bytes)


def _figures_of(gaps: Ints) -> tuple[int, int, int]:
    """How many gaps, their bytes, and the largest of them."""
    return len(gaps), int(gaps.sum()), int(gaps.max(initial=0))


def layout_before(log: EventLog, stop: int) -> Layout | None:
    """Return the layout of chunks right before an event; ``None`` where the input does not report all addresses, or has chunks over each other."""
    chunks = chunks_of(log)
    if chunks is None:
        return None
    live = np.flatnonzero((chunks.born < stop) & (chunks.dead >= stop))
    live = live[np.argsort(chunks.addr[live], kind="stable")]
    addr, size = chunks.addr[live], chunks.size[live]
    away = chunks.unmapped_event < stop
    if away.any():  # of a chunk that is given back in parts the rest is what counts
        left, size = gaps_between((addr, size), unmapped=(chunks.unmapped_addr[away], chunks.unmapped_size[away]))
        live, addr = live[addr.searchsorted(left, "right") - 1], left
    if (np.diff(addr) < size[:-1].astype(np.uint64)).any():
        return None  # chunks of several processes, or a line that stands twice
    blocks = live_events(log, stop)
    block_addr, block_size = log.addr[blocks], log.size[blocks]
    gap_addr, gap_size = gaps_between((addr, size), occupied_before(log, stop, blocks), join=log.facts.chunks_join)
    block_chunk, gap_chunk = inside(block_addr, addr, size), inside(gap_addr, addr, size)
    pool = _known(chunks.pool[live], log.pool, blocks, block_chunk)
    stream = _known(chunks.stream[live], log.stream, blocks, block_chunk)
    place, told = np.column_stack((pool, stream)), log.pool is not None or log.stream is not None
    of = block_addr, block_size, block_chunk
    return Layout(addr, size, place, blocks, *of, gap_addr, gap_size, gap_chunk, told)


def _known(of_chunk: Ints, of_event: NDArray[Any] | None, blocks: Ints, block_chunk: Ints) -> Ints:
    """The pool or the stream of each chunk, -1 where unknown, int64: its own, or else what the blocks in it report."""
    if of_event is None:
        return of_chunk
    within = block_chunk >= 0
    known = np.full(len(of_chunk), -1, np.int64)
    np.maximum.at(known, block_chunk[within], of_event[blocks[within]])
    return np.where(of_chunk < 0, known, of_chunk)


def _bins(moment: int, sizes: Ints) -> Iterator[GapBin]:
    """Gaps by power of two of their size, the smallest first."""
    power = power_of_two(sizes)
    counts = np.bincount(power, minlength=1)
    for k in np.flatnonzero(counts).tolist():
        yield GapBin(moment, 1 << (k - 1), (1 << k) - 1, int(counts[k]), int(sizes[power == k].sum()))
