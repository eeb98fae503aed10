#!/usr/bin/env python3
"""Renumber the windows of made-up runs and see which of them ``memlens diff`` compares with what they come from.

See README.md beside this file.  Seven kinds of runs (calls that are all unlike, calls that come again in each step, layers between
what comes first and last, steps that are all alike, steps that differ in sizes only, growing steps, steps of a few lengths by chance)
are renumbered in twelve ways (calls inserted, lost, one more in every step, numbers that start elsewhere, …) and get seven
regressions.  Prints what it counted.  *faulty* is a run in which more windows are compared with another one than were inserted and
lost, *hidden* a window with a regression that is compared with one that does the same.  It fails where more than one in a hundred runs
whose names are right is faulty, or more than one in a thousand of their windows hidden.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random, SystemRandom

import numpy as np
from msgspec.structs import replace

from memlens.diffing.window_pairs import pair_by_name_or_work
from memlens.errors import AnchorError
from memlens.events import Kind

ROOT = Path(__file__).resolve().parents[1]
# The made-up runs and their judge are what the tests use, too
sys.path.insert(0, str(ROOT / "tests" / "support"))

from long_logs import columns, cut  # noqa: E402
from made_window_series import EDITS, KINDS, REGRESSIONS, judged, made  # noqa: E402

_STORIES = {
    "names": "names are right",
    "work": "names mislead in three windows or more",
    "few": "names mislead in one or two windows",
}


def row(name: str, counts: Counter[str]) -> str:
    """What was counted of some runs, in a line."""
    windows = max(counts["windows"], 1)
    return (
        f"  {name:<46}{counts['runs']:>7,}{counts['by work']:>9,}{counts['faulty']:>9,}"
        f"{counts['windows']:>10,}{counts['wrong'] / windows:>9.2%}{counts['hidden']:>8,}"
    )


def long_runs(windows: int, seed: int) -> None:
    """Time two runs of very many windows of 500 events, one in 97 of them lost, without the reading and the comparing."""
    chance = np.random.default_rng(seed)
    blocks = 250 * windows
    size = chance.integers(1, 5000, blocks) * 256
    events = columns(np.tile([Kind.ALLOC, Kind.FREE], blocks), np.repeat(size, 2), np.repeat(np.arange(blocks), 2) + 1)
    log = events.log()
    base = [replace(cut(log, lo, lo + 500), name=f"CALL_{k}") for k, lo in enumerate(range(0, 2 * blocks, 500))]
    kept = [window for k, window in enumerate(base) if k % 97 != 5]
    head = [replace(window, name=f"CALL_{k}") for k, window in enumerate(kept)]
    for words, other in (("as they are", base), ("renumbered", head)):
        begun, used = time.perf_counter(), time.process_time()
        found = pair_by_name_or_work(base, other)
        wrong = sum(one.lo != two.lo for one, two in found.pairs)
        print(
            f"{len(base):,} and {len(other):,} windows of 500 events, {words}: {time.perf_counter() - begun:.2f} s "
            f"({time.process_time() - used:.2f} s of processors), {len(found.pairs):,} pairs, {wrong:,} of them wrong"
        )


def main() -> None:
    """Make, pair, judge, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of all kinds, numberings and regressions (%(default)s)")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), help="a fresh one by default")
    parser.add_argument("--windows", type=int, help="time runs of so many windows instead")
    chosen = parser.parse_args()
    if chosen.windows:
        long_runs(chosen.windows, chosen.seed)
        return
    chance = Random(chosen.seed)  # noqa: S311
    tables: dict[str, dict[str, Counter[str]]] = {
        title: defaultdict(Counter) for title in ("all", "by edit", "by kind", "by regression")
    }
    for _ in range(chosen.rounds):
        for kind in KINDS:
            for edit in EDITS:
                for regression in REGRESSIONS:
                    case = made(chance, kind, edit, regression, chance.choice([8, 12, 20, 40, 100]))
                    try:
                        found = pair_by_name_or_work(*case.windows)
                    except AnchorError:
                        tables["all"]["no name in common, and nothing alike: refused"]["runs"] += 1
                        continue
                    verdict = judged(case, found)
                    faulty = verdict.wrong > verdict.edits or (
                        verdict.story == "names" and found.by_work and verdict.wrong
                    )
                    counts = Counter(
                        {
                            "runs": 1,
                            "by work": found.by_work,
                            "faulty": bool(faulty),
                            "windows": verdict.closed,
                            "wrong": verdict.wrong,
                            "hidden": verdict.hidden,
                        }
                    )
                    story = _STORIES[verdict.story]
                    tables["all"][story] += counts
                    if verdict.story != "few":
                        tables["by edit"][f"{edit}: {story}"] += counts
                        tables["by kind"][f"{kind}: {story}"] += counts
                        tables["by regression"][f"{regression}: {story}"] += counts
    print(f"seed {chosen.seed}")
    print(f"  {'':<46}{'runs':>7}{'by work':>9}{'faulty':>9}{'windows':>10}{'wrong':>9}{'hidden':>8}")
    for title, table in tables.items():
        print(f"\n{title}")
        for name in sorted(table):
            print(row(name, table[name]))
    right = tables["all"][_STORIES["names"]]
    sys.exit(1 if right["faulty"] * 100 > right["runs"] or right["hidden"] * 1000 > right["windows"] else 0)


if __name__ == "__main__":
    main()
