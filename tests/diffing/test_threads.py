"""Threads interleave by chance: what each of them does is compared on its own; ``benchmarks/threads.py`` does more."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from diff_judge import check
from made_threads import found_sizes, lose_frees, programs_of, run, threaded_program
from night import some
from paddle import read

import memlens
from memlens.diffing.run import diff_windows
from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import Window


@pytest.mark.parametrize("seed", range(25))
def test_runs_that_differ_in_how_threads_interleave_miss_no_free(seed: int) -> None:
    chance = Random(f"threads {seed}")
    program = threaded_program(chance)
    for found in diff_windows(list(zip(run(program, chance), run(program, chance), strict=True))):
        # Each thread does in both runs exactly the same.
        assert found.cost_bytes == 0
        assert not found_sizes(found, "missing_free", "extra_free", "only_base", "only_head", "released")


@pytest.mark.parametrize("seed", range(15))
def test_lost_frees_are_named_however_threads_interleave(seed: int) -> None:
    chance = Random(f"lost {seed}")
    program = threaded_program(chance)
    lost = lose_frees(program, chance, 5)
    pairs = list(zip(run(program, chance), run(program, chance, frozenset(lost)), strict=True))
    for number, found in enumerate(diff_windows(pairs)):
        sizes = Counter(size for window, size in lost.values() if window == number)
        assert found.remaining.missing_free_bytes == sum(size * count for size, count in sizes.items())
        assert found_sizes(found, "missing_free") == sizes
        assert not found_sizes(found, "extra_free", "only_base", "only_head")


@pytest.mark.parametrize("seed", some(range(6), 3))
def test_programs_of_threads_that_differ_are_aligned_at_the_exact_cost(seed: int) -> None:
    chance = Random(f"unlike {seed}")
    program = threaded_program(chance)
    # Some steps of a thread are another thread's in head, as in a pool; and a thread does what base has nothing of.
    moved = [
        [step if chance.random() < 0.9 else type(step)(0, *list(vars(step).values())[1:]) for step in steps]
        for steps in program
    ]
    extra = threaded_program(chance)[0]
    shift = 1 + max((step.block for steps in program for step in steps), default=0)
    moved[0] = moved[0] + [type(step)(step.thread + 50, step.free, step.block + shift, step.size) for step in extra]
    base, head = run(program, chance), run(moved, chance)
    there, back = diff_windows(list(zip(base, head, strict=True))), diff_windows(list(zip(head, base, strict=True)))
    for one, two, found, turned in zip(base, head, there, back, strict=True):
        check(one, two, found)
        assert found.cost_bytes == turned.cost_bytes
        assert found.remaining.missing_free_bytes == turned.remaining.extra_free_bytes
        assert found.remaining.extra_free_bytes == turned.remaining.missing_free_bytes


@pytest.mark.parametrize("direction", [1, -1])
def test_the_threads_of_a_log_of_text_are_looked_at(shared: Path, direction: int) -> None:
    paths = [shared / "data/traps" / f"threads_{side}.log.gz" for side in ("base", "head")][::direction]
    (found,) = memlens.diff(*paths, whole=True).windows
    assert found.cost_bytes == 0
    text = gzip.decompress(paths[0].read_bytes()).decode()
    assert (
        found.threads
        == found.to_dict()["threads"]
        == len({line.split()[2] for line in text.splitlines() if " Alloc " in line})
    )
    assert not found_sizes(found, "missing_free", "extra_free", "only_base", "only_head")


@pytest.mark.parametrize(
    "name", ["04_threads_30_ast_pt_transformer.log.gz", "331_parts_pir_transformer.log", "331_ast_pir_cnn.log"]
)
def test_real_windows_miss_no_free_however_their_threads_interleave(shared: Path, name: str) -> None:
    log = read(shared / "data/paddle" / name, columns=("thread",))
    windows = [(window, programs_of(window)) for window in (*log.windows(r"STEP \d+ START"), log.whole)]
    threaded = [steps for _, steps in windows if len({step.thread for step in steps if not step.free}) > 1][:3]
    assert threaded
    chance = Random(name)
    for steps in threaded:
        lost = lose_frees([steps], chance, 5)
        base, whole, head = run([steps], chance)[0], run([steps], chance)[0], run([steps], chance, frozenset(lost))[0]
        same, damaged = diff_windows([(base, whole)])[0], diff_windows([(base, head)])[0]
        assert same.cost_bytes == 0
        assert found_sizes(damaged, "missing_free") == Counter(size for _, size in lost.values())
        assert not found_sizes(damaged, "extra_free", "only_base", "only_head")


def unlike_threads(chance: Random, count: int) -> tuple[Window, Window]:
    """Two runs of threads that allocate the same 400 sizes equally often, each in an order of its own; one in a hundred is new in head."""
    same = chance.choices((256, 512, 1024, 4096, 65536), k=400)
    sizes = [chance.sample(same, len(same)) for _ in range(count)]
    windows = []
    for side in range(2):
        rows, thread_ids = [], []
        order = [thread for thread in range(count) for _ in same]
        chance.shuffle(order)
        left = [iter(own) for own in sizes]
        for at, thread in enumerate(order):
            size = next(left[thread]) if side == 0 or chance.random() > 0.01 else 1 << 20
            rows.append((Kind.ALLOC, size, 4096 * (at + 1)))
            thread_ids.append(thread if side == 0 else (thread + 1) % count)
        log = Log.from_rows(rows, thread=np.array(thread_ids, np.int64), line=np.arange(1, len(rows) + 1))
        windows.append(Window(log, "all", 0, len(log), 0, len(log), 1, len(log)))
    return windows[0], windows[1]


def test_two_long_runs_of_threads_are_paired_by_what_the_threads_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlens.diffing.alignment.threads._CELLS", 0)
    # Only what follows what tells the threads apart.
    (found,) = diff_windows([unlike_threads(Random(9), 4)])
    # At most the blocks that are new, and those that they push to the end of their thread.
    assert found.pairs >= 1600 * 0.98
    # Whether other pairs of threads were cheaper was not looked at, and that is reported.
    assert found.approximation is not None
    assert found.cost_bytes >= found.approximation.excess_bytes >= 0
