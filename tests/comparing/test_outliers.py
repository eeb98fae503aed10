"""Which ranks stand out: by arithmetic at the borders of the rule, and by rates over made-up jobs with fresh seeds."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from made_ranks import LOUD, QUIET, Job, Maker, alike, one_leaks, some_leak, stages
from night import generator_of

from memlens.comparing.outliers import Peers, StandsOut, peers_of, standing_out

MIB, GIB = 1 << 20, 1 << 30


def found(figures: list[int] | np.ndarray, failed: set[int] = frozenset()) -> list[StandsOut]:  # type: ignore[assignment]
    column = np.array(figures, np.int64)
    one = np.zeros(len(column), np.int64)
    return standing_out(column, Peers(one, one), MIB, np.isin(np.arange(len(column)), list(failed)))


def test_one_rank_far_off_stands_out_with_its_distance_from_the_lower_median() -> None:
    figures = [1000 * MIB + k * 65536 for k in range(-4, 5)] + [1500 * MIB]
    (one,) = found(figures)
    middle = 1000 * MIB  # the lower median of ten is the fifth
    assert (one.rank, one.off, one.median, one.peers) == (9, 500 * MIB, middle, 10)


def test_one_percent_and_one_mebibyte_are_the_least() -> None:
    (one,) = found([100 * MIB] * 7 + [98 * MIB])
    assert (one.rank, one.off) == (7, -2 * MIB)
    assert not found([1000 * MIB] * 7 + [1009 * MIB])  # less than 1 %
    assert found([1000 * MIB] * 7 + [1010 * MIB])
    assert not found([10 * MIB] * 7 + [11 * MIB - 1])  # less than 1 MiB
    assert found([10 * MIB] * 7 + [11 * MIB])


def test_the_farthest_comes_first_and_the_order_of_ranks_says_nothing() -> None:
    chance = generator_of("order")
    assert [one.rank for one in found([100 * MIB] * 40 + [60 * MIB, 130 * MIB])] == [40, 41]
    for _ in range(50):
        figures = (10 * GIB + 100 * MIB * chance.standard_t(2, 40)).astype(np.int64)
        order = chance.permutation(40)
        assert {int(order[one.rank]) for one in found(figures[order])} == {one.rank for one in found(figures)}


@pytest.mark.parametrize(("times", "stands_out"), [(0.98, False), (1.02, True)])
def test_the_limit_grows_with_the_number_of_ranks_and_with_how_few_the_peers_are(
    times: float, stands_out: bool
) -> None:
    # 999 ranks evenly from -499 to 499 MiB off 100 GiB, and one: the median is 100 GiB (the lower one), the MAD of all 1,000 distances the
    # 500th: 250 MiB.  Its limit is z (1 + 8 / 1000) 250 MiB / 0.6745; the gap asks for 3 × 499 MiB, which is less.
    z = NormalDist().inv_cdf(1 - 1 / 40 / 1000)
    limit = z * (1 + 8 / 1000) * 250 * MIB / 0.6745
    assert limit > 3 * 499 * MIB
    figures = [100 * GIB + k * MIB for k in range(-499, 500)]
    assert bool(found([*figures, 100 * GIB + int(times * limit)])) == stands_out


@pytest.mark.parametrize(("times", "stands_out"), [(2.97, False), (3.03, True)])
def test_a_rank_is_three_times_as_far_as_those_on_its_side_that_do_not_stand_out(
    times: float, stands_out: bool
) -> None:
    # 200 ranks up to 50 MiB off 10 GiB on either side, one just below the limit (the MAD of all is 30 MiB), and one so many times as far.
    figures = [10 * GIB + (k % 11 - 5) * 10 * MIB for k in range(200)]
    z = max(3.5, NormalDist().inv_cdf(1 - 1 / 40 / 202))
    near = int(0.99 * z * (1 + 8 / 202) * 30 * MIB / 0.6745)
    assert near > 3 * 50 * MIB
    assert [one.rank for one in found([*figures, 10 * GIB + near, 10 * GIB + int(times * near)])] == [201] * stands_out


def test_a_tail_that_thins_out_has_no_outlier() -> None:
    # Each is 1.5 times as far as the one before: no gap of three.
    figures = [10 * GIB] * 60 + [10 * GIB + int(40 * MIB * 1.5**k) for k in range(10)]
    assert not found(figures)


def test_more_than_a_tenth_are_a_part_of_the_job() -> None:
    assert len(found([10 * GIB] * 90 + [12 * GIB] * 10)) == 10
    assert not found([10 * GIB] * 89 + [12 * GIB] * 11)
    assert len(found([10 * GIB] * 6 + [12 * GIB] * 2)) == 2  # a quarter of a few


def test_a_rank_that_ran_out_of_memory_stands_out_upwards_only() -> None:
    assert not found([10 * GIB] * 9 + [GIB], {9})
    assert found([10 * GIB] * 9 + [GIB])
    assert found([10 * GIB] * 9 + [20 * GIB], {9})


def test_fewer_than_four_ranks_have_none_that_stands_out() -> None:
    assert not found([GIB, GIB, 9 * GIB])
    assert found([GIB, GIB, GIB, 9 * GIB])


def test_ranks_are_judged_among_their_peers() -> None:
    stage = np.repeat([0, 1], 8)
    figures = np.where(stage == 0, 10, 20) * GIB
    figures[3] = 20 * GIB  # what is usual in the other stage
    (one,) = standing_out(figures, Peers(stage, stage, ("pp",)), MIB)
    assert (one.rank, one.off, one.peers) == (3, 10 * GIB, 8)


# --- rates ---


def named(job: Job) -> frozenset[int]:
    fields = {name: codes for name, codes in job.fields.items() if name != "node"}
    return frozenset(one.rank for one in standing_out(job.peaks, peers_of(job.peaks, fields, MIB), MIB))


def _jobs(kind: Maker, rounds: range) -> list[Job]:
    chance = generator_of(kind.__name__)
    return [kind(chance, size) for _ in rounds for size in (64, 256, 1024)]


@pytest.mark.parametrize("kind", QUIET, ids=lambda kind: kind.__name__)
def test_of_jobs_in_which_none_stands_out_hardly_any_has_one_named(kind: Maker, rounds: Callable[[int], range]) -> None:
    jobs = _jobs(kind, rounds(40))
    wrong = sum(bool(named(job)) for job in jobs)
    assert wrong <= 0.05 * len(jobs)  # measured: below 1 %


@pytest.mark.parametrize("kind", LOUD, ids=lambda kind: kind.__name__)
def test_of_jobs_in_which_some_stand_out_nearly_all_have_just_these_named(
    kind: Maker, rounds: Callable[[int], range]
) -> None:
    jobs = _jobs(kind, rounds(40))
    right = sum(named(job) == job.outliers for job in jobs)
    assert right >= 0.92 * len(jobs)  # measured: 99 % and more


def test_ten_thousand_ranks_are_judged() -> None:
    chance = generator_of("ten thousand")
    for kind in (alike, stages, one_leaks, some_leak):  # 20 times as far as ranks usually are, and more
        job = kind(chance, 10_000)
        assert named(job) >= job.outliers
