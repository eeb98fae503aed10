#!/usr/bin/env python3
"""Record real Paddle programs, good and with regressions, and see what ``memlens gate``, ``diff`` and ``analyze`` make of them.

    MEMLENS_PADDLE=PADDLE_ENV/bin/python python benchmarks/programs.py --logs FOLDER

Needs an environment with paddlepaddle, g++, and the shared folder, whose host-memory device is built first.  Runs that FOLDER
has already are judged and not recorded anew.  The programs and regressions are those of ``trainers.py``; what is true of a
run is read from its lines and from Paddle's own counters, without memlens (``tests/support/program_judge.py``).  Prints a
table, and below it each verdict that is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import memlens

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from program_judge import DIFFERENCES, Pair, Run, first_sentences, record_program, regressions  # noqa: E402
from real_paddle import RealPaddle, pythons  # noqa: E402

COLUMNS = (
    "good runs pass, one accepted",
    "three accepted",
    "regressions fail",
    "named by diff",
    "in three sentences",
    "no difference between good runs",
    "growth told right",
)


def record(folder: Path, shared: Path, runs: int, only: list[str], jobs: int) -> None:
    """Record what a folder lacks: so many good runs of each program, and one with each regression."""
    wanted = [(one, "", f"{one}_good_{number}") for number in range(1, runs + 1) for one in only]
    wanted += [(program, bad, f"{program}_{bad}") for program, bad in regressions() if program in only]
    lacking = [one for one in wanted if not (folder / f"{one[2]}.json").exists()]
    if not lacking:
        return
    if not pythons():
        sys.exit("MEMLENS_PADDLE names no interpreter that has paddlepaddle")
    paddle = RealPaddle.build(pythons()[0], shared, folder / "device")
    with ThreadPoolExecutor(jobs) as pool:
        for one in pool.map(lambda one: record_program(paddle, folder / f"{one[2]}.log", one[0], one[1]), lacking):
            print(f"recorded {one.log.name}", file=sys.stderr)


class Tally:
    """How often each program's verdicts are right, by column, and those that are not."""

    def __init__(self) -> None:
        self.right: dict[tuple[str, str], list[bool]] = defaultdict(list)
        self.wrong: list[str] = []

    def add(self, program: str, column: str, right: bool, what: str, verdict: str) -> None:
        self.right[program, column].append(right)
        if not right:
            self.wrong.append(f"{column}: {what}\n    {verdict}")

    def show(self, programs: list[str]) -> None:
        print(f"| program | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}")
        for name, among in (*((one, [one]) for one in programs), ("**all**", programs)):
            cells = []
            for column in COLUMNS:
                found = [one for program in among for one in self.right[program, column]]
                cells.append(f"{sum(found)} of {len(found)}" if found else "")
            print(f"| {name} | {' | '.join(cells)} |")
        for one in self.wrong:
            print(f"\n{one}")


def judge(program: str, good: list[Run], bad: dict[str, Pair], tally: Tally) -> None:
    """Judge the runs of one program."""
    with TemporaryDirectory() as name:
        for count, column in ((1, COLUMNS[0]), (3, COLUMNS[1])):
            baseline = Path(name) / f"{count}.json"
            memlens.accept([one.log for one in good[:count]], baseline)
            for run in good[count:]:
                verdict = memlens.gate(run.log, baseline=baseline)
                tally.add(program, column, verdict.verdict == "pass", run.log.name, verdict.explanation)
            for regression, pair in bad.items():
                verdict = memlens.gate(pair.bad.log, baseline=baseline)
                if pair.must_fail:
                    what = (
                        f"{program} {regression}, base of {count}: peak {pair.d_peak:+,} B, gained {pair.gained:+,} B"
                    )
                    tally.add(program, COLUMNS[2], verdict.verdict == "regression", what, verdict.explanation)
    for regression, pair in bad.items():
        diff = memlens.diff(pair.good.log, pair.bad.log).to_dict()
        what = f"{program} {regression} ({pair.kind}, {' '.join(pair.spans)}; peak {pair.d_peak:+,} B)"
        for claims, column in (
            (diff["claims"], COLUMNS[3]),
            (first_sentences(diff["verdict"], diff["claims"]), COLUMNS[4]),
        ):
            faults = pair.faults(claims)
            tally.add(program, column, not faults, f"{what}: {'; '.join(faults)}", diff["verdict"])
    for base, head in pairwise(good):
        diff = memlens.diff(base.log, head.log).to_dict()
        differ = sorted({one["kind"] for one in diff["claims"]} & DIFFERENCES)
        tally.add(
            program, COLUMNS[5], not differ, f"{base.log.name} {head.log.name}: {', '.join(differ)}", diff["verdict"]
        )
    for run in (*good, *(pair.bad for pair in bad.values())):
        found = memlens.analyze(run.log)
        said = {one.kind for one in found.claims}
        right = "not_growing" not in said if run.rises else not said & {"growing", "rose", "piling_up"}
        tally.add(program, COLUMNS[6], right, f"{run.log.name}: levels {run.ends}", found.verdict)


def main() -> None:
    """Record, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    programs = list(dict.fromkeys(program for program, _ in regressions()))
    parser.add_argument("--logs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--runs", type=int, default=15, help="good runs of each program (%(default)s)")
    parser.add_argument("--only", nargs="*", choices=programs, default=programs, help="these programs alone")
    parser.add_argument("--jobs", type=int, default=2, help="runs that are recorded at once (%(default)s)")
    parser.add_argument("--shared", type=Path, default=shared, help="the shared folder (%(default)s)")
    given = parser.parse_args()
    given.logs.mkdir(parents=True, exist_ok=True)
    record(given.logs, given.shared, given.runs, given.only, given.jobs)
    tally = Tally()
    for program in given.only:
        good = [Run(given.logs / f"{program}_good_{number}.log") for number in range(1, given.runs + 1)]
        bad = {
            name: Pair(good[0], Run(given.logs / f"{program}_{name}.log"), kind, spans)
            for (one, name), (kind, spans) in regressions().items()
            if one == program
        }
        judge(program, good, bad, tally)
    tally.show(given.only)


if __name__ == "__main__":
    main()
