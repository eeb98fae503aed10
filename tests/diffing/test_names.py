"""Two runs whose logs name lines of the program and holders: a call is the same at another line, and who keeps a block is said."""

from __future__ import annotations

from pathlib import Path

from logs import LogText

import memlens
from memlens.diffing.alignment.blocks import owner_names

MIB = 1 << 20
FEATS = "variable net.feats[*] (main, train.py)"


def run(path: Path, lines: dict[str, str], *, keeps: bool) -> Path:
    """Five steps, each with an activation that is freed in its step, or kept by a list until the end; two calls of one operator."""
    log = LogText()
    for step in range(5):
        log.lines.append(f"STEP {step}")
        for at, (place, size) in enumerate(lines.items()):
            address = (10 * step + at + 1) << 24
            log.say(f"memlens calls relu < {size} main", "line.py:0")
            log.alloc(MIB * (at + 1), address)
            log.say("memlens calls -", "line.py:0")
            if place == "first" and keeps:
                log.say(f"memlens holds {address:#x} {FEATS}", "line.py:0")
            else:
                log.free(MIB * (at + 1), address)
    for step in range(5 if keeps else 0):
        log.free(MIB, (10 * step + 1) << 24)
    path.write_text(log.text)
    return path


def test_a_call_at_another_line_is_the_same_and_who_keeps_a_block_is_said(tmp_path: Path) -> None:
    base = run(tmp_path / "base.log", {"first": "train.py:10", "second": "train.py:12"}, keeps=False)
    head = run(tmp_path / "head.log", {"first": "train.py:11", "second": "train.py:13"}, keeps=True)
    diff = memlens.diff(base, head)
    (found,) = {(row.finding.kind, row.finding.owner) for row in diff.repeated if row.finding.d_remaining_bytes}
    assert found == ("missing_free", "relu < train.py:11 main")
    said = next(claim for claim in diff.claims if claim.kind == "first_freed")
    assert said.values["holder"] == "net.feats[*] (main, train.py)"
    assert "; net.feats[*] (main, train.py) holds it" in diff.verdict
    same = memlens.diff(
        base, run(tmp_path / "moved.log", {"first": "train.py:11", "second": "train.py:13"}, keeps=False)
    )
    assert {claim.kind for claim in same.claims} & {"no_difference", "same_work"}


def test_calls_of_which_one_run_has_more_keep_their_own_names(tmp_path: Path) -> None:
    base = memlens.read(run(tmp_path / "base.log", {"first": "train.py:10"}, keeps=False))
    head = memlens.read(run(tmp_path / "head.log", {"first": "train.py:9", "second": "train.py:13"}, keeps=False))
    names = ("relu < train.py:10 main", "relu < train.py:13 main", "relu < train.py:9 main")
    assert owner_names(base, head) == (names, {name: number for number, name in enumerate(names)})


def test_no_free_is_missing_of_what_another_line_of_the_program_makes(tmp_path: Path) -> None:
    """One run computes a mean in each step and lets go of it; the other one keeps a copy, which is as large."""
    paths = list[Path]()
    for call, kept in (("divide < swa.py:156 update", False), ("copy < train.py:16 main", True)):
        log = LogText()
        for step in range(5):
            log.lines.append(f"STEP {step}")
            log.say(f"memlens calls {call}", "line.py:0")
            log.alloc(MIB, (step + 1) << 24)
            log.say("memlens calls -", "line.py:0")
            if not kept:
                log.free(MIB, (step + 1) << 24)
        paths.append(tmp_path / f"{len(paths)}.log")
        paths[-1].write_text(log.text)
    diff = memlens.diff(*paths)
    found = {(row.finding.kind, row.finding.owner) for row in diff.repeated}
    assert found == {("only_head", "copy < train.py:16 main"), ("only_base", "divide < swa.py:156 update")}
    assert "missing Free" not in diff.verdict


def test_what_is_freed_late_has_the_line_of_the_run_that_has_it_at_its_peak(tmp_path: Path) -> None:
    """One run lets go of what a layer gives before its peak; the other one has fetched a batch, which is as large, and has it for longer."""
    paths = list[Path]()
    for call, late in (("linear < train.py:27 main", False), ("uniform < train.py:20 batches", True)):
        log = LogText()
        log.say(f"memlens calls {call}", "line.py:0")
        log.alloc(MIB, 1 << 24)
        if not late:
            log.free(MIB, 1 << 24)
        log.say("memlens calls full < train.py:30 main", "line.py:0")
        log.alloc(4 * MIB, 2 << 24)
        log.say("memlens calls -", "line.py:0")
        log.free(4 * MIB, 2 << 24)
        if late:
            log.free(MIB, 1 << 24)
        paths.append(tmp_path / f"{len(paths)}.log")
        paths[-1].write_text(log.text)
    for pair, kind in ((paths, "late_free"), (paths[::-1], "early_free")):
        (finding,) = memlens.diff(*pair).windows[0].findings
        assert (finding.kind, finding.owner) == (kind, "uniform < train.py:20 batches")


def test_a_sentence_of_several_blocks_names_who_holds_most_of_them(tmp_path: Path) -> None:
    """A loader that fetches four batches ahead of the one that the loop has taken, and none."""
    paths = list[Path]()
    for batches in (0, 5):
        log = LogText()
        log.alloc(4 * MIB, 9 << 24)
        for k in range(batches):
            log.say("memlens calls uniform < train.py:20 batches", "line.py:0")
            log.alloc(MIB, (k + 1) << 24)
        log.say("memlens calls -", "line.py:0")
        for k in range(batches):
            holder = "variable loader.ready[*] (main, train.py)" if k else "variable x (main, train.py)"
            log.say(f"memlens holds {(k + 1) << 24:#x} {holder}", "line.py:0")
        log.say("memlens holds 0x0 -", "line.py:0")
        for k in range(batches):
            log.free(MIB, (k + 1) << 24)
        paths.append(tmp_path / f"{batches}.log")
        paths[-1].write_text(log.text)
    assert "; loader.ready[*] (main, train.py) holds most of them" in memlens.diff(*paths).verdict
