"""Which rank failed first, and how that is known."""

from __future__ import annotations

from memlens.comparing.ranks import CLOCKS_US, FirstFailure, first_to_fail
from memlens.summarizing.summary import Oom, Run

S = 1_000_000
Failed = tuple[str, Run, Oom]


def failed(rank: int, time_us: int | None, allocs: int = 10, begins_us: int | None = 0, **fields: str) -> Failed:
    oom = Oom(None, "", 1, time_us, allocs)
    return str(rank), Run(f"{rank}.log", fields, "oom", oom=oom, begins_us=begins_us), oom


def first_of(*found: Failed, alike: bool = True) -> FirstFailure:
    first = first_to_fail(found, alike=alike)
    assert first is not None
    assert (first.failed, first.path) == (len(found), f"{first.rank}.log")
    return first


def test_time_stamps_tell_with_the_lead_over_the_next() -> None:
    first = first_of(failed(1, 9 * S), failed(2, 5 * S), failed(3, 7 * S))
    assert first == FirstFailure("2", "2.log", "time", 3, 2 * S, None, within_clocks=False, next_rank="3")
    assert first_of(failed(1, 5 * S), failed(2, 5 * S + 1)).within_clocks  # nothing says that they are on one machine


def test_a_short_lead_over_another_machine_is_within_what_clocks_differ_by_and_on_the_same_machine_it_is_not() -> None:
    assert first_of(failed(1, 5 * S, node="0"), failed(2, 5 * S + CLOCKS_US - 1, node="1")).within_clocks
    assert not first_of(failed(1, 5 * S, node="0"), failed(2, 5 * S + CLOCKS_US, node="1")).within_clocks
    assert not first_of(
        failed(1, 5 * S, node="0"), failed(2, 5 * S + 1, node="0"), failed(3, 7 * S, node="1")
    ).within_clocks


def test_a_lead_that_is_shorter_than_the_logs_begin_apart_is_within_what_clocks_differ_by() -> None:
    # A clock that is 5 min fast makes its log begin 5 min later, and its failure too.
    minutes = 60 * S
    assert first_of(failed(1, 20 * minutes), failed(2, 23 * minutes, begins_us=5 * minutes)).within_clocks
    assert not first_of(failed(1, 20 * minutes), failed(2, 26 * minutes, begins_us=5 * minutes)).within_clocks
    same = failed(1, 20 * minutes, node="0"), failed(2, 23 * minutes, begins_us=5 * minutes, node="0")
    assert not first_of(*same).within_clocks


def test_logs_that_do_not_overlap_in_time_have_clocks_that_tell_nothing() -> None:
    # The second log begins after the first failure: another run, or another clock.
    first = first_of(failed(1, 5 * S, 20), failed(2, 9 * S, 10, begins_us=6 * S))
    assert (first.rank, first.known_by, first.lead_allocs, first.next_rank) == ("2", "progress", 10, "1")


def test_without_a_time_of_each_the_fewest_allocations_tell_where_all_run_one_program() -> None:
    found = failed(1, 5 * S, 20), failed(2, None, 13, begins_us=None)
    assert (first_of(*found).known_by, first_of(*found).rank) == ("progress", "2")
    assert first_of(*found, alike=False) == FirstFailure("1", "1.log", "unknown", 2)


def test_where_nothing_tells_it_is_left_open() -> None:
    assert first_of(failed(4, None), failed(5, None)).known_by == "unknown"
    assert first_of(failed(4, 5 * S), failed(5, 5 * S)).known_by == "unknown"
    assert first_of(failed(4, 5 * S, 9), failed(5, 5 * S, 10)).lead_allocs == 1
