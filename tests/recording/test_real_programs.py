"""A real program, good and with a regression: what ``benchmarks/programs.py`` judges of seven programs and 29 regressions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from program_judge import DIFFERENCES, Pair, Run, first_sentences, record_program, regressions
from real_paddle import RealPaddle

import memlens

pytestmark = [pytest.mark.paddle, pytest.mark.changed("recording")]

PROGRAM, BAD = "lstm", "keep_states"


def runs(paddle: RealPaddle, folder: Path) -> tuple[list[Run], Pair]:
    """Good runs, and the first of them with the bad one."""
    good = [record_program(paddle, folder / f"good{number}.log", PROGRAM) for number in range(2)]
    bad = record_program(paddle, folder / "bad.log", PROGRAM, BAD)
    return good, Pair(good[0], bad, *regressions()[PROGRAM, BAD])


def test_a_good_run_passes_and_differs_in_nothing_and_a_bad_one_fails_and_is_named_at_once(
    counting: RealPaddle, tmp_path: Path
) -> None:
    good, pair = runs(counting, tmp_path)
    assert pair.must_fail
    baseline = tmp_path / "memory.json"
    memlens.accept(good[0].log, baseline)
    verdicts = [memlens.gate(run.log, baseline=baseline).verdict for run in (*good, pair.bad)]
    assert verdicts == ["pass", "pass", "regression"]
    found = memlens.diff(pair.good.log, pair.bad.log).to_dict()
    assert pair.faults(first_sentences(found["verdict"], found["claims"])) == []
    for base, head in pairwise(good):
        assert {one.kind for one in memlens.diff(base.log, head.log).claims} & DIFFERENCES == set()
