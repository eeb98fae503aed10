#!/usr/bin/env python3
"""Time memlens as whole processes, cold start included, beside a plain script, grep and a bare compiled scan, in one interleaved run.

See README.md beside this file.  Prints and judges; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
EVENT = r"(Alloc|Free) [0-9]+ bytes, ptr = 0x[0-9a-f]+"
WINDOWS = 10_000
#: As where memlens is installed: its modules are compiled to bytecode once, and not at each start.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"LC_ALL": "C"}
MB = 1_000_000


@dataclass(frozen=True)
class Log:
    """A log made for measuring: where it is, its bytes and its events."""

    name: str
    path: Path
    size: int
    events: int


@dataclass(frozen=True)
class Tools:
    """The commands that are measured, each without the log."""

    memlens: list[str]
    baseline: list[str]
    limit: list[str]
    beside: dict[str, list[str]]


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
        return f"  {self.what:<42}{self.value:>12,.2f}{self.unit:<4} {words:<44}{'meets' if met else 'misses'}"


def timed(command: Sequence[str]) -> Timing:
    """Run one command, its output into a file: grep stops at the first match where it writes to /dev/null.

    Raises:
        SystemExit: The command failed; its stderr is shown.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=ENVIRONMENT)
        _, status, usage = os.wait4(process.pid, 0)  # the usage of this child alone
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{errors.read().decode(errors='replace')}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Timing(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * scale)


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


def make_snapshot(data: Path, folder: Path) -> Path:
    """A PyTorch snapshot of 113 MB: a real one, a hundred times, by the script of the shared folder."""
    path = folder / "snapshot-100.pickle"
    if not path.exists():
        real = data / "torch/snapshots/medium_1024_inference.pickle"
        output_of([sys.executable, str(data / "torch/tile_snapshot.py"), str(real), str(path), "--times", "100"])
    return path


def make_trace(data: Path, folder: Path) -> Path:
    """A Kineto trace of 122 MB: the events of a real one again and again, each time later."""
    path = folder / "trace-122.json"
    if not path.exists():
        with gzip.open(data / "torch/kineto/transformer_6l_26steps.json.gz", "rt") as file:
            trace = json.load(file)
        events = trace["traceEvents"]
        end = max((event["ts"] + event.get("dur", 0) for event in events if "ts" in event), default=0)
        texts, size, turn = [], 0, 0
        while size < 122 * MB:
            moved = [event | {"ts": event["ts"] + turn * end} if "ts" in event else event for event in events]
            texts.append(",\n".join(json.dumps(event, indent=1) for event in moved))
            size += len(texts[-1])
            turn += 1
        rest = json.dumps({key: value for key, value in trace.items() if key != "traceEvents"})
        with path.open("w") as file:
            file.write(rest[:-1] + ', "traceEvents": [\n' + ",\n".join(texts) + "\n]}")
    return path


def make_rows(data: Path, folder: Path) -> Path:
    """A log of RMM of 96 MB: the rows of a real one again and again."""
    path = folder / "rmm-96.csv"
    if not path.exists():
        with gzip.open(data / "rmm/rmm_log_large.dev0.csv.gz", "rb") as file:
            head, _, rows = file.read().partition(b"\n")
        with path.open("wb") as out:
            out.write(head + b"\n")
            while out.tell() < 96 * MB:
                out.write(rows)
    return path


FORMAT = """[[format]]
name = "pool"
literal = "pool: "
regex = 'pool: (?P<kind>take|give) (?P<size>[0-9]+) at (?P<addr>0x[0-9a-f]+)'
alloc = ["take"]
free = ["give"]
samples = ["pool: take 512 at 0x7f01"]
"""


def make_own(folder: Path) -> tuple[Path, Path]:
    """A log of 96 MB in a format of a user's own, and the file that describes it."""
    path, form = folder / "own-96.log", folder / "own.toml"
    form.write_text(FORMAT)
    if not path.exists():
        chance, size, address = random.Random(1), 0, 0x7F0000000000  # noqa: S311 - nothing secret
        live: list[tuple[int, int]] = []
        lines: list[str] = []
        while size < 96 * MB:
            if live and chance.random() < 0.49:
                block, at = live.pop(chance.randrange(len(live)))
                lines.append(f"[worker 3] 2026-01-01 pool: give {block} at {at:#x} and so on\n")
            else:
                block = 512 * chance.randrange(1, 1000)
                live.append((block, address))
                lines.append(f"[worker 3] 2026-01-01 pool: take {block} at {address:#x} and so on\n")
                address += block
            size += len(lines[-1])
        path.write_text("".join(lines))
    return path, form


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


def processor(times: dict[str, list[Timing]], name: str) -> float:
    """The median time that one command took of the processors, user and system."""
    return median(run.cpu for run in times[name])


