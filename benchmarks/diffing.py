#!/usr/bin/env python3
"""Time the comparison of two runs: long windows, very many windows, and the worst that can be made up.

See README.md beside this file.  Each case runs in a process of its own, whose peak memory is what the table gives.  Beside the
cost of the alignment stand what no alignment can cost less than (the blocks without their order) and what the edits that made
head from base cost at most.  Prints and judges; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memlens import read
from memlens.diffing.run import diff, diff_windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.diffing.result import WindowDiff
    from memlens.windows.windows import Window

ROOT = Path(__file__).resolve().parents[1]
# The made-up logs and the exact program are what the tests use, too
sys.path.insert(0, str(ROOT / "tests" / "support"))

from long_logs import (  # noqa: E402
    NAMES,
    SIZES,
    Columns,
    cheapest_cost,
    cut,
    edited,
    fates,
    half_freed,
    least_cost,
    random_fates,
    repeated,
)

MB = 1_000_000

#: Base, head, and the number of events in each window; 0 for one window.
Made = tuple[Columns, Columns, int]
#: Makes a case from a source of chance and the number of events.
Maker = Callable[[np.random.Generator, int], Made]

# --- what comparing costs at most ---------------------------------------------------------------------------------------


def cost_of_edits(base: Window, head: Window, origin: NDArray[np.int64]) -> float:
    """Bytes that the alignment costs which pairs each block with the one that it was made from, but for those that cross.

    Args:
        base: The window that head was made from.
        head: The window that was made.
        origin: For each event of head's log the event of base's that it was, -1 where it is new.
    """
    (events, size, held), (right, right_size, right_held) = fates(base), fates(head)
    unpaired = float((size * (1 + held)).sum() + (right_size * (1 + right_held)).sum()) / 2
    at = np.searchsorted(events, origin[right])
    old = np.flatnonzero(np.append(events, -2)[at] == origin[right])
    at = at[old]
    forward = at > np.concatenate(([-1], np.maximum.accumulate(at)[:-1]))
    old, at = old[forward], at[forward]
    apart = held[at] != right_held[old]
    saved = np.where(apart, 0.5, 1.0 + held[at]) * size[at]
    return unpaired - float(saved.sum())


# --- the cases -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Something to compare, and how long that may take.

    Attributes:
        words: What it is.
        events: On each side.
        seconds: At most so many are allowed …
        make: Makes the two logs.
        megabytes: … and so much memory; ``None`` is no limit.
    """

    words: str
    events: int
    seconds: float
    make: Maker
    megabytes: float | None = None


def real(name: str, shared: Path, each: int = 0) -> Maker:
    """A real log again and again, against an edited copy."""

    def make(chance: np.random.Generator, events: int) -> Made:
        base = repeated(read(shared / "data" / "paddle" / name), events)
        return base, edited(base, 0.05, chance), each

    return make


def made_up(chance: np.random.Generator, events: int) -> Made:
    """Random sizes against an edited copy."""
    base = random_fates(chance.choice(SIZES, events), events, chance)
    return base, edited(base, 0.05, chance), 0


def unlike(sizes: Sequence[int], each: int = 0) -> Maker:
    """Two runs that share nothing but the sizes that they draw from."""

    def make(chance: np.random.Generator, events: int) -> Made:
        base, head = (random_fates(chance.choice(np.array(sizes), events), events, chance) for _ in range(2))
        return base, head, each

    return make


def half_held(chance: np.random.Generator, events: int) -> Made:
    """One size, and every second block held, at random."""
    base, head = (
        half_freed(random_fates(np.full(2 * events, 512), 2 * events, chance), events, chance) for _ in range(2)
    )
    return base, head, 0


def nothing_in_common(chance: np.random.Generator, events: int) -> Made:
    """No size of one run is a size of the other."""
    base, head = (random_fates(chance.integers(1, 5000, events) * 512 + odd, events, chance) for odd in (0, 256))
    return base, head, 0


