"""What is shown of logs that grow, from hand-made states: all that matters, at any width and height, and nothing that acts."""

from __future__ import annotations

from itertools import product

import pytest
from answers import replace, with_answer
from made_states import MIB, live_window, log_state
from night import some

from memlens.analyzers.series.growth import Growth
from memlens.reports.html import of
from memlens.reports.terminal import Size, render
from memlens.reports.watch import live_blocks, state_line, watch_blocks
from memlens.text import width_of
from memlens.watching.judging import growth_of
from memlens.watching.result import Crossing, LogState, Watched

#: Text of logs made to break things: markup, escape codes, a title change, bidi and zero-width marks, a line's end.
HOSTILE = "[red]STEP[/] \x1b[31m\x1b]0;owned\x07 \u202etxt.exe\u200b\x9b2J\r\n<b>|`@root`"
LONG = "BLOCK_" + "a" * 300 + "_17"
LEAK = range(3, 23)  # 20 windows, each a MiB more: the first gains nothing, the last has gained 19


def seen(*states: LogState, crossings: tuple[Crossing, ...] = (), ended: str = "", time: float = 101.0) -> Watched:
    growths = tuple(growth_of(state) if len(state.end_live_bytes) else None for state in states)
    return with_answer(Watched(states, growths, crossings, time, ended))  # type: ignore[arg-type]


def screen(watched: Watched, columns: int = 80, rows: int = 24, **more: bool) -> str:
    return render(live_blocks(watched, Size(columns, rows)), width=columns, **more)


@pytest.mark.parametrize(("columns", "rows"), some([*product((40, 60, 80, 120, 200), (5, 8, 12, 24, 30, 50))], 4))
def test_a_screen_fits_its_terminal(columns: int, rows: int) -> None:
    crossing = Crossing("run.log", "", "peak", 4 * MIB, 24 * MIB, 17)
    troubled = log_state(live=LEAK, ooms=2, malformed=3, rotations=1, restarts=1, problem="damaged " * 20)
    many = [log_state(f"ranks/{LONG}.{k}", live=LEAK, waiting="gone " * 10 if k == 3 else "") for k in range(40)]
    for watched in (
        seen(log_state(live=LEAK), crossings=(crossing,)),
        seen(troubled),
        seen(log_state(LONG, live=range(3, 300))),
        seen(*many),
    ):
        lines = screen(watched, columns, rows).splitlines()
        if columns >= 60:
            assert max(map(width_of, lines)) <= columns
        if rows >= 24:
            assert len(lines) <= rows
        assert "Ctrl-C ends." in lines[-1]


def test_a_higher_screen_shows_more_windows_and_a_low_one_keeps_what_matters_most() -> None:
    watched = seen(log_state(live=range(3, 60)), crossings=(Crossing("run.log", "", "peak", MIB, 61 * MIB, 17),))
    shown = [screen(watched, rows=rows).count("STEP_") for rows in (12, 24, 40, 60)]
    assert shown == sorted(shown)
    assert shown[0] < shown[-1]
    low = screen(watched, rows=9)
    assert "1.00 MiB now, peak 61.00 MiB" in low
    assert "the peak is 61.00 MiB, over the budget of 1.00 MiB from line 17 on" in " ".join(low.split())


def test_a_log_that_exceeds_a_budget_or_has_failed_comes_before_those_with_higher_peaks() -> None:
    states = [
        log_state("high", peak_bytes=9 * MIB),
        log_state("failed", peak_bytes=2 * MIB, ooms=1),
        log_state("over", peak_bytes=1 * MIB),
    ]
    crossing = Crossing("over", "", "reserved", MIB, 16 * MIB)
    text = screen(seen(*states, crossings=(crossing,)), columns=120)
    table = text[text.index("Log ") :].splitlines()[1:4]
    assert [line.split()[0] for line in table] == ["over", "failed", "high"]
    assert table[0].endswith("over the budget")
    assert table[1].endswith("out of memory")
    assert "Budget  over: the most reserved is 16.00 MiB, over the budget of 1.00 MiB" in text


def test_nothing_of_a_log_acts_on_the_terminal() -> None:
    state = log_state(HOSTILE, live=LEAK, device="", problem=HOSTILE, waiting=HOSTILE, by=HOSTILE)
    state = replace(state, windows=(live_window(20, 3, name=HOSTILE, open_end=True),))
    crossing = Crossing(HOSTILE, "", "growth", 1, 2, None, HOSTILE)
    several = seen(state, log_state("other"), crossings=(crossing,))
    for watched in (seen(state, crossings=(crossing,)), several):
        for text in (
            screen(watched, 120, 40),
            render(watch_blocks(watched, picture=True)),
            render([state_line(watched, 0)]),
        ):
            assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u200b", "\r"} & set(text)
        assert "\x1b" not in of(watched)
        assert "<b>" not in of(watched)


def test_growth_is_the_one_of_the_analyzer() -> None:
    growth = growth_of(log_state(live=LEAK))
    assert isinstance(growth, Growth)
    assert (growth.verdict, growth.judged, growth.since_window) == (
        "growing",
        19,
        1,
    )  # what precedes the first step is none
    assert (growth.gained_bytes, growth.gained_bytes_per_window) == ((22 - 3) * MIB, MIB)
