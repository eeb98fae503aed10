"""Logs that invite a wrong verdict, through the verbs as users call them: what is right stands in the folder's own README.

The long window whose neighbours changed places is in ``tests/diffing/test_jitter.py``, both ways round.
"""

from __future__ import annotations

import gzip
import re
from itertools import permutations
from pathlib import Path

import pytest
from night import some

import memlens

MIB = 1 << 20
STEP = r"STEP (\d+) START"
CALL = r"START (SOT_CALL_\d+)"


@pytest.fixture(scope="module")
def traps(shared: Path) -> Path:
    return shared / "data" / "traps"


def levels_at_ends(path: Path) -> dict[str, int]:
    """The live bytes at the end of each step by a loop over the lines; ``""`` is what comes before the first."""
    ends: dict[str, int] = {}
    step, live = "", 0
    with gzip.open(path, "rt") as lines:
        for line in lines:
            if start := re.match(STEP, line):
                step = start[1]
            if event := re.search(r"(Alloc|Free) (\d+) bytes, ptr", line):
                live += int(event[2]) * (1 if event[1] == "Alloc" else -1)
            ends[step] = live
    return ends


RUNS = ["five", "seven", "five_osexit"]


@pytest.mark.parametrize(("base", "head"), list(permutations(RUNS, 2)))
def test_runs_of_one_program_differ_in_no_step_whatever_their_length_and_their_exit(
    traps: Path, base: str, head: str
) -> None:
    found = memlens.diff(traps / f"{base}.log.gz", traps / f"{head}.log.gz", by=STEP)
    assert [window.name for window in found.windows if window.judged and not window.same] == []
    assert sum(window.judged for window in found.windows) >= 5  # (before) and steps 0 to 3


@pytest.mark.parametrize(("base", "head"), list(permutations(RUNS, 2)))
def test_a_gate_with_any_of_these_runs_as_baseline_passes_the_others(
    traps: Path, tmp_path: Path, base: str, head: str
) -> None:
    memlens.accept(traps / f"{base}.log.gz", tmp_path / "memory.json", by=STEP)
    verdict = memlens.gate(traps / f"{head}.log.gz", baseline=tmp_path / "memory.json")
    assert verdict.verdict == "pass", verdict.failing


def test_a_leak_below_every_window_s_limit_fails_by_what_it_adds_up_to(traps: Path, tmp_path: Path) -> None:
    memlens.accept(traps / "good.log.gz", tmp_path / "memory.json", by=STEP)
    verdict = memlens.gate(traps / "leak900k.log.gz", baseline=tmp_path / "memory.json")
    failing = {row.metric: row for row in verdict.failing}
    assert verdict.verdict == "regression"
    assert "growth" in failing
    ends = list(levels_at_ends(traps / "leak900k.log.gz").values())
    per_step = 900 << 10
    assert ends[-1] - ends[0] == 200 * per_step
    # The last of the 200 steps is open.
    assert failing["growth"].head_bytes == pytest.approx(199 * per_step, rel=0.02)


def test_a_leak_that_starts_late_is_growth_from_there_on(traps: Path) -> None:
    log = memlens.analyze(traps / "late_leak.log.gz", by=STEP).logs[0]
    assert log.growth is not None
    ends = levels_at_ends(traps / "late_leak.log.gz")
    first = next(step for step, live in ends.items() if live > MIB)
    assert (log.growth.verdict, log.growth.since) == ("growing", first)
    # From that step to the one before the last, which is open, 1 MiB each.
    assert log.growth.gained_bytes == ends["98"] - MIB == 49 * MIB


def test_a_sawtooth_that_comes_back_to_its_floor_does_not_grow(traps: Path) -> None:
    log = memlens.analyze(traps / "sawtooth.log.gz", by=STEP).logs[0]
    assert log.growth is not None
    assert log.growth.verdict in ("flat", "swinging")
    assert log.growth.piling == ()


def test_threads_that_interleave_otherwise_lose_no_free(traps: Path) -> None:
    for base, head in permutations(("threads_base", "threads_head")):
        found = memlens.diff(traps / f"{base}.log.gz", traps / f"{head}.log.gz", whole=True).windows[0]
        assert {"missing_free", "extra_free"}.isdisjoint(finding.kind for finding in found.findings)
        assert (found.remaining.missing_free_bytes, found.remaining.extra_free_bytes) == (0, 0)


def test_an_inserted_call_is_one_new_window_and_nothing_else_differs(shared: Path, traps: Path) -> None:
    base = shared / "data/paddle/331_sot_pir_cnnbreaks.log"
    found = memlens.diff(base, traps / "extra_call_head.log.gz", by=CALL)
    assert [window.name for window in found.windows if window.judged and not window.same] == []
    assert (len(found.base.unpaired), len(found.head.unpaired)) == (0, 1)
    assert any("renumbered" in note or "by what they do" in note for note in found.notes)
    mirror = memlens.diff(traps / "extra_call_head.log.gz", base, by=CALL)
    assert (len(mirror.base.unpaired), len(mirror.head.unpaired)) == (1, 0)


def test_a_resumed_run_whose_numbers_start_elsewhere_pairs_by_what_its_windows_do(shared: Path, traps: Path) -> None:
    base = shared / "data/paddle/331_sot_pir_cnnbreaks.log"
    found = memlens.diff(base, traps / "resumed_head.log.gz", by=CALL)
    assert [window.name for window in found.windows if window.judged and not window.same] == []
    assert (len(found.base.unpaired), len(found.head.unpaired)) == (0, 0)
    assert any("by what they do" in note for note in found.notes)


def test_a_run_of_thirty_steps_passes_a_baseline_of_five_steps_of_it(shared: Path, tmp_path: Path) -> None:
    """Of one real log: its first five steps with the frees at exit against all of it."""
    whole = shared / "data/paddle/05_fixed_331.log.gz"
    with gzip.open(whole, "rt", errors="replace") as lines:
        text = lines.read().splitlines(keepends=True)
    starts = [number for number, line in enumerate(text) if re.search(r"STEP \d+ START", line)]
    assert len(starts) > 10
    last = max(number for number, line in enumerate(text) if re.search(r"STEP \d+ END", line))
    short = tmp_path / "short.log"
    short.write_text("".join(text[: starts[5]] + text[last:]))
    memlens.accept(short, tmp_path / "memory.json", by=r"(STEP \d+) START", trust=False)
    verdict = memlens.gate(whole, baseline=tmp_path / "memory.json", trust=False)
    assert verdict.verdict == "pass", verdict.failing


def test_compare_of_two_snapshots_goes_the_way_that_the_device_s_peak_went(shared: Path) -> None:
    folder = shared / "data/torch/snapshots"
    names = ["pre_existing_blocks", "segments_only", "ring_3000", "train_19464"]
    found = memlens.compare([folder / f"{name}.pickle" for name in names])
    peaks = [run.windows[0].peak_bytes for run in found.runs]
    whole = [memlens.analyze(folder / f"{name}.pickle").logs[0].windows[0].results["peak"].peak_bytes for name in names]
    assert peaks == whole
    for base, head in some(permutations(range(len(names)), 2), 10):
        two = memlens.diff(folder / f"{names[base]}.pickle", folder / f"{names[head]}.pickle", whole=True).windows[0]
        assert two.d_peak_bytes == whole[head] - whole[base]
        assert not two.same
