"""Anchors that a program prints: whole lines in their order, and the same marks in traces and snapshots."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch_programs import Programs

import memlens


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


def test_a_stderr_that_is_closed_fails_nothing(programs: Programs) -> None:
    done = programs.run("import os, memlens\nos.close(2)\nmemlens.mark('x')\nprint('runs')", path=(programs.source,))
    assert (done.returncode, done.stdout) == (0, "runs\n")


def test_a_program_that_marks_its_log_needs_nothing_but_python(tmp_path: Path) -> None:
    """The programs that are recorded run in environments of their own, without what memlens needs."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "memlens").symlink_to(Path(memlens.__file__).parent)
    # The plug-in of pytest reads and writes sizes there.
    text = (
        "import sys; from memlens import mark, record_torch, window; mark('A')\nwith window('B'): pass\n"
        "from memlens.text import format_bytes, parse_bytes\nprint('msgspec' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", text],
        env={"PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "False\n"), ran.stderr
    assert ran.stderr.splitlines() == ["A", "START B", "END B"]
