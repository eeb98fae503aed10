"""The rules of a replay, held against an allocator of intervals; and the compiled replay against the one in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_requests import ADDRESSES, CHOICES, PLACES, UNIT, Choice, history_of, rules_for
from plain_allocator import Plain

from memlens.allocators import engine
from memlens.allocators.engine import Replay, replay
from memlens.allocators.history import ChunkChange
from memlens.allocators.placing import Addresses, Placement

native = pytest.mark.skipif(engine._native is None, reason="the compiled module was not built")
Run = Callable[..., Replay]
LIMITS = st.one_of(st.none(), st.integers(0, 150).map(lambda units: units * UNIT))


def pure(*arguments: Any, **named: Any) -> Replay:
    """The reference implementation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_native", None)
        return replay(*arguments, **named)


def assert_same(one: Replay, other: Replay) -> None:
    for each in fields(Replay):
        first, second = getattr(one, each.name), getattr(other, each.name)
        if each.name == "changes" and first is not None:
            assert [column.tolist() for column in first] == [column.tolist() for column in second]
            assert [column.dtype for column in first] == [column.dtype for column in second]
        elif isinstance(first, np.ndarray):
            assert first.tolist() == second.tolist(), each.name
            assert first.dtype == second.dtype
        else:
            assert first == second, each.name


@native
@given(CHOICES, PLACES, st.data(), ADDRESSES, LIMITS)
@settings(deadline=None, max_examples=150)
def test_the_compiled_replay_does_what_the_reference_does(
    choices: list[Choice], places: list[int], data: st.DataObject, addresses: Addresses, limit: int | None
) -> None:
    history = history_of(choices, places)
    rules = data.draw(rules_for(history))
    expected = pure(history, rules, addresses=addresses, limit=limit, trace=True)
    assert_same(replay(history, rules, addresses=addresses, limit=limit, trace=True), expected)


def assert_as_intervals(plain: Plain, got: Replay) -> None:
    """All is as there."""
    assert got.changes is not None
    assert got.address is not None
    address = plain.run()
    assert got.address.tolist() == address
    assert list(zip(*(column.tolist() for column in got.changes), strict=True)) == plain.changes
    assert got.failed == plain.failed
    assert got.reserved_peak == plain.reserved_peak
    assert got.reserved_end == plain.reserved
    assert got.allocated_peak == plain.allocated_peak
    assert got.allocated_end == sum(plain.used.values())
    taken = [change for change in plain.changes if change[1] in {ChunkChange.TAKEN, ChunkChange.MAPPED}]
    assert (got.taken, got.given_back) == (len(taken), len(plain.changes) - len(taken))
    assert got.taken_bytes - got.given_back_bytes == got.reserved_end
    if plain.limit is not None:
        assert got.reserved_peak <= plain.limit


both = pytest.mark.parametrize(
    "run", [pytest.param(replay, id="compiled", marks=native), pytest.param(pure, id="pure")]
)


@both
@given(choices=CHOICES, places=PLACES, data=st.data(), addresses=ADDRESSES, limit=LIMITS)
@settings(deadline=None, max_examples=100)
def test_a_replay_does_what_an_allocator_of_intervals_does(
    run: Run, choices: list[Choice], places: list[int], data: st.DataObject, addresses: Addresses, limit: int | None
) -> None:
    history = history_of(choices, places)
    rules = data.draw(rules_for(history, expandable=False))
    got = run(history, rules, addresses=addresses, limit=limit, trace=True)
    assert got.changes is not None
    taken = iter(got.changes.addr[got.changes.kind == ChunkChange.TAKEN].tolist())
    assert_as_intervals(Plain(history, rules, lambda _: next(taken), limit), got)


