"""What a series may gain is what the base's series gains in as many windows, to the byte."""

from __future__ import annotations

from memlens.gating.figures import RunFigures, WindowFigures
from memlens.gating.growth import allowed_gain


def run(*live: int) -> RunFigures:
    return RunFigures(max(live), None, tuple(WindowFigures(str(k), 0, 0, level) for k, level in enumerate(live)))


def leaking(windows: int, by: int) -> RunFigures:
    return run(*(10_000 + by * k for k in range(windows)))


def test_a_longer_run_may_gain_the_rate_of_the_base_from_each_window_to_the_next() -> None:
    # 30 windows have 29 steps from one to the next
    assert allowed_gain(leaking(10, 700), leaking(30, 900)) == 29 * 700


def test_a_shorter_run_may_gain_what_the_base_gained_by_then() -> None:
    # GIVEN a base that gains 5,000 a window in its first 10 windows and nothing in the 90 after them
    base = run(*(5000 * min(k, 9) for k in range(100)))
    # THEN the 10 windows that it was growing in are what a run of 10 may gain
    assert allowed_gain(base, leaking(10, 6000)) == 9 * 5000
    # AND a run as long as it is flat may gain nothing by that
    assert allowed_gain(base, run(*(7000 * k for k in range(101)))) == 0


def test_what_head_gains_without_holding_more_than_the_base_is_allowed() -> None:
    # GIVEN a jump and six gains of 100: by 10 bytes of the jump the base does not grow, and head does, from another level
    base = run(0, *(2410 + 100 * k for k in range(7)))
    head = run(5000, *(5000 + 2400 + 100 * k for k in range(7)))
    # THEN all that it gains is allowed, for it never gains more than the base does
    assert allowed_gain(base, head) == 600
    # AND none of it where there is no window of the base beside each of its own
    assert allowed_gain(base, run(*(one.live_bytes for one in head.windows), 8100)) == 0


def test_too_few_windows_of_the_base_allow_nothing_to_be_told() -> None:
    assert allowed_gain(leaking(3, 700), leaking(30, 700)) is None
