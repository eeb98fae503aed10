"""The state at the end of a memory snapshot: segments taken from the device, and the blocks in them that hold something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlens.facts import Kind, UnevenSegment
from memlens.inputs.torch_snapshot.instructions import BadPickle
from memlens.inputs.torch_snapshot.values import ADDRESSES, MOST_BYTES, is_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

    from memlens.inputs.torch_snapshot.stacks import Tables

__all__ = ["MOST_DEVICES", "NOTHING", "Columns", "Final", "read_segments"]

#: A device number beyond is none.
MOST_DEVICES = 1 << 10


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

    def then(self, *others: Columns) -> Columns:
        """These events, and then others."""
        return Columns(*map(np.concatenate, zip(self, *others, strict=True)))

    def at(self, rows: Any) -> Columns:
        """Some of the events."""
        return Columns(*(column[rows] for column in self))


@dataclass(frozen=True, eq=False)
class Final:
    """What a device holds when the snapshot is taken.

    Attributes:
        segments: Its segments, as RESERVE events.
        blocks: Its blocks that are allocated or wait, as ALLOC events; their pool is that of their segment, and left out.
        waiting: The block was given back, and waits for a stream before it can be used again, bool.
        malformed: Segments and blocks that cannot be read.
        uneven: Segments whose blocks do not add up.
    """

    segments: Columns
    blocks: Columns
    waiting: NDArray[np.bool_]
    malformed: int
    uneven: tuple[UnevenSegment, ...]


class _Device:
    def __init__(self) -> None:
        # Size, address, stack, stream, pool of each; of a block, last, whether it waits.
        self.segments: list[tuple[int, ...]] = []
        self.blocks: list[tuple[int, ...]] = []
        self.malformed = 0
        self.uneven: list[UnevenSegment] = []

    def finish(self) -> Final:
        waiting = np.array([block[-1] for block in self.blocks], np.bool_)
        segments, blocks = _columns(Kind.RESERVE, self.segments), _columns(Kind.ALLOC, self.blocks)
        return Final(segments, blocks, waiting, self.malformed, tuple(self.uneven))


def _columns(kind: Kind, rows: list[tuple[int, ...]]) -> Columns:
    unknown = np.full(len(rows), -1, np.int64)
    size, addr, stack, stream, pool = (
        np.array([row[k] for row in rows], dtype)
        for k, dtype in enumerate((np.int64, np.uint64, np.int32, np.int64, np.int32))
    )
    return Columns(np.full(len(rows), kind, np.int8), size, addr, unknown, stack, stream, pool)


#: What is known of a device that has no segment.
NOTHING = _Device().finish()


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
    devices: dict[int, _Device] = {}
    seen: set[int] = set()
    for segment in segments:
        if type(segment) is not dict:
            devices.setdefault(0, _Device()).malformed += 1
            continue
        blocks = segment.get("blocks")
        if id(segment) in seen or (blocks and id(blocks) in seen):
            raise BadPickle("a segment, or its list of blocks, stands in it more than once", hostile=True)
        seen |= {id(segment), id(blocks)}
        number = segment.get("device", 0)
        if type(number) is not int or not 0 <= number < MOST_DEVICES:
            devices.setdefault(0, _Device()).malformed += 1
            continue
        _read_segment(segment, devices.setdefault(number, _Device()), tables)
    return {number: device.finish() for number, device in sorted(devices.items())}


def _read_segment(segment: dict[str, Any], device: _Device, tables: Tables) -> None:
    addr, size, blocks = segment.get("address"), segment.get("total_size"), segment.get("blocks", [])
    if addr is None:
        addr = 0  # torch.profiler's converter: a device that nothing was allocated on
    if not is_count(addr, ADDRESSES) or not is_count(size, MOST_BYTES + 1) or type(blocks) is not list:
        device.malformed += 1
        return
    named = segment.get("stream")
    stream = named if is_count(named, 1 << 63) else -1
    if size:
        device.segments.append((size, addr, -1, stream, tables.pool(segment.get("segment_pool_id"))))
    spans: list[tuple[int, int]] = []
    sums = dict.fromkeys(_SUMS, 0)
    for block, at in _placed(blocks, addr, device):
        state, requested = block.get("state"), block.get("requested_size", block.get("size"))
        spans.append((at, at + block.get("size", 0)))
        if state not in _HOLDING:
            if type(state) is not str:
                device.malformed += 1
            continue
        if not is_count(requested, MOST_BYTES + 1):
            device.malformed += 1
        else:
            waits = state != "active_allocated"
            taken = block.get("size", 0)
            sums["allocated_size"] += 0 if waits else taken
            sums["active_size"] += taken
            sums["requested_size"] += requested
            device.blocks.append((requested, at, tables.stack(_frames(block)), stream, -1, waits))
    stated = {what: segment[what] for what in _SUMS if type(segment.get(what)) is int}
    if uneven := _uneven(addr, size, spans, {what: (stated[what], sums[what]) for what in stated}):
        device.uneven.append(uneven)


#: What a segment says of its blocks: bytes of those that are allocated; the same with those that wait; what was asked for.
_SUMS = ("allocated_size", "active_size", "requested_size")


def _uneven(
    addr: int, size: int, spans: list[tuple[int, int]], sums: dict[str, tuple[int, int]]
) -> UnevenSegment | None:
    """What is wrong with the blocks of a segment.

    Args:
        addr: Where the segment begins.
        size: Its bytes.
        spans: Where each of its blocks begins and ends.
        sums: What it says, and what its blocks add up to.
    """
    spans.sort()
    overlap = sum(max(end - begin, 0) for (_, end), (begin, _) in pairwise(spans))
    outside = max(max((end for _, end in spans), default=0) - addr - size, 0) + max(
        addr - spans[0][0] if spans else 0, 0
    )
    found = [(what, stated, held) for what, (stated, held) in sums.items() if stated != held]
    if overlap:
        found.insert(0, ("overlap", 0, overlap))
    if outside:
        found.insert(0, ("total_size", size, size + outside))
    return UnevenSegment(addr, *found[0]) if found else None


#: A block's states that are not free; the last one is what torch's own description calls the second.
_HOLDING = ("active_allocated", "active_pending_free", "active_awaiting_free")


def _placed(blocks: list[Any], addr: int, device: _Device) -> Iterator[tuple[dict[str, Any], int]]:
    """The blocks of a segment with their addresses."""
    seen: set[int] = set()
    for block in blocks:
        if type(block) is not dict or id(block) in seen:
            device.malformed += 1
            continue
        seen.add(id(block))
        size, own = block.get("size", 0), block.get("address", addr)
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
