"""Completion in shells: verbs, options, values of options, and files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import HERE

from memlens.analyzers.registry import names
from memlens.claims.roles import ROLES
from memlens.cli import VERBS, main
from memlens.reports.tables import sort_names
from memlens.summarizing.figures import METRICS

ROOT = Path(__file__).resolve().parents[2]
Ask = Callable[..., list[str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """What is offered for the last of some words, as ``type,value``."""

    def run(*words: str, shell: str = "bash") -> list[str]:
        position = words[-1] if shell == "fish" else str(len(words))
        monkeypatch.setenv("_MEMLENS_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(["memlens", *words]))
        monkeypatch.setenv("COMP_CWORD", position)
        assert main([]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return [line for line in captured.out.splitlines() if line]

    yield run
    monkeypatch.delenv("_MEMLENS_COMPLETE", raising=False)


def plain(*values: str) -> list[str]:
    return [f"plain,{value}" for value in values]


def test_verbs_and_options_are_offered(ask: Ask) -> None:
    assert ask("") == plain(*VERBS)
    assert ask("an") == plain("analyze")
    assert ask("-") == plain("-V", "--version", "-h", "--help")
    assert ask("diff", "--base-s") == plain("--base-start", "--base-start-regex")
    assert ask("analyze", "run.log", "--plo") == plain("--plot")


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("analyze", "--format"), ("table", "json", "csv", "markdown")),
        (("analyze", "--color"), ("auto", "always", "never")),
        (("analyze", "x.log", "--plot"), ("auto", "always", "never")),
        (("analyze", "-A"), (*names(), "growth")),
        (("analyze", "--analyzer", "peak", "--analyzer"), (*names(), "growth")),
        (("analyze", "--sort"), sort_names()),
        (("diff", "--read-as"), ("paddle", "paddle-history", "torch-snapshot", "kineto", "rmm", "parquet")),
        (("compare", "-m"), (*(metric.name for metric in METRICS), "roles", *ROLES)),
        (("compare", "a.log", "--metric"), (*(metric.name for metric in METRICS), "roles", *ROLES)),
    ],
    ids=str,
)
def test_values_of_options_are_offered(ask: Ask, words: tuple[str, ...], values: tuple[str, ...]) -> None:
    assert ask(*words, "") == plain(*values)
    start = values[0][:2]
    assert ask(*words, start) == plain(*(value for value in values if value.startswith(start)))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_line_of_the_documentation_gives_the_script_of_its_shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    page = (ROOT / "docs" / "terminal.md").read_text()
    assert f"_MEMLENS_COMPLETE={shell}_source memlens" in page
    monkeypatch.setenv("_MEMLENS_COMPLETE", f"{shell}_source")
    assert main([]) == 0
    assert f"_MEMLENS_COMPLETE={shell}_complete" in capsys.readouterr().out


BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None or sys.platform == "win32", reason="needs bash")
def test_bash_completes_as_the_documentation_says(tmp_path: Path) -> None:
    program = tmp_path / "memlens"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memlens "$@"\n')
    program.chmod(0o755)
    script = """
        set -e
        eval "$(_MEMLENS_COMPLETE=bash_source memlens)"
        complete -p memlens
        compopt() { echo "compopt $1 $2"; }  # outside of a real completion there is nothing to set options of
        try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _memlens_completion memlens; echo "${COMPREPLY[*]}"; }
        try memlens comp
        try memlens analyze --format ""
        try memlens analyze --format = js
        try memlens compare --by "'STEP (.*)'" -m du
        try memlens analyze a.lo
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("_MEMLENS", "COMP"))}
    environment |= {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", **HERE}
    assert BASH is not None
    ran = subprocess.run(
        [BASH, "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    registered, *offered = ran.stdout.splitlines()
    assert registered.endswith("-F _memlens_completion memlens")
    assert offered == ["compare", "table json csv markdown", "json", "duration", "compopt -o default", ""]


def test_layers_are_offered(ask: Ask) -> None:
    assert ask("analyze", "--layer", "auto") == plain("auto_growth")
