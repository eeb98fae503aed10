"""The compiled column helpers against their reference implementations."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from night import many

from memlens import columns
from memlens.columns import Symbols

native = pytest.mark.skipif(columns._native is None, reason="the compiled module was not built")

#: Few addresses, so that they come again; neighbours and both ends of what 64 bits hold, so that they meet in the hash table.
_KEYS = st.one_of(st.integers(0, 9), st.sampled_from([256, 512, 0x7F2B4C000000, 2**62, 2**63 - 1, -(2**63), -1]))
_PAIR_ROWS = st.lists(st.tuples(st.integers(0, 3), _KEYS), max_size=80)
_ROLE_ROWS = st.lists(st.tuples(st.integers(-1, 4), _KEYS), max_size=80)


def two_columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in rows], np.int8), np.array([row[1] for row in rows], np.int64)


@native
@given(_PAIR_ROWS)
@settings(max_examples=many(300))
def test_pairing_compiled_gives_what_the_reference_gives(rows: list[tuple[int, int]]) -> None:
    kind, addr = two_columns(rows)
    for found, expected in zip(
        columns.pair(kind, addr.view(np.uint64)), columns.reference_pair(kind, addr.view(np.uint64)), strict=True
    ):
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()


@native
@given(_ROLE_ROWS)
@settings(max_examples=many(300))
def test_the_latest_row_of_a_key_compiled_is_what_the_reference_gives(rows: list[tuple[int, int]]) -> None:
    role, key = two_columns(rows)
    found = columns.last_by_key(key, role)
    assert found.tolist() == columns.reference_last_by_key(key, role).tolist()


@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[_KEYS] * width), min_size=1, max_size=40)))
def test_rows_alike_have_one_number_in_the_order_of_their_values(rows: list[tuple[int, ...]]) -> None:
    first, number = columns.rows_alike(*np.array(rows, np.int64).T)
    assert number.tolist() == [sorted(set(rows)).index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in sorted(set(rows))]


@native
@pytest.mark.parametrize("stride", [1, 256, 1 << 20, 1 << 40])
def test_many_live_keys_make_the_table_grow_and_none_is_lost(stride: int) -> None:
    rng = np.random.default_rng(stride)
    keys = rng.permutation(20_000).astype(np.int64) * stride
    at = rng.permutation(20_000)
    kind, addr = np.repeat(np.array([0, 1], np.int8), 20_000), np.concatenate([keys, keys[at]])
    partner, doubles = columns.pair(kind, addr.view(np.uint64))
    assert partner[20_000:].tolist() == at.tolist()
    assert partner[at].tolist() == list(range(20_000, 40_000))
    assert not len(doubles)
    mixed = rng.integers(0, 2, 40_000).astype(np.int8)  # sets and clears in turn, in a table that is often half full
    some = rng.integers(0, 3000, 40_000) * stride
    assert [x.tolist() for x in columns.pair(mixed, some.view(np.uint64))] == [
        x.tolist() for x in columns.reference_pair(mixed, some.view(np.uint64))
    ]
    role = rng.integers(0, 4, 40_000).astype(np.int8)
    assert columns.last_by_key(some, role).tolist() == columns.reference_last_by_key(some, role).tolist()


@pytest.mark.parametrize("find", [columns.last_by_key, columns.reference_last_by_key])
def test_a_key_is_found_until_it_is_taken(find: object) -> None:
    role, key = two_columns([(1, 7), (2, 7), (2, 8), (1, 7), (3, 7), (2, 7), (0, 7), (1, 8), (2, 8)])
    assert callable(find)
    assert find(key, role).tolist() == [-1, 0, -1, -1, 3, -1, -1, -1, 7]


@given(_ROLE_ROWS, st.lists(st.integers(1, 20), max_size=8))
def test_block_by_block_with_what_is_carried_the_same_rows_are_found(
    rows: list[tuple[int, int]], cuts: list[int]
) -> None:
    role, key = two_columns(rows)
    whole = columns.last_by_key(key, role)
    edges = [edge for edge in (0, *accumulate(cuts)) if edge < len(rows)] + [len(rows)]
    names = np.unique(key)
    carried = np.zeros(0, np.int64)  # the rows whose keys are set, as indices of the whole
    for lo, hi in pairwise(edges):
        origin = np.concatenate([carried, np.arange(lo, hi), np.full(len(names), -1)])
        keys = np.concatenate([key[carried], key[lo:hi], names])
        roles = np.concatenate([np.ones(len(carried), np.int8), role[lo:hi], np.full(len(names), 2, np.int8)])
        found = columns.last_by_key(keys, roles)
        rows_found = np.where(found >= 0, origin[found], -1)
        assert rows_found[len(carried) : len(carried) + hi - lo].tolist() == whole[lo:hi].tolist()
        carried = rows_found[len(rows_found) - len(names) :]
        carried = np.sort(carried[carried >= 0])


@pytest.mark.parametrize(("kind", "base"), [(np.int64, -3), (np.uint64, (1 << 64) - 7)])
@given(numbers=st.lists(st.integers(0, 6)), some=st.lists(st.integers(0, 6)))
def test_numbers_are_among_some_if_some_number_is_equal(
    kind: Any, base: int, numbers: list[int], some: list[int]
) -> None:
    found = columns.among(*(np.array([base + number for number in of], kind) for of in (numbers, some)))
    assert found.tolist() == [number in some for number in numbers]


@native
def test_columns_that_do_not_fit_are_refused() -> None:
    kind, addr, seed = np.zeros(3, np.int8), np.zeros(3, np.uint64), np.zeros(1, np.uint64)
    partner, doubled, none = np.zeros(3, np.int32), np.zeros(3, np.uint8), np.zeros(0, np.uint8)
    latest = cast("Any", columns._native).latest
    latest(addr, kind, partner, doubled, seed)
    latest(addr, kind, partner.astype(np.int64), none, seed)
    with pytest.raises(ValueError, match="one length"):
        latest(addr[:2].copy(), kind, partner, doubled, seed)
    with pytest.raises(ValueError, match="one length"):
        latest(addr, kind, partner, doubled[:2].copy(), seed)
    with pytest.raises(ValueError, match="one length"):
        latest(addr, kind, np.zeros(2, np.int64), none, seed)
    with pytest.raises(ValueError, match="found: items of 8 bytes, at multiples of that, are needed, not of 1"):
        latest(addr, kind, doubled.copy(), doubled, seed)
    with pytest.raises(TypeError, match="5 columns"):
        latest(addr, kind, partner, doubled)
    with pytest.raises(ValueError, match="contiguous"):
        latest(addr[::2], kind, partner, none, seed)
    partner.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        latest(addr, kind, partner, none, seed)


# --- alignment -----------------------------------------------------------------------------------------------------------

_WEIGHTS = np.array([0, 1, 3, 256, 1 << 40])
_ENTRY = st.tuples(st.integers(0, 4), st.booleans(), st.integers(0, 2), st.integers(0, 1), st.sampled_from([0, 0, 7]))
_SEQUENCES = st.lists(st.tuples(st.lists(_ENTRY, max_size=20), st.lists(_ENTRY, max_size=20)), max_size=4)
_WORTH = st.sampled_from(
    [(2, 1, 1, 4, 4, 1, 1, 1), (2, 1, 1, 4, 0, 0, 0, 0), (1, 2, 2, 1, 1, 2, 3, 4), (5, 0, 3, 1, 1, 1, 1, 1)]
)


def symbols(entries: list[tuple[int, bool, int, int, int]]) -> Symbols:
    """Symbols of rows (key, held, and three of four marks)."""
    key, held, *marks = (np.array([row[i] for row in entries], np.int64) for i in range(5))
    word = marks[0] | marks[1] << 16 | marks[2] << 48
    return Symbols(key.astype(np.int32), held.astype(np.bool_), _WEIGHTS[key], word.astype(np.uint64))


def laid_out(sequences: list[list[tuple[int, bool, int, int, int]]]) -> tuple[Symbols, np.ndarray]:
    """Sequences laid end to end, and where each begins and the last one ends."""
    return symbols([row for one in sequences for row in one]), np.cumsum([0, *map(len, sequences)])


def both_ways(*args: Any, **options: Any) -> tuple[list[int], list[int]]:
    """What the compiled function and the reference implementation align, once they are seen to agree."""
    found, expected = columns.align(*args, **options), columns.reference_align(*args, **options)
    assert found.partner.tolist() == expected.partner.tolist()
    assert found.saved.tolist() == expected.saved.tolist()
    return found.partner.tolist(), found.saved.tolist()


@native
@given(_SEQUENCES, _WORTH, st.sampled_from([0, 1, 1000]))
@settings(max_examples=many(400))
def test_tables_compiled_give_what_the_reference_gives(problems: Any, worth: tuple[int, ...], scale: int) -> None:
    rows, others = laid_out([one for one, _ in problems]), laid_out([one for _, one in problems])
    both_ways(*rows, *others, np.array(worth), np.full(len(problems), scale))


@native
@given(_SEQUENCES, st.booleans(), st.data())
@settings(max_examples=many(400))
def test_bands_compiled_give_what_the_reference_gives(problems: Any, way_back: bool, data: st.DataObject) -> None:
    rows, others = laid_out([one for one, _ in problems]), laid_out([one for _, one in problems])
    bands = [np.zeros((2, 0), np.int64)]
    for one, two in problems:
        edges = st.lists(st.tuples(*[st.integers(0, len(two))] * 2), min_size=len(one) + 1, max_size=len(one) + 1)
        bands.append(np.sort(np.sort(np.array(data.draw(edges)), axis=1).T))
    first, last = np.concatenate(bands, axis=1)
    worth, scale = np.array([2, 1, 1, 4, 4, 1, 1, 1]), np.full(len(problems), 100)
    partner, _ = both_ways(*rows, *others, worth, scale, band=(first, last), way_back=way_back)
    assert len(partner) == (len(rows[0]) if way_back else 0)


@native
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"row_starts": [0, 2]}, "cover all rows"),
        ({"row_starts": [0, 4]}, "cover all rows"),
        ({"column_starts": [1, 3]}, "cover all rows"),
        ({"row_starts": [0, 5, 3], "column_starts": [0, 1, 3], "scale": [1, 1]}, "rise"),
        ({"key": [0, -1, 0]}, "keys that are counted"),
        ({"held": [False] * 2}, "one length"),
        ({"worth": range(7)}, "one length"),
        ({"band": (range(3), range(3))}, "one length"),
        ({"band": ([0] * 4, [0, 1, 2, 4])}, "stay among the columns"),
        ({"band": ([0, 0, 2, 1], [3] * 4)}, "bands that rise"),
        ({"band": ([2] * 4, [1, 2, 2, 2])}, "stay among the columns"),
        ({"band": ([-1, 0, 0, 0], [3] * 4)}, "stay among the columns"),
    ],
)
def test_tables_that_do_not_fit_are_refused(wrong: dict[str, Any], message: str) -> None:
    side, starts = laid_out([[(1, False, 0, 0, 0)] * 3])
    rows = replace(side, **{name: np.array(wrong.pop(name)) for name in ("key", "held") if name in wrong})
    options: dict[str, Any] = {"row_starts": starts, "column_starts": starts, "worth": range(8), "scale": [1], **wrong}
    options.setdefault("band", ([0] * (3 + len(options["scale"])),) * 2)
    for name, value in options.items():
        options[name] = tuple(map(np.array, value)) if name == "band" else np.array(value)
    with pytest.raises(ValueError, match=message):
        columns.align(rows=rows, columns=side, **options)


# --- chains --------------------------------------------------------------------------------------------------------------


@st.composite
def candidates(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Where grams stand in the rows, rising, and where each may stand in the columns, rising, with -1 for none."""
    grams, each = draw(st.integers(0, 25)), draw(st.integers(1, 5))
    at = np.cumsum([draw(st.integers(1, 9)) for _ in range(grams)])
    found = [sorted(draw(st.sets(st.integers(0, 120), max_size=each))) for _ in range(grams)]
    return at.astype(np.int64), np.array([one + [-1] * (each - len(one)) for one in found], np.int64).reshape(
        grams, each
    )


@native
@given(candidates(), st.integers(0, 20), st.integers(1, 4), st.integers(-60, 60))
@settings(max_examples=many(500))
def test_chains_compiled_are_those_of_the_reference(
    given: tuple[np.ndarray, np.ndarray], gram: int, back: int, last_offset: int
) -> None:
    found = columns.chain(*given, gram, back, last_offset)
    assert found.tolist() == columns.reference_chain(*given, gram, back, last_offset).tolist()
