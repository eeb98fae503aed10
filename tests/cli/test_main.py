"""What holds for every verb: help, exit codes, errors in words, quiet ends."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from commands import HERE, process

import memlens as package
from memlens import cli
from memlens.errors import InputError


@pytest.mark.parametrize("verb", cli.VERBS)
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_of_each_verb_has_examples(memlens: Any, verb: str, option: str) -> None:
    ran = memlens(verb, option, columns=80)
    assert ran.code == 0
    assert max(map(len, ran.out.splitlines())) <= 80
    assert "Examples:" in ran.out
    assert f"  memlens {verb} " in ran.out


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_is_a_command_with_a_python_twin(verb: str) -> None:
    command = importlib.import_module(f"memlens.cli.verbs.{verb}").command
    assert isinstance(command, click.Command)
    assert command.name == verb
    assert callable(getattr(package, verb))


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], {"numpy", "pandas", "rich", "zstandard", "asyncio"}),
        (["analyze", "{logs}/leak.log.gz"], {"pandas", "rich", "numpy.ma"}),
        (["analyze", "{logs}/case1_pir.log", "--format", "json"], {"pandas", "rich", "numpy.ma"}),
    ],
)
def test_help_imports_nothing_heavy_and_an_analysis_into_a_pipe_little(
    examples: Path, arguments: list[str], heavy: set[str]
) -> None:
    words = [argument.format(logs=examples) for argument in arguments]
    code = (
        f"import sys; from memlens.cli import main; main({words}); import memlens; "
        f"heavy = {heavy} & set(sys.modules); sys.exit(f'heavy: {{heavy}}' if heavy else 0)"
    )
    ran = process("-c", code, python="")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [["analyse"], ["analyze"], ["analyze", "--no-such-option", "x"], ["analyze", "x", "--top", "-1"], ["--what"]],
)
def test_wrong_usage_is_exit_code_2_with_a_way_to_help(memlens: Any, arguments: list[str]) -> None:
    ran = memlens(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "help" in ran.err


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["run.log"], "memlens analyze run.log"),
        (["a log/run.txt", "--top", "3"], "memlens analyze 'a log/run.txt' --top 3"),
        (["s3://bucket/run", "--by", "STEP"], "memlens analyze s3://bucket/run --by STEP"),
        (["analyses.log"], "memlens analyze analyses.log"),
        (["-", "--format", "json"], "memlens analyze - --format json"),
        (["analyse", "run.log"], "memlens analyze run.log"),
        (["Diff", "a", "b"], "memlens diff a b"),
        (["compre", "a", "b"], "memlens compare a b"),
        (["format"], "memlens formats"),
    ],
)
def test_who_names_no_verb_is_told_which_one_was_meant(memlens: Any, arguments: list[str], meant: str) -> None:
    ran = memlens(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(f"Did you mean: {meant}\n")


def test_an_option_that_comes_before_the_verb_is_told_where_it_belongs(memlens: Any) -> None:
    ran = memlens("-o", "my report.txt", "run.log")
    assert (ran.code, ran.out) == (2, "")
    assert "No such option '-o' before a command" in ran.err
    assert "memlens analyze -o 'my report.txt' run.log" in " ".join(ran.err.split())
    assert "memlens diff --by x a b" in memlens("--by", "x", "diff", "a", "b").err
    ran = memlens("--versoin")
    assert "--version" in ran.err
    assert "analyze" not in ran.err


def test_a_file_is_a_log_whatever_it_is_called(memlens: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workerlog").write_text("x")
    assert "Did you mean: memlens analyze workerlog" in memlens("workerlog").err


@pytest.mark.parametrize("name", ["frobnicate", "x\x1b[31m"])
def test_no_guess_is_made_where_nothing_is_near_and_no_name_is_obeyed(memlens: Any, name: str) -> None:
    ran = memlens(name)
    assert ran.code == 2
    assert "Did you mean" not in ran.err
    assert "\x1b" not in ran.err


class Verb:
    """A verb that fails in a given way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def raising(self, error: BaseException) -> None:
        def fail() -> None:
            raise error

        self.monkeypatch.setattr(cli.group, "get_command", lambda _context, name: click.Command(name, callback=fail))

    def giving(self, code: int | None) -> None:
        command = click.Command("verb", callback=lambda: code)
        self.monkeypatch.setattr(cli.group, "get_command", lambda _context, _name: command)


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Verb:
    return Verb(monkeypatch)


