"""Budgets and limits by role: what of a role is live at the peak of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from logs import LogText

import memlens as api
from memlens.claims.roles import ROLES
from memlens.gating.limits import BY_ROLE

#: AdamW keeps two states of the model's 4 x (2 x 10,000 x 1,280 + 36 x (4 x 1,280² + 3 x 1,280 x 5,120 + 2 x 1,280) + 1,280) bytes.
STATES = 2 * 4 * (2 * 10_000 * 1280 + 36 * (4 * 1280**2 + 3 * 1280 * 5120 + 2 * 1280) + 1280)


def recorded(path: Path, *, kept: int, weight: int = 1 << 20) -> Path:
    """A log that names holders: a weight, and blocks of 1 MiB in a list."""
    log = LogText()
    log.say("memlens calls uniform < net.py:3 __init__", "line.py:0")
    log.alloc(weight, 1 << 40)
    log.say("memlens calls -", "line.py:0")
    for k in range(kept):
        log.say("memlens calls relu < train.py:10 main", "line.py:0")
        log.alloc(1 << 20, (k + 1) << 24)
        log.say("memlens calls -", "line.py:0")
    log.say(f"memlens holds {1 << 40:#x} parameter net.weight (net.py)", "line.py:0")
    for k in range(kept):
        log.say(f"memlens holds {(k + 1) << 24:#x} variable feats[*] (main, train.py)", "line.py:0")
    log.say("memlens holds 0x0 -", "line.py:0")
    path.write_text(log.text)
    return path


def test_the_roles_that_can_be_gated_are_roles() -> None:
    assert set(BY_ROLE) < set(ROLES)


@pytest.mark.parametrize(("less", "verdict"), [(0, "pass"), (1, "regression")])
def test_a_budget_of_a_role_holds_to_the_byte(shared: Path, less: int, verdict: str) -> None:
    path = shared / "data" / "torch" / "snapshots" / "train_19464.pickle"
    found = api.gate(path, budgets=[f"optimizer={STATES - less}B"])
    assert found.verdict == verdict
    (row,) = found.windows
    assert (row.metric, row.head_bytes, row.over_bytes) == ("optimizer", STATES, less)
    if less:
        assert "The largest part of it is made by adapters.py:888 step" in found.explanation


def test_a_role_that_grows_fails_and_says_who_holds_it(memlens: Any, tmp_path: Path) -> None:
    base, head = recorded(tmp_path / "base.log", kept=4), recorded(tmp_path / "head.log", kept=5)
    kept = tmp_path / "memory.json"
    memlens("gate", base, "--baseline", kept, "--accept")
    (run,) = json.loads(kept.read_text())["runs"]
    assert (run["roles"], run["told_by"]) == ({"parameter": 1 << 20, "variable": 4 << 20}, "holders")
    limits = ("--limit", "peak=off", "--limit", "growth=off", "--limit", "variable=10%", "--limit", "parameter=0")
    for against in (("--baseline", kept), ("--base", base)):
        ran = memlens("gate", head, *against, *limits)
        assert ran.code == 3
        text = " ".join(ran.out.split())
        assert "variable went from 4.00 MiB to 5.00 MiB, +1.00 MiB (+25.00%)" in text
        assert "held by feats[*] (main, train.py), and made by relu < train.py:10 main" in text
        assert memlens("gate", base, *against, *limits).out.startswith("Within limits")


def test_roles_that_other_rules_tell_are_not_compared(memlens: Any, tmp_path: Path) -> None:
    base, bare = recorded(tmp_path / "base.log", kept=4), tmp_path / "bare.log"
    bare.write_text("".join(line for line in base.read_text().splitlines(keepends=True) if "line.py" not in line))
    for head, old, where in ((bare, base, "log"), (base, bare, "base")):
        ran = memlens("gate", head, "--base", old, "--limit", "variable=10%")
        assert ran.code == 1
        assert f"nothing in the {where} tells roles" in ran.out
    # A budget needs no base.
    assert memlens("gate", base, "--base", bare, "--budget", "variable=4MiB").out.startswith("Within limits")


def test_a_baseline_without_roles_is_read_as_before(memlens: Any, tmp_path: Path) -> None:
    log, kept = LogText(), tmp_path / "memory.json"
    log.alloc(512, 1 << 20)
    (path := tmp_path / "run.log").write_text(log.text)
    memlens("gate", path, "--baseline", kept, "--accept")
    assert "roles" not in kept.read_text()
    assert memlens("gate", path, "--baseline", kept).out.startswith("Within limits")
