"""No verb writes over what it reads, whatever the file is called, and a run that is killed leaves no half-written output."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import HERE, process

import memlens as package
from memlens.errors import UsageError

TEXT = (
    b"STEP 1 START\n"
    b"I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:169] Alloc 1024 bytes, ptr = 0x100\n"
    b"STEP 2 START\n"
    b"I0712 10:54:14.000003  1120 auto_growth_best_fit_allocator.cc:220] Free 1024 bytes, ptr = 0x100\n"
)
#: Each way in which a command can name an output, by what it is: INPUT is read, OUT is written and the same file.
COMMANDS = {
    "analyze": ["analyze", "INPUT", "-o", "OUT", "-f"],
    "analyze, the second log": ["analyze", "other.log", "INPUT", "-o", "OUT", "-f"],
    "slice": ["slice", "INPUT", "--start", "STEP 2", "-o", "OUT", "-f"],
    "diff, base": ["diff", "INPUT", "other.log", "-o", "OUT", "-f"],
    "diff, head": ["diff", "other.log", "INPUT", "-o", "OUT", "-f"],
    "compare": ["compare", "INPUT", "other.log", "-o", "OUT", "-f"],
    "compare, a template": ["compare", "{mode}.log", "-o", "OUT", "-f"],
    "gate": ["gate", "INPUT", "--budget", "peak=1GiB", "-o", "OUT", "-f"],
    "gate, JUnit": ["gate", "INPUT", "--budget", "peak=1GiB", "--junit", "OUT", "-f"],
    "gate, Markdown": ["gate", "INPUT", "--budget", "peak=1GiB", "--markdown", "OUT", "-f"],
    "gate, the earlier log": ["gate", "other.log", "--base", "INPUT", "--markdown", "OUT", "-f"],
    "gate, its baseline": ["gate", "INPUT", "--baseline", "OUT", "--accept"],
    "formats of users": ["analyze", "other.log", "--formats", "INPUT", "-o", "OUT", "-f"],
}


def plain(path: Path) -> str:
    return path.name


def dotted(path: Path) -> str:
    return f"./{path.name}"


def absolute(path: Path) -> str:
    return str(path)


def around(path: Path) -> str:
    (path.parent / "folder").mkdir()
    return f"folder/../{path.name}"


def symbolic(path: Path) -> str:
    (path.parent / "link").symlink_to(path.name)
    return "link"


def hard(path: Path) -> str:
    os.link(path, path.parent / "same.txt")
    return "same.txt"


@pytest.fixture
def run_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.log").write_bytes(TEXT)
    path = tmp_path / "run.log"
    path.write_bytes(TEXT)
    return path


@pytest.mark.parametrize("name", [plain, dotted, absolute, around, symbolic, hard])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_is_never_an_input(memlens: Any, run_log: Path, command: str, name: Callable[[Path], str]) -> None:
    named = {"INPUT": "run.log", "OUT": name(run_log)}
    ran = memlens(*(named.get(word, word) for word in COMMANDS[command]))
    assert (ran.code, ran.out) == (2, "")
    assert f"{named['OUT']} is " in ran.err
    assert "an input of this command" in ran.err
    assert run_log.read_bytes() == TEXT


@pytest.mark.parametrize("option", ["--markdown", "--junit", "-o"])
def test_a_baseline_is_an_input_of_the_gate(memlens: Any, run_log: Path, option: str) -> None:
    assert memlens("gate", run_log, "--baseline", "memory.json", "--accept", "--no-trust").code == 0
    before = Path("memory.json").read_bytes()
    ran = memlens("gate", run_log, "--baseline", "memory.json", option, "./memory.json", "-f")
    assert ran.code == 2
    assert "an input of this command" in ran.err
    assert Path("memory.json").read_bytes() == before


def test_the_file_that_formats_are_looked_for_in_is_an_input(memlens: Any, run_log: Path) -> None:
    Path("pyproject.toml").write_text("[tool.other]\n")
    assert memlens("analyze", run_log, "-o", "pyproject.toml", "-f").code == 2
    assert Path("pyproject.toml").read_text() == "[tool.other]\n"


@pytest.mark.parametrize("name", [plain, dotted, symbolic, hard])
def test_the_summary_of_a_job_is_no_input_either(
    memlens: Any, run_log: Path, monkeypatch: pytest.MonkeyPatch, name: Callable[[Path], str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", name(run_log))
    ran = memlens("gate", "run.log", "--budget", "peak=1GiB", "--github")
    assert (ran.code, ran.out) == (2, "")
    assert "an input of this command" in ran.err
    assert run_log.read_bytes() == TEXT
    assert memlens("gate", "run.log", "--budget", "peak=1GiB", "--no-trust").code == 0  # nothing is written there


def test_the_summary_of_a_job_is_no_other_output(memlens: Any, run_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "./comment.md")
    ran = memlens("gate", run_log, "--budget", "peak=1GiB", "--github", "--markdown", "comment.md")
    assert ran.code == 2
    assert "two outputs go to one file" in ran.err
    assert not Path("comment.md").exists()


def test_a_log_named_by_a_url_of_this_machine_is_not_written_over(memlens: Any, run_log: Path) -> None:
    assert memlens("analyze", f"file://{run_log}", "-o", run_log, "-f").code == 2
    assert run_log.read_bytes() == TEXT


def test_a_log_on_stdin_is_not_written_over(run_log: Path) -> None:
    with run_log.open("rb") as stdin:
        ran = process("slice", "-", "-o", run_log, "-f", stdin=stdin)
    assert ran.returncode == 2
    assert "an input of this command" in ran.stderr
    assert run_log.read_bytes() == TEXT


def test_a_slice_is_not_appended_to_the_log_that_it_is_cut_from(run_log: Path) -> None:
    with run_log.open("ab") as stdout:
        ran = process("slice", run_log, capture_output=False, stdout=stdout, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert "stdout is" in ran.stderr
    assert run_log.read_bytes() == TEXT


def test_functions_that_write_refuse_their_input_too(run_log: Path) -> None:
    with pytest.raises(UsageError, match="an input of this command"):
        package.slice("run.log", output=Path("./run.log"), force=True)
    with run_log.open("rb") as stream, pytest.raises(UsageError, match="an input of this command"):
        package.slice(stream, output=hard(run_log), force=True)
    for given in ("run.log", package.read(run_log)):
        with pytest.raises(UsageError, match="an input of this command"):
            package.accept(given, symbolic(run_log) if given == "run.log" else "link")
    assert run_log.read_bytes() == TEXT


def test_of_runs_that_write_one_output_at_once_each_writes_it_whole(tmp_path: Path) -> None:
    code = (
        "import sys; from memlens.output import open_output\n"
        "for _ in range(60):\n"
        "    with open_output(sys.argv[1], force=True) as out:\n"
        "        out.write(b'whole')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out.txt")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | HERE) for _ in range(4)]
    errors = [process.communicate(timeout=60)[1] for process in running]
    assert errors == [b""] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert (tmp_path / "out.txt").read_bytes() == b"whole"


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_verb_that_is_killed_while_it_writes_leaves_no_output_and_is_in_nobodys_way(
    memlens: Any, run_log: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "memlens", "slice", "-", "-o", "cut.log", "--start", "STEP 1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | HERE) as process:
        assert process.stdin is not None
        process.stdin.write(TEXT * 2000)  # more than is looked at to tell the format, and no end: it waits for more
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not [*tmp_path.glob(".cut.log.*.part")] and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.communicate()
    assert not (tmp_path / "cut.log").exists()
    assert memlens("slice", run_log, "-o", "cut.log").code == 0
    assert (tmp_path / "cut.log").read_bytes() == TEXT
