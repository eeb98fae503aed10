"""How often what ``memlens whatif`` claims does not come true: random runs of a made-up allocator, held against replays that it has not seen.

    python benchmarks/whatif_claims.py [--cases 200] [--worlds 20] [--seed N]

Each case is a random program, recorded with chunks at random addresses.  The claims about it are checked in other worlds: replays with
chunks at addresses drawn by seeds that the verb does not use.  A claim about one world that does not hold there counts as wrong.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from made_allocator import MODEL
from whatif_worlds import judge_case

from memlens.allocators import registry


def main() -> None:
    """Count over all cases, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None, help="default: a fresh one")
    args = parser.parse_args()
    seed = secrets.randbelow(1 << 20) if args.seed is None else args.seed
    counts: Counter[str] = Counter()
    with mock.patch.object(registry, "built_in", return_value=(MODEL,)):
        for case in range(args.cases):
            judge_case(seed + case, args.worlds, counts)
    print(f"{args.cases} cases from seed {seed}, {args.worlds} worlds each")
    for claim in ("would have completes", "would have fails", "completes from there on", "better"):
        made, wrong = counts[claim], counts[f"{claim}: wrong"]
        print(f"{claim:24} {made:8,} claims {wrong:6,} wrong  {100 * wrong / max(made, 1):.2f} %")


if __name__ == "__main__":
    main()
