"""A replay in plain Python: what runs without ``_replay.c``, and what that is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.allocators.allocator import Allocator
from memlens.allocators.history import ChunkChanges, Operation
from memlens.allocators.rules import MOST
from memlens.errors import UsageError

if TYPE_CHECKING:
    from memlens.allocators.free_blocks import Block
    from memlens.allocators.history import RequestHistory
    from memlens.allocators.opening import Tiling
    from memlens.allocators.placing import Places
    from memlens.allocators.rules import AllocatorRules

__all__ = ["FAULTS", "run"]

#: What can be wrong with an operation, by the number that ``_replay.c`` has for it.
FAULTS = {
    2: "operation {} asks for a block that cannot be, or of a group that there is not",
    3: "operation {} frees what no request before it asked for",
    4: "operation {} frees what is not live",
    5: "by operation {} chunks overlap",
}


def run(
    history: RequestHistory, rules: AllocatorRules, tiling: Tiling, places: Places, limit: int | None, *, trace: bool
) -> dict[str, Any]:
    """Replay a history: the fields of :class:`memlens.allocators.engine.Replay`."""
    allocator = Allocator(rules, places, limit)
    blocks: list[Block | None] = [None] * len(history)
    allocator.open(tiling, blocks)
    address, occupied = np.zeros(len(history), np.uint64), np.zeros(len(history), np.int64)
    for at, block in enumerate(blocks[: history.opening]):
        if block is not None:
            address[at], occupied[at] = block.addr, block.size
    failed, report = -1, dict.fromkeys(("block", "growth", "reserved", "free", "largest"), 0)
    expected = set(history.failed.tolist())
    done = history.opening if rules.keep_opening else 0
    prepared = allocator.preallocate()
    columns = (history.operation, history.of, rules.group, rules.block, rules.growth)
    for at, (operation, of, group, size, growth) in enumerate(
        zip(*(column[done:].tolist() for column in columns), strict=True), start=done
    ):
        done = at + 1
        if operation == Operation.REQUEST:
            if not (
                0 <= group < len(rules.groups)
                and 1 <= size <= MOST
                and (0 if allocator.page[group] else size) <= growth <= MOST
            ):
                raise UsageError(FAULTS[2].format(at))
            block = blocks[at] = allocator.request(at, group, size, growth) if prepared else None
            if block is not None:
                address[at], occupied[at] = block.addr, block.size
                continue
            if failed < 0:
                failed, report = at, allocator.report(group, size)
            if not prepared or at not in expected:
                break
        elif operation == Operation.FREE:
            if not 0 <= of < at or history.operation[of] != Operation.REQUEST:
                raise UsageError(FAULTS[3].format(at))
            block, blocks[of] = blocks[of], None
            if block is not None:
                allocator.give(at, block)
            elif of not in expected:
                raise UsageError(FAULTS[4].format(at))
        else:
            allocator.trim(at)
    names = [
        "reserved_peak",
        "reserved_peak_at",
        "allocated_peak",
        "taken",
        "taken_bytes",
        "given_back",
        "given_back_bytes",
    ]
    return {
        **{name: getattr(allocator, name) for name in names},
        **{f"failed_{name}": value for name, value in report.items()},
        "reserved_end": allocator.reserved,
        "allocated_end": allocator.allocated,
        "failed": failed,
        "operations": done,
        "address": address if trace else None,
        "occupied": occupied if trace else None,
        "changes": changes(allocator.changes) if trace else None,
    }


def changes(rows: list[tuple[int, int, int, int]]) -> ChunkChanges:
    """What happened to chunks, as columns."""
    at, kind, addr, size = zip(*rows, strict=True) if rows else ((), (), (), ())
    return ChunkChanges(
        np.array(at, np.int64), np.array(kind, np.int8), np.array(addr, np.uint64), np.array(size, np.int64)
    )
