"""A replay from an opening, at the limits of its numbers, interrupted, in threads, and of operations that cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_requests import CHOICES, UNIT, Choice, history_from, history_of, requests_of, rules_for

from memlens.allocators import engine
from memlens.allocators.engine import Replay, replay
from memlens.allocators.history import ChunkChange, ChunkChanges, NotReplayable, OpeningChunks, RequestHistory
from memlens.allocators.opening import tiled
from memlens.allocators.placing import Addresses, Placement
from memlens.allocators.rules import MOST, NO_LIMIT, AllocatorRules, Groups, IdleChunks, Relief
from memlens.errors import UsageError
from memlens.native import load

compiled = engine._native is not None
native = pytest.mark.skipif(not compiled, reason="the compiled module was not built")


@pytest.fixture(params=["pure", pytest.param("compiled", marks=native)], autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with and without the compiled module."""
    if request.param == "pure":
        monkeypatch.setattr(engine, "_native", None)
    return str(request.param)


def simple(history: RequestHistory, **changes: object) -> AllocatorRules:
    """One group, chunks as large as what is asked for."""
    rules = AllocatorRules(history.size, history.stream, history.size, Groups.alike(1))
    return replace(rules, **changes)  # type: ignore[arg-type]


# --- what is known of small histories ---


def test_a_chunk_is_cut_from_its_high_end_and_what_is_free_serves_the_next_one() -> None:
    # 10, free, 4 (high end of the 10), 6 (what is left), 1 (a new chunk).
    history = history_from([0, 1, 0, 0, 0], [-1, 0, -1, -1, -1], [10, 0, 4, 6, 1])
    got = replay(history, simple(history, take_high=True), addresses=Addresses(Placement.ASCENDING), trace=True)
    assert got.address is not None
    assert got.occupied is not None
    base = int(got.address[0])
    assert (got.address - np.uint64(base))[[0, 2, 3, 4]].tolist() == [0, 6, 0, 512]
    assert got.occupied.tolist() == [10, 0, 4, 6, 1]
    assert (got.reserved_peak, got.reserved_peak_at, got.allocated_peak, got.taken) == (11, 4, 11, 2)


def test_a_request_that_fails_ends_the_replay_and_says_what_there_was() -> None:
    # Chunks of 10 and 5, 5 given back; 3 of the 5 go, then 8 would make 23 of 20: the largest free block has 2.
    history = history_from([0, 0, 1, 0, 0, 0], [-1, -1, 1, -1, -1, -1], [10, 5, 0, 3, 8, 1])
    got = replay(history, simple(history), limit=20)
    assert (got.failed, got.operations, got.completed) == (4, 5, False)
    assert (got.failed_block, got.failed_growth, got.failed_reserved, got.failed_free, got.failed_largest) == (
        8,
        8,
        15,
        2,
        2,
    )
    assert replay(history, simple(history), limit=23).completed
    # Nothing is idle that could be given back; were the 3 not there, the 5 would.
    assert replay(history, simple(history, relief=(Relief.ALL,)), limit=20).failed == 4
    without = history_from([0, 0, 1, 0], [-1, -1, 1, -1], [10, 5, 0, 8])
    assert replay(without, simple(without), limit=20).failed == 3
    assert replay(without, simple(without, relief=(Relief.ALL,)), limit=20).reserved_end == 18


def test_a_request_that_failed_as_recorded_does_not_end_the_replay() -> None:
    history = history_from([0, 0, 1, 0], [-1, -1, 0, -1], [10, 30, 0, 10], failed=np.array([1]))
    got = replay(history, simple(history), limit=20, trace=True)
    assert (got.failed, got.operations, got.allocated_end) == (1, 4, 10)


