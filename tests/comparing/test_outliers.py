"""Ranks that stand out: by the robust z-score, far enough to matter, and never among too few."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.comparing.result import Oom, Run, RunWindow
from memlens.comparing.statistics import Outlier, is_rank, outliers

MIB = 1 << 20


def run(rank: int, peak: int, *, oom: bool = False, **fields: str) -> Run:
    one = RunWindow("(whole log)", 1, 9, 9, peak, peak, peak, 0, 0, 0, peak, 4, peak, 4, None, oom)
    failure = Oom(None, "", 7) if oom else None
    return Run(f"log.{rank}", {"rank": str(rank), **fields}, "oom" if oom else "ok", (one,), oom=failure)


def found(runs: list[Run]) -> list[Outlier]:
    values = {name: tuple(dict.fromkeys(one.fields[name] for one in runs)) for name in runs[0].fields}
    return [one for one in outliers(runs, [r.window(None) for r in runs], values) if one.metric == "peak_bytes"]


def peaks(*mib: float) -> list[Run]:
    return [run(rank, round(each * MIB)) for rank, each in enumerate(mib)]


def test_one_rank_far_off_stands_out_with_its_score() -> None:
    figures = (1000, 1010, 990, 1005, 995, 1500)
    (outlier,) = found(peaks(*figures))
    middle = median(figures)  # 1002.5
    mad = median(abs(figure - middle) for figure in figures)  # 7.5
    assert (outlier.path, outlier.figure, outlier.median) == ("log.5", 1500 * MIB, 1002.5 * MIB)
    assert outlier.z == pytest.approx(0.6745 * (1500 - middle) / mad)
    assert (outlier.off, outlier.ranks) == (497.5 * MIB, 6)


def test_ranks_that_are_all_alike_but_one_need_no_score() -> None:
    (outlier,) = found(peaks(100, 100, 100, 100, 90))
    assert (outlier.fields["rank"], outlier.off, outlier.z) == ("4", -10 * MIB, None)


@pytest.mark.parametrize(
    ("last", "stands_out"),
    [
        (1009.9, False),  # less than 1 %
        (1010, True),
        (1000, False),
        (990, True),
    ],
)
def test_one_percent_off_is_the_least(last: float, stands_out: bool) -> None:
    assert bool(found(peaks(1000, 1000, 1000, 1000, last))) == stands_out


def test_a_mebibyte_off_is_the_least() -> None:
    assert not found(peaks(10, 10, 10, 10, 10.99))
    assert found(peaks(10, 10, 10, 10, 11))


@pytest.mark.parametrize(("off", "stands_out"), [(51, False), (52, True)])
def test_a_score_of_three_and_a_half_is_the_least(off: int, stands_out: bool) -> None:
    # The median is 1000 and the MAD 10: 0.6745 · 52 / 10 is 3.51, and 0.6745 · 51 / 10 is 3.44.
    assert bool(found(peaks(980, 990, 1000, 1010, 1000 + off))) == stands_out
    assert bool(found(peaks(1020, 1010, 1000, 990, 1000 - off))) == stands_out


@pytest.mark.parametrize(
    ("metric", "usual", "last", "stands_out"),
    [
        ("allocs", 10, 11, True),  # one block
        ("duration_us", 50_000, 51_000, True),  # a millisecond
        ("duration_us", 50_000, 50_999, False),
    ],
)
def test_a_block_or_a_millisecond_off_is_the_least(metric: str, usual: int, last: int, stands_out: bool) -> None:
    runs = [run(rank, 0) for rank in range(5)]
    figures: list[dict[str, Any]] = [{metric: usual if k < 4 else last} for k in range(5)]
    windows = [replace(one.windows[0], **figure) for one, figure in zip(runs, figures, strict=True)]
    names = [one.metric for one in outliers(runs, windows, {"rank": tuple("01234")})]
    assert names == [metric] * stands_out


def test_the_farthest_rank_comes_first_and_ranks_as_far_in_the_order_of_their_runs() -> None:
    runs = peaks(100, 130, 100, 100, 60, 100, 70, 100)
    assert [one.fields["rank"] for one in found(runs)] == ["4", "1", "6"]
    assert [one.fields["rank"] for one in found(runs[::-1])] == ["4", "6", "1"]


def test_metrics_come_in_the_order_of_tables() -> None:
    runs = peaks(100, 100, 100, 100, 130)
    metrics = [one.metric for one in outliers(runs, [r.window(None) for r in runs], {"rank": tuple("01234")})]
    assert metrics == ["peak_bytes", "rise_bytes", "reserved_peak_bytes", "alloc_bytes", "free_bytes"]


def test_scattered_ranks_do_not_stand_out() -> None:
    assert not found(peaks(100, 200, 300, 400, 500, 600, 700, 800))
    assert not found(peaks(100, 100, 200, 200))


def test_three_ranks_are_too_few_and_ranks_out_of_memory_take_no_part() -> None:
    assert not found(peaks(100, 100, 900))
    runs = [*peaks(100, 100, 100), run(3, 900 * MIB, oom=True)]
    assert not found(runs)
    assert found([*runs, run(4, 900 * MIB)])


def test_each_group_is_judged_by_itself() -> None:
    runs = [run(rank, (100 + 800 * (rank == 3)) * MIB, branch="a") for rank in range(4)]
    runs += [run(rank, 900 * MIB, branch="b") for rank in range(4)]
    assert [(one.fields["branch"], one.fields["rank"]) for one in found(runs)] == [("a", "3")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank", True),
        ("Rank", True),
        ("dp_rank", True),
        ("card", True),
        ("gpu_id", True),
        ("ranking", False),
        ("gbs", False),
    ],
)
def test_a_rank_is_known_by_its_name(name: str, expected: bool) -> None:
    assert is_rank(name) == expected


@given(st.lists(st.integers(0, 1 << 40), min_size=4, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_ranks_says_nothing_and_at_most_half_stand_out(figures: list[int], chance: object) -> None:
    here = [run(rank, figure) for rank, figure in enumerate(figures)]
    first = {one.path for one in found(here)}
    assert first == {one.path for one in found(here[::-1])}
    assert 2 * len(first) < len(figures) + 1
