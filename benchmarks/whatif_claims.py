"""How often what ``memlens whatif`` claims does not come true: random runs of a made-up allocator, held against replays that it has not seen.

    python benchmarks/whatif_claims.py [--cases 200] [--worlds 20] [--seed N]

Each case is a random program, recorded with chunks at random addresses.  The claims about it are checked in other worlds: the plain reference
implementation with chunks at addresses drawn by seeds that the verb does not use.  A claim about one world that does not hold there counts as wrong.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from made_allocator import DEFAULTS, MODEL, made_log, random_program, recorded, run_plainly

import memlens
from memlens.allocators import registry
from memlens.allocators.placing import Addresses, Placement
from memlens.replaying.asked import as_asked
from memlens.replaying.scanning import scan_limits, summed_up

#: Seeds of worlds begin here; the verb uses a few small ones.
_FIRST = 1 << 20


def judge_case(seed: int, worlds: int, counts: Counter[str]) -> None:
    """Make one run, ask the verb, and count its claims and those that do not hold."""
    chance = random.Random(seed)
    values = {"relief": chance.random() < 0.7, "chunk_kib": chance.choice((0, 0, 0, 4, 16))}
    program = random_program(seed, chance.choice((60, 120, 240, 480)))
    free = recorded(program, seed, **values)
    found = memlens.whatif(made_log(free)).logs[0]
    own = found.own
    assert found.proof.holds
    assert own is not None
    span = max(own.reserved_peak.high_bytes - (found.live_peak_bytes or 0), 0)
    limit = (found.live_peak_bytes or 0) + int(span * chance.uniform(-0.05, 1.0))
    history = recorded(program, seed, limit, **values) if chance.random() < 0.5 else free
    found = memlens.whatif(made_log(history), limit=limit).logs[0]
    own = found.own
    assert own is not None
    asked = as_asked(history)
    for world in range(worlds):
        addresses = Addresses(Placement.SHUFFLED, _FIRST + seed * worlds + world)

        def needs(changes: dict[str, object], addresses: Addresses = addresses) -> tuple[int, Callable[[int], bool]]:
            how = {**DEFAULTS, **values, **changes}
            peak = run_plainly(asked, how, addresses)
            known = scan_limits(
                lambda within: run_plainly(asked, how, addresses, within),
                peak.reserved_peak,
                found.live_peak_bytes or 0,
                40,
            )
            completes = lambda within: run_plainly(asked, how, addresses, within).completed  # noqa: E731
            return summed_up(known, 0).completes_from, completes

        own_needs, _ = needs({})
        for trial in found.trials:
            needed, completes = (own_needs, needs({})[1]) if trial.own else needs(dict(trial.values))
            if trial.within_limit in ("completes", "fails"):
                counts[f"would have {trial.within_limit}"] += 1
                counts[f"would have {trial.within_limit}: wrong"] += completes(limit) != (
                    trial.within_limit == "completes"
                )
            assert trial.completes is not None
            high = trial.completes.high_bytes
            within = chance.randint(high, high + max(high // 10, 256))
            counts["completes from there on"] += 1
            counts["completes from there on: wrong"] += not completes(within)
            if trial.better:
                counts["better"] += 1
                ahead = (
                    completes(limit)
                    if trial.within_limit == "completes" and own.within_limit == "fails"
                    else needed < own_needs
                )
                counts["better: wrong"] += not ahead


def main() -> None:
    """Count over all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one")
    args = parser.parse_args()
    seed = secrets.randbelow(1 << 20) if args.seed is None else args.seed
    counts: Counter[str] = Counter()
    with mock.patch.object(registry, "built_in", lambda: (MODEL,)):
        for case in range(args.cases):
            judge_case(seed + case, args.worlds, counts)
    print(f"{args.cases} cases from seed {seed}, {args.worlds} worlds each")
    for claim in ("would have completes", "would have fails", "completes from there on", "better"):
        made, wrong = counts[claim], counts[f"{claim}: wrong"]
        print(f"{claim:24} {made:8,} claims {wrong:6,} wrong  {100 * wrong / max(made, 1):.2f} %")


if __name__ == "__main__":
    main()
