"""The gate on made-up runs of one program, and on logs that gates got wrong: what must pass passes, and what must fail fails."""

from __future__ import annotations

import gzip
import os
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from made_gates import BY, FAILING, PASSING, write
from night import some

import memlens
from memlens.folding import profile

#: More cases, with other seeds: MEMLENS_SEED=… pytest; benchmarks/gating.py takes fresh ones and prints rates.
SEED = os.environ.get("MEMLENS_SEED", "gate")
STEPS = r"STEP (\d+) START"


@pytest.mark.parametrize("number", some(range(5), 5))
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
    verdict = memlens.gate(traps / f"{head}.log.gz", base=traps / f"{base}.log.gz", by=STEPS)
    assert (verdict.verdict, verdict.missing) == ("pass", ())
    # Where head is the shorter one, it says how much of the base was judged: (before) and four steps that a line ends.
    assert ("5 of the base's 8 windows judged" in verdict.explanation) == (base == "seven")
    assert memlens.gate(traps / f"{head}.log.gz", base=traps / f"{base}.log.gz", limits="growth=0").ok


@pytest.mark.parametrize("cut", [{"by": STEPS}, {}], ids=["by", "found"])
def test_a_late_leak_fails_and_a_sawtooth_does_not(traps: Path, cut: dict[str, Any]) -> None:
    late, sawtooth, good = (traps / f"{name}.log.gz" for name in ("late_leak", "sawtooth", "good"))
    for base in (sawtooth, good):
        assert {"growth"} <= {row.metric for row in memlens.gate(late, base=base, **cut).failing}
    assert memlens.gate(late, base=late, **cut).ok
    assert "growth" not in {row.metric for row in memlens.gate(sawtooth, base=good, **cut).failing}


# --- real runs ---


def test_an_asynchronous_run_passes_against_any_other_part_of_it(shared: Path, tmp_path: Path) -> None:
    """Four threads; half of the frees come from another one than their ALLOC.  A run of n steps is the log up to step n."""
    text = gzip.decompress((shared / "data" / "paddle" / "04_threads_30_ast_pt_transformer.log.gz").read_bytes())
    runs = []
    for steps in (6, 11, 16):
        runs.append(tmp_path / f"{steps}.log")
        runs[-1].write_bytes(text[: text.index(b"STEP %d START" % steps)])
    for base, head in permutations(runs, 2):
        assert memlens.gate(head, base=base, by=STEPS).ok
    # … and its steps among themselves.
    log = memlens.read(shared / "data" / "paddle" / "04_threads_30_ast_pt_transformer.log.gz")
    figures = profile(log.windows(STEPS)[2:-1])  # the first one warms up, the last one is open
    peaks = figures["peak_bytes"]
    # Threads move the peak of a step by up to 0.31 MiB here, and what remains not at all.
    assert (len(peaks), int(peaks.max() - peaks.min())) == (18, 327_680)
    assert not figures["remaining_bytes"].any()
