"""Which of two runs ran out of memory, and where the other one was: programs of a model, of which one runs on a device that is too small."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path
from typing import Any

import pytest
from failing_runs import KIB, FailedAt, Machine
from night import some

import memlens
from memlens.diffing.failed import FailedRun
from memlens.diffing.result import Diff

LARGE = 4000 * KIB


def run(machine: Machine, seed: int, *, steps: int = 4, extra: int = 0) -> FailedAt | None:
    """Steps of a program by chance, the same for every machine, up to where it fails; of a leak ``extra`` bytes a step."""
    for step in range(steps):
        chance = random.Random(f"{seed} {step}")
        machine.lines.append(f"STEP {step} START")
        mine: list[int] = []
        if extra and machine.alloc(extra) is None:
            return machine.fail(extra, "none")
        for _ in range(30):
            if mine and chance.random() < 0.4:
                machine.free(mine.pop(chance.randrange(len(mine))))
            else:
                size = chance.randrange(1, 60) * KIB
                addr = machine.alloc(size)
                if addr is None:
                    return machine.fail(size, "none")
                mine.append(addr)
        for addr in mine[: len(mine) - step]:
            machine.free(addr)
    machine.lines.append("STEP 99 START")
    return None


def diff(base: Machine, head: Machine, **options: Any) -> Diff:
    found = memlens.diff(io.BytesIO(base.text), io.BytesIO(head.text), **options)
    assert isinstance(found, Diff)
    return found


def only(found: Diff) -> FailedRun:
    (failed,) = found.failed
    return failed


@pytest.mark.parametrize("by", [None, r"STEP (\d+) START"])
@pytest.mark.parametrize("swapped", some([False, True]))
def test_the_other_run_is_where_the_failed_one_was(by: str | None, swapped: bool) -> None:
    """Up to the failure the two do the same, so that all is equal right before it."""
    seen = 0
    for seed in range(25):
        large, small = Machine(LARGE), Machine(random.Random(seed).randrange(200, 700) * KIB)
        assert run(large, seed) is None
        failure = run(small, seed)
        if failure is None:
            continue
        found = diff(small, large, by=by, whole=by is None) if swapped else diff(large, small, by=by, whole=by is None)
        failed = only(found)
        assert (failed.side, failed.failures, failed.failure.line) == ("base" if swapped else "head", 1, failure.line)
        other = failed.other
        assert other is not None
        assert other.aligned
        assert (other.allocated_bytes, other.reserved_bytes) == (failure.allocated, failure.reserved), seed
        assert other.largest_gap_bytes == max(failure.gaps, default=0)
        assert other.event == failed.failure.event
        seen += 1
    assert seen >= 15


def test_where_the_other_log_ends_before_that_it_is_not_said_to_be_anywhere_then() -> None:
    for seed in range(25):
        large, small = Machine(LARGE), Machine(400 * KIB)
        run(large, seed)
        failure = run(small, seed)
        start = max(number for number, line in enumerate(small.lines) if line.startswith("STEP"))
        begun = large.lines.index(small.lines[start])
        allocs = [number for number, line in enumerate(large.lines) if "Alloc " in line and number > begun]
        if failure is None or sum("Alloc " in line for line in small.lines[start:]) < 6:
            continue
        for count in (2, 5):
            killed = b"\n".join(large.text.split(b"\n")[: allocs[count] + 1])
            found = memlens.diff(io.BytesIO(killed), io.BytesIO(small.text))
            assert only(found).other is None, seed
            assert "allocated then" not in found.verdict
        return
    pytest.fail("no run fails late in a step")


def test_where_the_other_log_ends_right_there_it_is_where_the_failed_one_was() -> None:
    """Some fail right after a block is given back: the other has given back as many."""
    seen = 0
    for seed in range(25):
        large, small = Machine(LARGE), Machine(400 * KIB)
        run(large, seed)
        failure = run(small, seed)
        blocks = re.compile(r"\] (?:Alloc|Free) \d+ bytes, ptr")
        done = [line for line in small.text.decode().splitlines() if blocks.search(line)]
        lines = large.text.decode().splitlines(keepends=True)
        ends = [number for number, line in enumerate(lines) if blocks.search(line)]
        if failure is None or "Free" not in done[-1] or not small.text.decode().rpartition("STEP")[2].count("Alloc "):
            continue
        killed = "".join(lines[: ends[len(done) - 1] + 1]).encode()
        other = only(memlens.diff(io.BytesIO(killed), io.BytesIO(small.text))).other
        assert other is not None
        assert other.allocated_bytes == failure.allocated, seed
        seen += 1
    assert seen > 2


def test_what_only_one_run_keeps_is_the_difference_at_the_failure() -> None:
    extra, seen = 61 * KIB, 0  # a size that the program never asks for
    for seed in range(25):
        large, small = Machine(LARGE), Machine(700 * KIB)
        run(large, seed)
        failure = run(small, seed, extra=extra)
        if failure is None or failure.asked == extra:
            continue
        leaks = sum(size == extra for size, _ in failure.live)
        failed = only(diff(large, small, by=r"STEP (\d+) START"))
        assert failed.other is not None
        assert failed.other.window == f"{leaks - 1}"
        assert failed.other.allocated_bytes == failure.allocated - leaks * extra, seed
        seen += 1
    assert seen >= 5


def test_the_verdict_begins_with_what_ran_out(shared: Path) -> None:
    folder = shared / "data/paddle"
    found = memlens.diff(folder / "05_fixed_331.log.gz", folder / "05_oom_331.log")
    assert [claim.kind for claim in found.claims[:2]] == ["run_out_of_memory", "meanwhile"]
    assert found.answer.tone == "bad"
    assert len(found.answer.sentences) <= 7
    assert found.verdict.startswith(
        "Head ran out of memory at line 1,327: relu < train.py:78 forward asked for 768.00 KiB."
    )
    # Both logs print the fifth block of STEP 2, of 256 bytes, in their line 1,326.
    assert "ase had 2.23 MiB allocated then (line 1,326)" in found.verdict
    swapped = memlens.diff(folder / "05_oom_331.log", folder / "05_fixed_331.log.gz")
    assert swapped.verdict.startswith("Base ran out of memory at line 1,327")


def test_of_two_runs_that_fail_the_failure_is_told_once() -> None:
    machines = Machine(600 * KIB), Machine(600 * KIB)
    fates = [run(machine, 5, steps=9, extra=40 * KIB) for machine in machines]
    assert None not in fates
    base, head = machines
    head.lines.insert(0, "a line more")
    found = diff(base, head)
    first, *others = found.answer.sentences
    lines = [one.failure.line for one in found.failed]
    assert first.startswith(f"Both ran out of memory, base at line {lines[0]:,}, head at line {lines[1]:,}: ")
    assert first.count("asked for ") == 1
    assert "ran out of memory" not in " ".join(others)
    assert len(found.answer.sentences) <= 7
    same = diff(base, base)
    assert str(same.answer).startswith(f"Both ran out of memory at line {lines[0]:,}: conv2d ")
