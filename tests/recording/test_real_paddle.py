"""``memlens record`` of real PaddlePaddle: the figures of a log that it recorded are Paddle's own counters in the same run.

Paddle computes on a device whose memory is host memory; the allocators above it, their log and their counters are Paddle's.  Runs where
``MEMLENS_PADDLE`` names interpreters that have paddlepaddle, separated as a PATH is.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from real_paddle import MARKED, TIMEOUT, RealPaddle, counted, environment, record
from real_paddle import run as run_command

import memlens

pytestmark = pytest.mark.paddle

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


def figures(window: Any) -> tuple[int, ...]:
    """The same of a window."""
    end = next(moment for moment in window.results["segments"].moments if moment.at == "end")
    peak = window.results["peak"]
    live = window.results["remaining"].live_bytes
    return live, peak.peak_bytes, end.reserved_bytes, peak.reserved_peak_bytes


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


# The marker of pytest

MARKED_TESTS = """
import pytest, paddle
paddle.set_device("hostdev")
carried_in = paddle.ones([1024])  # 4 KiB
kept = []

@pytest.fixture(autouse=True)
def nothing_kept():
    kept.clear()

def needs():
    passing = paddle.ones([4096])  # 16 KiB
    del passing
    kept.append(paddle.ones([2048]))  # 8 KiB

@pytest.mark.memlens(peak="20480 B", growth="8192 B")
def test_within():
    needs()

@pytest.mark.memlens(peak="20479 B")
def test_peak():
    needs()

@pytest.mark.memlens(growth="8191 B")
def test_growth():
    needs()
"""


def test_the_marker_judges_by_paddles_own_statistics(paddle: RealPaddle, tmp_path: Path) -> None:
    """The sizes are multiples of Paddle's 256 bytes, so that nothing is added to them."""
    (tmp_path / "test_of_a_user.py").write_text(MARKED_TESTS)
    # pytest is not installed beside Paddle: that of this process goes to the end of the path, behind Paddle's own packages.
    start = f"import sys; sys.path.append({str(Path(pytest.__file__).parents[1])!r}); import pytest; sys.exit(pytest.main())"
    variables = environment(
        paddle, tmp_path, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTEST_PLUGINS="memlens.recording.pytest_plugin"
    )
    run = run_command([paddle.python, "-c", start], variables, tmp_path, tmp_path)
    where = "device 0 by the statistics of Paddle"
    assert run.code == 1, run.said
    assert "2 failed, 1 passed" in run.out
    assert f"1 B over the limit of 20.00 KiB (20,479 B); 4.00 KiB (4,096 B) of it carried in: {where}" in run.out
    assert f"8.00 KiB (8,192 B) are left behind, where the limit is 8.00 KiB (8,191 B): {where}" in run.out
