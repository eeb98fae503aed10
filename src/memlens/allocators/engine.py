"""Replay a history by the rules of an allocator, in ``_replay.c``; ``tests/support/plain_allocator.py`` is its reference.

The proof of a model: a run replayed under its own settings does what was recorded, chunk by chunk and block by block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from memlens.allocators.history import ChunkChange, ChunkChanges, Operation
from memlens.allocators.models import MOST, NO_LIMIT, IdleChunks
from memlens.allocators.placing import Addresses, Placement, fixed, tiled
from memlens.errors import MemlensError, UsageError
from memlens.native import load
from memlens.text import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from memlens.allocators.history import RequestHistory
    from memlens.allocators.models import AllocatorModel, AllocatorRules, Values


_native = load("memlens._replay")
_AS_RECORDED = Addresses()
_NO_ADDRESS, _NO_BYTES = np.zeros(0, np.uint64), np.zeros(0, np.int64)
#: For the compiled module, a REQUEST that failed as recorded.
_FAILED = 3
#: Operations that are replayed before Python looks for an interrupt.
_AT_ONCE = 1 << 18
#: Faults of an operation, by their numbers in ``_replay.c``.
_FAULTS = {
    2: "operation {} asks for a block that cannot be, or of a group that there is not",
    3: "operation {} frees what no request before it asked for",
    4: "operation {} frees what is not live",
    5: "by operation {} chunks overlap",
}
#: A change of a chunk as it lies in the compiled module's memory.
_CHANGE = np.dtype([("at", np.int64), ("size", np.int64), ("addr", np.uint64), ("kind", np.int8)], align=True)
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
        limit: Bytes that the device, or the process of it, has: what would make more of them reserved is refused; ``None``: nothing is.
        trace: Keep the address of each block and what happens to chunks.

    Raises:
        UsageError: The columns do not belong together, or say what cannot be.
        MemlensError: There is no compiled module.
    """
    traced = len(history) if trace else 0
    address, block_bytes = np.zeros(traced, np.uint64), np.zeros(traced, np.int64)
    state = _started(history, rules, addresses, limit, trace, address, block_bytes)
    parts = [ChunkChanges.none(), *_gone_on(state)]
    found = _result(state)
    if not trace:
        return found
    changes = ChunkChanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return replace(found, address=address, block_bytes=block_bytes, changes=changes)


def nothing_idle(history: RequestHistory, rules: AllocatorRules) -> Replay | None:
    """The replay without a limit of chunks as large as their blocks that go as soon as these are freed: what is reserved is what is live, wherever it lies.

    ``None`` where the rules are others, and where something is wrong, as :func:`replay` says.
    """
    request = history.operation == Operation.REQUEST
    if rules.idle != IdleChunks.AFTER_FREE or (request & (rules.block != rules.growth)).any():
        return None
    asked = rules.block[request]
    freed = np.flatnonzero(history.operation == Operation.FREE)
    of, block, group = history.of[freed], rules.block, rules.group[request]
    if (
        rules.preallocated
        or rules.allowed is not None
        or (rules.keep_opening and len(history.opening_chunks.size))
        or len(history.failed)
        or rules.groups.page.any()
        or rules.groups.kept.any()
        or not ((of >= 0) & (of < freed)).all()
        or not request[of].all()
        or (np.bincount(of, minlength=1) > 1).any()
        or asked.min(initial=1) < 1
        or asked.max(initial=1) > MOST
        or asked.sum(dtype=np.float64) + len(block) * 512.0 > 1 << 61
        or group.min(initial=0) < 0
        or group.max(initial=-1) >= len(rules.groups.page)
    ):
        return None
    change = np.where(request, block, 0)
    change[freed] = -block[of]
    level = np.cumsum(change)
    at = int(level.argmax()) if level.any() else -1
    peak, end = (int(level[at]), int(level[-1])) if at >= 0 else (0, 0)
    return Replay(
        *(peak, at, end, peak, end, -1, 0, 0, 0, 0, 0, len(block)),
        *(len(asked), int(asked.sum()), len(of), int(block[of].sum())),
    )


def replays_within(
    history: RequestHistory, rules: AllocatorRules, addresses: Addresses, lowest: int
) -> Callable[[int], Replay]:
    """Return what replays under a limit that is not below another one, as :func:`replay` does: what is alike under all of them is replayed once."""
    if rules.preallocated or history.limit_is_share:
        return lambda limit: replay(history, rules, addresses=addresses, limit=limit)
    state = _started(history, rules, addresses, None)
    # An operation takes one chunk at most, or pages around its block: nothing is refused while so much is left.
    most = max(
        int(rules.growth.max(initial=0)), int(rules.block.max(initial=0)) + 2 * int(rules.groups.page.max(initial=0))
    )
    for _ in _gone_on(state, lowest - most):
        pass

    def within(limit: int) -> Replay:
        fork = compiled().fork(state, limit)
        for _ in _gone_on(fork):
            pass
        return _result(fork)

    return within


