#!/usr/bin/env python3
"""Make pairs of runs that the gate must pass and must fail, and see how often it does.

See README.md beside this file.  The seeds are fresh each time; ``--seed`` takes the printed one again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from random import Random
from secrets import randbits
from tempfile import TemporaryDirectory

import memlens

ROOT = Path(__file__).resolve().parents[1]
# The runs are those of the tests
sys.path.insert(0, str(ROOT / "tests" / "support"))

from made_gates import BY, BY_CHANCE, FAILING, PASSING, Case, write  # noqa: E402


def judged(case: Case, folder: Path) -> memlens.Verdict:
    """What the gate says of a case."""
    runs = [write(folder / f"base{n}.log", series) for n, series in enumerate(case.base)]
    memlens.accept(runs, folder / "memory.json", by=BY)
    verdict = memlens.gate(write(folder / "head.log", case.head), baseline=folder / "memory.json")
    (folder / "memory.json").unlink()
    return verdict


def main() -> None:
    """Run the cases and print a line for each kind of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kind", action="append", default=[], help="only this kind; may be given several times")
    given = parser.parse_args()
    seed = randbits(32) if given.seed is None else given.seed
    print(f"seed {seed}, {given.cases} cases of each kind")
    print(f"{'kind':<22}{'must':<6}{'right':>12}  failing metrics")
    with TemporaryDirectory() as folder:
        for must, kinds in (("pass", PASSING), ("fail", FAILING), ("", BY_CHANCE)):
            for name, make in kinds.items():
                if given.kind and name not in given.kind:
                    continue
                right, metrics, wrong = 0, Counter[str](), []
                for number in range(given.cases):
                    case = make(Random(f"{seed} {name} {number}"))  # noqa: S311
                    verdict = judged(case, Path(folder))
                    failing = {row.metric for row in verdict.failing}
                    metrics.update(failing)
                    if verdict.exit_code == case.exit_code and (not case.metrics or failing & case.metrics):
                        right += 1
                    else:
                        wrong.append(number)
                counts = ", ".join(f"{metric} {count}" for metric, count in metrics.most_common())
                print(
                    f"{name:<22}{must:<6}{right:>5} of {given.cases:<4}  {counts}{f'; wrong: {wrong[:8]}' if wrong else ''}"
                )


if __name__ == "__main__":
    main()
