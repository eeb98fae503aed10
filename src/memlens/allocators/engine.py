"""Replay a history by the rules of an allocator, in ``_replay.c``; ``tests/support/plain_allocator.py`` is its reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, structs

from memlens.allocators.history import ChunkChanges, Operation
from memlens.allocators.placing import Addresses, fixed, tiled
from memlens.allocators.rules import MOST, NO_LIMIT
from memlens.errors import MemlensError, UsageError
from memlens.native import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.history import RequestHistory
    from memlens.allocators.rules import AllocatorRules


_native = load("memlens._replay")
_AS_RECORDED = Addresses()
#: Groups, and numbers of families, that are not more.
_MOST_GROUPS = 1 << 20
#: Operations that are replayed before Python looks for an interrupt.
_AT_ONCE = 1 << 18
#: Faults of an operation, by their numbers in ``_replay.c``.
_FAULTS = {
    2: "operation {} asks for a block that cannot be, or of a group that there is not",
    3: "operation {} frees what no request before it asked for",
    4: "operation {} frees what is not live",
    5: "by operation {} chunks overlap",
}
#: The fields of a result as the compiled module gives them.
_VALUES = (
    *("reserved_peak", "reserved_peak_at", "reserved_end", "allocated_peak", "allocated_end", "failed", "failed_block"),
    *("failed_growth", "failed_reserved", "failed_free", "failed_largest", "operations", "taken", "given_back"),
)


class Replay(Struct, frozen=True, eq=False):
    """The outcome of a replay; bytes are bytes of blocks and chunks, not of what was asked for.

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
        block_bytes: With ``trace`` the bytes of each REQUEST's block, int64, likewise; else ``None``.
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
    block_bytes: NDArray[np.int64] | None = None
    changes: ChunkChanges | None = None

    @property
    def completed(self) -> bool:
        """Whether every REQUEST got a block."""
        return self.failed < 0


def compiled() -> Any:
    """Return the compiled module, without which nothing is replayed.

    Raises:
        MemlensError: It was not built, or is switched off.
    """
    if _native is None:
        raise MemlensError(
            "allocators are replayed by memlens's compiled modules, which are not here",
            "Install a C compiler, then: pip install --force-reinstall --no-cache-dir memlens. MEMLENS_PURE=1 switches them off.",
        )
    return _native


def replay(
    history: RequestHistory,
    rules: AllocatorRules,
    *,
    addresses: Addresses = _AS_RECORDED,
    limit: int | None = None,
    trace: bool = False,
) -> Replay:
    """Replay a history by rules.

    A REQUEST that fails ends the replay, unless it failed as recorded, too: the program went on from there.  Several threads may replay at once; it can be
    interrupted.

    Args:
        history: What the program asked for.
        rules: How the allocator decides.
        addresses: Where new chunks lie.
        limit: Bytes that the device has: it refuses what would make more of them reserved; ``None``: it refuses nothing.
        trace: Keep the address of each block and what happens to chunks.

    Raises:
        UsageError: The columns do not belong together, or say what cannot be.
        MemlensError: There is no compiled module.
    """
    native = compiled()
    _check(history, rules, limit)
    tiling = tiled(history, rules)
    by = fixed(history, addresses, tiling.base, tiling.size)
    traced = len(history) if trace else 0
    address, block_bytes = np.zeros(traced, np.uint64), np.zeros(traced, np.int64)
    opening = history.opening if rules.keep_opening else 0
    numbers = [
        *(opening, rules.take_high, rules.oldest_first, rules.max_split, rules.max_rounding, rules.idle),
        *(rules.sorting, rules.collect_above, NO_LIMIT if rules.allowed is None else rules.allowed, rules.range_bytes),
        *(NO_LIMIT if limit is None else limit, by.placement, trace),
    ]
    groups = rules.groups
    state = native.start(
        *(_as(history.operation, np.int8), _as(history.of, np.int64), _as(rules.group, np.int32)),
        *(_as(column, np.int64) for column in (rules.block, rules.growth, history.failed)),
        *(_as(groups.family, np.int32), _as(groups.min_remainder, np.int64), _as(groups.split_below, np.int64)),
        *(_as(groups.page, np.int64), _as(groups.kept, np.bool_), _as(groups.collected, np.bool_)),
        *tiling,
        *(np.array([row[at] for row in rules.preallocated], dtype) for at, dtype in ((0, np.int32), (1, np.int64))),
        *(np.array(rules.relief, np.int8), by.recorded),
        np.array([min(int(number), NO_LIMIT) for number in numbers], np.int64),
        np.array([by.seed, by.low, by.high], np.uint64),
        *(address, block_bytes),
    )
    parts, fault, more = [ChunkChanges.none()], 0, 1
    while more:
        fault, more, pending = native.run(state, _AT_ONCE)
        if pending:
            part = ChunkChanges(*(np.empty(pending, column.dtype) for column in parts[0]))
            native.changes(state, *part)
            parts.append(part)
    found = native.result(state)
    if fault:
        raise UsageError(_FAULTS[fault].format(found[11]))
    *values, taken_high, taken_low, back_high, back_low = found
    result: dict[str, Any] = dict(zip(_VALUES, values, strict=True))
    result |= {"taken_bytes": taken_high << 64 | taken_low, "given_back_bytes": back_high << 64 | back_low}
    if trace:
        changes = ChunkChanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        result |= {"address": address, "block_bytes": block_bytes, "changes": changes}
    return Replay(**result)


def _check(history: RequestHistory, rules: AllocatorRules, limit: int | None) -> None:
    """Raise UsageError for columns that do not belong together, and for numbers that cannot be; operations are checked one by one."""
    operations, table, groups = len(history), rules.groups, len(rules.groups)
    for name, column in (("of", history.of), ("block", rules.block), ("group", rules.group), ("growth", rules.growth)):
        if len(column) != operations:
            raise UsageError(f"column {name!r} has {len(column)} entries for {operations} operations")
    if not 0 <= history.opening <= operations or (history.operation[: history.opening] != Operation.REQUEST).any():
        raise UsageError("an opening operation is no REQUEST")
    if any(len(column) != groups for column in structs.astuple(table)):
        raise UsageError("columns of groups differ in length")
    if groups and (
        (np.diff(table.family, prepend=0) < 0).any()
        or max(groups, table.family.max()) > _MOST_GROUPS
        or table.min_remainder.min() < 1
        or not 0 <= table.page.min() <= table.page.max() <= MOST
    ):
        raise UsageError("families fall, or a group has a remainder or page that cannot be")
    if (
        rules.keep_opening
        and len(rules.opening_group)
        and not 0 <= rules.opening_group.min() <= rules.opening_group.max() < groups
    ):
        raise UsageError("an opening chunk of a group that there is not")
    if any(not 0 <= group < groups or not 1 <= size <= MOST for group, size in rules.preallocated):
        raise UsageError("a preallocated chunk of a group that there is not, or of no bytes")
    if not (0 <= rules.range_bytes <= MOST and 0 <= rules.max_rounding <= MOST and rules.max_split > 0):
        raise UsageError("a range of addresses or a limit of sizes that cannot be")
    if min(limit or 0, rules.allowed or 0) < 0:
        raise UsageError("a limit below zero")


def _as(column: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A column as the compiled functions take it: of this type, without gaps."""
    return np.ascontiguousarray(column, dtype)