@both
@given(choices=CHOICES, data=st.data(), limit=LIMITS)
@settings(deadline=None, max_examples=100)
def test_expandable_chunks_are_mapped_as_by_intervals(
    run: Run, choices: list[Choice], data: st.DataObject, limit: int | None
) -> None:
    history = history_of(choices)
    rules = data.draw(rules_for(history))
    ends = [1 << 44]

    def ascending(size: int) -> int:
        ends.append(-(-(ends[-1] + size) // UNIT) * UNIT)
        return ends[-2]

    got = run(history, rules, addresses=Addresses(Placement.ASCENDING), limit=limit, trace=True)
    assert_as_intervals(Plain(history, rules, ascending, limit), got)


#: What columns and numbers may hold that nobody would give: both ends, and what is near a limit.
_ODD = st.one_of(
    st.integers(-3, 12), st.sampled_from([-(2**63), -(2**48), 2**31 - 1, 2**48, 2**48 + 1, 2**49, 2**62, 2**63 - 1])
)
#: The types of the columns that the compiled module is given, and which of them belong together.
_TYPES = [
    "i1",
    "i8",
    "i4",
    "i8",
    "i8",
    "i8",
    "i4",
    "i8",
    "i8",
    "i8",
    "u1",
    "u1",
    "u8",
    "i8",
    "i4",
    "i8",
    "i8",
    "u8",
    "i8",
    "i8",
    "i4",
    "i8",
    "i1",
    "u8",
    "i8",
    "u8",
    "u8",
    "i8",
]
_TOGETHER = (range(5), range(6, 12), range(12, 16), range(16, 20), range(20, 22))


@native
@given(st.data())
@settings(deadline=None, max_examples=200)
def test_whatever_the_compiled_module_is_given_it_says_no_or_comes_to_an_end(data: st.DataObject) -> None:
    native_module = engine._native
    assert native_module is not None
    lengths = dict.fromkeys(range(len(_TYPES)), 0) | {24: 13, 25: 3}
    for columns in _TOGETHER:
        lengths |= dict.fromkeys(columns, data.draw(st.integers(0, 6)))
    lengths |= {5: data.draw(st.integers(0, 2)), 22: data.draw(st.integers(0, 3)), 23: data.draw(st.integers(0, 3))}
    lengths |= dict.fromkeys((26, 27), lengths[0])
    given_columns = []
    for at, kind in enumerate(_TYPES):
        odd = st.one_of(st.integers(0, 2), _ODD) if data.draw(st.booleans()) else st.integers(0, 3)
        column = [data.draw(odd) for _ in range(lengths[at])]
        given_columns.append(np.array(column, object).astype(np.int64).astype(kind) if column else np.zeros(0, kind))
    if data.draw(st.booleans()):  # groups that can be
        given_columns[6].sort()
        np.abs(given_columns[7], out=given_columns[7])
    try:
        state = native_module.start(*given_columns)
    except ValueError:
        return
    fault, more, changed = native_module.run(state, 50)
    assert 0 <= fault <= 5
    assert not more
    rows = [np.empty(changed, each) for each in (np.int64, np.int8, np.uint64, np.int64)]
    native_module.changes(state, *rows)
    assert native_module.result(state)[0] >= 0


@native
def test_chunks_that_overlap_are_refused_where_their_free_blocks_cannot_be_told_apart() -> None:
    native_module = engine._native
    assert native_module is not None
    lengths = dict.fromkeys(range(len(_TYPES)), 0) | dict.fromkeys(range(6, 12), 1) | dict.fromkeys(range(12, 20), 2)
    columns = [np.zeros(lengths.get(at, 0), kind) for at, kind in enumerate(_TYPES)]
    columns[7][:] = columns[8][:] = 1  # a remainder, and what may be split
    columns[12][:] = columns[17][:] = 1024  # two chunks at one place, each one free block
    columns[13][:] = columns[18][:] = 512
    columns[16][:], columns[19][:] = [0, 1], -1
    columns[24] = np.array([0, 0, 0, 1 << 62, 0, 0, 0, -1, 1 << 62, 0, 1 << 62, 1, 0], np.int64)
    columns[25] = np.array([0, 1024, 1536], np.uint64)
    with pytest.raises(ValueError, match="overlap"):
        native_module.start(*columns)
    columns[12][1] = columns[17][1] = 2048
    native_module.start(*columns)
    columns[19][1] = -2  # what is not mapped, of a chunk without pages
    with pytest.raises(ValueError, match="tiles"):
        native_module.start(*columns)
