"""Spread, groups of peers and skew of ranks, held against plain loops over them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_low

import made_comparisons as made
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from night import generator_of

from memlens.comparing.outliers import medians, peers_of
from memlens.comparing.ranks import Ranks

MIB, GIB = 1 << 20, 1 << 30
FIGURES = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 4)), min_size=1, max_size=30)


def ranks_of(figures: Sequence[int], **fields: Sequence[object]) -> Ranks:
    """What is said of ranks with these peaks."""
    runs = []
    for rank, figure in enumerate(figures):
        own = {**{name: str(values[rank]) for name, values in fields.items()}, "rank": str(rank)}
        runs.append(made.run(f"{rank}.log", made.window(figure / MIB), fields=own))
    ranks = made.of_job(*runs).ranks
    assert ranks is not None
    return ranks


@given(FIGURES)
def test_medians_are_those_of_plain_python(pairs: list[tuple[int, int]]) -> None:
    known = sorted({group for _, group in pairs})
    figures, group = [figure for figure, _ in pairs], [known.index(group) for _, group in pairs]
    plain = [median_low([f for f, g in zip(figures, group, strict=True) if g == k]) for k in range(len(known))]
    assert medians(np.array(figures, np.int64), np.array(group, np.int64)).tolist() == plain


@given(FIGURES)
def test_spreads_are_those_of_plain_python(pairs: list[tuple[int, int]]) -> None:
    stage = [group for _, group in pairs]
    figures = [figure + 1024 * GIB * group for figure, group in pairs]
    ranks = ranks_of(figures, pp=stage)
    for spread in [ranks.spreads[0], *(() if ranks.modes else ranks.groups)]:
        own = {k: f for k, f in enumerate(figures) if spread.name in ("", f"pp {stage[k]}")}
        assert spread.ranks == len(own)
        wanted = min(own.values()), median_low(own.values()), max(own.values())
        assert (spread.min, spread.median, spread.max) == wanted
        first = [next(f"rank {k}" for k, figure in own.items() if figure == one) for one in wanted]
        assert [spread.min_rank, spread.median_rank, spread.max_rank] == first


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.sampled_from("abc")), min_size=6, max_size=30))
def test_a_skew_is_that_of_plain_python(pairs: list[tuple[int, str]]) -> None:
    figures, values = [figure for figure, _ in pairs], [value for _, value in pairs]
    middle = {own: median_low([f for f, value in pairs if value == own]) for own in dict.fromkeys(values)}
    usual, found = median_low(figures), ranks_of(figures, node=values).skews
    if len(middle) < 2 or len(set(middle.values())) == 1:
        assert found == ()
        return
    (skew,) = found
    assert (skew.field, skew.values) == ("node", len(middle))
    assert (skew.lowest_off, skew.highest_off) == (min(middle.values()) - usual, max(middle.values()) - usual)
    assert (middle[skew.lowest], middle[skew.highest]) == (min(middle.values()), max(middle.values()))


def test_a_field_that_makes_no_peers_is_looked_at_beyond_them() -> None:
    # Two stages of 8 ranks, 1 GiB apart; on machine 3, which has two ranks of each, 100 MiB more: beyond the stage that is all there is.
    stage, node = np.repeat([0, 1], 8).tolist(), np.tile([0, 0, 1, 1, 2, 2, 3, 3], 2).tolist()
    figures = [10 * GIB + own * GIB + (machine == 3) * 100 * MIB for own, machine in zip(stage, node, strict=True)]
    ranks = ranks_of(figures, pp=stage, node=node)
    assert ranks.peers_by == ("pp",)
    by_field = {skew.field: skew for skew in ranks.skews}
    assert (by_field["node"].highest, by_field["node"].highest_off, by_field["node"].lowest_off) == ("3", 100 * MIB, 0)
    assert (by_field["pp"].highest, by_field["pp"].highest_off - by_field["pp"].lowest_off) == ("1", GIB)


# --- peers ---


def test_a_stage_that_explains_more_than_it_leaves_makes_peers_and_machines_by_chance_do_not() -> None:
    stage = np.arange(64) // 8
    noise = generator_of("noise").integers(0, 5 * MIB, 64)
    figures = 10 * GIB + stage * 300 * MIB + noise
    assert peers_of(figures, {"pp": stage}, MIB).fields == ("pp",)
    assert peers_of(10 * GIB + noise, {"pp": stage}, MIB).fields == ()  # of 10 GiB, 5 MiB are not worth a word
