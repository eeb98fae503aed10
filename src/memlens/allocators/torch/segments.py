"""The segments and blocks of a memory snapshot: those from before its trace, from when to when they are there, and why segments went.

Segments that are given back are those of an ``empty_cache()`` or of a request that the device had refused.  The entries are the same; told apart are they by the call
stack (``empty_cache`` stands in it, or it is that of the request), else by what follows, and by whether a limit could have refused the request at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlens.allocators.history import ChunkChange, ChunkChanges, OpeningChunks
from memlens.allocators.torch.settings import LARGE_REST, SMALL, SMALL_SEGMENT, rounded, segment_bytes
from memlens.facts import Kind
from memlens.inputs.torch_snapshot.retained import behind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.torch.settings import Configuration
    from memlens.columns import Ints
    from memlens.events import EventLog


#: What the stack of one who empties the cache has.
_EMPTIES = re.compile("empty_cache|emptyCache").search
#: Of more segments than this what is not known is not looked for.
_MOST_UNKNOWN = 100


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
    held = last_known.size[waiting]
    gone = Lives(unknown, unknown, last_known.addr[waiting], held, held, last_known.last[waiting])
    columns: Any = zip(gone, (alloc, free, addr, size, kept, last), strict=True)
    lives = Lives(*map(np.concatenate, columns))
    return lives._replace(last=np.where(lives.last >= len(log), -1, lives.last))


def opening_block_bytes(log: EventLog, conf: Configuration, lives: Lives, opened: int, chunks: OpeningChunks) -> Ints:
    """Return the bytes of blocks from before the trace, with what they keep, int64.

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
    rest = behind((end, until), (lives.addr, born, np.full(len(born), len(log))))
    size[large] += np.where(rest < LARGE_REST, rest, 0)
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


def opening_chunks(
    log: EventLog, conf: Configuration, lives: Lives, stream: NDArray[np.int32], pool: NDArray[np.int32]
) -> OpeningChunks:
    """The segments that were there before the trace, by address; ``stream`` and ``pool`` are those of the events."""
    rows = np.flatnonzero(log.kind[: log.facts.opening] == Kind.RESERVE)
    rows = rows[np.argsort(log.addr[rows], kind="stable")]
    addr, size, stream, pool = log.addr[rows], log.size[rows], _known(log, rows, stream), pool[rows]
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
    block[piece[inside][::-1]] = rounded(lives.size[inside], conf.divisions)[::-1]
    small = np.where(block >= 0, block <= SMALL, size % conf.large_segment != 0)
    return OpeningChunks(addr, size, stream, pool, np.where(small, SMALL_SEGMENT, conf.large_segment))


def _known(log: EventLog, rows: Ints, stream: NDArray[np.int32]) -> NDArray[np.int32]:
    """The streams of segments; where the log does not say it, that of the first event that lies in the segment, or in which it lies."""
    found = stream[rows]
    unknown = np.flatnonzero(log.stream[rows] < 0) if log.stream is not None else rows[:0]
    for number in unknown[:_MOST_UNKNOWN].tolist():
        begin, size = log.addr[rows[number]], log.size[rows[number]]
        later = slice(log.facts.opening, None)
        starts, sizes = log.addr[later], log.size[later].astype(np.uint64)
        touches = (starts < begin + np.uint64(size)) & (starts + sizes > begin)
        if touches.any():
            found[number] = stream[log.facts.opening + int(touches.argmax())]
    return found


def with_ranges(
    conf: Configuration, chunks: OpeningChunks, changes: ChunkChanges, size: Ints, *of: NDArray[np.int32]
) -> OpeningChunks:
    """The opening chunks, and where a range of addresses begins of which the first pages were not mapped then, as far as they are later.

    Args:
        conf: The settings of the run.
        chunks: What is mapped at the beginning.
        changes: What is mapped later.
        size: What each operation asked for.
        of: Stream and pool of each operation.
    """
    mapped = np.flatnonzero(changes.kind == ChunkChange.MAPPED)
    if not len(mapped) or not len(chunks.addr):
        return chunks
    small = rounded(size[changes.at[mapped]], conf.divisions) <= SMALL
    page = np.where(small, SMALL_SEGMENT, conf.large_segment)
    stream, pool = (column[changes.at[mapped]] for column in of)
    later = OpeningChunks(changes.addr[mapped], np.zeros(len(mapped), np.int64), stream, pool, page)
    both = chunks.then(later)
    is_later = np.arange(len(both.addr)) >= len(chunks.addr)
    order = np.lexsort((is_later, both.addr))
    key = np.stack((both.stream, both.pool, both.page))[:, order]
    begins = np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0))
    run = np.cumsum(begins) - 1
    there = np.zeros(int(run[-1]) + 1, np.bool_)
    there[run[~is_later[order]]] = True
    rows = order[begins & there[run] & is_later[order]]
    found = both.at(rows).then(chunks)
    return found.at(np.argsort(found.addr, kind="stable"))


