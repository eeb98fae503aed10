"""Pairing by address: a FREE ends the newest ALLOC of its address."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlens import lifetimes
from memlens.events import EventLog, Kind

rows = st.lists(
    st.tuples(
        st.sampled_from(list(Kind)), st.integers(0, 9), st.sampled_from([0, 256, 512, 0x7F2B4C000000, 2**63, 2**64 - 1])
    ),
    max_size=60,
)


def plain_pairs(log: EventLog) -> tuple[list[int], list[int]]:
    """The plain twin: a dictionary of live addresses."""
    partner, doubles, live = [-1] * len(log), [], {}
    for event, (kind, addr) in enumerate(zip(log.kind.tolist(), log.addr.tolist(), strict=True)):
        if kind == Kind.ALLOC:
            if addr in live:
                doubles.append(event)
            live[addr] = event
        elif kind == Kind.FREE and addr in live:
            alloc = live.pop(addr)
            partner[alloc], partner[event] = event, alloc
    return partner, doubles


@given(rows, st.sampled_from([1, 2, 7, 1 << 17]))
@settings(deadline=None)
def test_pairing_in_batches_gives_what_a_dictionary_gives(rows: list[tuple[Kind, int, int]], batch: int) -> None:
    log = EventLog.from_rows(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifetimes, "_BATCH", batch)
        found = lifetimes.pair(log)
    assert (found.partner.tolist(), found.double_allocs.tolist()) == plain_pairs(log)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50), st.booleans())
def test_addresses_are_put_in_order_without_losing_the_order_of_equal_ones(addresses: list[int], repeat: bool) -> None:
    addr = np.array(addresses * (2 if repeat else 1), np.uint64)
    assert lifetimes._order_by_address(addr).tolist() == addr.argsort(kind="stable").tolist()


def test_an_alloc_of_a_live_address_leaves_the_older_one_without_a_free() -> None:
    log = EventLog.from_rows([(Kind.ALLOC, 1, 16), (Kind.ALLOC, 2, 16), (Kind.FREE, 2, 16), (Kind.FREE, 1, 16)])
    found = log.lifetimes
    assert found.partner.tolist() == [-1, 2, 1, -1]
    assert found.double_allocs.tolist() == [1]


def test_chunks_are_not_paired() -> None:
    log = EventLog.from_rows([(Kind.RESERVE, 1, 16), (Kind.ALLOC, 1, 16), (Kind.RELEASE, 1, 16), (Kind.FREE, 1, 16)])
    assert log.lifetimes.partner.tolist() == [-1, 3, -1, 1]
