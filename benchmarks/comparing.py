#!/usr/bin/env python3
"""Time the comparison of very many small logs, and look at the memory of all its processes while their number grows.

See README.md beside this file.  Makes its logs by itself in a folder that is gone afterwards.  Prints and judges; it never fails on
a slow machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MB = 1_000_000
RANKS = 8
SIZES = [256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 3538944, 7077888, 28311552]
NOISE = (
    "dygraph_functions.cc:94539] Running AD API: matmul",
    "kernel_factory.cc:210] kernel_key: (GPU, NCHW, float32), kernel: add_grad",
    "tensor_utils.cc:57] TensorCopy 8, 3, 384, 384 from Place(gpu:0) to Place(gpu:0)",
)


@dataclass(frozen=True)
class Measured:
    """One run of the command: seconds on the clock and on the processors, and the most memory of all its processes in bytes."""

    wall: float
    cpu: float
    together: int
    largest: int
    peaks: tuple[int, ...]


def lines_of(seed: int, noise: float, size: int) -> Iterator[str]:
    """The lines of a log of about ``size`` bytes, whose events and times are invented; same seed, same lines."""
    chance = random.Random(seed)  # noqa: S311  no secret
    now_us = written = 0
    address = 0x7F2B4C000000
    live: list[tuple[int, int]] = []
    idle: dict[int, list[int]] = {}
    while written < size:
        now_us += chance.randint(3, 90)
        seconds, fraction = divmod(now_us, 1_000_000)
        stamp = f"I0710 {seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d} 12345 "
        if noise and chance.random() < noise:
            line = f"{stamp}{chance.choice(NOISE)}\n"
        elif live and (chance.random() < 0.48 or len(live) > 4000):
            block, place = live.pop(chance.randrange(len(live)))
            idle.setdefault(block, []).append(place)
            line = f"{stamp}auto_growth_best_fit_allocator.cc:177] Free {block} bytes, ptr = {place:#x}\n"
        else:
            block = chance.choice(SIZES)
            if idle.get(block):
                place = idle[block].pop()
            else:
                place, address = address, address + block
            live.append((block, place))
            line = f"{stamp}auto_growth_best_fit_allocator.cc:169] Alloc {block} bytes, ptr = {place:#x}\n"
        written += len(line)
        yield line


def make_logs(folder: Path, count: int, megabytes: float, noise: float) -> str:
    """Make logs that differ, below a folder, and give the template that finds them."""
    different = ["".join(lines_of(seed, noise, round(megabytes * MB))) for seed in range(min(count, 16))]
    for number in range(count):
        step, rank = divmod(number, RANKS)
        log = folder / f"size{step // 2}" / ("develop", "pr")[step % 2] / f"workerlog.{rank}"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(different[number % len(different)])
    return f"{folder}/size{{size}}/{{branch}}/workerlog.{{rank}}"


def measure(template: str, jobs: int | None) -> Measured:
    """Run the command in a process of its own and look at all its processes every few milliseconds.

    Raises:
        SystemExit: The command failed.
    """
    command = [sys.executable, "-m", "memlens", "compare", template, "--format", "json"]
    command += [] if jobs is None else ["--jobs", str(jobs)]
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, start_new_session=True)
        together, watching = [0], threading.Event()

        def watch() -> None:
            while not watching.wait(0.02):
                together.append(sum(map(share_of, processes_of_session(process.pid))))

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)  # its children, which it has waited for, are counted in
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        watching.set()
        watcher.join()
        if process.returncode:
            sys.exit(f"{' '.join(command)} ended with {process.returncode}")
        output.seek(0)
        runs = json.load(output)["runs"]
    peaks = tuple(run["windows"][0]["peak_bytes"] for run in runs if run["windows"])  # a cell may have no log
    return Measured(wall, usage.ru_utime + usage.ru_stime, max(together), usage.ru_maxrss * 1024, peaks)


def processes_of_session(session: int) -> Iterator[Path]:
    """The folders in ``/proc`` of a session's processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):  # it may end while it is looked at
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                yield folder


def share_of(folder: Path) -> int:
    """The proportional share of memory, in bytes, of one process: what several share counts once."""
    with suppress(OSError):
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """Make logs, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000, help="how many (%(default)s)")
    parser.add_argument("--megabytes", type=float, default=1.0, help="size of each (%(default)s)")
    parser.add_argument("--noise", type=float, default=0.0, help="share of lines that are no events (%(default)s)")
    parser.add_argument("--jobs", type=int, help="processes; one a processor by default")
    parser.add_argument("--seconds", type=float, default=60, help="what it should take at most (%(default)s)")
    chosen = parser.parse_args()
    print(f"{chosen.logs} logs of {chosen.megabytes} MB, {os.cpu_count()} processors, Python {sys.version.split()[0]}")
    print(f"  {'logs':>6}{'wall s':>9}{'cpu s':>9}{'all processes MB':>18}{'largest MB':>12}")
    found = []
    for count in sorted({max(chosen.logs // 10, 1), max(chosen.logs // 2, 1), chosen.logs}):
        with tempfile.TemporaryDirectory() as folder:
            template = make_logs(Path(folder), count, chosen.megabytes, chosen.noise)
            one = measure(template, chosen.jobs)
        found.append(one)
        print(f"  {count:>6}{one.wall:>9.2f}{one.cpu:>9.2f}{one.together / MB:>18.1f}{one.largest / MB:>12.1f}")
        if len(one.peaks) != count or not all(one.peaks):
            print("  SOME RUN HAS NO FIGURE")
    met = "meets" if found[-1].wall <= chosen.seconds else "misses"
    print(f"  {chosen.logs} logs in at most {chosen.seconds:.0f} s: {met}")
    grown = found[-1].together / max(found[0].together, 1)
    print(
        f"  memory from the fewest logs to the most: x {grown:.2f}, flat is below 1.25: {'meets' if grown < 1.25 else 'misses'}"
    )


if __name__ == "__main__":
    main()
