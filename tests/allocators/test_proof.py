"""The proof of a model: each thing that came out otherwise is counted, and the first one named."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_requests import CHOICES, UNIT, Choice, history_from, history_of, rules_for
from msgspec.structs import replace
from night import many

from memlens.allocators.engine import Matched, prove, proven, replay
from memlens.allocators.history import Operation, RequestHistory
from memlens.allocators.models import AllocatorRules, Groups
from memlens.allocators.paddle.auto_growth import AUTO_GROWTH
from memlens.allocators.placing import Addresses, Placement


def recorded(history: RequestHistory, rules: AllocatorRules, limit: int | None = None) -> RequestHistory:
    """The history as a run of these rules would have recorded it, its chunks anywhere."""
    got = replay(history, rules, addresses=Addresses(Placement.SHUFFLED, 7), limit=limit, trace=True)
    assert got.address is not None
    assert got.changes is not None
    return replace(history, address=got.address, changes=got.changes, limit_bytes=limit)


def made() -> tuple[RequestHistory, AllocatorRules]:
    """Chunks of 8 and 4; 8 is given back and a 4 cut from it."""
    history = history_from([0, 0, 1, 0], [-1, -1, 0, -1], [8 * UNIT, 4 * UNIT, 0, 4 * UNIT])
    rules = AllocatorRules(history.size, history.stream, history.size, Groups.alike(1))
    return recorded(history, rules), rules


@given(
    choices=CHOICES, data=st.data(), limit=st.one_of(st.none(), st.integers(30, 150).map(lambda units: units * UNIT))
)
@settings(max_examples=many(60))
def test_what_rules_did_is_proved_by_them_wherever_chunks_lay(
    choices: list[Choice], data: st.DataObject, limit: int | None
) -> None:
    # Ranges of addresses that are given back and taken again lie elsewhere, which the changes do not tell before they are mapped.
    history = history_of(choices)
    rules = data.draw(rules_for(history, expandable=False))
    whole = replay(history, rules, limit=limit)
    history = history_of(choices[: whole.operations])
    rules = replace(rules, block=history.size, group=history.stream, growth=rules.growth[: whole.operations])
    history = recorded(history, rules, limit)
    refused = np.flatnonzero((history.operation == Operation.REQUEST) & (history.address == 0))
    proof = prove(replace(history, failed=refused), rules)
    assert proof.exact, proof.mismatch
    assert proof.operations == Matched(len(history), len(history))
    assert proof.chunks.of + proof.given_back.of == len(history.changes.at)
    assert (proof.addresses.of, proof.failures.of) == (int(np.count_nonzero(history.address)), len(refused))


def test_all_that_came_out_as_recorded_is_counted() -> None:
    proof = prove(*made())
    assert proof.exact
    found = proof.chunks, proof.given_back, proof.addresses, proof.failures
    assert found == ((2, 2), (0, 0), (3, 3), (0, 0))


def test_a_block_that_lies_elsewhere_is_named_by_its_operation_and_line() -> None:
    history, rules = made()
    # The other end of the chunk would have served it.
    proof = prove(history, replace(rules, take_high=True))
    assert not proof.exact
    assert proof.mismatch is not None
    assert (proof.mismatch.operation, proof.mismatch.line) == (3, 30)
    expected, got = (int(words.split()[-1], 16) for words in (proof.mismatch.expected, proof.mismatch.got))
    assert got - expected == 4 * UNIT
    assert (proof.chunks, proof.addresses) == ((2, 2), (2, 3))


def test_a_chunk_of_another_size_is_named_before_what_follows_from_it() -> None:
    history, rules = made()
    proof = prove(history, replace(rules, growth=np.maximum(rules.growth, 6 * UNIT)))
    assert proof.mismatch is not None
    assert proof.mismatch.operation == 1
    assert "2.00 KiB taken" in proof.mismatch.expected
    assert "3.00 KiB taken" in proof.mismatch.got
    assert proof.chunks == Matched(1, 2)


def test_a_chunk_that_is_not_taken_and_one_too_many_are_named() -> None:
    history, rules = made()
    at = history.changes
    fewer = replace(history, changes=at.take(slice(1)))
    proof = prove(fewer, rules)
    assert proof.mismatch is not None
    assert (proof.mismatch.operation, proof.mismatch.expected, proof.chunks) == (1, "nothing", Matched(1, 1))
    more = at.take(np.array([0, 1, 1]))
    proof = prove(replace(history, changes=more), rules)
    assert proof.mismatch is not None
    assert (proof.mismatch.got, proof.chunks) == ("nothing", Matched(2, 3))


def test_a_request_that_fails_and_should_not_ends_the_proof() -> None:
    history, rules = made()
    proof = prove(replace(history, limit_bytes=8 * UNIT), rules)
    assert proof.mismatch is not None
    assert proof.mismatch.operation == 1
    assert proof.operations == Matched(2, 4)
    assert proof.addresses == Matched(1, 3)


def test_a_request_that_should_fail_and_does_not_is_named() -> None:
    history, rules = made()
    address = history.address.copy()
    address[1] = 0
    changes = history.changes.take(slice(1))
    history = replace(history, address=address, failed=np.array([1]), changes=changes)
    proof = prove(history, rules)
    assert proof.mismatch is not None
    assert (proof.mismatch.operation, proof.failures) == (1, Matched(0, 1))
    assert prove(replace(history, limit_bytes=8 * UNIT), rules).exact


def test_addresses_that_are_not_known_are_not_asked_for() -> None:
    history, rules = made()
    proof = prove(replace(history, address=np.zeros(4, np.uint64)), rules)
    assert proof.exact
    assert proof.addresses == Matched(0, 0)


def test_a_run_is_proved_once_for_the_same_values_and_anew_for_others() -> None:
    history, _ = made()
    proof = proven(AUTO_GROWTH, history, {})
    assert proven(AUTO_GROWTH, history, AUTO_GROWTH.defaults) is proof
    others = {"FLAGS_auto_growth_chunk_size_in_mb": 0, "FLAGS_free_idle_chunk": True}
    assert proven(AUTO_GROWTH, history, others) == prove(history, AUTO_GROWTH.rules(history, others)) != proof
    assert not replace(history, limit_bytes=UNIT).proofs