def own_memory(command: Sequence[str]) -> int:
    """The most memory of its own that a command has, bytes: without the mapped pages of files, which the system may take back."""
    most, status = 0, ""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env=ENVIRONMENT)
        while process.poll() is None:
            with suppress(OSError):  # it has ended
                status = Path(f"/proc/{process.pid}/status").read_text()
            most = max([most, *(1024 * int(kb) for kb in re.findall(r"RssAnon:\s+(\d+)", status))])
            time.sleep(0.005)
    return most


def measure_small(chosen: argparse.Namespace, tools: Tools, maker: Path) -> None:
    """Time a log of 250 lines beside a start of Python with the two libraries that every start needs."""
    whole = make_log(maker, chosen.cache, "sample0", 1, ["--noise", "0"])
    small = chosen.cache / "lines-250.log"
    small.write_text("".join(whole.path.read_text().splitlines(keepends=True)[:250]))
    analyze, start = [*tools.memlens, "analyze", str(small)], 'python -c "import numpy, click"'
    commands = {
        "memlens analyze": analyze,
        "memlens analyze, JSON": [*analyze, "--format", "json"],
        start: [sys.executable, "-c", "import numpy, click"],
    }
    print("\na log of 250 lines")
    times = interleaved(commands, max(chosen.repeat, 5))
    print(table(times))
    for kind, of in (("wall", wall), ("processor", processor)):
        for ours in ("memlens analyze", "memlens analyze, JSON"):
            print(Target(f"{ours[8:]} / start, {kind}", of(times, ours) / of(times, start), 1.7, "x").row())


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


def measure(log: Log, chosen: argparse.Namespace, tools: Tools) -> None:
    """Time the programs on one log and print the table and the targets."""
    analyze = [*tools.memlens, "analyze", str(log.path)]
    grep = "LC_ALL=C grep -cE"
    commands = {"memlens analyze": analyze, grep: ["grep", "-cE", EVENT, str(log.path)]}
    large = log.size > 1100 * MB
    if not large:
        commands["baseline.py"] = [*tools.baseline, str(log.path)]
    pure = log.size < 300 * MB  # it takes minutes on larger ones
    if pure:
        commands["memlens analyze, MEMLENS_PURE=1"] = ["env", "MEMLENS_PURE=1", *analyze]
    commands["memlens analyze, JSON"] = [*analyze, "--format", "json"]
    for name, command in tools.beside.items():
        commands[name] = [*command, "analyze", str(log.path)]
        commands[f"{name}, JSON"] = [*commands[name], "--format", "json"]
    dense = log.name == "dense"
    if dense:
        commands["memlens analyze --by"] = [*analyze, "--by", r"START SOT_CALL_(\d+)"]
        commands["memlens analyze --by, JSON"] = [*commands["memlens analyze --by"], "--format", "json"]
    agree = figures_agree(tools.memlens, tools.baseline, log)
    print(f"\n{log.name}: {log.size / MB:,.0f} MB, {log.events:,} events, {agree}")
    timed(["cat", str(log.path)])  # warm page cache for all
    times = interleaved(commands, chosen.repeat)
    print(table(times))
    floors = {}
    for kind, threads in (("wall", []), ("processor", ["1"])):
        said = [output_of([*tools.limit, str(log.path), *threads]) for _ in range(chosen.repeat)]
        floors[kind] = median(sum(float(part) for part in re.findall(r"([0-9.]+) s", words)) for words in said)
        print(f"  {f'the floor, limit.py {kind}':<34}{floors[kind]:>8.3f}")
    faster = 14 if dense else 11
    bound = (1.0 if large else 1.5) if dense else (1.5 if large else 2.5)
    targets = []
    for kind, of in (("wall", wall), ("processor", processor)):
        bare = floors[kind] / of(times, grep)
        targets.append(Target(f"the floor / grep, {kind}", bare, bound, "x", words="what a bare scan does"))
        for ours in ("memlens analyze", "memlens analyze, JSON"):
            output = f"{'JSON' if 'JSON' in ours else 'table'}, {kind}"
            targets.append(Target(f"memlens / grep, {output}", of(times, ours) / of(times, grep), bound, "x"))
            if not large:
                share = of(times, "baseline.py") / of(times, ours)
                targets.append(Target(f"baseline.py / memlens, {output}", share, faster, "x", high=True))
        if pure:
            share = of(times, "memlens analyze, MEMLENS_PURE=1") / of(times, "baseline.py")
            targets.append(Target(f"pure / baseline.py, {kind}", share, 3, "x"))
        for form, output in (("", "table"), (", JSON", "JSON")) if dense else ():
            share = of(times, f"memlens analyze --by{form}") / of(times, f"memlens analyze{form}")
            targets.append(Target(f"{WINDOWS:,} windows / uncut, {output}, {kind}", share, 1.3, "x"))
    most = min(log.size / 2 / MB, 450) if dense else 150
    targets += [
        Target(f"memory of its own, {ours[8:]}", own_memory(commands[ours]) / MB, most, " MB")
        for ours in ("memlens analyze", "memlens analyze, JSON")
    ]
    print("\n".join(target.row() for target in targets))


