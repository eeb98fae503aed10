"""The rules of a replay, held against an allocator of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_requests import ADDRESSES, CHOICES, PLACES, UNIT, Choice, history_from, history_of, rules_for
from msgspec import structs
from night import many
from plain_allocator import Plain

from memlens.allocators import engine
from memlens.allocators.engine import Replay, replay
from memlens.allocators.models import NO_LIMIT, AllocatorRules, Groups
from memlens.allocators.placing import Addresses

native = pytest.mark.skipif(engine._native is None, reason="the compiled module was not built")
LIMITS = st.one_of(st.none(), st.integers(0, 150).map(lambda units: units * UNIT))


@native
@given(CHOICES, PLACES, st.data(), ADDRESSES, LIMITS)
@settings(max_examples=many(200))
def test_a_replay_does_what_an_allocator_of_intervals_does(
    choices: list[Choice], places: list[int], data: st.DataObject, addresses: Addresses, limit: int | None
) -> None:
    history = history_of(choices, places)
    rules = data.draw(rules_for(history))
    got = replay(history, rules, addresses=addresses, limit=limit, trace=True)
    expected = Plain(history, rules, addresses, limit).run()
    for name in Replay.__struct_fields__:
        first, second = getattr(got, name), getattr(expected, name)
        if not isinstance(first, int):
            for one, other in zip(
                *(each if isinstance(each, tuple) else (each,) for each in (first, second)), strict=True
            ):
                assert one.tolist() == other.tolist()
                assert one.dtype == other.dtype
        else:
            assert first == second, name
    assert limit is None or got.reserved_peak <= limit


@native
@given(CHOICES, PLACES, st.data(), ADDRESSES, st.integers(0, 150), st.lists(st.integers(0, 150 * UNIT), max_size=4))
@settings(max_examples=many(200))
def test_replays_that_share_what_is_alike_under_their_limits_are_those_of_each_limit(
    choices: list[Choice], places: list[int], data: st.DataObject, addresses: Addresses, lowest: int, above: list[int]
) -> None:
    history = history_of(choices, places)
    rules = data.draw(rules_for(history))
    within = engine.replays_within(history, rules, addresses, lowest * UNIT)
    for limit in (*above, 0, NO_LIMIT - lowest * UNIT):
        assert structs.asdict(within(lowest * UNIT + limit)) == structs.asdict(
            replay(history, rules, addresses=addresses, limit=lowest * UNIT + limit)
        )


@native
def test_what_is_alike_under_some_limits_is_not_replayed_again() -> None:
    history = history_from([0] * 10, [-1] * 10, [UNIT] * 10)
    rules = AllocatorRules(history.size, history.stream, history.size, Groups.alike(1))
    state = engine._started(history, rules, Addresses(), None)
    assert list(engine._gone_on(state, 6 * UNIT)) == []
    assert engine._result(state).reserved_end == 7 * UNIT
    with pytest.raises(ValueError, match="limit below 0"):
        engine.compiled().fork(state, -1)


#: What columns and numbers may hold that nobody would give: both ends, and what is near a limit.
_ODD = st.one_of(
    st.integers(-3, 12), st.sampled_from([-(2**63), -(2**48), 2**31 - 1, 2**48, 2**48 + 1, 2**49, 2**62, 2**63 - 1])
)
#: The types of the columns that the compiled module is given, and which of them belong together.
_TYPES = (
    *("i1", "i8", "i4", "i8", "i8", "i4", "i8", "i8", "i8", "u1", "u1", "u8", "i8", "i4", "i8", "i8", "u8"),
    *("i8", "i8", "i4", "i8", "i1", "u8", "i8", "u8", "u8", "i8"),
)
_TOGETHER = (range(5), range(5, 11), range(11, 15), range(15, 19), range(19, 21))


@native
@pytest.mark.parametrize("starts", [False, True])
@given(st.data())
@settings(max_examples=many(200))
def test_whatever_the_compiled_module_is_given_it_says_no_or_comes_to_an_end(starts: bool, data: st.DataObject) -> None:
    native_module = engine._native
    assert native_module is not None
    lengths = dict.fromkeys(range(len(_TYPES)), 0) | {23: 13, 24: 3}
    for columns in _TOGETHER:
        lengths |= dict.fromkeys(columns, data.draw(st.integers(0, 6)))
    lengths |= {21: data.draw(st.integers(0, 3)), 22: data.draw(st.integers(0, 3))}
    lengths |= dict.fromkeys((25, 26), lengths[0]) | dict.fromkeys(range(11, 21) if starts else (), 0)
    given_columns = []
    for at, kind in enumerate(_TYPES):
        odd = st.one_of(st.integers(0, 2), _ODD) if data.draw(st.booleans()) else st.integers(0, 3)
        column = [data.draw(odd) for _ in range(lengths[at])]
        given_columns.append(np.array(column, object).astype(np.int64).astype(kind) if column else np.zeros(0, kind))
    if starts:  # groups and numbers that can be, and no chunks
        for at, most in ((5, 4), (6, 4), (8, 4), (23, 1 << 40)):
            given_columns[at] = np.abs(given_columns[at] % most)
        given_columns[5].sort()
        given_columns[6] += 1
        given_columns[23][[0, 3, 6]] = 0, given_columns[23][3] + 1, given_columns[23][6] % 2
    try:
        state = native_module.start(*given_columns)
    except ValueError:
        assert not starts
        return
    fault, more, changed = native_module.run(state, 50, NO_LIMIT)
    assert 0 <= fault <= 5
    assert not more
    assert len(changed) % engine._CHANGE.itemsize == 0
    assert np.frombuffer(native_module.result(state), np.int64)[0] >= 0


@native
def test_chunks_that_overlap_are_refused_where_their_free_blocks_cannot_be_told_apart() -> None:
    native_module = engine._native
    assert native_module is not None
    lengths = dict.fromkeys(range(len(_TYPES)), 0) | dict.fromkeys(range(5, 11), 1) | dict.fromkeys(range(11, 19), 2)
    columns = [np.zeros(lengths.get(at, 0), kind) for at, kind in enumerate(_TYPES)]
    columns[6][:] = columns[7][:] = 1  # a remainder, and what may be split
    columns[11][:] = columns[16][:] = 1024  # two chunks at one place, each one free block
    columns[12][:] = columns[17][:] = 512
    columns[15][:], columns[18][:] = [0, 1], -1
    columns[23] = np.array([0, 0, 0, 1 << 62, 0, 0, 0, -1, 1 << 62, 0, 1 << 62, 1, 0], np.int64)
    columns[24] = np.array([0, 1024, 1536], np.uint64)
    with pytest.raises(ValueError, match="overlap"):
        native_module.start(*columns)
    columns[11][1] = columns[16][1] = 2048
    native_module.start(*columns)
    columns[18][1] = -2  # what is not mapped, of a chunk without pages
    with pytest.raises(ValueError, match="tiles"):
        native_module.start(*columns)
