"""Messages written from columns are those that are written one by one, and those by the rules of the wire format."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.exporting.protobuf import message, number, numbers, packed, rows_message, text, varint

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    # The examples of https://protobuf.dev/programming-guides/encoding
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (150, "9601"),
        (-2, "feffffffffffffffff01"),
        ((1 << 64) - 1, "ffffffffffffffffff01"),
    ],
)
def test_a_varint_is_as_the_guide_has_it(value: int, expected: str) -> None:
    assert varint(value).hex() == expected


def test_fields_are_as_the_guide_has_them() -> None:
    assert number(1, 150).hex() == "089601"
    assert text(2, "testing").hex() == "120774657374696e67"
    assert message(3, number(1, 150)).hex() == "1a03089601"
    assert packed(6, (3, 270, 86942)).hex() == "3206038e029ea705"
    assert text(1, "a\ud800b") == b"\x0a\x03a?b"


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), max_size=20),
    st.integers(1, 1000),
    st.sampled_from([b"", number(16, 1), text(2, "x" * 200)]),
)
def test_many_messages_at_once_are_the_same_one_by_one(
    rows: list[tuple[int, int, bool]], field: int, alike: bytes
) -> None:
    first, second = (np.array([row[k] for row in rows], np.int64) for k in (0, 1))
    some = np.array([row[2] for row in rows], np.bool_)
    count = len(rows)
    inner = rows_message(4, count, numbers(1, first), alike).only(some)
    made = rows_message(field, count, alike, numbers(30, second), inner).tobytes()
    assert made == b"".join(
        message(field, alike, number(30, two), message(4, number(1, one), alike) if there else b"")
        for one, two, there in rows
    )


@given(
    st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=9),
    st.sampled_from([np.uint64, np.int64, np.int32, np.int8]),
)
def test_columns_of_any_type_are_numbers(values: list[int], dtype: Any) -> None:
    column = np.array(values, np.uint64).astype(dtype)
    assert numbers(5, column).tobytes() == b"".join(number(5, value) for value in column.tolist())
