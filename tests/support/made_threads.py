"""Runs of several threads made up, and runs that differ from them in nothing but how the threads interleave, and in their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import numpy as np

from memlens.diffing.result import WindowDiff
from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import Window

#: Few sizes, so that blocks of two threads are easily taken for each other.
_SIZES = (256, 512, 1024, 4096, 8192, 131072, 262144, 1048576)


@dataclass(frozen=True)
class Step:
    """What a thread does next: allocate a block, or free it.

    Attributes:
        thread: The thread.
        free: It frees the block.
        block: The number of the block.
        size: Its size.
    """

    thread: int
    free: bool
    block: int
    size: int


def threaded_program(chance: Random) -> list[list[Step]]:
    """The windows of a program of two to eight threads; in each its steps in an order that is possible.

    Threads do equally much or not, and some do the same as another.  Blocks are freed by the thread that allocates them or by another, in their
    window or in a later one, or never.
    """
    threads = chance.randint(2, 8)
    loads = [1.0] * threads if chance.random() < 0.5 else [chance.uniform(0.1, 3) for _ in range(threads)]
    own_sizes = [chance.choices(_SIZES, k=chance.randint(1, 6)) for _ in range(threads)]
    if chance.random() < 0.3:
        own_sizes[-1] = own_sizes[0]
    held, crossing, late = chance.uniform(0, 0.3), chance.choice((0, 0.1, 0.5)), chance.uniform(0, 0.3)
    windows: list[list[Step]] = []
    live: list[Step] = []
    kept: list[Step] = []
    blocks = 0
    for _ in range(chance.randint(1, 4)):
        steps: list[Step] = []
        live, kept = [block for block in live + kept if chance.random() > held], []
        for _ in range(chance.randint(4, 300)):
            thread = chance.choices(range(threads), loads)[0]
            mine = [block for block in live if block.thread == thread or chance.random() < crossing]
            if mine and chance.random() < 0.5:
                block = chance.choice(mine)
                live.remove(block)
                steps.append(Step(thread, True, block.block, block.size))
            else:
                block = Step(thread, False, blocks, chance.choice(own_sizes[thread]))
                blocks += 1
                steps.append(block)
                (kept if chance.random() < late else live).append(block)
        windows.append(steps)
    return windows


def programs_of(window: Window) -> list[Step]:
    """The allocations and FREEs of a real window as steps; what is freed unknown stands alone."""
    log = window.log
    partner = log.lifetimes.partner
    assert log.thread is not None
    return [
        Step(int(log.thread[event]), True, int(partner[event] if partner[event] >= 0 else len(log) + event), int(log.size[event]))
        if log.kind[event] == Kind.FREE
        else Step(int(log.thread[event]), False, event, int(log.size[event]))
        for event in range(window.lo, window.hi)
        if log.kind[event] <= Kind.FREE
    ]  # fmt: skip


def _interleaved(steps: Sequence[Step], chance: Random) -> list[Step]:
    """The same programs of the threads in another order; no block is freed before it is allocated, and none twice at a time."""
    waiting: dict[int, list[Step]] = {}
    for step in reversed(steps):
        waiting.setdefault(step.thread, []).append(step)
    born = {step.block for step in steps if not step.free}
    done: list[Step] = []
    live: set[int] = set()
    stay = chance.choice((0.0, 0.5, 0.9))
    last = -1
    while waiting:
        ready = [t for t in waiting if not (waiting[t][-1].free and waiting[t][-1].block in born - live)]
        thread = last if last in ready and chance.random() < stay else chance.choice(ready)
        step = waiting[thread].pop()
        if not waiting[thread]:
            del waiting[thread]
        if not step.free:
            live.add(step.block)
        done.append(step)
        last = thread
    return done


def run(windows: Sequence[Sequence[Step]], chance: Random, lost: frozenset[int] = frozenset()) -> list[Window]:
    """One run of a program: its threads interleave by chance, their ids are new, and so are all addresses.

    Args:
        windows: The steps of each window.
        chance: Where chance comes from.
        lost: Blocks whose FREE does not come.
    """
    threads = sorted({step.thread for steps in windows for step in steps})
    ids = dict(zip(threads, chance.sample(range(1, 100 + len(threads)), len(threads)), strict=True))
    blocks = sorted({step.block for steps in windows for step in steps})
    address = dict(zip(blocks, chance.sample(range(1, 4 * len(blocks) + 1), len(blocks)), strict=True))
    rows, of_thread, edges = [], [], [0]
    for steps in windows:
        for step in _interleaved(steps, chance):
            if not (step.free and step.block in lost):
                rows.append((Kind.FREE if step.free else Kind.ALLOC, step.size, 256 * address[step.block]))
                of_thread.append(ids[step.thread])
        edges.append(len(rows))
    log = Log.from_rows(rows, thread=np.array(of_thread, np.int64), line=np.arange(1, len(rows) + 1))
    return [Window(log, f"{n}", lo, hi, lo, hi, lo + 1, hi) for n, (lo, hi) in enumerate(pairwise(edges))]  # fmt: skip


def lose_frees(windows: Sequence[Sequence[Step]], chance: Random, most: int) -> dict[int, tuple[int, int]]:
    """Some blocks that are allocated and freed in one window: for each the number of the window and the size."""
    found = {}
    for number, steps in enumerate(windows):
        born = {step.block for step in steps if not step.free}
        found.update({step.block: (number, step.size) for step in steps if step.free and step.block in born})
    chosen = chance.sample(sorted(found), min(chance.randint(1, most), len(found)))
    return {block: found[block] for block in chosen}


def found_sizes(found: WindowDiff, *kinds: str, fate: str | None = None) -> Counter[int]:
    """How many blocks of each size the findings of some kinds name."""
    sizes: Counter[int] = Counter()
    for finding in found.findings:
        if finding.kind in kinds and fate in (None, finding.fate):
            sizes[finding.size_bytes] += finding.count
    return sizes
