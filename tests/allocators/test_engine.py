"""A replay from an opening, at the limits of its numbers, interrupted, in threads, and of operations that cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_requests import CHOICES, UNIT, Choice, history_from, history_of, requests_of, rules_for
from msgspec.structs import asdict, replace
from night import many

from memlens.allocators.engine import Replay, nothing_idle, replay
from memlens.allocators.history import ChunkChange, OpeningChunks, RequestHistory
from memlens.allocators.models import MOST, NO_LIMIT, AllocatorRules, Groups, IdleChunks
from memlens.allocators.placing import Addresses, Placement, tiled
from memlens.errors import UsageError


def simple(history: RequestHistory, **changes: object) -> AllocatorRules:
    """One group, chunks as large as what is asked for."""
    rules = AllocatorRules(history.size, history.stream, history.size, Groups.alike(1))
    return replace(rules, **changes)


# --- what is known of small histories ---


def test_a_request_that_failed_as_recorded_does_not_end_the_replay() -> None:
    history = history_from([0, 0, 1, 0], [-1, -1, 0, -1], [10, 30, 0, 10], failed=np.array([1]))
    got = replay(history, simple(history), limit=20, trace=True)
    assert (got.failed, got.operations, got.allocated_end) == (1, 4, 10)


@given(CHOICES, st.data())
@settings(max_examples=many(300))
def test_where_nothing_is_ever_idle_figures_are_those_of_a_replay_step_by_step(
    choices: list[Choice], data: st.DataObject
) -> None:
    history = history_of([one for one in choices if one[0] != 18])
    rules = simple(
        history,
        block=data.draw(st.sampled_from([history.size, history.size + UNIT])),
        idle=IdleChunks.AFTER_FREE,
        take_high=data.draw(st.booleans()),
    )
    rules = replace(rules, growth=rules.block, group=np.zeros(len(history), np.int32))
    addresses = data.draw(st.sampled_from([*map(Addresses, Placement)]))
    quick = nothing_idle(history, rules)
    assert (quick is None) == bool(len(history.failed))
    if quick is not None:
        assert asdict(quick) == asdict(replay(history, rules, addresses=addresses))


# --- a replay goes on from an opening ---


def opening_of(
    history: RequestHistory, rules: AllocatorRules, upto: int, got: Replay
) -> tuple[RequestHistory, AllocatorRules]:
    """What is left of a history after some operations, and the chunks and blocks that it begins with."""
    assert got.changes is not None
    assert got.address is not None
    assert got.block_bytes is not None
    chunks: dict[int, tuple[int, int]] = {}  # base: bytes, group
    for at, kind, addr, size in zip(*(column.tolist() for column in got.changes), strict=True):
        if at < upto:
            if kind == ChunkChange.TAKEN:
                chunks[addr] = size, int(rules.group[at])
            else:
                del chunks[addr]
    freed = set(history.of[:upto][history.operation[:upto] == 1].tolist())
    live = [at for at in range(upto) if got.address[at] and at not in freed]
    keep = np.array([*live, *range(upto, len(history))], np.int64)
    index = {old: new for new, old in enumerate(keep.tolist())}
    none = np.zeros(len(chunks), np.int32)
    opening = OpeningChunks(
        np.array(list(chunks), np.uint64),
        np.array([size for size, _ in chunks.values()], np.int64),
        none,
        none,
        none.astype(np.int64),
    )
    left = replace(
        history,
        operation=history.operation[keep],
        of=np.array([index.get(of, -1) for of in history.of[keep].tolist()], np.int64),
        size=history.size[keep],
        stream=history.stream[keep],
        address=got.address[keep],
        block_bytes=got.block_bytes[keep],
        opening=len(live),
        opening_chunks=opening,
        failed=np.array([index[at] for at in history.failed.tolist() if at in index], np.int64),
        changes=got.changes.take(got.changes.at >= upto),
    )
    columns = {name: getattr(rules, name)[keep] for name in ("block", "group", "growth")}
    groups = np.array([group for _, group in chunks.values()], np.int32)
    return left, replace(rules, **columns, keep_opening=True, opening_group=groups, preallocated=())


@given(
    choices=CHOICES, data=st.data(), limit=st.one_of(st.none(), st.integers(20, 150).map(lambda units: units * UNIT))
)
@settings(max_examples=many(100))
def test_a_replay_from_an_opening_goes_on_as_the_whole_one(
    choices: list[Choice], data: st.DataObject, limit: int | None
) -> None:
    history = history_of(choices)
    rules = replace(data.draw(rules_for(history, expandable=False)), collect_above=-1, preallocated=())
    whole = replay(history, rules, addresses=Addresses(Placement.ASCENDING), limit=limit, trace=True)
    # A request that fails is the last operation.
    kept = {name: getattr(rules, name)[: whole.operations] for name in ("block", "group", "growth")}
    upto = data.draw(st.integers(0, whole.operations))
    left, left_rules = opening_of(history_of(choices[: whole.operations]), replace(rules, **kept), upto, whole)
    got = replay(left, left_rules, limit=limit, trace=True)
    assert got.address is not None
    assert whole.address is not None
    assert got.address.tolist() == left.address.tolist()
    assert got.reserved_end == whole.reserved_end
    assert got.allocated_end == whole.allocated_end


def test_an_opening_is_asked_for_anew_where_the_rules_do_not_keep_it() -> None:
    history = replace(history_from([0, 0], [-1, -1], [8, 4], address=np.array([1024, 0], np.uint64)), opening=1)
    got = replay(history, simple(history), trace=True)
    assert (got.taken, got.reserved_end, got.operations) == (2, 12, 2)


@pytest.mark.parametrize(
    ("addr", "size", "at", "held"),
    [
        ([1024], [8], [1030], [4]),
        ([1024], [8], [512], [4]),
        ([1024], [8], [1024], [0]),
        ([], [], [1024], [4]),
        ([1024, 1028], [8, 8], [1024], [4]),
        ([1 << 63], [8], [1024], [4]),
    ],
)
def test_an_opening_that_cannot_be_is_said_to_be_wrong(
    addr: list[int], size: list[int], at: list[int], held: list[int]
) -> None:
    none = np.zeros(len(addr), np.int32)
    opening = OpeningChunks(np.array(addr, np.uint64), np.array(size, np.int64), none, none, none.astype(np.int64))
    history = history_from([0], [-1], [4], address=np.array(at, np.uint64), block_bytes=np.array(held, np.int64))
    history = replace(history, opening=1, opening_chunks=opening)
    with pytest.raises(UsageError):
        replay(history, simple(history, keep_opening=True, opening_group=none))


def opening_pieces(addr: list[int], size: list[int], page: list[int]) -> RequestHistory:
    """An opening of pieces in which no block is live."""
    none = np.zeros(len(addr), np.int32)
    chunks = OpeningChunks(np.array(addr, np.uint64), np.array(size, np.int64), none, none, np.array(page, np.int64))
    return replace(history_from([0], [-1], [128]), opening_chunks=chunks)


def ranges_of(history: RequestHistory, group: list[int]) -> list[int]:
    """Bytes of the chunks that pieces of some groups come to, where ranges of addresses have 256."""
    own = np.array(group, np.int32)
    found: list[int] = tiled(
        history, simple(history, keep_opening=True, opening_group=own, range_bytes=256)
    ).size.tolist()
    return found


def test_a_range_ends_where_the_next_chunk_begins() -> None:
    assert ranges_of(opening_pieces([1024], [64], [64]), [0]) == [256]
    # A piece that reaches beyond a range begins another one; and in a range may lie a chunk of another group.
    assert ranges_of(opening_pieces([1024, 1216], [64, 128], [64, 64]), [0, 0]) == [192, 256]
    assert ranges_of(opening_pieces([1024, 1152], [64, 64], [64, 0]), [0, 1]) == [128, 64]


def test_ranges_that_lie_in_each_other_are_said_to_be_wrong() -> None:
    history = opening_pieces([1024, 1088, 1152], [64, 64, 64], [64, 0, 64])
    rules = simple(history, keep_opening=True, opening_group=np.array([0, 1, 0], np.int32), range_bytes=256)
    with pytest.raises(UsageError):
        replay(history, rules)


# --- numbers at their limits ---


def test_the_largest_blocks_are_added_up_and_no_more_is_reserved_than_can_be_counted() -> None:
    count = 33_000
    history = history_from([0] * count, [-1] * count, [MOST] * count)
    got = replay(history, simple(history), addresses=Addresses(Placement.ASCENDING))
    # Addresses end at 2**63, and so do bytes: 2**15 chunks of 2**48, less what lies below the first one and the last step.
    assert 0 < got.failed < 1 << 15
    assert got.reserved_peak == got.failed * MOST
    turns = history_from([0, 1] * count, [-1 if at % 2 == 0 else at - 1 for at in range(2 * count)], [MOST, 0] * count)
    again = replay(turns, simple(turns, idle=IdleChunks.AFTER_FREE), addresses=Addresses(Placement.REUSE))
    assert again.taken_bytes == count * MOST > 1 << 63
    assert again.reserved_peak == MOST


def test_below_all_addresses_there_is_no_room_and_new_chunks_go_above() -> None:
    history = history_from([0, 0], [-1, -1], [1024, 1 << 20])
    opening = OpeningChunks(
        np.array([4096], np.uint64), np.array([512]), *(np.zeros(1, np.int32),) * 2, np.zeros(1, np.int64)
    )
    history = replace(history, opening_chunks=opening)
    rules = simple(history, keep_opening=True, opening_group=np.zeros(1, np.int32))
    got = replay(history, rules, addresses=Addresses(Placement.DESCENDING), trace=True)
    assert got.address is not None
    assert got.address.tolist() == [3072, 4608]


@pytest.mark.parametrize(
    ("operation", "of", "size", "words"),
    [
        ([1], [-1], [0], "operation 0 frees what no request"),
        ([0, 1], [-1, 1], [4, 0], "operation 1 frees what no request"),
        ([0, 1, 1], [-1, 0, 1], [4, 0, 0], "operation 2 frees what no request"),
        ([0, 1, 1], [-1, 0, 0], [4, 0, 0], "operation 2 frees what is not live"),
        ([0], [-1], [0], "operation 0 asks for a block that cannot be"),
        ([0], [-1], [-5], "operation 0 asks for a block that cannot be"),
        ([0, 0], [-1, -1], [4, MOST + 1], "operation 1 asks for a block that cannot be"),
    ],
)
def test_an_operation_that_cannot_be_is_named(operation: list[int], of: list[int], size: list[int], words: str) -> None:
    history = history_from(operation, of, size)
    with pytest.raises(UsageError, match=words):
        replay(history, simple(history))


def test_columns_and_numbers_that_cannot_be_are_said_to_be_wrong() -> None:
    history = history_from([0], [-1], [4])
    wrong: list[dict[str, object]] = [
        {"block": np.zeros(2, np.int64)},
        {"groups": Groups.alike(1, page=-1)},
        {"groups": Groups.alike(1, min_remainder=0)},
        {"groups": Groups.alike(2, family=np.array([1, 0], np.int32))},
        {"groups": replace(Groups.alike(1), kept=np.zeros(2, np.bool_))},
        {"preallocated": ((1, 8),)},
        {"preallocated": ((0, 0),)},
        {"range_bytes": -1},
        {"max_split": 0},
        {"allowed": -1},
        {"group": np.array([1], np.int32)},
        {"growth": np.array([3])},
    ]
    for change in wrong:
        with pytest.raises(UsageError):
            replay(history, simple(history, **change))
    with pytest.raises(UsageError):
        replay(history, simple(history), limit=-1)
    with pytest.raises(UsageError):
        replay(replace(history, opening=2), simple(history))
    assert replay(history, simple(history), limit=1 << 80).completed
    assert replay(history, simple(history, allowed=NO_LIMIT + 1)).completed


# --- long ones ---


def test_many_blocks_make_the_trees_high_and_are_all_found_again() -> None:
    # Each second block is freed, so that as many gaps are left; then all of them are asked for, the largest first, and none needs a chunk.
    count = 60_000
    sizes = 1 + np.arange(count) * 7919 % count
    history = history_from(
        [0] * (2 * count) + [1] * count + [0] * count,
        [-1] * (2 * count) + list(range(0, 2 * count, 2)) + [-1] * count,
        [*np.repeat(sizes, 2).tolist(), *[0] * count, *sorted(sizes.tolist(), reverse=True)],
    )
    whole = int(history.size[: 2 * count].sum())
    rules = replace(simple(history), preallocated=((0, whole),), growth=np.maximum(history.size, 1))
    got = replay(history, rules)
    assert (got.completed, got.reserved_peak, got.taken, got.allocated_end) == (True, whole, 1, whole)


def test_threads_replay_at_once() -> None:
    history = requests_of(20_000, live=300)
    expected = replay(history, simple(history))
    with ThreadPoolExecutor(4) as workers:
        found = list(workers.map(lambda _: replay(history, simple(history)), range(8)))
    assert {each.reserved_peak for each in found} == {expected.reserved_peak}


def test_a_replay_is_interrupted_within_a_second() -> None:
    program = """
import signal, sys, time, threading, os
sys.path[:0] = sys.argv[1:]
from made_requests import history_from
import numpy as np
from msgspec.structs import asdict, replace
from memlens.allocators.engine import replay
from memlens.allocators.models import AllocatorRules, Groups
size = 20_000_000
turn = np.arange(size) % 2
none = np.zeros(size, np.int32)
from memlens.allocators.history import RequestHistory
history = RequestHistory(turn.astype(np.int8), np.where(turn, np.arange(size) - 1, -1), np.where(turn, 0, 4), none, none, none, none, none.astype(np.uint64), none)
rules = AllocatorRules(history.size, none, history.size, Groups.alike(1))
threading.Timer(0.2, lambda: (print(time.monotonic(), flush=True), os.kill(os.getpid(), signal.SIGINT))).start()
try:
    while True:
        replay(history, rules)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""
    support = os.path.dirname(sys.modules["made_requests"].__file__ or "")
    done = subprocess.run(
        [sys.executable, "-c", program, support], capture_output=True, text=True, timeout=100, check=False
    )
    sent, heard = map(float, done.stdout.split())
    assert heard - sent < 5, done.stderr  # far less than all of it takes
    assert done.returncode == 0
