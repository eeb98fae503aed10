"""Events of one device of a memory snapshot, with exact levels from the first one on.

A snapshot says what the device holds when it is taken, and what happened before, back to where the recording began or the ring buffer was cut.  What the
device held at that point follows from the two, address by address: a block whose first event is its FREE was there, and so was a block that holds something
at the end and has no event.  Such blocks, and the segments that they lie in, become *opening* events, so that running sums that start from 0 are right.

**When a block is given back.**  torch writes two entries: ``free_requested``, when the tensor lets go of the block and ``torch.cuda.memory_allocated()``
drops, and ``free_completed``, when the block can be used again.  As a rule the second follows at once, and the FREE stands there. Where a block was used on
another stream (``record_stream``) it comes later, in the middle of an unrelated allocation; the FREE then stands at the request, and
:attr:`DeviceEvents.deferred` tells of it.  So allocated bytes are those that torch counts, at all times.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.facts import Kind, UnevenSegment
from memlens.inputs.holders import is_count
from memlens.inputs.torch_snapshot.entries import Action, Entries
from memlens.inputs.torch_snapshot.pickles import BadPickle
from memlens.inputs.torch_snapshot.stacks import ADDRESSES, MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.inputs.torch_snapshot.stacks import Tables


#: A device number beyond is none.
MOST_DEVICES = 1 << 10
#: A block's states that are not free; the last one is what torch's own description calls the second.
_HOLDING = ("active_allocated", "active_pending_free", "active_awaiting_free")
#: What a segment says of its blocks: bytes of those that are allocated; the same with those that wait; what was asked for.
_SUMS = ("allocated_size", "active_size", "requested_size")
_GIVING_BACK = (Action.FREE_REQUESTED, Action.FREE_COMPLETED, Action.SEGMENT_FREE, Action.SEGMENT_UNMAP)
#: Sums beyond 4 EiB would leave the range of the columns.
_MOST_TOTAL = float(1 << 62)


class Columns(NamedTuple):
    """Events as columns.

    Attributes:
        kind: :class:`~memlens.events.Kind`, int8.
        size: Bytes, int64: what the tensor asked for, and whole segments.
        addr: Address, uint64.
        entry: Index of the event's entry in the trace, int64, -1 for opening events.
        stack: Number of the call stack, int32, -1 where there is none.
        stream: Stream, int64, -1 where unknown.
        pool: Number of the memory pool that the trace or the segments name, int32, -1 where neither does.
    """

    kind: NDArray[np.int8]
    size: Ints
    addr: NDArray[np.uint64]
    entry: Ints
    stack: NDArray[np.int32]
    stream: Ints
    pool: NDArray[np.int32]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Columns:
        """Events that come one by one."""
        types = (np.int8, np.int64, np.uint64, np.int64, np.int32, np.int64, np.int32)
        columns: Any = [np.array([row[k] for row in rows], kind) for k, kind in enumerate(types)]
        return cls(*columns)

    def then(self, *others: Columns) -> Columns:
        """These events, and then others."""
        return Columns(*map(np.concatenate, zip(self, *others, strict=True)))

    def at(self, rows: Any) -> Columns:
        """Some of the events."""
        return Columns(*(column[rows] for column in self))


class Final(Struct, eq=False, dict=True):
    """The state of a device when the snapshot is taken.

    Attributes:
        segment_rows: Its segments, as RESERVE events.
        block_rows: Its blocks that are allocated or wait, as ALLOC events; their pool is that of their segment, and left out.
        waits, taken: Whether each block was given back and waits for a stream before it can be used again; what it occupies.
        malformed, uneven: Segments and blocks that cannot be read; segments whose blocks do not add up.
        expandable: Whether it has segments that are mapped in parts, and others.
    """

    segment_rows: list[tuple[int, ...]] = []
    block_rows: list[tuple[int, ...]] = []
    waits: list[bool] = []
    taken: list[int] = []
    malformed: int = 0
    uneven: list[UnevenSegment] = []
    expandable: set[bool] = set()

    @cached_property
    def segments(self) -> Columns:
        """Its segments."""
        return Columns.of(self.segment_rows)

    @cached_property
    def blocks(self) -> Columns:
        """Its blocks."""
        return Columns.of(self.block_rows)


def read_segments(segments: Any, tables: Tables) -> dict[int, Final]:
    """The state of each device that has a segment.

    Args:
        segments: The snapshot's list of segments, of any age: blocks without an address (2023) follow each other from the start of their segment.
        tables: Numbers stacks and pools.

    Raises:
        BadPickle: There is no such list, or it holds a segment twice.
    """
    if type(segments) is not list:
        raise BadPickle("its segments are no list")
    devices: dict[int, Final] = {}
    seen: set[int] = set()
    for segment in segments:
        number = None
        if type(segment) is dict:
            number, blocks = segment.get("device", 0), segment.get("blocks")
            if id(segment) in seen or (blocks and id(blocks) in seen):
                raise BadPickle("a segment, or its list of blocks, stands in it more than once", hostile=True)
            seen |= {id(segment), id(blocks)}
        if is_count(number, MOST_DEVICES):
            _read_segment(segment, devices.setdefault(number, Final()), tables)
        else:
            devices.setdefault(0, Final()).malformed += 1
    return dict(sorted(devices.items()))


def _read_segment(segment: dict[str, Any], device: Final, tables: Tables) -> None:
    addr, size, blocks = segment.get("address"), segment.get("total_size"), segment.get("blocks", [])
    if addr is None:
        addr = 0  # torch.profiler's converter: a device that nothing was allocated on
    if not is_count(addr, ADDRESSES) or not is_count(size, MOST_BYTES + 1) or type(blocks) is not list:
        device.malformed += 1
        return
    stream = found if is_count(found := segment.get("stream"), 1 << 63) else -1
    if size:
        device.expandable.add(segment.get("is_expandable") is True)
        pool = tables.pool(segment.get("segment_pool_id"))
        device.segment_rows.append((Kind.RESERVE, size, addr, -1, -1, stream, pool))
    spans: list[tuple[int, int]] = []
    sums = dict.fromkeys(_SUMS, 0)
    for block, at in _placed(blocks, addr, device):
        state, taken = block.get("state"), block.get("size", 0)
        requested = block.get("requested_size", block.get("size"))
        spans.append((at, at + taken))
        if state not in _HOLDING or not is_count(requested, MOST_BYTES + 1):
            device.malformed += state in _HOLDING or type(state) is not str
            continue
        waits = state != "active_allocated"
        for what, held in zip(_SUMS, (0 if waits else taken, taken, requested), strict=True):
            sums[what] += held
        device.block_rows.append((Kind.ALLOC, requested, at, -1, tables.stack(_frames(block)), stream, -1))
        device.waits.append(waits)
        device.taken.append(taken)
    device.uneven += _uneven(segment, addr, size, spans, sums)[:1]


def _uneven(
    segment: dict[str, Any], addr: int, size: int, spans: list[tuple[int, int]], sums: dict[str, int]
) -> list[UnevenSegment]:
    """Say what is wrong with the blocks of a segment.

    Args:
        segment: The segment, as it was read.
        addr: Where it begins.
        size: Its bytes.
        spans: Where each of its blocks begins and ends.
        sums: What its blocks add up to.
    """
    spans.sort()
    reach = max([addr + size, *(end for _, end in spans)]) - min([addr, *(begin for begin, _ in spans)])
    overlap = sum(max(end - begin, 0) for (_, end), (begin, _) in pairwise(spans))
    found = [("total_size", size, reach), ("overlap", 0, overlap)]
    found += [(what, segment[what], held) for what, held in sums.items() if type(segment.get(what)) is int]
    return [UnevenSegment(addr, what, stated, held) for what, stated, held in found if stated != held]


def _placed(blocks: list[Any], addr: int, device: Final) -> Iterator[tuple[dict[str, Any], int]]:
    """The blocks of a segment with their addresses."""
    seen: set[int] = set()
    for block in blocks:
        fresh = type(block) is dict and id(block) not in seen
        seen.add(id(block))
        size, own = (block.get("size", 0), block.get("address", addr)) if fresh else (None, None)
        if not is_count(size, MOST_BYTES + 1) or not is_count(own, ADDRESSES) or own + size > ADDRESSES:
            device.malformed += 1
            continue
        yield block, own
        addr = min(own + size, ADDRESSES - 1)


def _frames(block: dict[str, Any]) -> Any:
    """The stack that asked for a block; in 2023 it stands in a history, the newest entry first."""
    frames, history = block.get("frames"), block.get("history")
    if frames is None and type(history) is list and history and type(history[0]) is dict:
        frames = history[0].get("frames")
    return frames


class DeviceEvents(Struct, frozen=True, eq=False):
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
    columns = (entries.size, entries.addr, np.arange(len(kind)), entries.stack, entries.stream, entries.pool)
    events = Columns(kind, *columns).at(kind >= 0)
    held = ~np.array(final.waits, np.bool_) | (not requests)
    opening = _opening_segments(events, final).then(_opening_blocks(events, final, held))
    return DeviceEvents(
        opening.then(events),
        opening=len(opening.kind),
        deferred=deferred,
        allocated=int(final.blocks.size[held].sum()),
        reserved=int(final.segments.size.sum()),
    )


def _kinds(entries: Entries) -> tuple[NDArray[np.int8], bool, int | None]:
    """The kind of each entry.

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
    kept = change != 0
    # Two segments side by side stay two; one that the trace reserves before it releases any there was not there at the start.
    places, first = np.unique(changes.addr, return_index=True)
    later = np.isin(begins, places[changes.kind[first] == Kind.RESERVE])
    kept[bound[: len(begins)][(counts > 0) & ~later]] = True
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
    covered = np.flatnonzero(found >= 0)
    number = order[begin[order].searchsorted(begin[order][found[covered]])]
    holds = addr[covered] - begin[number] < size[number].astype(np.uint64)
    return covered[holds], number[holds]


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
    return np.where(events.pool >= 0, events.pool, _by_segment(events, entries, final.segments))


def _by_segment(events: Columns, entries: Entries, segments: Columns) -> NDArray[np.int32]:
    """The pools of the segments, at the end, that the events lie in, int32, -1 where that is not known."""
    allocs = np.flatnonzero(entries.action == Action.SEGMENT_ALLOC)
    covered, number = _covering(entries.addr[allocs], segments.addr, segments.size)
    allocs = allocs[covered]
    same = segments.addr[number] == entries.addr[allocs]
    # The last entry that allocated each segment, -1 where it was there before the trace.
    since = np.full(len(segments.addr), -1, np.int64)
    np.maximum.at(since, number[same], allocs[same])
    covered, number = _covering(events.addr, segments.addr, segments.size)
    later = events.entry[covered] >= since[number]
    pools = np.full(len(events.addr), -1, np.int32)
    pools[covered[later]] = segments.pool[number[later]]
    return pools
