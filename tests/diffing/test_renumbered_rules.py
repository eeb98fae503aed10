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
