#!/usr/bin/env python3
"""One log that is larger than memory: what each verb takes for it, beside merely reading it, and whether its figures are those of arithmetic.

See README.md beside this file.  The log is made of an example again and again (``large_log.py``), a leak and one higher step among them.  Each
command is a process of its own, of which the seconds on the clock and on the processors and the peak memory (without mapped pages) are printed.  Exits 1 where a figure is
wrong; it judges no time.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from memlens.text import parse_bytes
from speed import ENVIRONMENT, MB  # type: ignore[import-not-found]  # beside this script

ROOT = Path(__file__).resolve().parents[1]
EVENT = "(Alloc|Free) [0-9]+ bytes, ptr = 0x[0-9a-f]+"
BY = r"^START (STEP_\d+)"
LEAK = 512


@dataclass(frozen=True)
class Cost:
    """What a process took: seconds on the clock and on the processors, the most memory of its own in bytes, and its exit code."""

    wall: float
    cpu: float
    peak: int
    code: int


def watch(process: int, own: list[int]) -> None:
    """Note the memory of a process again and again, without mapped pages of files, which the system may take back; by Linux alone."""
    try:
        while True:
            status = Path(f"/proc/{process}/status").read_text()
            own += (1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
            time.sleep(0.02)
    except OSError:  # it has ended
        return


def run(command: Sequence[str | Path]) -> Cost:
    """Run a command to its end."""
    began = time.monotonic()
    # Into a pipe: grep stops at its first match where nobody reads what it says.
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, env=ENVIRONMENT)
    assert process.stdout is not None
    own: list[int] = []
    Thread(target=watch, args=(process.pid, own), daemon=True).start()
    with process.stdout as said:
        while said.read(1 << 20):
            pass
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak = max(own, default=used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime, peak, process.returncode)


def make(log: Path, size: int, windows: int) -> dict[str, Any]:
    """Write the log, unless it is there, of so many repetitions, each of as many lines of the example as it has room for."""
    said, packed = log.with_suffix(".json"), log.with_suffix(".log.zst")
    if not (log.exists() and packed.exists() and said.exists()):
        lines = gzip.decompress((ROOT / "examples/logs/cnn_5steps.log.gz").read_bytes()).splitlines(keepends=True)
        room, used = size // windows, 0
        piece = log.with_suffix(".piece")
        with piece.open("wb") as out:
            for line in lines:
                used += len(line)
                if used > room:
                    break
                out.write(line)
        options = [
            "--repetitions",
            str(windows),
            "--leak",
            f"{LEAK}B",
            "--higher-at",
            str(windows // 3),
            "--higher-by",
            "300MiB",
        ]
        for to in (packed, log):
            command = [sys.executable, *map(str, (ROOT / "benchmarks/large_log.py", piece, to)), *options]
            began = time.monotonic()
            said.write_bytes(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            print(f"{to} made in {time.monotonic() - began:.0f} s", file=sys.stderr)
    found: dict[str, Any] = json.loads(said.read_text())
    return found


def whole_figures(out: Path) -> dict[str, Any]:
    """What ``analyze`` says of a whole log in JSON, by the names of ``large_log.py``."""
    (log,) = json.loads(out.read_text())["logs"]
    (window,) = log["windows"]
    trust, peak, stats = log["trust"], window["peak"], window["stats"]
    return {
        **{name: trust[name] for name in ("lines", "allocs", "frees", "reserves", "releases")},
        **{name: stats[name] for name in ("alloc_bytes", "free_bytes")},
        "peak_bytes": peak["peak_bytes"],
        "peak_line": peak["line"],
        "reserved_peak_bytes": peak["reserved_peak_bytes"],
        "live_bytes": window["remaining"]["live_bytes"],
    }


def rows_of(out: Path) -> Iterator[dict[str, Any]]:
    """The windows of an output in CSV or JSON, in the columns of CSV."""
    with out.open(newline="") as lines:
        if lines.read(1) != "{":
            lines.seek(0)
            yield from csv.DictReader(lines)
            return
    for window in json.loads(out.read_text())["logs"][0]["windows"]:
        yield {"name": window["name"], **window["peak"], **window["remaining"]}


def window_figures(out: Path) -> dict[str, Any]:
    """What ``analyze --by`` says in CSV or JSON, by the same names."""
    windows = level = peak = peak_at = 0
    left: set[int] = set()
    for row in rows_of(out):
        assert row["name"] == f"STEP_{windows}", row
        if int(row["peak_bytes"]) > peak:
            peak, peak_at = int(row["peak_bytes"]), windows
        left.add(int(row["remaining_bytes"]))
        level = int(row["live_bytes"])
        windows += 1
    (remaining,) = left
    return {
        "windows": windows,
        "peak_bytes": peak,
        "peak_repetition": peak_at,
        "live_bytes": level,
        "remaining_bytes_per_repetition": remaining,
    }


def wrong(figures: dict[str, Any], holds: dict[str, Any]) -> list[str]:
    """Which figures are not those of arithmetic, in words."""
    return [f"{name}: {value}, not {holds[name]}" for name, value in figures.items() if value != holds[name]]


def main() -> int:
    """Measure as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=parse_bytes, default=20_000 * MB, help="bytes of the log, uncompressed (20GB)")
    parser.add_argument("--windows", type=int, default=100_000, help="steps in it (%(default)s)")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(tempfile.gettempdir()) / "memlens-scale",
        help="where the log is made and kept",
    )
    parser.add_argument("--memlens", default=shutil.which("memlens") or "memlens", help="the program to measure")
    parser.add_argument("--only", help="commands whose names hold this")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    log = given.folder / f"large-{given.size // MB}-{given.windows}.log"
    holds = make(log, given.size, given.windows)
    packed, again = log.with_suffix(".log.zst"), given.folder / "again.log"
    again.unlink(missing_ok=True)
    again.symlink_to(log)  # another name: compared with itself, without the room for a second one
    baseline, out = given.folder / "baseline.json", given.folder / "out"
    memlens, to = given.memlens, ("-f", "-q", "-o", str(out))
    commands: dict[str, tuple[Sequence[str | Path], int]] = {
        "cat": (["cat", log], 1),
        "grep -cE": (["grep", "-cE", EVENT, log], 1),
        "zstd -dc": (["zstd", "-dcq", packed], 1),
        "analyze": ([memlens, "analyze", log, "--whole", "--format", "json", *to], 1),
        "analyze, its steps found": ([memlens, "analyze", log, "--format", "json", *to], 1),
        "analyze --by, table": ([memlens, "analyze", log, "--by", BY, *to], 1),
        "analyze --by, CSV": ([memlens, "analyze", log, "--by", BY, "--format", "csv", *to], 1),
        "analyze --by, JSON": ([memlens, "analyze", log, "--by", BY, "--format", "json", *to], 1),
        "analyze .zst": ([memlens, "analyze", packed, "--whole", "--format", "json", *to], 1),
        "gate --accept": ([memlens, "gate", log, "--baseline", baseline, "--by", BY, "--accept", "-f", "-q"], 1),
        "gate": ([memlens, "gate", log, "--baseline", baseline, "-q"], 1),
        "compare": ([memlens, "compare", log, again, "--format", "json", *to], 2),
    }
    gigabytes, plain, mistakes = holds["bytes"] / 1e9, 0.0, []
    print(
        f"{gigabytes:.1f} GB, {holds['lines']:,} lines, {holds['allocs'] + holds['frees']:,} block events, {holds['windows']:,} steps\n"
    )
    print("| | wall | GB/s | processors | peak memory | beside `cat` |\n|---|---|---|---|---|---|")
    for name, (command, times) in commands.items():
        if given.only and given.only not in name:
            continue
        out.unlink(missing_ok=True)
        cost = run(command)
        plain = plain or cost.wall
        rate, memory = times * gigabytes / cost.wall, f"{cost.peak / MB:,.0f} MB"
        print(
            f"| {name} | {cost.wall:.1f} s | {rate:.2f} | {cost.cpu:.1f} s | {memory} | {cost.wall / plain / times:.1f} × |",
            flush=True,
        )
        if cost.code:
            mistakes.append(f"{name}: exit code {cost.code}")
        elif name.endswith("table"):
            shown = f"{holds['windows']:,} windows" in out.read_text()
            mistakes += [] if shown else [f"{name}: it does not say how many windows there are"]
        elif "steps" not in name and name.startswith("analyze"):
            # By another process: what this one has in memory counts for those that it starts.
            with ProcessPoolExecutor(1) as other:
                figures = other.submit(window_figures if "--by" in name else whole_figures, out).result()
            mistakes += [f"{name}: {words}" for words in wrong(figures, holds)]
        elif name == "compare":
            peaks = {one["windows"][0]["peak_bytes"] for one in json.loads(out.read_text())["runs"]}
            mistakes += [] if peaks == {holds["peak_bytes"]} else [f"compare: peaks {peaks}"]
    print("\n" + ("\n".join(mistakes) or "every figure is that of arithmetic"))
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