def test_an_error_is_a_message_and_a_hint_without_control_characters(memlens: Any, verb: Verb) -> None:
    verb.raising(InputError("a\x1b[31m.log: no", "Do this.\nThen that."))
    ran = memlens("verb")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "memlens: error: a\\x1b[31m.log: no\n  Do this.\n  Then that.\n"


@pytest.mark.parametrize(("given", "code"), [(None, 0), (0, 0), (3, 3)])
def test_a_verb_decides_its_exit_code(memlens: Any, verb: Verb, given: int | None, code: int) -> None:
    verb.giving(given)
    assert memlens("verb").code == code


def _hidden() -> RuntimeError:
    """As Python 3.11 raises it where Ctrl-C comes while a class is made."""
    error = RuntimeError("Error calling __set_name__ on 'cached_property' instance 'windows' in 'Comparison'")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), _hidden()])
def test_ctrl_c_is_130_without_a_traceback(memlens: Any, verb: Verb, error: BaseException) -> None:
    verb.raising(error)
    ran = memlens("verb")
    assert (ran.code, ran.err) == (130, "memlens: interrupted\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (ZeroDivisionError(), "this is a bug in memlens; please report it"),
        (MemoryError(), "not enough memory"),
    ],
)
def test_an_error_nobody_thought_of_is_said_to_be_a_bug_and_too_little_memory_is_not(
    memlens: Any, verb: Verb, error: BaseException, said: str
) -> None:
    verb.raising(error)
    ran = memlens("verb")
    assert ran.code == 1
    assert said in ran.err
    assert ("Traceback" in ran.err) == isinstance(error, ZeroDivisionError)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX pipe")
@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "{log}"], ["analyze", "{log}", "--format", "json"]])
def test_a_closed_pipe_ends_quietly(small_log: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        options: dict[str, Any] = {"capture_output": False, "stdout": writing, "stderr": subprocess.PIPE}
        ran = process(*(argument.format(log=small_log) for argument in arguments), **options)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["analyze", "{log}"], ["formats"], ["gate", "--help"]], ids=" ".join)
def test_a_full_disk_is_said_in_words(small_log: Path, arguments: list[str]) -> None:
    given = [argument.format(log=small_log) for argument in arguments]
    with Path("/dev/full").open("w") as full:
        ran = process(*given, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 1
    assert ran.stderr.startswith("memlens: error: cannot write to stdout")
    assert "Traceback" not in ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("analyze {log} >&-", 1, "memlens: error: cannot write to stdout"),
        ("formats >&-", 1, "memlens: error: cannot write to stdout"),
        ("analyze - <&-", 1, "memlens: error: -: cannot be read"),
        ("slice - <&-", 1, "memlens: error: -: cannot be read"),
        ("analyze no.log 2>&-", 1, ""),
        ("analyze {log} -o report.txt <&- >&- 2>&-", 0, ""),
    ],
)
def test_a_stream_that_the_shell_closed_is_no_reason_for_a_traceback(
    small_log: Path, tmp_path: Path, command: str, code: int, said: str
) -> None:
    ran = subprocess.run(
        ["sh", "-c", f'exec "$0" -m memlens {command.format(log=small_log)}', sys.executable],
        env=os.environ | HERE,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code
    assert ran.stderr.startswith(said)
    assert "Traceback" not in ran.stderr
    assert (tmp_path / "report.txt").exists() == ("-o" in command)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_ctrl_c_while_reading_ends_with_130(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, time, threading; from memlens.cli import main\n"
        "threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "sys.exit(main(['analyze', '-', '-o', sys.argv[1]]))"
    )
    target = tmp_path / "out.txt"
    ran = subprocess.Popen(  # stdin stays open, so that the reader waits
        [sys.executable, "-c", code, str(target)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | HERE,
        text=True,
    )
    try:
        ran.wait(60)
        assert ran.stderr is not None
        err = ran.stderr.read()
    finally:
        ran.kill()
        for stream in (ran.stdin, ran.stderr):
            if stream is not None:
                stream.close()
    assert ran.returncode == 128 + signal.SIGINT
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
