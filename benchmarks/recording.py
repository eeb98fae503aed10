#!/usr/bin/env python3
"""What ``memlens record`` costs a program, and whether ``memlens watch`` keeps up with one.

See README.md beside this file.  Prints tables; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import zstandard  # noqa: E402
from real_paddle import RealPaddle, pythons  # noqa: E402

MEMLENS = [sys.executable, "-m", "memlens"]
#: What the preset sets, for the runs that it is compared with.
PRESET = {"GLOG_vmodule": "auto_g*=10", "FLAGS_new_executor_sequential_run": "true", "PYTHONUNBUFFERED": "1"}
#: A program that writes a file to another one as fast as it can, 64 KiB at a time.
WRITES = "import sys, shutil; a, b = open(sys.argv[1], 'rb'), open(sys.argv[2], 'ab', buffering=0); shutil.copyfileobj(a, b, 1 << 16)"


@dataclass(frozen=True)
class Ran:
    """A command that was run: seconds on the clock, seconds of the processors by it and its children, and what it wrote to stderr."""

    wall: float
    work: float
    said: str = ""


def ran(command: Sequence[str], environment: dict[str, str] | None = None, output: Path | None = None) -> Ran:
    """Run a command to its end; into a file both of its streams go, as a shell's redirect has them."""
    with open(output or os.devnull, "wb") as file, tempfile.TemporaryFile() as said:
        begin = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file if output else said)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        done = Ran(seconds, usage.ru_utime + usage.ru_stime, said.read().decode())
    if process.returncode:
        sys.exit(f"{' '.join(command)} gave {process.returncode}: {done.said}")
    return done


def ran_for(said: str) -> float:
    """How long the program itself ran, from what the recorder says."""
    found = re.search(r"the program ran for (?:(\d+) min )?([\d.]+) (ms|s)\b", said)
    assert found, said
    return int(found[1] or 0) * 60 + float(found[2]) * (1e-3 if found[3] == "ms" else 1)


# A program that trains


def training(paddle: RealPaddle, folder: Path, steps: int, repeat: int) -> None:
    """Pairs of runs of the shared training script: redirected, and recorded."""
    program = [paddle.python, str(paddle.train), "--steps", str(steps), "--no-step-stats"]
    plain = paddle.environment()
    log, recorded = folder / "run.log", folder / "run.log.zst"
    sizes: list[int] = []

    def redirect(variables: dict[str, str]) -> tuple[Ran, float]:
        done = ran(program, variables, log)
        text = log.read_text()
        sizes.append(len(text))
        return done, loop_seconds(text)

    def record() -> tuple[Ran, float]:
        done = ran([*MEMLENS, "record", "-f", "-o", str(recorded), "--", *program], plain)
        with (
            recorded.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as text,
        ):
            return done, loop_seconds(text.read().decode())

    ways: dict[str, Callable[[], tuple[Ran, float]]] = {
        "without a log": lambda: redirect(plain),
        "redirected, `> run.log 2>&1`": lambda: redirect(plain | PRESET),
        "recorded, `-o run.log.zst`": record,
    }
    runs: dict[str, list[tuple[Ran, float]]] = {name: [] for name in ways}
    for turn in range(repeat + 1):
        for name in list(ways)[:: 1 if turn % 2 else -1]:  # each way comes first as often as last
            one = ways[name]()
            if turn:  # the first one warms the caches
                runs[name].append(one)
    print(f"\nPaddle {paddle.version}, {steps} steps, {max(sizes) / 1e6:.0f} MB of log; medians of {repeat} runs\n")
    print("| | training loop | against redirected, in pairs | command | processors, all of it |\n|---|---|---|---|---|")
    redirected = [loop for _, loop in runs["redirected, `> run.log 2>&1`"]]
    for name, found in runs.items():
        ratios = [loop / other for (_, loop), other in zip(found, redirected, strict=True)]
        shown = f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        loop, wall, work = (
            median(column) for column in zip(*((loop, one.wall, one.work) for one, loop in found), strict=True)
        )
        print(f"| {name} | {loop:.2f} s | {shown} | {wall:.2f} s | {work:.2f} s |", flush=True)


def loop_seconds(text: str) -> float:
    """What the training script says of its loop, which begins when Paddle is imported and the model built."""
    (final,) = re.findall(r"^FINAL MEMSTAT (.*)$", text, re.MULTILINE)
    return float(json.loads(final)["seconds"])


# A program that prints at full speed


