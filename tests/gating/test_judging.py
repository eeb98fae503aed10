"""Judgements: which windows are compared, what fails, what is not judged, and in which order it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_verdicts import MIB, window
from msgspec.structs import replace

from memlens.gating.baseline import RunFigures, WindowFigures
from memlens.gating.judging import Judged, judge, pair_runs
from memlens.gating.limits import BUDGETED, DEFAULT_OF_WINDOWS, METRICS, Limit, Metric, Rules
from memlens.windows.windows import WHOLE

DEFAULT = Rules.parse()
FLOOR = 64 << 10


def run(*windows: WindowFigures, peak: int | None = 0, reserved: int | None = 0, **more: Any) -> RunFigures:
    return RunFigures(peak, reserved, windows, **more)


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


# --- pairs ---


@pytest.mark.parametrize(
    ("base", "head", "missing", "not_reached", "new"),
    [
        ("1|2|3", "(before)|1|3|4", "2", "", "(before)|4"),
        ("0|1|2|3", "0|1", "", "2|3", ""),
        ("0|1|2|3", "1|2", "0", "3", ""),
        ("TRAIN|EVAL|TRAIN #2|EVAL #2", "TRAIN|EVAL", "", "TRAIN #2|EVAL #2", ""),
        # Nothing of the kind was ever reached: the export is no step that a shorter run leaves out.
        ("STEP 0|STEP 1|EXPORT", "STEP 0", "EXPORT", "STEP 1", ""),
        ("0|1|2", "7|8", "0|1|2", "", "7|8"),
    ],
)
def test_windows_pair_by_name_and_a_run_that_ends_earlier_lacks_the_end_of_the_series_only(
    base: str, head: str, missing: str, not_reached: str, new: str
) -> None:
    paired = pair_runs([named(*base.split("|"))], named(*head.split("|")), series=True)
    assert [(one[0].name, other.name) for one, other in paired.pairs] == [
        (name, name) for name in base.split("|") if name in head.split("|")
    ]
    assert "|".join(figures[0].name for figures in paired.missing) == missing
    assert ("|".join(paired.not_reached), "|".join(paired.new)) == (not_reached, new)


def test_with_nothing_in_common_but_what_precedes_the_steps_they_are_unlike_and_nothing_fails() -> None:
    base, head = named("(before)", "a"), named("(before)", "b")
    assert pair_runs([base], head, series=True).unlike
    assert all(row.ok for row in judged(base, head))
    assert not pair_runs([named("(before)", "a", "b")], named("(before)", "b", "c"), series=True).unlike


def test_windows_that_accepted_runs_lack_too_are_not_missing_and_are_judged_where_the_log_has_them() -> None:
    assert pair_runs([named("0", "1", "EVAL"), named("0", "1")], named("0", "1"), series=True).missing == ()
    paired = pair_runs([named("0", "1"), named("0", "1", "EVAL")], named("0", "1", "EVAL"), series=True)
    assert [(one[0].name, len(one)) for one, _ in paired.pairs] == [("0", 2), ("1", 2), ("EVAL", 1)]


# --- rows ---


def test_by_default_the_peak_of_the_run_and_peak_and_remaining_of_windows_are_judged() -> None:
    old = run(window("0", 10 * MIB, 1), window("1", 10 * MIB, 2), peak=30 * MIB, reserved=40 * MIB)
    rows = judged(old, old)
    assert {(row.name, row.metric) for row in rows if row.unjudged is None} == {
        (WHOLE, "peak"), ("0", "peak"), ("0", "remaining"), ("1", "peak"), ("1", "remaining")
    }  # fmt: skip
    assert [(row.name, row.metric, row.unjudged) for row in rows if row.unjudged] == [
        (WHOLE, "growth", "no steps found")
    ]
    assert all(row.ok for row in rows)
    assert (the(rows, "peak").limit_bytes, the(rows, "peak").limit_from) == (30 * MIB * 102 // 100, "base")
    assert (the(rows, "peak", "0").limit_bytes, the(rows, "peak", "0").limit_from) == (11 * MIB, "floor")
    # What is reserved, and the rise, where it is asked for.
    rules = Rules.parse(["reserved=1MiB", "rise=0"])
    more = run(window("0", 10 * MIB, 1), window("1", 10 * MIB + 1, 2), peak=30 * MIB, reserved=41 * MIB + 1)
    failing = [(row.name, row.metric, row.over_bytes) for row in judged(old, more, rules) if not row.ok]
    assert failing == [(WHOLE, "reserved", 1), ("1", "rise", 1)]


@pytest.mark.parametrize(
    ("reserved", "limits", "unjudged"),
    [
        (400 * MIB, (), ["no limit names it"]),
        (102 * MIB, (), []),  # 2 % more
        (102 * MIB + 1, (), ["no limit names it"]),
        (400 * MIB, "reserved=off", []),
        (None, (), []),
    ],
)
def test_what_is_reserved_is_shown_where_it_grew_and_no_limit_names_it(
    reserved: int | None, limits: str | tuple[()], unjudged: list[str]
) -> None:
    rows = judged(run(window("w"), reserved=100 * MIB), run(window("w"), reserved=reserved), Rules.parse(limits))
    assert [row.unjudged for row in rows if row.metric == "reserved"] == unjudged
    assert all(row.ok for row in rows)


def test_of_several_accepted_runs_what_is_reserved_may_grow_by_their_spread() -> None:
    runs = [run(window("w"), reserved=size * MIB) for size in (100, 130)]
    for reserved, shown in ((160, 0), (161, 1)):
        rows = judged(runs, run(window("w"), reserved=reserved * MIB))
        assert sum(row.metric == "reserved" for row in rows) == shown


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
    rules = Rules.parse("peak=10%", f"peak={budget}B")
    row = the(judged(run(window("w"), peak=100), run(window("w"), peak=head), rules), "peak")
    assert (row.limit_bytes, row.limit_from, row.ok) == (limit_bytes, limit_from, ok)


@pytest.mark.parametrize("allow", [False, True])
def test_a_missing_window_fails_in_each_gated_metric_of_windows_unless_that_is_allowed(allow: bool) -> None:
    old = run(window("0"), window("w", 5, 6), window("1"))
    rows = judged(old, named("0", "1"), replace(DEFAULT, allow_missing=allow))
    assert [(row.metric, row.base_bytes, row.head_bytes, row.d_bytes) for row in rows if not row.ok] == (
        [] if allow else [("peak", 5, None, None), ("remaining", 6, None, None)]
    )
    assert all(row.ok for row in judged(named("0", "1", "2"), named("0", "1")))  # which ends earlier


@pytest.mark.parametrize(("base_open", "head_open"), [(True, False), (False, True), (True, True)])
def test_an_open_window_is_shown_and_not_judged_whichever_run_has_it(base_open: bool, head_open: bool) -> None:
    old = run(window("0", 5), window("1", 5, 5, open_end=base_open))
    new = run(window("0", 5), window("1", 99 * MIB, 99 * MIB, open_end=head_open))
    rows = judged(old, new)
    assert all(row.ok for row in rows)
    for metric in ("peak", "remaining"):
        row = the(rows, metric, "1")
        assert (row.base_bytes, row.head_bytes, row.limit_bytes, row.open_end) == (5, 99 * MIB, None, True)
        assert row.unjudged == ("open: no end anchor" if head_open else "open in the base")
        assert the(rows, metric, "0").unjudged is None


def test_what_is_not_known_is_not_judged_and_leaves_the_rest_judged() -> None:
    rules = Rules.parse("reserved=0")
    known, unknown = run(window("w"), reserved=5), run(window("w"), reserved=None)
    rows = judged(known, unknown, rules)
    assert (the(rows, "reserved").unjudged, the(rows, "reserved").ok) == ("not reported by the log", True)
    assert the(rows, "peak").limit_bytes == FLOOR
    assert the(judged(unknown, known, rules), "reserved").unjudged == "not reported by the base"
    # A budget asks for no base.
    budget = the(judged(unknown, known, Rules(rules.limits, {"reserved": 4})), "reserved")
    assert (budget.unjudged, budget.over_bytes) == (None, 1)
    blind = run(window("w"), peak=None, reserved=5)
    rows = judged(known, blind, rules)
    assert {row.unjudged for row in rows if row.metric != "reserved"} == {"no block in the log"}
    assert the(rows, "reserved").unjudged is None


@pytest.mark.parametrize(
    ("base_begins", "head_begins", "peak", "unjudged"),
    [
        (None, None, 5, None),
        # A recording that begins late may have been higher before: what it shows is too much, or not known.
        (None, 40, 5, "the log begins late, and may have been higher before"),
        (None, 40, 9 * MIB, None),
        (40, None, 9 * MIB, "the base begins late, and may have been higher before"),
        (40, None, 5, None),
        # Two that begin at one level begin at one place.
        (40, 40, 5, None),
        (40, 40, 9 * MIB, None),
        (40, 40 + FLOOR + 1, 5, "the log begins late, and may have been higher before"),
    ],
)
def test_a_recording_that_begins_late_shows_a_peak_that_may_have_been_higher(
    base_begins: int | None, head_begins: int | None, peak: int, unjudged: str | None
) -> None:
    old, new = (
        run(window("w"), peak=high, begins_at_bytes=begins) for high, begins in ((5, base_begins), (peak, head_begins))
    )
    row = the(judged(old, new), "peak")
    assert (row.unjudged, row.ok) == (unjudged, peak == 5 or unjudged is not None)
    if unjudged is None and peak > 5:
        assert row.over_bytes == peak - 5 - FLOOR


# --- several accepted runs ---


def test_no_limit_is_narrower_than_the_spread_of_the_accepted_runs() -> None:
    runs = [run(window("w", peak), peak=of_run) for peak, of_run in ((100, 1000), (130, 900), (110, 950))]
    rules = Rules.parse(["peak=50B", "remaining=0"])
    rows = judged(runs, run(window("w", 130 + 50), peak=1000 + 100), rules)
    # The highest of the accepted figures, and the larger one of limit and spread: 100 of the run, 50 of the window (spread 30).
    assert (the(rows, "peak").base_bytes, the(rows, "peak").spread_bytes) == (1000, 100)
    assert (the(rows, "peak").limit_bytes, the(rows, "peak").limit_from) == (1100, "spread")
    assert (the(rows, "peak", "w").limit_bytes, the(rows, "peak", "w").limit_from) == (180, "base")
    assert all(row.ok for row in rows)
    rows = judged(runs, run(window("w", 181), peak=1101), rules)
    assert {(row.name, row.over_bytes) for row in rows if not row.ok} == {(WHOLE, 1), ("w", 1)}


# --- growth ---


def steps(*levels: float, by: str = "STEP") -> RunFigures:
    """A run whose steps end at these levels, in MiB."""
    return run(window(WHOLE), steps_by=by, step_levels=tuple(round(level * MIB) for level in levels))


def growth(base: RunFigures, head: RunFigures, limit: str = "growth=0") -> Judged:
    return the(judged(base, head, Rules.parse(limit, windows=False), series=False), "growth")


def leak(count: int, each: float, at: int = 0) -> list[float]:
    return [100 + each * max(step - at, 0) for step in range(count)]


FILLING = [100, 110, 116, 119, *[120] * 26]
STOPS = [100, 100, 100, 100.75, 101.5, 102.25, 103, *[103.75] * 13]
TOOTH = [100 + step % 5 for step in range(40)]


@pytest.mark.parametrize(
    ("base", "head", "gained", "allowed"),
    [
        # Per step times steps, of a longer and of a shorter run; what is allowed is the rate of the base over as many steps.
        (leak(10, 1), leak(30, 2), 58, 29),
        (leak(30, 1), leak(10, 2), 18, 9),
        ([100] * 30, leak(30, 2), 58, 0),
        ([100] * 30, leak(30, 2, at=10), 38, 0),
        # What fills in the first steps fills in both; a short run is all of that.
        (FILLING, FILLING, 0, 0),
        (leak(40, 1)[:9] + [108] * 31, leak(9, 1), 8, 8),
        (TOOTH, TOOTH[:30], 0, 0),
        # A leak that stops stays; what the base gains in the same steps does not count.
        ([100] * 20, STOPS, 3.75, 0),
        (STOPS, STOPS, 3.75, 3.75),
        (STOPS, [2 * level - 100 for level in STOPS], 7.5, 3.75),
        ([100] * 20, [*STOPS[:-1], 100], 0, 0),
    ],
)
def test_growth_is_what_the_steps_gain_beyond_what_those_of_the_base_gain(
    base: list[float], head: list[float], gained: float, allowed: float
) -> None:
    row = growth(steps(*base), steps(*head))
    assert (row.head_bytes, row.base_bytes) == (gained * MIB, allowed * MIB)
    assert row.over_bytes == (gained - allowed) * MIB


@pytest.mark.parametrize(
    ("base", "head", "unjudged"),
    [
        (steps(1, 1, 1, 1), run(window(WHOLE)), "no steps found"),
        (run(window(WHOLE)), steps(1, 1, 1, 1), "no steps found in the base"),
        (steps(1, 1, 1, 1, by="EPOCH"), steps(1, 1, 1, 1), "other lines mark the steps of the base"),
        # Levels of a log that tells of chunks alone say nothing.
        (steps(1, 1, 1, 1), replace(steps(0, 0, 0, 0), peak_bytes=None), "no block in the log"),
        (replace(steps(0, 0, 0, 0), peak_bytes=None), steps(1, 1, 1, 1), "no block in the base"),
        (steps(1, 1, 1), steps(1, 1, 1, 1), "3 closed steps in the base, 4 needed"),
        (steps(1, 1, 1, 1), steps(1, 1, 1), "3 closed steps, 4 needed"),
        (steps(*[20] * 9), steps(20, 20, 20, 20, 23, 26, 29, 32, 35), "the last 5 steps rise by 15.00 MiB, too few to tell"),
    ],
)  # fmt: skip
def test_growth_that_cannot_be_told_is_not_judged(base: RunFigures, head: RunFigures, unjudged: str) -> None:
    row = growth(base, head)
    assert (row.unjudged, row.ok, row.limit_bytes) == (unjudged, True, None)


# --- properties ---

amounts = st.integers(0, 2**60)
figures = st.builds(WindowFigures, st.just("w"), amounts, amounts, st.integers(-(2**60), 2**60))
levels = st.lists(st.integers(0, 20) | st.integers(0, 2**40), max_size=30).map(tuple)
run_figures = st.builds(RunFigures, amounts, amounts, st.tuples(figures), st.just("STEP"), levels)
limit_sets = st.dictionaries(
    st.sampled_from(METRICS),
    st.tuples(st.fractions(0, 10), st.integers(0, 2**40)).map(lambda of: Limit(*of)),
    min_size=1,
)
budget_sets = st.dictionaries(st.sampled_from(BUDGETED), amounts)
rule_sets = st.tuples(limit_sets, budget_sets).map(lambda of: Rules(*of))


@given(st.lists(run_figures, min_size=1, max_size=4), limit_sets)
def test_every_accepted_run_passes_whatever_the_limits(base: list[RunFigures], limits: dict[Metric, Limit]) -> None:
    for head in base:
        assert all(row.ok for row in judged(base, head, Rules(limits), series=False))


@given(run_figures, run_figures, st.tuples(amounts, amounts, amounts, amounts, amounts), rule_sets)
def test_more_memory_never_turns_a_failing_verdict_green(
    base: RunFigures, head: RunFigures, more: tuple[int, ...], rules: Rules
) -> None:
    one = head.windows[0]
    window = WindowFigures(
        "w", one.peak_bytes + more[2], one.rise_bytes + more[3], one.remaining_bytes + more[4]
    )  # fmt: skip
    grown = RunFigures(
        (head.peak_bytes or 0) + more[0], (head.reserved_peak_bytes or 0) + more[1], (window,), "STEP", head.step_levels
    )
    before, after = (judged(base, one, rules, series=False) for one in (head, grown))
    assert {row.metric for row in before if not row.ok} <= {row.metric for row in after if not row.ok}


@given(st.lists(st.tuples(figures, figures), min_size=1, max_size=6), rule_sets)
def test_every_gated_figure_has_its_row_and_the_worst_one_stands_first(
    pairs: list[tuple[WindowFigures, WindowFigures]], rules: Rules
) -> None:
    old, new = (
        run(*(msgspec.structs.replace(pair[side], name=str(n)) for n, pair in enumerate(pairs))) for side in (0, 1)
    )
    rows = judged(old, new, rules)
    wanted = {(WHOLE, metric) for metric in (*BUDGETED, "growth") if rules.gated(metric)}
    ours, theirs = new.reserved_peak_bytes or 0, old.reserved_peak_bytes or 0
    wanted |= {(WHOLE, "reserved")} if ours - theirs > DEFAULT_OF_WINDOWS.allows(theirs) else set()
    wanted |= {
        (str(n), metric)
        for n in range(len(pairs))
        for metric in ("peak", "rise", "remaining")
        if metric in rules.limits
    }
    assert {(row.name, row.metric) for row in rows} == wanted
    assert len(rows) == len(wanted)
    over = [row.over_bytes for row in rows]
    assert over == sorted(over, reverse=True)
    assert all((row.over_bytes > 0) == (not row.ok) for row in rows)
