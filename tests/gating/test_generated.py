"""The gate on made-up runs of one program, and on logs that gates got wrong: what must pass passes, and what must fail fails."""

from __future__ import annotations

import gzip
import os
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_gates import BY, FAILING, MIB, PASSING, write

import memlens
from memlens.gating.figures import NEAR, figures_of, slipped
from memlens.windows.windows import WHOLE

#: More cases, with other seeds: MEMLENS_SEED=… pytest; benchmarks/gating.py takes fresh ones and prints rates.
SEED = os.environ.get("MEMLENS_SEED", "gate")
STEPS = r"STEP (\d+) START"


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("kind", [*PASSING, *FAILING])
def test_what_must_pass_passes_and_what_must_fail_fails(tmp_path: Path, kind: str, number: int) -> None:
    case = {**PASSING, **FAILING}[kind](Random(f"{SEED} {kind} {number}"))
    memlens.accept(
        [write(tmp_path / f"{n}.log", series) for n, series in enumerate(case.base)], tmp_path / "memory.json", by=BY
    )
    verdict = memlens.gate(write(tmp_path / "head.log", case.head), baseline=tmp_path / "memory.json")
    failing = {row.metric for row in verdict.failing}
    assert verdict.exit_code == case.exit_code, failing
    assert not case.metrics or failing & case.metrics


# --- logs that gates got wrong ---


@pytest.fixture
def traps(shared: Path) -> Path:
    folder = shared / "data" / "traps"
    if not folder.is_dir():
        pytest.skip("the shared folder has no traps")
    return folder


@pytest.mark.parametrize(("base", "head"), list(permutations(["five", "seven", "five_osexit"], 2)))
def test_a_longer_or_shorter_run_of_one_program_passes_whatever_is_freed_at_exit(
    traps: Path, base: str, head: str
) -> None:
    verdict = memlens.gate(traps / f"{head}.log.gz", base_log=traps / f"{base}.log.gz", by=STEPS)
    assert (verdict.verdict, verdict.missing) == ("pass", ())
    # Where head is the shorter one, it says how much of the base was judged: (before) and four steps that a line ends.
    assert any("5 of the 8 windows" in note for note in verdict.notes) == (base == "seven")


def test_a_leak_below_the_limit_of_each_step_fails_by_what_it_adds_up_to(traps: Path) -> None:
    verdict = memlens.gate(traps / "leak900k.log.gz", base_log=traps / "good.log.gz", by=STEPS)
    assert verdict.exit_code == 3
    # 200 blocks of 900 KiB; no step by itself is over a limit.
    assert [(row.name, row.metric) for row in verdict.failing] == [(WHOLE, "peak"), (WHOLE, "growth")]
    assert verdict.failing[0].d_bytes == 200 * 921600
    assert verdict.growth is not None
    assert (verdict.growth.verdict, verdict.growth.windows) == ("growing", 199)
    assert float(verdict.growth.per_window) == 921600
    assert (verdict.piling[0].size_bytes, verdict.piling[0].owner) == (921600, None)
    growth = next(blame for blame in verdict.blame if blame.metrics == ("growth",))
    (finding,) = growth.diff.findings
    assert (finding.kind, finding.size_bytes, finding.count) == ("only_head", 921600, 1)
    assert memlens.gate(traps / "good.log.gz", base_log=traps / "leak900k.log.gz", by=STEPS).ok


def test_a_late_leak_fails_and_a_sawtooth_does_not(traps: Path) -> None:
    late, sawtooth = traps / "late_leak.log.gz", traps / "sawtooth.log.gz"
    # Neither has chunk lines: what is reserved is not known, and all else is judged.
    text = gzip.decompress(late.read_bytes()).decode()
    verdict = memlens.gate(late, base_log=late, by=STEPS, limits="reserved=0")
    assert (verdict.verdict, [row.unjudged for row in verdict.windows if row.metric == "reserved"]) == (
        "pass",
        ["not told by the log"],
    )
    assert verdict.growth is not None
    assert verdict.growth.verdict == "growing"
    assert text.count("STEP") == 100
    assert memlens.gate(sawtooth, base_log=sawtooth, by=STEPS).ok
    assert memlens.gate(late, base_log=sawtooth, by=STEPS).exit_code == 3


# --- real runs ---


def test_thirty_steps_and_five_of_one_real_program_pass_each_other(shared: Path) -> None:
    data = shared / "data" / "paddle"
    runs = [
        data / name for name in ("05_fixed_331.log.gz", "331_dygraph_cnn.log", "09_launch2_dygraph_331.workerlog.0")
    ]
    for base, head in permutations(runs, 2):
        verdict = memlens.gate(head, base_log=base, by=STEPS)
        assert verdict.ok, verdict.failing
    assert memlens.gate(data / "05_leak_graph_331.log.gz", base_log=runs[1], by=STEPS).exit_code == 3


def test_an_asynchronous_run_passes_against_any_other_part_of_it(shared: Path, tmp_path: Path) -> None:
    """Four threads; half of the frees come from another one than their ALLOC.  A run of n steps is the log up to step n."""
    text = gzip.decompress((shared / "data" / "paddle" / "04_threads_30_ast_pt_transformer.log.gz").read_bytes())
    runs = []
    for steps in (6, 11, 16):
        runs.append(tmp_path / f"{steps}.log")
        runs[-1].write_bytes(text[: text.index(b"STEP %d START" % steps)])
    for base, head in permutations(runs, 2):
        assert memlens.gate(head, base_log=base, by=STEPS).ok
    # … and its steps among themselves.
    log = memlens.read(shared / "data" / "paddle" / "04_threads_30_ast_pt_transformer.log.gz")
    figures = figures_of(log.windows(STEPS)).series[1:]
    assert len(figures) == 18  # the first one warms up, the last one is open
    rises = [window.rise_bytes for window in figures]
    # Threads move the rise of a step by up to 0.31 MiB here, and what remains not at all.
    assert max(rises) - min(rises) < MIB
    assert {window.remaining_bytes for window in figures} == {0}


