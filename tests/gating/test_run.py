"""``memlens.gate`` and ``memlens.accept`` on logs: real regressions are caught, real noise passes, and what is in doubt is not judged."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import HERE
from logs import ALLOC, HEADER, LogText, write_log
from night import some

import memlens
from memlens.analyzers import get
from memlens.errors import AnchorError, InputError, OutputError, UsageError
from memlens.gating.baseline import read_baseline
from memlens.options import Cut
from memlens.reports.gate import allowed_words, telling
from memlens.windows.windows import WHOLE

EXAMPLES = Path(__file__).parents[2] / "examples/logs"
PT, PIR = EXAMPLES / "case1_pt.log", EXAMPLES / "case1_pir.log"
CALLS = r"START (SOT_CALL_\d+)"
STEPS = r"STEP (\d+) START"
KEPT = 3538944  # [1, 9216, 96] in float32, which the PIR run keeps
MIB = 1 << 20
EXACTLY = ["peak=0", "rise=0", "remaining=0", "growth=0"]

FAILED = "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 256.000000MB memory on GPU 0."


def log(folder: Path, name: str, *lines: str) -> Path:
    """A log that begins with a chunk that holds all of its blocks."""
    return write_log(folder, name, f"{HEADER}Not found and reallocate 1099511627776(0x1), and remaining 0", *lines)


def steps(folder: Path, name: str, *kept: int, first: int = 1) -> Path:
    """A log of steps that each keep so many bytes, after 100 MiB that are freed again."""
    lines = []
    for number, size in enumerate(kept, first):
        lines += [f"STEP {number} START", f"+{100 * MIB}@a{number}", f"+{size}@b{number}", f"-{100 * MIB}@a{number}"]
    return log(folder, name, *lines)


def found(verdict: memlens.Verdict) -> list[tuple[str, str]]:
    return [(row.name, row.metric) for row in verdict.failing]


# --- growth ---


def test_growth_is_judged_over_the_steps_where_one_window_is_asked_for_too(tmp_path: Path) -> None:
    """39 of 40 steps are closed, and each keeps 8 KiB more than in the base; nothing else is over a limit."""
    base = steps(tmp_path, "base.log", *[256] * 40)
    leaking = steps(tmp_path, "leak.log", *[256 + 8192] * 40)
    verdict = memlens.gate(leaking, base=base, start="STEP 1 START", end="STEP 2 START", limits=["growth=0"])
    assert (verdict.verdict, found(verdict)) == ("regression", [(WHOLE, "growth")])
    (row,) = verdict.failing
    assert (row.base_bytes, row.head_bytes) == (39 * 256, 39 * (256 + 8192))


def test_of_what_piles_up_that_which_the_base_does_not_have_is_named_though_its_lines_have_moved(
    tmp_path: Path,
) -> None:
    """Both runs keep 2 MiB in each step, and head another MiB, made at a line above the one that both have."""
    paths = []
    for name, line, more in (("base.log", 9, False), ("head.log", 10, True)):
        text = LogText()
        for number in range(12):
            text.lines.append(f"STEP {number} START")
            kept = [(f"relu < train.py:{line} main", 2 * MIB), *[("matmul < train.py:4 main", MIB)] * more]
            for which, (owner, size) in enumerate(kept):
                text.say(f"memlens calls {owner}", "line.py:0")
                text.alloc(size, (2 * number + which + 1) << 24)
                text.say("memlens calls -", "line.py:0")
        paths.append(tmp_path / name)
        paths[-1].write_text(text.text)
    base, head = paths
    named = "10 × 1.00 MiB (matmul < train.py:4 main) pile up, 10.00 MiB, first of 2 kinds"
    assert named in memlens.gate(head, base=base).explanation
    assert "10 × 2.00 MiB (relu" in memlens.gate(head, budgets=["peak=1MiB"]).explanation


def test_of_what_piles_up_less_than_in_the_base_the_largest_is_named(tmp_path: Path) -> None:
    """The base keeps twice as much of either kind in each step; and head what two lines make, of which one has moved."""
    relu, mul = "relu < train.py:{} main", "mul < train.py:5 main"
    paths = []
    for name, kept in (
        ("base.log", [(relu.format(9), 4 * MIB), (mul, 4096)] * 2),
        ("less.log", [(relu.format(9), 4 * MIB), (mul, 4096)]),
        ("more.log", [(relu.format(line), 4 * MIB) for line in (7, 8, 9)] + [(mul, 4096)] * 3),
    ):
        text = LogText()
        for number in range(12):
            text.lines.append(f"STEP {number} START")
            for which, (owner, size) in enumerate(kept):
                text.say(f"memlens calls {owner}", "line.py:0")
                text.alloc(size, (8 * number + which + 1) << 24)
                text.say("memlens calls -", "line.py:0")
        paths.append(tmp_path / name)
        paths[-1].write_text(text.text)
    for path in paths[1:]:
        assert "10 × 4.00 MiB (relu" in memlens.gate(path, base=paths[0]).explanation


def test_a_window_that_is_a_number_is_called_one(tmp_path: Path) -> None:
    """Window 0 has the peak of both runs, and window 3 needs 5 MiB more."""
    logs = []
    for name, more in (("base.log", 0), ("head.log", 5)):
        lines = []
        for number, size in enumerate((200, 100, 100, 100 + more, 100, 100)):
            lines += [f"STEP {number} START", f"+{size * MIB}@a{number}", f"-{size * MIB}@a{number}"]
        logs.append(log(tmp_path, name, *lines))
    base, head = logs
    said = memlens.gate(head, base=base, by=STEPS, limits=["peak=1%"]).explanation
    assert said.startswith("Regression in window 3: peak went from 100.00 MiB to 105.00 MiB")


def test_a_leaking_run_grows_by_what_it_grows_by_and_counts_its_steps_as_analyze_does() -> None:
    leak = EXAMPLES / "leak.log.gz"
    verdict = memlens.gate(leak, base=leak, limits=["growth=0"])
    (row,) = (row for row in verdict.judged if row.metric == "growth")
    assert (row.d_bytes, row.improved, row.ok) == (0, False, True)
    growing = {claim.kind: claim.values for claim in memlens.analyze(leak).claims}["growing"]
    grows = {claim.kind: claim.values for claim in verdict.claims}["grows"]
    assert {name: grows[name] for name in ("windows", "unit", "gained_bytes", "since")} == {
        name: growing[name] for name in ("windows", "unit", "gained_bytes", "since")
    }


# --- real regressions ---


@pytest.mark.parametrize("way", ["base log", "baseline", "baseline and base log"])
def test_case_1_fails_where_head_keeps_a_tensor_and_names_it(tmp_path: Path, way: str) -> None:
    baseline = None if way == "base log" else tmp_path / "memory.json"
    if baseline is not None:
        memlens.accept(PT, baseline, by=CALLS)
    old = None if way == "baseline" else PT
    verdict = memlens.gate(PIR, baseline=baseline, base=old, by=CALLS)
    assert (verdict.verdict, verdict.exit_code, verdict.ok) == ("regression", 3, False)
    # Two subgraphs keep one block more each, and so the device holds two more from the last closed one on.
    failing = {(row.name, row.metric): row.d_bytes for row in verdict.failing}
    assert failing[WHOLE, "peak"] == 2 * KEPT
    assert {name: size for (name, metric), size in failing.items() if metric == "remaining"} == {
        "SOT_CALL_0": KEPT, "SOT_CALL_2": KEPT
    }  # fmt: skip
    blamed = {blame.name: telling(blame) for blame in verdict.blame}
    assert bool(blamed) == (old is not None)
    for name in ("SOT_CALL_0", "SOT_CALL_2") if old else ():
        (finding,) = blamed[name]
        assert (finding.kind, finding.size_bytes, finding.count) == ("missing_free", KEPT, 1)
    assert {row.name for row in verdict.windows if row.open_end} == {"SOT_CALL_4"}  # which nothing ends


@pytest.mark.parametrize(
    ("leak", "limits", "bytes_a_step"),
    [("05_leak_graph_331", (), 2724864), ("05_leak_activations_331", "remaining=0", 512)],
)
def test_a_leak_fails_in_every_step_and_the_block_that_is_kept_is_named(
    shared: Path, leak: str, limits: str, bytes_a_step: int
) -> None:
    data = shared / "data" / "paddle"
    verdict = memlens.gate(
        data / f"{leak}.log.gz", base=data / "05_fixed_331.log.gz", limits=limits, by=STEPS
    )  # fmt: skip
    assert verdict.exit_code == 3
    # 30 steps; the last one, in which the process ends and gives everything back, is open.
    of_steps = [row for row in verdict.failing if row.name != WHOLE and row.metric == "remaining"]
    assert {row.name for row in of_steps} == {str(step) for step in range(29)}
    assert {row.d_bytes for row in of_steps if row.name != "0"} == {bytes_a_step}
    # From the end of step 0 to that of step 28, but for what may be warm-up.
    growth = next(row for row in verdict.windows if row.metric == "growth")
    assert growth.head_bytes in range(20 * bytes_a_step, 28 * bytes_a_step + 1, bytes_a_step)
    grown = verdict.to_dict()["growth"]
    assert grown["windows"] == 30 - 1  # the steps less the open one
    assert grown["gained_bytes"] == growth.head_bytes
    of_run = {row.metric for row in verdict.failing if row.name == WHOLE}
    assert of_run == ({"peak", "growth"} if 28 * bytes_a_step > MIB else set())
    assert verdict.piling[0].count % 28 == 0
    in_steps = [blame for blame in verdict.blame if blame.name != WHOLE]
    assert len(verdict.blame) == 10
    for blame in in_steps[1:]:
        assert sum(finding.d_remaining_bytes for finding in blame.diff.findings) == bytes_a_step
        assert telling(blame)[0].kind in ("missing_free", "only_head")
    if leak == "05_leak_activations_331":
        assert [(one.kind, one.size_bytes) for one in telling(in_steps[1])] == [("missing_free", 512)]


@pytest.mark.parametrize("accepted", [False, True])
def test_without_anchors_growth_is_judged_over_the_steps_that_are_found(
    shared: Path, tmp_path: Path, accepted: bool
) -> None:
    data = shared / "data" / "paddle"
    base, leak = data / "05_fixed_331.log.gz", data / "05_leak_graph_331.log.gz"
    by: dict[str, Any] = {"base": base}
    if accepted:
        memlens.accept(base, tmp_path / "memory.json")
        by = {"baseline": tmp_path / "memory.json"}
    verdict = memlens.gate(leak, **by)
    steps_found = memlens.analyze(leak).logs[0]
    assert found(verdict) == [(WHOLE, "peak"), (WHOLE, "growth")]
    assert steps_found.steps is not None
    assert steps_found.growth is not None
    assert verdict.steps_by == steps_found.steps.by
    assert verdict.failing[1].head_bytes == steps_found.growth.gained_bytes
    assert [(pile.size_bytes, pile.count) for pile in verdict.piling] == [
        (pile.size_bytes, pile.count) for pile in steps_found.growth.piling
    ]
    # One that is as long, and one of five steps.
    assert memlens.gate(base, **by, limits=["peak=0", "growth=0"]).ok
    assert memlens.gate(data / "331_dygraph_cnn.log", **by, limits=["peak=0", "growth=0"]).ok


# --- real noise ---


def elsewhere(text: str) -> str:
    """The same run with every address another one."""
    return re.sub(r"0x([0-9a-f]{6,})", lambda match: hex(int(match[1], 16) ^ 0x2A5A_5A00_0000), text)


@pytest.mark.parametrize("name", ["05_fixed_331.log.gz", "04_threads_30_ast_pt_transformer.log.gz"])
def test_the_same_run_at_other_addresses_passes_with_nothing_allowed(shared: Path, tmp_path: Path, name: str) -> None:
    path = shared / "data" / "paddle" / name
    text = gzip.decompress(path.read_bytes()).decode()
    moved = tmp_path / "moved.log"
    moved.write_text(elsewhere(text))
    assert moved.read_text() != text
    for one, again in ((path, "memory.json"), (moved, "again.json")):
        memlens.accept(one, tmp_path / again, by=STEPS)
    assert (tmp_path / "memory.json").read_bytes() == (tmp_path / "again.json").read_bytes()
    verdict = memlens.gate(moved, baseline=tmp_path / "memory.json", limits=[*EXACTLY, "reserved=0"])
    assert (verdict.verdict, verdict.improved) == ("pass", ())


# --- what cannot be judged ---


@pytest.mark.parametrize(
    ("name", "doubt"),
    [
        ("09_two_procs_one_file_331.log.gz", "several processes"),
        ("07_stdout_anchors_331.log.gz", "late output"),
        ("05_oom_331.log", "ran out of memory"),
    ],
)
def test_a_log_in_doubt_is_not_judged_and_not_accepted(shared: Path, tmp_path: Path, name: str, doubt: str) -> None:
    path = shared / "data" / "paddle" / name
    verdict = memlens.gate(path, budgets="peak=1TiB")
    assert (verdict.verdict, verdict.exit_code, verdict.windows, verdict.doubtful) == ("unjudged", 1, (), True)
    assert doubt in verdict.reasons[0]
    trusting = memlens.gate(path, budgets="peak=1TiB", trust=False)
    assert trusting.exit_code == 0
    assert any(doubt in note for note in trusting.notes)
    with pytest.raises(InputError, match="not accepted") as caught:
        memlens.accept(path, tmp_path / "memory.json")
    assert doubt in caught.value.message
    assert not list(tmp_path.iterdir())


def test_nothing_passes_against_a_baseline_without_blocks_and_accepting_it_says_so(
    shared: Path, tmp_path: Path
) -> None:
    data = shared / "data" / "paddle"
    taken = memlens.accept(data / "09_loader_workers_331.log.gz", tmp_path / "memory.json")
    assert allowed_words(taken) == "peak and growth cannot be judged against it (no block in the log)"
    leak = data / "05_leak_graph_331.log.gz"
    for limits in ((), "growth=0", "peak=off", ["peak=off", "remaining=0"]):
        verdict = memlens.gate(leak, baseline=tmp_path / "memory.json", limits=limits)
        assert (verdict.verdict, verdict.judged) == ("unjudged", ())
    steps_of_chunks = log(tmp_path, "chunks.log", *[f"STEP {step} START" for step in range(9)])
    verdict = memlens.gate(steps_of_chunks, base=data / "05_fixed_331.log.gz", limits=["peak=off", "growth=1GiB"])
    assert verdict.verdict == "unjudged"


def test_a_doubtful_base_log_is_nothing_to_judge_by(shared: Path, tmp_path: Path) -> None:
    data = shared / "data" / "paddle"
    good, bad = data / "05_fixed_331.log.gz", data / "09_two_procs_one_file_331.log.gz"
    verdict = memlens.gate(good, base=bad)
    assert verdict.verdict == "unjudged"
    assert "09_two_procs" in verdict.reasons[0]
    memlens.accept(good, tmp_path / "memory.json")
    # Where it only explains, it decides nothing.
    assert memlens.gate(good, baseline=tmp_path / "memory.json", base=bad).verdict == "pass"
    failing = memlens.gate(data / "05_leak_graph_331.log.gz", baseline=tmp_path / "memory.json", base=bad)
    assert failing.verdict == "regression"
    assert any("several processes" in note for note in failing.notes)
    assert any("it was not this run that was accepted" in note for note in failing.notes)


def test_the_run_that_was_accepted_is_known_again_though_roles_are_told_only_when_accepted(
    examples: Path, tmp_path: Path
) -> None:
    base, head = examples / "cnn_5steps.log.gz", tmp_path / "head.log"
    accepted = memlens.accept(base, tmp_path / "memory.json")
    assert accepted.runs[0].roles
    head.write_text(gzip.decompress(base.read_bytes()).decode() + ALLOC.format(64 * MIB, 1 << 40))
    verdict = memlens.gate(head, baseline=tmp_path / "memory.json", base=base)
    assert (verdict.verdict, verdict.notes) == ("regression", ())


@pytest.mark.parametrize("closed", [False, True])
def test_a_run_that_stops_inside_a_step_passes_and_says_so(tmp_path: Path, closed: bool) -> None:
    lines = []
    for step in range(9):
        lines += [f"STEP {step} START", *(f"+{MIB}@{k:x}" for k in range(8)), *(f"-{MIB}@{k:x}" for k in range(8))]
    path = log(tmp_path, "run.log", *lines, *([] if closed else ["STEP 9 START", f"+{MIB}@0"]))
    verdict = memlens.gate(path, budgets=["peak=1GiB"])
    assert verdict.verdict == "pass"
    assert ("he log stops inside STEP 9" in verdict.explanation) is not closed


def test_what_a_run_held_when_it_died_is_no_pass_and_the_failure_comes_first(tmp_path: Path) -> None:
    step = [f"+{6 * MIB}@b", f"-{6 * MIB}@b"]
    base = log(tmp_path, "base.log", f"+{10 * MIB}@a", *step * 9, f"-{10 * MIB}@a")
    same = log(tmp_path, "same.log", f"+{10 * MIB}@a", *step * 8, FAILED)
    verdict = memlens.gate(same, base=base, limits="remaining=0")
    assert verdict.verdict == "unjudged"  # it died with no more than the base had then
    assert verdict.explanation.startswith("Head ran out of memory at line 19")
    more = log(tmp_path, "more.log", f"+{10 * MIB}@a", *step * 8, f"+{20 * MIB}@c", FAILED)
    verdict = memlens.gate(more, base=base)
    assert [(row.metric, row.d_bytes) for row in verdict.failing] == [("peak", 14 * MIB)]  # 30 less 16
    assert verdict.explanation.startswith("Head ran out of memory at line 20")
    # One that went on is judged by what it leaves, too.
    head = log(tmp_path, "head.log", f"+{10 * MIB}@a", FAILED, *step * 9)
    verdict = memlens.gate(head, base=base, limits="remaining=0")
    assert [(row.metric, row.head_bytes) for row in verdict.failing] == [("remaining", 10 * MIB)]
    assert "and went on" in verdict.explanation


# --- windows ---


def test_a_run_of_which_one_step_could_be_judged_passes_and_says_how_many_could(tmp_path: Path) -> None:
    """What cannot be known leaves the rest judged, also where a limit is named: it was judged where both runs have a closed step."""
    base, few = steps(tmp_path, "base.log", *[0] * 9), steps(tmp_path, "few.log", 0, 0)
    shorter = memlens.gate(few, base=base, by=STEPS, limits="rise=0")
    assert shorter.verdict == "pass"
    assert "2 of the base's 10 windows judged, because the run ends earlier" in shorter.explanation
    longer = memlens.gate(base, base=few, by=STEPS, limits="rise=0")
    assert longer.verdict == "pass"
    assert "window 3, window 4 and 5 more (not in the base)" in longer.explanation
    worse = memlens.gate(steps(tmp_path, "worse.log", MIB, 0), base=base, by=STEPS, limits="rise=0")
    assert found(worse) == [("1", "rise")]


def test_a_run_of_which_no_step_could_be_judged_does_not_pass(tmp_path: Path) -> None:
    base = steps(tmp_path, "base.log", 0, 0, 0, 0, 0)
    verdict = memlens.gate(steps(tmp_path, "died.log", 0), base=base, by=STEPS)
    assert (verdict.verdict, verdict.doubtful) == ("unjudged", False)
    assert "no window of the log could be judged" in verdict.reasons[0]
    other = steps(tmp_path, "other.log", 0, 0, first=7)
    for allow_missing in (False, True):
        verdict = memlens.gate(other, base=base, by=STEPS, allow_missing=allow_missing)
        assert (verdict.verdict, verdict.exit_code, verdict.doubtful) == ("unjudged", 1, False)
        assert (verdict.missing, verdict.new) == (("1", "2", "3", "4", "5"), ("7", "8"))  # and (before) is in both
    held = log(tmp_path, "held.log", f"+{200 * MIB}@c", "STEP 7 START", "+1@d")
    assert memlens.gate(held, base=base, by=STEPS).verdict == "regression"  # whatever its steps are called


def test_a_window_is_blamed_for_its_peak_where_half_of_the_growth_is_its_own_rise(tmp_path: Path) -> None:
    # A block before the steps and one in each; head's are larger by 3 MiB before them, and in the second step by as much or less.
    def run(name: str, held: int, more: int) -> Path:
        lines = [f"+{(10 + held) * MIB}@1000"]
        for step, mib in (("0", 20), ("1", 30 + more), ("2", 20)):
            lines += [f"STEP {step} START", f"+{mib * MIB}@200{step}", f"-{mib * MIB}@200{step}"]
        return log(tmp_path, name, *lines, "END")

    base = run("base", 0, 0)
    for more, blamed in ((3, {WHOLE, "(before)", "1"}), (2, {WHOLE, "(before)"})):
        verdict = memlens.gate(run("head", 3, more), base=base, by=r"STEP (\d)", end="END")
        assert {"0", "1", "2"} <= {row.name for row in verdict.failing}
        assert {blame.name for blame in verdict.blame} == blamed


def test_a_window_that_an_end_closes_in_the_base_only_was_cut_short_and_is_not_judged(tmp_path: Path) -> None:
    # GIVEN a run that leaves 1 KiB behind between its anchors, and one that was killed while 100 MiB were live
    lines = ["START TRAIN", f"+{100 * MIB}@a", "+1024@b", f"-{100 * MIB}@a"]
    whole = log(tmp_path, "whole.log", *lines, "START DONE", "+512@c")
    killed = log(tmp_path, "killed.log", *lines[:-1])
    memlens.accept(whole, tmp_path / "memory.json", start="START TRAIN", end="START DONE")
    # THEN what it had not freed yet is no regression, and what it did not reach is no pass
    cut_short = memlens.gate(killed, baseline=tmp_path / "memory.json")
    assert (cut_short.verdict, cut_short.failing) == ("unjudged", ())
    # AND a peak over the limit is one all the same
    worse = log(tmp_path, "worse.log", *lines[:-1], f"+{9 * MIB}@d")
    assert found(memlens.gate(worse, baseline=tmp_path / "memory.json")) == [(WHOLE, "peak")]
    # AND so the other way round, where the base was cut short; two that no end closes are judged by each other
    cut: dict[str, Any] = {"start": "START TRAIN", "end": "START DONE", "to_end": True}
    assert memlens.gate(whole, base=killed, **cut).verdict == "unjudged"
    assert ("START TRAIN", "peak") in found(memlens.gate(worse, base=killed, **cut))


@pytest.mark.parametrize("cut", [{}, {"by": STEPS}, {"start": "STEP 1 START", "end": "STEP 2 START"}])
def test_a_budget_is_about_the_whole_run_however_it_is_cut_and_needs_no_base(
    tmp_path: Path, cut: dict[str, Any]
) -> None:
    head = steps(tmp_path, "head.log", 3 * MIB, 5 * MIB)
    # 3 MiB from step 1, and 100 + 5 in step 2.
    assert memlens.gate(head, budgets="peak=108MiB", **cut).exit_code == 0
    verdict = memlens.gate(head, budgets=["peak=107MiB", "reserved=2TiB"], **cut)
    assert (verdict.exit_code, found(verdict)) == (3, [(WHOLE, "peak")])
    assert (verdict.base, verdict.new, verdict.limits) == ("", (), {})
    assert "went from" not in verdict.explanation


# --- anchors and accepting ---


def test_the_anchors_of_the_baseline_are_taken_and_others_are_refused(tmp_path: Path) -> None:
    base, baseline = steps(tmp_path, "base.log", 0, 0), tmp_path / "memory.json"
    with pytest.raises(AnchorError, match="the end 'A', nor 'B'"):
        memlens.accept(base, baseline, by=STEPS, end=["A", "B"])
    memlens.accept(base, baseline, by=STEPS, end=["A", "B"], to_end=True)
    taken = memlens.gate(base, baseline=baseline).anchors
    assert taken == memlens.gate(base, baseline=baseline, by=STEPS, end=["B", "A"]).anchors
    for other in ({"by": r"STEP \d+"}, {"by": STEPS}, {"start": "STEP 1 START"}, {"end": "A"}):
        with pytest.raises(UsageError, match="anchors") as caught:
            memlens.gate(base, baseline=baseline, **other)  # type: ignore[arg-type]
        assert f"--by '{STEPS}' --end A --end B" in caught.value.message
    memlens.accept(base, tmp_path / "whole.json")
    with pytest.raises(UsageError, match="whole log"):
        memlens.gate(base, baseline=tmp_path / "whole.json", by=STEPS)


def test_a_baseline_holds_what_the_analyzers_give(tmp_path: Path) -> None:
    taken = memlens.accept(PT, tmp_path / "memory.json", by=CALLS)
    assert taken == read_baseline(tmp_path / "memory.json")
    (run,), log = taken.runs, memlens.read(PT)
    windows = log.windows(CALLS)
    assert [window.name for window in run.windows] == [window.name for window in windows]
    for figures, window in zip(run.windows, windows, strict=True):
        left, peak = get("remaining")(window), get("peak")(window)
        assert figures.remaining_bytes == left.remaining_bytes
        assert (figures.peak_bytes, figures.rise_bytes) == (peak.peak_bytes, peak.rise_bytes)
        signed = log.size[window.lo : window.hi] * (1 - 2 * log.kind[window.lo : window.hi].astype(int))
        blocks = signed[log.kind[window.lo : window.hi] <= 1]
        assert figures.rise_bytes == max(0, int(blocks.cumsum().max()))
    assert run.step_levels == tuple(get("remaining")(window).live_bytes for window in windows[1:-1])
    assert (windows[0].name, run.steps_begin_at_bytes) == ("(before)", get("remaining")(windows[0]).live_bytes)
    whole = get("peak")(log.whole)
    assert (run.peak_bytes, run.reserved_peak_bytes) == (whole.peak_bytes, whole.reserved_peak_bytes)
    assert [window.open_end for window in run.windows] == [False] * 5 + [True]


def test_accepting_again_keeps_anchors_and_writes_the_same_bytes(tmp_path: Path) -> None:
    baseline = tmp_path / "memory.json"
    memlens.accept(PT, baseline, by=CALLS)
    first = baseline.read_bytes()
    memlens.accept(PT, baseline)
    assert baseline.read_bytes() == first
    memlens.accept(PIR, baseline)
    assert memlens.gate(PIR, baseline=baseline, limits=EXACTLY).ok
    assert read_baseline(baseline).anchors.cut == Cut(by=CALLS)
    assert memlens.accept(PIR, baseline, start="START SOT_CALL_0").anchors.cut == Cut(start="START SOT_CALL_0")
    assert [path.name for path in tmp_path.iterdir()] == ["memory.json"]


@pytest.mark.parametrize(
    "text", [b"", b"my thesis", b'{"schema": "memlens.baseline/2"}', b'{"schema": "memlens.analyze/1"}']
)
def test_what_is_no_baseline_is_never_written_over(tmp_path: Path, text: bytes) -> None:
    target = tmp_path / "memory.json"
    target.write_bytes(text)
    with pytest.raises(OutputError, match="not written over"):
        memlens.accept(PT, target)
    assert target.read_bytes() == text
    path = steps(tmp_path, "a.log", 0)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="an input of this command"):
        memlens.accept(path, path)
    assert path.read_bytes() == before


# --- usage ---


def test_memlens_gate_is_the_function_whatever_was_imported_before() -> None:
    for first in some(("import memlens.cli.verbs.gate", "import memlens.gating.run", "from memlens.gating import run")):
        code = f"{first}; import memlens, inspect; assert inspect.isfunction(memlens.gate), memlens.gate"
        subprocess.run([sys.executable, "-c", code], env=HERE, check=True)