def measure_formats(chosen: argparse.Namespace, tools: Tools) -> None:
    """Time ``memlens analyze`` on a large input of each other format."""
    data, folder = chosen.bench.parent / "data", chosen.cache
    with ProcessPoolExecutor(1) as apart:  # what a measured process is forked from counts as its memory
        snapshot, trace, rows = (apart.submit(make, data, folder) for make in (make_snapshot, make_trace, make_rows))
        own, form = apart.submit(make_own, folder).result()
    inputs = {
        "snapshot, 113 MB": ([str(snapshot.result())], 1.3, 130.0),
        "Kineto trace, 122 MB": ([str(trace.result())], 1.2, 120.0),
        "RMM, 96 MB": ([str(rows.result())], 1.5, None),
        "a format of one's own, 96 MB": ([str(own), "--formats", str(form)], 1.5, None),
    }
    commands = {name: [*tools.memlens, "analyze", *words] for name, (words, _, _) in inputs.items()}
    for other, command in tools.beside.items():
        commands |= {f"{other}: {name}": [*command, "analyze", *words] for name, (words, _, _) in inputs.items()}
    print("\nother formats")
    times = interleaved(commands, chosen.repeat)
    print(table(times))
    for name, (_, seconds, most) in inputs.items():
        print(Target(name, wall(times, name), seconds, " s").row())
        if most is not None:
            print(Target(f"{name}: memory", max(run.peak for run in times[name]) / MB, most, " MB").row())


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
    parser.add_argument("what", nargs="*", help="small, dense, sparse, formats, help; all of them by default")
    parser.add_argument(
        "--megabytes", type=int, nargs="+", default=[256, 512, 1200], help="sizes of the logs in MiB (%(default)s)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each command (%(default)s)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(tempfile.gettempdir()) / "memlens-benchmarks",
        help="folder for the logs, kept for the next run (%(default)s)",
    )
    parser.add_argument(
        "--bench", type=Path, default=shared / "bench", help="folder of make_log.py, baseline.py, limit/ (%(default)s)"
    )
    parser.add_argument("--memlens", help="the command to measure; by default the one beside this interpreter")
    parser.add_argument(
        "--beside", metavar="COMMAND", help="another memlens, an older one say, to measure in the same run"
    )
    chosen = parser.parse_args()
    if unknown := set(chosen.what) - {"small", "dense", "sparse", "formats", "help"}:
        parser.error(f"nothing to measure called {', '.join(sorted(unknown))}")
    for name in ("make_log.py", "baseline.py", "limit/limit.py"):
        if not (chosen.bench / name).is_file():
            parser.error(f"there is no {name} in {chosen.bench}; name its folder with --bench")
    return chosen


def main() -> None:
    """Make the logs, measure, print."""
    chosen = arguments()
    chosen.cache.mkdir(parents=True, exist_ok=True)
    maker = chosen.bench / "make_log.py"
    tools = Tools(
        chosen.memlens.split() if chosen.memlens else installed_memlens(),
        [sys.executable, str(chosen.bench / "baseline.py")],
        [sys.executable, str(chosen.bench / "limit/limit.py")],
        {"beside": chosen.beside.split()} if chosen.beside else {},
    )
    what = chosen.what or ["small", "dense", "sparse", "formats", "help"]
    print(
        f"{' '.join(tools.memlens)}, {chosen.repeat} repetitions, {os.cpu_count()} processors, Python {sys.version.split()[0]}"
    )
    if shutil.disk_usage(chosen.cache).free < 3 * sum(chosen.megabytes) << 20:
        print(f"note: little room left in {chosen.cache}", file=sys.stderr)
    if "small" in what:
        measure_small(chosen, tools, maker)
    for name, noise in (("dense", "0"), ("sparse", "0.95")):
        for megabytes in chosen.megabytes if name in what else ():
            apart = events_per_anchor(maker, chosen.cache, megabytes, noise) if name == "dense" else 20_000
            log = make_log(maker, chosen.cache, name, megabytes, ["--noise", noise, "--calls", str(apart)])
            measure(log, chosen, tools)
    if "formats" in what:
        measure_formats(chosen, tools)
    if "help" in what:
        measure_help(tools.memlens, chosen.repeat)


if __name__ == "__main__":
    main()
