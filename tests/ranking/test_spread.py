"""Spread, groups of peers and skew, held against plain loops over the ranks."""

from __future__ import annotations

from math import ceil
from statistics import median_low

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.ranking.peers import Peers, explained, medians, peers_of
from memlens.ranking.spread import BINS, field_skew, metric_spread, peer_groups

MIB, GIB = 1 << 20, 1 << 30
FIGURES = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 4)), min_size=1, max_size=30)


def columns(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Figures, and groups numbered from 0 without a gap."""
    known = sorted({group for _, group in pairs})
    return np.array([figure for figure, _ in pairs], np.int64), np.array(
        [known.index(group) for _, group in pairs], np.int64
    )


@given(FIGURES)
def test_medians_are_those_of_plain_python(pairs: list[tuple[int, int]]) -> None:
    figures, group = columns(pairs)
    plain = [
        median_low([f for f, g in zip(figures.tolist(), group.tolist(), strict=True) if g == k])
        for k in range(group.max() + 1)
    ]
    assert medians(figures, group).tolist() == plain


@given(FIGURES)
def test_a_spread_is_that_of_plain_python(pairs: list[tuple[int, int]]) -> None:
    figures, group = columns(pairs)
    names = [f"rank {k}" for k in range(len(figures))]
    spread = metric_spread("peak_bytes", figures, names, Peers(group, group), [str(g) for g in group.tolist()])
    ranked, count = sorted(figures.tolist()), len(figures)
    quarter, half, three = (ranked[ceil(part * count / 4) - 1] for part in (1, 2, 3))
    assert (spread.min_bytes, spread.max_bytes) == (ranked[0], ranked[-1])
    assert (spread.lower_quartile_bytes, spread.median_bytes, spread.upper_quartile_bytes) == (quarter, half, three)
    for rank, figure in ((spread.min_rank, ranked[0]), (spread.median_rank, half), (spread.max_rank, ranked[-1])):
        assert rank == names[figures.tolist().index(figure)]
    bins = [0] * (BINS if ranked[-1] > ranked[0] else 1)
    for figure in ranked:
        bins[(figure - ranked[0]) * len(bins) // (ranked[-1] - ranked[0] + 1)] += 1
    assert list(spread.histogram) == bins
    groups = {
        str(g): [f for f, own in zip(figures.tolist(), group.tolist(), strict=True) if own == g]
        for g in dict.fromkeys(group.tolist())
    }
    found = [
        (one.name, one.ranks, one.min_bytes, one.median_bytes, one.max_bytes)
        for one in peer_groups(figures, Peers(group, group), [str(g) for g in group.tolist()])
    ]
    assert found == [(name, len(own), min(own), median_low(own), max(own)) for name, own in groups.items()]


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.sampled_from("abc")), min_size=6, max_size=30))
def test_a_skew_is_that_of_plain_python(pairs: list[tuple[int, str]]) -> None:
    figures, values = [figure for figure, _ in pairs], [value for _, value in pairs]
    groups = {value: [f for f, own in pairs if own == value] for value in dict.fromkeys(values)}
    one = np.zeros(len(pairs), np.int64)
    found = field_skew("pp", "peak_bytes", np.array(figures, np.int64), values, Peers(one, one), MIB)
    if len(groups) < 2:
        assert found is None
        return
    assert found is not None
    middle, usual = {value: median_low(own) for value, own in groups.items()}, median_low(figures)
    assert (found.lowest_off_bytes, found.highest_off_bytes) == (
        min(middle.values()) - usual,
        max(middle.values()) - usual,
    )
    assert middle[found.lowest] == min(middle.values())
    assert middle[found.highest] == max(middle.values())
    total = sum(abs(figure - usual) for figure in figures) / (len(figures) - 1)
    within = sum(abs(figure - middle[value]) for figure, value in pairs) / (len(figures) - len(groups))
    assert found.explained == pytest.approx(max(0, 1 - within / total) if total else 0)
    assert found.skew_bytes == found.highest_off_bytes - found.lowest_off_bytes


def test_what_a_field_explains_beyond_peers_is_told_of_what_their_medians_leave() -> None:
    # Two stages of 8 ranks, 1 GiB apart; on machine 3, which has two ranks of each, 100 MiB more: beyond the stage that is all there is.
    stage, node = np.repeat([0, 1], 8), np.tile([0, 0, 1, 1, 2, 2, 3, 3], 2)
    figures = 10 * GIB + stage * GIB + (node == 3) * 100 * MIB
    skew = field_skew("node", "peak_bytes", figures, [str(k) for k in node], Peers(stage, stage, ("pp",)), MIB)
    assert skew is not None
    assert (skew.highest, skew.highest_off_bytes, skew.lowest_off_bytes) == ("3", 100 * MIB, 0)
    assert (skew.beyond, skew.explained) == (("pp",), 1)
    assert [(one.value, one.ranks, one.off_bytes) for one in skew.stand_out] == []  # 1 % of 10 GiB is more than that
    figures = figures + (node == 3) * 100 * MIB
    skew = field_skew("node", "peak_bytes", figures, [str(k) for k in node], Peers(stage, stage, ("pp",)), MIB)
    assert skew is not None
    assert [(one.value, one.ranks, one.off_bytes) for one in skew.stand_out] == [("3", 4, 200 * MIB)]


def test_a_field_with_a_value_for_nearly_each_rank_explains_nothing() -> None:
    one = np.zeros(8, np.int64)
    assert field_skew("rank", "peak_bytes", np.arange(8) * GIB, list("01234567"), Peers(one, one), MIB) is None


def test_groups_by_chance_explain_about_nothing() -> None:
    chance = np.random.default_rng()
    figures = (10 * GIB + GIB * chance.standard_normal(4000)).astype(np.int64)
    one = np.zeros(4000, np.int64)
    for count in (2, 40, 1000):
        values = [str(k) for k in chance.integers(0, count, 4000)]
        skew = field_skew("node", "peak_bytes", figures, values, Peers(one, one), MIB)
        assert skew is not None
        assert skew.explained < 0.05


# --- peers ---


def test_a_stage_that_explains_more_than_it_leaves_makes_peers_and_machines_by_chance_do_not() -> None:
    stage = np.arange(64) // 8
    noise = np.random.default_rng().integers(0, 5 * MIB, 64)
    figures = 10 * GIB + stage * 300 * MIB + noise
    assert peers_of(figures, {"pp": stage}, MIB).fields == ("pp",)
    assert peers_of(10 * GIB + noise, {"pp": stage}, MIB).fields == ()  # of 10 GiB, 5 MiB are not worth a word


def test_two_fields_make_peers_together_where_both_differ() -> None:
    stage, tensor = np.repeat(np.arange(4), 16), np.tile(np.repeat(np.arange(2), 8), 4)
    figures = 10 * GIB + stage * GIB + tensor * 400 * MIB + np.random.default_rng().integers(0, MIB, 64)
    peers = peers_of(figures, {"tp": tensor, "pp": stage}, MIB)
    assert set(peers.fields) == {"pp", "tp"}
    assert len(set(peers.group.tolist())) == 8


def test_groups_of_three_are_too_small_to_be_peers() -> None:
    stage = np.arange(12) // 3
    assert peers_of(10 * GIB + stage * GIB, {"pp": stage}, MIB).fields == ()


def test_one_rank_far_off_does_not_make_its_group_one_of_peers() -> None:
    stage = np.arange(64) // 8
    figures = np.full(64, 10 * GIB)
    figures[17] += 50 * GIB
    assert peers_of(figures, {"pp": stage}, MIB).fields == ()


def test_ranks_in_two_modes_are_parted_and_a_few_far_off_are_no_mode() -> None:
    figures = np.array([10 * GIB] * 60 + [12 * GIB] * 40)
    peers = peers_of(figures, {}, MIB)
    assert peers.modes
    assert np.bincount(peers.group).tolist() == [60, 40]
    assert not peers_of(np.array([10 * GIB] * 95 + [12 * GIB] * 5), {}, MIB).modes
    assert not peers_of(10 * GIB + np.arange(100) * GIB, {}, MIB).modes  # evenly spread


def test_what_is_explained_is_the_mean_distance_of_medians_and_what_is_left_that_of_most_ranks() -> None:
    # Groups {0, 0, 2} and {10, 10, 30}: medians 0 and 10, that of all is 2 (the lower one).  Distances within are 0, 0, 2, 0, 0, 20: without the farthest their mean is 2 / 5.
    between, within = explained(np.array([0, 0, 2, 10, 10, 30]), np.array([0, 0, 0, 1, 1, 1]))
    assert between == pytest.approx((3 * 2 + 3 * 8) / 6)
    assert within == pytest.approx(2 / 5)
