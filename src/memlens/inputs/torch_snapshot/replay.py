"""Events of one device of a memory snapshot, with exact levels from the first one on.

A snapshot says what the device holds when it is taken, and what happened before, back to where the recording began or the ring buffer
was cut.  What the device held at that point follows from the two, address by address: a block whose first event is its FREE was there, and so was
a block that holds something at the end and has no event.  Such blocks, and the segments that they lie in, become *opening* events, so that
running sums that start from 0 are right.

**When a block is given back.**  torch writes two entries: ``free_requested``, when the tensor lets go of the block and
``torch.cuda.memory_allocated()`` drops, and ``free_completed``, when the block can be used again.  As a rule the second follows at once, and the FREE stands there.
Where a block was used on another stream (``record_stream``) it comes later, in the middle of an unrelated allocation; the FREE then stands at the
request, and :attr:`DeviceEvents.deferred` tells of it.  So allocated bytes are those that torch counts, at all times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import DEFAULT_POOL, Kind
from memlens.inputs.torch_snapshot.entries import Action, Entries
from memlens.inputs.torch_snapshot.instructions import BadPickle
from memlens.inputs.torch_snapshot.segments import Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.inputs.torch_snapshot.segments import Final

    Ints = NDArray[np.int64]

__all__ = ["DeviceEvents", "events_of", "pool_name", "pools_of"]

_GIVING_BACK = (Action.FREE_REQUESTED, Action.FREE_COMPLETED, Action.SEGMENT_FREE, Action.SEGMENT_UNMAP)
#: Sums beyond 4 EiB would leave the range of the columns.
_MOST_TOTAL = float(1 << 62)


@dataclass(frozen=True, eq=False)
class DeviceEvents:
    """Events of one device.

    Attributes:
        columns: The events, the opening ones first.
        opening: How many opening events there are.
        deferred: Index of the first entry that gives back a block which can be used again only later; ``None`` where none does.
        allocated: Bytes that the blocks hold at the end, by the segments and not by the events.
        reserved: Bytes of the segments at the end.
    """

    columns: Columns
    opening: int
    deferred: int | None
    allocated: int
    reserved: int


def events_of(entries: Entries, final: Final) -> DeviceEvents:
    """Events of one device.

    Args:
        entries: Its trace.
        final: What it holds at the end.

    Raises:
        BadPickle: Its sizes add up to more than 4 EiB.
    """
    total = sum(float(sizes.sum(dtype=np.float64)) for sizes in (entries.size, final.blocks.size, final.segments.size))
    if total > _MOST_TOTAL:
        raise BadPickle("its sizes add up to more than 4 EiB")
    if len(entries) == 1 and entries.action[0] in _GIVING_BACK:  # no history: the segments alone say what is held
        entries = replace(entries, action=np.array([Action.OTHER], np.int8))
    kind, requests, deferred = _kinds(entries)
    index = np.flatnonzero(kind >= 0)
    columns = (entries.size, entries.addr, np.arange(len(kind)), entries.stack, entries.stream, entries.pool)
    events = Columns(kind, *columns).at(index)
    held = ~final.waiting | (not requests)
    opening = _opening_segments(events, final).then(_opening_blocks(events, final, held))
    return DeviceEvents(
        opening.then(events),
        opening=len(opening.kind),
        deferred=deferred,
        allocated=int(final.blocks.size[held].sum()),
        reserved=int(final.segments.size.sum()),
    )


def _kinds(entries: Entries) -> tuple[NDArray[np.int8], bool, int | None]:
    """What each entry is.

    Returns:
        Its kind, -1 for no event; whether requests are recorded (without them a block is held until its free is completed); and the first
        request that is completed only later, ``None`` where none is.
    """
    action = entries.action
    kinds = np.full(len(action), -1, np.int8)
    kinds[(action == Action.SEGMENT_ALLOC) | (action == Action.SEGMENT_MAP)] = Kind.RESERVE
    kinds[(action == Action.SEGMENT_FREE) | (action == Action.SEGMENT_UNMAP)] = Kind.RELEASE
    kinds[action == Action.ALLOC] = Kind.ALLOC
    index = np.flatnonzero(action <= Action.FREE_COMPLETED)
    if not len(index):
        return kinds, True, None
    order = index[np.argsort(entries.addr[index], kind="stable")]  # by address, and within one in order
    kind, addr = action[order], entries.addr[order]
    request, complete = kind == Action.FREE_REQUESTED, kind == Action.FREE_COMPLETED
    # The entry of the same address before: whether there is one, and what it is.
    after_any = np.append(False, addr[1:] == addr[:-1])
    after_request = after_any & np.append(False, request[:-1])
    after_alloc = after_any & np.append(False, kind[:-1] == Action.ALLOC)
    completed = complete & after_request
    at_once = completed & np.append(False, order[1:] == order[:-1] + 1)
    # A recording may leave requests out; then the completion is all there is.
    without = bool((complete & after_alloc).any()) and not request.any()
    free = at_once | (request & ~np.append(at_once[1:], False)) | (complete & ~after_request)
    if not without:
        # The first thing heard of a block is that it can be used again: it was given back before the trace begins.
        free &= ~(complete & ~after_any)
    kinds[order[free]] = Kind.FREE
    later = order[np.append((completed & ~at_once)[1:], False)]
    return kinds, not without, int(later.min()) if len(later) else None


def _opening_blocks(events: Columns, final: Final, held: NDArray[np.bool_]) -> Columns:
    """The blocks that were allocated before the trace begins, by address; ``held`` are those that are held at the end."""
    blocks = np.flatnonzero(events.kind <= Kind.FREE)
    addr, first = np.unique(events.addr[blocks], return_index=True)
    first = blocks[first]
    freed = events.at(first[events.kind[first] == Kind.FREE])
    # What asked for a block that is freed is not known: its FREE has the stack that freed it, or so it may be.
    unknown = np.full(len(freed.kind), -1, np.int32)
    freed = freed._replace(
        kind=np.full(len(unknown), Kind.ALLOC, np.int8), entry=unknown.astype(np.int64), stack=unknown
    )
    # What was allocated last and has no event since was there all the time.
    untouched = final.blocks.at(held & ~np.isin(final.blocks.addr, addr))
    opening = freed.then(untouched)
    return opening.at(np.argsort(opening.addr, kind="stable"))


def _opening_segments(events: Columns, final: Final) -> Columns:
    """The stretches of memory that were reserved before the trace begins.

    Each address counts how often it is reserved: once more for a segment at the end, once less for an entry that reserved it, once more for one that
    released it.  Where that leaves a 1, the address was reserved at the start.  Parts of a segment may be mapped and unmapped, so
    stretches and not segments are counted.
    """
    changes, releases = events.at(events.kind >= Kind.RESERVE), events.at(events.kind == Kind.RELEASE)
    both = final.segments.then(changes)
    counts = np.where(np.append(final.segments.entry, changes.kind) == Kind.RESERVE, -1, 1)
    begins, sizes = both.addr, both.size
    fits = sizes.astype(np.uint64) <= ~begins  # what would go beyond the last address
    begins, sizes, counts = begins[fits], sizes[fits], counts[fits]
    edges = np.concatenate((begins, begins + sizes.astype(np.uint64)))
    bounds, bound = np.unique(edges, return_inverse=True)
    change = np.zeros(len(bounds), np.int64)
    np.add.at(change, bound, np.concatenate((counts, -counts)))
    level = np.cumsum(change)
    # Two segments side by side stay two.
    kept = np.zeros(len(bounds), np.bool_)
    kept[bound[: len(begins)][counts > 0]] = True
    kept |= change != 0
    bounds, level = bounds[kept], level[kept]
    length = np.diff(bounds).astype(np.int64)
    held = np.flatnonzero((level[:-1] > 0) & (length > 0))
    size, addr = length[held] * level[:-1][held], bounds[:-1][held]
    unknown = np.full(len(held), -1, np.int64)
    stream, pool = unknown.copy(), unknown.astype(np.int32)
    # What ends a stretch is of its segment: the first entry that releases it, or else the segment that is there at the end.
    for ends in (final.segments, releases):
        known, number = _covering(addr, ends.addr, ends.size)
        stream[known], pool[known] = ends.stream[number], ends.pool[number]
    return Columns(
        np.full(len(held), Kind.RESERVE, np.int8), size, addr, unknown, unknown.astype(np.int32), stream, pool
    )


def _covering(addr: NDArray[np.uint64], begin: NDArray[np.uint64], size: Ints) -> tuple[Ints, Ints]:
    """Which addresses lie in a stretch, and in which one: of those that begin nearest before it the first."""
    order = np.argsort(begin, kind="stable")
    found = begin[order].searchsorted(addr, "right") - 1
    asked = np.flatnonzero(found >= 0)
    number = order[begin[order].searchsorted(begin[order][found[asked]])]
    holds = addr[asked] - begin[number] < size[number].astype(np.uint64)
    return asked[holds], number[holds]


def pools_of(events: Columns, entries: Entries, final: Final, pools: Sequence[tuple[int, int]]) -> NDArray[np.int32]:
    """Which memory pool each event is of: the default one, or a private one (CUDA graphs, ``torch.cuda.MemPool``).

    Memory that is free in one pool serves no other.  The newest torch names the pool with each entry.  Before that only the segments that are
    there at the end name theirs: an event that lies in one of them is of its pool, unless it comes before the entry that allocated this very segment.
    Of what lay in a segment that is gone at the end the pool is not known.

    Args:
        events: The events of a device.
        entries: Its trace.
        final: Its state at the end.
        pools: The pools that entries and segments have numbers of, as torch names them.

    Returns:
        Their numbers, int32, -1 where unknown; -1 for all where there is no private pool.
    """
    private = [number for number, pool in enumerate(pools) if pool != (0, 0)]
    if not (np.isin(entries.pool, private).any() or np.isin(final.segments.pool, private).any()):
        return np.full(len(events.addr), -1, np.int32)
    return np.where(events.pool >= 0, events.pool, _by_segment(events, entries, final))


def pool_name(pool: tuple[int, int]) -> str:
    """What people call a pool."""
    return DEFAULT_POOL if pool == (0, 0) else f"private pool ({pool[0]}, {pool[1]})"


def _by_segment(events: Columns, entries: Entries, final: Final) -> NDArray[np.int32]:
    """The pools of the segments, at the end, that the events lie in, int32, -1 where that is not known."""
    segments = final.segments.at(np.argsort(final.segments.addr, kind="stable"))
    begin, size = segments.addr, segments.size.astype(np.uint64)
    if not len(begin):
        return np.full(len(events.addr), -1, np.int32)
    # The last entry that allocated each segment, -1 where it was there before the trace.
    since = np.full(len(begin), -1, np.int64)
    allocs = np.flatnonzero(entries.action == Action.SEGMENT_ALLOC)
    at = np.minimum(begin.searchsorted(entries.addr[allocs]), len(begin) - 1)
    same = begin[at] == entries.addr[allocs]
    np.maximum.at(since, at[same], allocs[same])
    at_or_before = begin.searchsorted(events.addr, "right").astype(np.int64) - 1
    segment = np.maximum(at_or_before, 0)
    within = (at_or_before >= 0) & (events.addr - begin[segment] < size[segment]) & (events.entry >= since[segment])
    return np.where(within, segments.pool[segment], -1).astype(np.int32)
