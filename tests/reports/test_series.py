"""The table of a series: windows that do the same are one row, and of many rows the ends and what stands out are shown."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from typing import Any

from logs import ALLOC, FREE

import memlens
from memlens.analyzers.peak import Peak, Remaining
from memlens.analyzers.series.curve import curve
from memlens.analyzing.result import LogAnalysis, WindowAnalysis
from memlens.reports.blocks import Table
from memlens.reports.series import steps_blocks, windows_tables
from memlens.reports.terminal import render
from memlens.text import format_bytes
from memlens.windows.windows import BEFORE


def window(name: str, carried: int, rise: int, left: int, *, open_end: bool = False) -> WindowAnalysis:
    results = {"peak": Peak(carried + rise, rise, 0, 0, 1), "remaining": Remaining(left, carried, carried + left)}
    return WindowAnalysis(name, 1, 1, 2, results, open_end)


def table_of(windows: Sequence[WindowAnalysis], growth: Any, top: int, **more: Any) -> Table:
    """The table of so many rows, made after a shorter one."""
    return list(windows_tables(windows, growth, [2, top], **more))[1]


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
    assert rows(table_of(made, None, 20)) == [
        (BEFORE, 50, 50, 50, ""),
        ("STEP 0", 2050, 2000, 1000, "highest peak, leaves most"),
        ("STEP 1–28 ×28", 1050 + 10 * 27 + 500, 500, 10, ""),
        ("STEP 29 (open)", 1830, 500, -1330, ""),
    ]


def test_figures_that_differ_in_what_is_shown_are_rows_of_their_own() -> None:
    mib = 1 << 20
    alike, unlike = ([window("A", 0, mib, 0), window("B", 0, rise, 0)] for rise in (mib + 1, mib + (mib >> 4)))
    assert format_bytes(mib) == format_bytes(mib + 1)
    assert len(table_of(alike, None, 9).rows) == 1
    assert len(table_of(unlike, None, 9).rows) == 2


def test_of_many_rows_the_ends_and_what_stands_out_are_shown_and_the_others_are_counted() -> None:
    made = [window(f"STEP {k}", 0, 256 * (1 + k % 7), k % 3) for k in range(100)]
    made[40] = window("STEP 40", 0, 256 * 99, 0)
    made[60] = window("STEP 60", 0, 256, 1 << 20)
    table = table_of(made, None, 6)
    assert [row[0] for row in rows(table)] == ["STEP 0", "STEP 1", "… 38 more", "STEP 40", "… 19 more", "STEP 60", "… 37 more", "STEP 98", "STEP 99"]  # fmt: skip
    assert [row[4] for row in rows(table) if row[4]] == ["highest peak", "leaves most"]
    assert table.more == ""


def test_every_window_is_in_a_row_or_counted(rounds: Callable[[int], range]) -> None:
    for seed in rounds(200):
        chance = random.Random(seed)
        made = [window(f"W{k}", chance.choice([0, 5]), 256 * chance.randint(1, 3), chance.choice([0, 0, 512])) for k in range(chance.randint(1, 60))]  # fmt: skip
        table = table_of(made, None, chance.randint(0, 25))
        count = 0
        for name in (str(row[0]) for row in rows(table)):
            count += (
                int(name.split()[1]) if name.startswith("…") else int(name.rpartition("×")[2]) if "×" in name else 1
            )
        assert count == len(made), seed


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
    lines = render(list(steps_blocks(analyzed(leak(30)), 6)), width=80).splitlines()
    assert len(lines) <= 8
    assert lines[0].startswith(r"Steps  30 steps, detected automatically: --by '^(STEP \d+) START', growing")
    assert [line.split("  ")[0] for line in lines[1:]] == ["Window", BEFORE, "STEP 0–28 ×29", "STEP 29 (open)"]
    calls = leak(30).replace(b"START BACKWARD\n", b"").replace(b"STEP", b"START CALL").replace(b" START\n", b"\n")
    parts = render(list(steps_blocks(analyzed(calls), 6)), width=80)
    assert parts.startswith(r"Parts  30 parts, detected automatically: --by '^START (CALL \d+)'")
    assert "growing" not in parts
    assert not list(steps_blocks(analyzed(leak(0)), 6))


def test_the_levels_of_a_row_are_drawn_where_a_picture_is_wanted() -> None:
    log = analyzed(leak(30, 1 << 20))
    assert log.steps is not None
    read = memlens.read(io.BytesIO(leak(30, 1 << 20)), patterns=[memlens.Pattern(log.steps.by, regex=True)])
    drawn = table_of(log.steps.windows, log.growth, 9, curve=curve(read.whole, read.windows(log.steps.by)))
    levels = [row[[column.key for column in drawn.columns].index("levels")] for row in drawn.rows]
    assert all(level is None or isinstance(level, str) for level in levels)
    assert str(levels[1])[-1] > str(levels[1])[0]  # a leak rises
