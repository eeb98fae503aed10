"""Pairing by address: a FREE ends the newest ALLOC of its address."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from made_lives import plain_pairs

from memlens.events import Kind
from memlens.log import Log

rows = st.lists(
    st.tuples(
        st.sampled_from(list(Kind)), st.integers(0, 9), st.sampled_from([0, 256, 512, 0x7F2B4C000000, 2**63, 2**64 - 1])
    ),
    max_size=60,
)


@given(rows)
def test_pairing_gives_what_a_dictionary_gives(rows: list[tuple[Kind, int, int]]) -> None:
    log = Log.from_rows(rows)
    found = log.lifetimes
    assert (found.partner.tolist(), found.double_allocs.tolist()) == plain_pairs(rows)


def test_an_alloc_of_a_live_address_leaves_the_older_one_without_a_free() -> None:
    log = Log.from_rows([(Kind.ALLOC, 1, 16), (Kind.ALLOC, 2, 16), (Kind.FREE, 2, 16), (Kind.FREE, 1, 16)])
    found = log.lifetimes
    assert found.partner.tolist() == [-1, 2, 1, -1]
    assert found.double_allocs.tolist() == [1]


def test_chunks_are_not_paired() -> None:
    log = Log.from_rows([(Kind.RESERVE, 1, 16), (Kind.ALLOC, 1, 16), (Kind.RELEASE, 1, 16), (Kind.FREE, 1, 16)])
    assert log.lifetimes.partner.tolist() == [-1, 3, -1, 1]
