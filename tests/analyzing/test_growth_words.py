"""What the verdict of a log says of its growth, held against arithmetic on logs that are made here."""

from __future__ import annotations

import io
from collections.abc import Callable
from math import log as ln

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


@pytest.mark.parametrize(
    ("steps", "kept", "says"),
    [
        # 3 MiB of weights, and 20 steps of 1 MiB
        (99, lambda k: MIB * (40 <= k < 60), "Memory rises from 3.00 MiB to 23.00 MiB in 20 of 99 steps (STEP 40 to STEP 59) and stays there."),
        # a copy that is made once and kept
        (41, lambda k: 394 * KIB * (k == 7), "Over 41 steps memory rises once and stays there: by 394.00 KiB in STEP 7."),
        (99, lambda k: MIB * (k in (20, 40, 41, 60)), "Over 99 steps memory rises 3 times and stays there: by 1.00 MiB in STEP 20, by 2.00 MiB in STEP 40 to STEP 41, by 1.00 MiB in STEP 60."),
        # steps 95 to 98
        (99, lambda k: 4 * MIB * (k >= 95), "Memory rises by 16.00 MiB in the last 4 of 99 steps, too few to judge."),
        (99, lambda k: 4 * MIB * (k == 98), "Memory rises by 4.00 MiB in the last of 99 steps, too few to judge."),
        # a cache: after STEP 0 3 MiB + 512 KiB, after STEP 12 13 times as much, 3 + 6.5 MiB
        (41, lambda k: 512 * KIB * (k < 13), "Memory rises from 3.50 MiB to 9.50 MiB in 12 of 41 steps (STEP 1 to STEP 12) and stays there."),
        # a cache of ⌊8 ln(k + 2)⌋ blocks: 5 after STEP 0, the 29th with STEP 36
        (39, lambda k: 64 * KIB * (int(8 * ln(k + 2)) - int(8 * ln(k + 1))), "Memory rises from 3.31 MiB to 4.81 MiB in 36 of 39 steps (STEP 1 to STEP 36), not steadily."),
        # warm-up, in a quarter of the steps at most: after STEP 0 3.25 MiB, after STEP 4 4.25 MiB
        (29, lambda k: 256 * KIB * (k < 5), "Memory rises from 3.25 MiB to 4.25 MiB in 4 of 29 steps (STEP 1 to STEP 4, warm-up) and stays there."),
        # 4 MiB are there in the first step: nothing is kept after it
        (29, lambda k: MIB * (k == 0), "Memory does not grow over 29 steps."),
        (29, lambda k: 0, "Memory does not grow over 29 steps."),
    ],
)  # fmt: skip
def test_what_rose_and_is_no_growth_is_told_with_its_steps(steps: int, kept: Callable[[int], int], says: str) -> None:
    log = run(steps, grow(kept))
    assert says in log.verdict
    assert log.answer.tone == "plain"


@pytest.mark.parametrize(
    ("steps", "kept", "says"),
    [
        # whenever the run ends
        (39, lambda k: 4 * KIB * (k % 10 == 5), "from STEP 5 on: 4.00 KiB every 10 steps, 16.00 KiB in all over the last 34 of 39 steps. Most of it is in 4 blocks"),
        (99, lambda k: 4 * KIB * (k % 10 == 5), "from STEP 5 on: 4.00 KiB every 10 steps, 40.00 KiB in all over the last 94 of 99 steps. Most of it is in 10 blocks"),
        (79, lambda k: 64 * KIB * (k >= 72), "from STEP 72 on: 64.00 KiB a step, 448.00 KiB in all over the last 7 of 79 steps. Most of it is in 7 blocks"),
        # from the first step on
        (29, lambda k: 64 * KIB, "from STEP 0 on: 64.00 KiB a step, 1.81 MiB in all over 29 steps. Most of it is in 29 blocks of 64.00 KiB."),
    ],
)  # fmt: skip
def test_the_rate_of_a_leak_and_the_steps_that_leak(steps: int, kept: Callable[[int], int], says: str) -> None:
    assert f"Memory grows {says}" in run(steps, grow(kept)).verdict


def test_a_level_that_comes_back_is_told_with_its_top_its_floor_and_its_period() -> None:
    def step(pool: Pool, number: int) -> None:
        held = [at for at in pool.live if pool.sizes[at] == 64 * KIB]
        if number % 12 == 11:
            for at in held:
                pool.free(at)
        else:
            pool.alloc(64 * KIB)

    # 3 MiB, and up to 11 blocks of 64 KiB
    says = "Memory does not grow over 60 steps: it rises and falls between 3.00 MiB and 3.69 MiB every 12 steps."
    assert says in run(60, step).verdict


@pytest.mark.parametrize("leaks", [True, False])
def test_what_every_step_leaves_until_the_next_one_is_none_of_what_piles_up(leaks: bool) -> None:
    kept: list[int] = []

    def step(pool: Pool, number: int) -> None:
        pool.lines.append("START FORWARD")
        while kept:
            pool.free(kept.pop())
        kept.extend(pool.alloc(64 * KIB) for _ in range(12))
        pool.lines.append("START OPT")
        if leaks and number > 0:
            pool.alloc(64 * KIB)

    # 40 blocks of 64 KiB are live after 29 steps: 28 that leak, and 12 that the next step frees
    verdict = run(29, step).verdict
    assert (
        "from STEP 1 on: 64.00 KiB a step, 1.75 MiB in all over the last 28 of 29 steps. M"
        "ost of it is in 28 blocks of 64.00 KiB allocated in OPT." in verdict
    ) == leaks
    assert ("Memory does not grow over 29 steps." in verdict) != leaks


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


@pytest.mark.parametrize("closed", [3, 4])
def test_the_steps_that_are_too_few_are_the_complete_ones(closed: int) -> None:
    verdict = run(closed, grow(lambda _: 0)).verdict
    few = f"growth is not judged: {closed} complete steps tell too little"
    assert (few in verdict, f"Memory does not grow over {closed} steps" in verdict) == (closed < 4, closed >= 4)


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