def test_of_large_free_chunks_the_smallest_that_is_enough_is_given_back_or_the_largest_until_they_are() -> None:
    # Chunks of 40, 50 and 60 are free; from 40 bytes on a block is not split, and one that is larger by 5 is not taken.
    for size, limit, left in ((45, 170, 145), (90, 180, 130), (110, 160, 150), (140, 150, 140)):
        history = history_from([0, 0, 0, 1, 1, 1, 0], [-1, -1, -1, 0, 1, 2, -1], [40, 50, 60, 0, 0, 0, size])
        rules = simple(history, max_split=40, max_rounding=5, relief=(Relief.ENOUGH,))
        got = replay(history, rules, limit=limit)
        # 45: the 50 goes. 90: 60 and 50, and the 40 stays. 110: exactly these two. 140: all three.
        assert got.completed
        assert got.reserved_end == left
    # All three are not 151: they are gone, and the device is not asked again.
    history = history_from([0, 0, 0, 1, 1, 1, 0], [-1, -1, -1, 0, 1, 2, -1], [40, 50, 60, 0, 0, 0, 151])
    got = replay(history, simple(history, max_split=40, max_rounding=5, relief=(Relief.ENOUGH,)), limit=160)
    assert (got.failed, got.failed_reserved) == (6, 0)


def test_idle_chunks_at_least_as_old_as_their_mean_are_given_back_until_no_more_than_so_much_is_reserved() -> None:
    # 8 is free from the third request on, 9 from the fourth. At the fifth 47 are reserved, 7 too many: their ages are 2 and 1, and 8 is enough.
    history = history_from([0, 0, 0, 1, 0, 1, 0], [-1, -1, -1, 0, -1, 1, -1], [8, 9, 10, 0, 20, 0, 21])
    groups = replace(Groups.alike(1), collected=np.ones(1, np.bool_))
    got = replay(history, simple(history, groups=groups, collect_above=40), trace=True)
    assert got.changes is not None
    given_back = got.changes.take(got.changes.kind == ChunkChange.GIVEN_BACK)
    assert (given_back.at.tolist(), given_back.size.tolist(), got.reserved_end) == ([6], [8], 60)
    # With 39 it is 8 too many; with 38 both go, the older one first.
    got = replay(history, simple(history, groups=groups, collect_above=38), trace=True)
    assert got.changes is not None
    assert got.changes.take(got.changes.kind == ChunkChange.GIVEN_BACK).size.tolist() == [8, 9]
    assert replay(history, simple(history, collect_above=38)).given_back == 0


def test_a_chunk_larger_than_the_one_recorded_at_its_place_keeps_others_off() -> None:
    recorded = ChunkChanges(
        np.zeros(2, np.int64), np.zeros(2, np.int8), np.array([4096, 8192], np.uint64), np.array([512, 512])
    )
    history = history_from([0, 0, 0], [-1] * 3, [5000, 9000, 700], changes=recorded)
    got = replay(history, simple(history), trace=True)
    assert got.address is not None
    # The second does not fit at 8192, into which the first reaches; it and the third lie above all.
    first, second, third = got.address.tolist()
    assert first == 4096
    assert second >= first + 5000
    assert third >= second + 9000
    alone = replay(
        history,
        replace(simple(history), growth=np.array([512, 9000, 700]), block=np.array([512, 9000, 700])),
        trace=True,
    )
    assert alone.address is not None
    assert alone.address.tolist()[:2] == [4096, 8192]
    assert int(alone.address[2]) >= 8192 + 9000


def test_two_blocks_of_one_size_are_told_apart_by_where_chunks_lie() -> None:
    # Two chunks of 8, both given back, then one asked for: it is the lower one, whichever that is.
    history = history_from([0, 0, 1, 1, 0], [-1, -1, 0, 1, -1], [8, 8, 0, 0, 8])
    for placement, expected in ((Placement.ASCENDING, 0), (Placement.DESCENDING, 1)):
        got = replay(history, simple(history), addresses=Addresses(placement), trace=True)
        assert got.address is not None
        assert got.address[4] == got.address[expected]


