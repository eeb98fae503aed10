"""Replay a history by the rules of an allocator: compiled (``_replay.c``) where the module was built, else :mod:`memlens.allocators.reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.allocators import reference
from memlens.allocators.history import Operation
from memlens.allocators.opening import tiled
from memlens.allocators.placing import Addresses, Places, fixed
from memlens.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.history import ChunkChanges, RequestHistory
    from memlens.allocators.rules import AllocatorRules

__all__ = ["Replay", "checked", "replay"]

#: A block or chunk is smaller than this.
_MOST = 1 << 48


@dataclass(frozen=True, eq=False)
class Replay:
    """What came of a replay; bytes are bytes of blocks and chunks, not of what was asked for.

    Attributes:
        reserved_peak: The most bytes reserved at once.
        reserved_peak_at: The operation during which that was first so, -1 for the opening.
        reserved_end: Bytes reserved after the last operation.
        allocated_peak: The most bytes of blocks in use at once.
        allocated_end: Bytes of blocks in use after the last operation.
        failed: The first REQUEST that got nothing, -1 where all got a block.
        failed_block: Bytes of the block that it needed, 0 where none failed; so the ones below.
        failed_growth: Bytes that the device, or ``allowed``, refused last.
        failed_reserved: Bytes reserved then.
        failed_free: Those of them that were free.
        failed_largest: The largest free block of its group.
        operations: How many operations were replayed: a REQUEST that fails, and did not fail as recorded, is the last one.
        taken: How often memory was taken from the device: chunks, and pages mapped at once.
        taken_bytes: So many bytes.
        given_back: How often memory was given back.
        given_back_bytes: So many bytes.
        address: With ``trace`` where the block of each REQUEST lies, uint64, 0 for other operations and where there is none; else ``None``.
        occupied: With ``trace`` the bytes of each REQUEST's block, int64, likewise; else ``None``.
        changes: With ``trace`` what happened to chunks; else ``None``.
    """

    reserved_peak: int
    reserved_peak_at: int
    reserved_end: int
    allocated_peak: int
    allocated_end: int
    failed: int
    failed_block: int
    failed_growth: int
    failed_reserved: int
    failed_free: int
    failed_largest: int
    operations: int
    taken: int
    taken_bytes: int
    given_back: int
    given_back_bytes: int
    address: NDArray[np.uint64] | None = None
    occupied: NDArray[np.int64] | None = None
    changes: ChunkChanges | None = None

    @property
    def completed(self) -> bool:
        """Whether every REQUEST got a block."""
        return self.failed < 0


def replay(
    history: RequestHistory,
    rules: AllocatorRules,
    *,
    addresses: Addresses = Addresses(),  # noqa: B008 - frozen
    limit: int | None = None,
    trace: bool = False,
) -> Replay:
    """Replay a history by rules.

    A REQUEST that fails ends the replay, unless it failed as recorded, too: the program went on from there.

    Args:
        history: What the program asked for.
        rules: How the allocator decides.
        addresses: Where new chunks lie.
        limit: Bytes that the device has: it refuses what would make more of them reserved; ``None``: it refuses nothing.
        trace: Keep the address of each block and what happens to chunks.

    Raises:
        UsageError: The columns do not belong together, or say what cannot be.
    """
    checked(history, rules)
    tiling = tiled(history, rules)
    places = Places(fixed(history, addresses, tiling.base, tiling.size), tiling.base.tolist(), tiling.size.tolist())
    return Replay(**reference.run(history, rules, tiling, places, limit, trace=trace))


def checked(history: RequestHistory, rules: AllocatorRules) -> None:
    """Raise UsageError for columns that do not belong together, or say what cannot be."""
    operations, groups = len(history), len(rules.groups)
    for name, column in (("of", history.of), ("block", rules.block), ("group", rules.group), ("growth", rules.growth)):
        if len(column) != operations:
            raise UsageError(f"column {name!r} has {len(column)} entries for {operations} operations")
    if not 0 <= history.opening <= operations:
        raise UsageError("more opening blocks than operations")
    if history.opening and (history.operation[: history.opening] != Operation.REQUEST).any():
        raise UsageError("an opening operation is no REQUEST")
    requests = history.operation == Operation.REQUEST
    if rules.keep_opening:
        requests[: history.opening] = False
    if requests.any():
        group, block, growth = rules.group[requests], rules.block[requests], rules.growth[requests]
        if group.min() < 0 or group.max() >= groups:
            raise UsageError("a request of a group that there is not")
        if block.min() < 1 or growth.max() > _MOST or (growth < block)[rules.groups.page[group] == 0].any():
            raise UsageError("a block of no bytes, or one larger than its chunk, or too large a chunk")
        if block.max() > _MOST:
            raise UsageError("a block that is too large")
    _checked_groups(rules)


def _checked_groups(rules: AllocatorRules) -> None:
    table, groups = rules.groups, len(rules.groups)
    if any(len(column) != groups for column in vars(table).values()):
        raise UsageError("columns of groups differ in length")
    if groups and (
        (np.diff(table.family, prepend=0) < 0).any()
        or table.min_remainder.min() < 1
        or table.page.min() < 0
        or table.page.max() > _MOST
    ):
        raise UsageError("families fall, or a group has a remainder or page that cannot be")
    if (
        rules.keep_opening
        and len(rules.opening_group)
        and not 0 <= rules.opening_group.min() <= rules.opening_group.max() < groups
    ):
        raise UsageError("an opening chunk of a group that there is not")
    if any(not 0 <= group < groups or not 1 <= size <= _MOST for group, size in rules.preallocated):
        raise UsageError("a preallocated chunk of a group that there is not, or of no bytes")
    if not 0 <= rules.range_bytes <= _MOST:
        raise UsageError("a range of addresses that is too large")
