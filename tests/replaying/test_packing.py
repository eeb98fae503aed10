"""What no setting can beat: the most bytes live at once by adding up, packings in which nothing overlaps, and the lowest one by trying all."""

from __future__ import annotations

from itertools import permutations
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlens.replaying import packing
from memlens.replaying.packing import BlockStays, best_packing, live_peak, pack, stays_of

#: Blocks: bytes, when they begin, how long they stay.
blocks = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12), st.integers(1, 8)), min_size=1, max_size=14)


def stays(rows: list[tuple[int, int, int]]) -> BlockStays:
    size, begin, life = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return BlockStays(size, begin, begin + life)


def added_up(rows: list[tuple[int, int, int]]) -> int:
    return max(sum(size for size, begin, life in rows if begin <= at < begin + life) for at in range(30))


def lowest(rows: list[tuple[int, int, int]]) -> int:
    """The lowest packing: put in some order, each block as low as it can go, is one of those that are lowest."""
    best = 1 << 30
    for order in permutations(rows):
        placed: list[tuple[int, tuple[int, int, int]]] = []
        for size, begin, life in order:
            beside = sorted(
                (at, at + other[0]) for at, other in placed if other[1] < begin + life and begin < other[1] + other[2]
            )
            reach = 0
            for low, high in beside:
                if low - reach >= size:
                    break
                reach = max(reach, high)
            placed.append((reach, (size, begin, life)))
        best = min(best, max(at + row[0] for at, row in placed))
    return best


@given(blocks)
def test_the_most_bytes_live_at_once_are_those_of_adding_up_at_each_moment(rows: list[tuple[int, int, int]]) -> None:
    assert live_peak(stays(rows)) == added_up(rows)


@given(blocks)
def test_in_a_packing_no_two_blocks_overlap_that_live_at_once(rows: list[tuple[int, int, int]]) -> None:
    offsets = pack(stays(rows)).tolist()
    spans = [(at, at + size, begin, begin + life) for at, (size, begin, life) in zip(offsets, rows, strict=True)]
    for k, one in enumerate(spans):
        assert one[0] >= 0
        for other in spans[:k]:
            apart = one[1] <= other[0] or other[1] <= one[0]
            assert apart or one[3] <= other[2] or other[3] <= one[2]


@given(blocks)
def test_of_many_blocks_the_small_ones_are_packed_by_size_and_a_packing_is_never_below_what_lives_at_once(
    rows: list[tuple[int, int, int]],
) -> None:
    with mock.patch.object(packing, "MOST_PACKED", 3):
        found = best_packing(stays(rows))
    assert found.blocks == len(rows)
    assert found.height_bytes >= added_up(rows)
    if len(rows) > 3:
        largest = sorted(range(len(rows)), key=lambda k: -rows[k][0])
        others = [rows[k] for k in largest[3:]]
        of_sizes = sum(added_up([row for row in others if row[0] == size]) for size in {row[0] for row in others})
        assert found.how == "largest one by one"
        assert (
            found.height_bytes
            <= added_up([rows[k] for k in largest[:3]]) + sum(rows[k][0] for k in largest[:3]) + of_sizes
        )


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(1, 4)), min_size=2, max_size=6))
def test_the_solver_finds_the_lowest_packing(rows: list[tuple[int, int, int]]) -> None:
    pytest.importorskip("ortools", reason="pip install 'memlens[packing]'")
    found = best_packing(stays(rows))
    assert found.lowest
    assert found.height_bytes == lowest(rows)


def test_a_packing_that_only_the_solver_finds_is_said_to_be_its() -> None:
    pytest.importorskip("ortools", reason="pip install 'memlens[packing]'")
    chance = np.random.default_rng(1)
    better = 0
    for _ in range(40):
        begin, size, life = chance.integers(0, 12, 12), chance.integers(1, 9, 12), chance.integers(1, 8, 12)
        some = BlockStays(size, begin, begin + life)
        greedy = int((pack(some) + some.size).max())
        found = best_packing(some)
        assert live_peak(some) <= found.height_bytes <= greedy
        assert (found.how == "solver") == (greedy > live_peak(some))  # of so few blocks it shows that none is lower
        better += found.height_bytes < greedy
    assert better


def test_without_the_solver_the_packing_found_is_given() -> None:
    some = stays([(3, 0, 4), (2, 2, 6), (4, 5, 3), (1, 0, 9)])
    with mock.patch.object(packing, "_solved", return_value=None):
        found = best_packing(some)
    assert (found.how, found.height_bytes) == ("one by one", int((pack(some) + some.size).max()))


def test_blocks_are_there_from_their_request_to_their_free() -> None:
    operation = np.array([0, 0, 1, 0, 2], np.int8)
    of = np.array([-1, -1, 0, -1, -1], np.int64)
    found = stays_of(operation, of, np.array([512, 256, 0, 768, 0], np.int64))
    assert [column.tolist() for column in found] == [[512, 256, 768], [0, 1, 3], [2, 5, 5]]
    assert live_peak(found) == 256 + 768  # the block of 512 is gone before the one of 768 comes


def test_no_block_needs_nothing() -> None:
    none = np.zeros(0, np.int64)
    assert live_peak(BlockStays(none, none, none)) == 0
    assert best_packing(BlockStays(none, none, none)).height_bytes == 0
