"""Messages written from columns are those that are written one by one, and those by the rules of the wire format."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memlens.exporting.protobuf import message, number, numbers, rows_message, text

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


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
