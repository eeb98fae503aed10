#!/usr/bin/env python3
"""Predict what real runs of Paddle under one setting of their allocator do under another one, and see what they do.

See README.md beside this file.  Makes the runs that are not there yet, a log and its figures each, and prints two tables: the reserved peak for each ordered
pair of settings, and the outcome under limits.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import memlens
from memlens.allocators.engine import replay
from memlens.allocators.history import NotReplayable, RequestHistory
from memlens.allocators.paddle.auto_growth import AUTO_GROWTH
from memlens.allocators.paddle.history import COLUMNS
from memlens.allocators.placing import Addresses, Placement

if TYPE_CHECKING:
    from memlens.allocators.models import Values

CHUNK, IDLE, MISS = "FLAGS_auto_growth_chunk_size_in_mb", "FLAGS_free_idle_chunk", "FLAGS_free_when_no_cache_hit"
POOL, SMALL, LARGE = (
    "FLAGS_small_pool_size_in_mb",
    "FLAGS_small_pool_auto_growth_chunk_size_in_mb",
    "FLAGS_large_pool_auto_growth_chunk_size_in_mb",
)
#: The environment of each setting.
SETTINGS: dict[str, dict[str, str]] = {
    "default": {},
    "chunks of 4 MB": {CHUNK: "4"},
    "chunks of 16 MB": {CHUNK: "16"},
    "chunks of 64 MB": {CHUNK: "64"},
    "idle chunks freed": {IDLE: "1"},
    "freed on a miss": {MISS: "1"},
    "4 MB, idle freed": {CHUNK: "4", IDLE: "1"},
    "4 MB, freed on a miss": {CHUNK: "4", MISS: "1"},
    "padding of 32 bytes": {"HOSTDEV_PADDING": "32"},
    "two pools": {POOL: "1"},
    "two pools, 2 and 16 MB": {POOL: "1", SMALL: "2", LARGE: "16"},
    "two pools, in advance": {
        POOL: "1",
        SMALL: "2",
        LARGE: "8",
        "FLAGS_small_pool_pre_alloc_in_mb": "4",
        "FLAGS_large_pool_pre_alloc_in_mb": "16",
    },
}
#: Settings that older releases have, too.
OLD = tuple(name for name in SETTINGS if "pools" not in name)
#: Settings that are run under limits, and how many MiB these are above the most bytes live at once.
LIMITED = (
    "default",
    "chunks of 4 MB",
    "chunks of 16 MB",
    "idle chunks freed",
    "freed on a miss",
    "two pools, 2 and 16 MB",
)
ABOVE = (0, 1, 2, 3, 5, 8, 14)
PROGRAMS = {
    "cnn": "--model cnn --steps 5 --batch 32",
    "cnn, batch grows": "--model cnn --steps 12 --batch 4 --grow 4",
    "cnn, graph breaks": "--mode sot --model cnn_breaks --steps 4 --batch 32",
    "transformer": "--model transformer --steps 5 --batch 16",
    "transformer, batch grows": "--model transformer --steps 10 --batch 2 --grow 2 --seq 64",
    "transformer, threads": "--mode parts --model transformer --steps 5 --batch 16",
    "cnn, graphs kept": "--model cnn --steps 8 --batch 16 --leak-graph",
}
#: Programs whose executor may run on several threads: the order of their requests differs from run to run.
THREADED = frozenset({"transformer, threads"})
PLACEMENTS = (
    *(Addresses(one) for one in (Placement.RECORDED, Placement.ASCENDING, Placement.DESCENDING, Placement.REUSE)),
    *(Addresses(Placement.SHUFFLED, seed) for seed in range(1, 5)),
)


@dataclass
class Runs:
    """Real runs, made where they are not there yet.

    Attributes:
        paddle: The interpreter.
        device: The folder of its device.
        program: The program.
        folder: Where logs and figures are kept.
    """

    paddle: Path
    device: Path
    program: Path
    folder: Path
    _known: dict[str, tuple[RequestHistory, Values]] = field(default_factory=dict)

    def run(self, program: str, setting: str, limit: int | None = None) -> Path:
        """The log of a run."""
        name = f"{program}, {setting}" + ("" if limit is None else f", {limit} MB")
        log = self.folder / f"{name}.log"
        if not log.exists():
            environment = {
                **os.environ,
                "CUSTOM_DEVICE_ROOT": str(self.device),
                "GLOG_vmodule": "auto_g*=10",
                "FLAGS_new_executor_sequential_run": "false" if program in THREADED else "true",
                "MIN_GRAPH_SIZE": "0",
                **SETTINGS[setting],
            }
            if limit is not None:
                environment["HOSTDEV_CAPACITY_MB"] = str(limit)
            figures = ["--stats", str(log.with_suffix(".json"))]
            command = [str(self.paddle), str(self.program), *PROGRAMS[program].split(), *figures]
            part = log.with_suffix(".part")
            with part.open("wb") as out:
                subprocess.run(command, env=environment, stdout=out, stderr=subprocess.STDOUT, timeout=300, check=False)
            part.rename(log)
        return log

    def figures(self, program: str, setting: str) -> dict[str, int]:
        """What the device counted itself."""
        found: dict[str, int] = json.loads(self.run(program, setting).with_suffix(".json").read_text())
        return found

    def known(self, program: str, setting: str, limit: int | None = None) -> tuple[RequestHistory, Values] | None:
        """What a run asked for, and its settings; ``None`` where it had nothing at all."""
        log = self.run(program, setting, limit)
        if log.name not in self._known:
            try:
                history = AUTO_GROWTH.history(memlens.read(log, columns=COLUMNS))
            except memlens.NoEventsError:
                return None
            if history is None or isinstance(history, NotReplayable):
                sys.exit(f"{log}: {history}")
            self._known[log.name] = history, AUTO_GROWTH.recorded(history)
        return self._known[log.name]


def peaks(runs: Runs, programs: list[str], settings: list[str]) -> None:
    """The reserved peak of each run by the log of each other one, by what it is predicted for."""
    print(
        "\n| predicted for | pairs | exact | within the range | outside | lowest | highest |\n|---|---|---|---|---|---|---|"
    )
    total: dict[str, int] = defaultdict(int)
    for head in settings:
        count: dict[str, int] = defaultdict(int)
        errors = []
        for program, base in ((program, base) for program in programs for base in settings if base != head):
            known, values = runs.known(program, base), runs.known(program, head)
            assert known is not None
            assert values is not None
            true = runs.figures(program, head)["hostdev_peak"]
            rules = AUTO_GROWTH.rules(known[0], values[1])
            found = [replay(known[0], rules, addresses=one).reserved_peak for one in PLACEMENTS]
            low, high = min(found), max(found)
            count["exact" if low == high == true else "within" if low <= true <= high else "outside"] += 1
            errors += [low / true - 1, high / true - 1]
        pairs = sum(count.values())
        for name, number in count.items():
            total[name] += number
        print(
            f"| {head} | {pairs} | {count['exact']} | {count['within']} | {count['outside']} | {min(errors):+.1%} | {max(errors):+.1%} |"
        )
    print(f"| all | {sum(total.values())} | {total['exact']} | {total['within']} | {total['outside']} | | |")


def outcomes(runs: Runs, programs: list[str], settings: list[str]) -> None:
    """What a run comes to under limits, by the log of the run with the defaults and no limit."""
    print(
        "\n| setting | runs | right | depends on addresses | wrong | failed | failed at the request predicted |\n|---|---|---|---|---|---|---|"
    )
    wrong = []
    for setting in settings:
        count: dict[str, int] = defaultdict(int)
        for program in programs:
            known = runs.known(program, "default")
            assert known is not None
            history = known[0]
            least = math.ceil(runs.figures(program, "default")["allocated_peak"] / (1 << 20))
            values = runs.known(program, setting)
            assert values is not None
            rules = AUTO_GROWTH.rules(history, values[1])
            for limit in (least + above for above in ABOVE):
                real = runs.known(program, setting, limit)
                failed = -1  # the number of the request, in the order of the requests
                if real is None:
                    failed = 0
                elif len(real[0].failed):
                    failed = int((real[0].operation[: real[0].failed[0]] == 0).sum())
                found = set()
                for one in PLACEMENTS:
                    at = replay(history, rules, addresses=one, limit=limit << 20).failed
                    found.add(-1 if at < 0 else int((history.operation[:at] == 0).sum()))
                completes = {at < 0 for at in found}
                count["runs"] += 1
                count["failed"] += failed >= 0
                count["same request"] += failed >= 0 and found == {failed}
                if len(completes) > 1:
                    count["depends"] += 1
                elif completes == {failed < 0}:
                    count["right"] += 1
                else:
                    count["wrong"] += 1
                    wrong.append(f"{program}, {setting}, {limit} MB: {'completed' if failed < 0 else 'failed'}")
        print(
            "| "
            + " | ".join(
                (
                    setting,
                    *(str(count[name]) for name in ("runs", "right", "depends", "wrong", "failed", "same request")),
                )
            )
            + " |"
        )
    print("\n".join(wrong))


def main() -> None:
    """Make what is not there, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paddle", type=Path, required=True, help="an interpreter that has paddlepaddle")
    parser.add_argument(
        "--device",
        type=Path,
        required=True,
        help="the folder of a custom device built for it, whose memory is the host's",
    )
    parser.add_argument("--program", type=Path, required=True, help="the training program that comes with the device")
    parser.add_argument("--runs", type=Path, required=True, help="where logs are kept")
    parser.add_argument("--programs", nargs="*", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument("--old", action="store_true", help="a release before 3.3, which has no pools")
    given = parser.parse_args()
    given.runs.mkdir(parents=True, exist_ok=True)
    runs = Runs(given.paddle, given.device, given.program, given.runs)
    settings = list(OLD if given.old else SETTINGS)
    peaks(runs, given.programs, settings)
    outcomes(runs, given.programs, [name for name in LIMITED if name in settings])


if __name__ == "__main__":
    main()
