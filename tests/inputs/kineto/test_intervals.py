"""The innermost interval around a moment."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memlens.inputs.kineto.owners import innermost

intervals = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8)), max_size=20)
moments = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 22)), max_size=20)


@given(intervals, moments)
def test_it_is_the_one_that_started_last_and_then_ends_first(
    spans: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    found = innermost(
        np.array([track for track, _, _ in spans], np.int64),
        np.array([start for _, start, _ in spans], np.int64),
        np.array([start + lasts for _, start, lasts in spans], np.int64),
        np.array([track for track, _ in asked], np.int64),
        np.array([moment for _, moment in asked], np.int64),
    )
    for (track, moment), mine in zip(asked, found.tolist(), strict=True):
        around = [
            (start, -lasts, k)
            for k, (of, start, lasts) in enumerate(spans)
            if of == track and start <= moment <= start + lasts
        ]
        assert mine == (max(around)[2] if around else -1)


def test_a_deep_nest_and_many_moments_cost_little() -> None:
    count = 200_000
    start = np.arange(count, dtype=np.int64)
    zeros = np.zeros(count, np.int64)
    found = innermost(zeros, start, 2 * count - start, zeros, np.full(count, 2 * count, np.int64))
    assert (found == 0).all()
