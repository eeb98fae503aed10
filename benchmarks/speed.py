#!/usr/bin/env python3
"""Time memlens as whole processes, cold start included, beside a plain script and grep, in one interleaved run.

See README.md beside this file.  Prints and judges; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
EVENT = r"(Alloc|Free) [0-9]+ bytes, ptr = 0x[0-9a-f]+"
WINDOWS = 10_000
MB = 1_000_000


@dataclass(frozen=True)
class Log:
    """A log made for measuring: where it is, its bytes and its events."""

    name: str
    path: Path
    size: int
    events: int


@dataclass(frozen=True)
class Timing:
    """One process from its start to its end: seconds on the clock and on the processors, and its peak memory in bytes."""

    wall: float
    cpu: float
    peak: int


@dataclass(frozen=True)
class Target:
    """A figure held against what it should be; ``high`` says that more is better."""

    what: str
    value: float
    bound: float
    unit: str
    high: bool = False
    words: str = ""

    def row(self) -> str:
        """The figure, its target, and whether it meets it."""
        met = self.value >= self.bound if self.high else self.value <= self.bound
        words = self.words or f"at {'least' if self.high else 'most'} {self.bound:,.2f}{self.unit}"
        return f"  {self.what:<34}{self.value:>12,.2f}{self.unit:<4} {words:<44}{'meets' if met else 'misses'}"


def timed(command: Sequence[str]) -> Timing:
    """Run one command, its output into a file: grep stops at the first match where it writes to /dev/null.

    Raises:
        SystemExit: The command failed; its stderr is shown.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            env=os.environ | {"LC_ALL": "C"},
        )
        _, status, usage = os.wait4(process.pid, 0)  # the usage of this child alone
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{errors.read().decode(errors='replace')}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Timing(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale)


def peak_of_all_processes(command: Sequence[str]) -> int:
    """Run one command once more, untimed, and give the peak memory in bytes of it and its workers together.

    Every few milliseconds the proportional shares (Pss: what workers share with their parent counts once) of all processes
    of its session are added up.  0 where the system has no ``/proc`` to look at.
    """
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    reader = threading.Thread(target=process.communicate)  # an output that nobody reads would stop it
    reader.start()
    peak = 0
    while reader.is_alive():
        peak = max(peak, sum(map(share_of, processes_of_session(process.pid))))
        time.sleep(0.005)
    reader.join()
    return peak


