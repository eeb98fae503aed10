"""Anchors that a program prints: whole lines in their order, and the same marks in traces and snapshots."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch_programs import Programs, real_torch

import memlens


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


def printed(programs: Programs, text: str) -> list[str]:
    """The lines of a program whose stdout and stderr go into one file, as ``> log 2>&1`` has it."""
    (programs.folder / "program.py").write_text(text)
    with (programs.folder / "run.log").open("wb") as log:
        subprocess.run(
            [sys.executable, "program.py"],
            cwd=programs.folder,
            env={"PYTHONPATH": str(programs.source)},
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=True,
        )
    return (programs.folder / "run.log").read_text().splitlines()


def test_anchors_stand_where_they_were_printed_among_buffered_output(programs: Programs) -> None:
    lines = printed(
        programs,
        "import memlens, sys\n"
        "print('out 1'); memlens.mark('STEP 1')\n"
        "with memlens.window('forward'):\n"
        "    sys.stderr.write('err 2\\n'); print('out 2')\n"
        "print('out 3')\n",
    )
    assert lines == ["out 1", "STEP 1", "START forward", "err 2", "out 2", "END forward", "out 3"]


def test_text_is_one_line_whatever_it_holds(programs: Programs) -> None:
    hostile = "a\nb\rc\x1b[31md\x00e\u2028f\u202eg\ud800h \N{GREEK SMALL LETTER BETA}"
    assert printed(programs, f"import memlens; memlens.mark({hostile!r})") == ["a b c [31md e f g h β"]
    assert printed(programs, "import memlens; memlens.mark(7)") == ["7"]  # no reason to fail a training


def test_an_anchor_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of several threads and processes stay whole because of it."""
    written: list[tuple[int, bytes]] = []

    def write(number: int, data: bytes) -> int:
        written.append((number, data))
        return len(data)

    monkeypatch.setattr("memlens.recording.marks.os.write", write)
    with memlens.window("x"):
        memlens.mark("y" * 5000)
    assert written == [(2, b"START x\n"), (2, b"y" * 5000 + b"\n"), (2, b"END x\n")]


def test_a_window_ends_when_an_exception_passes_and_decorates_functions(programs: Programs) -> None:
    lines = printed(
        programs,
        "import memlens\n"
        "@memlens.window('f')\n"
        "def f(): raise KeyError\n"
        "for _ in range(2):\n"
        "    try: f()\n"
        "    except KeyError: print('caught')\n",
    )
    assert lines == ["START f", "END f", "caught"] * 2


@pytest.mark.parametrize("stream", ["None", "io.StringIO()", "open(os.devnull)", "object()"])
def test_stand_ins_for_the_streams_change_nothing(programs: Programs, stream: str) -> None:
    assert printed(
        programs, f"import io, os, sys, memlens\nsys.stdout = sys.stderr = {stream}\nmemlens.mark('x')\nsys.stdout, sys.stderr = sys.__stdout__, None\n"
    ) == ["x"]  # fmt: skip


def test_a_stderr_that_is_closed_fails_nothing(programs: Programs) -> None:
    done = programs.run("import os, memlens\nos.close(2)\nmemlens.mark('x')\nprint('runs')", path=(programs.source,))
    assert (done.returncode, done.stdout) == (0, "runs\n")


def test_marks_import_nothing_that_takes_time(programs: Programs) -> None:
    done = programs.run(
        "import sys, memlens\nmemlens.mark('x')\n"
        "print(*{name.partition('.')[0] for name in sys.modules} & {'numpy', 'pandas', 'rich', 'click', 'torch', 'paddle'})",
        path=(programs.source,),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "x\n")


TRAINS = """
import sys, torch, memlens
torch.set_num_threads(1)
kept = []
with torch.profiler.profile(profile_memory=True) as profiled:
    for step in range(5):
        memlens.mark(f"STEP {step}")
        with memlens.window("forward"):
            kept.append(torch.zeros(1000 * (step + 1)))
            torch.zeros(500)
        torch.zeros(70)
profiled.export_chrome_trace("trace.json")
"""


@pytest.mark.torch
def test_marks_cut_a_real_trace_of_the_profiler_as_they_cut_a_log(programs: Programs) -> None:
    """Sizes by arithmetic: a float has four bytes, and CPU memory is what was asked for."""
    done = programs.run(TRAINS, python=real_torch(), path=(programs.source,))
    assert done.returncode == 0, done.stderr
    trace = programs.folder / "trace.json"
    log = memlens.analyze(trace, by=r"STEP (\d+)").logs[0]
    windows = [one for one in log.windows if one.name != "(before)"]
    assert [one.name for one in windows] == ["0", "1", "2", "3", "4"]
    assert [one.results["remaining"].remaining_bytes for one in windows] == [4000 * (step + 1) for step in range(5)]
    for step in range(5):
        one = memlens.analyze(trace, start="START forward", end="END forward", nth=step + 1).logs[0].windows[0]
        stats = one.results["stats"]
        assert (stats.alloc_bytes, stats.free_bytes) == (4000 * (step + 1) + 2000, 2000)
    anchors = [line for line in done.stderr.splitlines() if line.startswith(("STEP", "START", "END"))]
    assert anchors == [line for step in range(5) for line in (f"STEP {step}", "START forward", "END forward")]
