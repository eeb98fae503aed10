"""Where one rule alone decides whether the numbers in the names of windows mislead."""

from __future__ import annotations

import numpy as np
import pytest
from made_window_series import Program, series_of

from memlens.diffing import window_pairs
from memlens.diffing.window_order import Series, Work, in_order, likeness
from memlens.diffing.window_pairs import pair_by_name_or_work
from memlens.errors import AnchorError

#: Calls that have nothing to do with each other, as capitals; half of what the small ones do is something else.
CALLS: dict[str, Program] = {
    name: tuple((256 * 7**n * k, k % 2) for k in range(1, 9)) for n, name in enumerate("ABCDX", 1)
} | {
    name: tuple((256 * 7**n * k if k < 5 else 128 * 11**n * k, k % 2) for k in range(1, 9))
    for n, name in enumerate("abcd", 1)
}


@pytest.mark.parametrize(
    ("rule", "other", "base", "head"),
    [
        ("_GAIN", 0.2, "ABCDABCD", "ABCBCC"),  # one pair of windows behind a lost call, and no more
        ("_EACH_CHANGE", 0, "ABCDABCDA", "aBCABDCDA"),  # the numbering changes and changes back
        ("_SHARE", 0, "CADDCDD", "ADDCDD"),  # less than half of what differs by name would be explained
        ("_LEFT", 1, "ABCDA", "BCAD"),  # too much would differ all the same
        (
            "_MOST",
            0.5,
            "ABCDABCDAB",
            "XaBcDabCdAb",
        ),  # as much as most pairs by work are alike, which is more than the half of them
    ],
)
def test_names_stay_where_one_rule_alone_keeps_them(
    monkeypatch: pytest.MonkeyPatch, rule: str, other: float, base: str, head: str
) -> None:
    windows = series_of([CALLS[name] for name in base]), series_of([CALLS[name] for name in head])
    assert not pair_by_name_or_work(*windows).by_work
    monkeypatch.setattr(window_pairs, rule, other)
    assert pair_by_name_or_work(*windows).by_work


def call(name: int, common: int) -> Program:
    """A call that shares so many allocations, of about its size, with all others, and has one of its own."""
    return (*((1000 + 7 * k, 0) for k in range(common)), (2000 + 31 * name, 0))


@pytest.mark.parametrize(("common", "by_work"), [(19, False), (12, True)])
def test_names_stay_where_all_windows_of_one_name_are_three_quarters_alike(common: int, by_work: bool) -> None:
    # Head has a call more at its beginning, so that each call has the name of the one before it.
    calls = [call(name, common) for name in range(20)]
    assert pair_by_name_or_work(series_of(calls), series_of([call(20, common), *calls])).by_work == by_work


@pytest.mark.parametrize(("unlike", "by_work"), [(1, False), (2, True)])
def test_where_numbers_start_elsewhere_half_a_pair_of_windows_is_to_be_gained(unlike: int, by_work: bool) -> None:
    # All calls are seven tenths alike; one or two of them come first, and the others do all the same.
    calls = [*(call(name, 10) for name in range(unlike)), *[call(20, 10)] * 12]
    assert pair_by_name_or_work(series_of(calls), series_of(calls, start=1)).by_work == by_work


def test_what_most_pairs_by_work_reach_is_enough_where_few_have_not_changed() -> None:
    # An eighth of what head's calls do is something else, but in one of six; and head has a call more at its beginning.
    calls = [CALLS["ABCD"[k % 4]] for k in range(25)]
    changed = [program if k % 6 == 0 else (*program[1:], (999, 0)) for k, program in enumerate(calls)]
    assert pair_by_name_or_work(series_of(calls), series_of([CALLS["X"], *changed])).by_work


@pytest.mark.parametrize(("changed", "one_program"), [(2, True), (3, False)])
def test_two_runs_without_a_name_in_common_are_one_program_where_windows_are_four_tenths_alike(
    changed: int, one_program: bool
) -> None:
    # Of eight allocations of each call two or three are something else in head: that makes five and not quite four tenths.
    calls = [CALLS["ABCD"[k % 4]] for k in range(12)]
    others = [(*program[changed:], *((999 + 10 * k, 0) for k in range(changed))) for program in calls]
    windows = series_of(calls), series_of(others, start=100)
    if one_program:
        assert pair_by_name_or_work(*windows).by_work
    else:
        with pytest.raises(AnchorError):
            pair_by_name_or_work(windows[0][1:], windows[1][1:])


@pytest.mark.parametrize(("alike", "shift"), [(0.36, 0), (0.39, 1)])
def test_what_a_pair_gains_is_what_it_is_alike_beyond_a_quarter(alike: float, shift: int) -> None:
    # Three windows; head has one more before two that are so much alike.  In place three pairs lose a quarter each; one place further
    # on two gain what they are alike beyond that, and the window that is left alone costs a whole.
    common = 1 - (1 - alike) ** 2
    base, head = np.eye(9, dtype=np.float32)[:3], np.zeros((3, 9), np.float32)
    head[0, 8] = 1
    head[[1, 2], [0, 1]] = common
    head[[1, 2], [4, 5]] = np.sqrt(1 - common**2)
    sides = [
        Series(
            Work(roots, np.ones(3, np.float32), np.ones((3, 2), np.int64)), np.zeros(3, np.int64), np.ones(3, np.bool_)
        )
        for roots in (base, head)
    ]
    assert in_order(sides[0], sides[1], np.full(3, -1)) == [(k, k + shift) for k in range(3 - shift)]


def test_windows_that_do_the_same_are_wholly_alike_whatever_rounding_makes_of_it() -> None:
    one = np.ones(2, np.float32)
    assert likeness(np.array([1 - 1e-6, 1 - 1e-4], np.float32), one, one).tolist() == pytest.approx([1, 0.99], abs=1e-4)


@pytest.mark.parametrize(("base", "head"), [("CAA", "ACB"), ("BCA", "CBX"), ("DCABB", "CXDCBAD")])
def test_of_pairs_by_work_that_are_as_good_the_same_are_taken_whichever_run_is_called_base(
    base: str, head: str
) -> None:
    one, two = series_of([CALLS[name] for name in base]), series_of([CALLS[name] for name in head], start=100)
    there, back = pair_by_name_or_work(one, two), pair_by_name_or_work(two, one)
    assert sorted((a.name, b.name) for a, b in there.pairs) == sorted((b.name, a.name) for a, b in back.pairs)


@pytest.mark.parametrize("named", [1, 2])
def test_of_two_windows_that_do_the_same_the_one_of_the_name_is_the_partner(named: int) -> None:
    one, two = ([CALLS[name] for name in names] for names in ("ABCDX", "ABBCDX"))
    kind, informative = np.zeros(6, np.int64), np.ones(6, np.bool_)
    base = Series(Work.of(series_of(one)[1:]), kind[:5], informative[:5])
    head = Series(Work.of(series_of(two)[1:]), kind, informative)
    assert in_order(base, head, np.array([0, named, 3, 4, 5])) == [(0, 0), (1, named), (2, 3), (3, 4), (4, 5)]
