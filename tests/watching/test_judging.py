"""When a budget of a log that grows is called exceeded, and when not: at every moment of series that leak, and of those that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from made_states import MIB, log_state
from msgspec.structs import replace
from night import NIGHT
from numpy.typing import NDArray

import memlens
from memlens.gating.limits import WATCHED, parse_budgets
from memlens.watching.judging import FEWEST, Judge, claims_of, crossing_claim, crossings_of, lasting_gain
from memlens.watching.result import Crossing, Watched

Ints = NDArray[np.int64]
Chance = np.random.Generator


def ints(levels: object) -> Ints:
    return np.asarray(levels, np.int64)


def first_claim(live: Ints, limit: int) -> int | None:
    """After how many windows of a series its growth is said to exceed a limit for the first time."""
    for count in range(1, len(live) + 1):
        gained = lasting_gain(live[:count])
        if gained is not None and gained > limit:
            return count
    return None


# Each takes a random generator and gives live bytes and a limit.
INNOCENT: dict[str, Callable[[Chance], tuple[Ints, int]]] = {
    "flat": lambda _: (ints([100 * MIB] * 60), 0),
    "noise": lambda chance: (ints(100 * MIB + chance.integers(0, MIB, 150)), MIB // 10),
    "a few levels by chance": lambda chance: (ints(chance.choice([100, 101, 105, 120], 150) * MIB), MIB // 10),
    # The teeth rise by a MiB a window, more than the limit, and come back; the log begins anywhere in one.
    "sawtooth": lambda chance: (
        ints(100 * MIB + (np.arange(120) + chance.integers(9)) % chance.integers(2, 10) * MIB),
        MIB // 2,
    ),
    "warm-up in even steps, then a plateau": lambda chance: (
        ints(10 * MIB * np.minimum(np.arange(80), chance.integers(1, 9)) + chance.integers(0, MIB // 10, 80)),
        5 * MIB,
    ),
    "warm-up that slows down": lambda chance: (
        ints(100 * MIB * (1 - np.exp(-np.arange(80) / chance.uniform(0.5, 5))) + chance.integers(0, MIB // 100, 80)),
        MIB,
    ),
    "a jump": lambda chance: (
        ints(np.where(np.arange(80) < chance.integers(1, 60), 10, 50) * MIB + chance.integers(0, MIB // 10, 80)),
        MIB,
    ),
    "shrinking": lambda chance: (ints(200 * MIB - np.arange(100) * MIB + chance.integers(0, MIB, 100)), 0),
}

# Each also gives the window after which the limit is passed, and how many windows later it must have been said.
LEAKS: dict[str, Callable[[Chance], tuple[Ints, int, int, int]]] = {
    "from the start": lambda _: (ints(100 * MIB + np.arange(60) * MIB), 10 * MIB, 11, 4),
    "one window of warm-up before": lambda _: (ints([0, *(100 * MIB + np.arange(60) * MIB)]), 10 * MIB, 12, 4),
    "that starts late": lambda _: (ints(100 * MIB + np.maximum(np.arange(160) - 100, 0) * MIB), 10 * MIB, 111, 4),
    "with noise": lambda chance: (
        ints(100 * MIB + np.arange(100) * MIB + chance.integers(0, 2 * MIB, 100)),
        10 * MIB,
        11,
        12,
    ),
    "in every fifth window": lambda _: (ints(100 * MIB + np.arange(200) // 5 * MIB), 10 * MIB, 56, 10),
    "beside a sawtooth": lambda _: (
        ints(100 * MIB + np.arange(200) * MIB // 4 + np.arange(200) % 5 * MIB),
        10 * MIB,
        41,
        30,
    ),
    "of a few bytes": lambda _: (ints(10**10 + np.arange(60) * 512), 0, 2, 12),
}


@pytest.mark.parametrize("name", INNOCENT)
def test_no_growth_is_claimed_at_any_moment_of_a_series_that_does_not_leak(
    name: str, rounds: Callable[[int], range]
) -> None:
    for seed in rounds(12 if NIGHT else 1):
        live, limit = INNOCENT[name](np.random.default_rng(seed))
        assert first_claim(live, limit) is None, f"seed {seed}"


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_beyond_the_limit_is_claimed_soon_and_not_before(name: str, rounds: Callable[[int], range]) -> None:
    for seed in rounds(6 if NIGHT else 2):
        live, limit, passed, patience = LEAKS[name](np.random.default_rng(seed))
        claimed = first_claim(live, limit)
        assert claimed is not None
        assert claimed <= max(passed, FEWEST) + patience, f"seed {seed}"
        # Nothing above the limit had been reached before.
        assert max(live[:claimed]) - min(live[:claimed]) > limit


def crossed(state: object, *budgets: str, final: bool = False) -> list[Crossing]:
    judge = Judge()
    judge.judge((state,), final=final)  # type: ignore[arg-type]
    return list(crossings_of(state, parse_budgets(budgets, WATCHED), judge))  # type: ignore[arg-type]


def test_a_budget_is_exceeded_by_more_than_it_and_not_by_as_much() -> None:
    exceeded = {"peak": 11, "reserved": 9}
    state = log_state(peak_bytes=10 * MIB, reserved_peak_bytes=12 * MIB, exceeded=exceeded)
    assert crossed(state, "peak=10MiB", "reserved=12MiB") == []
    peak, reserved = crossed(state, f"peak={10 * MIB - 1}B", "reserved=11MiB")
    assert peak == Crossing("run.log", "", "peak", 10 * MIB - 1, 10 * MIB, line=11)
    assert reserved == Crossing("run.log", "", "reserved", 11 * MIB, 12 * MIB, line=9)


def test_at_the_end_the_judge_of_the_analysis_decides_alone() -> None:
    """Ten windows that each gain a MiB: too few to say so while more may come, and all there is at the end."""
    state = log_state(live=range(3, 13))
    assert crossed(state, "growth=8MiB") == []
    (found,) = crossed(state, "growth=8MiB", final=True)
    assert (found.reached_bytes, found.since) == (9 * MIB, "STEP_1")
    assert crossing_claim(found).text == "the windows gain 9.00 MiB from STEP_1 on, over the budget of 8.00 MiB"
    assert crossed(state, "growth=9MiB", final=True) == []


def test_a_peak_over_its_budget_of_a_run_that_was_replaced_is_past() -> None:
    over = log_state(peak_bytes=20 * MIB, exceeded={"peak": 11})
    (crossing,) = crossed(over, "peak=10MiB")
    for state, words in ((over, "is 20.00 MiB"), (log_state(peak_bytes=5 * MIB), "was 20.00 MiB")):
        seen = Watched((state,), (None,), (crossing,))
        assert crossing_claim(crossing, seen).text.startswith(f"the peak {words}, over the budget of 10.00 MiB")
        assert crossing_claim(crossing, seen).text.endswith("no longer") == ("was" in words)


def test_a_window_that_is_no_longer_kept_has_its_name_still_where_it_was_judged_before() -> None:
    first, later = log_state(live=range(3, 23)), log_state(live=range(3, 103))
    judge = Judge()
    judge.judge((first,), final=True)
    judge.judge((later,), final=True)
    growth = judge.growth(later)
    assert growth is not None
    # what precedes the first step is none
    assert (growth.since, growth.since_window, growth.judged) == ("STEP_1", 1, 99)
    assert later.windows[0].index == 101 - 64
    # One that was never judged before is told by its number, which is nobody's name.
    (found,) = crossed(later, "growth=8MiB")
    assert found.since == "window no. 2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("peak", "is no budget"),
        ("peak=10", "has no unit"),
        ("rise=1GiB", "there is no budget for rise"),
        ("level=1GiB", "there is no metric 'level'"),
    ],
)
def test_a_budget_is_read_as_that_of_a_gate_and_growth_has_one_too(text: str, message: str) -> None:
    with pytest.raises(memlens.UsageError, match=message):
        parse_budgets([text], WATCHED)
    assert parse_budgets(["growth=0", "peak = 1.5 KiB"], WATCHED) == {"peak": 1536, "growth": 0}


def test_parts_of_a_larger_unit_of_work_are_not_judged() -> None:
    """What the calls of one forward pass leave behind is used in the backward pass: analyze does not judge it either."""
    calls = log_state(live=range(3, 40), repeated=False)
    assert crossed(calls, "growth=0") == []
    assert crossed(calls, "growth=0", final=True) == []
    assert len(crossed(replace(calls, repeated=True), "growth=0")) == 1


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({}, "Peak: 5.00 MiB allocated, at line 17"),
        ({"allocated_bytes": None, "peak_bytes": 0, "peak_line": None}, "Peak: 16.00 MiB reserved"),
    ],
)
def test_the_peak_stands_beside_no_reserved_level_of_another_moment(known: dict[str, Any], text: str) -> None:
    # 8 MiB are reserved now, and 16 were at most.
    (peak,) = claims_of(Watched((log_state(**known),), (None,)))
    assert (peak.kind, peak.text.removesuffix(".").casefold()) == ("peak", text.casefold())
