"""The memory history of Paddle, recorded from outside: with a stand-in for a Paddle that has it, and a device.

What Paddle itself does on a device is not shown here; the real Paddle has no memory history before August 2026.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from typing import Any

import pytest
from commands import process
from torch_programs import STARTUP, Programs, ended_by

import memlens
from memlens.recording.presets import settings

FLAG = "FLAGS_use_virtual_memory_auto_growth"
USES = "import paddle\nkept = paddle.alloc(1000)\npassing = paddle.alloc(500); passing.free()\n"


def recorded(programs: Programs, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return programs.recorded(text, of="paddle", **{FLAG: "1", **variables})


def trace(programs: Programs, name: str = "run.pickle") -> list[dict[str, Any]]:
    with (programs.folder / name).open("rb") as file:
        return list(pickle.load(file)["device_traces"][0])


#: How a program ends, what it returns, and which snapshots it leaves.
ENDS = {
    "at its end": ("", 0, ["run.pickle"]),
    "by sys.exit": ("import sys; sys.exit(7)", 7, ["run.pickle"]),
    "by an exception": ("1 / 0", 1, ["run.pickle"]),
    "without memory": ("paddle.alloc(2_000_000)", 1, ["run.pickle"]),
    "by SIGTERM": ("import os; os.kill(os.getpid(), 15)", ended_by(signal.SIGTERM), ["run.pickle"]),
    "by SIGINT": ("import os; os.kill(os.getpid(), 2)", ended_by(signal.SIGINT), ["run.pickle"]),
    "by SIGKILL": ("import os; os.kill(os.getpid(), 9)", ended_by(signal.SIGKILL), []),
    "by os._exit": ("import os; os._exit(5)", 5, []),
}


@pytest.mark.parametrize(("end", "code", "files"), ENDS.values(), ids=ENDS)
def test_a_program_ends_as_it_does_unrecorded_and_leaves_its_history(
    programs: Programs, end: str, code: int, files: list[str]
) -> None:
    alone = programs.run(USES + end, path=(programs.stand_in("paddle"),))
    done = recorded(programs, USES + end)
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert done.returncode == code
    assert programs.files == files
    for name in files:  # blocks are of 1024 and 512 bytes
        results = memlens.analyze(programs.folder / name).logs[0].windows[0].results
        assert (results["peak"].peak_bytes, results["remaining"].live_bytes) == (1536, 1024)


def test_it_asks_for_the_latest_entries_with_their_stacks(programs: Programs) -> None:
    done = recorded(programs, "import paddle; print(paddle.calls)")
    assert (done.stdout, done.stderr) == ("[('record', 'all', 'all', 1000000)]\n", "")
    assert programs.files == []  # nothing was allocated
    done = recorded(programs, USES, MEMLENS_PADDLE_ENTRIES="2", MEMLENS_PADDLE_STACKS="none")
    assert [entry["action"] for entry in trace(programs)] == ["free_requested", "free_completed"]
    done = recorded(programs, USES, MEMLENS_PADDLE_STACKS="python")
    assert done.stderr == (
        "memlens: not recording in this process: ValueError: MEMLENS_PADDLE_ENTRIES is at least 1,"
        " and MEMLENS_PADDLE_STACKS one of all, none\n"
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("", "no CUDA device"),
        (
            "del paddle.device.cuda._record_memory_history",
            "Paddle 3.4.0+standin has no paddle.device.cuda._record_memory_history, which came in August 2026",
        ),
        (
            "paddle.is_compiled_with_cuda = lambda: False",
            "no CUDA device: this build of Paddle, 3.4.0+standin, is one without CUDA",
        ),
        (
            "paddle.is_compiled_with_rocm = lambda: True",
            "no CUDA device: this build of Paddle, 3.4.0+standin, is one without CUDA",
        ),
    ],
)
def test_what_is_missing_is_said_in_one_line_and_once(programs: Programs, change: str, says: str) -> None:
    module = programs.stand_in("paddle") / "paddle" / "__init__.py"
    module.write_text(f"{module.read_text()}\npaddle = sys.modules['paddle']\n{change}\n")
    program = "import subprocess, sys, paddle\nsubprocess.run([sys.executable, '-c', 'import paddle; print(1)'])\n"
    asked = '{"paddle": {"output": "run.pickle", "of": "paddle"}}'
    devices = {} if change else {"STAND_IN_DEVICES": "0"}
    done = programs.run(program, path=(STARTUP, module.parents[1]), MEMLENS_RECORD=asked, **{FLAG: "1", **devices})
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "1\n",
        f"memlens: {says}; no memory history is recorded\n",
    )
    assert programs.files == []


def test_what_paddle_refuses_is_said_and_the_program_goes_on(programs: Programs) -> None:
    done = recorded(programs, USES + "print('goes on')", **{FLAG: "0"})
    assert (done.returncode, done.stdout) == (0, "goes on\n")
    assert (
        done.stderr
        == f"memlens: the memory history is not recorded: RuntimeError: GPU memory history recording needs {FLAG}=1\n"
    )
    assert programs.files == []


def test_ranks_are_named_and_children_write_nothing_of_their_parents(programs: Programs) -> None:
    recorded(programs, USES, PADDLE_TRAINER_ID="3")
    recorded(programs, USES + "import os, sys\nif os.fork() == 0: sys.exit(0)\nos.wait()\n")
    assert programs.files == ["run.pickle", "run.rank3.pickle"]


def test_marks_are_annotations_by_which_the_run_is_cut(programs: Programs) -> None:
    text = (
        "import paddle, memlens\npaddle.alloc(1)\nfor step in range(3):\n    memlens.mark(f'STEP {step}')\n"
        "    with memlens.window('forward'): kept = paddle.alloc(256)\n"
    )
    asked = f'{{"paddle": {{"output": "{programs.folder}/run.pickle", "of": "paddle"}}}}'
    path = (STARTUP, programs.source, programs.stand_in("paddle"))
    done = programs.run(text, path=path, MEMLENS_RECORD=asked, **{FLAG: "1"})
    marks = [f"{text}" for step in range(3) for text in (f"STEP {step}", "START forward", "END forward")]
    assert done.stderr.splitlines() == marks
    log = memlens.read(programs.folder / "run.pickle")
    assert [mark.text for mark in log.marks or ()] == marks
    assert [window.name for window in log.windows(r"STEP (\d)")] == ["(before)", "0", "1", "2"]


def test_the_preset_sets_what_paddle_needs() -> None:
    made = settings("paddle-history", [], {}, "{}")
    assert made.environment[FLAG] == "1"
    assert "GLOG_vmodule" not in made.environment
    assert "Paddle tells nobody that memory ran out" in made.shown[-1]
    assert settings("paddle-history", [], {FLAG: "0"}, "{}").environment[FLAG] == "0"


def test_the_command_writes_the_history_and_says_what_it_says(programs: Programs) -> None:
    (programs.folder / "program.py").write_text(USES)
    options = ("--preset", "paddle-history", "-o", "run.pickle", "--env", f"PYTHONPATH={programs.stand_in('paddle')}")
    done = process("record", *options, "--", sys.executable, "program.py", cwd=programs.folder)
    assert done.returncode == 0, done.stderr
    assert f"set {FLAG}=1: " in done.stderr
    assert programs.files == ["run.pickle"]
    assert memlens.analyze(programs.folder / "run.pickle").answer.sentences[0] in done.stderr
    again = process("record", *options, "-f", "--", sys.executable, "-c", "", cwd=programs.folder)
    assert "no snapshot was written: no process used CUDA by a Paddle that records it" in again.stderr
    assert programs.files == []
