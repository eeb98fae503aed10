"""The table of a series: windows that do the same are one row, and of many rows the ends and what stands out are shown."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from widths import check_widths

import memlens
from memlens.analyzers.curve import curve
from memlens.analyzers.peak import Peak, Remaining
from memlens.analyzing.result import LogAnalysis, WindowAnalysis
from memlens.errors import MemlensError
from memlens.reports.blocks import Asked, Block, Table
from memlens.reports.series import growth_word, phases_table, steps_blocks, windows_table
from memlens.reports.tables import WINDOW_COLUMNS
from memlens.reports.terminal import render
from memlens.units import format_bytes
from memlens.windows.windows import BEFORE

ALLOC = "I0712 10:54:00.000000  1120 auto_growth_best_fit_allocator.cc:169] Alloc {} bytes, ptr = 0x{:x}\n"
FREE = "I0712 10:54:00.000000  1120 auto_growth_best_fit_allocator.cc:220] Free {} bytes, ptr = 0x{:x}\n"


def window(name: str, carried: int, rise: int, left: int, *, open_end: bool = False) -> WindowAnalysis:
    results = {
        "peak": Peak(carried + rise, rise, 0, 0, 1),
        "remaining": Remaining(left, carried, carried + left),
    }
    return WindowAnalysis(name, 1, 1, 2, results, open_end)


def rows(table: Table) -> list[tuple[object, ...]]:
    """Name, peak, rise, remaining, and what stands out."""
    keys = [column.key for column in table.columns]
    at = [
        keys.index(key) if key in keys else -1
        for key in ("name", "peak_bytes", "rise_bytes", "remaining_bytes", "note")
    ]
    return [tuple(row[k] if k >= 0 else "" for k in at) for row in table.rows]


def test_windows_that_do_the_same_are_one_row_with_the_highest_of_their_peaks() -> None:
    # Step 0 keeps 1000, each later one 10: their levels rise, but they do the same.
    made = [window(BEFORE, 0, 50, 50), window("STEP 0", 50, 2000, 1000)]
    made += [window(f"STEP {k}", 1050 + 10 * (k - 1), 500, 10) for k in range(1, 29)]
    made.append(window("STEP 29", 1330, 500, -1330, open_end=True))
    assert rows(windows_table(made, None, 20)) == [
        (BEFORE, 50, 50, 50, ""),
        ("STEP 0", 2050, 2000, 1000, "highest peak, leaves most"),
        ("STEP 1–28 ×28", 1050 + 10 * 27 + 500, 500, 10, ""),
        ("STEP 29 (open)", 1830, 500, -1330, ""),
    ]


@pytest.mark.parametrize(
    ("names", "row"),
    [
        (["STEP 1", "STEP 2"], "STEP 1–2 ×2"),
        (["Epoch [0/5], Step [3/9]", "Epoch [0/5], Step [4/9]"], "Epoch [0/5], Step [3–4/9]"),
        (
            ["Epoch [0/5], Step [8/9]", "Epoch [1/5], Step [0/9]"],
            "Epoch [0/5], Step [8/9] … Epoch [1/5], Step [0/9] ×2",
        ),
        (["A", "B"], "A … B ×2"),
        (["STEP 7", "STEP 7 #2"], "STEP 7 … STEP 7 #2 ×2"),
    ],
)
def test_a_row_of_several_windows_is_called_by_its_first_and_last(names: list[str], row: str) -> None:
    (found,) = rows(windows_table([window(name, 0, 256, 0) for name in names], None, 9))
    assert str(found[0]).removesuffix(" ×2") == row.removesuffix(" ×2")


def test_figures_that_differ_in_what_is_shown_are_rows_of_their_own() -> None:
    mib = 1 << 20
    alike, unlike = (
        [window("A", 0, mib, 0), window("B", 0, mib + 1, 0)],
        [window("A", 0, mib, 0), window("B", 0, mib + (mib >> 4), 0)],
    )
    assert format_bytes(mib) == format_bytes(mib + 1)
    assert len(windows_table(alike, None, 9).rows) == 1
    assert len(windows_table(unlike, None, 9).rows) == 2


def test_of_many_rows_the_ends_and_what_stands_out_are_shown_and_the_others_are_counted() -> None:
    made = [window(f"STEP {k}", 0, 256 * (1 + k % 7), k % 3) for k in range(100)]
    made[40] = window("STEP 40", 0, 256 * 99, 0)
    made[60] = window("STEP 60", 0, 256, 1 << 20)
    table = windows_table(made, None, 6)
    assert [row[0] for row in rows(table)] == ["STEP 0", "STEP 1", "… 38 more", "STEP 40", "… 19 more", "STEP 60", "… 37 more", "STEP 98", "STEP 99"]  # fmt: skip
    assert [row[4] for row in rows(table) if row[4]] == ["highest peak", "leaves most"]
    assert table.more == ""


def test_the_highest_peak_may_come_before_the_first_step() -> None:
    made = [
        window(BEFORE, 0, 50, 0),
        *(window(f"STEP {k}", 0, 1, 0) for k in range(5)),
        window("STEP 5", 0, 1, 0, open_end=True),
    ]
    assert [row[4] for row in rows(windows_table(made, None, 9))] == ["highest peak", "", ""]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ([5, 5, 5, 5], []),  # all the same
        ([0, 9, 0, 9], []),  # two of them
        ([0, 9, 0, 8], [1]),
        ([9, 9, 0, 4], [0]),  # a row of two that leave more than twice as much as any other
        ([9, 9, 0, 5], []),
        ([0, 0, 0, 0], []),
    ],
)
def test_a_window_leaves_most_where_no_other_does_the_same(left: list[int], said: list[int]) -> None:
    made = [window(f"STEP {k}", 0, 256, 1024 * one) for k, one in enumerate(left)]
    made = [window(BEFORE, 0, 256, 99 * 1024), *made, window("STEP 9", 0, 256, 0, open_end=True)]
    noted = [str(row[0]) for row in rows(windows_table(made, None, 9)) if "leaves most" in str(row[4])]
    assert noted == [f"STEP {k}" if k else "STEP 0–1 ×2" for k in said]


def test_a_remark_is_shown_whole_and_a_long_name_gives_way() -> None:
    name = "Train Epoch: {} of the second part of the whole training run"
    made = [window(BEFORE, 0, 50, 0), *(window(name.format(k), 0, 256 * (1 + k), 0) for k in range(3))]
    growth = SimpleNamespace(since_window=3)
    brief = [
        measure
        for measure in WINDOW_COLUMNS
        if measure.column.key in ("name", "peak_bytes", "rise_bytes", "remaining_bytes")
    ]
    screen = render([windows_table(made, growth, 9, measures=brief)], width=80)
    assert "highest peak, grows from here" in screen
    assert max(map(len, screen.splitlines())) <= 80


def test_every_window_is_in_a_row_or_counted(rounds: Callable[[int], range]) -> None:
    for seed in rounds(200):
        chance = random.Random(seed)
        made = [window(f"W{k}", chance.choice([0, 5]), 256 * chance.randint(1, 3), chance.choice([0, 0, 512])) for k in range(chance.randint(1, 60))]  # fmt: skip
        table = windows_table(made, None, chance.randint(0, 25))
        count = 0
        for name in (str(row[0]) for row in rows(table)):
            count += (
                int(name.split()[1]) if name.startswith("…") else int(name.rpartition("×")[2]) if "×" in name else 1
            )
        assert count == len(made), seed


def test_sorted_windows_stand_alone() -> None:
    made = [window(f"STEP {k}", 0, 256 * (1 + k % 2), 0) for k in range(9)]
    table = windows_table(made, None, 3, "peak")
    assert [row[0] for row in rows(table)] == ["STEP 1", "STEP 3", "STEP 5"]
    assert table.more == "… and 6 more windows"


def leak(steps: int, kept: int = 1024) -> bytes:
    lines = [ALLOC.format(4096, 0x1)]
    for k in range(steps):
        lines += [
            f"STEP {k} START\n",
            ALLOC.format(256, 0x2),
            FREE.format(256, 0x2),
            "START BACKWARD\n",
            ALLOC.format(kept, 0x1000 + k),
        ]
    return "".join(lines).encode()


def analyzed(text: bytes) -> LogAnalysis:
    return memlens.analyze(io.BytesIO(text), times=False).logs[0]


def test_steps_are_said_in_eight_lines_and_the_way_to_cut_by_them() -> None:
    lines = render(list(steps_blocks(analyzed(leak(30)), Asked(5))), width=80).splitlines()
    assert len(lines) <= 8
    assert lines[0].startswith(r"Steps  30 steps, found by themselves: --by '^(STEP \d+) START', growing")
    assert [line.split("  ")[0] for line in lines[1:]] == ["Window", BEFORE, "STEP 0–28 ×29", "STEP 29 (open)"]
    parts = render(list(steps_blocks(analyzed(leak(30).replace(b"STEP", b"START CALL").replace(b" START\n", b"\n")), Asked(5))), width=80)  # fmt: skip
    assert parts.startswith(r"Parts  30 parts, found by themselves: --by '^START (CALL \d+)'")
    assert "growing" not in parts
    assert not list(steps_blocks(analyzed(leak(0)), Asked(5)))


def test_a_table_of_logs_says_which_of_them_grow() -> None:
    logs = analyzed(leak(30)), analyzed(leak(0)), analyzed(leak(2))
    assert [growth_word(log.growth) for log in logs] == ["growing", "", ""]


def test_phases_that_rise_or_leave_behind_most_are_shown_in_their_order() -> None:
    log = analyzed(leak(30))
    assert log.phases is not None
    every = phases_table(log.phases, 9)
    assert [row[0] for row in every.rows] == ["(start)", "BACKWARD"]
    one = phases_table(log.phases, 1)
    assert [row[0] for row in one.rows] == ["BACKWARD"]
    assert one.more == "… and 1 more phase"
    assert "Min" in [column.title for column in phases_table(log.phases, 1, full=True).columns]


def test_the_levels_of_a_row_are_drawn_where_a_picture_is_wanted() -> None:
    log = analyzed(leak(30, 1 << 20))
    assert log.steps is not None
    read = memlens.read(io.BytesIO(leak(30, 1 << 20)), patterns=[memlens.Pattern(log.steps.by, regex=True)])
    drawn = windows_table(log.steps.windows, log.growth, 9, curve=curve(read.whole, read.windows(log.steps.by)))
    levels = [row[[column.key for column in drawn.columns].index("levels")] for row in drawn.rows]
    assert all(level is None or isinstance(level, str) for level in levels)
    assert str(levels[1])[-1] > str(levels[1])[0]  # a leak rises


def test_gaps_and_lives_of_windows_are_columns_where_they_are_asked_for(shared: Path) -> None:
    path = shared / "data" / "paddle" / "05_grow_batch_331.log.gz"
    (log,) = memlens.analyze(
        path, by=r"STEP (\d+) START", analyzers=["peak", "segments", "lifetimes"], times=False
    ).logs
    table = windows_table(log.windows, None, 99)
    keys = [column.key for column in table.columns]
    assert len(table.rows) == len(log.windows) == 31
    for row, one in zip(table.rows, log.windows, strict=True):
        at_peak = one.results["segments"].moments[0]
        shown = dict(zip(keys, row, strict=True))
        assert (shown["free_bytes"], shown["largest_gap_bytes"]) == (at_peak.free_bytes, at_peak.largest_gap_bytes)
        lives = one.results["lifetimes"]
        assert (shown["temporary_bytes"], shown["life_events"]) == (lives.temporary_bytes, lives.longest[0].life_events)


def real_logs(shared: Path) -> Iterator[LogAnalysis]:
    data = shared / "data"
    for path in sorted((*(data / "paddle").glob("*log*"), *(data / "traps").glob("*.gz"))):
        try:
            yield from memlens.analyze(path, times=False).logs
        except MemlensError:
            continue


def _rendered(blocks: list[Block], width: int | None) -> str:
    return render(blocks, width=width)


def test_steps_of_real_logs_are_eight_lines_at_most_and_say_the_same_at_every_width(shared: Path) -> None:
    count = 0
    for log in real_logs(shared):
        blocks = list(steps_blocks(log, Asked(5)))
        if not blocks:
            continue
        count += 1
        assert len(render(blocks, width=80).splitlines()) <= 8, log.path
        check_widths(partial(_rendered, blocks), narrow=60)
    assert count > 30