def printing(text: Path, folder: Path, repeat: int) -> None:
    """How fast a log of allocator lines is taken from a program that does nothing but write it."""
    size = text.stat().st_size
    print(f"\n`cat` of {size / 1e6:.0f} MB of log; medians of {repeat} runs\n")
    print("| | program | | file |\n|---|---|---|---|")
    rows: list[tuple[str, str, list[str]]] = [("redirected, `> run.log`", "run.log", [])]
    rows += [(f"recorded, `-o {name}`", name, []) for name in ("run.log", "run.log.zst", "run.log.gz")]
    rows += [("recorded, `--pass none -o run.log.zst`", "run.log.zst", ["--pass", "none"])]
    for title, name, options in rows:
        out = folder / name
        if title.startswith("redirected"):
            times = [ran(["cat", str(text)], output=out).wall for _ in range(repeat)]
        else:
            command = [*MEMLENS, "record", "-f", *options, "-o", str(out), "--", "cat", str(text)]
            times = [ran_for(ran(command).said) for _ in range(repeat)]
        seconds = median(times)
        print(
            f"| {title} | {seconds:.2f} s | {size / seconds / 1e6:,.0f} MB/s | {out.stat().st_size / 1e6:.0f} MB |",
            flush=True,
        )
        out.unlink()


# Following


def following(text: Path, folder: Path, rate: float, idle_s: float) -> None:
    """How far behind a writer ``memlens watch`` is, what it costs, and what it costs when nothing is written."""
    log = folder / "growing.log"
    log.write_bytes(b"")
    slow = f"import time; data = a.read(1 << 20); begin = time.time(); done = 0\nwhile data:\n b.write(data); done += len(data); time.sleep(max(0, begin + done / {rate}e6 - time.time())); data = a.read(1 << 20)"
    writes = WRITES if not rate else WRITES.rpartition(";")[0] + "\n" + slow
    with subprocess.Popen(
        [*MEMLENS, "watch", str(log), "--format", "jsonl", "--every", "0.1"], stdout=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout is not None
        time.sleep(2)  # it has begun
        begin = time.perf_counter()
        writer = subprocess.Popen([sys.executable, "-c", writes, str(text), str(log)])
        ends: list[float] = []
        waits = threading.Thread(target=lambda: ends.append(writer.wait() + time.perf_counter()))
        waits.start()
        behind = 0
        for line in watch.stdout:
            there = log.stat().st_size
            (state,) = json.loads(line)["logs"]
            behind = max(behind, there - state["bytes"])
            if state["bytes"] == text.stat().st_size:
                break
        read = time.perf_counter()
        waits.join()
        lag, wrote = max(read - ends[0], 0.0), ends[0] - begin
        memory = peak_memory(watch.pid)
        busy = cpu_seconds(watch.pid)
        time.sleep(2)
        before = cpu_seconds(watch.pid)
        time.sleep(idle_s)
        idle = (cpu_seconds(watch.pid) - before) / idle_s
        watch.terminate()
    size = text.stat().st_size
    print(
        f"| {'full speed' if not rate else f'{rate:.0f} MB/s'} | {size / wrote / 1e6:,.0f} MB/s | {behind / 1e6:.0f} MB | {lag:.2f} s | {busy:.1f} s | {memory / 1e6:.0f} MB | {100 * idle:.2f} % |"
    )


def cpu_seconds(pid: int) -> float:
    """Seconds of the processors that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(pid: int) -> int:
    """The most bytes of memory that a process has had."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main() -> int:
    """Measure as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    parser.add_argument("--steps", type=int, default=1000, help="steps that Paddle trains (%(default)s)")
    parser.add_argument("--megabytes", type=int, default=512, help="size of the log that is printed (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each (%(default)s)")
    parser.add_argument(
        "--rates",
        type=float,
        nargs="*",
        default=[50, 200, 0],
        help="MB/s at which a followed log is written; 0 is full speed",
    )
    parser.add_argument("--idle", type=float, default=30, help="seconds for which nothing is written (%(default)s)")
    parser.add_argument("--only", choices=("training", "printing", "following"), help="one part alone")
    parser.add_argument("--shared", type=Path, default=shared, help="the shared folder (%(default)s)")
    given = parser.parse_args()
    parts = {given.only} if given.only else {"training", "printing", "following"}
    with tempfile.TemporaryDirectory() as name:
        folder, text = Path(name), Path(name) / "dense.log"
        none = [*MEMLENS, "record", "-q", "-f", "-o", str(folder / "none.log"), "--", "true"]
        start = median(ran(none).wall for _ in range(5))
        print(f"`memlens record true` takes {start:.2f} s: its start, and the verdict on an empty log")
        if "training" in parts and not pythons():
            print("no program of Paddle is measured: MEMLENS_PADDLE names no interpreter that has it")
        for number, python in enumerate(pythons() if "training" in parts else []):
            paddle = RealPaddle.build(python, given.shared, folder / f"device{number}")
            training(paddle, folder, given.steps, given.repeat)
        if parts - {"training"}:
            make = [sys.executable, str(given.shared / "bench" / "make_log.py"), str(text), str(given.megabytes)]
            subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        if "printing" in parts:
            printing(text, folder, given.repeat)
        if "following" in parts:
            print(f"\n`memlens watch` of a log that another process writes, {text.stat().st_size / 1e6:.0f} MB\n")
            print(
                "| asked | written | behind at most | after the last byte | processor | peak memory | idle |\n|---|---|---|---|---|---|---|"
            )
            for rate in given.rates:
                following(text, folder, rate, given.idle)
    return 0


if __name__ == "__main__":
    sys.exit(main())
