#!/usr/bin/env python3
"""Free blocks late on purpose, and see which ``memlens diff`` names, and which it names that are not late; with fresh seeds.

See README.md beside this file.  Real windows with late frees put in, with and without neighbours that change places; programs of threads
that interleave otherwise; steps that keep blocks until the exit.  Prints.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from random import Random

from memlens.diffing.run import diff_windows

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from real_windows import real_windows  # noqa: E402

from late_frees import interleaved, leaking, rates  # noqa: E402


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300, help="runs of each kind")
    parser.add_argument("--seed", type=int, help="default: another one each time")
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared")))
    given = parser.parse_args()
    seed = int.from_bytes(os.urandom(4), "little") if given.seed is None else given.seed
    print(f"seed {seed}")
    chance = Random(seed)  # noqa: S311
    relations = ["same run", "two runs", "two versions"]
    windows = [pair.base for pair in real_windows(given.shared, relations) if pair.shortest >= 40]
    print(f"{'real windows':32}{'runs':>6}{'late':>7}{'named':>7}{'false':>7}")
    for most, swaps in ((0, 0.0), (0, 0.1), (0, 0.3), (5, 0.0), (5, 0.1), (20, 0.1)):
        found = rates(windows, chance, given.runs, most=most, swaps=swaps)
        what = f"up to {most} late, {swaps:.0%} change places"
        print(f"{what:32}{found.runs:6,}{found.late:7,}{found.found:7,}{found.false:7,}")
    false = leaks = 0
    for _ in range(given.runs):
        base, head = interleaved(chance, chance.randint(2, 5), chance.randint(10, 120))
        false += diff_windows([(base, head)])[0].late_frees > 0
        base, head, truth = leaking(chance, chance.randint(10, 80), at_exit=chance.random() < 0.8)
        kept: dict[int, int] = {}
        for finding in diff_windows([(base, head)])[0].findings:
            held = finding.kind == "missing_free" or (finding.kind, finding.fate) == ("only_head", "held")
            if held or finding.fate == "to_end":
                kept[finding.size_bytes] = kept.get(finding.size_bytes, 0) + finding.count
        leaks += kept == truth
    print(f"threads: {false:,} of {given.runs:,} pairs with a false late free")
    print(f"leaks in one window: {leaks:,} of {given.runs:,} with the exact count of each size")


if __name__ == "__main__":
    main()
