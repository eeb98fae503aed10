"""Limits: how they are written, and when a growth is over them, over every base and change that could make a difference."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.errors import UsageError
from memlens.gating.baseline import RunFigures, WindowFigures
from memlens.gating.judging import Judged, judge, pair_runs
from memlens.gating.limits import Limit, Rules, parse_budgets, parse_limits

MIB = 1 << 20

#: Percentages as they are written, each with its numerator over 100,000.
PERCENTS = {"0%": 0, "0.001%": 1, "2%": 2_000, "33.333%": 33_333, "100%": 100_000, "250.5%": 250_500}
SIZES = {"0": 0, "1B": 1, "1023B": 1023, "1MiB": MIB, "1.5KiB": 1536, "4EiB": 0}
BASES = (
    0,
    1,
    2,
    49,
    50,
    51,
    999,
    MIB - 1,
    MIB,
    50 * MIB,
    50 * MIB + 1,
    10**12 + 7,
    2**53 + 1,
    2**62,
    -1,
    -50,
    -MIB,
    -50 * MIB,
    -(2**62),
)


def fails(base: int, head: int, absolute: int, share: int) -> bool:
    """The rule as it stands in the documentation, in integers: over both parts; over a base of 0 the absolute part alone."""
    growth = head - base
    over_absolute = growth > absolute
    over_relative = growth * 100_000 > share * abs(base)
    return over_absolute if base == 0 else over_absolute and over_relative


def changes(base: int, absolute: int, share: int) -> set[int]:
    """Growths below, at and above each part, both directions, tiny and huge ones."""
    relative = share * abs(base) // 100_000
    edges = {0, absolute, relative, relative + 1, base, abs(base), 2**62}
    return {sign * (edge + step) for edge in edges for step in (-1, 0, 1) for sign in (1, -1)}


def row_of(base: int, head: int, limit: Limit) -> Judged:
    old, new = (RunFigures(0, 0, (WindowFigures("w", 0, 0, figure),)) for figure in (base, head))
    rows = judge([old], new, pair_runs([old], new, series=False), Rules({"remaining": limit}))
    (row,) = (row for row in rows if row.metric == "remaining")
    return row


def judged(base: int, head: int, limit: Limit) -> bool:
    row = row_of(base, head, limit)
    assert (row.base_bytes, row.head_bytes, row.d_bytes) == (base, head, head - base)
    assert row.limit_bytes is not None
    assert row.ok == (head <= row.limit_bytes) == (row.over_bytes == 0)
    assert row.over_bytes == max(head - row.limit_bytes, 0)
    return row.ok


@pytest.mark.parametrize(("percent", "size"), list(itertools.product(PERCENTS, ["0", "1B", "1023B", "1MiB", "1.5KiB"])))
def test_a_figure_fails_exactly_where_its_growth_is_over_both_parts(percent: str, size: str) -> None:
    limit = Rules.parse(f"remaining={percent},{size}").limits["remaining"]
    tried = 0
    for base in BASES:
        for change in changes(base, SIZES[size], PERCENTS[percent]):
            assert judged(base, base + change, limit) != fails(base, base + change, SIZES[size], PERCENTS[percent])
            tried += 1
    assert tried > 200


@pytest.mark.parametrize(("percent", "size"), list(itertools.product(PERCENTS, ["0", "1B", "1MiB"])))
def test_a_fall_by_more_than_a_growth_might_be_is_an_improvement_and_nothing_else_is(percent: str, size: str) -> None:
    limit = Rules.parse(f"remaining={percent},{size}").limits["remaining"]
    for base in BASES:
        for change in changes(base, SIZES[size], PERCENTS[percent]):
            row = row_of(base, base + change, limit)
            # The same rule with the sign of the change turned.
            assert row.improved == fails(base, base - change, SIZES[size], PERCENTS[percent])
            assert not (row.improved and not row.ok)


figures = st.integers(-(2**62), 2**62)
limits = st.tuples(st.fractions(0, 100), st.integers(0, 2**62)).map(lambda of: Limit(*of))


@given(figures, figures, figures, limits)
def test_more_memory_never_turns_a_failing_figure_green(base: int, head: int, more: int, limit: Limit) -> None:
    assert judged(base, head + abs(more), limit) <= judged(base, head, limit)


# --- how they are written ---


def test_by_default_figures_may_grow_by_two_percent_with_one_floor_for_the_run_and_another_for_windows() -> None:
    default, of_windows = Limit(Fraction(1, 50), 64 << 10), Limit(Fraction(1, 50), MIB)
    assert Rules.parse().limits == {"peak": default, "remaining": of_windows, "growth": default}
    for rules, peak in ((Rules.parse(), of_windows), (Rules.parse("peak=5B"), Limit(absolute_bytes=5))):
        assert rules.limit("peak", of_window=True) == peak
        assert rules.limit("remaining", of_window=True) == of_windows
    assert Rules.parse(windows=False).limits == dict.fromkeys(("peak", "growth"), default)
    rules = Rules.parse(["reserved=5%", "remaining=0", "growth=OFF"], windows=False)
    assert dict(rules.limits) == {"peak": default, "remaining": Limit(), "reserved": Limit(Fraction(1, 20))}
    assert list(rules.limits) == ["peak", "remaining", "reserved"]
    # What is asked for must be judged, and what is switched off is asked for by nobody.
    assert rules.named == {"remaining", "reserved", "growth"}


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("peak=2%,1MiB", Limit(Fraction(2, 100), MIB)),
        (" Peak = 1.5GiB , .5% ", Limit(Fraction(1, 200), 3 << 29)),
        ("peak=0.1 kb", Limit(Fraction(0), 102)),
        ("peak=0.%", Limit()),
        ("peak=0", Limit()),
        ("peak=0.0", Limit()),
        ("peak=7 B", Limit(Fraction(0), 7)),
        ("peak=9007199254740993B", Limit(Fraction(0), 2**53 + 1)),
        ("peak=9007199254740993.9b", Limit(Fraction(0), 2**53 + 1)),
        ("peak=1000000%", Limit(Fraction(10_000))),
    ],
)
def test_a_limit_is_read_exactly(text: str, limit: Limit) -> None:
    assert parse_limits(text)["peak"] == limit


@pytest.mark.parametrize("text", ["peak=10", "peak=2%,10", "rise=10", "peak=10.5"])
def test_a_size_without_a_unit_is_wrong_usage_that_suggests_one(text: str) -> None:
    with pytest.raises(UsageError, match="has no unit") as caught:
        parse_limits(text)
    number = text.rpartition("=")[2].rpartition(",")[2]
    assert f"{number}MiB" in caught.value.hint
    assert f"{number}B" in caught.value.hint
    with pytest.raises(UsageError, match="has no unit") as caught:
        parse_budgets("peak=1000")
    assert "1000MiB" in caught.value.hint


@pytest.mark.parametrize("metric", ["rise", "remaining", "growth"])
def test_a_budget_is_about_what_the_device_holds(metric: str) -> None:
    with pytest.raises(UsageError, match=f"no budget for {metric}") as caught:
        parse_budgets(f"{metric}=1GiB")
    assert "peak, reserved" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["peak", "peak=", "=2%", "size=2%", "peak=-1%", "peak=-1", "peak=nan", "peak=inf", "peak=nan%", "peak=inf%", "peak=1e3", "peak=1e3%",
     "peak=1%,2%", "peak=1,2", "peak=1%,2,3", "peak=,", "peak=1%,", "peak=2 %%", "peak=0x10", "peak=1_000", "peak=٣%", "peak=1MiB/s",
     "peak=" + "9" * 10_000, "peak=1%,1MiB=2"],
)  # fmt: skip
def test_what_is_no_limit_is_wrong_usage_with_a_way_to_write_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_limits(text)
    assert "peak" in caught.value.hint
    assert len(str(caught.value)) < 400


def test_one_metric_is_given_once() -> None:
    with pytest.raises(UsageError, match="given twice"):
        parse_limits(["peak=1%", "peak=2%"])


@pytest.mark.parametrize("text", ["2%, 1.00 MiB", "0.5%", "0 B", "33.333%, 4.00 KiB", "0.0000001%"])
def test_a_limit_is_shown_as_it_was_written(text: str) -> None:
    assert str(parse_limits(f"peak={text.replace(' ', '')}")["peak"]) == text
