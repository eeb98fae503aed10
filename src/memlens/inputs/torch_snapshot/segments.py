"""The state at the end of a memory snapshot: segments taken from the device, and the blocks in them that hold something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.facts import UnevenSegment
from memlens.inputs.torch_snapshot.instructions import BadPickle
from memlens.inputs.torch_snapshot.values import ADDRESSES, MOST_BYTES, is_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.torch_snapshot.stacks import Tables

__all__ = ["MOST_DEVICES", "Final", "read_segments"]

#: A device number beyond is none.
MOST_DEVICES = 1 << 10


@dataclass(frozen=True, eq=False)
class Final:
    """What a device holds when the snapshot is taken, as columns.

    Attributes:
        segment_addr: Where each segment begins, uint64.
        segment_size: Its bytes, int64.
        segment_stream: Its stream, int64, -1 where unknown.
        segment_pool: Number of its memory pool, int32, -1 where it names none.
        addr: Where each block begins that is allocated or waits, uint64.
        size: The bytes that were asked for, int64.
        stack: Number of the stack that asked, int32, -1 where unknown.
        stream: Stream of the block's segment, int64, -1 where unknown.
        waiting: The block was given back, and waits for a stream before it can be used again, bool.
        malformed: Segments and blocks that cannot be read.
        uneven: Segments whose blocks do not add up.
    """

    segment_addr: NDArray[np.uint64]
    segment_size: NDArray[np.int64]
    segment_stream: NDArray[np.int64]
    segment_pool: NDArray[np.int32]
    addr: NDArray[np.uint64]
    size: NDArray[np.int64]
    stack: NDArray[np.int32]
    stream: NDArray[np.int64]
    waiting: NDArray[np.bool_]
    malformed: int = 0
    uneven: tuple[UnevenSegment, ...] = ()


class _Device:
    def __init__(self) -> None:
        self.segments: list[tuple[int, int, int, int]] = []
        self.blocks: list[tuple[int, int, int, int, bool]] = []
        self.malformed = 0
        self.uneven: list[UnevenSegment] = []

    def finish(self) -> Final:
        where, length, home, pool = _columns(self.segments, (np.uint64, np.int64, np.int64, np.int32))
        addr, size, stack, stream, waiting = _columns(self.blocks, (np.uint64, np.int64, np.int32, np.int64, np.bool_))
        return Final(where, length, home, pool, addr, size, stack, stream, waiting, self.malformed, tuple(self.uneven))


def _columns(rows: list[Any], kinds: tuple[type, ...]) -> list[Any]:
    return [np.array([row[k] for row in rows], kind) for k, kind in enumerate(kinds)]


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
        device.segments.append((addr, size, stream, tables.pool(segment.get("segment_pool_id"))))
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
            device.blocks.append((at, requested, tables.stack(_frames(block)), stream, waits))
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
