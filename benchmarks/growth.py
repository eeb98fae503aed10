#!/usr/bin/env python3
"""How many leaks of made-up series ``growth`` finds, how many series without a leak it calls growing, and how often it tells a shape, by kind and length.

See README.md beside this file.  Prints tables; exits 1 where a target is missed: over all kinds at 20 windows and more, at least 95 % of leaks
found and at most 2 % false alarms at every length, every late leak of ten windows found, with ``--shapes`` each of them
told in 97 % over all lengths, and no leak told as none.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from time import time_ns

import numpy as np
from numpy.typing import NDArray

from memlens.analyzers.series.growth import growth
from memlens.analyzers.series.trend import judge
from memlens.watching.judging import lasting_gain

ROOT = Path(__file__).resolve().parents[1]
# The kinds are those that the tests use, too
sys.path.insert(0, str(ROOT / "tests" / "support"))

from made_owners import program  # noqa: E402
from made_series import LEAKS, LENGTHS, NO_LEAKS, Maker, grown, is_growing, made  # noqa: E402
from made_shapes import LENGTHS as SHAPE_LENGTHS  # noqa: E402
from made_shapes import SHAPES, rates  # noqa: E402

SHORT = (4, 5, 6, 7, 8, 10, 12, 15)
#: Of series that come in window by window.
LIVE = (20, 50, 100)
Called = Callable[[NDArray[np.int64]], bool]


def claimed(live: NDArray[np.int64]) -> bool:
    """Whether ``memlens watch`` says at any moment, while a series comes in, that it gains more than ``--budget growth=0``."""
    return any((lasting_gain(live[:count]) or 0) > 0 for count in range(1, len(live) + 1))


def table(
    kinds: Iterable[Maker], lengths: tuple[int, ...], runs: int, seed: int, called: Called
) -> dict[str, list[float]]:
    """Of each kind and length, what percentage is called growing; printed as a Markdown table with the means below."""
    rates = {kind.__name__: [100 * grown(kind, n, runs, seed, called) / runs for n in lengths] for kind in kinds}
    print("| |", *(f"{n} |" for n in lengths))
    print("|---|" + "---|" * len(lengths))
    for name, row in rates.items():
        print(f"| {name.replace('_', ' ')} |", *(f"{rate:.1f} |" for rate in row))
    print("| **all** |", *(f"**{mean:.2f}** |" for mean in np.mean(list(rates.values()), 0)))
    return rates


def shapes(runs: int, seed: int) -> bool:
    """What percentage of each shape is told as what it is, in a Markdown table; whether that is often enough."""
    print("\n| shape, told as what it is |", *(f"{n} |" for n in SHAPE_LENGTHS))
    print("|---|" + "---|" * len(SHAPE_LENGTHS))
    met = True
    for shape in SHAPES:
        found = [rates(shape, n, runs, seed) for n in SHAPE_LENGTHS]
        print(f"| {shape.__name__.replace('_', ' ')} |", *(f"{100 * right / runs:.1f} |" for right, _ in found))
        met &= sum(right for right, _ in found) >= 0.97 * runs * len(found)
        met &= not any(clear for _, clear in found)
    return met


def starts(runs: int, seed: int) -> None:
    """How far from the first window that leaks the verdict says that it starts."""
    print("\n| windows off, 1 % / 5 % / half / 95 % / 99 % of series |", *(f"{n} |" for n in LENGTHS))
    print("|---|" + "---|" * len(LENGTHS))
    for kind in LEAKS:
        if made(kind, np.random.default_rng(0), 20)[1] is None:
            continue
        row = []
        for n in LENGTHS:
            chance = np.random.default_rng([seed, n, 1])
            found = [(judge(live).since, since) for live, since in (made(kind, chance, n) for _ in range(runs))]
            off = [said - since for said, since in found if said is not None and since is not None]
            row.append(" / ".join(f"{value:.0f}" for value in np.percentile(off, (1, 5, 50, 95, 99))) if off else "")
        print(f"| {kind.__name__.replace('_', ' ')} |", *(f"{cell} |" for cell in row))


def owners(runs: int, seed: int) -> bool:
    """What percentage of runs has a leaking operator named, and another one; whether few are named falsely."""
    chance = Random(seed)  # noqa: S311
    print("| | steps | called growing | the leaking owner named | … of those not growing | another one |")
    print("|---|---|---|---|---|---|")
    wrong = 0
    for leak in (True, False):
        for n in (14, 20, 40, 100):
            made_runs = (program(chance, n, leak=leak) for _ in range(runs))
            found = [(growth(windows), leaks) for windows, leaks in made_runs]
            named = [(one, one.grown.owner == leaks and leak) for one, leaks in found if one.grown is not None]
            grows = sum(one.verdict == "growing" for one, _ in found)
            hidden = sum(right and one.verdict != "growing" for one, right in named)
            right, others = sum(right for _, right in named), sum(not right for _, right in named)
            wrong += others
            cells = (f"{100 * count / runs:.1f}" for count in (grows, right, hidden, others))
            print(f"| {'one leaks' if leak else 'none leaks'} | {n} |", *(f"{cell} |" for cell in cells), flush=True)
    return wrong <= 0.02 * 8 * runs


def main() -> int:
    """Measure as asked, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="series of each kind and length (%(default)s)")
    parser.add_argument("--seed", type=int, default=time_ns() % 10**9, help="a fresh one each time, unless given")
    parser.add_argument("--short", action="store_true", help="series below 20 windows instead")
    parser.add_argument("--shapes", action="store_true", help="which shapes are told as what they are instead")
    parser.add_argument(
        "--live", action="store_true", help="what is called growing at any moment while it comes in instead"
    )
    parser.add_argument("--owners", action="store_true", help="whether a leaking operator is named instead")
    given = parser.parse_args()
    if given.owners:
        print(f"seed {given.seed}, {given.runs} runs of each length; per cent\n")
        return 0 if owners(given.runs, given.seed) else 1
    lengths = LIVE if given.live else SHORT if given.short else LENGTHS
    if given.shapes:
        print(f"seed {given.seed}, {given.runs} series of each shape and length; per cent")
        return 0 if shapes(given.runs, given.seed) else 1
    called = claimed if given.live else is_growing
    print(f"seed {given.seed}, {given.runs} series of each kind and length; per cent called growing\n\nLeaks\n")
    found = table(LEAKS, lengths, given.runs, given.seed, called)
    print("\nNo leaks\n")
    alarms = table(NO_LEAKS, lengths, given.runs, given.seed, called)
    if given.short or given.live:
        return 0
    starts(min(given.runs, 100), given.seed)
    met = (
        min(np.mean(list(found.values()), 0)) >= 95
        and max(np.mean(list(alarms.values()), 0)) <= 2
        and min(found["late_ten"]) == 100
    )
    print("\nmeets the targets" if met else "\nmisses a target")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
