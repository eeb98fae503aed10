#!/usr/bin/env python3
"""Time a second look at logs that were kept, as whole processes, cold start included, beside reading them.

See README.md beside this file.  Prints and judges; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.speed import (
    MB,
    ROOT,
    Log,
    Target,
    installed_memlens,
    interleaved,
    make_log,
    output_of,
    table,
    timed,
    wall,
)

#: What is asked of a log, each time beside the same without a cache.
QUESTIONS = {
    "analyze": ["analyze", "LOG"],
    "analyze --by": ["analyze", "LOG", "--by", r"START (SOT_CALL_\d+)"],
    "diff": ["diff", "LOG", "LOG"],
}


def measure(log: Log, memlens: list[str], repeat: int, question: str) -> None:
    """Time one question with and without a cache, and say whether the answers are the same."""
    words = [*memlens, *(str(log.path) if word == "LOG" else word for word in QUESTIONS[question])]
    with tempfile.TemporaryDirectory(dir=log.path.parent) as folder:
        kept = [*words, "--cache", folder]
        plain = output_of(words)
        first = timed(kept)
        same = "the same answers" if output_of(kept) == plain else "THE ANSWERS DIFFER"
        entries = sum(path.stat().st_size for path in Path(folder).iterdir())
        name = f"memlens {question}"
        times = interleaved({name: words, f"{name} --cache": kept}, repeat)
        print(f"\n{log.size / MB:,.0f} MB, {log.events:,} events: {same}; {entries / MB:,.0f} MB are kept")
        print(table({**times, f"{name} --cache, the first time": [first]}))
        seconds = wall(times, f"{name} --cache")
        print(f"  without / with a cache: {wall(times, name) / seconds:.1f} x")
        if question == "analyze" and 1000 * MB < log.size < 1100 * MB:
            print(Target("a second look at 1 GiB", seconds, 0.5, " s").row())


def main() -> None:
    """Make the logs, measure, print."""
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help=f"{', '.join(QUESTIONS)}; all of them by default")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[64, 1024], help="sizes in MiB (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of each command (%(default)s)")
    parser.add_argument(
        "--logs",
        type=Path,
        default=Path(tempfile.gettempdir()) / "memlens-benchmarks",
        help="folder for the logs, kept for the next run (%(default)s)",
    )
    parser.add_argument("--bench", type=Path, default=shared / "bench", help="folder of make_log.py (%(default)s)")
    parser.add_argument("--memlens", help="the command to measure; by default the one beside this interpreter")
    chosen = parser.parse_args()
    if unknown := set(chosen.what) - set(QUESTIONS):
        parser.error(f"nothing to measure called {', '.join(sorted(unknown))}")
    chosen.logs.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(chosen.logs).free < 3 * sum(chosen.megabytes) << 20:
        print(f"note: little room left in {chosen.logs}", file=sys.stderr)
    for megabytes in chosen.megabytes:
        log = make_log(chosen.bench / "make_log.py", chosen.logs, "dense", megabytes, ["--noise", "0"])
        timed(["cat", str(log.path)])  # into the page cache
        for question in chosen.what or QUESTIONS:
            measure(log, chosen.memlens.split() if chosen.memlens else installed_memlens(), chosen.repeat, question)


if __name__ == "__main__":
    main()
