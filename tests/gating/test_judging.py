"""Judgements: which windows are compared, what fails, what is not judged, and in which order it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_verdicts import MIB, window

from memlens.gating.figures import RunFigures, WindowFigures, slipped
from memlens.gating.judging import BaseWindow, Judged, Rules, judge, pair_runs
from memlens.gating.limits import BUDGETED, METRICS, Limit, Metric, parse_budgets, parse_limits
from memlens.windows.windows import WHOLE

DEFAULT = Rules(parse_limits(()))


def run(*windows: WindowFigures, peak: int | None = 0, reserved: int | None = 0) -> RunFigures:
    return RunFigures(peak, reserved, windows)


def named(*names: str) -> RunFigures:
    return run(*map(window, names))


def judged(
    base: RunFigures | Sequence[RunFigures] | None, head: RunFigures, rules: Rules = DEFAULT, *, series: bool = True
) -> tuple[Judged, ...]:
    runs = [base] if isinstance(base, RunFigures) else list(base or [])
    return judge(runs, head, pair_runs(runs, head, series=series), rules)


def the(rows: Sequence[Judged], metric: Metric, name: str = WHOLE) -> Judged:
    (row,) = (row for row in rows if (row.metric, row.name) == (metric, name))
    return row


def names(windows: Sequence[BaseWindow | WindowFigures]) -> list[str]:
    return [one.name for one in windows]


# --- pairs ---


def test_windows_of_a_series_pair_by_name_and_the_others_are_told() -> None:
    paired = pair_runs([named("1", "2", "3")], named("(before)", "1", "3", "4"), series=True)
    assert [(old.name, new.name) for old, new in paired.pairs] == [("1", "1"), ("3", "3")]
    assert (names(paired.missing), names(paired.new)) == (["2"], ["(before)", "4"])


def test_a_window_left_out_in_the_middle_does_not_shift_those_that_have_its_name() -> None:
    base = named("TRAIN", "EVAL", "TRAIN #2", "EVAL #2", "TRAIN #3")
    paired = pair_runs([base], named("TRAIN", "TRAIN #2", "EVAL", "TRAIN #3"), series=True)
    assert [(old.name, new.name) for old, new in paired.pairs] == [
        ("TRAIN", "TRAIN"), ("TRAIN #2", "TRAIN #2"), ("EVAL #2", "EVAL"), ("TRAIN #3", "TRAIN #3")
    ]  # fmt: skip
    assert names(paired.missing) == ["EVAL"]


def test_one_window_and_one_window_pair_whatever_they_are_called() -> None:
    paired = pair_runs([named("STEP 1")], named("STEP 2"), series=False)
    assert [(old.name, new.name) for old, new in paired.pairs] == [("STEP 1", "STEP 2")]


def test_with_nothing_in_common_all_steps_are_missing_and_new_and_what_precedes_them_pairs() -> None:
    paired = pair_runs([named("(before)", "a")], named("(before)", "b"), series=True)
    assert [old.name for old, _ in paired.pairs] == ["(before)"]
    assert (names(paired.missing), names(paired.new), paired.unlike) == (["a"], ["b"], True)
    assert not pair_runs([named("(before)", "a", "b")], named("(before)", "b", "c"), series=True).unlike


@pytest.mark.parametrize(
    ("base", "head", "missing", "not_reached"),
    [
        ("0|1|2|3", "0|1", "", "2|3"),
        ("0|1|2|3", "0|1|3", "2", ""),
        ("0|1|2|3", "1|2", "0", "3"),
        ("TRAIN|EVAL|TRAIN #2|EVAL #2", "TRAIN|EVAL", "", "TRAIN #2|EVAL #2"),
        # Nothing of the kind was ever reached: the export is no step that a shorter run leaves out.
        ("STEP 0|STEP 1|EXPORT", "STEP 0", "EXPORT", "STEP 1"),
        ("0|1|2", "7|8", "0|1|2", ""),
    ],
)
def test_a_run_that_ends_earlier_lacks_the_end_of_the_series_only(
    base: str, head: str, missing: str, not_reached: str
) -> None:
    paired = pair_runs([named(*base.split("|"))], named(*head.split("|")), series=True)
    assert "|".join(names(paired.missing)) == missing
    assert "|".join(names(paired.not_reached)) == not_reached


def test_windows_that_accepted_runs_lack_too_are_not_missing() -> None:
    paired = pair_runs([named("0", "1", "EVAL"), named("0", "1")], named("0", "1"), series=True)
    assert (paired.missing, names(paired.optional)) == ((), ["EVAL"])
    # Judged all the same where the log has it, by the runs that do.
    paired = pair_runs([named("0", "1"), named("0", "1", "EVAL")], named("0", "1", "EVAL"), series=True)
    assert [(one.name, len(one.figures)) for one, _ in paired.pairs] == [("0", 2), ("1", 2), ("EVAL", 1)]


# --- rows ---


def test_peak_is_of_the_run_and_rise_and_remaining_of_its_windows() -> None:
    old = run(window("0", 10 * MIB, 1), window("1", 10 * MIB, 2), peak=30 * MIB, reserved=40 * MIB)
    rows = judged(old, replace(old, reserved_peak_bytes=400 * MIB))
    assert {(row.name, row.metric) for row in rows} == {
        (WHOLE, "peak"), (WHOLE, "growth"), (WHOLE, "reserved"), ("0", "rise"), ("0", "remaining"), ("1", "rise"), ("1", "remaining")
    }  # fmt: skip
    assert all(row.ok for row in rows)
    # What is reserved is shown, and judged where it is asked for.
    assert (the(rows, "reserved").limit_bytes, the(rows, "reserved").limit_from) == (None, None)
    assert (the(rows, "peak").limit_bytes, the(rows, "peak").limit_from) == (31 * MIB, "base")
    asked = judged(old, replace(old, reserved_peak_bytes=41 * MIB + 1), Rules(parse_limits("reserved=1MiB")))
    assert [(row.metric, row.over_bytes) for row in asked if not row.ok] == [("reserved", 1)]


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
    rules = Rules(parse_limits("peak=10%"), parse_budgets(f"peak={budget}B"))
    row = the(judged(run(window("w"), peak=100), run(window("w"), peak=head), rules), "peak")
    assert (row.limit_bytes, row.limit_from, row.ok) == (limit_bytes, limit_from, ok)


def test_a_budget_is_about_the_peak_of_the_run_and_needs_no_base() -> None:
    head = run(window("(before)", 70 * MIB, 70 * MIB), window("0", 9 * MIB), peak=79 * MIB)
    rows = judged(None, head, Rules({}, parse_budgets("peak=10MiB")))
    assert [(row.name, row.metric, row.over_bytes, row.base_bytes) for row in rows if not row.ok] == [
        (WHOLE, "peak", 69 * MIB, None)
    ]
    assert sum(row.limit_bytes is not None for row in rows) == 1


@pytest.mark.parametrize("allow", [False, True])
def test_a_missing_window_fails_in_each_gated_metric_of_windows_unless_that_is_allowed(allow: bool) -> None:
    old = run(window("0"), window("w", 5, 6), window("1"))
    rows = judged(old, named("0", "1"), replace(DEFAULT, allow_missing=allow))
    assert [(row.metric, row.base_bytes, row.head_bytes, row.d_bytes, row.ok) for row in rows if row.missing] == [
        ("rise", 5, None, None, allow),
        ("remaining", 6, None, None, allow),
    ]


def test_windows_that_a_shorter_run_does_not_reach_do_not_fail() -> None:
    rows = judged(named("0", "1", "2"), named("0", "1"))
    assert [(row.name, row.ok) for row in rows if row.missing] == [("2", True)] * 2


@pytest.mark.parametrize(("base_open", "head_open"), [(True, False), (False, True), (True, True)])
def test_an_open_window_is_shown_and_not_judged_whichever_run_has_it(base_open: bool, head_open: bool) -> None:
    old = run(window("0", 5), window("1", 5, 5, open_end=base_open))
    new = run(window("0", 5), window("1", 99 * MIB, 99 * MIB, open_end=head_open))
    rows = judged(old, new)
    assert all(row.ok for row in rows)
    for metric in ("rise", "remaining"):
        row = the(rows, metric, "1")
        assert (row.base_bytes, row.head_bytes, row.limit_bytes, row.open_end) == (5, 99 * MIB, None, True)
        assert row.unjudged == ("open: no end anchor" if head_open else "open in the base")
        assert the(rows, metric, "0").unjudged is None


def test_where_the_start_matches_once_in_both_the_open_window_is_judged() -> None:
    old = run(window("(before)", 5), window("0", 5, 5, open_end=True))
    new = run(window("(before)", 5), window("0", 5, 99 * MIB, open_end=True))
    assert [(row.name, row.metric) for row in judged(old, new) if not row.ok] == [("0", "remaining")]
    several = run(window("0", 5, 5), window("1", 5, 5, open_end=True))
    assert all(row.ok for row in judged(several, new))


def test_a_window_bounded_by_a_start_alone_is_judged() -> None:
    rows = judged(run(window("STEP 1", 5)), run(window("STEP 7", 5 * MIB)), series=False)
    assert [(row.name, row.metric) for row in rows if not row.ok] == [("STEP 1", "rise")]


def test_what_is_not_known_is_not_judged_and_leaves_the_rest_judged() -> None:
    rules = Rules(parse_limits("reserved=0"))
    known, unknown = run(window("w"), reserved=5), run(window("w"), reserved=None)
    rows = judged(known, unknown, rules)
    assert (the(rows, "reserved").unjudged, the(rows, "reserved").ok) == ("not told by the log", True)
    assert the(rows, "peak").limit_bytes == MIB
    assert the(judged(unknown, known, rules), "reserved").unjudged == "not told by the base"
    # A budget asks for no base.
    budget = the(judged(unknown, known, Rules(rules.limits, {"reserved": 4})), "reserved")
    assert (budget.unjudged, budget.over_bytes) == (None, 1)
    assert not [row for row in judged(known, unknown) if row.metric == "reserved"]  # nobody asked
    blind = run(window("w"), peak=None)
    rows = judged(known, blind, rules)
    assert {row.metric: row.unjudged for row in rows} == {
        "peak": "no block in the log", "rise": "no block in the log", "remaining": "no block in the log", "reserved": None
    }  # fmt: skip


def test_the_worst_comes_first_then_what_is_missing_and_what_is_not_judged_last() -> None:
    old = [window(str(n), 10 * MIB) for n in (0, 3, 1, 9, 2)]
    new = [window(str(n), (10 + n) * MIB) for n in (0, 3, 1, 9, 2)]
    tail = window("end", 1, open_end=True)
    rows = judged(
        run(window("gone", 2**62), *old, tail), run(*new, tail), Rules(parse_limits(["remaining=off", "growth=off"]))
    )
    # 1 MiB more is at the limit and not over it.
    assert [row.name for row in rows if row.metric == "rise"] == ["9", "3", "2", "gone", "1", "0", "end"]
    assert [row.ok for row in rows if row.metric == "rise"] == [False] * 4 + [True] * 3


def test_rows_know_where_their_window_starts() -> None:
    old, new = named("STEP 1"), named("STEP 2")
    rows = judge([old], new, pair_runs([old], new, series=False), DEFAULT, start_lines={"STEP 2": 77})
    assert {row.start_line for row in rows if row.name != WHOLE} == {77}


# --- several accepted runs ---


def test_no_limit_is_narrower_than_the_spread_of_the_accepted_runs() -> None:
    runs = [run(window("w", rise), peak=peak) for rise, peak in ((100, 1000), (130, 900), (110, 950))]
    rules = Rules(parse_limits(["peak=0", "rise=50B", "remaining=0"]))
    rows = judged(runs, run(window("w", 130 + 50), peak=1000 + 100), rules)
    # The highest of the accepted figures, and the larger one of limit and spread: 100 of the peak, 50 of the rise (spread 30).
    assert (the(rows, "peak").base_bytes, the(rows, "peak").spread_bytes) == (1000, 100)
    assert (the(rows, "peak").limit_bytes, the(rows, "peak").limit_from) == (1100, "spread")
    assert (the(rows, "rise", "w").limit_bytes, the(rows, "rise", "w").limit_from) == (180, "base")
    assert all(row.ok for row in rows)
    rows = judged(runs, run(window("w", 181), peak=1101), rules)
    assert {(row.metric, row.over_bytes) for row in rows if not row.ok} == {("peak", 1), ("rise", 1)}


def test_lower_than_every_accepted_run_is_an_improvement() -> None:
    runs = [run(window("w"), peak=100 * MIB), run(window("w"), peak=50 * MIB)]
    assert not the(judged(runs, run(window("w"), peak=49 * MIB)), "peak").improved
    assert the(judged(runs, run(window("w"), peak=48 * MIB)), "peak").improved


def levels(*live: float) -> RunFigures:
    """A run whose windows end at these levels, in MiB; the first is what precedes them."""
    steps = enumerate(pairwise(round(level * MIB) for level in live))
    return run(*(window(f"w{n}", remaining=new - old, live=new) for n, (old, new) in steps))


@pytest.mark.parametrize(
    ("base", "head", "over"),
    [
        # The base keeps 4 MiB in w1 and frees them in w2, or in w3; head does not keep them, or half of them, or frees them sooner.
        ((10, 10, 14, 10, 10), (10, 10, 10, 10, 10), {}),
        ((10, 10, 14, 14, 10), (10, 10, 10, 10, 10), {}),
        ((10, 10, 14, 14, 10), (10, 10, 12, 12, 10), {}),
        ((10, 10, 14, 14, 10), (10, 10, 14, 10, 10), {}),
        # What head kept too it has to give back; and what it does not give back beside that counts, by 1 MiB over the limit.
        ((10, 10, 14, 10, 10), (10, 10, 14, 14, 14), {"w2": 3}),
        ((10, 10, 14, 10, 10), (10, 10, 10, 12, 12), {"w2": 1}),
        # That head is lower all the time, or has been since a window that gave nothing back in the base, hides nothing.
        ((30, 30, 34, 30, 30), (10, 10, 14, 14, 14), {"w2": 3}),
        ((30, 30, 30, 30, 30), (30, 10, 10, 15, 15), {"w2": 4}),
        ((30, 30, 34, 30, 30), (30, 10, 14, 14, 14), {"w2": 3}),
    ],
)
def test_head_need_not_give_back_what_it_never_left(
    base: tuple[int, ...], head: tuple[int, ...], over: dict[str, int]
) -> None:
    rows = judged(levels(*base), levels(*head), Rules({"remaining": Limit(Fraction(), MIB)}))
    assert {row.name: row.over_bytes // MIB for row in rows if not row.ok} == over


FLAT = (100,) * 13
#: Levels in MiB: 12 windows, of which five gain 0.8 MiB each, 4 MiB in all.
STOPS = (100, 100, 100, 100.8, 101.6, 102.4, 103.2, *((104,) * 6))


@pytest.mark.parametrize(
    ("base", "head", "over"),
    [
        (FLAT, STOPS, 3),
        # The same in both; a base that had as much at some time; a head that gives all of it back in the end.
        (STOPS, STOPS, 0),
        ((*FLAT[:5], 104, *FLAT[6:]), STOPS, 0),
        (FLAT, (*STOPS[:-1], 100), 0),
        # It starts lower, and in the end is no more above the base than the limit.
        (FLAT, tuple(level - 3 for level in STOPS), 0),
        # One step, which its own limit is for; and a base that is shorter, so that what comes later in head cannot be held against it.
        (FLAT, (100, 100, 100, *((104,) * 10)), 0),
        (FLAT[:8], STOPS, 0),
    ],
)
def test_bytes_that_are_gained_in_small_steps_and_stay_count_as_growth(
    base: tuple[float, ...], head: tuple[float, ...], over: int
) -> None:
    rows = judged(levels(*base), levels(*head), Rules({"growth": Limit(Fraction(), MIB)}))
    assert the(rows, "growth").over_bytes // MIB == over


amounts = st.integers(0, 2**60)
figures = st.builds(WindowFigures, st.just("w"), amounts, st.integers(-(2**60), 2**60), amounts)
run_figures = st.builds(RunFigures, amounts, amounts, st.tuples(figures))
limit_sets = st.dictionaries(
    st.sampled_from(METRICS), st.builds(Limit, st.fractions(0, 10), st.integers(0, 2**40)), min_size=1
)
budget_sets = st.dictionaries(st.sampled_from(BUDGETED), amounts)
rule_sets = st.builds(Rules, limit_sets, budget_sets)


@settings(deadline=None)
@given(st.lists(run_figures, min_size=1, max_size=4), rule_sets)
def test_every_accepted_run_passes_whatever_the_limits(base: list[RunFigures], rules: Rules) -> None:
    for head in base:
        assert all(row.ok for row in judged(base, head, replace(rules, budgets={}), series=False))


@settings(deadline=None)
@given(run_figures, run_figures, st.tuples(amounts, amounts, amounts, amounts), rule_sets)
def test_more_memory_never_turns_a_failing_verdict_green(
    base: RunFigures, head: RunFigures, more: tuple[int, ...], rules: Rules
) -> None:
    one = head.windows[0]
    grown = RunFigures(
        (head.peak_bytes or 0) + more[0],
        (head.reserved_peak_bytes or 0) + more[1],
        (replace(one, rise_bytes=one.rise_bytes + more[2], remaining_bytes=one.remaining_bytes + more[3]),),
    )
    before, after = (judged(base, one, rules, series=False) for one in (head, grown))
    assert {row.metric for row in before if not row.ok} <= {row.metric for row in after if not row.ok}


@settings(deadline=None)
@given(st.lists(st.tuples(figures, figures), min_size=1, max_size=6), rule_sets)
def test_every_gated_figure_has_its_row_and_the_worst_one_stands_first(
    pairs: list[tuple[WindowFigures, WindowFigures]], rules: Rules
) -> None:
    old, new = (run(*(replace(pair[side], name=str(n)) for n, pair in enumerate(pairs))) for side in (0, 1))
    rows = judged(old, new, rules)
    of_run, of_windows = {"peak", "reserved", *(["growth"] if len(pairs) > 1 else [])}, {"rise", "remaining"}
    wanted = {(WHOLE, metric) for metric in of_run} | {
        (str(n), metric) for n in range(len(pairs)) for metric in of_windows
    }
    assert {(row.name, row.metric) for row in rows} == wanted
    assert len(rows) == len(wanted)
    over = [row.over_bytes for row in rows]
    assert over == sorted(over, reverse=True)
    assert all((row.over_bytes > 0) == (not row.ok) for row in rows)


def test_two_events_on_each_side_of_an_anchor_may_have_slipped_over_it() -> None:
    # The last two events before the anchor, and the first two after it: an ALLOC is above 0.
    base, head = (7, 9, 100, -40), (100, -40, 300, 400)
    assert (slipped(base, head), slipped(head, base)) == (60, -60)
    assert slipped(base, base) == 0
