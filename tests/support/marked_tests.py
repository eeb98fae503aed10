"""Runs of pytest on tests in a folder, with the plugin of memlens or without it."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from torch_programs import Programs

PLUGIN = ("-p", "memlens.recording.pytest_plugin")
_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR|XFAIL|XPASS|SKIPPED) \S*?::(\S+)", re.MULTILINE)


@dataclass
class Marked:
    """The tests of one file, and what became of them."""

    programs: Programs

    def run(
        self,
        text: str,
        *arguments: str,
        python: str = sys.executable,
        path: tuple[Path, ...] = (),
        plugin: tuple[str, ...] = PLUGIN,
        **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run pytest on a file of that text, which imports pytest already."""
        # The folder is no part of a project: what configures memlens's own tests holds for them alone.
        (self.programs.folder / "pytest.ini").write_text(
            "[pytest]\naddopts = -p no:cacheprovider -rA --strict-markers\n"
        )
        (self.programs.folder / "test_it.py").write_text(f"import pytest\n{text}")
        return self.programs.run(
            f"import pytest, sys; sys.exit(pytest.main({[*plugin, *arguments, 'test_it.py']!r}))\n",
            python=python,
            path=path,
            PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
            COLUMNS="200",
            **variables,
        )


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Each test with what became of it, by pytest's own summary."""
    return {name: outcome for outcome, name in _OUTCOME.findall(done.stdout)}


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the plugin says, one entry a line."""
    return [line.removeprefix("memlens: ") for line in done.stdout.splitlines() if line.startswith("memlens: ")]
