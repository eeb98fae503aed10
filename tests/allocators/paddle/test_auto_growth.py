"""The model of the auto-growth allocator: what its settings mean, what is tried, and the very line to set."""

from __future__ import annotations

import io
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paddle_allocator import MIB, PaddleAllocator, run

import memlens
from memlens.allocators.engine import replay
from memlens.allocators.history import ChunkChange, Operation, RequestHistory
from memlens.allocators.paddle.auto_growth import AUTO_GROWTH
from memlens.allocators.paddle.history import COLUMNS
from memlens.allocators.placing import Addresses, Placement
from memlens.allocators.rules import IdleChunks, Relief

CHUNK, IDLE, MISS = "FLAGS_auto_growth_chunk_size_in_mb", "FLAGS_free_idle_chunk", "FLAGS_free_when_no_cache_hit"
POOL, SMALL, LARGE = (
    "FLAGS_small_pool_size_in_mb",
    "FLAGS_small_pool_auto_growth_chunk_size_in_mb",
    "FLAGS_large_pool_auto_growth_chunk_size_in_mb",
)


def history(sizes: list[int]) -> RequestHistory:
    """Requests of these sizes, each in a chunk of its own."""
    text = ""
    for number, size in enumerate(sizes):
        block = -(-size // 256) * 256
        address = f"{(number + 1) << 32:#x}"
        text += f"Allocate {size} bytes, aligned to {block}, extra size 0\n"
        text += f"Not found and reallocate {block}({address}), and remaining 0\nAlloc {block} bytes, ptr = {address}\n"
    found = AUTO_GROWTH.history(memlens.read(io.BytesIO(text.encode()), columns=COLUMNS))
    assert isinstance(found, RequestHistory)
    return found


ASKED = history([1, 256, 257, MIB, MIB + 1, 5 * MIB])


def test_blocks_are_padded_and_rounded_and_chunks_at_least_as_large_as_they_must_be() -> None:
    plain = AUTO_GROWTH.rules(ASKED, {})
    assert plain.block.tolist() == [256, 256, 512, MIB, MIB + 256, 5 * MIB]
    assert plain.growth.tolist() == plain.block.tolist()
    assert plain.take_high
    padded = AUTO_GROWTH.rules(ASKED, {"padding_bytes": 32})
    assert padded.block.tolist() == [256, 512, 512, MIB + 256, MIB + 256, 5 * MIB + 256]
    coarse = AUTO_GROWTH.rules(ASKED, {"alignment_bytes": 512, CHUNK: 4})
    assert coarse.block.tolist() == [512, 512, 512, MIB, MIB + 512, 5 * MIB]
    assert coarse.growth.tolist() == [4 * MIB] * 5 + [5 * MIB]


def test_two_pools_have_their_own_chunks_and_take_no_notice_of_the_other_flag() -> None:
    rules = AUTO_GROWTH.rules(ASKED, {POOL: 1, SMALL: 2, LARGE: 16, CHUNK: 64, "FLAGS_large_pool_pre_alloc_in_mb": 8})
    assert rules.group.tolist() == [0, 0, 0, 0, 1, 1]  # the block decides, not what was asked for
    assert rules.growth.tolist() == [2 * MIB] * 4 + [16 * MIB] * 2
    assert rules.groups.family.tolist() == [0, 0]
    assert rules.preallocated == ((1, 8 * MIB),)
    one = AUTO_GROWTH.rules(ASKED, {"FLAGS_large_pool_pre_alloc_in_mb": 8})
    assert one.preallocated == ((0, 8 * MIB),)


def test_when_idle_chunks_are_given_back_and_whether_a_refusal_is_tried_again() -> None:
    def rules(**values: bool) -> tuple[IdleChunks, tuple[Relief, ...]]:
        found = AUTO_GROWTH.rules(
            ASKED, {{"idle": IDLE, "miss": MISS}.get(name, name): one for name, one in values.items()}
        )
        return found.idle, found.relief

    assert rules() == (IdleChunks.KEPT, (Relief.FAMILY,))
    assert rules(retry_refused=False) == (IdleChunks.KEPT, ())
    assert rules(idle=True) == (IdleChunks.AFTER_FREE, (Relief.FAMILY,))
    assert rules(miss=True) == (IdleChunks.BEFORE_GROWTH, ())  # it has given back already


def test_the_very_line_to_set() -> None:
    assert AUTO_GROWTH.line({CHUNK: 64}) == "FLAGS_auto_growth_chunk_size_in_mb=64"
    assert AUTO_GROWTH.line({IDLE: True, CHUNK: 0}) == "FLAGS_free_idle_chunk=1 FLAGS_auto_growth_chunk_size_in_mb=0"
    assert AUTO_GROWTH.line({IDLE: False, "padding_bytes": 32}) == "FLAGS_free_idle_chunk=0"
    assert AUTO_GROWTH.line({"padding_bytes": 32}) == "padding_bytes=32"


def test_what_is_tried_are_flags_with_all_of_their_values() -> None:
    tried = AUTO_GROWTH.candidates(ASKED, {})
    flags = {setting.name for setting in AUTO_GROWTH.settings if setting.name.startswith("FLAGS_")}
    assert all(set(values) == flags for values in tried)
    assert {values[CHUNK] for values in tried} == {0, 4, 16, 64, 256}
    assert len(tried) == len({repr(values) for values in tried}) == 5 * 3 + 3
    assert {setting.since for setting in AUTO_GROWTH.settings if "pool" in setting.name} == {"PaddlePaddle 3.3"}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    ("values", "made"),
    [
        ({}, {}),
        ({CHUNK: 4}, {"chunk": (4 * MIB, 0)}),
        ({IDLE: True}, {"idle": True}),
        ({CHUNK: 2, IDLE: True}, {"chunk": (2 * MIB, 0), "idle": True}),
        ({CHUNK: 4, MISS: True}, {"chunk": (4 * MIB, 0), "miss": True}),
        ({POOL: 1, SMALL: 2, LARGE: 8}, {"small": MIB, "chunk": (2 * MIB, 8 * MIB)}),
        ({"padding_bytes": 64}, {"pad": 64}),
    ],
)
def test_a_program_under_another_setting_comes_to_what_that_allocator_does(
    seed: int, values: dict[str, int], made: dict[str, int]
) -> None:
    """Of the same program, run by the allocator in plain Python; addresses are drawn anew, so of one chunk for each request the peak may differ."""

    def ran(**more: object) -> tuple[PaddleAllocator, RequestHistory]:
        allocator = PaddleAllocator(Random(seed), apart=Random(seed), **more)  # type: ignore[arg-type]
        log = memlens.read(io.BytesIO(run(allocator, 300, 1).encode()), columns=COLUMNS)
        found = AUTO_GROWTH.history(log)
        assert isinstance(found, RequestHistory)
        return allocator, found

    _, base = ran()
    allocator, head = ran(**made)
    # The same program; of a last FREE it is not known whether its chunk would have gone.
    assert len(base) - 1 <= len(head) <= len(base)
    assert base.size.tolist()[: len(head)] == head.size.tolist()
    predicted = replay(base, AUTO_GROWTH.rules(base, values)).reserved_peak
    if values.get(IDLE) or values.get(CHUNK) or POOL in values:
        assert predicted == allocator.peak
    else:
        assert predicted == pytest.approx(allocator.peak, rel=0.15)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        CHUNK: st.sampled_from([0, 1, 4]),
        IDLE: st.booleans(),
        MISS: st.booleans(),
        POOL: st.sampled_from([0, 1]),
        SMALL: st.sampled_from([0, 2]),
        LARGE: st.sampled_from([0, 1, 8]),
        "FLAGS_small_pool_pre_alloc_in_mb": st.sampled_from([0, 1]),
        "FLAGS_large_pool_pre_alloc_in_mb": st.sampled_from([0, 2]),
        "padding_bytes": st.sampled_from([0, 32]),
        "retry_refused": st.booleans(),
    },
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), VALUES, st.sampled_from([*Placement]), st.sampled_from([None, 2 * MIB, 6 * MIB]))
def test_blocks_lie_apart_within_chunks_under_any_setting(
    seed: int, values: dict[str, int], placement: Placement, limit: int | None
) -> None:
    """No block is given twice, none leaves its chunk, and what is reserved is the sum of the chunks that are there, never more than the limit."""
    log = memlens.read(io.BytesIO(run(PaddleAllocator(Random(seed)), 200, 1).encode()), columns=COLUMNS)
    asked = AUTO_GROWTH.history(log)
    assert isinstance(asked, RequestHistory)
    rules = AUTO_GROWTH.rules(asked, values)
    found = replay(asked, rules, addresses=Addresses(placement, seed), limit=limit, trace=True)
    assert found.address is not None
    assert found.changes is not None
    changes = list(zip(*(column.tolist() for column in found.changes), strict=True))
    chunks: dict[int, int] = {}
    live: dict[int, int] = {}
    peak = 0
    for at in range(-1, found.operations):
        if at >= 0 and asked.operation[at] == Operation.FREE:
            del live[int(found.address[asked.of[at]])]
        while changes and changes[0][0] <= at:
            _, kind, start, size = changes.pop(0)
            if kind == ChunkChange.TAKEN:
                assert all(start + size <= other or other + chunks[other] <= start for other in chunks)
                chunks[start] = size
            else:
                assert chunks.pop(start) == size
                assert not any(start <= block < start + size for block in live)
            peak = max(peak, sum(chunks.values()))
        if at >= 0 and asked.operation[at] == Operation.REQUEST and at != found.failed:
            block, size = int(found.address[at]), int(rules.block[at])
            assert any(start <= block and block + size <= start + chunks[start] for start in chunks)
            assert all(block + size <= other or other + live[other] <= block for other in live)
            live[block] = size
    assert peak == found.reserved_peak
    assert limit is None or peak <= limit
    assert sum(chunks.values()) == found.reserved_end
    assert sum(live.values()) == found.allocated_end
