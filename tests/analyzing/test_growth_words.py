"""What the verdict of a log says of its growth, held against arithmetic on logs that are made here."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest

import memlens
from memlens.analyzing.result import LogAnalysis

HEADER = "I0710 09:56:31.904374 28846 auto_growth_best_fit_allocator.cc:{}] "
MIB, KIB = 1 << 20, 1 << 10


class Pool:
    """A log of a pool that takes a chunk for each block that no idle chunk of at most twice its size can take, and never gives one back."""

    def __init__(self, *, chunks: bool = True) -> None:
        self.lines: list[str] = []
        self.idle: dict[int, int] = {}
        self.live: dict[int, int] = {}
        self.chunks, self.next = chunks, 1 << 40

    def alloc(self, size: int) -> int:
        fitting = [(chunk, at) for at, chunk in self.idle.items() if size <= chunk <= 2 * size]
        if fitting:
            _, at = min(fitting)
            chunk = self.idle.pop(at)
        else:
            at, chunk, self.next = self.next, size, self.next + (1 << 32)
            if self.chunks:
                self.lines.append(f"{HEADER.format(159)}Not found and reallocate {size}(0x{at:x}), and remaining 0")
        self.live[at] = chunk
        self.sizes = {**getattr(self, "sizes", {}), at: size}
        self.lines.append(f"{HEADER.format(169)}Alloc {size} bytes, ptr = 0x{at:x}")
        return at

    def free(self, at: int) -> None:
        self.idle[at] = self.live.pop(at)
        self.lines.append(f"{HEADER.format(177)}Free {self.sizes[at]} bytes, ptr = 0x{at:x}")


def run(steps: int, step: Callable[[Pool, int], None], *, chunks: bool = True) -> LogAnalysis:
    """A run of 3 MiB of weights and so many steps that are judged, and an open one after them."""
    pool = Pool(chunks=chunks)
    for _ in range(3):
        pool.alloc(MIB)
    for number in range(steps):
        pool.lines.append(f"STEP {number} START")
        step(pool, number)
    pool.lines += [f"STEP {steps} START", f"{HEADER.format(169)}Alloc 256 bytes, ptr = 0x10"]
    return memlens.analyze(io.BytesIO("\n".join(pool.lines).encode() + b"\n")).logs[0]


def used(size: int) -> Callable[[Pool], None]:
    return lambda pool: pool.free(pool.alloc(size))


def longer(pool: Pool, number: int) -> None:
    """Each step needs 64 KiB more for a while."""
    pool.free(pool.alloc(8 * MIB + number * 64 * KIB))


def test_steps_that_need_ever_more_for_a_while_fill_the_device_though_nothing_stays_live() -> None:
    # GIVEN 29 steps that allocate and free 8 MiB, each 64 KiB more than the one before, so each needs a chunk of its own
    log = run(29, longer)
    # THEN the peak of step k is 3 MiB + 8 MiB + k * 64 KiB, the last has k = 28: 12.75 MiB
    # AND 3 MiB + 29 * 8 MiB + 64 KiB * (0 + … + 28 = 406) = 235 MiB + 25.375 MiB are reserved
    # AND what is never in use, 260.38 - 12.75 MiB, is more than the 1.75 MiB that the peaks grow by
    first, rest = log.answer.sentences[0], " ".join(log.answer.sentences[1:])
    assert first.startswith("Up to 260.38 MiB is reserved (at line ")
    assert ") while at most 12.75 MiB is allocated; " in first
    assert rest.startswith(
        "What is live after each step does not grow over 29 steps. The peak of a step grows from STEP 1 on, from 11.00 MiB to"
        " 12.75 MiB. Reserved grows from STEP 0 on, from 3.00 MiB to 260.38 MiB. "
    )
    assert log.answer.tone == "bad"
    growth = log.growth
    assert growth is not None
    assert (growth.verdict, growth.peak_verdict, growth.reserved_verdict) == ("flat", "growing", "growing")
    assert (growth.peak_from_bytes, growth.peak_gained_bytes) == (11 * MIB, 28 * 64 * KIB)
    assert (growth.reserved_from_bytes, growth.reserved_gained_bytes) == (3 * MIB, 29 * 8 * MIB + 406 * 64 * KIB)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("steps", [20, 40, 100])
def test_requests_of_sizes_by_chance_and_a_warm_up_are_no_growth_of_the_device(steps: int, seed: int) -> None:
    chance = np.random.default_rng([seed, steps])
    spread = [chance.normal(8, 2, steps), chance.uniform(1, 16, steps), chance.exponential(4, steps) + 1][seed % 3]
    sizes = (np.abs(spread) * MIB).astype(int) // 256 * 256 + 256
    sizes[:5] = np.sort(sizes[:5])  # the first steps warm up: each needs more than the one before
    log = run(steps, lambda pool, number: used(int(sizes[number]))(pool))
    assert log.growth is not None
    assert "growing" not in (log.growth.verdict, log.growth.peak_verdict, log.growth.reserved_verdict)
    assert log.answer.tone == "plain"


def grow(when: Callable[[int], int]) -> Callable[[Pool, int], None]:
    """Each step uses 1 MiB, and keeps so many bytes."""

    def step(pool: Pool, number: int) -> None:
        used(MIB)(pool)
        if size := when(number):
            pool.alloc(size)

    return step


@pytest.mark.parametrize("at_exit", [True, False])
def test_leaked_memory_is_freed_only_at_exit_where_nothing_is_allocated_after_it(at_exit: bool) -> None:
    pool, kept = Pool(), []
    for number in range(20):
        pool.lines.append(f"STEP {number} START")
        kept.append(pool.alloc(64 * KIB))
    pool.lines.append("STEP 20 START")
    for at in kept:
        pool.free(at)
    if not at_exit:  # the step goes on after it has freed them
        for _ in range(40):
            used(MIB)(pool)
    (log,) = memlens.analyze(io.BytesIO("\n".join(pool.lines).encode())).logs
    (left,) = (claim for claim in log.claims if claim.kind == "nothing_live_at_end")
    assert left.text == ("the leaked memory is freed only at exit" if at_exit else "everything is freed at the end")


@pytest.mark.parametrize(
    ("phase", "says"), [("START OPT", " allocated in OPT."), ("", "."), ("START FORWARD", " allocated in FORWARD.")]
)
def test_the_phase_that_leaks_is_named_and_no_other(phase: str, says: str) -> None:
    def step(pool: Pool, number: int) -> None:
        for mark in ("START FORWARD", "START BACKWARD", "START OPT", "START EVAL"):
            pool.lines.append(mark)
            used(MIB)(pool)
            if mark == (phase or ("START OPT" if number % 2 else "START EVAL")):
                pool.alloc(64 * KIB)

    assert f"ost of it is in 19 blocks of 64.00 KiB{says}" in run(19, step).verdict


@pytest.mark.parametrize(("batches", "by"), [(0, None), (12, None), (12, r"^(STEP \d+)")])
def test_what_comes_after_the_steps_is_said_where_memory_comes_higher_then(batches: int, by: str | None) -> None:
    """An evaluation whose outputs are kept, after a training whose steps leave nothing; each batch has a line that counts no step."""
    pool = Pool()
    for number in range(8):
        pool.lines.append(f"STEP {number} START")
        used(MIB)(pool)
    kept = []
    for number in range(batches):
        pool.lines.append(f"evaluated {number * 64} rows of the rest")
        kept.append(pool.alloc(256 * KIB))
    for at in kept:
        pool.free(at)
    log = memlens.analyze(io.BytesIO("\n".join(pool.lines).encode() + b"\n"), by=by).logs[0]
    (steady,) = (one for one in log.claims if one.kind == "not_growing")
    after = [one.values["peak_bytes"] for one in log.claims if one.kind == "higher_after"]
    assert (steady.values["windows"], after) == (7, [3 * MIB] if batches else [])


def test_what_is_given_back_bit_by_bit_does_not_fall_once() -> None:
    """The first of 16 steps makes 8 blocks of 512 KiB, and each of the next 8 frees one."""
    pool = Pool()
    rest, parts = pool.alloc(512 * KIB), list[int]()
    for number in range(16):
        pool.lines.append(f"STEP {number} START")
        used(MIB)(pool)
        if parts:
            pool.free(parts.pop())
        if number == 0:
            parts = [pool.alloc(512 * KIB) for _ in range(8)]
    pool.lines.append("STEP 16 START")
    pool.free(rest)
    log = memlens.analyze(io.BytesIO("\n".join(pool.lines).encode() + b"\n")).logs[0]
    assert "over 16 steps: it falls from 4.50 MiB to 512.00 KiB." in log.verdict


@pytest.mark.parametrize(
    ("again", "says"),
    [(False, "it falls from 3.00 MiB to 1.00 MiB"), (True, "it swings between 1.00 MiB and 3.00 MiB")],
)
def test_what_is_given_back_once_is_no_swing(again: bool, says: str) -> None:
    """After the fifth step of 12 what only the first ones need is freed; or taken again for the eighth."""
    pool = Pool()
    rest, teacher = pool.alloc(MIB), None
    for number in range(12):
        pool.lines.append(f"STEP {number} START")
        if number == 0 or (again and number == 8):
            teacher = pool.alloc(2 * MIB)
        used(MIB)(pool)
        if teacher is not None and number in (5, 9):
            pool.free(teacher)
            teacher = None
    pool.lines.append("STEP 12 START")
    pool.free(rest)
    log = memlens.analyze(io.BytesIO("\n".join(pool.lines).encode() + b"\n")).logs[0]
    assert f"Memory does not grow over 12 steps: {says}." in log.verdict