def test_what_was_given_back_is_used_again_by_a_driver_that_does_so() -> None:
    # 4 KiB and 1 KiB given back at once, then 1 KiB: the smallest range that is large enough, and what is left of the other joined.
    history = history_from([0, 0, 0, 1, 1, 0, 0], [-1, -1, -1, 0, 2, -1, -1], [4096, 512, 1024, 0, 0, 1024, 3072])
    rules = simple(history, idle=IdleChunks.AFTER_FREE)
    got = replay(history, rules, addresses=Addresses(Placement.REUSE), trace=True)
    assert got.address is not None
    assert got.address[5] == got.address[2]
    assert got.address[6] == got.address[0]
    ascending = replay(history, rules, addresses=Addresses(Placement.ASCENDING), trace=True)
    assert ascending.address is not None
    assert len(set(ascending.address.tolist())) == 6  # five chunks, and 0


def test_a_seed_gives_the_same_places_and_another_one_others() -> None:
    history = requests_of(200, live=50)
    first, again, other = (
        replay(history, simple(history), addresses=Addresses(Placement.SHUFFLED, seed), trace=True)
        for seed in (1, 1, 2)
    )
    assert first.address is not None
    assert again.address is not None
    assert other.address is not None
    assert first.address.tolist() == again.address.tolist() != other.address.tolist()


# --- a replay goes on from an opening ---


def opening_of(
    history: RequestHistory, rules: AllocatorRules, upto: int, got: Replay
) -> tuple[RequestHistory, AllocatorRules]:
    """What is left of a history after some operations, and the chunks and blocks that it begins with."""
    assert got.changes is not None
    assert got.address is not None
    assert got.occupied is not None
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
        occupied=got.occupied[keep],
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
@settings(deadline=None, max_examples=100)
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


def test_pieces_of_a_range_are_one_expandable_chunk_and_are_mapped_where_the_lowest_address_has_room() -> None:
    # A range of 10 pages of 4 of which pages 0 and 2 are mapped, one block of 2 in each: 3 more need page 1.
    history = history_from(
        [0, 0, 0, 0],
        [-1] * 4,
        [2, 2, 5, 2],
        address=np.array([4096, 4106, 0, 0], np.uint64),
        occupied=np.array([2, 2, -1, -1]),
    )
    opening = OpeningChunks(
        np.array([4096, 4104], np.uint64),
        np.array([4, 4]),
        np.zeros(2, np.int32),
        np.zeros(2, np.int32),
        np.array([4, 4]),
    )
    history = replace(history, opening=2, opening_chunks=opening)
    rules = simple(
        history, groups=Groups.alike(1, page=4), keep_opening=True, opening_group=np.zeros(2, np.int32), range_bytes=40
    )
    got = replay(history, rules, trace=True)
    assert got.address is not None
    assert got.changes is not None
    # Free are 4098 … 4100 and 4104 … 4106; from 4098 on there is room for 5 up to 4106 when 4100 … 4104 is mapped; 2 are left at 4103, of 3.
    assert got.address.tolist() == [4096, 4106, 4098, 4103]
    assert [column.tolist() for column in got.changes] == [[2], [ChunkChange.MAPPED], [4100], [4]]
    assert (got.reserved_peak, got.allocated_end) == (12, 11)


def test_an_opening_is_asked_for_anew_where_the_rules_do_not_keep_it() -> None:
    history = replace(history_from([0, 0], [-1, -1], [8, 4], address=np.array([1024, 0], np.uint64)), opening=1)
    got = replay(history, simple(history), trace=True)
    assert (got.taken, got.reserved_end, got.operations) == (2, 12, 2)


