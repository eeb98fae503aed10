"""How a recorded program that uses real PaddlePaddle ends: its own exit code, and a log that is whole up to its end, whatever ends it."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest
from night import NIGHT
from real_paddle import MARKED, TIMEOUT, RealPaddle, command, counted, environment, record, text_of
from real_paddle import run as run_command

import memlens

pytestmark = [pytest.mark.paddle, pytest.mark.changed("recording")]


def test_an_out_of_memory_failure_keeps_its_exit_code_and_the_verdict_names_it(
    paddle: RealPaddle, tmp_path: Path
) -> None:
    run = record(paddle, tmp_path, [str(paddle.train), "--steps", "3"], HOSTDEV_CAPACITY_MB="4")
    assert run.code == 1  # Python's for an exception that nothing catches
    assert "OSError: (External)  CustomDevice error" in run.text
    assert "OSError: (External)  CustomDevice error" in run.out  # passed on: the user sees the traceback
    assert "Ran out of memory at line" in run.said
    trust = memlens.read(run.log).trust
    failure, _ = trust.ooms  # what the recorder says of it, and the traceback
    assert trust.distinct_ooms == 1
    assert failure.message_line is not None
    assert "CustomDevice error" in run.lines[failure.message_line - 1]
    assert f"Allocate {failure.asked_bytes} bytes" in run.lines[failure.line - 1]
    assert f"line {failure.line:,}: " in " ".join(run.said.split())


def test_a_failure_that_the_program_catches_and_says_nothing_of_is_in_the_verdict(
    paddle: RealPaddle, tmp_path: Path
) -> None:
    program = (
        "import paddle\npaddle.set_device('hostdev')\nx = paddle.ones([256, 256])\n"
        "try: paddle.ones([4096, 256])\nexcept Exception: pass\ny = [x + 1.0 for _ in range(9)]\n"
    )
    run = record(paddle, tmp_path, ["-c", program], HOSTDEV_CAPACITY_MB="4")
    assert run.code == 0
    assert "Traceback" not in run.text
    (failure,) = memlens.read(run.log).trust.ooms
    assert failure.asked_bytes == 4096 * 256 * 4
    assert "and went on" in " ".join(run.said.split())


@contextmanager
def recording(
    paddle: RealPaddle,
    folder: Path,
    log: Path | str,
    *options: str,
    steps: int = 10**6,
    first: str = "",
    stdin: int = subprocess.DEVNULL,
) -> Iterator[Recording]:
    """A training loop that is being recorded, in a session of its own, in which some Python is run first."""
    words = command(paddle, log, [str(MARKED), "--steps", str(steps)], list(options))
    with (folder / "said").open("w+") as said:
        recorder = subprocess.Popen(
            [sys.executable, "-c", f"import os, sys\n{first}\nos.execv(sys.argv[1], sys.argv[1:])", *words],
            env=environment(paddle, folder),
            cwd=folder,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
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


@pytest.mark.night  # by day of programs without Paddle: test_record
@pytest.mark.parametrize("number", [signal.SIGTERM, *[signal.SIGINT] * NIGHT], ids=lambda number: number.name)
def test_a_signal_to_the_recorder_ends_the_program_as_it_would_alone(
    counting: RealPaddle, tmp_path: Path, number: signal.Signals
) -> None:
    log = tmp_path / "run.log.zst"
    with recording(counting, tmp_path, log) as run:
        run.until("STEP 3")
        run.recorder.send_signal(number)
        assert run.end() == 128 + number
        said = run.read_said()
    text = text_of(log)
    assert text.splitlines().count("KeyboardInterrupt") == (
        number is signal.SIGINT
    )  # Python's own answer; SIGTERM has none
    assert number.name in said
    assert_log_is_whole(text)
    assert memlens.analyze(log).answer is not None


@pytest.mark.night  # by day of programs without Paddle: test_record
def test_ctrl_c_in_a_terminal_interrupts_the_program_once(counting: RealPaddle, tmp_path: Path) -> None:
    log = tmp_path / "run.log.zst"
    leader, follower = pty.openpty()
    take_the_terminal = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)"
    try:
        with recording(counting, tmp_path, log, first=take_the_terminal, stdin=follower) as run:
            run.until("STEP 3")
            os.write(leader, b"\x03")
            assert run.end() == 128 + signal.SIGINT
    finally:
        os.close(leader)
        os.close(follower)
    text = text_of(log)
    assert text.splitlines().count("KeyboardInterrupt") == 1
    assert_log_is_whole(text)


@pytest.mark.night  # by day of programs without Paddle: test_record
def test_a_killed_program_leaves_a_log_up_to_its_end(counting: RealPaddle, tmp_path: Path) -> None:
    log = tmp_path / "run.log.zst"
    with recording(counting, tmp_path, log) as run:
        run.until("STEP 3")
        os.kill(run.program, signal.SIGKILL)
        assert run.end() == 128 + signal.SIGKILL
        assert "SIGKILL" in run.read_said()
    assert_log_is_whole(text_of(log))


@pytest.mark.night  # by day a log that may grow no further, and a full disk under a program without Paddle
def test_a_full_disk_ends_the_log_and_not_the_program(counting: RealPaddle, tmp_path: Path) -> None:
    disk, kept = tmp_path / "disk", tmp_path / "kept.log.zst"
    disk.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount"]  # a disk that this command and its children see
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("no file system of its own can be mounted here")
    recorded = command(counting, disk / "run.log.zst", [str(MARKED), "--steps", "100"], [])
    steps = f"mount -t tmpfs -o size=32k none {disk}; {shlex.join(recorded)}; code=$?; cp {disk}/run.log.zst {kept}; exit $code"
    run = run_command([*alone, "sh", "-c", steps], environment(counting, tmp_path), tmp_path, kept)
    assert run.code == 0, run.said
    assert "the log ends early: No space left on device" in run.said
    assert (
        len(re.findall("^STEP ", run.out, re.MULTILINE)) == 100
    )  # the program went on, and all of its output is passed on
    assert kept.stat().st_size == 32 << 10
    assert "STEP 99" not in run.text
    assert_log_is_whole(run.text)


def test_a_log_that_may_grow_no_further_ends_there_and_not_the_program(counting: RealPaddle, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    most = 100_000  # bytes of a file; the program's output goes through a pipe

    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))"
    with recording(counting, tmp_path, log, steps=10, first=limit) as run:
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
