"""Which rank failed first, and how that is known."""

from __future__ import annotations

from memlens.ranking.first import CLOCKS_US, Fall, FirstFailure, first_to_fail

S = 1_000_000


def fall(rank: int, time_us: int | None, allocs: int = 10, begins_us: int | None = 0, **fields: str) -> Fall:
    return Fall(rank, time_us, begins_us, allocs, fields)


def told(*falls: Fall, alike: bool = True) -> FirstFailure:
    found = first_to_fail(falls, alike=alike)
    assert found is not None
    return found


def test_nothing_failed() -> None:
    assert first_to_fail([], alike=True) is None


def test_the_only_one_is_the_first() -> None:
    assert told(fall(7, None)) == FirstFailure(7, "only", None, None, False, 1, None)


def test_time_stamps_tell_with_the_lead_over_the_next() -> None:
    first = told(fall(1, 9 * S), fall(2, 5 * S), fall(3, 7 * S))
    assert first == FirstFailure(2, "time", 2 * S, None, False, 3, 3)
    assert told(fall(1, 5 * S), fall(2, 5 * S + 1)).within_clocks  # nothing says that they are on one machine


def test_a_short_lead_over_another_machine_is_within_what_clocks_differ_by_and_on_the_same_machine_it_is_not() -> None:
    assert told(fall(1, 5 * S, node="0"), fall(2, 5 * S + CLOCKS_US - 1, node="1")).within_clocks
    assert not told(fall(1, 5 * S, node="0"), fall(2, 5 * S + CLOCKS_US, node="1")).within_clocks
    assert not told(fall(1, 5 * S, node="0"), fall(2, 5 * S + 1, node="0"), fall(3, 7 * S, node="1")).within_clocks


def test_a_lead_that_is_shorter_than_the_logs_begin_apart_is_within_what_clocks_differ_by() -> None:
    # A clock that is 5 min fast makes its log begin 5 min later, and its failure too.
    minutes = 60 * S
    assert told(fall(1, 20 * minutes), fall(2, 23 * minutes, begins_us=5 * minutes)).within_clocks
    assert not told(fall(1, 20 * minutes), fall(2, 26 * minutes, begins_us=5 * minutes)).within_clocks
    assert not told(
        fall(1, 20 * minutes, node="0"), fall(2, 23 * minutes, begins_us=5 * minutes, node="0")
    ).within_clocks


def test_logs_that_do_not_overlap_in_time_have_clocks_that_tell_nothing() -> None:
    # The second log begins after the first failure: another run, or another clock.
    first = told(fall(1, 5 * S, 20), fall(2, 9 * S, 10, begins_us=6 * S))
    assert (first.rank, first.known_by, first.lead_allocs, first.next_rank) == (2, "progress", 10, 1)


def test_without_a_time_of_each_the_fewest_allocations_tell_where_all_run_one_program() -> None:
    falls = fall(1, 5 * S, 20), fall(2, None, 13, begins_us=None)
    assert told(*falls).known_by == "progress"
    assert told(*falls).rank == 2
    assert told(*falls, alike=False) == FirstFailure(1, "unknown", None, None, False, 2, None)


def test_where_nothing_tells_it_is_left_open() -> None:
    assert told(fall(4, None), fall(5, None)).known_by == "unknown"
    assert told(fall(4, 5 * S), fall(5, 5 * S)).known_by == "unknown"
    assert told(fall(4, 5 * S, 9), fall(5, 5 * S, 10)) == FirstFailure(4, "progress", None, 1, False, 2, 5)
