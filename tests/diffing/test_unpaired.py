"""What is said of blocks of windows without a partner, of windows of several devices, and of what one of the logs does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import process
from edited_runs import Row, write
from logs import LogText
from traces import memory_event, trace

import memlens

KIB, MIB = 1 << 10, 1 << 20
LEAK, PASS = 512 * KIB, 40 * MIB


def steps(count: int, leaks: range = range(0), passes: range = range(0)) -> list[Row]:
    """A run of steps of which some keep a block until the end, and some allocate and free a large one."""
    rows: list[Row] = [("ALLOC", MIB, 1)]
    for number in range(count):
        rows += [("STEP", number, 0), ("ALLOC", 2 * MIB, 2), ("FREE", 2 * MIB, 2)]
        rows += [("ALLOC", LEAK, 10 + number)] * (number in leaks)
        rows += [("ALLOC", PASS, 99), ("FREE", PASS, 99)] * (number in passes)
    rows += [("FREE", LEAK, 10 + number) for number in leaks]
    return [*rows, ("FREE", MIB, 1)]


@pytest.mark.parametrize("first", [3, 8])
def test_blocks_of_windows_without_a_partner_are_of_so_many_windows_and_kept(tmp_path: Path, first: int) -> None:
    rows = steps(12, range(first, 12))
    base, head = write(steps(6), tmp_path / "base.log"), write(rows, tmp_path / "head.log")
    kept = 11 - first  # that of the last step comes after the peak
    for diff, whose in ((memlens.diff(base, head), "head"), (memlens.diff(head, base), "base")):
        found = diff.causes_at_peak[0]
        assert (found.window, found.windows, found.finding.count) == (f"STEP {first}", kept, kept)
        assert f"{kept} blocks of 512.00 KiB that only {whose} has" in diff.verdict
        assert " in 4 windows" not in diff.verdict
        assert found.finding.fate == "held"
        assert {getattr(member, whose).freed for member in found.finding.members} == {"later"}
    allocs = [f"{rows.index(('ALLOC', LEAK, 10 + number)) + 1:,}" for number in range(first + 1, 11)]
    shown = process("diff", base, head).stdout
    assert f"in STEP {first}, the first of {kept} windows that have it" in shown
    assert f"head's ALLOC lines {', '.join(allocs[:6])}" in shown


def test_what_a_window_without_a_partner_allocates_and_frees_is_not_held(tmp_path: Path) -> None:
    base, head = write(steps(6), tmp_path / "base.log"), write(steps(10, passes=range(8, 9)), tmp_path / "head.log")
    finding = memlens.diff(base, head).causes_at_peak[0].finding
    assert (finding.size_bytes, finding.fate) == (PASS, "temporary")
    assert finding.head is not None
    assert finding.head.freed == "in_window"


def test_what_one_log_does_not_tell_of_chunks_is_no_difference(tmp_path: Path) -> None:
    paths = []
    for name, chunks in (("base.log", True), ("head.log", False)):
        log = LogText()
        for step in range(3):
            log.lines.append(f"STEP {step} START")
            if chunks and not step:
                log.chunk(8 * MIB, 1 << 24)
            log.alloc(MIB, 1 << 24)
            log.free(MIB, 1 << 24)
        paths.append(tmp_path / name)
        paths[-1].write_text(log.text)
    of_a_step: dict[str, Any] = {"start": "STEP 1 START", "end": "STEP 2 START"}
    for options in ({}, of_a_step):
        diff = memlens.diff(*paths, **options)
        assert "eserved" not in diff.verdict
        assert {window.d_reserved_peak_bytes for window in diff.windows} == {None}
        assert {window.head.reserved_peak_bytes for window in diff.windows} == {None}
        assert diff.verdict.startswith("The same work: ")
    shown = process("diff", *paths, "--start", "STEP 1 START", "--end", "STEP 2 START").stdout
    assert "Reserved" not in shown


def test_a_window_is_that_of_the_device_which_is_the_fullest(tmp_path: Path) -> None:
    for name, more in (("base.json", 0), ("head.json", 9 * MIB)):
        events, totals, at = [], [0, 0], 0.0

        def change(device: int, addr: int, size: int) -> None:
            nonlocal at
            at += 1
            totals[device] += size  # noqa: B023
            events.append(memory_event(at, size, addr, totals[device], device))  # noqa: B023

        for step in range(5):
            begun = at + 0.5
            for device in (0, 1):
                size = (3 + device) * MIB + (more if device and step == 3 else 0)
                change(device, 4096, size)
                change(device, 4096, -size)
            name_of = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1}
            events.append({**name_of, "ts": begun, "dur": at + 0.5 - begun})
        (tmp_path / name).write_text(trace(*events))
    shown = process("diff", tmp_path / "base.json", tmp_path / "head.json").stdout
    assert "in ProfilerStep#3 [device 1]\n" in shown


def test_where_runs_share_little_the_first_of_the_largest_blocks_is_the_first_of_all_of_them(tmp_path: Path) -> None:
    """Blocks of one size that several operators make: those of the one that makes most come last."""
    made = {}
    for name, unit in (("base.log", 2 * MIB), ("head.log", MIB)):
        log, address = LogText(), 1 << 30
        for operator, count in (("gaussian", 2), ("full", 4)):
            for _ in range(count):
                log.operator(operator)
                log.alloc(unit, address)
                address += unit
        made[name] = tmp_path / name
        made[name].write_text(log.text)
    claims = {claim.kind: claim.values for claim in memlens.diff(made["base.log"], made["head.log"]).claims}
    assert (claims["largest_in_one"]["blocks"], claims["largest_in_one"]["owner"]) == (6, None)
    assert claims["first_in_one"]["alloc_line"] == 2


def test_where_runs_share_little_the_size_is_named_of_which_one_run_has_most_bytes_more(tmp_path: Path) -> None:
    """13 blocks of 3.00 MiB are more than one of 4.00 MiB."""
    sizes = [3 * MIB] * 13 + [4 * MIB]
    base: list[Row] = [("ALLOC", size, number) for number, size in enumerate(sizes)]
    head: list[Row] = [("ALLOC", MIB + 4096 * number, number) for number in range(14)]
    verdict = memlens.diff(write(base, tmp_path / "base.log"), write(head, tmp_path / "head.log")).verdict
    assert "Base's largest excess of one size is 39.00 MiB, in 13 blocks of 3.00 MiB" in verdict


def test_more_blocks_of_an_owner_are_counted_among_its_own(tmp_path: Path) -> None:
    """Both have a batch at their peaks, and head 8 blocks that another operator makes of its size."""
    made = {}
    for name, kept in (("base.log", 0), ("head.log", 8)):
        log, address = LogText(), 1 << 30
        for step in range(10):
            log.lines.append(f"STEP {step} START")
            for operator, keep in (("to_tensor", False), ("assign", True)):
                if not keep or step < kept:
                    log.operator(operator)
                    log.alloc(MIB, 1 << 20 if operator == "to_tensor" else (address := address + MIB))
            log.operator("matmul")
            log.alloc(5 * MIB, 1 << 24)
            log.free(5 * MIB, 1 << 24)
            log.free(MIB, 1 << 20)
        made[name] = tmp_path / name
        made[name].write_text(log.text)
    verdict = memlens.diff(made["base.log"], made["head.log"]).verdict
    assert "All of the 8.00 MiB is 8 blocks of 1.00 MiB (assign) that only head has" in verdict


def test_more_than_all_of_a_difference_is_no_part_of_it(tmp_path: Path) -> None:
    """A run that is resumed carries in what the other allocates in its first step."""
    state, work = ("ALLOC", 4 * MIB, 7), [("ALLOC", 3 * MIB, 2), ("FREE", 3 * MIB, 2)]
    first: list[Row] = [("STEP", 0, 0), state, *work, ("STEP", 1, 0), *work]
    resumed: list[Row] = [state, ("STEP", 0, 0), ("ALLOC", MIB, 3), *work, ("STEP", 1, 0), *work]
    paths = write(first, tmp_path / "base.log"), write(resumed, tmp_path / "head.log")
    diff = memlens.diff(*paths, start="STEP 0 START", end="STEP 1 START")
    assert "head peaks at 8.00 MiB, 1.00 MiB more than base (7.00 MiB)" in diff.verdict
    assert "hat is carried in differs by +4.00 MiB" in diff.verdict
    assert "of that" not in diff.verdict
