"""Who holds blocks stands in the tables of ``analyze`` and beside what ``diff`` finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from logs import LogText


def run(path: Path, *, keeps: bool, steps: int = 6) -> Path:
    """Some steps that keep a block each in a list, or free it; and a block that no variable holds once the second walk is over."""
    log = LogText()
    log.alloc(512, 1 << 40)
    for step in range(steps):
        log.lines.append(f"STEP {step}")
        log.say("memlens calls relu < train.py:10 main", "line.py:0")
        log.alloc(1 << 20, (step + 1) << 24)
        log.say("memlens calls -", "line.py:0")
        if step == 0:
            log.say(f"memlens holds {1 << 40:#x} variable h (main, train.py)", "line.py:0")
        for one in range(step + 1 if keeps else 0):
            log.say(f"memlens holds {(one + 1) << 24:#x} variable feats[{one}] (main, train.py)", "line.py:0")
        if not keeps:
            log.free(1 << 20, (step + 1) << 24)
        log.say("memlens holds 0x0 -", "line.py:0")
    path.write_text(log.text)
    return path


def test_a_run_that_needs_more_than_its_base_has_who_holds_that(memlens: Any, tmp_path: Path) -> None:
    base, head = run(tmp_path / "base.log", keeps=False), run(tmp_path / "head.log", keeps=True)
    # In another line of the program the variable is the same one.
    moved = tmp_path / "moved.log"
    moved.write_text(head.read_text().replace("train.py:10", "train.py:12"))
    # Of the six blocks at the peak the last one was not seen yet, and one is at that of the base.
    words = "The peak is 6.00 MiB in moved.log, 5.00 MiB more than in base.log (1.00 MiB); 6.00 MiB more is held by feats[*] (main, train.py)."
    assert words in " ".join(memlens("compare", base, moved).out.split())
    for first, second in ((moved, base), (head, moved), (base, base)):
        assert "held by" not in memlens("compare", first, second).out


def test_where_a_log_names_nobody_it_is_said_how_to_get_names(memlens: Any, tmp_path: Path) -> None:
    named = run(tmp_path / "named.log", keeps=True)
    nameless = tmp_path / "nameless.log"
    lines = [line for line in named.read_text().splitlines(keepends=True) if "memlens" not in line]
    nameless.write_text("".join(lines))
    hint = "For lines and variables: memlens record; for operators alone: GLOG_v=4."
    assert hint in memlens("analyze", nameless).out
    assert hint not in memlens("analyze", named).out
    nameless.write_text("".join(line for line in lines if not line.startswith("STEP")))  # and nobody asks
    assert hint not in memlens("analyze", nameless).out


def test_a_gate_names_who_holds_what_piles_up_and_points_at_the_line_of_the_program(
    memlens: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, head = run(tmp_path / "base.log", keeps=False), run(tmp_path / "head.log", keeps=True)
    repository = tmp_path / "repository"
    for folder in ("src", ".cache", "env", "env/lib"):
        (repository / folder).mkdir(parents=True)
        (repository / folder / "train.py").touch()
    (repository / "env/pyvenv.cfg").touch()
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository))
    shown = memlens("gate", head, "--base", base, "--github").out
    assert "5 × 1.00 MiB (relu < train.py:10 main) pile up, 5.00 MiB; feats[*] (main, train.py) holds them." in shown
    errors = [line for line in shown.splitlines() if line.startswith("::error ")]
    assert errors
    assert all(line.startswith("::error file=src/train.py,line=10,title=memlens gate") for line in errors)
    shared = tmp_path / "shared.log"
    shared.write_text(head.read_text().replace("variable feats[2]", "variable best"))
    assert (
        "; at least half of them are held by feats[*] (main, train.py)." in memlens("gate", shared, "--base", base).out
    )
    # Blocks that differ in nothing but who called the caller are one pile, as analyze has it.
    base, head = (run(tmp_path / f"{keeps}.log", keeps=keeps, steps=12) for keeps in (False, True))
    by_two = head.read_text().split("relu < train.py:10 main")
    for step in range(12):
        by_two[step] += f"relu < train.py:10 main < {'ab'[step % 2]}.py:1 go"
    head.write_text("".join(by_two))
    words = "11 × 1.00 MiB (relu < train.py:10 main) pile up, 11.00 MiB; feats[*] (main, train.py) holds them."
    assert words in " ".join(memlens("gate", head, "--base", base).out.split())
    # Of two files of one name it is not known which one is meant.
    (repository / "tests").mkdir()
    (repository / "tests/train.py").touch()
    errors = [line for line in memlens("gate", head, "--base", base, "--github").out.splitlines() if "::error " in line]
    assert errors
    assert all(line.startswith("::error title=") for line in errors)


def test_what_is_live_is_grouped_by_role_or_by_holder_where_that_is_asked_for(memlens: Any, tmp_path: Path) -> None:
    head = run(tmp_path / "head.log", keeps=True)
    shown = memlens("analyze", head, "--group", "role", columns=120).out.splitlines()
    # Six blocks of a MiB, and one of 512 bytes: 6 x 1,048,576 + 512 bytes; the shares are of these.
    at = shown.index("Live at the peak by role: 6.00 MiB in 7 blocks")
    assert shown[at + 1].split() == ["Role", "Count", "Total", "Share", "Held", "by,", "for", "the", "most", "part"]
    assert shown[at + 2].split() == ["variables", "of", "the", "program", "6", "6.00", "MiB", "100%", "feats[*]"]
    assert shown[at + 3].split() == ["held", "by", "no", "variable", "1", "512", "B", "<1%", "no", "variable"]
    shown = memlens("analyze", head, "--group", "holder", columns=120).out.splitlines()
    at = shown.index("Held at the end by holder: 6.00 MiB in 7 blocks")
    assert shown[at + 2].split()[:2] == ["feats[*]", "variables"]
    assert not any(line.startswith("Live at the peak: ") for line in shown)
    found = json.loads(memlens("analyze", head, "-A", "composition", "--format", "json").out)
    rows = found["logs"][0]["windows"][0]["composition"]["roles"]
    of_peak = [row for row in rows if row["at"] == "peak"]
    assert [(row["role"], row["count"], row["total_bytes"]) for row in of_peak] == [
        ("variable", 6, 6 << 20),
        ("nobody", 1, 512),
    ]


def test_groups_by_role_need_one_log_that_says_who_holds_its_blocks(memlens: Any, tmp_path: Path) -> None:
    head = run(tmp_path / "head.log", keeps=True)
    assert "--group is of what is live" in memlens("analyze", head, "--by", "STEP", "--group", "role").err
    assert "Give one log" in memlens("analyze", head, head, "--group", "holder").err
    head.write_text("".join(line for line in head.read_text().splitlines(keepends=True) if "memlens holds" not in line))
    shown = memlens("analyze", head, "--group", "role").out
    assert "nothing tells the roles of its blocks" in shown
    assert "memlens record" in shown
    assert "the log does not say who holds its blocks" in memlens("analyze", head, "--group", "holder").out
