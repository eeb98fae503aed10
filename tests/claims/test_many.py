"""What compare claims of many runs, and of the ranks of a job, is so: judges read it again from the lines of logs that are made here."""

from __future__ import annotations

import re
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
from night import NIGHT, chance_of

import memlens
from memlens.reports.compare import compare_blocks
from memlens.reports.terminal import render

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


#: What the log of a run ends in that did not run to its end.
ENDS = {
    "free": "double free or corruption (!prev)\n",
    "signal": "FatalError: `Segmentation fault` is detected by the operating system.\n  [TimeInfo: *** Aborted ***]\n"
    "  [SignalInfo: *** SIGSEGV (@0x0) received by PID 12273 ***]\n",
    "exception": 'Traceback (most recent call last):\n  File "train.py", line 14, in <module>\nValueError: no such batch\n',
    "other": 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\nKeyError: 7\n',
    "cut": "",
    "": "",
}


def write_ended(folder: Path, name: str, end: str, run: Program = USUAL) -> Path:
    """Write the log of a run that ended so; one that is cut, or killed by a signal, two ALLOCs after its last step began."""
    path = write(folder, name, run)
    lines = path.read_text().splitlines(keepends=True)
    if end in ("cut", "signal"):
        start = max(k for k, line in enumerate(lines) if line.startswith("STEP"))
        allocs = [k for k, line in enumerate(lines) if k > start and "] Alloc " in line]
        lines = lines[: allocs[1] + 1]
    path.write_text("".join(lines) + ENDS[end])
    return path


def test_how_ranks_ended_is_said_first_and_is_so(tmp_path: Path, rounds: Callable[[int], range]) -> None:
    fresh = chance_of("ends")
    for seed in [fresh.getrandbits(32) for _ in rounds(8 if NIGHT else 4)]:
        chance = Random(seed)
        ends = [chance.choice(["", *ENDS]) for _ in range(chance.randint(2, 9))]
        paths = [write_ended(tmp_path / str(seed), f"workerlog.{k}", end) for k, end in enumerate(ends)]
        assert bool(judged([*map(str, paths)], paths)["runs_ended"]) == any(ends), seed
        assert bool(judged(paths, paths, base=str(paths[0]))["runs_ended"]) == any(ends), seed
        verdict = memlens.compare([*map(str, paths)], jobs=1).verdict
        first = re.search("died|ended with|stop", verdict.partition("peaks of")[0])
        assert bool(first) == any(ends), verdict


def test_one_sentence_says_how_runs_ended_however_many(tmp_path: Path) -> None:
    for ranks, how in (
        (2, "The log of rank 1 stops inside STEP 3, at line "),
        (40, "39 of 40 ranks stop inside a step: "),
    ):
        logs = [write_ended(tmp_path / str(ranks), f"workerlog.{k}", "cut" if k else "") for k in range(ranks)]
        first = memlens.compare([*map(str, logs)], jobs=1).answer.sentences[0]
        assert first.startswith(how)
        assert len(first.split()) <= 25
    died = [write_ended(tmp_path / "died", f"workerlog.{k}", ("free", "signal", "")[k % 3]) for k in range(6)]
    comparison = memlens.compare([*map(str, died)], jobs=1)
    assert comparison.answer.sentences[0] == (
        "4 of 6 ranks died: rank 0 (double free or corruption), rank 1 (SIGSEGV), rank 3 (double free or corruption) and 1 more."
    )
    assert comparison.answer.tone == "bad"


def only_frees(path: Path) -> Path:
    """A log with its Frees alone: it does not tell how much was allocated."""
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "] Free " in line))
    return path