def another_order(sizes: Sequence[int]) -> Maker:
    """The same blocks in random order."""

    def make(chance: np.random.Generator, events: int) -> Made:
        blocks = chance.choice(np.array(sizes), events // 2)
        base, head = (random_fates(each, events, chance) for each in (blocks, chance.permutation(blocks)))
        return base, head, 0

    return make


def cases(shared: Path) -> dict[str, Case]:
    """What is measured, by name."""
    dense, threads = "21_dense_dygraph_cnn_331.part.log.zst", "04_threads_30_ast_pt_transformer.log.gz"
    many, worst, sizes = 1_000_000, 200_000, SIZES.tolist()
    return {
        "dense": Case("a real log again and again, 5 % edited", many, 20, real(dense, shared), 1500),
        "threads": Case("a real log of threads again and again, 5 % edited", many, 20, real(threads, shared), 1500),
        "made-up": Case("11 sizes at random, 5 % edited", many, 20, made_up, 1500),
        "windows": Case("10,000 windows of a real log, 5 % edited", 5 * many, 20, real(dense, shared, 500)),
        "unlike-windows": Case("10,000 windows of 11 sizes at random, unlike", 5 * many, 20, unlike(sizes, 500)),
        "alike": Case("one size, 5 % held, at random", worst, 60, unlike([512])),
        "half-held": Case("one size, half held, at random", worst, 60, half_held),
        "nothing": Case("no size in common", worst, 60, nothing_in_common),
        "order": Case("11 sizes, the same blocks in random order", worst, 60, another_order(sizes)),
        "many-sizes": Case(
            "5,000 sizes, the same blocks in random order", worst, 60, another_order(range(256, 1280256, 256))
        ),
        "two-runs": Case("11 sizes at random, unlike", worst, 60, unlike(sizes)),
    }


# --- measuring -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """What one case took and gave.

    Attributes:
        events: Events of both sides.
        seconds: From two windows to all figures.
        findings_seconds: From there to the findings of the 20 worst windows, which is what is shown.
        peak_bytes: Peak memory of the process.
        before_bytes: Peak memory before the comparison began: Python, NumPy and the two logs.
        cost: Bytes.
        least: What no alignment costs less than; bytes.
        edits: What the edits cost at most; ``None`` where head is not an edited base.
        cheapest: Bytes that the cheapest alignment costs, by the exact program of the tests; ``None`` where it was not asked for.
        approximated: What is not exact about it, in words.
        unexplained: Bytes that the accounts leave over.
    """

    events: int
    seconds: float
    findings_seconds: float
    peak_bytes: int
    before_bytes: int
    cost: float
    least: float
    edits: float | None
    cheapest: float | None
    approximated: str
    unexplained: int


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def save(path: Path, base: Columns, head: Columns, each: int) -> None:
    """Write a case for the process that measures it: making it takes more memory than comparing it may."""
    sides = {f"{side}_{name}": getattr(of, name) for side, of in (("base", base), ("head", head)) for name in NAMES}
    np.savez(path, each=np.array(each), **sides)


def measure(path: Path, *, exactly: bool) -> Measured:
    """Compare what was written before, and look at the figures afterwards.

    ``exactly`` solves it once more by the exact program, which takes a minute for two windows of 200,000 events.
    """
    with np.load(path) as saved:
        base, head = (Columns(*(saved[f"{side}_{name}"] for name in NAMES)) for side in ("base", "head"))
        each = int(saved["each"])
    sides = pairs_of(base, head, each)
    before = peak_memory()
    start = time.perf_counter()
    found = diff_windows(sides) if each else [*diff(*sides[0]).windows]
    middle = time.perf_counter()
    for result in sorted(found, key=lambda result: -abs(result.d_remaining_bytes))[:20]:
        len(result.findings)
    end = time.perf_counter()
    peak = peak_memory()
    return Measured(
        len(base) + len(head),
        middle - start,
        end - middle,
        peak,
        before,
        float(sum(result.cost_bytes for result in found)),
        sum(least_cost(*side) for side in sides),
        sum(cost_of_edits(*side, head.origin) for side in sides) if (head.origin < 0).any() else None,
        sum(cheapest_cost(*side) for side in sides) if exactly else None,
        approximated(found),
        sum(abs(result.remaining.unexplained_bytes) + abs(result.peak.unexplained_bytes) for result in found),
    )


def pairs_of(base: Columns, head: Columns, each: int) -> list[tuple[Window, Window]]:
    """The windows to compare: all of both logs, or so many events of base each time with what was made from them."""
    one, two = base.log(), head.log()
    if not each:
        return [(cut(one, 0, len(one)), cut(two, 0, len(two)))]
    cuts = np.arange(0, len(one) + 1, each)
    edges = np.searchsorted(np.maximum.accumulate(head.place), cuts)
    edges[-1] = len(two)
    return [
        (cut(one, int(a), int(b)), cut(two, int(c), int(d)))
        for a, b, c, d in zip(cuts, cuts[1:], edges, edges[1:], strict=False)
    ]


def approximated(found: list[WindowDiff]) -> str:
    """What the comparison says that it approximated."""
    parts = [result.approximation for result in found if result.approximation is not None]
    if not parts:
        return "exact"
    allocs, pieces, blind = (
        sum(getattr(part, name) for part in parts) for name in ("allocs", "pieces", "blind_allocs")
    )
    excess = sum(part.excess_bytes for part in parts)
    words = f"{allocs:,} allocs in {pieces:,} pieces, {blind:,} blind, at most {excess / MB:,.2f} MB above the cheapest"
    return f"{words} ({len(parts):,} windows)" if len(found) > 1 else words


def in_a_process(*options: str) -> str:
    """Run this script once more in a new process, and give what it prints.

    Raises:
        SystemExit: It failed; its stderr is shown.
    """
    run = subprocess.run([sys.executable, __file__, *options], check=False, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(options)} ended with {run.returncode}:\n{run.stderr}")
    return run.stdout


def rows_of(name: str, case: Case, got: Measured) -> list[str]:
    """What one case took and gave, in words."""
    met = got.seconds + got.findings_seconds <= case.seconds
    fits = case.megabytes is None or got.peak_bytes <= case.megabytes * MB
    allowed = f" of {case.megabytes:,.0f} allowed" if case.megabytes else ""
    edits = "" if got.edits is None else f", the edits cost {got.edits / MB:,.2f} MB"
    cheapest = "" if got.cheapest is None else f", the cheapest alignment costs {got.cheapest / MB:,.2f} MB"
    times = (
        f"{got.seconds:.2f} s + {got.findings_seconds:.2f} s for the findings, of {case.seconds:.0f} s allowed: "
        f"{'meets' if met else 'MISSES'};  {got.peak_bytes / MB:,.0f} MB{allowed}: {'meets' if fits else 'MISSES'} "
        f"(before: {got.before_bytes / MB:,.0f} MB)"
    )
    return [
        f"{name}: {case.words}; {got.events:,} events on both sides",
        f"  {times}",
        f"  cost {got.cost / MB:,.2f} MB, in any order at least {got.least / MB:,.2f} MB{edits}{cheapest}",
        f"  {got.approximated};  {got.unexplained:,} bytes unexplained",
    ]


# --- the whole command -------------------------------------------------------------------------------------------------------


def edit_text(source: Path, target: Path, seed: int) -> None:
    """Another run of a log of text: of twenty lines one is gone, doubled as a temporary of its own, or after its neighbour."""
    chance = random.Random(seed)  # noqa: S311
    address = 0x100000000000
    with source.open() as lines, target.open("w") as out:
        kept = ""
        for line in lines:
            what = chance.random()
            if what < 0.005 and " Free " in line:
                continue
            if what < 0.02 and " Alloc " in line:
                address += 256
                size = line.split(" Alloc ")[1].split()[0]
                stamp = line[: line.index("]") + 1]
                out.write(
                    f"{stamp} Alloc {size} bytes, ptr = {address:#x}\n{stamp} Free {size} bytes, ptr = {address:#x}\n"
                )
            if 0.02 <= what < 0.05 and not kept and line.rpartition("0x")[2] and "START" not in line:
                kept = line
                continue
            if kept and kept.rpartition("0x")[2] == line.rpartition("0x")[2]:
                out.write(kept + line)
            else:
                out.write(line + kept)
            kept = ""
        out.write(kept)


def whole_command(cache: Path, shared: Path, memlens: list[str], megabytes: int) -> None:
    """Time ``memlens diff`` on two logs of text, uncut and cut into windows."""
    base, head = (cache / f"diff-{megabytes}-{side}.log" for side in ("base", "head"))
    if not head.exists():
        maker = [sys.executable, str(shared / "bench" / "make_log.py"), str(base), str(megabytes), "--calls", "500"]
        subprocess.run(maker, check=True, stdout=subprocess.DEVNULL)
        edit_text(base, head, seed=1)
    for words, options in (("as one window", ["--whole"]), ("--by", ["--by", r"START SOT_CALL_(\d+)"])):
        command = [*memlens, "diff", str(base), str(head), *options, "--format", "json", "--top", "20"]
        with tempfile.TemporaryFile() as output:
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            windows = json.load(output)["windows"] if not process.returncode else []
        size = (base.stat().st_size + head.stat().st_size) / MB
        print(
            f"memlens diff, {words}: {seconds:.2f} s, {usage.ru_maxrss * 1024 / MB:,.0f} MB, {size:,.0f} MB of text, "
            f"{len(windows):,} windows, {sum(w['cost_bytes'] for w in windows) / MB:,.2f} MB cost, exit {process.returncode}"
        )


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="names of cases, or command; all of them by default")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the events (%(default)s)")
    parser.add_argument(
        "--exact", action="store_true", help="solve each case exactly too: minutes, hours for the long ones"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--megabytes", type=int, default=105, help="size of each log of text, MiB (%(default)s)")
    parser.add_argument("--shared", type=Path, default=shared, help="folder of the real logs (%(default)s)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "memlens-benchmarks",
        help="folder for the logs of text, kept for the next run (%(default)s)",
    )
    for step in ("--make", "--measure"):
        parser.add_argument(step, type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if unknown := set(chosen.what) - {*cases(chosen.shared), "command"}:
        parser.error(f"nothing to measure called {', '.join(sorted(unknown))}")
    return chosen


def main() -> None:
    """Make the cases, measure, print."""
    chosen = arguments()
    every = cases(chosen.shared)
    if chosen.measure:
        print(json.dumps(asdict(measure(chosen.measure, exactly=chosen.exact))))
        return
    if chosen.make:
        case = every[chosen.what[0]]
        save(chosen.make, *case.make(np.random.default_rng(chosen.seed), int(case.events * chosen.scale)))
        return
    what = chosen.what or [*every, "command"]
    print(f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, NumPy {np.__version__}, seed {chosen.seed}")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "case.npz")
        for name, case in every.items():
            if name in what:
                # This process stays small: the peak memory of a new process begins with that of the one that starts it.
                options = ["--scale", str(chosen.scale), "--seed", str(chosen.seed), "--shared", str(chosen.shared)]
                in_a_process(name, *options, "--make", path)
                got = in_a_process("--measure", path, *(["--exact"] if chosen.exact else []))
                print("\n".join(["", *rows_of(name, case, Measured(**json.loads(got)))]), flush=True)
    if "command" in what:
        chosen.cache.mkdir(parents=True, exist_ok=True)
        print()
        whole_command(chosen.cache, chosen.shared, [sys.executable, "-m", "memlens"], chosen.megabytes)


if __name__ == "__main__":
    main()
