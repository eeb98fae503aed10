"""``memlens record`` of real PaddlePaddle: the figures of a log that it recorded are Paddle's own counters in the same run.

Paddle computes on a device whose memory is host memory; the allocators above it, their log and their counters are Paddle's.  Runs where
``MEMLENS_PADDLE`` names interpreters that have paddlepaddle, separated as a PATH is.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
import zstandard
from real_paddle import RealPaddle, pythons

import memlens

pytestmark = pytest.mark.paddle

MARKED = Path(__file__).parent / "programs" / "paddle_marked.py"
TIMEOUT = 60.0


@pytest.fixture(
    scope="module", params=pythons() or [None], ids=lambda python: Path(python).parents[1].name if python else "none"
)
def paddle(request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> RealPaddle:
    """Each version, with the device built for it."""
    if request.param is None:
        pytest.skip("needs PaddlePaddle: MEMLENS_PADDLE names no interpreter that has it")
    if not shutil.which("g++"):
        pytest.skip("needs g++ to build Paddle's host-memory device")
    return RealPaddle.build(request.param, shared, tmp_path_factory.mktemp("device"))


@dataclass(frozen=True)
class Recorded:
    """A program that was recorded: the recorder's exit code, what it wrote to stdout and stderr, and the log."""

    code: int
    out: str
    said: str
    log: Path

    @property
    def text(self) -> str:
        return text_of(self.log)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def text_of(log: Path) -> str:
    """A compressed log as far as it is there, by the decompressor itself."""
    with log.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream:
        return stream.read().decode()


def command(paddle: RealPaddle, log: Path | str, program: list[str], options: list[str]) -> list[str]:
    return [sys.executable, "-m", "memlens", "record", "-o", str(log), *options, "--", paddle.python, *program]


def environment(paddle: RealPaddle, folder: Path, **more: str) -> dict[str, str]:
    """That of the recorder: its program finds memlens, as a program in whose environment it is installed would."""
    packages = folder / "packages"
    packages.mkdir(exist_ok=True)
    (packages / "memlens").symlink_to(Path(memlens.__file__).parent)
    return paddle.environment() | {"PYTHONPATH": str(packages), **more}


def record(paddle: RealPaddle, folder: Path, program: list[str], **more: str) -> Recorded:
    """Record a program to its end."""
    log = folder / "run.log.zst"
    return run_to_its_end(command(paddle, log, program, []), environment(paddle, folder, **more), folder, log)


