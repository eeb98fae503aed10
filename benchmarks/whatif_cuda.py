#!/usr/bin/env python3
"""Predict what runs of PyTorch on a GPU do under other settings of their allocator, and see what they do.

    python benchmarks/whatif_cuda.py --runs FOLDER

Runs the programs of ``cuda_trainers.py`` by ``memlens record`` under each setting, and again on devices that are hardly larger than what is
live at once; asks ``memlens whatif`` of the snapshots; and prints three tables: whether the runs come out as recorded, the reserved
peak for each ordered pair of settings, and the outcome under limits.  Truth is what the allocator counted itself.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

#: Of ``cuda_trainers.py``.
PROGRAMS = ("transformer", "checkpointed", "convolutions", "experts", "sessions", "streams")
#: What ``memlens whatif --set`` is told of each setting, and what the environment is.
SETTINGS = {
    "the defaults": "",
    "expandable segments": "expandable_segments:True",
    "sizes in 4 steps": "roundup_power2_divisions:4",
    "no split from 64 MB": "max_split_size_mb:64",
}
#: The defaults as a setting beside those of a run.
BACK = {"expandable_segments": "False", "roundup_power2_divisions": "1", "max_split_size_mb": "1000000"}
LIMITED = ("the defaults", "expandable segments", "no split from 64 MB")
FACTORS = (1.02, 1.05, 1.1, 1.2)


@dataclass(frozen=True)
class Runs:
    """Real runs, made where they are not there yet, in a folder."""

    folder: Path

    def snapshot(self, program: str, setting: str, limit: int = 0) -> Path:
        """The snapshot of a run."""
        snapshot = self.folder / f"{program}, {setting}, {limit}.pickle"
        figures = snapshot.with_suffix(".json")
        if not figures.exists():
            trainer = (str(Path(__file__).with_name("cuda_trainers.py")), program, str(figures), str(limit))
            record = ["-m", "memlens", "record", "--preset", "torch", "--names", "lines", "-f", "-o"]
            command = [sys.executable, *record, str(snapshot), "--", sys.executable, *trainer]
            variables = os.environ | {"PYTORCH_CUDA_ALLOC_CONF": SETTINGS[setting]} if SETTINGS[setting] else os.environ
            done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{snapshot.name}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
        return snapshot

    def figures(self, program: str, setting: str, limit: int = 0) -> dict[str, Any]:
        """What the allocator counted itself."""
        found: dict[str, Any] = json.loads(self.snapshot(program, setting, limit).with_suffix(".json").read_text())
        return found


def predicted(snapshot: Path, *options: str) -> dict[str, Any]:
    """What ``memlens whatif`` says of a snapshot."""
    command = [sys.executable, "-m", "memlens", "whatif", str(snapshot), "--format", "json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        return {"failed": done.stderr}
    found: dict[str, Any] = json.loads(done.stdout)["logs"][0]
    return found


def asked(base: str, head: str) -> tuple[str, ...]:
    """The options that ask what a run under one setting does under another one."""
    name, _, value = SETTINGS[head].partition(":")
    was = SETTINGS[base].partition(":")[0]
    wanted = {was: BACK[was]} if was else {}
    return tuple(
        word for key, said in (wanted | ({name: value} if name else {})).items() for word in ("--set", f"{key}={said}")
    )


def trial(found: dict[str, Any], base: str, head: str) -> dict[str, Any] | None:
    """The replay of one of the settings, if the proof held."""
    return next((one for one in found.get("trials", []) if one["as_run"] == (base == head)), None)


def table(*columns: str) -> None:
    """Print the head of a table."""
    print(f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def proofs(runs: Runs, programs: list[str], pool: ThreadPoolExecutor) -> None:
    """Whether each run comes out as it was recorded."""
    table("run", "segments", "blocks", "live at once", "the allocator's", "as recorded")
    cases = list(product(programs, SETTINGS))
    for (program, setting), found in zip(cases, pool.map(lambda one: predicted(runs.snapshot(*one), *asked(*(one[1], one[1]))), cases), strict=True):  # fmt: skip
        counted, proof = runs.figures(program, setting), found.get("proof", {})
        said = "yes" if proof.get("holds") else found.get("failed", "") or proof["difference"] or "no"
        live, alike = found.get("live_peak_bytes", 0), f"{proof.get('chunks_alike')} of {proof.get('chunks')}"
        print(
            f"| {program}, {setting} | {alike} | {proof.get('addresses')} | {live} | {counted['allocated']} | {said.strip()} |"
        )


def peaks(runs: Runs, programs: list[str], pool: ThreadPoolExecutor) -> None:
    """The reserved peak of each run by the snapshot of each other one, by what it is predicted for."""
    table("predicted for", "pairs", "exact", "within the range", "outside", "not replayed", "lowest", "highest")
    outside = []
    for head in SETTINGS:
        cases = [(program, base) for program in programs for base in SETTINGS if base != head]
        all_found = pool.map(lambda one, head=head: predicted(runs.snapshot(*one), *asked(one[1], head)), cases)
        count: Counter[str] = Counter()
        errors = [0.0]
        for (program, base), found in zip(cases, all_found, strict=True):
            true, of = runs.figures(program, head)["reserved"], trial(found, base, head)
            if of is None:
                count["not"] += 1
                continue
            low, high = of["reserved_peak"]["low_bytes"], of["reserved_peak"]["high_bytes"]
            kind = "exact" if low == high == true else "within" if low <= true <= high else "outside"
            count[kind] += 1
            errors += [low / true - 1, high / true - 1]
            if kind == "outside":
                outside.append(f"{program}, from {base} to {head}: {low} to {high}, really {true}")
        figures = (len(cases), count["exact"], count["within"], count["outside"], count["not"])
        print(f"| {head} | {' | '.join(map(str, figures))} | {min(errors):+.1%} | {max(errors):+.1%} |")
    print(*outside, sep="\n")


def outcomes(runs: Runs, programs: list[str], pool: ThreadPoolExecutor) -> None:
    """What runs on small devices come to, by the snapshot of the run with the defaults and no limit."""
    table("setting", "runs", "right", "depends on addresses", "wrong", "not replayed", "failed")
    wrong = []
    limits = {one: runs.figures(one, "the defaults")["allocated"] for one in programs}
    for head in LIMITED:
        cases = [(program, int(limits[program] * factor)) for program in programs for factor in FACTORS]

        def found(case: tuple[str, int], head: str = head) -> dict[str, Any]:
            return predicted(
                runs.snapshot(case[0], "the defaults"), *asked("the defaults", head), "--memory", str(case[1])
            )

        count: Counter[str] = Counter()
        for (program, limit), said in zip(cases, pool.map(found, cases), strict=True):
            failed = runs.figures(program, head, limit)["failed"]
            count["failed"] += bool(failed)
            of = trial(said, "the defaults", head)
            if of is None or of["within_limit"] == "depends":
                count["depends" if of else "not"] += 1
                continue
            right = of["within_limit"] == ("fails" if failed else "completes")
            count["right" if right else "wrong"] += 1
            if not right:
                wrong.append(f"{program}, {head}, {limit} bytes: {of['within_limit']}; {failed or 'completed'}")
        figures = (len(cases), count["right"], count["depends"], count["wrong"], count["not"], count["failed"])
        print(f"| {head} | {' | '.join(map(str, figures))} |")
    print(*wrong, sep="\n")


def main() -> None:
    """Make the runs that are not there, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="where snapshots are kept")
    parser.add_argument("--programs", nargs="*", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument("--jobs", type=int, default=6, help="runs at a time")
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    runs, programs = Runs(given.runs), given.programs
    with ThreadPoolExecutor(given.jobs) as pool:

        def made(cases: Iterable[tuple[Any, ...]]) -> None:
            list(pool.map(lambda one: runs.snapshot(*one), cases))

        made(product(programs, SETTINGS))
        proofs(runs, programs, pool)
        peaks(runs, programs, pool)
        live = {one: runs.figures(one, "the defaults")["allocated"] for one in programs}
        made((program, setting, int(live[program] * factor)) for program, setting, factor in product(programs, LIMITED, FACTORS))  # fmt: skip
        outcomes(runs, programs, pool)


if __name__ == "__main__":
    main()