@pytest.mark.parametrize(
    ("addr", "size", "at", "held", "words"),
    [
        ([1024], [8], [1030], [4], "do not lie"),
        ([1024], [8], [512], [4], "do not lie"),
        ([1024], [8], [1024], [0], "do not lie"),
        ([], [], [1024], [4], "do not lie"),
        ([1024, 1028], [8, 8], [1024], [4], "overlap"),
        ([1 << 63], [8], [1024], [4], "impossible"),
    ],
)
def test_an_opening_that_cannot_be_is_said_to_be_wrong(
    addr: list[int], size: list[int], at: list[int], held: list[int], words: str
) -> None:
    none = np.zeros(len(addr), np.int32)
    opening = OpeningChunks(np.array(addr, np.uint64), np.array(size, np.int64), none, none, none.astype(np.int64))
    history = history_from([0], [-1], [4], address=np.array(at, np.uint64), occupied=np.array(held, np.int64))
    history = replace(history, opening=1, opening_chunks=opening)
    with pytest.raises(UsageError, match=words):
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
    with pytest.raises(UsageError, match="overlap"):
        ranges_of(history, [0, 1, 0])


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


def test_a_preallocated_chunk_serves_and_counts_and_may_be_refused() -> None:
    history = history_from([0], [-1], [4])
    got = replay(history, simple(history, preallocated=((0, 16),)), trace=True)
    assert got.changes is not None
    assert (got.reserved_peak, got.reserved_peak_at, got.taken) == (16, -1, 1)
    assert got.changes.at.tolist() == [-1]
    refused = replay(history, simple(history, preallocated=((0, 16),)), limit=8)
    assert (refused.failed, refused.operations, refused.failed_growth) == (0, 1, 16)


def test_a_history_of_nothing_is_replayed() -> None:
    history = history_from([], [], [])
    assert replay(history, simple(history)).completed
    assert replay(history, simple(history, groups=Groups.alike(0)), trace=True).operations == 0
    assert len(history) == history.requests == 0
    assert NotReplayable("its lines are torn").hint == ""


# --- long ones ---


def test_many_blocks_make_the_trees_high_and_are_all_found_again() -> None:
    # Each second block is freed, so that as many gaps are left; then all of them are asked for, the largest first, and none needs a chunk.
    count = 60_000 if compiled and engine._native is not None else 3_000
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


def test_a_replay_is_interrupted_within_a_second(form: str) -> None:
    program = """
import signal, sys, time, threading, os
sys.path[:0] = sys.argv[1:]
from made_requests import history_from
import numpy as np
from dataclasses import replace
from memlens.allocators.engine import replay
from memlens.allocators.rules import AllocatorRules, Groups
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
    environment = {**os.environ, "MEMLENS_PURE": "1" if form == "pure" else "0"}
    done = subprocess.run(
        [sys.executable, "-c", program, support],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment,
        check=False,
    )
    sent, heard = map(float, done.stdout.split())
    assert heard - sent < 5, done.stderr  # far less than all of it takes
    assert done.returncode == 0


#: What failed, what relieves, what was recorded; and what is traced, where nothing is.
_OF_ANY_LENGTH = {5, 22, 23, 26, 27}


@native
def test_what_the_compiled_module_is_given_is_checked_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    native_module = load("memlens._replay")
    assert native_module is not None
    history = history_from([0], [-1], [4])
    given: list[np.ndarray] = []

    class Spy:
        @staticmethod
        def start(*columns: np.ndarray) -> None:
            given.extend(columns)
            raise InterruptedError

    monkeypatch.setattr(engine, "_native", Spy)
    with pytest.raises(InterruptedError):
        replay(history, simple(history))
    state = native_module.start(*given)
    assert native_module.run(state, 10) == (0, 0, 0)
    with pytest.raises(ValueError, match="as long as"):
        native_module.changes(state, *(np.zeros(3, each) for each in (np.int64, np.int8, np.uint64, np.int64)))
    with pytest.raises(TypeError):
        native_module.start(np.zeros(1))
    with pytest.raises(ValueError):
        native_module.run(native_module, 1)
    for at, column in enumerate(given):
        with pytest.raises(ValueError, match="items of"):
            native_module.start(*given[:at], np.zeros(len(column), np.float16), *given[at + 1 :])
        if at not in _OF_ANY_LENGTH:
            other = np.zeros(len(column) + 1, column.dtype)
            with pytest.raises(ValueError, match="needed"):
                native_module.start(*given[:at], other, *given[at + 1 :])
