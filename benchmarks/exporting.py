#!/usr/bin/env python3
"""How long each form of ``memlens export`` takes, how much memory, and how large its file is.

See README.md beside this file.  Prints a table; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
#: Events in a MiB of a dense log of ``make_log.py``.
DENSITY = 9_812
FORMS = ("parquet", "csv", "jsonl", "perfetto", "speedscope")


def run(command: Sequence[str]) -> tuple[float, float, int]:
    """Run a command to its end: seconds on the clock and of the processors, and its peak memory in bytes."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} gave {process.returncode}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def row(name: str, command: Sequence[str], out: Path | None, repeat: int) -> str:
    """A line of the table: medians of some runs after one that warms the caches."""
    runs = [run(command) for _ in range(repeat + 1)][1:]
    wall, work, peak = (median(column) for column in zip(*runs, strict=True))
    size = "" if out is None else f"{out.stat().st_size / 1e6:.2f} MB"
    return f"| {name} | {wall:.1f} s | {work:.1f} s | {peak / 1e6:.0f} MB | {size} |"


def main() -> int:
    """Measure as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser.add_argument("--events", type=int, default=1_000_000, help="events of the log (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (%(default)s)")
    parser.add_argument("--bench", type=Path, default=shared / "bench", help="the folder that has make_log.py")
    parser.add_argument("--snapshot", type=Path, default=shared / "data/torch/snapshots/medium_512_training.pickle")
    given = parser.parse_args()
    memlens = [sys.executable, "-m", "memlens"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, events = folder / "run.log", folder / "run.parquet"
        megabytes = max(round(given.events / DENSITY), 1)
        run([sys.executable, str(given.bench / "make_log.py"), str(log), str(megabytes)])
        print("| | wall | processor | peak memory | file |\n|---|---|---|---|---|")
        for form in FORMS:
            out = folder / f"run.{form}"
            command = [*memlens, "export", str(log), "--to", form, "-o", str(out), "-f", "-q"]
            print(row(f"`--to {form}`", command, out, given.repeat), flush=True)
            if form == "parquet":
                lives = folder / "lives.parquet"
                command = [*command[:-3], str(lives), "--table", "lifetimes", "-f", "-q"]
                print(row("`--to parquet --table lifetimes`", command, lives, given.repeat), flush=True)
        out = folder / "snapshot.speedscope"
        command = [*memlens, "export", str(given.snapshot), "--to", "speedscope", "-o", str(out), "-f", "-q"]
        print(row("`--to speedscope`, a snapshot with call stacks", command, out, given.repeat), flush=True)
        print(row("`memlens analyze run.log`", [*memlens, "analyze", str(log)], log, given.repeat), flush=True)
        print(row("`memlens analyze events.parquet`", [*memlens, "analyze", str(events)], events, given.repeat))
    return 0


if __name__ == "__main__":
    sys.exit(main())
