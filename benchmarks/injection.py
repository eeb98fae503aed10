#!/usr/bin/env python3
"""Put missing frees into real logs and see which of them ``memlens diff`` names, over a thousand runs and more.

See README.md beside this file.  Each run takes two real windows, deletes FREEs of head, inserts and removes temporaries, lets
neighbours of different threads change places, changes all addresses, and compares.  Whether the cost of an alignment tells what
was injected is decided by an exact program over the whole table:

unique     every cheapest alignment names the same missing frees, and they are the injected ones
ambiguous  cheapest alignments differ in what they name; one of them names all that were injected
another    no cheapest alignment names all that were injected: another story is cheaper

Prints; it fails only where an alignment is not a cheapest one, or where a unique run is not named without fault.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from memlens.diffing.run import diff_windows

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks" / "support"), str(ROOT / "tests" / "support")]

from injected import MIXES, Pair, inject  # noqa: E402
from real_windows import RELATIONS, real_windows  # noqa: E402
from verdicts import Score, Verdict, verdict  # noqa: E402

STORIES = ("unique", "ambiguous", "another")


@dataclass(frozen=True)
class Run:
    """One injection and what came of it.

    Attributes:
        relation: How the two runs are related.
        logs: The two logs.
        mix: What was done.
        verdict: What was found.
    """

    relation: str
    logs: str
    mix: str
    verdict: Verdict


def injections(shared: Path, runs: int, seed: int, relations: list[str], longest: int) -> Iterable[Run]:
    """So many runs, each relation and each mix equally often."""
    chance = Random(seed)  # noqa: S311
    windows = defaultdict(list)
    certain = temporaries = 0
    for pair in real_windows(shared, relations):
        if pair.shortest >= 40 and pair.longest <= longest:
            windows[pair.relation].append(pair)
    print(", ".join(f"{len(pairs)} window pairs of {relation}" for relation, pairs in windows.items()))
    solved: dict[str, Pair] = {}
    done = number = 0
    while done < runs:
        chosen = chance.choice(windows[relations[number % len(relations)]])
        mix = MIXES[number // len(relations) % len(MIXES)]
        number += 1
        if chosen.name not in solved:
            solved[chosen.name] = before = Pair.of(chosen)
            certain += len(before.partners())
            temporaries += sum(not born.held and born.size > 0 for born in before.exact.head)
        injected = inject(solved[chosen.name], mix, chance)
        if injected is None:
            continue
        (found,) = diff_windows([(chosen.base, injected.head)])
        done += 1
        yield Run(chosen.relation, chosen.logs, mix.name, verdict(injected, found))
    print(
        f"FREEs that could be deleted: {certain / temporaries:.1%} of those of temporaries (the others' blocks have no certain"
    )
    print("  partner in base even before the damage, so nothing could be said to be missing)")


def row(name: str, runs: list[Run]) -> str:
    """A row of the table: how many runs, and what was found of what was injected."""
    got = sum((run.verdict.score for run in runs), Score())

    def share(part: int, whole: int) -> str:
        return f"{part / whole:>9.2%}" if whole else f"{'-':>9}"

    return (
        f"  {name:<44}{len(runs):>6}{got.injected:>8}{got.reported:>8}"
        f"{share(got.pairs, got.injected)}{share(got.alike, got.injected)}{share(got.alike_bytes, got.injected_bytes)}"
        f"{share(got.pairs, got.reported)}{share(got.alike, got.reported)}{share(got.alike_bytes, got.reported_bytes)}"
        f"{share(got.named, got.injected)}"
    )


def table(title: str, runs: list[Run], key: Callable[[Run], str]) -> None:
    """Runs by what ``key`` says of them, those where the cost tells what was injected apart from the others."""
    print(f"\n{title}")
    print(f"  {'':<44}{'runs':>6}{'inject.':>8}{'report.':>8}{'recall':>16}{'precision':>27}{'named or':>20}")
    print(f"  {'':<66}{'pairs':>9}{'sizes':>9}{'bytes':>9}{'pairs':>9}{'sizes':>9}{'bytes':>9}{'held':>9}")
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    for name, group in groups.items():
        print(row(f"{name}: unique", [run for run in group if run.verdict.story == "unique"]))
        print(row(f"{name}: elsewhere", [run for run in group if run.verdict.story != "unique"]))


def causes(runs: list[Run]) -> None:
    """What becomes of the injected missing frees in a cheapest alignment, by count and by bytes."""
    for story in STORIES:
        counts: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for run in runs:
            if run.verdict.story == story:
                for why, size in run.verdict.causes:
                    counts[why] += 1
                    sizes[why] += size
        print(f"\nwhat becomes of what was injected in a cheapest alignment, {story}")
        for why, count in counts.most_common():
            print(f"  {why:<74}{count:>8}{count / counts.total():>9.2%}{sizes[why] / sizes.total():>9.2%} of bytes")


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("relations", nargs="*", help=f"{', '.join(RELATIONS)}; all of them by default")
    parser.add_argument("--runs", type=int, default=1400, help="injections (%(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--events", type=int, default=1500, help="of the longest windows (%(default)s)")
    parser.add_argument("--shared", type=Path, default=shared, help="folder of the real logs (%(default)s)")
    chosen = parser.parse_args()
    if unknown := set(chosen.relations) - set(RELATIONS):
        parser.error(f"no pairs of logs called {', '.join(sorted(unknown))}")
    return chosen


def main() -> None:
    """Inject, compare, judge, print."""
    chosen = arguments()
    runs = list(injections(chosen.shared, chosen.runs, chosen.seed, chosen.relations or list(RELATIONS), chosen.events))
    for story in STORIES:
        told = [run for run in runs if run.verdict.story == story]
        print(f"{story}: {len(told)} runs of {len(runs)}, {len(told) / len(runs):.1%}")
    table("all", runs, lambda _: "all")
    print(row("  of these: ambiguous", [run for run in runs if run.verdict.story == "ambiguous"]))
    print(row("  of these: another", [run for run in runs if run.verdict.story == "another"]))
    table("by how the runs are related", runs, lambda run: run.relation)
    table("by what was done", runs, lambda run: run.mix)
    print("\nby logs, base before head")
    for logs in dict.fromkeys(run.logs for run in runs):
        print(row(f"{logs[:80]}", [run for run in runs if run.logs == logs]))
    causes(runs)
    dear = sum(not run.verdict.cheapest for run in runs)
    faults = sum(run.verdict.story == "unique" and not run.verdict.faultless for run in runs)
    print(f"\nalignments that are not a cheapest one: {dear}; unique runs not named without fault: {faults}")
    sys.exit(1 if dear or faults else 0)


if __name__ == "__main__":
    main()
