"""Made-up runs whose blocks have owners: operators whose results come and go, are kept for a while or for good, and one that may leak."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import numpy as np
from logs import window_of

from memlens.facts import Kind
from memlens.log import Log
from memlens.windows.windows import Window

#: A block: its size, its owner, and after how many steps it is freed; 0 for never.
Made = tuple[int, int, int]


def run_of(steps: Sequence[Sequence[Made]], owners: Sequence[str]) -> list[Window]:
    """The windows of a run, one for each step, which frees what is due before it makes its blocks."""
    rows: list[tuple[Kind, int, int]] = []
    owner: list[int] = []
    due: dict[int, list[tuple[int, int]]] = defaultdict(list)
    edges = [0]
    for number, step in enumerate(steps):
        rows += [(Kind.FREE, size, addr) for size, addr in due[number]]
        owner += [-1] * len(due[number])
        for size, whose, kept in step:
            rows.append((Kind.ALLOC, size, 1 + len(rows)))
            owner.append(whose)
            due[number + kept if kept else len(steps)].append((size, len(rows)))
        edges.append(len(rows))
    log = Log.from_rows(rows, line=np.arange(1, len(rows) + 1))
    log = log.without_cache(owner=np.array(owner, np.int32), owner_names=tuple(owners))
    return [window_of(log, lo, hi, str(k)) for k, (lo, hi) in enumerate(pairwise(edges))]


def program(chance: Random, count: int, *, leak: bool) -> tuple[list[Window], str]:
    """A run of three to eleven operators with results of any sizes, and the name of one more that leaks some in each step, or does not run."""
    kinds = [
        chance.choice(("passing", "passing", "cached", "kept by chance", "once"))
        for _ in range(chance.randrange(3, 12))
    ]
    scales = [10 ** chance.uniform(2, 5) for _ in kinds]
    lives = [chance.randrange(2, max(3, count // 3)) for _ in kinds]
    leaked = 10 ** chance.uniform(2, 4.5)
    steps = []
    for number in range(count):
        step: list[Made] = []
        for owner, kind in enumerate(kinds):
            size = 1 + int(scales[owner] * chance.uniform(0.2, 1.8))
            if kind == "passing":
                step.append((size, owner, chance.choice((1, 1, 2))))
            elif kind == "cached":
                step.append((size, owner, lives[owner]))
            elif kind == "kept by chance":
                step.append((size, owner, 1 + int(chance.expovariate(1 / lives[owner]))))
            elif number == 0:
                step.append((size, owner, 0))
        if leak:
            step.append((1 + int(leaked * chance.uniform(0.3, 1.7)), len(kinds), 0))
        steps.append(step)
    names = [f"operator{k}" for k in range(len(kinds) + 1)]
    return run_of(steps, names), names[-1]