def test_nothing_is_concluded_of_levels_that_are_not_known(tmp_path: Path) -> None:
    ranks = [only_frees(write(tmp_path, f"free/workerlog.{k}", USUAL)) for k in range(4)]
    comparison = memlens.compare([*map(str, ranks)], jobs=1)
    assert comparison.verdict.endswith(" 4 ranks, none with a figure for peak allocated.")
    assert comparison.answer.tone == "plain"
    for run in comparison.to_dict()["runs"]:
        (window,) = run["windows"]
        freed = window["free_bytes"]
        assert freed > 0
        assert [window[name] for name in ("peak_bytes", "live_bytes", "carried_in_bytes")] == [None] * 3
        assert (window["rise_bytes"], window["remaining_bytes"]) == (0, -freed)  # what lies in the log is known
    assert judged([*map(str, ranks)], ranks)["no_spread"]
    of_list = memlens.compare(ranks, base=str(ranks[0]))
    assert of_list.verdict.endswith(" No run has a figure for peak allocated.")
    assert of_list.answer.tone == "plain"

    mixed = [write(tmp_path, f"mixed/workerlog.{k}", USUAL) for k in range(5)]
    only_frees(mixed[3])
    verdict = memlens.compare([*map(str, mixed)], jobs=1).verdict
    assert "5 ranks, 4 of them with figures: peaks of " in verdict
    assert "ends early" not in verdict  # no ALLOC is no sign of that
    assert judged([*map(str, mixed)], mixed)["spread"]
    assert memlens.compare(mixed, base=str(mixed[0])).verdict.endswith("; it is not known in workerlog.3.")
    assert judged(mixed, mixed, base=str(mixed[0]))["figure_not_known"]
    # With a base of which nothing is known nothing is better or worse.
    against = memlens.compare([mixed[0], mixed[3]], base=str(mixed[3]))
    assert against.verdict.endswith(" in workerlog.0; it is not known in workerlog.3.")
    assert against.answer.tone == "plain"


def test_doubts_of_ranks_are_said_before_they_are_called_alike(tmp_path: Path) -> None:
    ranks = [write(tmp_path, f"workerlog.{k}", USUAL) for k in range(4)]
    for path in ranks:  # what is freed first was allocated before the log begins
        lines = path.read_text().splitlines(keepends=True)
        free = next(line for line in lines if "] Free " in line)
        path.write_text("".join([free, *lines]))
    comparison = memlens.compare([*map(str, ranks)], jobs=1)
    assert comparison.verdict.startswith(
        "4 of 4 ranks are in doubt: rank 0, rank 1, rank 2 and 1 more. 4 ranks: peaks of "
    )
    assert comparison.answer.tone == "plain"
    assert judged([*map(str, ranks)], ranks)["without_figures"]


def test_a_cell_without_a_log_is_no_run(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"{version}/{mode}.log", USUAL) for version in (1, 2, 3) for mode in ("pt", "pir", "sot")]
    paths.pop(4).unlink()
    template = f"{tmp_path}/{{version}}/{{mode}}.log"
    comparison = memlens.compare(template, jobs=1)
    assert comparison.verdict.startswith("1 run is missing: version 2 pir. The peak is ")
    assert "in all 8 runs" in comparison.verdict
    assert judged(template, paths, template)["without_figures"]
    text = render(compare_blocks(comparison), width=100)
    assert "8 runs: 3 version × 3 mode, 1 missing" in text


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
    fresh, seen = chance_of("job"), Counter[str]()
    for seed in [fresh.getrandbits(32) for _ in rounds(30 if NIGHT else 12)]:
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
    fresh, seen = chance_of("matrix"), Counter[str]()
    for seed in [fresh.getrandbits(32) for _ in rounds(12 if NIGHT else 5)]:
        folder = tmp_path / str(seed)
        paths = a_matrix(folder, Random(seed))
        template = f"{folder}/gbs{{gbs}}/{{branch}}/workerlog.{{rank}}"
        seen += judged(template, paths, template, base="branch=develop", cols="branch")
    assert {"scales", "some_out_of_memory", "runs_against_base"} <= {*seen}


def test_what_is_claimed_of_a_list_of_runs_is_so(examples: Path, tmp_path: Path) -> None:
    chance, run = chance_of("list"), rows_of(examples / "cnn_5steps.log.gz")
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
