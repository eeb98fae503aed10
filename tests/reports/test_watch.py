"""What is shown of logs that grow, from hand-made states: all that matters, at any width and height, and nothing that acts."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from made_states import MIB, live_window, log_state

from memlens.analyzers import Growth
from memlens.reports.html import of
from memlens.reports.terminal import render
from memlens.reports.watch import live_blocks, state_line, watch_blocks
from memlens.text import width_of
from memlens.watching.crossings import Crossing, growth_of
from memlens.watching.state import LogState
from memlens.watching.watch import Watched

#: Text of logs made to break things: markup, escape codes, a title change, bidi and zero-width marks, a line's end.
HOSTILE = "[red]STEP[/] \x1b[31m\x1b]0;owned\x07 \u202etxt.exe\u200b\x9b2J\r\n<b>|`@root`"
LONG = "BLOCK_" + "a" * 300 + "_17"
LEAK = range(3, 23)  # 20 windows, each a MiB more: the first gains nothing, the last has gained 19


def seen(*states: LogState, crossings: tuple[Crossing, ...] = (), ended: str = "", time: float = 101.0) -> Watched:
    growths = tuple(growth_of(state) if len(state.end_live_bytes) else None for state in states)
    return Watched(states, growths, crossings, time, ended)  # type: ignore[arg-type]


def screen(watched: Watched, columns: int = 80, rows: int = 24, **more: bool) -> str:
    return render(live_blocks(watched, columns, rows), width=columns, **more)


def test_one_log_shows_its_levels_its_growth_and_its_last_windows() -> None:
    text = screen(seen(log_state(live=LEAK)), 120, 40)
    lines = text.splitlines()
    assert lines[0] == "run.log  1.00 MiB now, peak 24.00 MiB at line 17"
    assert lines[1] == "Reserved  8.00 MiB now, peak 16.00 MiB"
    # From 3 MiB before the first step to 22 MiB after the last closed one, a MiB in each of 19 steps.
    assert lines[2] == "Growth    growing from STEP_1 on: +1.00 MiB a window, 19.00 MiB in all, over 20 windows judged"
    assert "of 21 windows by (STEP_\\d+)" in text
    # The window before the last: 22 MiB at its end, 24 MiB at its peak, 26 MiB reserved, at line 191.
    assert next(line for line in lines if line.startswith("STEP_19 ")).split()[1:] == (
        ["24.00", "MiB", "3.00", "MiB", "22.00", "MiB", "26.00", "MiB", "4", "3", "191"]
    )
    assert next(line for line in lines if line.startswith("STEP_20 (open)"))
    assert lines[-1] == "123.00 MiB in 210 lines read, 147 events. Ctrl-C ends."
    assert "█" in text


def test_a_log_that_is_not_there_yet_says_so_and_nothing_else() -> None:
    assert screen(seen(LogState("run.log", waiting="no such file yet"), time=0.0)).splitlines() == [
        "run.log  no such file yet",
        "",
        "0 B in 0 lines read, 0 events. Ctrl-C ends.",
    ]


def test_what_is_not_known_is_not_shown_as_nothing() -> None:
    without_chunks = log_state(reserved_bytes=None, reserved_peak_bytes=None)
    assert "eserved" not in screen(
        seen(replace(without_chunks, timeline=replace(without_chunks.timeline, reserved_bytes=None)))
    )
    assert "only chunks are logged" in screen(seen(log_state(allocated_bytes=None)))


@pytest.mark.parametrize(("columns", "rows"), [*product((40, 60, 80, 120, 200), (5, 8, 12, 24, 30, 50))])
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
    assert "the peak exceeds 1.00 MiB: 61.00 MiB, at line 17" in low


def test_several_logs_have_a_row_each_the_highest_peak_on_top() -> None:
    states = [log_state(f"workerlog.{k}", peak_bytes=(100 + k) * MIB) for k in range(6)]
    text = screen(seen(*states), columns=120)
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("workerlog")]
    assert rows == [f"workerlog.{k}" for k in reversed(range(6))]
    assert "Of 6 logs the highest peak is 105.00 MiB in workerlog.5, the lowest 100.00 MiB in workerlog.0." in text
    assert "median" not in text  # each is within 3 % of the others, evenly spread


def test_a_rank_that_stands_out_is_marked_and_four_are_the_fewest_that_tell() -> None:
    def with_one_of(ranks: int, high: int) -> str:
        states = [log_state(f"workerlog.{k}", peak_bytes=(high if k == 1 else 100) * MIB) for k in range(ranks)]
        return screen(seen(*states), columns=120)

    assert "30% above the median" in with_one_of(4, 130)
    assert "30% below the median" in with_one_of(4, 70)
    assert "median" not in with_one_of(3, 130)
    assert "median" not in with_one_of(4, 100)


def test_a_log_that_exceeds_a_limit_or_has_failed_comes_before_those_with_higher_peaks() -> None:
    states = [
        log_state("high", peak_bytes=9 * MIB),
        log_state("failed", peak_bytes=2 * MIB, ooms=1),
        log_state("over", peak_bytes=1 * MIB),
    ]
    crossing = Crossing("over", "", "reserved", MIB, 16 * MIB)
    text = screen(seen(*states, crossings=(crossing,)), columns=120)
    table = text[text.index("Log ") :].splitlines()[1:4]
    assert [line.split()[0] for line in table] == ["over", "failed", "high"]
    assert table[0].endswith("over the limit")
    assert table[1].endswith("out of memory")
    assert "Limit   over: what is reserved exceeds 1.00 MiB: 16.00 MiB" in text


def test_of_several_logs_the_rows_stay_longer_than_the_list_of_limits() -> None:
    states = [log_state(f"workerlog.{k}", peak_bytes=9 * MIB) for k in range(16)]
    crossings = tuple(Crossing(state.path, "", "peak", MIB, 9 * MIB, 17) for state in states)
    text = screen(seen(*states, crossings=crossings))
    assert text.count("  over the limit") >= 10
    assert " more limits\n" in text


def test_growth_that_exceeded_its_limit_for_a_time_is_not_said_to_exceed_it_at_the_end() -> None:
    crossing = Crossing("run.log", "", "growth", MIB, 12 * MIB, None, "STEP_1")
    tooth = log_state(live=[*range(3, 17), *[3, 4] * 20])
    assert seen(log_state(live=LEAK), crossings=(crossing,), ended="idle").verdict.startswith(
        "What the windows gain exceeds 1.00 MiB: 12.00 MiB, from STEP_1 on. "
    )
    ended = seen(tooth, crossings=(crossing,), ended="idle").verdict
    assert "12.00 MiB, from STEP_1 on, for a time and not at the end." in ended
    assert "at the end" not in seen(tooth, crossings=(crossing,)).verdict


def test_devices_of_one_log_are_told_apart() -> None:
    text = screen(seen(log_state(device="device 0"), log_state(device="device 1")), columns=120)
    assert "run.log [device 0]" in text
    assert "run.log [device 1]" in text
    # Each of them says how much was read of the whole log.
    assert "123.00 MiB in 30 lines read, 42 events." in text


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


def test_widths_of_what_is_shown_at_the_end() -> None:
    one = seen(log_state(live=LEAK, malformed=1), ended="idle")
    texts = {width: render(watch_blocks(one), width=width) for width in (60, 80, 120, None)}
    for width, text in texts.items():
        assert width is None or max(map(width_of, text.splitlines())) <= width
        assert "STEP_20 (open)" in text
        assert "no room" not in text  # no other form of output has more
    shown = [len(text[text.index("Window ") :].splitlines()[1].split()) for text in texts.values()]
    assert shown == sorted(shown)


def test_the_end_fits_the_terminal_that_it_is_left_on() -> None:
    watched = seen(log_state(live=range(3, 60)), ended="interrupted")
    for rows in (20, 24, 30, 50):
        blocks = watch_blocks(watched, picture=True, rows=rows - 2)
        assert render(blocks, width=80).count("\n") <= rows - 2


def test_characters_beyond_ascii_are_left_out_where_the_terminal_has_none() -> None:
    several = seen(*(log_state(f"log.{k}", live=LEAK) for k in range(3)))
    for watched in (seen(log_state("è.log", live=LEAK)), several):
        assert screen(watched, 120, 40, ascii_only=True).isascii()


@pytest.mark.parametrize(
    ("age", "words"),
    [(9, ""), (10, "quiet for 10 s"), (59, "quiet for 59 s"), (61, "quiet for 1 min"), (7201, "quiet for 2 h 00 min")],
)
def test_since_when_nothing_was_written_is_said(age: int, words: str) -> None:
    last = screen(seen(log_state(), time=100.0 + age)).splitlines()[-1]
    assert last == f"123.00 MiB in 30 lines read, 21 events{', ' + words if words else ''}. Ctrl-C ends."


def test_a_line_of_a_log_has_its_figures_and_its_troubles() -> None:
    state = log_state(live=LEAK, malformed=1, restarts=2)
    assert render([state_line(seen(state), 0)]) == (
        "run.log  1.00 MiB now, peak 24.00 MiB at line 17; reserved 8.00 MiB now, peak 16.00 MiB; 21 windows, the last STEP_20;"
        " growing, +19.00 MiB; 1 line looks like an event and cannot be read;"
        " the file was replaced by that of another run 2 times; figures are of the last one\n"
    )


def test_growth_is_the_one_of_the_analyzer() -> None:
    growth = growth_of(log_state(live=LEAK))
    assert isinstance(growth, Growth)
    assert (growth.verdict, growth.judged, growth.since_window) == ("growing", 20, 1)
    assert (growth.gained_bytes, growth.gained_bytes_per_window) == ((22 - 3) * MIB, MIB)
