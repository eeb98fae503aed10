"""Where one rule alone decides whether the numbers in the names of windows mislead."""

from __future__ import annotations

import pytest
from made_window_series import Program, series_of

from memlens.diffing import window_pairs
from memlens.diffing.window_pairs import pair_by_name_or_work

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
