"""The screens of the examples: approved at one width, and the same at every other one."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from widths import check_widths

SUBGRAPH = "--start 'START SOT_CALL_0' --end 'START SOT_CALL_1'"
STEP = r"'STEP \d+ START'"
#: By the name of the approved copy, where there is one.
SCREENS = {
    "cli_case1_whole": "analyze case1_pir.log",
    "case1_by": r"analyze case1_pir.log --by 'START (\S+)' --sort remaining",
    "case1_both": "analyze case1_pt.log case1_pir.log",
    "cnn_by_step": r"analyze cnn_5steps.log.gz --by 'STEP (\d+) START'",
    "cli_oom_whole": "analyze oom.log.gz",
    "several_processes": "analyze torn_4procs.log.gz",
    "subgraph": f"diff case1_pt.log case1_pir.log {SUBGRAPH}",
    "by": r"diff case1_pt.log case1_pir.log --by 'START (SOT_CALL_\d+)'",
    "cli_diff_found": "diff case1_pt.log case1_pir.log",
    "whole": "diff case1_pt.log case1_pir.log --whole",
    "equal": "diff case1_pt.log case1_pt.log --whole",
    "steps": "diff cnn_5steps.log.gz cnn_5steps.log.gz"
    f" --start-regex {STEP} --end-regex {STEP} --base-nth 1 --head-nth 3",
}


@pytest.mark.parametrize("name", SCREENS)
def test_an_example_looks_as_approved_and_says_the_same_at_every_width(
    memlens: Any, examples: Path, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(examples)
    monkeypatch.setenv("NO_COLOR", "1")

    def show(columns: int | None) -> str:
        ran = memlens(*shlex.split(SCREENS[name]), columns=columns)
        assert (ran.code, ran.err) == (0, "")
        return str(ran.out)

    if name.startswith("cli_"):
        golden(f"{name}_80.txt", show(80))
    check_widths(show)
