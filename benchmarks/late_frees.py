#!/usr/bin/env python3
"""Free blocks of real windows after the peak on purpose, and see which late Frees ``memlens diff`` names, and which that are none; with fresh seeds.

See README.md beside this file.  Prints.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from real_windows import real_windows  # noqa: E402

from late_frees import late_frees, named  # noqa: E402
from memlens.diffing.run import diff_windows  # noqa: E402

if TYPE_CHECKING:
    from memlens.windows.windows import Window


@dataclass(frozen=True)
class Rates:
    """What came of some runs: late and early Frees that there were, those of them that were named, and those named that are none."""

    runs: int = 0
    there: int = 0
    found: int = 0
    false: int = 0


def rates(windows: list[Window], chance: Random, runs: int, *, most: int, swaps: float = 0.0) -> Rates:
    """Free blocks of real windows late, let neighbours change places, compare, and count by sizes."""
    total = Rates()
    for _ in range(runs):
        made = late_frees(chance.choice(windows), chance, chance.randint(min(most, 1), most), swaps)
        (found,) = diff_windows([(made.base, made.head)])
        kinds = zip(
            (named(found, "late_free"), named(found, "early_free")), (made.late, made.early), made.sure, strict=True
        )
        for of_kind, most_of_kind, least in kinds:
            total = Rates(
                total.runs,
                total.there + least.total(),
                total.found + (of_kind & least).total(),
                total.false + (of_kind - most_of_kind).total(),
            )
        total = replace(total, runs=total.runs + 1)
    return total


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
    print(f"{'':40}{'runs':>6}{'there':>7}{'named':>7}{'false':>7}")
    for most, swaps in ((0, 0.0), (0, 0.1), (0, 0.3), (5, 0.0), (5, 0.1), (20, 0.0), (20, 0.1)):
        found = rates(windows, chance, given.runs, most=most, swaps=swaps)
        what = f"up to {most} freed late, {swaps:.0%} change places"
        print(f"{what:40}{found.runs:6,}{found.there:7,}{found.found:7,}{found.false:7,}")


if __name__ == "__main__":
    main()
