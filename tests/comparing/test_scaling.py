"""Slopes: what grows with a field, what is flat, and what is no slope at all."""

from __future__ import annotations

from itertools import combinations
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.comparing.scaling import Slope, scaling_fields, slopes, theil_sen
from memlens.summarizing.figures import RunWindow
from memlens.summarizing.summary import Oom, Run

MIB = 1 << 20


def window(peak: int, *, oom: bool = False, duration: int | None = None) -> RunWindow:
    return RunWindow("(whole log)", 1, 9, 9, peak, peak, peak, 0, 0, 0, peak, 4, peak, 4, duration, oom)


def run(fields: dict[str, str], peak: int | None, *, oom: bool = False) -> Run:
    if peak is None:
        return Run("gone", fields, "missing")
    failure = Oom(256 * MIB, "GPU 0", 7) if oom else None
    return Run("log", fields, "oom" if oom else "ok", (window(peak, oom=oom),), oom=failure)


def slopes_of(runs: list[Run]) -> list[Slope]:
    values = {name: tuple(dict.fromkeys(one.fields[name] for one in runs)) for name in runs[0].fields}
    return [slope for slope in slopes(runs, [one.window(None) for one in runs], values) if slope.metric == "peak_bytes"]


def test_two_values_have_no_slope() -> None:
    assert slopes_of([run({"gbs": str(gbs)}, gbs * MIB) for gbs in (1, 2)]) == []
    runs = [run({"gbs": str(gbs)}, gbs * MIB) for gbs in (1, 2)] + [run({"gbs": "3"}, MIB, oom=True)]
    assert slopes_of(runs) == []


def test_a_field_scales_where_it_is_numbers_and_no_rank() -> None:
    values = {"gbs": ("32", "64", "128"), "rank": ("0", "1", "2"), "dp_rank": ("0", "1", "2"), "branch": ("a", "b", "c"),
              "lr": ("0.1", "0.2", "-3"), "two": ("1", "2"), "same": ("1", "01", "1.0", "2")}  # fmt: skip
    assert scaling_fields(values) == ["gbs", "lr"]


# --- the rule ---


def judged(y: list[float], flat: float = 0.01) -> tuple[float, str]:
    return theil_sen(np.arange(len(y), dtype=np.float64), np.array(y, np.float64), flat)


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ([1000, 1000, 1000], "flat"),
        ([1000, 1004, 1008], "flat"),  # 8 over the range, less than 1 % of 1004
        ([1000, 1005.1, 1010.2], "growing"),  # 10.2, more than 1 % of 1005.1
        ([1010.2, 1005.1, 1000], "shrinking"),
        ([0, 0, 0], "flat"),
        ([0, 1, 2], "growing"),
        ([10, 10, 20], "unsteady"),  # two of three pairs rise: a jump
        ([10, 20, 15, 30], "growing"),  # five of six pairs rise
        ([10, 30, 15, 25], "unsteady"),  # four of six
        ([-2, -1, 0], "growing"),
    ],
)
def test_the_verdict_is_by_the_rule(figures: list[float], verdict: str) -> None:
    assert judged(figures)[1] == verdict


def test_a_time_may_waver_more_before_it_counts() -> None:
    assert judged([1000, 1020, 1040], 0.05)[1] == "flat"
    assert judged([1000, 1030, 1060], 0.05)[1] == "growing"


@pytest.mark.parametrize(
    ("metric", "step", "verdict"),
    [
        ("peak_bytes", 49, "flat"),  # 98 of 10,049 over the range: less than 1 %
        ("peak_bytes", 51, "growing"),
        ("allocs", 49, "flat"),
        ("allocs", 51, "growing"),
        ("duration_us", 253, "flat"),  # 506 of 10,253: less than 5 %
        ("duration_us", 259, "growing"),
    ],
)
def test_what_is_flat_depends_on_what_is_counted(metric: str, step: int, verdict: str) -> None:
    runs = [Run(f"log.{k}", {"gbs": str(k)}, "ok") for k in range(3)]
    figures: list[dict[str, Any]] = [{metric: 10_000 + k * step} for k in range(3)]
    windows = [RunWindow("w", 1, 9, 9, **one) for one in figures]
    (found,) = [one for one in slopes(runs, windows, {"gbs": ("0", "1", "2")}) if one.metric == metric]
    assert found.verdict == verdict


points = st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 1 << 40)), min_size=3, max_size=30)


@given(points.filter(lambda pairs: len({x for x, _ in pairs}) >= 3))
def test_the_slope_is_the_median_of_all_pairs(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    plain = [(d - b) / (c - a) for (a, b), (c, d) in combinations(pairs, 2) if a != c]
    assert theil_sen(x, y, 0.01)[0] == pytest.approx(median(plain))


@given(points.filter(lambda pairs: len({x for x, _ in pairs}) >= 3), st.integers(-1000, 1000))
def test_a_line_that_is_added_is_added_to_the_slope(pairs: list[tuple[int, int]], extra: int) -> None:
    x, y = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    assert theil_sen(x, y + extra * x, 0.01)[0] == pytest.approx(theil_sen(x, y, 0.01)[0] + extra, rel=1e-6, abs=1e-3)


def test_very_many_points_are_thinned_and_still_a_line() -> None:
    x = np.arange(5000, dtype=np.float64)[::-1].copy()
    slope, verdict = theil_sen(x, 3 * x + 7, 0.01)
    assert slope == pytest.approx(3)
    assert verdict == "growing"