def run_to_its_end(words: list[str], variables: dict[str, str], folder: Path, log: Path) -> Recorded:
    done = subprocess.run(
        words,
        env=variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Recorded(done.returncode, done.stdout, done.stderr, log)


# The figures


def counters(lines: list[str], word: str) -> list[dict[str, Any]]:
    """Paddle's own counters at the lines that begin with a word, as the shared training script prints them."""
    return [json.loads(line.removeprefix(word)) for line in lines if line.startswith(word)]


def test_the_figures_are_paddles_own_counters_in_the_same_run(paddle: RealPaddle, tmp_path: Path) -> None:
    run = record(paddle, tmp_path, [str(paddle.train), "--model", "cnn", "--steps", "5", "--leak-graph"])
    assert run.code == 0, run.said
    steps, (final,) = counters(run.lines, "MEMSTAT "), counters(run.lines, "FINAL MEMSTAT ")
    whole = memlens.analyze(run.log, end="FINAL MEMSTAT").logs[0].windows[0].results
    assert whole["remaining"].live_bytes == final["allocated"]
    assert whole["peak"].peak_bytes == final["allocated_peak"]
    assert whole["peak"].reserved_peak_bytes == final["reserved_peak"] == final["hostdev_peak"]
    windows = memlens.analyze(run.log, by="^MEMSTAT").logs[0].windows[:-1]
    assert [window.results["remaining"].live_bytes for window in windows] == [step["allocated"] for step in steps]
    assert len({step["allocated"] for step in steps}) == 5  # it leaks: no two are alike
    trust = memlens.read(run.log).trust
    assert (trust.ok, trust.malformed, trust.unknown_frees) == (True, 0, 0)
    assert (
        trust.figures_checked == trust.figures_agreeing == 4 * (1 + len(steps) + 1)
    )  # the script prints them when its model is ready as well


MARKS = re.compile(r"^(STEP \d+|START forward|END forward|TRAINED)$")


def test_windows_cut_at_marks_have_the_counters_that_paddle_had_between_them(
    paddle: RealPaddle, tmp_path: Path
) -> None:
    run = record(paddle, tmp_path, [str(MARKED), "--steps", "4"])
    assert run.code == 0, run.said
    lines = run.lines
    marks = [at for at, line in enumerate(lines) if MARKS.match(line)]
    assert [lines[at] for at in marks] == [
        *(mark for step in range(4) for mark in (f"STEP {step}", "START forward", "END forward")),
        "TRAINED",
    ]
    theirs = [counted(lines[at - 1]) for at in marks]
    (log,) = memlens.analyze(run.log, by=MARKS.pattern).logs
    ours = [figures(window) for window in log.windows[: len(marks)]]  # what comes after the last mark is freed at exit
    assert ours == theirs
    assert len(set(theirs)) == len(theirs)
    assert [window.start_line for window in log.windows] == [1, *(at + 1 for at in marks)]


def counted(line: str) -> tuple[int, ...]:
    """Allocated bytes now and at most since the mark before, and reserved ones, as Paddle counted them."""
    word, *numbers = line.split()
    assert word == "COUNTERS"
    return tuple(map(int, numbers))


def figures(window: Any) -> tuple[int, ...]:
    """The same of a window."""
    end = next(moment for moment in window.results["segments"].moments if moment.at == "end")
    peak = window.results["peak"]
    live = window.results["remaining"].live_bytes
    return live, peak.peak_bytes, end.reserved_bytes, peak.reserved_peak_bytes


# How a program ends: its own exit code, and a log that says where it was


def test_an_out_of_memory_failure_keeps_its_exit_code_and_the_verdict_names_it(
    paddle: RealPaddle, tmp_path: Path
) -> None:
    run = record(paddle, tmp_path, [str(paddle.train), "--steps", "3"], HOSTDEV_CAPACITY_MB="4")
    assert run.code == 1  # Python's for an exception that nothing catches
    assert "OSError: (External)  CustomDevice error" in run.text
    assert "OSError: (External)  CustomDevice error" in run.out  # passed on: the user sees the traceback
    assert "Ran out of memory at line" in run.said
    (failure,) = memlens.read(run.log).trust.ooms
    assert "CustomDevice error" in run.lines[failure.line - 1]


@contextmanager
def recording(
    paddle: RealPaddle, folder: Path, log: Path | str, *options: str, steps: int = 10**6, before: Any = None
) -> Iterator[Recording]:
    """A training loop that is being recorded and has made a few steps."""
    with (folder / "said").open("w+") as said:
        recorder = subprocess.Popen(
            command(paddle, log, [str(MARKED), "--steps", str(steps)], list(options)),
            env=environment(paddle, folder),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
            preexec_fn=before,  # noqa: PLW1509
        )
        try:
            yield Recording(recorder, said)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(recorder.pid, signal.SIGKILL)
            recorder.communicate(timeout=TIMEOUT)


@dataclass
class Recording:
    """One that goes on: the recorder, and where its stderr goes."""

    recorder: subprocess.Popen[str]
    said: IO[str]
    program: int = 0

    def until(self, mark: str) -> None:
        """Read what is passed on until a line is a mark."""
        assert self.recorder.stdout is not None
        for line in self.recorder.stdout:
            if line.startswith("PROCESS "):
                self.program = int(line.split()[1])
            if line.rstrip("\n") == mark:
                return
        raise AssertionError(f"no line {mark}: {self.read_said()}")

    def read_said(self) -> str:
        self.said.seek(0)
        return self.said.read()

    def end(self) -> int:
        """Wait for its end: the exit code."""
        self.recorder.communicate(timeout=TIMEOUT)
        return self.recorder.returncode


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_to_the_recorder_ends_the_program_as_it_would_alone(
    paddle: RealPaddle, tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "run.log.zst"
    with recording(paddle, tmp_path, log) as run:
        run.until("STEP 3")
        run.recorder.send_signal(number)
        assert run.end() == 128 + number
        said = run.read_said()
    text = text_of(log)
    assert ("KeyboardInterrupt" in text) == (
        number is signal.SIGINT
    )  # Python's own answer, in the log; SIGTERM has none
    assert number.name in said
    assert_log_is_whole(text)
    assert memlens.analyze(log).answer is not None


def test_a_killed_program_leaves_a_log_up_to_its_end(paddle: RealPaddle, tmp_path: Path) -> None:
    log = tmp_path / "run.log.zst"
    with recording(paddle, tmp_path, log) as run:
        run.until("STEP 3")
        os.kill(run.program, signal.SIGKILL)
        assert run.end() == 128 + signal.SIGKILL
        assert "SIGKILL" in run.read_said()
    assert_log_is_whole(text_of(log))


def test_a_killed_recorder_leaves_what_was_written_until_then_and_no_process(
    paddle: RealPaddle, tmp_path: Path
) -> None:
    log = tmp_path / "run.log.zst"
    with recording(paddle, tmp_path, log) as run:
        run.until("STEP 3")
        time.sleep(1.5)  # what is older than a second can be read in the file
        os.kill(run.recorder.pid, signal.SIGKILL)
        assert run.end() == -signal.SIGKILL
        gone = time.monotonic() + 20
        while Path(f"/proc/{run.program}").exists():  # the program's next line finds no reader
            assert time.monotonic() < gone, "the program goes on"
            time.sleep(0.05)
    text = text_of(log)
    assert_log_is_whole(text)
    assert "STEP 3\n" in text


def test_a_full_disk_ends_the_log_and_not_the_program(paddle: RealPaddle, tmp_path: Path) -> None:
    disk, kept = tmp_path / "disk", tmp_path / "kept.log.zst"
    disk.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount"]  # a disk that this command and its children see
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("no file system of its own can be mounted here")
    recorded = command(paddle, disk / "run.log.zst", [str(MARKED), "--steps", "100"], [])
    steps = f"mount -t tmpfs -o size=32k none {disk}; {shlex.join(recorded)}; code=$?; cp {disk}/run.log.zst {kept}; exit $code"
    run = run_to_its_end([*alone, "sh", "-c", steps], environment(paddle, tmp_path), tmp_path, kept)
    assert run.code == 0, run.said
    assert "the log ends early: No space left on device" in run.said
    assert (
        len(re.findall("^STEP ", run.out, re.MULTILINE)) == 100
    )  # the program went on, and all of its output is passed on
    assert kept.stat().st_size == 32 << 10
    assert "STEP 99" not in run.text
    assert_log_is_whole(run.text)


def test_a_log_that_may_grow_no_further_ends_there_and_not_the_program(paddle: RealPaddle, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    most = 50_000  # bytes of a file; the program's output goes through a pipe

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    with recording(paddle, tmp_path, log, steps=10, before=limit) as run:
        run.until("TRAINED")
        assert run.end() == 0
        assert "the log ends early: File too large" in run.read_said()
    assert log.stat().st_size == most
    assert_log_is_whole(log.read_text())


def assert_log_is_whole(text: str) -> None:
    """Up to its last mark no line is missing in a log, and none came twice: its events add up to Paddle's counters."""
    level = counts = 0
    for number, line in enumerate(text.splitlines()[:-1], 1):  # the last one may be cut short
        if event := re.search(r"\] (Alloc|Free) (\d+) bytes, ptr", line):
            level += int(event[2]) * (1 if event[1] == "Alloc" else -1)
        elif line.startswith("COUNTERS "):
            counts += 1
            assert level == counted(line)[0], f"line {number}"
    assert counts >= 10


# Several processes


def test_each_rank_of_a_launched_run_has_a_log_with_the_counters_of_its_own_device(
    paddle: RealPaddle, tmp_path: Path
) -> None:
    program = [
        "-m",
        "paddle.distributed.launch",
        "--devices",
        "0,1",
        str(paddle.train),
        "--dist",
        "--steps",
        "2",
        "--stats",
        "stats%r.json",
    ]
    run = record(paddle, tmp_path, program, HOSTDEV_COUNT="2")
    assert run.code == 0, run.said
    peaks = set()
    for rank in (0, 1):
        theirs = json.loads((tmp_path / f"stats{rank}.json").read_text())
        log = tmp_path / f"run.rank{rank}.log.zst"
        ours = memlens.analyze(log, end="FINAL MEMSTAT").logs[0].windows[0].results
        assert ours["remaining"].live_bytes == theirs["allocated"]
        assert ours["peak"].peak_bytes == theirs["allocated_peak"]
        assert ours["peak"].reserved_peak_bytes == theirs["reserved_peak"]
        assert memlens.read(log).trust.ok
        peaks.add(theirs["allocated_peak"])
    assert len(peaks) == 2  # the batch of rank 1 is larger
    assert "Alloc" not in run.text  # the launcher's own
    assert sorted(path.name for path in tmp_path.glob("*.zst")) == [
        "run.log.zst",
        "run.rank0.log.zst",
        "run.rank1.log.zst",
    ]


# What the preset must not do


def test_the_presets_variables_are_those_that_no_version_dies_of(paddle: RealPaddle, tmp_path: Path) -> None:
    show = "import os, paddle; print(os.environ['GLOG_vmodule'], os.environ['FLAGS_new_executor_sequential_run'], 'GLOG_v' in os.environ)"
    started = time.monotonic()
    run = record(paddle, tmp_path, ["-c", show])
    assert run.code == 0, run.said
    assert (
        time.monotonic() - started < TIMEOUT / 2
    )  # 3.3.1 hangs at exit where the variable is longer than 15 characters
    *_, (vmodule, sequential, level) = (line.split() for line in run.lines)
    assert len(vmodule) <= 15
    assert (sequential, level) == ("true", "False")
    assert "double free" not in run.text
    assert "corrupted" not in run.text
