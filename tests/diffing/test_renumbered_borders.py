"""The rules by which windows pair by what they do, each at its border."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from made_window_series import Program, series_of

from memlens.diffing.window_pairs import WindowPairs, pair_by_name_or_work

# Four calls that have nothing to do with each other, and one more
A, B, C, D, X = (tuple((256 * 7**n * k, k % 2) for k in range(1, 9)) for n in range(1, 6))


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
