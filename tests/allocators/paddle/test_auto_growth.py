"""The model of the auto-growth allocator: what its settings mean, what is tried, and the very line to set."""

from __future__ import annotations

import io
from random import Random

import pytest
from night import some
from paddle_allocator import MIB, PaddleAllocator, run

import memlens
from memlens.allocators.engine import replay
from memlens.allocators.history import RequestHistory
from memlens.allocators.paddle.auto_growth import AUTO_GROWTH
from memlens.allocators.paddle.history import COLUMNS

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


@pytest.mark.parametrize("seed", some(range(12)))
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
