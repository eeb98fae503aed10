"""The rules by which windows pair by what they do, each at its border."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from made_window_series import Program, series_of

from memlens.diffing.window_order import Series, Work, in_order, likeness
from memlens.diffing.window_pairs import WindowPairs, pair_by_name_or_work
from memlens.errors import AnchorError

# Four calls that have nothing to do with each other, and one more
A, B, C, D, X = (tuple((256 * 7**n * k, k % 2) for k in range(1, 9)) for n in range(1, 6))
CALLS = {"A": A, "B": B, "C": C, "D": D, "X": X}


def pair(base: Sequence[Program], head: Sequence[Program], start: int = 0) -> WindowPairs:
    return pair_by_name_or_work(series_of(base), series_of(head, start=start))


def changed(program: Program, blocks: int) -> Program:
    """The same with other sizes of its first blocks."""
    return tuple((3 * size + 2816 * (k + 1) if k < blocks else size, life) for k, (size, life) in enumerate(program))


STEPS = [A, B, C, D] * 2


@pytest.mark.parametrize(
    ("base", "head", "start", "by_work"),
    [
        # Numbers that start elsewhere: three windows, the last of them open, tell it; the work is alike, or hardly.
        ([A, B, C], [A, B, C], 1, True),
        (STEPS[:4], [changed(call, 1) for call in STEPS[:4]], 2, True),
        (STEPS[:4], [changed(call, 3) for call in STEPS[:4]], 2, False),
        # A call more: three windows move.  Where all have changed, as much as calls differ, the names stay.
        (STEPS[:4], [X, *STEPS[:4]], 0, True),
        (STEPS, [X, *(changed(call, 4) for call in STEPS)], 0, False),
        # One window that has changed beside it is no matter, two are where as many are left.
        (STEPS, [X, X, *STEPS[1:]], 0, True),
        (STEPS, [X, X, X, *STEPS[2:]], 0, False),
        (STEPS, [X, X, X, X, *STEPS[3:]], 0, False),
        # A call more, and a call less later: two changes of the numbers, for three windows between them or for two.
        (STEPS, [X, *STEPS[:3], *STEPS[4:]], 0, True),
        (STEPS, [X, *STEPS[:2], *STEPS[3:]], 0, False),
        (
            STEPS,
            [A, X, *STEPS[1:5], *STEPS[6:]],
            0,
            False,
        ),  # what follows is too short to tell a lost call from the end
    ],
)
def test_names_are_left_where_that_explains_substantially_more(
    base: list[Program], head: list[Program], start: int, by_work: bool
) -> None:
    assert pair(base, head, start).by_work == by_work


def test_steps_that_are_nearly_alike_pair_by_work_behind_a_new_one() -> None:
    common = tuple((1792 * (k + 1), k % 2) for k in range(24))
    steps = [((*common, (256 * (1000 + 37 * k), -1), *[(512, 1)] * (k % 3))) for k in range(21)]
    found = pair(steps[:20], [steps[20], *steps[:20]])
    names = [(one.name, other.name) for one, other in found.pairs[1:]]  # without (before)
    assert names == [(f"CALL_{k}", f"CALL_{k + 1}") for k in range(20)]


def call(name: int, common: int) -> Program:
    """A call that shares so many allocations, of about its size, with all others, and has one of its own."""
    return (*((1000 + 7 * k, 0) for k in range(common)), (2000 + 31 * name, 0))


@pytest.mark.parametrize(("common", "by_work"), [(19, False), (12, True)])
def test_names_stay_where_all_windows_of_one_name_are_three_quarters_alike(common: int, by_work: bool) -> None:
    # Head has a call more at its beginning, so that each call has the name of the one before it.
    calls = [call(name, common) for name in range(20)]
    assert pair_by_name_or_work(series_of(calls), series_of([call(20, common), *calls])).by_work == by_work


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
