"""Growth is called growth, and noise, jumps and warm-up are not."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlens.analyzers import growth
from memlens.analyzers.trend import EXACT, slope, trend, verdict
from memlens.events import EventLog, Kind
from memlens.slicing import Window

KIB = 1024


def series(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def noise(points: int, seed: int, spread: int = 1 << 20) -> np.ndarray:
    return np.random.default_rng(seed).integers(-spread, spread, points)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "flat"),
        ([5], "flat"),
        ([1, 2, 3], "flat"),  # too few to tell
        ([1, 2, 3, 4], "growing"),
        ([4, 3, 2, 1], "shrinking"),
        ([1, 2, 2, 3], "flat"),
        ([1, 2, 3, 4, 5, 6, 5], "flat"),
        ([7] * 30, "flat"),
        (list(range(0, 512 * 30, 512)), "growing"),
        (list(range(512 * 30, 0, -512)), "shrinking"),
        ([0] + [9000] * 29, "flat"),  # one jump at the start
        ([0] * 15 + [9000] * 15, "flat"),  # in the middle
        ([0] * 5 + [9000] * 25, "flat"),
        ([0] * 25 + [9000] * 5, "flat"),
        ([0, 500, 800, 950, *[1000] * 26], "flat"),  # fills up, then stays
        ([0, 900] * 15, "flat"),  # every other step holds more
        ([k // 10 * 512 for k in range(100)], "growing"),  # a leak in every tenth step
        ([k * 512 + (k % 5 == 0) * 4000 for k in range(60)], "growing"),  # a leak under a regular spike
        ([k * 512 for k in range(29)] + [0], "growing"),  # one outlier at the end
    ],
)
def test_verdicts(values: list[int], says: str) -> None:
    assert verdict(np.array(values, np.int64)) == says


def test_noise_is_not_called_growth_nor_shrinking() -> None:
    called = [verdict(noise(points, seed)) for seed in range(100) for points in (8, 12, 30, 100)]
    assert called.count("flat") >= len(called) - 1


def test_noise_around_a_jump_is_not_called_growth() -> None:
    called = [verdict(noise(60, seed, 1000) + np.repeat([0, 10**6], 30)) for seed in range(100)]
    assert called.count("flat") >= len(called) - 2


def test_a_leak_within_noise_of_its_own_size_is_seen_in_a_long_series() -> None:
    found = [verdict(noise(300, seed, 100 * KIB) + np.arange(300) * KIB) for seed in range(20)]
    assert found == ["growing"] * 20


@settings(deadline=None)
@given(st.lists(st.integers(-(10**12), 10**12), max_size=25))
def test_slope_and_trend_are_those_of_all_pairs(values: list[int]) -> None:
    pairs = [(i, j) for j in range(len(values)) for i in range(j)]
    slopes = sorted((values[j] - values[i]) / (j - i) for i, j in pairs)
    middle = slopes[(len(slopes) - 1) // 2 : len(slopes) // 2 + 1]
    got = slope(np.array(values, np.int64))
    assert got == pytest.approx(sum(middle) / len(middle) if middle else 0.0, rel=1e-12, abs=1e-9)
    rises = sum((values[j] > values[i]) - (values[j] < values[i]) for i, j in pairs)
    strength = trend(np.array(values, np.int64))
    assert strength * rises >= 0
    assert abs(rises) > 1 or strength == 0


def test_the_trend_of_a_series_that_always_rises_is_the_textbook_figure() -> None:
    # 8 points: 28 pairs rise, variance 8·7·21/18
    assert trend(series(*range(8))) == pytest.approx(27 / (8 * 7 * 21 / 18) ** 0.5)
    # ties: 2 groups of 4 equal values, 16 pairs rise
    assert trend(series(0, 0, 0, 0, 1, 1, 1, 1)) == pytest.approx(15 / ((8 * 7 * 21 - 2 * 4 * 3 * 13) / 18) ** 0.5)


def test_a_long_series_is_judged_by_evenly_spaced_points() -> None:
    values = np.arange(5 * EXACT) * 3
    assert slope(values) == pytest.approx(3)
    assert verdict(values) == "growing"


def test_the_slope_is_not_moved_far_by_a_quarter_of_outliers() -> None:
    values = np.arange(100) * 512
    values[::4] = 10**9
    assert slope(values) == pytest.approx(512, rel=0.6)
    assert abs(np.polyfit(np.arange(100), values, 1)[0]) > 10**4  # what least squares makes of it


def steps(bytes_kept: list[int], *, teardown: bool = False, between: int = 0) -> list[Window]:
    """A log of windows that each allocate and free 4096 bytes and keep a block of the size given (0: none)."""
    rows: list[tuple[Kind, int, int]] = []
    sizes, edges = [], [0]
    for k, size in enumerate(bytes_kept):
        rows += [(Kind.ALLOC, 4096, 1), (Kind.FREE, 4096, 1)]
        if size:
            rows.append((Kind.ALLOC, size, 1000 + k))
            sizes.append((size, 1000 + k))
        edges.append(len(rows))
        rows += [(Kind.ALLOC, 77, 5000 + k)] * between
    if teardown:
        rows += [(Kind.FREE, size, addr) for size, addr in sizes]
        edges[-1] = len(rows)
    elif not between:
        rows.append((Kind.RESERVE, 1, 0))  # the last window does not run to the end of the log
    log = EventLog.from_rows(rows)
    starts = [edge + between * (k > 0) for k, edge in enumerate(edges[:-1])]
    return [Window(log, str(k), lo, hi, lo, hi, 1, 1) for k, (lo, hi) in enumerate(zip(starts, edges[1:], strict=True))]


def test_a_leak_of_512_bytes_a_step_is_growth_with_its_slope_and_its_pile() -> None:
    # GIVEN ten windows, of which the first keeps weights and each keeps 512 bytes
    found = growth(steps([10**6 + 512] + [512] * 9))
    # THEN the level, slope and verdict say so
    assert found.live_bytes == tuple(accumulate([10**6 + 512] + [512] * 9))
    assert (found.windows, found.judged, found.verdict) == (10, 9, "growing")
    assert found.slope_bytes_per_window == 512
    # AND the pile is the 512-byte blocks of all windows but the first, not the weights
    (pile,) = found.piling
    assert (pile.size_bytes, pile.count, pile.total_bytes, pile.windows) == (512, 9, 9 * 512, 9)
    assert pile.bytes_per_window == 512


def test_what_is_freed_when_the_process_ends_does_not_hide_a_leak() -> None:
    found = growth(steps([512] * 8, teardown=True))
    assert found.live_bytes[-1] == 0
    assert (found.judged, found.verdict, found.slope_bytes_per_window) == (6, "growing", 512)
    assert [pile.count for pile in found.piling] == [6]


def test_weights_and_optimizer_state_of_the_first_steps_are_no_pile() -> None:
    found = growth(steps([10**6, 10**6, 10**6] + [0] * 9))
    assert (found.verdict, found.slope_bytes_per_window, found.piling) == ("flat", 0, ())


def test_sizes_that_pile_up_come_largest_first_and_with_the_windows_they_come_from() -> None:
    found = growth(steps([1, 100, 30, 100, 30, 100, 30, 30, 30]))
    assert [(pile.size_bytes, pile.count, pile.windows) for pile in found.piling] == [(100, 3, 3), (30, 5, 5)]
    assert found.piling[1].bytes_per_window == 150 / 8


def test_what_is_kept_between_the_windows_is_no_pile_of_theirs() -> None:
    assert [pile.size_bytes for pile in growth(steps([8] * 6, between=1)).piling] == [8]


def test_overlapping_windows_count_a_block_once_and_each_of_its_windows() -> None:
    windows = steps([8] * 7)
    doubled = [window for window in windows for _ in range(2)]
    # 13 of the 14 windows are judged: the second of the first pair too
    (pile,) = growth(doubled).piling
    assert (pile.count, pile.windows) == (7, 13)


@pytest.mark.parametrize("count", range(4))
def test_a_short_series_is_flat_and_has_no_pile(count: int) -> None:
    found = growth(steps([512] * count))
    assert (found.windows, found.verdict, found.piling) == (count, "flat", ())
    assert len(found.live_bytes) == count
