"""What compare claims of many runs, and of the ranks of a job, is so: judges read it again from the lines of logs that are made here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from edited_runs import EDITS, rows_of
from edited_runs import write as write_rows
from made_rank_logs import KIB, MIB, Program, write
from many_judge import JUDGES, RawRuns, judge

import memlens

#: What ranks a claim, what no sentence says of a failure for which too much was asked, and how many stand out alike.
_LEFT = {"weight", "gaps", "largest_gap_bytes", "others"}
USUAL = Program(steps=4)


def judged(logs: Any, paths: list[Path], template: str = "", **how: Any) -> Counter[str]:
    claims = memlens.compare(logs, jobs=1, **how).to_dict()["claims"]
    of = RawRuns(paths, template, how.get("base", "").split("=")[-1])
    of.metrics = how.get("metrics", of.metrics)
    return judge(claims, of)


def holding(program: Program, *sizes: int) -> Program:
    """A rank that holds blocks more."""
    return replace(program, parameters=(*program.parameters, *((size, "gather") for size in sizes)))


#: Ranks of which some are unlike the others in one way.
JOBS = {
    "ended_early": [*[USUAL] * 7, replace(USUAL, stops=1)],
    "groups": [*[USUAL] * 6, *[holding(USUAL, 100 * MIB)] * 6],
    "more_stand_out": [*[USUAL] * 60, *(holding(USUAL, (100 + k) * MIB) for k in range(5))],
    "run_out_of_memory": [*[replace(USUAL, asks=(2, 2 << 30, "relu"))] * 2, USUAL, replace(USUAL, stops=2)],
    "none_stands_out": [*[holding(USUAL, 256 * MIB)] * 8, *[USUAL] * 8],
}


@pytest.mark.parametrize("kind", JOBS)
def test_what_is_claimed_of_ranks_that_differ_is_so(tmp_path: Path, kind: str) -> None:
    ranks = JOBS[kind]
    paths = [write(tmp_path, f"pp{2 * k // len(ranks)}/workerlog.{k}", one) for k, one in enumerate(ranks)]
    if kind == "groups":
        paths = [write(tmp_path, f"workerlog.{k}", one) for k, one in enumerate(ranks)]
    assert judged([str(path) for path in paths], paths)[kind]


def a_job(folder: Path, chance: Random) -> list[Path]:
    """Ranks that do one work, of which some may hold more, fail, end early, or have no log."""
    ranks = chance.choice([2, 3, 8, 16])
    programs = [holding(USUAL, chance.randrange(1, 64) * KIB) for _ in range(ranks)]

    def some(*counts: int) -> list[int]:
        return chance.sample(range(ranks), min(chance.choice(counts), ranks - 1))

    for rank in some(0, 1, 2):
        programs[rank] = holding(programs[rank], *[48 * MIB] * chance.randint(1, 2))
    for rank in some(0, 0, 1, 2):
        asks = chance.randrange(4), 2 << 30, "relu"
        programs[rank] = replace(programs[rank], asks=asks, begin_us=chance.choice([0, 7_000, 420_000]))
    for rank in some(0, 0, 1):
        programs[rank] = replace(programs[rank], stops=1)
    left_out = some(0, 0, 1)
    return [write(folder, f"workerlog.{k}", one) for k, one in enumerate(programs) if k not in left_out]


def test_what_is_claimed_of_the_ranks_of_a_job_is_so(tmp_path: Path, rounds: Callable[[int], range]) -> None:
    fresh, seen = Random(), Counter[str]()
    for seed in [fresh.getrandbits(32) for _ in rounds(30)]:
        paths = a_job(tmp_path / str(seed), Random(seed))
        seen += judged([str(path) for path in paths], paths) if len(paths) > 1 else Counter()
    assert {"spread", "first_to_fail", "stands_out", "ranks_without_log"} <= {*seen}


def a_matrix(folder: Path, chance: Random) -> list[Path]:
    """Runs by the batch and the branch, of ranks of which one may hold more; what they need may grow by the batch, and large batches may fail, or have no log."""
    per_batch = {branch: chance.choice([0, 0, 1, 2, 3]) for branch in ("develop", "fix")}
    fails, odd, paths = chance.choice([48, 64, 99]), chance.choice([None, 0, 5]), []
    lacks = chance.choice([16, 32, 0]), "fix", 1
    for batch in (16, 32, 48, 64):
        for branch, grows in per_batch.items():
            for rank in range(6 if odd else 2):
                if (batch, branch, rank) == lacks:
                    continue
                sizes = [batch * grows * MIB or KIB, 700 * MIB * (rank == odd and branch == "fix") or KIB]
                program = holding(replace(USUAL, asks=(1, 9 << 30, "relu") if batch >= fails else None), *sizes)
                paths.append(write(folder, f"gbs{batch}/{branch}/workerlog.{rank}", program))
    return paths


def test_what_is_claimed_of_a_matrix_of_runs_is_so(tmp_path: Path, rounds: Callable[[int], range]) -> None:
    fresh, seen = Random(), Counter[str]()
    for seed in [fresh.getrandbits(32) for _ in rounds(12)]:
        folder = tmp_path / str(seed)
        paths = a_matrix(folder, Random(seed))
        template = f"{folder}/gbs{{gbs}}/{{branch}}/workerlog.{{rank}}"
        seen += judged(template, paths, template, base="branch=develop", cols="branch")
    assert {"scales", "some_out_of_memory", "runs_against_base"} <= {*seen}


def test_what_is_claimed_of_a_list_of_runs_is_so(examples: Path, tmp_path: Path) -> None:
    chance, run = Random(), rows_of(examples / "cnn_5steps.log.gz")
    for count in (1, 3, 6):
        paths = [tmp_path / f"{count} {k}.log" for k in range(count)]
        for path in paths:
            write_rows(chance.choice(list(EDITS.values()))(run, Random(chance.random())), path)
        assert judged(paths, paths, base=str(paths[0]))
    assert judged([paths[0], paths[0]], paths[:1], base=str(paths[0]))["with_itself"]
    failed = [write(tmp_path, f"failed/{k}.log", replace(USUAL, asks=(k, 2 << 30, "relu"))) for k in range(3)]
    assert judged(failed, failed, base=str(failed[0]))["all_out_of_memory"]
    mixed = [paths[0], *failed[:2]]
    assert judged(mixed, mixed, base=str(paths[0]))["some_out_of_memory"]
    bad = [paths[0], tmp_path / "none.log", write_rows(run[1:], tmp_path / "late.log")]
    bad[1].write_text("nothing of an allocator\n")
    assert judged(bad, bad)["without_figures"] == 2
    ranks = [write_rows(run, tmp_path / f"workerlog.{k}") for k in range(4)]
    assert judged([str(path) for path in ranks], ranks, metrics=["reserved_peak_bytes"])["no_spread"]


def test_a_wrong_figure_is_found(tmp_path: Path) -> None:
    ranks = [*JOBS["more_stand_out"][:61], *JOBS["run_out_of_memory"][:2], *JOBS["ended_early"][-1:]]
    paths = [write(tmp_path, f"workerlog.{k + (k > 3)}", one) for k, one in enumerate(ranks)]
    claims, of = memlens.compare([str(path) for path in paths], jobs=1).to_dict()["claims"], RawRuns(paths)
    assert judge(claims, of).keys() >= {"spread", "stands_out", "first_to_fail", "ended_early", "ranks_without_log"}
    for claim in claims:
        for name, value in claim.items():
            if isinstance(value, int) and not isinstance(value, bool) and name not in _LEFT:
                with pytest.raises((AssertionError, StopIteration, KeyError)):
                    JUDGES[claim["kind"]]({**claim, name: value + 1}, of)
