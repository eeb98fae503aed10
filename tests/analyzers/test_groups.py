"""Groups of blocks as columns are those of a plain count, row by row and all together."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from logs import window_of

from memlens.analyzers.groups import Groups, by_size_and_owner, columns_of, largest_of
from memlens.analyzers.peak import LiveGroup, live_before
from memlens.analyzers.unmatched import held_groups
from memlens.facts import Kind
from memlens.log import Log

OWNERS = ("add", "relu", "linear")
#: Size and owner of blocks, and whether they are freed.
BLOCKS = st.lists(st.tuples(st.integers(1, 6), st.integers(-1, 2), st.booleans()), min_size=1, max_size=200)


def log_of(blocks: list[tuple[int, int, bool]]) -> Log:
    """All of them allocated, and then those freed that are."""
    rows = [(Kind.ALLOC, size, 4096 * k) for k, (size, _, _) in enumerate(blocks)]
    rows += [(Kind.FREE, size, 4096 * k) for k, (size, _, freed) in enumerate(blocks) if freed]
    owner = np.array([owner for _, owner, _ in blocks] + [-1] * (len(rows) - len(blocks)), np.int32)
    return Log.from_rows(rows, owner=owner, owner_names=OWNERS)


@given(BLOCKS)
def test_groups_are_those_of_a_count(blocks: list[tuple[int, int, bool]]) -> None:
    log = log_of(blocks)
    events = defaultdict(list)
    for event, (size, owner, _) in enumerate(blocks):
        events[size, None if owner < 0 else OWNERS[owner]].append(event)
    order = sorted(events, key=lambda group: (-group[0] * len(events[group]), -group[0], events[group][0]))
    live = live_before(log, len(blocks))
    expected = tuple(LiveGroup(size, n := len(events[size, owner]), size * n, owner) for size, owner in order)
    assert tuple(live) == expected
    for groups in (live, expected):
        of = columns_of(groups)
        assert (of.blocks, of.bytes) == (len(blocks), sum(size for size, _, _ in blocks))
        assert of.is_owned == any(owner >= 0 for _, owner, _ in blocks)
    assert largest_of(live, of.bytes) == largest_of(expected, of.bytes)
    first = by_size_and_owner(log, np.arange(len(blocks))).first.tolist()
    assert first == [events[group][0] for group in order]


@given(BLOCKS)
def test_held_blocks_are_in_groups_by_what_becomes_of_them(blocks: list[tuple[int, int, bool]]) -> None:
    log = log_of(blocks)
    # The window ends where they are all allocated: some are freed later, and some never.
    held = held_groups(window_of(log, 0, len(blocks)))
    groups = defaultdict(list)
    for event, block in enumerate(blocks):
        groups[block].append(event)
    order = sorted(groups, key=lambda block: (-block[0] * len(groups[block]), groups[block][0]))
    rows = [(group.size_bytes, group.freed, group.count, group.first_event) for group in held]
    assert rows == [
        (block[0], "later" if block[2] else "never", len(groups[block]), groups[block][0]) for block in order
    ]


def test_rows_are_made_a_few_at_a_time() -> None:
    log = log_of([(size, -1, False) for size in range(1, 1001)])
    made: list[int] = []

    def rows(some: object) -> list[int]:
        made.append(len(some))  # type: ignore[arg-type]
        return [0] * made[-1]

    groups = Groups(by_size_and_owner(log, np.arange(1000)), rows)
    assert (len(groups), groups[:3], groups[999]) == (1000, [0, 0, 0], 0)
    assert made == [64, 1000 % 64]