def _started(
    history: RequestHistory,
    rules: AllocatorRules,
    addresses: Addresses,
    limit: int | None,
    trace: bool = False,
    address: NDArray[np.uint64] = _NO_ADDRESS,
    block_bytes: NDArray[np.int64] = _NO_BYTES,
) -> Any:
    """The state of a replay before its first operation."""
    native = compiled()
    if (history.operation[: history.opening] != Operation.REQUEST).any() or history.opening > len(history):
        raise UsageError("an opening operation is no REQUEST")
    if (history.operation[history.failed] != Operation.REQUEST).any():
        raise UsageError("an operation that failed is a REQUEST")
    tiling = tiled(history, rules)
    by = fixed(history, addresses, tiling.base, tiling.size)
    opening = history.opening if rules.keep_opening else 0
    limit = NO_LIMIT if limit is None else limit
    allowed = min(limit if history.limit_is_share else NO_LIMIT, NO_LIMIT if rules.allowed is None else rules.allowed)
    numbers = [
        *(opening, rules.take_high, rules.oldest_first, rules.max_split, rules.max_rounding, rules.idle),
        *(rules.sorting, rules.collect_above, allowed, rules.range_bytes, limit, by.placement, trace),
    ]
    groups, operation = rules.groups, history.operation.astype(np.int8)
    operation[history.failed] = _FAILED
    try:
        return native.start(
            *(operation, _as(history.of, np.int64), _as(rules.group, np.int32)),
            *(_as(column, np.int64) for column in (rules.block, rules.growth)),
            *(_as(groups.family, np.int32), _as(groups.min_remainder, np.int64), _as(groups.split_below, np.int64)),
            *(_as(groups.page, np.int64), _as(groups.kept, np.bool_), _as(groups.collected, np.bool_)),
            *tiling,
            *(np.array([row[at] for row in rules.preallocated], dtype) for at, dtype in ((0, np.int32), (1, np.int64))),
            *(np.array(rules.relief, np.int8), by.recorded),
            np.array([min(int(number), NO_LIMIT) for number in numbers], np.int64),
            np.array([by.seed, by.low, by.high], np.uint64),
            *(address, block_bytes),
        )
    except ValueError as error:
        raise UsageError(f"the history or the rules of the allocator make no sense: {error}") from None


def _gone_on(state: Any, until: int = NO_LIMIT) -> Iterator[ChunkChanges]:
    """Go on to the end, or until more bytes are reserved; what happens to chunks where it is traced."""
    native, fault, more = compiled(), 0, 1
    while more == 1:
        fault, more, made = native.run(state, _AT_ONCE, until)
        if made:
            part = np.frombuffer(made, _CHANGE)
            yield ChunkChanges(*(part[name] for name in ChunkChanges._fields))
    if fault:
        raise UsageError(_FAULTS[fault].format(_result(state).operations))


def _result(state: Any) -> Replay:
    figures = np.frombuffer(compiled().result(state), np.int64)
    taken_low, taken_high, back_low, back_high = figures[len(_VALUES) :].view(np.uint64).tolist()
    return Replay(
        **dict(zip(_VALUES, figures.tolist(), strict=False)),
        taken_bytes=taken_high << 64 | taken_low,
        given_back_bytes=back_high << 64 | back_low,
    )


