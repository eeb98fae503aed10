"""``memlens.gate`` and ``memlens.accept`` on logs: real regressions are caught, real noise passes, and what is in doubt is not judged."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import memlens
from memlens.analyzers import get
from memlens.errors import InputError, OutputError, UsageError
from memlens.gating.baseline import read_baseline
from memlens.options import Cut
from memlens.reports.gate import telling

EXAMPLES = Path(__file__).parents[2] / "examples/logs"
PT, PIR = EXAMPLES / "case1_pt.log", EXAMPLES / "case1_pir.log"
CALLS = r"START (SOT_CALL_\d+)"
STEPS = r"STEP (\d+) START"
KEPT = 3538944  # [1, 9216, 96] in float32, which the PIR run keeps
MIB = 1 << 20

GLOG = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] "


def log(folder: Path, name: str, *lines: str) -> Path:
    """A log whose lines are anchors, or ``+size@address`` and ``-size@address``; it begins with a chunk that holds them all."""
    text = [f"{GLOG}Not found and reallocate 1099511627776(0x1), and remaining 0"]
    for line in lines:
        if line[0] in "+-":
            size, _, addr = line[1:].partition("@")
            text.append(f"{GLOG}{'Alloc' if line[0] == '+' else 'Free'} {size} bytes, ptr = 0x{addr}")
        else:
            text.append(line)
    path = folder / name
    path.write_text("\n".join(text) + "\n")
    return path


def steps(folder: Path, name: str, *kept: int, first: int = 1) -> Path:
    """A log of steps that each keep so many bytes, after 100 MiB that are freed again."""
    lines = []
    for number, size in enumerate(kept, first):
        lines += [f"STEP {number} START", f"+{100 * MIB}@a{number}", f"+{size}@b{number}", f"-{100 * MIB}@a{number}"]
    return log(folder, name, *lines)


WHOLE = "(whole log)"


def found(verdict: memlens.Verdict) -> list[tuple[str, str]]:
    return [(row.name, row.metric) for row in verdict.failing]


# --- real regressions ---


@pytest.mark.parametrize("way", ["base log", "baseline with events", "baseline and base log"])
def test_case_1_fails_where_head_keeps_a_tensor_and_names_it(tmp_path: Path, way: str) -> None:
    baseline = None
    if way != "base log":
        baseline = tmp_path / "memory.json"
        memlens.accept(PT, baseline, by=CALLS, with_events=way == "baseline with events")
    old = None if way == "baseline with events" else PT
    verdict = memlens.gate(PIR, baseline=baseline, base_log=old, by=CALLS)
    assert (verdict.verdict, verdict.exit_code, verdict.ok) == ("regression", 3, False)
    # Two subgraphs keep one block more each, and so the device holds two more; all others leave what they left, or less.
    assert found(verdict) == [(WHOLE, "peak"), ("SOT_CALL_0", "remaining"), ("SOT_CALL_2", "remaining")]
    assert [row.d_bytes for row in verdict.failing] == [2 * KEPT, KEPT, KEPT]
    assert [row.over_bytes for row in verdict.failing[1:]] == [KEPT - MIB] * 2
    assert [blame.name for blame in verdict.blame] == [WHOLE, "SOT_CALL_0", "SOT_CALL_2"]
    (late,) = telling(verdict.blame[0])
    assert (late.kind, late.size_bytes, late.count) == ("late_free", KEPT, 2)
    for blame in verdict.blame[1:]:
        (finding,) = telling(blame)
        assert (finding.kind, finding.size_bytes, finding.count) == ("missing_free", KEPT, 1)
        assert bool(finding.context) == (old is not None)
    # The backward pass and what comes after it stand in the last call's window, which nothing ends.
    (note,) = verdict.notes
    assert "SOT_CALL_4 is shown and not judged" in note


def test_the_log_that_was_accepted_passes(tmp_path: Path) -> None:
    memlens.accept(PT, tmp_path / "memory.json", by=CALLS)
    verdict = memlens.gate(PT, baseline=tmp_path / "memory.json")
    assert (verdict.verdict, verdict.exit_code, verdict.failing, verdict.improved) == ("pass", 0, (), ())
    assert verdict.anchors == Cut(by=CALLS)


@pytest.mark.parametrize(
    ("leak", "limits", "bytes_a_step"),
    [("05_leak_graph_331", (), 2724864), ("05_leak_activations_331", "remaining=0", 512)],
)
def test_a_leak_fails_in_every_step_and_the_block_that_is_kept_is_named(
    shared: Path, leak: str, limits: str, bytes_a_step: int, tmp_path: Path
) -> None:
    data = shared / "data" / "paddle"
    memlens.accept(data / "05_fixed_331.log.gz", tmp_path / "memory.json", by=STEPS, with_events=True)
    verdict = memlens.gate(data / f"{leak}.log.gz", baseline=tmp_path / "memory.json", limits=limits)
    assert verdict.exit_code == 3
    # 30 steps; the last one, in which the process ends and gives everything back, is open.
    of_steps = [row for row in verdict.failing if row.name != WHOLE]
    assert {(row.name, row.metric) for row in of_steps} == {(str(step), "remaining") for step in range(29)}
    assert {row.d_bytes for row in of_steps if row.name != "0"} == {bytes_a_step}
    # From the end of step 0 to that of step 28, but for what may be warm-up.
    growth = next(row for row in verdict.windows if row.metric == "growth")
    assert growth.head_bytes in range(20 * bytes_a_step, 28 * bytes_a_step + 1, bytes_a_step)
    of_run = {row.metric for row in verdict.failing if row.name == WHOLE}
    assert of_run == ({"peak", "growth"} if 28 * bytes_a_step > MIB else set())
    assert verdict.piling[0].count == 28 or verdict.piling[0].count % 28 == 0
    in_steps = [blame for blame in verdict.blame if blame.name != WHOLE]
    assert (len(verdict.blame), verdict.unblamed) == (10, 19 + len(of_run))
    for blame in in_steps[1:]:
        assert sum(finding.d_remaining_bytes for finding in blame.diff.findings) == bytes_a_step
        assert telling(blame)
        assert telling(blame)[0].kind in ("missing_free", "only_head")
    if leak == "05_leak_activations_331":
        assert [(one.kind, one.size_bytes) for one in telling(in_steps[1])] == [("missing_free", 512)]


def live_at_peak(path: Path) -> Counter[int]:
    """Sizes of the blocks live at the peak of a run, by a plain replay of the text."""
    live: dict[str, int] = {}
    best: Counter[int] = Counter()
    level = top = 0
    for line in path.read_text().splitlines():
        if event := re.search(r"\] (Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)", line):
            if event[1] == "Alloc":
                live[event[3]] = int(event[2])
            else:
                live.pop(event[3])
            level += int(event[2]) * (1 if event[1] == "Alloc" else -1)
            if level > top:
                top, best = level, Counter(live.values())
    return best


def test_the_older_release_fails_against_the_newer_one_where_it_keeps_a_tensor_too_long(shared: Path) -> None:
    data = shared / "data" / "paddle"
    old, new = data / "30_ast_transformer_pir.log", data / "30b2_ast_transformer_pir.log"
    verdict = memlens.gate(new, base_log=old, limits=["peak=4%", "rise=4%"], by=STEPS)
    # It does so in the last step, which is open; the peak of the run stands there.
    assert (verdict.exit_code, found(verdict)) == (3, [(WHOLE, "peak")])
    base, head = live_at_peak(old), live_at_peak(new)
    more = {size: (head[size] - base[size]) * size for size in head | base if head[size] > base[size]}
    assert verdict.failing[0].d_bytes == sum((head[size] - base[size]) * size for size in head | base)
    assert verdict.blame[0].diff.name == "4"
    assert telling(verdict.blame[0])[0].size_bytes == max(more, key=lambda size: more[size])
    assert memlens.gate(old, base_log=new, limits=["peak=4%", "rise=4%"], by=STEPS).verdict == "pass"


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
    for again in ("memory.json", "again.json"):
        memlens.accept(path if again == "memory.json" else moved, tmp_path / again, by=STEPS, with_events=True)
    for file in ("memory.json", "memory.events.npz"):
        assert (tmp_path / file).read_bytes() == (tmp_path / file.replace("memory", "again")).read_bytes()
    verdict = memlens.gate(
        moved, baseline=tmp_path / "memory.json", limits=["peak=0", "rise=0", "remaining=0", "growth=0", "reserved=0"]
    )
    assert (verdict.verdict, verdict.improved) == ("pass", ())


def test_another_run_of_the_same_program_passes(shared: Path) -> None:
    data = shared / "data" / "paddle"
    one, other = data / "331_dygraph_cnn.log", data / "09_launch2_dygraph_331.workerlog.0"
    addresses = [set(re.findall(r"Alloc \d+ bytes, ptr = (0x[0-9a-f]+)", path.read_text())) for path in (one, other)]
    assert not addresses[0] & addresses[1]
    exactly = ["peak=0", "rise=0", "remaining=0", "growth=0"]
    assert memlens.gate(other, base_log=one, limits=exactly, by=STEPS).exit_code == 0
    assert memlens.gate(one, base_log=other, limits=["peak=0", "remaining=0"]).exit_code == 0


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


def test_logging_switched_on_late_and_a_copy_cut_short_are_not_judged(shared: Path, tmp_path: Path) -> None:
    lines = (shared / "data" / "paddle" / "331_dygraph_cnn.log").read_text().splitlines(keepends=True)
    late, short = tmp_path / "late.log", tmp_path / "short.log.gz"
    late.write_text("".join(lines[len(lines) // 2 :]))
    short.write_bytes(gzip.compress("".join(lines).encode())[:-2000])
    for path, doubt in ((late, "unknown frees"), (short, "cut short")):
        verdict = memlens.gate(path, budgets="peak=1TiB")
        assert verdict.exit_code == 1
        assert doubt in verdict.reasons[0]


def test_a_run_that_ran_out_of_memory_fails_where_its_figures_do(shared: Path) -> None:
    verdict = memlens.gate(shared / "data" / "paddle" / "05_oom_331.log", budgets="peak=1MiB")
    assert verdict.exit_code == 3
    assert any("ran out of memory" in note for note in verdict.notes)


def test_a_doubtful_base_log_is_nothing_to_judge_by(shared: Path, tmp_path: Path) -> None:
    data = shared / "data" / "paddle"
    good, bad = data / "05_fixed_331.log.gz", data / "09_two_procs_one_file_331.log.gz"
    verdict = memlens.gate(good, base_log=bad)
    assert verdict.verdict == "unjudged"
    assert "09_two_procs" in verdict.reasons[0]
    memlens.accept(good, tmp_path / "memory.json")
    # Where it only explains, it decides nothing.
    assert memlens.gate(good, baseline=tmp_path / "memory.json", base_log=bad).verdict == "pass"
    failing = memlens.gate(data / "05_leak_graph_331.log.gz", baseline=tmp_path / "memory.json", base_log=bad)
    assert failing.verdict == "regression"
    assert any("several processes" in note for note in failing.notes)


def test_anchors_that_came_late_are_a_doubt(tmp_path: Path) -> None:
    path = log(
        tmp_path, "a.log", *[f"+256@{n + 10:x}" for n in range(50)], *[f"STEP {n} START" for n in range(20)], "+1@999"
    )
    verdict = memlens.gate(path, budgets="peak=1GiB", by=STEPS)
    assert verdict.verdict == "unjudged"
    assert "buffered stdout" in verdict.reasons[0]


# --- windows ---


def test_windows_that_the_log_lacks_fail_unless_that_is_allowed(tmp_path: Path) -> None:
    base, head = (
        steps(tmp_path, "base.log", 0, 0, 0),
        log(tmp_path, "head.log", "STEP 1 START", "+1@a", "STEP 3 START", "+1@b"),
    )
    verdict = memlens.gate(head, base_log=base, by=STEPS)
    assert (verdict.exit_code, verdict.missing, verdict.new) == (3, ("2",), ())
    assert found(verdict) == [("2", "rise"), ("2", "remaining")]
    verdict = memlens.gate(head, base_log=base, by=STEPS, allow_missing=True)
    assert (verdict.exit_code, verdict.missing) == (0, ("2",))


def test_a_shorter_run_passes_and_says_how_much_of_it_was_judged(tmp_path: Path) -> None:
    base, head = steps(tmp_path, "base.log", 0, 0, 0, 0, 0), steps(tmp_path, "head.log", 0, 0, 0)
    verdict = memlens.gate(head, base_log=base, by=STEPS)
    assert (verdict.exit_code, verdict.missing, verdict.not_reached) == (0, (), ("4", "5"))
    # Of (before) and five steps: (before), 1 and 2; step 3 is the last one of head, and open.
    assert (verdict.judged_windows, verdict.base_windows) == (3, 6)
    assert any("the run ends before 4, so 3 of the 6 windows" in note for note in verdict.notes)


def test_a_run_that_died_in_its_first_step_does_not_pass(tmp_path: Path) -> None:
    base, head = steps(tmp_path, "base.log", 0, 0, 0, 0, 0), steps(tmp_path, "head.log", 0)
    verdict = memlens.gate(head, base_log=base, by=STEPS)
    assert (verdict.verdict, verdict.doubtful) == ("unjudged", False)
    assert "no window of the log could be judged" in verdict.reasons[0]


def test_new_windows_are_told_and_do_not_fail(tmp_path: Path) -> None:
    base, head = steps(tmp_path, "base.log", 0, 0), steps(tmp_path, "head.log", 0, 0, 50 * MIB, 0)
    verdict = memlens.gate(head, base_log=base, by=STEPS, limits="peak=60MiB")
    assert (verdict.exit_code, verdict.missing, verdict.new) == (0, (), ("3", "4"))


def test_a_log_without_a_single_window_of_the_base_never_passes(tmp_path: Path) -> None:
    base, head = steps(tmp_path, "base.log", 0, 0), steps(tmp_path, "head.log", 0, 0, first=7)
    for allow_missing in (False, True):
        verdict = memlens.gate(head, base_log=base, by=STEPS, allow_missing=allow_missing)
        assert (verdict.verdict, verdict.exit_code, verdict.doubtful) == ("unjudged", 1, False)
        assert (verdict.missing, verdict.new) == (("1", "2"), ("7", "8"))  # and (before) is in both
        assert "the base has none of them, it has 1, 2 and the log 7, 8" in verdict.explanation
    held = log(tmp_path, "held.log", f"+{200 * MIB}@c", "STEP 7 START", "+1@d")
    assert memlens.gate(held, base_log=base, by=STEPS).verdict == "regression"  # whatever its steps are called
    assert memlens.gate(head, base_log=base, by=STEPS, allow_missing=True, trust=False).exit_code == 1


def test_all_failing_windows_are_listed_the_worst_first(tmp_path: Path) -> None:
    base = steps(tmp_path, "base.log", *[0] * 31)
    head = steps(tmp_path, "head.log", *[n * MIB for n in range(30)], 0)
    verdict = memlens.gate(head, base_log=base, by=STEPS)
    # Step n keeps n - 1 MiB; the limit of what remains is 1 MiB, that of the rise of 100 MiB is 2 MiB.
    assert [row.name for row in verdict.failing if row.metric == "remaining"] == [str(n) for n in range(30, 2, -1)]
    assert [row.name for row in verdict.failing if row.metric == "rise"] == [str(n) for n in range(30, 3, -1)]
    # 0 + 1 + … + 29 MiB are there when step 31 takes its 100 MiB.
    peak, growth = (row for row in verdict.failing if row.name == WHOLE)
    assert (peak.metric, peak.d_bytes, growth.metric) == ("peak", 435 * MIB, "growth")
    assert [blame.name for blame in verdict.blame] == [WHOLE, WHOLE, *(str(n) for n in range(30, 22, -1))]
    assert verdict.unblamed == 20
    assert verdict.blame[2].metrics == ("remaining", "rise")


@pytest.mark.parametrize(("held_mib", "blamed"), [(3, "1"), (4, WHOLE)])
def test_a_peak_is_blamed_on_its_window_where_half_of_the_growth_is_the_rise_of_that(
    tmp_path: Path, held_mib: int, blamed: str
) -> None:
    # A block before the steps and one in each; the second step's is larger, by 3 MiB more in head.
    def log(held: int, more: int) -> str:
        sizes = [("x", 10 + held), ("0", 20), ("1", 30 + more), ("2", 20)]
        lines = []
        for number, (step, mib) in enumerate(sizes):
            lines += [] if step == "x" else [f"STEP {step} START"]
            lines.append(f"Alloc {mib << 20} bytes, ptr = {0x1000 + number:#x}")
            lines += [] if step == "x" else [f"Free {mib << 20} bytes, ptr = {0x1000 + number:#x}"]
        return "\n".join(["Not found and reallocate 99999999(0x1000), and remaining 0", *lines, "END", ""])

    for name, text in (("base", log(0, 0)), ("head", log(held_mib, 3))):
        (tmp_path / name).write_text(text)
    verdict = memlens.gate(tmp_path / "head", base_log=tmp_path / "base", by=r"STEP (\d)", end="END", trust=False)
    (peak,) = [blame for blame in verdict.blame if "peak" in blame.metrics]
    assert peak.diff.name == blamed


def test_reserved_alone_is_not_blamed_on_blocks(tmp_path: Path) -> None:
    base = steps(tmp_path, "base.log", 0)
    head = tmp_path / "head.log"
    head.write_text(base.read_text().replace("1099511627776", "2199023255552"))
    assert memlens.gate(head, base_log=base).exit_code == 0
    verdict = memlens.gate(head, base_log=base, limits="reserved=5%")
    assert (found(verdict), verdict.blame) == ([("(whole log)", "reserved")], ())


def test_an_improvement_is_told(tmp_path: Path) -> None:
    base, head = steps(tmp_path, "base.log", 9 * MIB, 9 * MIB, 0), steps(tmp_path, "head.log", 9 * MIB, MIB, 0)
    verdict = memlens.gate(head, base_log=base, by=STEPS)
    assert [(row.name, row.metric, row.d_bytes) for row in verdict.improved] == [
        (WHOLE, "peak", -8 * MIB),
        ("2", "rise", -8 * MIB),
        ("2", "remaining", -8 * MIB),
    ]


def test_one_window_of_each_run_is_compared_whatever_it_matched(tmp_path: Path) -> None:
    base, head = steps(tmp_path, "base.log", 0, 0), steps(tmp_path, "head.log", 5 * MIB, 5 * MIB, first=7)
    memlens.accept(base, tmp_path / "memory.json", start_regex=r"STEP \d+ START", with_events=True)
    verdict = memlens.gate(head, baseline=tmp_path / "memory.json")
    assert {row.name for row in verdict.windows} == {WHOLE, "STEP 1 START"}
    assert telling(verdict.blame[0])[0].size_bytes == 5 * MIB
    assert memlens.gate(head, base_log=base, start_regex=r"STEP \d+ START").blame[0].diff.head.name == "STEP 7 START"


@pytest.mark.parametrize("cut", [{}, {"by": STEPS}, {"start": "STEP 1 START", "end": "STEP 2 START"}])
def test_a_budget_is_about_the_whole_run_however_it_is_cut_and_needs_no_base(
    tmp_path: Path, cut: dict[str, Any]
) -> None:
    head = steps(tmp_path, "head.log", 3 * MIB, 5 * MIB)
    # 3 MiB from step 1, and 100 + 5 in step 2.
    assert memlens.gate(head, budgets="peak=108MiB", **cut).exit_code == 0
    verdict = memlens.gate(head, budgets=["peak=107MiB", "reserved=2TiB"], **cut)
    assert (verdict.exit_code, found(verdict)) == (3, [(WHOLE, "peak")])
    assert (verdict.base, verdict.new, verdict.rules.limits) == ("", (), {})


# --- anchors ---


def test_the_anchors_of_the_baseline_are_taken_and_others_are_refused(tmp_path: Path) -> None:
    base = steps(tmp_path, "base.log", 0, 0)
    baseline = tmp_path / "memory.json"
    memlens.accept(base, baseline, by=STEPS, end=["A", "B"])
    assert (
        memlens.gate(base, baseline=baseline).anchors
        == memlens.gate(base, baseline=baseline, by=STEPS, end=["B", "A"]).anchors
    )
    for other in ({"by": r"STEP \d+"}, {"by": STEPS}, {"start": "STEP 1 START"}, {"end": "A"}):
        with pytest.raises(UsageError, match="anchors") as caught:
            memlens.gate(base, baseline=baseline, **other)  # type: ignore[arg-type]
        assert f"--by '{STEPS}' --end A --end B" in caught.value.message
    memlens.accept(base, tmp_path / "whole.json")
    with pytest.raises(UsageError, match="whole log"):
        memlens.gate(base, baseline=tmp_path / "whole.json", by=STEPS)


# --- accepting ---


def test_a_baseline_holds_what_the_analyzers_give(tmp_path: Path) -> None:
    taken = memlens.accept(PT, tmp_path / "memory.json", by=CALLS)
    assert taken == read_baseline(tmp_path / "memory.json")
    (run,), log = taken.runs, memlens.read(PT)
    windows = log.windows(CALLS)
    assert [window.name for window in run.windows] == [window.name for window in windows]
    for figures, window in zip(run.windows, windows, strict=True):
        left = get("remaining")(window)
        assert (figures.remaining_bytes, figures.live_bytes) == (left.remaining_bytes, left.live_bytes)
        levels, level, rise = log.kind[window.lo : window.hi], left.carried_in_bytes, 0
        for kind, size in zip(levels.tolist(), log.size[window.lo : window.hi].tolist(), strict=True):
            level += {0: size, 1: -size}.get(kind, 0)
            rise = max(rise, level - left.carried_in_bytes)
        assert figures.rise_bytes == rise
    assert run.peak_bytes == get("peak")(log.whole).peak_bytes  # nothing is carried into this log
    assert run.reserved_peak_bytes == get("peak")(log.whole).reserved_peak_bytes
    assert [window.open_end for window in run.windows] == [False] * 5 + [True]


def test_accepting_again_keeps_anchors_and_events_and_writes_the_same_bytes(tmp_path: Path) -> None:
    baseline = tmp_path / "memory.json"
    memlens.accept(PT, baseline, by=CALLS, with_events=True)
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(first) == {"memory.json", "memory.events.npz"}
    memlens.accept(PT, baseline)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    memlens.accept(PIR, baseline)
    assert memlens.gate(PIR, baseline=baseline, limits=["peak=0", "rise=0", "remaining=0", "growth=0"]).ok
    assert read_baseline(baseline).anchors == Cut(by=CALLS)
    assert memlens.accept(PIR, baseline, start="START SOT_CALL_0").anchors == Cut(start="START SOT_CALL_0")
    assert memlens.accept(PIR, baseline, with_events=False).events_sha256 is None


@pytest.mark.parametrize(
    "text", [b"", b"my thesis", b'{"schema": "memlens.baseline/1"}', b'{"schema": "memlens.analyze/1"}']
)
def test_what_is_no_baseline_is_never_written_over(tmp_path: Path, text: bytes) -> None:
    target = tmp_path / "memory.json"
    target.write_bytes(text)
    with pytest.raises(OutputError, match="not written over"):
        memlens.accept(PT, target)
    assert target.read_bytes() == text
    assert len(list(tmp_path.iterdir())) == 1


def test_a_log_is_not_written_over_by_its_own_baseline(tmp_path: Path) -> None:
    path = steps(tmp_path, "a.log", 0)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="an input of this command"):
        memlens.accept(path, path)
    assert path.read_bytes() == before


def test_a_damaged_baseline_is_not_written_over_either(tmp_path: Path) -> None:
    memlens.accept(PT, tmp_path / "memory.json")
    damaged = (tmp_path / "memory.json").read_text().replace("115906816", "925906816")
    (tmp_path / "memory.json").write_text(damaged)
    with pytest.raises(OutputError, match="check sum"):
        memlens.accept(PT, tmp_path / "memory.json")
    with pytest.raises(InputError, match="check sum"):
        memlens.gate(PT, baseline=tmp_path / "memory.json")


def test_a_file_where_the_events_would_go_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "memory.events.npz").write_bytes(b"mine")
    with pytest.raises(OutputError, match="holds no events"):
        memlens.accept(PT, tmp_path / "memory.json", with_events=True)
    assert [path.name for path in tmp_path.iterdir()] == ["memory.events.npz"]


@pytest.mark.parametrize("damage", ["missing", "damaged", "of another"])
def test_events_that_cannot_be_used_cost_the_blame_and_not_the_verdict(tmp_path: Path, damage: str) -> None:
    memlens.accept(PT, tmp_path / "memory.json", by=CALLS, with_events=True)
    events = tmp_path / "memory.events.npz"
    if damage == "missing":
        events.unlink()
    elif damage == "damaged":
        events.write_bytes(events.read_bytes()[:-50])
    else:
        memlens.accept(PIR, tmp_path / "other.json", by=CALLS, with_events=True)
        (tmp_path / "other.events.npz").replace(events)
    verdict = memlens.gate(PIR, baseline=tmp_path / "memory.json")
    assert (verdict.exit_code, verdict.blame) == (3, ())
    assert any(note.startswith("no blame: ") for note in verdict.notes)
    assert not any("blame" in note for note in memlens.gate(PT, baseline=tmp_path / "memory.json").notes)


def test_a_base_log_that_is_another_run_than_was_accepted_is_told(tmp_path: Path) -> None:
    base, head = steps(tmp_path, "base.log", 0, 0), steps(tmp_path, "head.log", 9 * MIB, 9 * MIB)
    memlens.accept(steps(tmp_path, "then.log", 0, 1), tmp_path / "memory.json", by=STEPS)
    verdict = memlens.gate(head, baseline=tmp_path / "memory.json", base_log=base)
    assert verdict.blame
    assert any("in 1 of its windows" in note for note in verdict.notes)


# --- wrong usage ---


def test_with_nothing_to_judge_by_it_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        memlens.gate(PT)
    assert all(option in caught.value.hint for option in ("--baseline", "--accept", "--budget", "--base-log"))
    with pytest.raises(UsageError, match="a limit says how much"):
        memlens.gate(PT, budgets="peak=1GiB", limits="peak=1%")
    with pytest.raises(UsageError, match="nothing would be judged"):
        memlens.gate(PT, base_log=PT, limits=["peak=off", "rise=off", "remaining=off", "growth=off"])
    with pytest.raises(UsageError, match="a baseline is a file"):
        memlens.accept(PT, "-")


def test_a_log_already_read_is_judged_as_well(tmp_path: Path) -> None:
    one, other = memlens.read(PT), memlens.read(PIR)
    assert memlens.gate(one, base_log=one, by=CALLS).ok
    assert memlens.gate(other, base_log=one, by=CALLS).exit_code == 3


def test_progress_counts_the_bytes_of_both_logs() -> None:
    seen: list[int] = []
    memlens.gate(PIR, base_log=PT, progress=seen.append)
    assert seen[-1] == PT.stat().st_size + PIR.stat().st_size


def test_a_verdict_is_json_and_a_table(tmp_path: Path) -> None:
    verdict = memlens.gate(PIR, base_log=PT, by=CALLS)
    values: dict[str, Any] = verdict.to_dict()
    assert (values["schema"], values["verdict"]) == ("memlens.gate/2", "regression")
    assert [
        set(row) >= {"name", "metric", "base_bytes", "head_bytes", "limit_bytes", "ok"} for row in values["windows"]
    ] == [True] * (2 * 6 + 3)
    assert values["blame"][1]["findings"][0]["kind"] == "missing_free"
    assert verdict.to_pandas()["name"].tolist() == [row.name for row in verdict.windows]


@pytest.mark.parametrize(
    "first",
    [
        "import memlens.gating.run",
        "import memlens.gating",
        "import memlens.cli.verbs.gate",
        "import memlens",
        "from memlens.gating import run",
    ],
)
def test_memlens_gate_is_the_function_whatever_was_imported_before(first: str) -> None:
    code = f"{first}; import memlens, inspect; assert inspect.isfunction(memlens.gate), memlens.gate; assert callable(memlens.accept)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(filter(None, sys.path))}, check=False
    )
    assert ran.returncode == 0


def test_a_window_that_an_end_closes_in_the_base_only_was_cut_short_and_is_not_judged(tmp_path: Path) -> None:
    # GIVEN a run that leaves 1 KiB behind between its anchors, and one that was killed while 100 MiB were live
    lines = ["START TRAIN", f"+{100 * MIB}@a", "+1024@b", f"-{100 * MIB}@a"]
    whole = log(tmp_path, "whole.log", *lines, "START DONE", "+512@c")
    killed = log(tmp_path, "killed.log", *lines[:-1])
    memlens.accept(whole, tmp_path / "memory.json", start="START TRAIN", end="START DONE")
    # THEN what it had not freed yet is no regression, and what it did not reach is no pass
    cut_short = memlens.gate(killed, baseline=tmp_path / "memory.json")
    assert (cut_short.verdict, cut_short.failing) == ("unjudged", ())
    assert any("no end anchor closes it" in note for note in cut_short.notes)
    # AND a peak over the limit is one all the same
    worse = log(tmp_path, "worse.log", *lines[:-1], f"+{9 * MIB}@d")
    assert found(memlens.gate(worse, baseline=tmp_path / "memory.json")) == [(WHOLE, "peak")]
    # AND so the other way round, where the base was cut short; two that no end closes are judged by each other
    cut: dict[str, Any] = {"start": "START TRAIN", "end": "START DONE"}
    assert memlens.gate(whole, base_log=killed, **cut).verdict == "unjudged"
    assert {("START TRAIN", "rise"), ("START TRAIN", "remaining")} < set(
        found(memlens.gate(worse, base_log=killed, **cut))
    )