def failures(log: EventLog) -> Ints:
    """For each out-of-memory entry the first event after it."""
    offsets = np.array([oom.offset for oom in log.facts.ooms], np.int64)
    return log.facts.opening + np.searchsorted(log.offset[log.facts.opening :], offsets, "right")


def released(log: EventLog, *, refused: bool) -> tuple[Ints, Ints, bool]:
    """Events at which the cache was emptied, and the RELEASE events that are of a request, int64, rising; and whether that is a guess of some.

    Args:
        log: The log.
        refused: Where the device may have refused a request it did.
    """
    releases = np.flatnonzero(log.kind == Kind.RELEASE)
    if not len(releases):
        return releases, releases, False
    # What follows a RELEASE: the first event that is none, or a request that failed.
    others = np.flatnonzero(log.kind != Kind.RELEASE)
    following = np.append(others, len(log))[np.searchsorted(others, releases)]
    failed = failures(log)
    fails = np.isin(following, failed)
    kind = np.append(log.kind, np.int8(-1))
    grows = kind[following] == Kind.RESERVE
    allocs = np.flatnonzero(log.kind == Kind.ALLOC)
    request = np.append(allocs, len(log))[np.searchsorted(allocs, following)]
    stack, of_requests = (
        log.source.stack_numbers(log.offset[rows]) for rows in (releases, request[request < len(log)])
    )
    trim, ours = np.zeros(len(releases), np.bool_), np.zeros(len(releases), np.bool_)
    if stack is not None and of_requests is not None:
        of_request = np.full(len(releases), -2, np.int32)
        of_request[request < len(log)] = of_requests
        ours = (stack >= 0) & (stack == of_request)
        numbers, first = np.unique(stack, return_index=True)
        stacks = (log.source.stack(offset) for offset in log.offset[releases[first]].tolist())
        emptied = [one for one, frames in zip(numbers.tolist(), stacks, strict=True) if any(map(_EMPTIES, frames))]
        trim = np.isin(stack, emptied)
    # By what follows: a segment is asked for at once, or the request fails; and a limit could have refused it.
    level = reserved_before(log)
    run_start = releases[np.flatnonzero(np.append(True, np.diff(following) != 0))]
    start = run_start[np.searchsorted(run_start, releases, "right") - 1]
    growth = np.where(grows, np.append(log.size, 0)[following], 0)
    maybe = grows & (level[start] + growth > level.max(initial=0))
    unclear = bool((maybe & ~trim & ~ours & ~fails).any())
    trim |= ~ours & ~fails & ~(maybe & refused)
    fresh = trim & np.append(True, ~trim[:-1] | (np.diff(following) != 0))
    return releases[fresh], releases[~trim], unclear


def changes_of(log: EventLog, events: Ints, at: Ints) -> ChunkChanges:
    """Return the changes of chunks by some events, during these operations."""
    taken = log.kind[events] == Kind.RESERVE
    parts = 2 if log.facts.chunks_join else 0
    kind = np.where(taken, ChunkChange.TAKEN, ChunkChange.GIVEN_BACK) + parts
    return ChunkChanges(at, kind.astype(np.int8), log.addr[events], log.size[events])


def limit_of(log: EventLog, conf: Configuration, changes: ChunkChanges) -> int | None:
    """Where the device refused more; ``None`` where it refused nothing.

    What was reserved and what the device had left when a request failed.  Where that is not known (it had enough: a share of it was all that the process might
    have; or no request failed, and the device refused one until others were given back) the most that was ever reserved, with which all comes out as recorded.
    """
    level, failed = reserved_before(log), failures(log)
    given_back = (changes.kind == ChunkChange.GIVEN_BACK) | (changes.kind == ChunkChange.UNMAPPED)
    # A request that took memory after it had given some back had been refused before.
    retried = ~given_back[1:] & given_back[:-1] & (changes.at[1:] == changes.at[:-1])
    if not len(failed) and (conf.collect_share or not retried.any()):
        return None
    known, page = [], conf.large_segment
    for oom, event in zip(log.facts.ooms, failed.tolist(), strict=True):
        if oom.free_bytes is None or oom.requested_bytes is None:
            continue
        asked = np.array([oom.requested_bytes])
        growth = -(-asked // page) * page if log.facts.chunks_join else segment_bytes(asked, page)
        if oom.free_bytes < growth[0]:
            known.append(int(level[event]) + oom.free_bytes)
    return max(min(known, default=0), int(level.max()))


def reserved_before(log: EventLog) -> Ints:
    """Bytes reserved before each event, and after the last one, int64."""
    signed = np.where(log.kind == Kind.RESERVE, log.size, np.where(log.kind == Kind.RELEASE, -log.size, 0))
    return np.append(0, np.cumsum(signed))
