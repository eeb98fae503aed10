"""Growth is called growth, and noise, jumps, swings and warm-up are not; what is gained, from when on, and by which blocks."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_series import LEAKS, LENGTHS, NO_LEAKS, Maker, grown, made
from made_shapes import SHAPES, Shape, rates
from night import many

from memlens.analyzers import growth
from memlens.analyzers.series.trend import judge
from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import Window


def series(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "flat"),
        ([5], "flat"),
        ([1, 2, 3], "flat"),  # too few to tell
        ([1, 2, 3, 4], "growing"),
        ([0, 900, 902, 904], "growing"),  # the first rise is the warm-up's
        ([4, 3, 2, 1], "shrinking"),
        ([1, 2, 2, 3], "flat"),
        ([1000, 1009] * 15, "flat"),  # a swing of ± 4, not beyond half a percent
        ([1000, 1014] * 15, "swinging"),  # ± 7
        ([0, 10, 20, 30, 29, 40, 50, 60], "growing"),  # eight windows are judged by their floor …
        ([0, 10, 20, 30, 29, 40, 50], "flat"),  # … and seven by whether each rises
        ([0, 500, 750, 875, 937], "flat"),  # fills up ever more slowly
        ([0, 900, 1000, 1090], "growing"),  # of two rises the later one is nine tenths of the earlier one
        ([0, 900, 1000, 1089], "flat"),
        ([0, 900, 1000, 1050, 1140], "growing"),  # the rise in the middle counts for neither half
        ([100, 200, 300, 400, 500, 600, 500], "swinging"),
        ([7] * 30, "flat"),
        (list(range(0, 512 * 30, 512)), "growing"),
        (list(range(512 * 30, 0, -512)), "shrinking"),
        ([35, *range(40, 220, 6), *range(218, 18, -1)], "swinging"),  # rises by 179 before it falls to below its start
        ([200, 210, 220, *range(218, 18, -1)], "shrinking"),  # rises by 20
        ([0] + [9000] * 29, "flat"),  # one jump at the start
        ([0] * 15 + [9000] * 15, "flat"),  # in the middle
        ([0] * 5 + [9000] * 25, "flat"),
        ([0] * 25 + [9000] * 5, "flat"),
        ([0, 500, 800, 950, *[1000] * 26], "flat"),  # fills up, then stays
        ([0, 900] * 15, "swinging"),  # every other step holds more
        ([10**6, 10**6 + 8] * 15, "flat"),  # a swing of 8 parts in a million
        ([k // 10 * 512 for k in range(100)], "growing"),  # a leak in every tenth step
        ([k * 512 + (k % 5 == 0) * 4000 for k in range(60)], "growing"),  # a leak under a regular spike
        ([k % 100 for k in range(301)], "swinging"),  # a sawtooth that comes back to its floor
        ([k % 100 for k in range(290)], "swinging"),  # … and is cut in mid-tooth
        ([k % 10 + k // 10 for k in range(100)], "growing"),  # a sawtooth whose floor rises
        ([0] * 990 + [512 * k for k in range(1, 11)], "growing"),  # a leak of the last ten windows of 1,000
        # rises by far more than ever came back
        ([k % 20 for k in range(200)] + [8 * k for k in range(1, 20)], "growing"),
        ([9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9], "swinging"),  # freed, and filled up to where it was
    ],
)
def test_verdicts(values: list[int], says: str) -> None:
    assert judge(series(*values)).verdict == says


@pytest.mark.parametrize("kind", LEAKS, ids=lambda kind: kind.__name__)
def test_leaks_of_every_kind_are_found(kind: Maker) -> None:
    # The rates over all kinds and lengths stand in docs/analyzers.md; large noise and few windows are what is missed.
    runs = {20: 12, 100: 6}
    found = {n: grown(kind, n, count, seed=11) for n, count in runs.items()}
    hard = {"in_large_noise": 0.5, "beside_two_levels": 0.6}.get(kind.__name__, 0.8)
    assert all(found[n] >= hard * runs[n] for n in runs), found


@pytest.mark.parametrize("kind", LEAKS, ids=lambda kind: kind.__name__)
def test_a_leak_that_goes_on_is_not_said_to_have_ended(kind: Maker) -> None:
    """In 60 runs of each kind at 12 to 200 windows not one was; by chance a wait may be that long."""
    ended = sum(grown(kind, n, many(60), 12, lambda live: judge(live).until is not None) for n in (12, 50, 200))
    assert ended <= 0.02 * 3 * many(60)


@pytest.mark.parametrize("kind", NO_LEAKS, ids=lambda kind: kind.__name__)
def test_series_without_a_leak_raise_no_alarm(kind: Maker) -> None:
    runs = {20: 12, 100: 6}
    alarms = {n: grown(kind, n, count, seed=11) for n, count in runs.items()}
    hard = {"cache_by_chance": 0.25, "random_walk": 0.15, "lazy_walk": 0.15}.get(kind.__name__, 0.06)
    assert all(alarms[n] <= hard * runs[n] for n in runs), alarms


@pytest.mark.parametrize("windows", range(4, 31))
@pytest.mark.parametrize("soon", [0.5, 1.0])
def test_a_cache_that_fills_like_a_logarithm_is_no_leak_however_few_windows_there_are(
    windows: int, soon: float
) -> None:
    assert judge(np.round(1e9 * np.log(np.arange(windows) + soon)).astype(np.int64)).verdict == "flat"


@pytest.mark.parametrize("name", ["jumps_in_noise", "jumps_beside_a_swing"])
def test_two_jumps_of_the_level_are_no_growth_beside_noise_or_a_swing(name: str) -> None:
    kind = next(kind for kind in NO_LEAKS if kind.__name__ == name)
    assert sum(grown(kind, 500, 40, seed) for seed in range(3)) <= 4


@pytest.mark.parametrize("windows", LENGTHS)
def test_every_late_leak_of_ten_windows_is_found_from_its_first_window_on(windows: int) -> None:
    late = next(kind for kind in LEAKS if kind.__name__ == "late_ten")
    chance = np.random.default_rng(windows)
    for _ in range(10):
        live, since = made(late, chance, windows)
        found = judge(live)
        assert (found.verdict, found.since) == ("growing", since)
        # ten windows leaked, and nothing else happens
        assert found.gained_bytes == live[-1] - live[0] == 10 * found.gained_bytes_per_window


@settings(max_examples=many(40))
@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=60),
    st.integers(-(10**12), 10**12),
    st.sampled_from([1, 2, 256, 10**6]),
)
def test_the_verdict_depends_on_neither_the_base_level_nor_the_unit(values: list[int], base: int, unit: int) -> None:
    live = series(*values)
    here, there = judge(live), judge(live * unit + base)
    assert (here.verdict == "growing", here.since) == (there.verdict == "growing", there.since)
    assert (here.verdict == "shrinking") == (there.verdict == "shrinking")
    assert there.gained_bytes == unit * here.gained_bytes


@settings(max_examples=many(40))
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40))
def test_the_swing_is_half_of_the_most_that_came_back(values: list[int]) -> None:
    n = len(values)
    back = [
        min(abs(values[j] - values[i]), abs(values[j] - values[k]))
        for i in range(n)
        for j in range(i, n)
        for k in range(j, n)
        if (values[j] - values[i]) * (values[j] - values[k]) > 0
    ]
    assert judge(series(*values)).swing_bytes == max(back, default=0) // 2


def test_a_first_rise_by_far_more_than_the_later_ones_is_warm_up() -> None:
    warm = judge(series(0, *(900 + 2 * k for k in range(20))))
    assert (warm.since, warm.gained_bytes, warm.gained_bytes_per_window) == (2, 38, 2.0)


@pytest.mark.parametrize("stays", [0, 3])
def test_a_leak_of_ever_more_grows_from_its_first_window_on(stays: int) -> None:
    """Logits of a text that gets longer, each kept: each window leaves more than the one before."""
    live = series(*([0] * stays), *accumulate(range(40, 130, 3)))
    found = judge(live)
    since = max(stays, 1)
    assert (found.since, found.gained_bytes) == (since, live[-1] - live[since - 1])


@pytest.mark.parametrize("windows", [12, 20, 60])
def test_a_leak_of_ever_more_in_each_other_window_grows_from_the_first_of_them_on(windows: int) -> None:
    live = series(*accumulate(1000 if k == 0 else (k + 1) * 64 * (k % 2) for k in range(windows)))
    assert judge(live).since == 1
    # What is kept before it, and is little beside that, is none of it.
    early = series(*(level + 10 * (k >= 5) for k, level in enumerate([1000] * 6 + live.tolist())))
    assert judge(early).since == 7


@pytest.mark.parametrize("rises", [1, 2, 3])
def test_a_rise_that_does_not_go_on_is_told_where_it_is_more_than_a_thousandth(rises: int) -> None:
    """Of 20 windows the last ones each keep a block, or one in the middle does."""
    for level, told in ((1 << 20, False), (100 << 10, True)):
        for after in (20 - rises, 9):
            live = series(*(level + 512 * min(max(k - after + 1, 0), rises) for k in range(20)))
            assert (judge(live).rise is not None) == (told or 1000 * 512 * rises > int(live.max())), (level, after)


@settings(max_examples=many(300))
@given(
    st.lists(st.sampled_from([0, 0, 0, 1, 1, 4, 9]), min_size=1, max_size=40),
    st.lists(st.integers(0, 3), min_size=40, max_size=40),
    st.booleans(),
)
def test_the_figures_of_a_rise_that_is_no_growth_are_those_of_the_floor(
    gains: list[int], noise: list[int], quiet: bool
) -> None:
    live = [level + above * (not quiet) for level, above in zip(accumulate(gains), noise, strict=False)]
    found = judge(series(*live), 0)
    floor = [min(live[k:]) for k in range(len(live))]
    rises = [k for k in range(1, len(live)) if floor[k] > floor[k - 1]]
    if found.rise is None:
        # what never comes back and is no growth is a rise
        assert not quiet or not rises or len(live) < 4 or found.verdict == "growing"
        return
    rise, after = found.rise, len(live) - 1 - found.rise.last
    assert rise.from_bytes == floor[rise.first - 1]
    assert rise.from_bytes + rise.rose_bytes == floor[rise.last]
    assert [part.rose_bytes for part in rise.parts] == [floor[last] - floor[first - 1] for first, last, _ in rise.parts]
    assert all(one.last < other.first for one, other in pairwise(rise.parts))
    assert rise.how != "stayed" or after >= 2
    assert (rise.how == "late") <= (len(live) - rise.first <= 6)
    if quiet and len(rise.parts) > 1:
        # each rise is in a part, but for hardly anything at the end of the series
        covered = [k for first, last, _ in rise.parts for k in range(first, last + 1)]
        assert all(k in covered or 50 * (floor[k] - floor[k - 1]) <= floor[-1] - floor[0] for k in rises)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_shapes_are_told_as_what_they_are(shape: Shape) -> None:
    # The rates stand in docs/analyze.md; a walk of a few windows is a line now and then.
    for windows, runs in ((30, 12), (100, 8)):
        right, clear = rates(shape, windows, runs, seed=7)
        assert right >= runs - 1 - (shape.__name__ == "walk")
        assert clear == 0


@pytest.mark.parametrize("period", range(2, 31))
def test_the_period_of_a_sawtooth_is_told_wherever_it_begins(period: int) -> None:
    for phase in range(0, period, 3):
        assert judge(series(*(1000 + (k + phase) % period * 64 for k in range(4 * period + 3))), 0).period == period


def test_a_rhythm_of_the_last_rises_alone_is_none_of_them_all() -> None:
    found = judge(series(254, 309, 364, 419, 474, 529, 584, 780, 694, 890, 804, 1000))
    assert (found.verdict, found.since, found.every) == ("growing", 1, None)


@pytest.mark.parametrize("later", [33, 45])
def test_what_is_hardly_anything_is_no_rise_of_its_own_wherever_it_comes(later: int) -> None:
    live = [100 * min(k, 20) + 39 * (k >= later) for k in range(60)]
    found = judge(series(*live), 0).rise
    assert found is not None
    assert (found.first, found.last, len(found.parts), found.how) == (1, 20, 1, "stayed")
    assert judge(series(*(level + (k >= later) * 60 for k, level in enumerate(live))), 0).rise != found


@pytest.mark.parametrize("every", [2, 5, 10])
def test_a_step_up_beside_what_recurs_is_told(every: int) -> None:
    live = [5000 * (k % every == 0) + 394 * (k >= 27) for k in range(60)]
    found = judge(series(*live), 0)
    assert found.rise is not None
    # the level of an even window is high anyway, where every other one is
    assert (found.rise.first, found.rise.last) == (27 - (every == 2), 27)
    assert (found.rise.rose_bytes, found.rise.how) == (394, "stayed")


@pytest.mark.parametrize("every", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("windows", [41, 47, 60])
def test_a_leak_in_every_so_manieth_window_has_its_rate_wherever_the_series_ends(every: int, windows: int) -> None:
    found = judge(np.arange(windows) // every * 512)
    assert (found.verdict, found.gained_bytes_per_window) == ("growing", 512 / every)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_what_grew_has_until_when_once_twice_the_longest_wait_is_over(every: int) -> None:
    leak = (np.arange(60 * every) // every * 512).tolist()
    leak = leak[: 1 - every or None]  # it ends with a rise
    found = {idle: judge(np.array(leak + leak[-1:] * idle)) for idle in range(2 * every + 2)}
    assert {trend.verdict for trend in found.values()} == {"growing"}
    assert [trend.until for trend in found.values()] == [None] * (2 * every + 1) + [len(leak) - 1]


@pytest.mark.parametrize("windows", [*range(36, 43), 60, 64])
def test_a_leak_under_a_sawtooth_has_its_rate_wherever_the_last_tooth_is_cut(windows: int) -> None:
    k = np.arange(windows)
    found = judge(64 * k + 256 * (k % 7))
    assert (found.verdict, found.gained_bytes_per_window) == ("growing", 64)


def test_two_jumps_beside_a_leak_of_each_window_are_not_its_rate() -> None:
    """26 windows keep 128 KiB each, and of two of them other things stay too: 519 KiB of the first, 1 MiB of the ninth."""
    live = np.cumsum([258, 128 + 519, *[128] * 7, 128 + 1024, *[128] * 17])
    found = judge(live)
    assert (found.verdict, found.since, found.gained_bytes, found.every) == ("growing", 1, 26 * 128 + 519 + 1024, None)
    # From the first rise, which is not counted, to the last one.
    assert found.gained_bytes_per_window == (25 * 128 + 1024) / 25


def test_ten_thousand_windows_take_no_quadratic_time() -> None:
    # comparing every window with every other would take a hundred million steps
    assert judge(np.arange(10_000) * 512).since == 1


def steps(bytes_kept: list[int], *, teardown: bool = False, between: int = 0) -> list[Window]:
    """A log of windows that each allocate and free 4096 bytes and keep a block of the size given (0: none).

    With ``teardown`` the last window is open, and all is freed in it.
    """
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
    log = Log.from_rows(rows)
    starts = [edge + between * (k > 0) for k, edge in enumerate(edges[:-1])]
    last = len(starts) - 1
    return [
        Window(log, str(k), lo, hi, lo, hi, 1, 1, open_end=teardown and k == last)
        for k, (lo, hi) in enumerate(zip(starts, edges[1:], strict=True))
    ]


@pytest.mark.parametrize(("idle", "verdict"), [(2, "growing"), (3, "flat")])
def test_peaks_that_have_stopped_rising_are_not_said_to_grow(idle: int, verdict: str) -> None:
    sizes = [*range(1, 21), *[20] * idle]
    log = Log.from_rows([(kind, size << 20, 1) for size in sizes for kind in (Kind.ALLOC, Kind.FREE)])
    edges = [(2 * k, 2 * k + 2) for k in range(len(sizes))]
    found = growth([Window(log, str(k), lo, hi, lo, hi, 1, 1) for k, (lo, hi) in enumerate(edges)])
    assert (found.peak_verdict, found.peak_since) == (verdict, "1" if verdict == "growing" else None)


def test_what_is_freed_when_the_process_ends_does_not_hide_a_leak() -> None:
    found = growth(steps([512] * 8, teardown=True))
    assert found.live_bytes[-1] == 0
    assert (found.judged, found.open_end) == (7, "7")
    assert (found.verdict, found.gained_bytes_per_window) == ("growing", 512)
    assert [pile.count for pile in found.piling] == [6]


def test_weights_and_optimizer_state_of_the_first_steps_are_no_pile() -> None:
    found = growth(steps([10**6, 10**6, 10**6] + [0] * 9))
    assert (found.verdict, found.gained_bytes, found.piling) == ("flat", 0, ())


def test_sizes_that_pile_up_come_largest_first_and_with_the_windows_they_come_from() -> None:
    found = growth(steps([1, 30, 100, 30, 100, 30, 100, 30, 30]))
    assert [(pile.size_bytes, pile.count, pile.windows) for pile in found.piling] == [(100, 3, 3), (30, 5, 5)]
    assert found.piling[1].bytes_per_window == 150 / 8


def test_what_is_kept_between_the_windows_piles_up_with_what_they_keep() -> None:
    found = growth(steps([8] * 6, between=1))
    assert [(pile.size_bytes, pile.count, pile.windows) for pile in found.piling] == [(77, 5, 5), (8, 5, 5)]
    assert found.gained_bytes == 5 * (77 + 8)


def test_overlapping_windows_count_a_block_once_and_each_of_its_windows() -> None:
    windows = steps([8] * 7)
    doubled = [window for window in windows for _ in range(2)]
    # the level first rises in the third of the 14 windows
    (pile,) = growth(doubled).piling
    assert (pile.count, pile.windows) == (6, 12)


@pytest.mark.parametrize("count", range(4))
def test_a_short_series_is_flat_and_has_no_pile(count: int) -> None:
    found = growth(steps([512] * count))
    assert (found.windows, found.verdict, found.piling) == (count, "flat", ())
    assert len(found.live_bytes) == count
