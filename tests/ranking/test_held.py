"""What one rank holds that its peers do not, held against plain dictionaries."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memlens.analyzers.peak import LiveGroup
from memlens.ranking.held import HeldBlocks

BLOCKS = st.lists(st.tuples(st.integers(1, 5), st.sampled_from([None, "a", "b"])), max_size=12)


def groups(blocks: Counter[tuple[int, str | None]], most: int) -> tuple[list[LiveGroup], int]:
    """The largest groups, and the bytes of the others."""
    found = sorted(
        (LiveGroup(size, n, size * n, owner) for (size, owner), n in blocks.items()), key=lambda one: -one.total_bytes
    )
    return found[:most], sum(one.total_bytes for one in found[most:])


@given(st.lists(BLOCKS, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_what_is_all_known_is_a_difference_of_counts(ranks: list[list[tuple[int, str | None]]], chance: object) -> None:
    held, counts = HeldBlocks(), [Counter(blocks) for blocks in ranks]
    for rank in reversed(range(len(ranks))):
        held.add(rank, *groups(counts[rank], 99))
    found = held.more(0, 1, np.arange(len(ranks)), 99)
    more = {(one.size_bytes, one.owner): one.blocks for one in found}
    assert more == dict(counts[0] - counts[1])
    assert not any(one.at_least for one in found)
    assert [one.more_bytes for one in found] == sorted((size * n for (size, _), n in more.items()), reverse=True)
    for one in found:
        kind = one.size_bytes, one.owner
        assert one.peers_alike == sum(other[kind] >= counts[0][kind] for other in counts[1:])


@given(BLOCKS, BLOCKS, st.integers(1, 4))
def test_where_not_all_is_known_no_more_is_said_than_is_so(
    own: list[tuple[int, str | None]], other: list[tuple[int, str | None]], most: int
) -> None:
    held, mine, theirs = HeldBlocks(), Counter(own), Counter(other)
    held.add(0, *groups(mine, 99))
    held.add(1, *groups(theirs, most))
    for one in held.more(0, 1, np.arange(2), 99):
        kind = one.size_bytes, one.owner
        assert one.blocks <= mine[kind] - theirs[kind]
        assert one.at_least or one.blocks == mine[kind] - theirs[kind]


def test_of_a_rank_of_which_nothing_is_known_nothing_is_said() -> None:
    held = HeldBlocks()
    held.add(0, [LiveGroup(512, 4, 2048, None)], 0)
    held.add(1, [], 2048)
    held.add(2, [], 1024)
    assert held.more(0, 1, np.arange(3), 9) == []
    (one,) = held.more(0, 2, np.arange(3), 9)  # it may hold two of them
    assert (one.blocks, one.at_least) == (2, True)


def test_only_the_largest_differences_are_given() -> None:
    held = HeldBlocks()
    held.add(0, [LiveGroup(k, 1, k, None) for k in (9, 8, 7)], 0)
    held.add(1, [], 0)
    assert [one.size_bytes for one in held.more(0, 1, np.arange(2), 2)] == [9, 8]
