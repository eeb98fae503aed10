"""Verdicts: which windows are compared, what fails, and in which order it is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlens.gating.baseline import WindowFigures
from memlens.gating.limits import Limit, Metric, parse_budgets, parse_limits
from memlens.gating.verdict import Judged, Paired, judge, pair_figures

MIB = 1 << 20
LIMITS = parse_limits(())


def figures(name: str, peak: int = 0, remaining: int = 0, reserved: int = 0, absolute: int = 0) -> WindowFigures:
    return WindowFigures(name, peak, remaining, reserved, absolute)


def named(*names: str) -> list[WindowFigures]:
    return [figures(name) for name in names]


def names(windows: Sequence[WindowFigures]) -> list[str]:
    return [window.name for window in windows]


def the(rows: Sequence[Judged], metric: Metric, name: str = "w") -> Judged:
    (row,) = (row for row in rows if (row.metric, row.name) == (metric, name))
    return row


# --- pairs ---


def test_windows_of_a_series_pair_by_name_and_the_others_are_told() -> None:
    paired = pair_figures(named("1", "2", "3"), named("(before)", "1", "3", "4"), series=True)
    assert [(old.name, new.name) for old, new in paired.pairs] == [("1", "1"), ("3", "3")]
    assert (names(paired.missing), names(paired.new)) == (["2"], ["(before)", "4"])


def test_a_window_left_out_in_the_middle_does_not_shift_those_that_have_its_name() -> None:
    base = named("TRAIN", "EVAL", "TRAIN #2", "EVAL #2", "TRAIN #3")
    paired = pair_figures(base, named("TRAIN", "TRAIN #2", "EVAL", "TRAIN #3"), series=True)
    assert [(old.name, new.name) for old, new in paired.pairs] == [
        ("TRAIN", "TRAIN"), ("TRAIN #2", "TRAIN #2"), ("EVAL #2", "EVAL"), ("TRAIN #3", "TRAIN #3")
    ]  # fmt: skip
    assert names(paired.missing) == ["EVAL"]


def test_one_window_and_one_window_pair_whatever_they_are_called() -> None:
    paired = pair_figures(named("STEP 1"), named("STEP 2"), series=False)
    assert [(old.name, new.name) for old, new in paired.pairs] == [("STEP 1", "STEP 2")]


def test_with_nothing_in_common_everything_is_missing_and_everything_new() -> None:
    paired = pair_figures(named("(before)", "a"), named("(before)", "b"), series=True)
    assert (paired.pairs, names(paired.missing), names(paired.new)) == ((), ["(before)", "a"], ["(before)", "b"])


# --- rows ---


def test_peak_and_remaining_are_gated_and_reserved_is_only_shown() -> None:
    rows = judge(Paired(((figures("w", 1, 2, 3, 4), figures("w", 1, 2, 3 + 99 * MIB, 4)),)), LIMITS, {})
    assert {row.metric for row in rows} == {"peak", "remaining", "reserved"}
    assert all(row.ok for row in rows)
    assert (the(rows, "reserved").limit_bytes, the(rows, "reserved").limit_from) == (None, None)
    assert (the(rows, "peak").limit_bytes, the(rows, "peak").limit_from) == (1 + MIB, "base")


def test_what_is_asked_for_is_gated() -> None:
    pair = (figures("w", 1, 2, 3, 4), figures("w", 1, 2, 4, 6))
    rows = judge(Paired((pair,)), parse_limits(["reserved=0", "absolute-peak=1"]), {})
    assert [(row.metric, row.over_bytes) for row in rows if not row.ok] == [("absolute_peak", 1), ("reserved", 1)]


@pytest.mark.parametrize(
    ("head", "budget", "limit_bytes", "limit_from", "ok"),
    [
        (100, 200, 110, "base", True),
        (111, 200, 110, "base", False),
        (105, 104, 104, "budget", False),
        (104, 104, 104, "budget", True),
        (111, 110, 110, "base", False),
    ],
)
def test_a_budget_and_a_limit_both_hold(head: int, budget: int, limit_bytes: int, limit_from: str, ok: bool) -> None:
    pair = (figures("w", 100), figures("w", head))
    row = the(judge(Paired((pair,)), parse_limits("peak=10%"), parse_budgets(f"peak={budget}")), "peak")
    assert (row.limit_bytes, row.limit_from, row.ok) == (limit_bytes, limit_from, ok)


def test_a_new_window_is_held_to_budgets_only() -> None:
    rows = judge(Paired(new=(figures("w", 100 * MIB, 100 * MIB),)), LIMITS, parse_budgets("peak=99MiB"))
    assert (the(rows, "peak").ok, the(rows, "peak").over_bytes, the(rows, "peak").base_bytes) == (False, MIB, None)
    assert (the(rows, "remaining").ok, the(rows, "remaining").limit_bytes) == (True, None)


@pytest.mark.parametrize("allow", [False, True])
def test_a_missing_window_fails_in_each_gated_metric_unless_that_is_allowed(allow: bool) -> None:
    rows = judge(Paired(missing=(figures("w", 5, 6),)), LIMITS, {}, allow_missing=allow)
    assert [(row.metric, row.base_bytes, row.head_bytes, row.d_bytes, row.ok, row.missing) for row in rows] == [
        ("peak", 5, None, None, allow, True),
        ("remaining", 6, None, None, allow, True),
    ]


def test_the_worst_comes_first_and_what_is_within_limits_last() -> None:
    pairs = [(figures(str(n), 10 * MIB), figures(str(n), (10 + n) * MIB)) for n in (0, 3, 1, 9, 2)]
    rows = judge(Paired(tuple(pairs), missing=(figures("gone", 2**62),)), parse_limits("remaining=off"), {})
    order = [row.name for row in rows if row.metric == "peak"]
    # 1 MiB more is at the limit and not over it.
    assert order == ["9", "3", "2", "gone", "1", "0"]
    assert [row.ok for row in rows if row.metric == "peak"] == [False] * 4 + [True] * 2


def test_rows_know_where_their_window_starts() -> None:
    paired = pair_figures(named("STEP 1"), named("STEP 2"), series=False)
    assert {row.start_line for row in judge(paired, LIMITS, {}, start_lines={"STEP 2": 77})} == {77}


amounts = st.integers(0, 2**60)
windows = st.builds(WindowFigures, st.just("w"), amounts, st.integers(-(2**60), 2**60), amounts, amounts)
limit_sets = st.dictionaries(
    st.sampled_from(["peak", "remaining", "reserved", "absolute_peak"]),
    st.builds(Limit, st.fractions(0, 10), st.integers(0, 2**40)),
    min_size=1,
)
budget_sets = st.dictionaries(st.sampled_from(["peak", "remaining", "reserved", "absolute_peak"]), amounts)


@settings(deadline=None)
@given(windows, windows, st.tuples(amounts, amounts, amounts, amounts), limit_sets, budget_sets)
def test_more_memory_never_turns_a_failing_verdict_green(
    base: WindowFigures,
    head: WindowFigures,
    more: tuple[int, ...],
    limits: dict[Metric, Limit],
    budgets: dict[Metric, int],
) -> None:
    grown = WindowFigures(
        "w", head.peak_bytes + more[0], head.remaining_bytes + more[1], head.reserved_peak_bytes + more[2], head.absolute_peak_bytes + more[3]
    )  # fmt: skip
    before, after = (judge(Paired(((base, one),)), limits, budgets) for one in (head, grown))
    failing = {row.metric for row in before if not row.ok}
    assert failing <= {row.metric for row in after if not row.ok}


@settings(deadline=None)
@given(st.lists(st.tuples(windows, windows), min_size=1, max_size=6), limit_sets, budget_sets)
def test_every_gated_figure_has_its_row_and_the_worst_one_stands_first(
    given_pairs: list[tuple[WindowFigures, WindowFigures]], limits: dict[Metric, Limit], budgets: dict[Metric, int]
) -> None:
    pairs = tuple(
        (
            WindowFigures(str(n), *list(old.to_dict().values())[1:]),
            WindowFigures(str(n), *list(new.to_dict().values())[1:]),
        )
        for n, (old, new) in enumerate(given_pairs)
    )
    rows = judge(Paired(pairs), limits, budgets)
    assert {(row.name, row.metric) for row in rows} >= {
        (old.name, metric) for old, _ in pairs for metric in {*limits, *budgets}
    }
    assert len({(row.name, row.metric) for row in rows}) == len(rows)
    over = [row.over_bytes for row in rows]
    assert over == sorted(over, reverse=True)
    assert all((row.over_bytes > 0) == (not row.ok) for row in rows)