def _as(column: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A column as the compiled functions take it: of this type, without gaps."""
    return np.ascontiguousarray(column, dtype)


class Matched(NamedTuple):
    """How many of how many came out as recorded."""

    matched: int
    of: int


class Mismatch(Struct, frozen=True):
    """The first thing that came out otherwise.

    Attributes:
        operation: The operation during which it happened, -1 for the opening.
        line: How that operation is named to people: the byte offset of its line or entry, -1 where it has none.
        expected: What was recorded, in words.
        got: What the model did, in words.
    """

    operation: int
    line: int
    expected: str
    got: str


class Proof(Struct, frozen=True):
    """A replay of a run under its own settings, compared with its record, new chunks put where they were recorded.

    Attributes:
        chunks: Chunks taken and pages mapped, with their moments, sizes and addresses.
        given_back: Chunks given back and pages unmapped, likewise.
        addresses: Requests whose address is known, and whose block lay there.
        failures: Requests that got nothing, and should not have.
        operations: How many operations were replayed, of all.
        mismatch: The first thing that came out otherwise; ``None`` where nothing did.
    """

    chunks: Matched
    given_back: Matched
    addresses: Matched
    failures: Matched
    operations: Matched
    mismatch: Mismatch | None

    @property
    def exact(self) -> bool:
        """Whether all came out as recorded."""
        return self.mismatch is None


def prove(history: RequestHistory, rules: AllocatorRules) -> Proof:
    """Replay a run under the settings it had, and compare what happens with what was recorded.

    Raises:
        UsageError: As :func:`memlens.allocators.engine.replay`.
    """
    got = replay(history, rules, addresses=Addresses(Placement.RECORDED), limit=history.limit_bytes, trace=True)
    assert got.changes is not None
    assert got.address is not None
    recorded, made = history.changes, got.changes
    taking = _compared(recorded, made, (ChunkChange.TAKEN, ChunkChange.MAPPED))
    giving = _compared(recorded, made, (ChunkChange.GIVEN_BACK, ChunkChange.UNMAPPED))

    requests = history.operation == Operation.REQUEST
    failed = np.zeros(len(history), np.bool_)
    failed[history.failed] = True
    known = requests & (history.address != 0)
    # What never came to pass, because the replay ended before, has address 0.
    same = known & (got.address == history.address)
    refused = requests & (got.address == 0)
    refused[got.operations :] = False
    wrongly = refused != failed
    wrongly[got.operations :] = failed[got.operations :]

    candidates = [pair for pair in (taking[1], giving[1]) if pair is not None]
    moved = np.flatnonzero(known & ~same & ~refused & (np.arange(len(history)) < got.operations))
    if len(moved):
        at = int(moved[0])
        candidates.append((at, f"its block at {int(history.address[at]):#x}", f"one at {int(got.address[at]):#x}"))
    if wrongly.any():
        at = int(wrongly.argmax())
        words = f"no block for the request of {format_bytes(int(history.size[at]))}", "a block for it"
        candidates.append((at, *(words if failed[at] else words[::-1])))
    mismatch = None
    if candidates:
        at, expected, found = min(candidates, key=lambda each: each[0])
        mismatch = Mismatch(at, int(history.line[at]) if at >= 0 else -1, expected, found)
    return Proof(
        taking[0],
        giving[0],
        Matched(int(same.sum()), int(known.sum())),
        Matched(int((refused & failed).sum()), len(history.failed)),
        Matched(got.operations, len(history)),
        mismatch,
    )


def proven(model: AllocatorModel, history: RequestHistory, values: Values) -> Proof:
    """:func:`prove` with a model's rules for some values, once for the same ones."""
    key = model.name, *sorted({**model.defaults, **values}.items())
    if key not in history.proofs:
        history.proofs[key] = prove(history, model.rules(history, values))
    found: Proof = history.proofs[key]
    return found


def _compared(
    recorded: ChunkChanges, made: ChunkChanges, kinds: tuple[ChunkChange, ChunkChange]
) -> tuple[Matched, tuple[int, str, str] | None]:
    """How many changes of these kinds are the same, one by one in their order, and the first one that is not."""
    rows = [
        [column[(changes.kind == kinds[0]) | (changes.kind == kinds[1])] for column in changes]
        for changes in (recorded, made)
    ]
    first, second = ([column[: min(len(rows[0][0]), len(rows[1][0]))] for column in side] for side in rows)
    same = np.ones(len(first[0]), np.bool_)
    for name, one, other in zip(ChunkChanges._fields, first, second, strict=True):
        same &= (one == other) | ((one == 0) & (name == "addr"))  # not every log says where
    matched = Matched(int(same.sum()), len(rows[0][0]))
    if same.all() and len(rows[0][0]) == len(rows[1][0]):
        return matched, None
    at = int(same.argmin()) if not same.all() else len(same)
    moments = [int(side[0][at]) for side in rows if at < len(side[0])]
    recorded_as, made_as = (_in_words(side, at) for side in rows)
    if recorded_as == made_as:
        made_as = "the same later" if moments[1] > moments[0] else "the same earlier"
    return matched, (min(moments), recorded_as, made_as)


def _in_words(side: list[NDArray[Any]], at: int) -> str:
    if at >= len(side[0]):
        return "nothing"
    kind, addr, size = (int(column[at]) for column in side[1:])
    done = ("taken", "given back", "mapped", "unmapped")[kind]
    return f"{format_bytes(size)} {done} at {addr:#x}"