# --- what was there before the input ---


def test_a_budget_counts_what_was_live_before_the_input(shared: Path) -> None:
    path = next((shared / "data" / "torch" / "snapshots").glob("*pre_existing_blocks*"))
    peak = memlens.gate(path, budgets="peak=1TiB").windows[0]
    log = memlens.read(path)
    opening = int(log.size[: log.facts.opening][log.kind[: log.facts.opening] == 0].sum())
    assert opening > 0
    assert peak.head_bytes is not None
    rise = next(row.head_bytes for row in memlens.gate(path, budgets="peak=1TiB").windows if row.metric == "rise")
    assert rise is not None
    assert peak.head_bytes == opening + rise


# --- what comes over an anchor ---


BLOCK = 4 * MIB
PLAIN = [[], *([(f"{n}a", BLOCK), (f"{n}b", 512), (f"{n}b", 0), (f"{n}a", 0)] for n in range(5))]


def moved(step: int, by: int) -> list[list[tuple[str, int]]]:
    """The same run, with the line that starts a step (1-based) so many events later, or earlier below 0."""
    events, after = PLAIN[step], PLAIN[step + 1]
    joined, cut = [*events, *after], len(events) + by
    return [*PLAIN[:step], joined[:cut], joined[cut:], *PLAIN[step + 2 :]]


@pytest.mark.parametrize("by", [1, -1])
def test_a_block_that_came_over_a_line_by_one_event_is_not_counted(tmp_path: Path, by: int) -> None:
    plain, other = write(tmp_path / "a.log", PLAIN), write(tmp_path / "b.log", moved(2, by))
    for base, head in ((plain, other), (other, plain)):
        verdict = memlens.gate(head, base_log=base, by=BY)
        assert verdict.ok
        assert memlens.gate(head, base_log=base, by=BY, limits=["rise=0", "remaining=0", "peak=0"]).ok
    assert {row.slipped_bytes for row in memlens.gate(other, base_log=plain, by=BY).windows} == {0, BLOCK - MIB}


def test_a_block_that_is_freed_deep_in_the_next_step_or_never_is_counted(tmp_path: Path) -> None:
    late = [list(step) for step in PLAIN]
    late[2].remove(("1a", 0))
    for kept in (late, [*late[:3], [*late[3], ("1a", 0)], *late[4:]]):
        head = write(tmp_path / "head.log", kept)
        failing = memlens.gate(head, base_log=write(tmp_path / "base.log", PLAIN), by=BY).failing
        assert ("1", "remaining") in {(row.name, row.metric) for row in failing}


sizes = st.integers(-9, 9)


@given(st.lists(sizes, min_size=3 * NEAR, max_size=3 * NEAR), st.integers(0, NEAR))
def test_an_anchor_that_comes_later_lets_in_what_stands_between(events: list[int], by: int) -> None:
    """The same events, with the anchor after the first ``NEAR`` of them, and later: the level differs by what stands between."""
    here, later = (tuple(events[at - NEAR : at + NEAR]) for at in (NEAR, NEAR + by))
    assert slipped(here, here) == 0
    assert slipped(here, later) == -slipped(later, here)
    if len(set(events)) == len(events):
        assert slipped(here, later) == sum(events[NEAR : NEAR + by])


@given(st.lists(sizes, min_size=2 * NEAR, max_size=2 * NEAR), st.integers(0, NEAR - 1), sizes)
def test_an_event_that_one_run_does_not_have_at_the_anchor_has_not_come_over_it(
    events: list[int], place: int, other: int
) -> None:
    """A FREE that is missing is not one that came later, whatever stands around it."""
    without = [*([other] if place else []), *events[:place], *events[place + 1 :]] if place else [other, *events[1:]]
    assert slipped(tuple(events), tuple(without)) == 0


def test_what_is_not_counted_is_noted(tmp_path: Path) -> None:
    # The base keeps 4 MiB in steps 1 and 4 and gives them back in the next one; the head does not keep them.
    steps: list[list[tuple[str, int]]] = [[], *([(f"a{n}", MIB), (f"a{n}", 0)] for n in range(8))]
    kept = [list(events) for events in steps]
    for at in (1, 4):
        kept[at + 1].append((f"kept{at}", 4 * MIB))
        kept[at + 2].insert(0, (f"kept{at}", 0))
    verdict = memlens.gate(
        write(tmp_path / "head.log", steps), base_log=write(tmp_path / "base.log", kept), by=BY, limits="rise=off"
    )
    assert verdict.verdict == "pass"
    # From -4 MiB to 0 with a limit of 1 MiB: 3 MiB above it.
    assert [(row.name, row.metric, row.slipped_bytes) for row in verdict.windows if row.slipped_bytes] == [
        ("2", "remaining", 3 * MIB),
        ("5", "remaining", 3 * MIB),
    ]
    assert [
        note
        for note in verdict.notes
        if note.startswith("not counted in 2 figures above the limit (remaining of 2 the first)")
    ]
