"""The compiled column helpers against their reference implementations."""

from __future__ import annotations

import subprocess
import sys
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlens import columns

native = pytest.mark.skipif(columns._native is None, reason="the compiled module was not built")

#: Few addresses, so that they come again; neighbours and both ends of what 64 bits hold, so that they meet in the hash table.
_KEYS = st.one_of(st.integers(0, 9), st.sampled_from([256, 512, 0x7F2B4C000000, 2**62, 2**63 - 1, -(2**63), -1]))
_PAIR_ROWS = st.lists(st.tuples(st.integers(0, 3), _KEYS), max_size=80)
_ROLE_ROWS = st.lists(st.tuples(st.integers(-1, 4), _KEYS), max_size=80)


def two_columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in rows], np.int8), np.array([row[1] for row in rows], np.int64)


@native
@given(_PAIR_ROWS)
@settings(deadline=None, max_examples=300)
def test_pairing_compiled_gives_what_the_reference_gives(rows: list[tuple[int, int]]) -> None:
    kind, addr = two_columns(rows)
    for found, expected in zip(
        columns.pair(kind, addr.view(np.uint64)), columns.reference_pair(kind, addr.view(np.uint64)), strict=True
    ):
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()


@native
@given(_ROLE_ROWS)
@settings(deadline=None, max_examples=300)
def test_the_latest_row_of_a_key_compiled_is_what_the_reference_gives(rows: list[tuple[int, int]]) -> None:
    role, key = two_columns(rows)
    found = columns.last_by_key(key, role)
    assert found.tolist() == columns.reference_last_by_key(key, role).tolist()


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


def test_columns_of_other_types_and_with_gaps_are_taken() -> None:
    rows = [(1, 7), (2, 7), (1, 8), (2, 8)]
    role, key = two_columns(rows)
    narrow: Any = np.repeat(key.astype(np.int32), 2)[::2]
    wide: Any = role.astype(np.int64)
    assert columns.last_by_key(narrow, wide).tolist() == [-1, 0, -1, 2]


@native
def test_columns_that_do_not_fit_are_refused() -> None:
    kind, addr, partner, doubled = (
        np.zeros(3, np.int8),
        np.zeros(3, np.uint64),
        np.zeros(3, np.int32),
        np.zeros(3, np.uint8),
    )
    refused = columns._native
    with pytest.raises(ValueError, match="one length"):
        refused.pair(kind, addr[:2].copy(), partner, doubled, False, 0)
    with pytest.raises(ValueError, match="partner: items of 8 bytes are needed, not of 4"):
        refused.pair(kind, addr, partner, doubled, True, 0)
    with pytest.raises(ValueError, match="one length"):
        refused.last_by_key(addr, kind, np.zeros(2, np.int64), 0)
    with pytest.raises(ValueError, match="contiguous"):
        refused.last_by_key(addr[::2], kind, np.zeros(2, np.int64), 0)
    fixed = np.zeros(3, np.int64)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        refused.last_by_key(addr, kind, fixed, 0)


def test_the_environment_switches_the_compiled_module_off() -> None:
    code = "from memlens import columns; import sys; sys.exit(columns._native is not None)"
    run = subprocess.run([sys.executable, "-c", code], env={"MEMLENS_PURE": "1"}, check=False)
    assert run.returncode == 0
