"""What a program asked of PyTorch's allocator, from a memory snapshot with its trace.

A block is given back at its ``free_completed``, which may come later than the ``free_requested`` where the FREE of the log stands: until then nothing else can
lie there.  What was live before the trace begins lies where it was; a large one of those may keep up to 1 MiB behind it that nobody asked for, and that no entry
tells of.  In the large pool every free block is larger than that, so what lies between such a block and the next one that is less far away is its own.

Segments that are given back are those of an ``empty_cache()`` or of a request that the device had refused.  The entries are the same; told apart are they by the call stack
(``empty_cache`` stands in it, or it is that of the request), else by what follows, and by whether a limit could have refused the request at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.allocators.history import (
    ChunkChange,
    ChunkChanges,
    NotReplayable,
    OpeningChunks,
    Operation,
    RequestHistory,
)
from memlens.allocators.torch.caching import LARGE_REST, SMALL, SMALL_SEGMENT, rounded, segment_bytes
from memlens.allocators.torch.settings import Configuration, recorded_values
from memlens.facts import DEFAULT_POOL, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

    Ints = NDArray[np.int64]

__all__ = ["request_histories"]

_LAYER = "torch_snapshot"
_RECORD = (
    "Record with torch.cuda.memory._record_memory_history() before the first tensor is made, and write with"
    " torch.cuda.memory._dump_snapshot(path) while it is on."
)
#: What an event is followed by at its own place: what is asked for or given back there; what is given back later, by stream.
_HERE, _LATER, _STEPS = 1, 2, 4


def request_histories(log: EventLog) -> list[RequestHistory] | NotReplayable | None:
    """The requests of a memory snapshot; why it cannot be replayed; ``None`` for another input.

    There are two where it is not known whether segments were given back because the device refused a request: as if it did, and as if it did not.
    """
    if log.facts.layer != _LAYER:
        return None
    missing = _missing(log)
    if missing is not None:
        return missing
    reader, found = _Reader(log), []
    for refused in (True, False):
        history = reader.history(refused=refused)
        if isinstance(history, NotReplayable):
            return history
        found.append(history)
        if not reader.unclear:
            break
    return found


def _missing(log: EventLog) -> NotReplayable | None:
    facts = log.facts
    if log.condensed is not None:
        return NotReplayable("its events were not all kept")
    if not (log.kind[facts.opening :] == Kind.ALLOC).any():
        return NotReplayable("it has no trace of requests, only what the device held at its end", _RECORD)
    if facts.malformed:
        return NotReplayable(f"{facts.malformed:,} of its entries cannot be read, and a request may be among them")
    if "mixed_segments" in facts.hints:
        return NotReplayable("some of its segments are expandable, and others are not")
    if len(log.lifetimes.double_allocs):
        return NotReplayable("an address is allocated twice in it: entries are missing")
    return None


class _Lives(NamedTuple):
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


class _Reader:
    def __init__(self, log: EventLog) -> None:
        self.log, self.opening = log, log.facts.opening
        self.conf = Configuration.of(recorded_values(log.facts.settings))
        events = len(log)
        self.streams, stream = np.unique(
            np.full(events, -1, np.int64) if log.stream is None else log.stream, return_inverse=True
        )
        self.stream = stream.astype(np.int32)
        names = {name: number for number, name in enumerate(dict.fromkeys((DEFAULT_POOL, *log.pool_names)))}
        numbers = np.array([names[name] for name in log.pool_names] + [0], np.int32)
        self.pool = np.zeros(events, np.int32) if log.pool is None else numbers[log.pool]
        #: Whether it is not known of some segments why they were given back.
        self.unclear = False

    def history(self, *, refused: bool) -> RequestHistory | NotReplayable:
        """The history; ``refused``: so the device did wherever it may have."""
        log, opening = self.log, self.opening
        lives = self.lives()
        chunk_events = np.flatnonzero(log.kind >= Kind.RESERVE)
        trims, of_request = self.released(refused=refused)
        failed = self.failures()
        # Operations by their places: what was there, requests, frees, what failed, what was trimmed.
        before = lives.alloc < opening
        order = np.lexsort((lives.addr, ~before))
        lives = _Lives(*(column[order] for column in lives))
        before = before[order]
        live, gone = len(before), np.flatnonzero(lives.last >= 0)
        place = np.concatenate(
            (
                np.where(before, -1, lives.alloc * _STEPS + _HERE),
                lives.last[gone] * _STEPS + np.where(lives.last[gone] == lives.free[gone], _HERE, _LATER),
                failed * _STEPS,
                trims * _STEPS + _HERE,
            )
        )
        counts = (live, len(gone), len(failed), len(trims))
        kind = np.repeat(
            np.array([Operation.REQUEST, Operation.FREE, Operation.REQUEST, Operation.TRIM], np.int8), counts
        )
        order = np.argsort(place, kind="stable")
        index = np.empty(len(order), np.int64)
        index[order] = np.arange(len(order))
        ooms = log.facts.ooms
        numbers = {value: number for number, value in enumerate(self.streams.tolist())}
        on_stream = np.array([numbers.get(oom.stream, 0) for oom in ooms], np.int32)
        asked = np.array([oom.requested_bytes or 1 for oom in ooms], np.int64)
        owner = np.where(lives.alloc >= 0, lives.alloc, 0)
        none, unknown = np.zeros(len(trims), np.int32), np.full(len(trims), -1, np.int64)
        columns = (
            (lives.addr, np.zeros(len(gone) + len(failed) + len(trims), np.uint64)),
            (lives.size, np.zeros(len(gone), np.int64), asked, unknown * 0),
            (self.stream[owner], self.stream[owner][gone], on_stream, none),
            (self.pool[owner], self.pool[owner][gone], on_stream * 0, none),
            (np.where(before, -1, lives.alloc), lives.free[gone], np.full(len(failed), -1), unknown),
            (
                np.where(before, -1, log.offset[owner]),
                log.offset[lives.free[gone]] if len(log) else unknown,
                np.array([oom.offset for oom in ooms], np.int64),
                log.offset[trims],
            ),
        )
        address, size, stream, pool, event, line = (np.concatenate(parts)[order] for parts in columns)
        of = np.concatenate((np.full(live, -1), index[gone], np.full(len(failed) + len(trims), -1)))[order]
        opened = int(before.sum())
        occupied = np.full(len(order), -1, np.int64)
        chunks = self.opening_chunks(lives)
        occupied[:opened] = self.occupied(lives, opened, chunks)
        at = self.moments(chunk_events[chunk_events >= opening], of_request, trims, place[order], kind[order])
        outside = _outside(address[:opened], occupied[:opened], chunks)
        if outside:
            return NotReplayable(f"{outside:,} of its blocks lie in none of its segments")
        changes = self.changes(chunk_events[chunk_events >= opening], at)
        chunks = self.with_ranges(chunks, changes, size, stream, pool)
        return RequestHistory(
            kind[order],
            of,
            size,
            stream,
            pool,
            event,
            line,
            address,
            occupied,
            opened,
            chunks,
            np.sort(index[live + len(gone) : live + len(gone) + len(failed)]),
            changes,
            log.facts.settings,
            self.limit(changes, failed),
        )

    def lives(self) -> _Lives:
        """All blocks, those among them that were given back before the trace and can be used again only in it."""
        log = self.log
        partner = log.lifetimes.partner
        alloc = np.flatnonzero(log.kind == Kind.ALLOC)
        free = partner[alloc].astype(np.int64)
        kept, last, last_known = np.zeros(len(alloc), np.int64), free.copy(), log.facts.kept
        addr, size = log.addr[alloc], log.size[alloc]
        if last_known is None:
            return _Lives(alloc, free, addr, size, kept, last)
        # Of those before the trace an address is given once, of the others the ALLOC.
        early = np.flatnonzero(last_known.born < self.opening)
        before = np.flatnonzero(alloc < self.opening)
        by_address = before[np.argsort(addr[before], kind="stable")]
        found = np.searchsorted(addr[by_address], last_known.addr[early])
        same = np.append(addr[by_address], np.uint64(0))[found] == last_known.addr[early] if len(early) else early > 0
        same &= found < len(by_address)
        later = np.flatnonzero(last_known.born >= self.opening)
        rows = np.concatenate((early[same], later))
        block = np.concatenate((by_address[found[same]], np.searchsorted(alloc, last_known.born[later])))
        kept[block] = last_known.size[rows]
        waits = (free[block] >= 0) & (last_known.last[rows] > free[block])
        last[block[waits]] = last_known.last[rows][waits]
        waiting = early[~same]
        unknown = np.full(len(waiting), -1, np.int64)
        lives = _Lives(
            np.concatenate((unknown, alloc)),
            np.concatenate((unknown, free)),
            np.concatenate((last_known.addr[waiting], addr)),
            np.concatenate((last_known.size[waiting], size)),
            np.concatenate((last_known.size[waiting], kept)),
            np.concatenate((last_known.last[waiting], last)),
        )
        return lives._replace(last=np.where(lives.last >= len(log), -1, lives.last))

    def occupied(self, lives: _Lives, opened: int, chunks: OpeningChunks) -> Ints:
        """What blocks from before the trace occupy.

        A large one keeps what lies between it and the nearest block that is ever allocated behind it while it is there, if that is not more than 1 MiB.
        """
        size = np.maximum(rounded(lives.size[:opened], self.conf.divisions), lives.kept[:opened])
        if self.conf.expandable or self.log.facts.chunks_join:
            return size
        large = np.flatnonzero((size > SMALL) & (lives.kept[:opened] == 0))
        end = lives.addr[large] + size[large].astype(np.uint64)
        until = np.where(lives.last[large] < 0, len(self.log), lives.last[large])
        born = np.where(np.arange(len(lives.alloc)) < opened, -1, lives.alloc)
        order = np.lexsort((born, lives.addr))
        places, begins = lives.addr[order], born[order]
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
            size = np.where(inside & (size >= self.conf.max_split), whole, size)
            size = np.where(inside, np.minimum(size, whole), size)
        return size

    def opening_chunks(self, lives: _Lives) -> OpeningChunks:
        """The segments that were there before the trace, by address."""
        log = self.log
        rows = np.flatnonzero(log.kind[: self.opening] == Kind.RESERVE)
        rows = rows[np.argsort(log.addr[rows], kind="stable")]
        addr, size, stream, pool = log.addr[rows], log.size[rows], self.stream[rows], self.pool[rows]
        if not log.facts.chunks_join or not len(rows):
            return OpeningChunks(addr, size, stream, pool, np.zeros(len(rows), np.int64))
        # What is mapped side by side is one piece.
        fresh = np.append(True, addr[1:] != addr[:-1] + size[:-1].astype(np.uint64))
        fresh[1:] |= (stream[1:] != stream[:-1]) | (pool[1:] != pool[:-1])
        first = np.flatnonzero(fresh)
        addr, size, stream, pool = addr[first], np.add.reduceat(size, first), stream[first], pool[first]
        # A block of more than 1 MiB lies in a large one, a smaller one in a small one; where there is none the size may tell.
        piece = np.maximum(np.searchsorted(addr, lives.addr, "right") - 1, 0)
        inside = (lives.addr >= addr[piece]) & (lives.addr - addr[piece] < size[piece].astype(np.uint64))
        block = np.full(len(addr), -1, np.int64)
        block[piece[inside][::-1]] = rounded(lives.size[inside], self.conf.divisions)[::-1]
        small = np.where(block >= 0, block <= SMALL, size % self.conf.large_segment != 0)
        return OpeningChunks(addr, size, stream, pool, np.where(small, SMALL_SEGMENT, self.conf.large_segment))

    def with_ranges(
        self, chunks: OpeningChunks, changes: ChunkChanges, size: Ints, *of: NDArray[np.int32]
    ) -> OpeningChunks:
        """The opening chunks, and where a range of addresses begins of which the first pages were not mapped then, as far as they are later."""
        mapped = np.flatnonzero(changes.kind == ChunkChange.MAPPED)
        if not len(mapped) or not len(chunks.addr):
            return chunks
        small = rounded(size[changes.at[mapped]], self.conf.divisions) <= SMALL
        page = np.where(small, SMALL_SEGMENT, self.conf.large_segment)
        stream, pool = (column[changes.at[mapped]] for column in of)
        later = OpeningChunks(changes.addr[mapped], np.zeros(len(mapped), np.int64), stream, pool, page)
        both = OpeningChunks(*(np.concatenate(pair) for pair in zip(chunks, later, strict=True)))
        is_later = np.arange(len(both.addr)) >= len(chunks.addr)
        order = np.lexsort((is_later, both.addr))
        key = np.stack((both.stream, both.pool, both.page))[:, order]
        begins = np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0))
        run = np.cumsum(begins) - 1
        there = np.zeros(int(run[-1]) + 1, np.bool_)
        there[run[~is_later[order]]] = True
        rows = order[begins & there[run] & is_later[order]]
        found = OpeningChunks(*(np.concatenate((column[rows], own)) for column, own in zip(both, chunks, strict=True)))
        return OpeningChunks(*(column[np.argsort(found.addr, kind="stable")] for column in found))

    def failures(self) -> Ints:
        """For each out-of-memory entry the first event after it."""
        offsets = np.array([oom.offset for oom in self.log.facts.ooms], np.int64)
        return self.opening + np.searchsorted(self.log.offset[self.opening :], offsets, "right")

    def released(self, *, refused: bool) -> tuple[Ints, Ints]:
        """Events at which the cache was emptied, and the RELEASE events that are of a request, int64, rising."""
        log = self.log
        releases = np.flatnonzero(log.kind == Kind.RELEASE)
        if not len(releases):
            return releases, releases
        # What follows a RELEASE: the first event that is none, or a request that failed.
        others = np.flatnonzero(log.kind != Kind.RELEASE)
        following = np.append(others, len(log))[np.searchsorted(others, releases)]
        failed = self.failures()
        fails = np.isin(following, failed)
        kind = np.append(log.kind, np.int8(-1))
        grows = kind[following] == Kind.RESERVE
        allocs = np.flatnonzero(log.kind == Kind.ALLOC)
        request = np.append(allocs, len(log))[np.searchsorted(allocs, following)]
        stack = log.source.stack_numbers(log.offset[releases])
        trim, ours = np.zeros(len(releases), np.bool_), np.zeros(len(releases), np.bool_)
        if stack is not None:
            of_request = np.full(len(releases), -2, np.int32)
            is_there = request < len(log)
            of_request[is_there] = log.source.stack_numbers(log.offset[request[is_there]])
            ours = (stack >= 0) & (stack == of_request)
            numbers, first = np.unique(stack, return_index=True)
            emptied = [
                number
                for number, row in zip(numbers.tolist(), first.tolist(), strict=True)
                if any(
                    "empty_cache" in frame or "emptyCache" in frame
                    for frame in log.source.stack(int(log.offset[releases[row]]))
                )
            ]
            trim = np.isin(stack, emptied)
        # By what follows: a segment is asked for at once, or the request fails; and a limit could have refused it.
        level = _reserved(log)
        run_start = releases[np.flatnonzero(np.append(True, np.diff(following) != 0))]
        start = run_start[np.searchsorted(run_start, releases, "right") - 1]
        growth = np.where(grows, np.append(log.size, 0)[following], 0)
        maybe = grows & (level[start] + growth > level.max(initial=0))
        self.unclear |= bool((maybe & ~trim & ~ours & ~fails).any())
        trim |= ~ours & ~fails & ~(maybe & refused)
        fresh = trim & np.append(True, ~trim[:-1] | (np.diff(following) != 0))
        return releases[fresh], releases[~trim]

    def moments(self, events: Ints, of_request: Ints, trims: Ints, place: Ints, kind: NDArray[np.int8]) -> Ints:
        """During which operation each chunk event happened: those of requests before theirs, others at the emptying of the cache."""
        request_places = np.flatnonzero(kind == Operation.REQUEST)
        following = request_places[
            np.minimum(np.searchsorted(place[request_places], events * _STEPS + _HERE), len(request_places) - 1)
        ]
        trimmed = (self.log.kind[events] == Kind.RELEASE) & ~np.isin(events, of_request)
        if not trimmed.any():
            return following
        trim_places = np.flatnonzero(kind == Operation.TRIM)
        latest = trim_places[np.maximum(np.searchsorted(place[trim_places], events * _STEPS + _HERE, "right") - 1, 0)]
        return np.where(trimmed, latest, following)

    def changes(self, events: Ints, at: Ints) -> ChunkChanges:
        """What happened to chunks."""
        log = self.log
        taken = log.kind[events] == Kind.RESERVE
        parts = 2 if log.facts.chunks_join else 0
        kind = np.where(taken, ChunkChange.TAKEN, ChunkChange.GIVEN_BACK) + parts
        return ChunkChanges(at, kind.astype(np.int8), log.addr[events], log.size[events])

    def limit(self, changes: ChunkChanges, failed: Ints) -> int | None:
        """Where the device refused more; ``None`` where it refused nothing.

        What was reserved and what the device had left when a request failed.  Where that is not known (it had enough: a share of it was all that the process might
        have; or no request failed, and the device refused one until others were given back) the most that was ever reserved, with which all comes out as recorded.
        """
        log, level = self.log, _reserved(self.log)
        given_back = (changes.kind == ChunkChange.GIVEN_BACK) | (changes.kind == ChunkChange.UNMAPPED)
        # A request that took memory after it had given some back had been refused before.
        retried = ~given_back[1:] & given_back[:-1] & (changes.at[1:] == changes.at[:-1])
        if not len(failed) and not retried.any():
            return None
        known, page = [], self.conf.large_segment
        for oom, event in zip(log.facts.ooms, failed.tolist(), strict=True):
            if oom.free_bytes is None or oom.requested_bytes is None:
                continue
            asked = np.array([oom.requested_bytes])
            growth = -(-asked // page) * page if log.facts.chunks_join else segment_bytes(asked, page)
            if oom.free_bytes < growth[0]:
                known.append(int(level[event]) + oom.free_bytes)
        return max(min(known, default=0), int(level.max()))


def _reserved(log: EventLog) -> Ints:
    """Bytes reserved before each event, and after the last one, int64."""
    signed = np.where(log.kind == Kind.RESERVE, log.size, np.where(log.kind == Kind.RELEASE, -log.size, 0))
    return np.append(0, np.cumsum(signed))


def _outside(addr: NDArray[np.uint64], size: Ints, chunks: OpeningChunks) -> int:
    """How many blocks do not lie in a chunk."""
    if not len(chunks.addr):
        return len(addr)
    piece = np.searchsorted(chunks.addr, addr, "right") - 1
    ends = (chunks.addr + chunks.size.astype(np.uint64))[piece]
    return int(((piece < 0) | (addr + size.astype(np.uint64) > ends)).sum())