def processes_of_session(session: int) -> Iterator[Path]:
    """The folders in ``/proc`` of a session's processes."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):  # it may end while it is looked at
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                yield folder


def share_of(folder: Path) -> int:
    """The proportional share of memory, in bytes, of one process."""
    with suppress(OSError):
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def output_of(command: Sequence[str]) -> str:
    """What one command says on stdout.

    Raises:
        SystemExit: The command failed; its stderr is shown.
    """
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}:\n{run.stderr}")
    return run.stdout


def interleaved(commands: dict[str, list[str]], repeat: int) -> dict[str, list[Timing]]:
    """Time each command ``repeat`` times, all of them once before any of them again, so that a slow minute hits all alike."""
    times: dict[str, list[Timing]] = {name: [] for name in commands}
    for _ in range(repeat):
        for name, command in commands.items():
            times[name].append(timed(command))
    return times


def make_log(maker: Path, folder: Path, name: str, megabytes: int, options: list[str]) -> Log:
    """Make a log, or take the one made before with the same arguments."""
    path = folder / f"{name}-{megabytes}-{'-'.join(options).replace('--', '')}.log"
    notes = path.with_suffix(".json")
    if not notes.exists():
        print(f"making {path} …", file=sys.stderr)
        made = output_of([sys.executable, str(maker), str(path), str(megabytes), *options])
        notes.write_text(json.dumps([int(word) for word in made.split()]))
    size, events, *_ = json.loads(notes.read_text())
    return Log(name, path, size, events)


def events_per_anchor(maker: Path, folder: Path, megabytes: int, noise: str) -> int:
    """How many events apart the anchors must stand to give ``WINDOWS`` windows in a log of that size."""
    sample = make_log(maker, folder, f"sample{noise}", 1, ["--noise", noise])
    return max(1, int(sample.events * megabytes / WINDOWS))


def table(times: dict[str, list[Timing]]) -> str:
    """A row a command: median, smallest and largest wall time, median processor time, largest peak memory."""
    rows = [f"  {'command':<34}{'wall s':>8}{'(min':>9} … {'max)':<8}{'cpu s':>8}{'peak MB':>10}"]
    for name, runs in times.items():
        walls = [run.wall for run in runs]
        rows.append(
            f"  {name:<34}{median(walls):>8.3f}{f'({min(walls):.3f}':>9} … {f'{max(walls):.3f})':<8}"
            f"{median(run.cpu for run in runs):>8.3f}{max(run.peak for run in runs) / MB:>10.1f}"
        )
    return "\n".join(rows)


def wall(times: dict[str, list[Timing]], name: str) -> float:
    """The median wall time of one command."""
    return median(run.wall for run in times[name])


def figures_agree(memlens: list[str], baseline: list[str], log: Log) -> str:
    """Whether memlens and the plain script say the same five figures of this log, in words."""
    plain = output_of([*baseline, str(log.path)]).split()
    said = output_of([*memlens, "analyze", str(log.path), "--format", "json"])
    window = json.loads(said)["logs"][0]["windows"][0]
    stats = window["stats"]
    ours = [window["remaining"]["remaining_bytes"], window["peak"]["rise_bytes"]]
    ours += [stats["alloc_bytes"], stats["allocs"], stats["free_bytes"], stats["frees"]]
    if [str(figure) for figure in ours] == plain:
        return "the same figures from both"
    return f"THE FIGURES DIFFER: {ours} against {plain}"


def measure(log: Log, memlens: list[str], baseline: list[str], repeat: int) -> None:
    """Time the three programs on one log and print the table and the targets."""
    analyze = [*memlens, "analyze", str(log.path)]
    commands = {
        "memlens analyze": analyze,
        "baseline.py": [*baseline, str(log.path)],
        "LC_ALL=C grep -cE": ["grep", "-cE", EVENT, str(log.path)],
    }
    if log.name == "dense":
        commands["memlens analyze --by"] = [*analyze, "--by", r"START SOT_CALL_(\d+)"]
    print(f"\n{log.name}: {log.size / MB:,.0f} MB, {log.events:,} events, {figures_agree(memlens, baseline, log)}")
    timed(["cat", str(log.path)])  # warm page cache for all
    times = interleaved(commands, repeat)
    for name, command in commands.items():  # memory of workers too, measured apart: looking costs time
        if name.startswith("memlens"):
            together = peak_of_all_processes(command)
            times[name] = [replace(run, peak=max(run.peak, together)) for run in times[name]]
    print(table(times))
    ours, peak = wall(times, "memlens analyze"), max(run.peak for run in times["memlens analyze"]) / MB
    factor = 8 if log.name == "dense" else 12
    targets = [
        Target("baseline.py / memlens", wall(times, "baseline.py") / ours, factor, "x", high=True),
        Target("memlens / grep", ours / wall(times, "LC_ALL=C grep -cE"), 1.0, "x", words="no slower is the goal"),
    ]
    if log.name == "dense":
        half = log.size / 2 / MB
        targets += [
            Target("peak memory", peak, half, " MB", words=f"below half of the file, {half:,.0f} MB"),
            Target(f"--by with {WINDOWS:,} windows / uncut", wall(times, "memlens analyze --by") / ours, 1.3, "x"),
        ]
    else:
        bound = 150 + 40 * log.events / MB
        targets.append(
            Target("peak memory", peak, bound, " MB", words=f"below 150 MB + 40 B an event, {bound:,.0f} MB")
        )
    print("\n".join(target.row() for target in targets))


def measure_help(memlens: list[str], repeat: int) -> None:
    """Time ``memlens --help``, which has to answer at once."""
    times = interleaved({"memlens --help": [*memlens, "--help"]}, max(repeat, 5))
    print("\nhelp")
    print(table(times))
    print(Target("memlens --help", wall(times, "memlens --help"), 0.25, " s").row())


def installed_memlens() -> list[str]:
    """The memlens command beside this interpreter, or ``python -m memlens`` where there is none."""
    script = Path(sys.executable).parent / "memlens"
    return [str(script)] if script.exists() else [sys.executable, "-m", "memlens"]


def arguments() -> argparse.Namespace:
    """What was asked for on the command line."""
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="dense, sparse, help; all of them by default")
    parser.add_argument("--megabytes", type=int, default=1600, help="size of each log in MiB (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each command (%(default)s)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "memlens-benchmarks",
        help="folder for the logs, kept for the next run (%(default)s)",
    )
    parser.add_argument(
        "--bench", type=Path, default=shared / "bench", help="folder of make_log.py and baseline.py (%(default)s)"
    )
    parser.add_argument("--memlens", help="the command to measure; by default the one beside this interpreter")
    chosen = parser.parse_args()
    if unknown := set(chosen.what) - {"dense", "sparse", "help"}:
        parser.error(f"nothing to measure called {', '.join(sorted(unknown))}")
    for name in ("make_log.py", "baseline.py"):
        if not (chosen.bench / name).is_file():
            parser.error(f"there is no {name} in {chosen.bench}; name its folder with --bench")
    return chosen


def main() -> None:
    """Make the logs, measure, print."""
    chosen = arguments()
    chosen.cache.mkdir(parents=True, exist_ok=True)
    maker, baseline = chosen.bench / "make_log.py", [sys.executable, str(chosen.bench / "baseline.py")]
    memlens = chosen.memlens.split() if chosen.memlens else installed_memlens()
    what = chosen.what or ["dense", "sparse", "help"]
    print(
        f"{' '.join(memlens)}, {chosen.repeat} repetitions, {os.cpu_count()} processors, Python {sys.version.split()[0]}"
    )
    if shutil.disk_usage(chosen.cache).free < 3 * chosen.megabytes << 20:
        print(f"note: little room left in {chosen.cache}", file=sys.stderr)
    for name, noise in (("dense", "0"), ("sparse", "0.95")):
        if name in what:
            apart = events_per_anchor(maker, chosen.cache, chosen.megabytes, noise) if name == "dense" else 20_000
            log = make_log(maker, chosen.cache, name, chosen.megabytes, ["--noise", noise, "--calls", str(apart)])
            measure(log, memlens, baseline, chosen.repeat)
    if "help" in what:
        measure_help(memlens, chosen.repeat)


if __name__ == "__main__":
    main()
