#!/usr/bin/env python3
"""Of how many made-up jobs ``memlens compare`` says that a rank stands out, where none does and where some do, by kind and number of ranks.

See README.md beside this file.  Prints two tables in per cent of jobs; exits 1 where a target is missed: over all kinds at 64 ranks and more at most 1 % with a false claim
(a rank named that is none), and at least 99 % with all ranks named and no other.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import time_ns

import numpy as np

from memlens.comparing.outliers import peers_of, standing_out

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from made_ranks import LOUD, MIB, QUIET, SIZES, Job, Maker  # noqa: E402

ENOUGH = 64
#: How far one rank is off, in units of the standard deviation of its peers.
DISTANCES = (4, 6, 8, 12, 16, 24)


def named(job: Job) -> frozenset[int]:
    """The ranks of which it is said."""
    fields = {name: codes for name, codes in job.fields.items() if name != "node"}
    return frozenset(one.rank for one in standing_out(job.peaks, peers_of(job.peaks, fields, MIB), MIB))


def table(kinds: tuple[Maker, ...], runs: int, seed: int, *, wanted: bool) -> np.ndarray:
    """Of each kind and size in how many per cent of jobs just the right ranks are named (or, not ``wanted``, any wrong one)."""
    print("| |", *(f"{size:,} |" for size in SIZES))
    print("|---|" + "---|" * len(SIZES))
    rates = np.zeros((len(kinds), len(SIZES)))
    for row, kind in enumerate(kinds):
        for column, size in enumerate(SIZES):
            chance = np.random.default_rng([seed, size, sum(map(ord, kind.__name__))])
            jobs = [kind(chance, size) for _ in range(max(runs // (1 + size // 2000), 5))]
            right = [named(job) == job.outliers if wanted else bool(named(job) - job.outliers) for job in jobs]
            rates[row, column] = 100 * np.mean(right)
        print(f"| {kind.__name__.replace('_', ' ')} |", *(f"{rate:.1f} |" for rate in rates[row]), flush=True)
    print("| **all** |", *(f"**{mean:.2f}** |" for mean in rates.mean(0)))
    return rates


def distances(runs: int, seed: int) -> None:
    """How far a rank has to be off among ranks with normal noise of 1 % to be named."""
    print("| |", *(f"{size:,} |" for size in SIZES))
    print("|---|" + "---|" * len(SIZES))
    for far in DISTANCES:
        row = []
        for size in SIZES:
            chance = np.random.default_rng([seed, size, far])
            count = max(runs // (1 + size // 2000), 5)
            peaks = (1e10 * (1 + 0.01 * chance.standard_normal((count, size)))).astype(np.int64)
            peaks[:, 0] = int(1e10 * (1 + 0.01 * far))
            row.append(100 * np.mean([named(Job(job)) == {0} for job in peaks]))
        print(f"| {far} |", *(f"{rate:.0f} |" for rate in row), flush=True)


def main() -> int:
    """Measure as asked, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="jobs of each kind and size (%(default)s)")
    parser.add_argument("--seed", type=int, default=time_ns() % 10**9, help="a fresh one each time, unless given")
    given = parser.parse_args()
    print(f"seed {given.seed}, {given.runs} jobs of each kind and size (of 10,000 ranks fewer), per cent\n")
    print("No rank stands out: jobs in which one is named\n")
    alarms = table(QUIET, given.runs, given.seed, wanted=False)
    print("\nSome ranks stand out: jobs in which these are named, and no other\n")
    found = table(LOUD, given.runs, given.seed, wanted=True)
    print("\nOne rank so many standard deviations off: jobs in which it is named, and no other\n")
    distances(given.runs, given.seed)
    enough = [column for column, size in enumerate(SIZES) if size >= ENOUGH]
    met = alarms.mean(0)[enough].max() <= 1 and found.mean(0)[enough].min() >= 99
    print("\nmeets the targets" if met else "\nmisses a target")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
