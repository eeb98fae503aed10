#!/usr/bin/env python3
"""Logs of shapes that nobody wants: what `memlens analyze` takes for each, in time and memory, beside a dense log of the same size.

See README.md beside this file.  Each log holds as many events as lines allow, but is a failure message an event, sizes that are all different and
never freed, an anchor an event, addresses that are allocated twice, or lines that hardly end, compressed to almost nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import zstandard

from scale import MB, Cost, run  # type: ignore[import-not-found]  # beside this script

ROOT = Path(__file__).resolve().parents[1]
#: Times and memory of dense that a shape may take.
MOST = 3.0
#: The shapes of which each line is made by a function of its number: an event, and what stands beside it.
SHAPES: dict[str, Callable[[int], str]] = {
    "a failure an event": lambda k: _alloc(k, 512 * (k % 4093 + 1)) + _FAILED.format(size=k % 99_991 / 7),
    "sizes all different": lambda k: _alloc(k, 256 * (k + 1)),
    "an anchor an event": lambda k: f"START SOT_CALL_{k}\n" + _alloc(k // 2, 4096, free=k % 2 == 1),
    "allocated twice": lambda k: _alloc(k // 2 * 48_271 % 65_536_007, 4096, thread=12345 + k % 2),
}
_FAILED = (
    "Out of memory error on GPU 0. Cannot allocate {size:.6f}MB memory on GPU 0, 6.000000GB memory has been allocated and available"
    " memory is only 72.312500MB.\n"
)
#: A line of gigabytes: so many times as large as the other logs, in so many lines.
_LONGER, _LONG_LINES = 8, 4


def _alloc(block: int, size: int, *, free: bool = False, thread: int = 12345) -> str:
    """The line of an ALLOC, or of its FREE."""
    what, line = ("Free", 177) if free else ("Alloc", 169)
    seconds = block // 20_000
    stamp = f"I0710 {seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{block % 20_000 * 50:06d} {thread}"
    address = 0x7F2B4C000000 + (block << 12)
    return f"{stamp} auto_growth_best_fit_allocator.cc:{line}] {what} {size} bytes, ptr = {address:#x}\n"


def lines_of(shape: Callable[[int], str], size: int) -> Iterator[str]:
    """The text of a shape, in pieces, up to a size."""
    numbers = iter(range(sys.maxsize))
    while size > 0:
        yield (text := "".join(map(shape, islice(numbers, 10_000))))
        size -= len(text)


def long_lines(path: Path, size: int) -> None:
    """Write lines that are far larger than any buffer, with an event after each, compressed."""
    pieces = size // _LONG_LINES >> 20
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as packed:
        for k in range(_LONG_LINES):
            for _ in range(pieces):
                packed.write(b"x" * (1 << 20))
            packed.write(f"\n{_alloc(k, 4096)}".encode())


def made(folder: Path, maker: Path, megabytes: int) -> dict[str, Path]:
    """The logs by their names, the dense one first; each is made once."""
    logs = {name: folder / f"{name.replace(' ', '-')}-{megabytes}.log" for name in ("dense", *SHAPES)}
    logs["lines of gigabytes"] = long = folder / f"long-lines-{megabytes * _LONGER}.log.zst"
    if not logs["dense"].exists():
        subprocess.run([sys.executable, maker, logs["dense"], str(megabytes)], check=True, stdout=subprocess.DEVNULL)
    for name, shape in SHAPES.items():
        if not logs[name].exists():
            with logs[name].open("w") as file:
                file.writelines(lines_of(shape, megabytes << 20))
    if not long.exists():
        long_lines(long, megabytes * _LONGER << 20)
    return logs


def row(name: str, cost: Cost, dense: Cost) -> str:
    """A line of the table."""
    time, memory = cost.cpu / dense.cpu, cost.peak / dense.peak
    return (
        f"  {name:<34}{cost.cpu:>8.2f}{cost.wall:>8.2f}{cost.peak / MB:>10.1f}{time:>10.2f}{memory:>10.2f}"
        f"  {'meets' if max(time, memory) <= MOST else 'misses'}"
    )


def main() -> int:
    """Make the logs, measure, print."""
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=256, help="size of each log in MiB (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each command (%(default)s)")
    parser.add_argument("--only", help="shapes whose name has this in it")
    parser.add_argument("--format", dest="forms", nargs="+", default=["table", "json"], help="(table and json)")
    parser.add_argument("--bench", type=Path, default=shared / "bench", help="folder of make_log.py (%(default)s)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "memlens-benchmarks",
        help="folder for the logs, kept for the next run (%(default)s)",
    )
    chosen = parser.parse_args()
    chosen.cache.mkdir(parents=True, exist_ok=True)
    logs = made(chosen.cache, chosen.bench / "make_log.py", chosen.megabytes)
    missed = False
    for form in chosen.forms:
        print(f"  {f'analyze --format {form}':<34}{'cpu s':>8}{'wall s':>8}{'peak MB':>10}{'cpu':>10}{'peak':>10}")
        names = [name for name in logs if name == "dense" or (chosen.only or "") in name]
        costs: dict[str, list[Cost]] = {name: [] for name in names}
        for _ in range(chosen.repeat):  # all of them once before any of them again: a slow minute hits all alike
            for name in names:
                costs[name].append(run([sys.executable, "-m", "memlens", "analyze", logs[name], "--format", form]))
        typical = {
            name: Cost(
                median(cost.wall for cost in runs),
                median(cost.cpu for cost in runs),
                max(cost.peak for cost in runs),
                max(cost.code for cost in runs),
            )
            for name, runs in costs.items()
        }
        for name, cost in typical.items():
            print(row(name, cost, typical["dense"]), flush=True)
            missed |= cost.code != 0
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
