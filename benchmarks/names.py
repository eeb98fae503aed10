#!/usr/bin/env python3
"""What the names in a log of ``memlens record`` cost a program: lines of the program, and who holds its tensors.

    MEMLENS_PADDLE=PADDLE_ENV/bin/python python benchmarks/names.py

Needs an environment with paddlepaddle, g++, and the shared folder, whose host-memory device is built first.  Runs programs of ``trainers.py``
without names, with lines, and with lines and holders, one after the other, and compares processor time of the training alone (not of Paddle's
import), the text of the log, that text compressed, and what is allocated; and says how much of what is live at the peak has a role, and how
much of what variables lead to has a path.  In one run more, operators have names, or are as Paddle made them, from step to step by chance: the
medians of the two, of one process, vary less than runs do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import zstandard

import memlens
from memlens.claims.roles import UNSEEN
from memlens.recording.names import asked_for
from memlens.recording.presets import settings
from memlens.recording.sink import Slimmed

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from program_judge import record_program  # noqa: E402
from real_paddle import RealPaddle, pythons  # noqa: E402

#: What is recorded.
NAMES = ("none", "lines", "holders")
#: Steps before a program is warm.
_WARM_UP = 5
EVENT = re.compile(rb"\] (Alloc|Free) (\d+) bytes")
CALL = b"memlens calls "


class Ran:
    """A run: seconds of the processor in training, its log, and the sizes that it allocates and frees."""

    def __init__(
        self, paddle: RealPaddle, folder: Path, program: str, names: str, steps: int, *, switch: bool = False
    ) -> None:
        record = json.dumps({"lines": asked_for(names)["lines"]})
        environment = settings("paddle", [], paddle.environment(), record, names=names != "none").environment
        variables = {**environment, "OMP_NUM_THREADS": "1"}
        run = record_program(paddle, folder / "run.log", program, steps=steps, variables=variables, switch=switch)
        text, slimmed = run.log.read_bytes(), Slimmed()
        self.seconds = run.truth["processor_seconds"]
        #: Steps with names over those without: the ratio of the medians, and of nine in ten draws of as many.
        self.switched = _ratio(*(run.truth[name][_WARM_UP:] for name in ("seconds_with_names", "seconds_without")))
        written = slimmed.feed(text) + slimmed.release()  # as memlens record writes it
        self.size, self.packed = len(written), len(zstandard.compress(written))
        self.calls, self.held = text.count(CALL), text.count(b"memlens holds ")
        self.events = sorted(EVENT.findall(text))  # threads may change their order
        (window,) = memlens.analyze(run.log, analyzers=["composition"], whole=True).logs[0].windows
        peak = [share for share in window.results["composition"].holders if share.at == "peak"]
        whole = sum(share.total_bytes for share in peak)
        #: Shares of the peak that have a role, and that have a path of all that may have one.
        self.with_role = sum(share.total_bytes for share in peak if share.role is not None) / max(whole, 1)
        pathed = sum(share.total_bytes for share in peak if share.holder is not None and " (" in share.holder)
        seen = pathed + sum(share.total_bytes for share in peak if share.holder in (None, UNSEEN))
        self.with_path = pathed / max(seen, 1)


def _ratio(some: list[float], others: list[float]) -> list[float]:
    """The ratio of two medians, and its fifth and 95th percentile over draws with replacement."""
    if not (some and others):
        return []
    draws = np.random.default_rng(1)
    drawn = [
        np.median(draws.choice(some, len(some))) / np.median(draws.choice(others, len(others))) for _ in range(1000)
    ]
    return [median(some) / median(others), *np.quantile(drawn, (0.05, 0.95)).tolist()]


def main() -> None:
    """Run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser.add_argument("--programs", nargs="*", default=["mlp", "conv", "gpt", "gan", "lstm", "serve", "accumulate"])
    parser.add_argument("--steps", type=int, default=60, help="steps of each run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind (%(default)s)")
    parser.add_argument("--shared", type=Path, default=shared, help="the shared folder (%(default)s)")
    given = parser.parse_args()
    if not pythons():
        sys.exit("MEMLENS_PADDLE names no interpreter that has paddlepaddle")
    print(
        "| program | names | time | time of one call | text | compressed | lines of holders | same allocations |"
        " with a role | with a path |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as name:
        folder = Path(name)
        paddle = RealPaddle.build(pythons()[0], given.shared, folder / "device")
        for program in given.programs:
            runs: dict[str, list[Ran]] = {names: [] for names in NAMES}
            for _ in range(given.rounds):
                for names, found in runs.items():
                    found.append(Ran(paddle, folder, program, names, given.steps))
            within = Ran(paddle, folder, program, "holders", 2 * given.steps, switch=True).switched
            said = f"{within[0]:.3f} ({within[1]:.3f} to {within[2]:.3f})"
            print(f"{program}: steps with names over steps without {said}", file=sys.stderr)
            plain = runs["none"]
            for names, found in runs.items():
                ratios = sorted(one.seconds / bare.seconds for one, bare in zip(found, plain, strict=True))
                calls = max(found[0].calls // 2, 1)
                each = median(one.seconds for one in plain) / calls * 1e6 if names != "none" else 0
                print(
                    f"| {program} | {names} | {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) of"
                    f" {median(one.seconds for one in plain):.2f} s | {f'{each:.0f} µs' if each else ''} |"
                    f" {found[0].size / plain[0].size:.2f} | {found[0].packed / plain[0].packed:.2f} | {found[0].held} |"
                    f" {'yes' if all(one.events == plain[0].events for one in found) else 'no'} |"
                    f" {min(one.with_role for one in found):.1%} | {min(one.with_path for one in found):.1%} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
