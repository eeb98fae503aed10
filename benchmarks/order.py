#!/usr/bin/env python3
"""Runs that differ in nothing but their order, and how many missing or extra Frees ``memlens diff`` names in them: each is false.

See README.md beside this file.  ``threads``: made-up programs of two to eight threads, and real windows of several threads, whose threads
interleave otherwise and have other ids; with lost Frees too, which must be named.  ``neighbours``: real windows in which neighbouring
events changed places.  ``bounds``: how far the bound of what an approximation costs too much is above what it does.

Prints; it fails where a Free is named that is not missing, or one is lost and not named.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from memlens import read
from memlens.diffing.run import diff_windows

ROOT = Path(__file__).resolve().parents[1]
# The generators are what the tests use, too
sys.path.insert(0, str(ROOT / "tests" / "support"))

from jitter import jittered  # noqa: E402
from long_logs import SIZES, Columns, cheapest_cost, cut, edited, least_cost, random_fates  # noqa: E402
from made_threads import found_sizes, lose_frees, programs_of, run, threaded_program  # noqa: E402
from real_windows import real_windows  # noqa: E402

if TYPE_CHECKING:
    from memlens.windows.windows import Window

THREADED = (
    "04_threads_30_ast_pt_transformer.log.gz",
    "331_parts_pir_transformer.log",
    "331_ast_pir_cnn.log",
    "30_ast_transformer_pir.log",
    "30_ast_transformer_pt.log",
    "30b2_ast_transformer_pir.log",
    "30b2_ast_transformer_pt.log",
)


def threaded_windows(shared: Path) -> list[Window]:
    """Real windows in which several threads allocate."""
    logs = [read(shared / "data" / "paddle" / name, columns=("thread",)) for name in THREADED]
    windows = [window for log in logs for window in (*log.windows(r"STEP \d+ START"), log.whole)]
    return [w for w in windows if len({s.thread for s in programs_of(w) if not s.free}) > 1]


def threads(pairs: int, chance: Random, shared: Path) -> Iterator[tuple[str, bool]]:
    """The kind of each comparison, and whether it went wrong."""
    real = [[programs_of(window)] for window in threaded_windows(shared)]
    for number in range(pairs):
        for kind, program in (("made up", threaded_program(chance)), ("real", chance.choice(real))):
            base = run(program, chance)
            found = diff_windows(list(zip(base, run(program, chance), strict=True)))
            yield f"{kind}, another interleaving", any(found_sizes(w, "missing_free", "extra_free") for w in found)
            yield f"{kind}, alignments that cost anything", any(w.cost_bytes for w in found)
            if number % 2 or not (lost := lose_frees(program, chance, 5)):
                continue
            head = run(program, chance, frozenset(lost))
            found = diff_windows(list(zip(base, head, strict=True)))
            wanted = Counter((window, size) for window, size in lost.values())
            named = Counter(
                {
                    (n, size): count
                    for n, w in enumerate(found)
                    for size, count in found_sizes(w, "missing_free").items()
                }
            )
            yield f"{kind}, lost Frees not named", bool(wanted - named)
            yield (
                f"{kind}, Frees named that are not lost",
                bool(named - wanted) or any(found_sizes(w, "extra_free") for w in found),
            )


def neighbours(pairs: int, chance: Random, shared: Path) -> Iterator[tuple[str, bool]]:
    """The share of neighbours that changed places, and whether a Free is named."""
    windows = [pair.base for pair in real_windows(shared, ["same run"])]
    for _ in range(pairs):
        for share in (0.02, 0.1, 0.3):
            window = chance.choice(windows)
            (found,) = diff_windows([(window, jittered(window, share, chance))])
            # A block whose end changed places with the window's edge would be another matter: edges stay.
            yield f"{share:.0%} of neighbours, Frees named", bool(found_sizes(found, "missing_free", "extra_free"))
            held = found_sizes(found, "only_base", "only_head", fate="held")
            yield f"{share:.0%} of neighbours, held blocks of one run", bool(held)


def bounds(chance: np.random.Generator) -> None:
    """Costs of long windows and their bounds."""
    print(f"{'':<28}{'events':>9}{'cost':>12}{'excess at most':>16}{'unordered':>12}{'cheapest':>12}  MB")
    for words, share in (("neighbours", 0.0), ("5 % edited", 0.05), ("20 % edited", 0.2)):
        for events in (20_000, 50_000, 100_000, 200_000):
            base = random_fates(chance.choice(SIZES, events), events, chance)
            head = edited(base, share, chance) if share else swapped(base, chance)
            sides = cut(base.log(), 0, len(base)), cut(head.log(), 0, len(head))
            (found,) = diff_windows([sides])
            excess = "exact" if found.approximation is None else f"{found.approximation.excess_bytes / 1e6:.2f}"
            best = f"{cheapest_cost(*sides) / 1e6:.2f}" if events <= 20_000 else "-"
            unordered = least_cost(*sides) / 1e6
            print(f"{words:<28}{len(base):>9,}{found.cost_bytes / 1e6:>12.2f}{excess:>16}{unordered:>12.2f}{best:>12}")


def swapped(base: Columns, chance: np.random.Generator) -> Columns:
    """A tenth of the events changed places with their neighbours."""
    order = np.arange(len(base))
    at = np.flatnonzero(chance.random(len(base) // 2) < 0.1) * 2
    at = at[base.addr[at] != base.addr[at + 1]]
    order[at], order[at + 1] = at + 1, at
    return base.take(order)


def main() -> None:
    """Compare, count, print."""
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="threads, neighbours, bounds; all by default")
    parser.add_argument("--pairs", type=int, default=500, help="of each kind (%(default)s)")
    parser.add_argument("--seed", type=int, help="a new one each time by default")
    parser.add_argument("--shared", type=Path, default=shared, help="folder of the real logs (%(default)s)")
    chosen = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}")
    what = chosen.what or ["threads", "neighbours", "bounds"]
    failed = False
    for name, make in (("threads", threads), ("neighbours", neighbours)):
        if name in what:
            done: Counter[str] = Counter()
            wrong: Counter[str] = Counter()
            for kind, bad in make(chosen.pairs, Random(seed), chosen.shared):  # noqa: S311
                done[kind] += 1
                wrong[kind] += bad
            for kind, count in done.items():
                print(f"{kind:<48}{wrong[kind]:>6} of {count:,}")
            failed |= any(wrong.values())
    if "bounds" in what:
        bounds(np.random.default_rng(seed))
    sys.exit(failed)


if __name__ == "__main__":
    main()
