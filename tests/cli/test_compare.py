"""``memlens compare`` from logs to a table, a file or a pipe."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_runs as made
import pytest
from commands import HERE, process
from made_rank_logs import MadeJob, Program, large_job
from night import some

MIB = made.MIB


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs of two steps, of 10 and 12 MiB."""
    paths = tmp_path / "before.log", tmp_path / "after.log"
    for path, mib in zip(paths, (10, 12), strict=True):
        path.write_text(made.log_text(mib * MIB, steps=2))
    return paths


@pytest.fixture
def case_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The template of the eight-card matrix, seen from its folder."""
    made.write_case_3(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return "runs/gbs{gbs}/{branch}/workerlog.{rank}"


def rows_of(ran: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(ran.out)))


# --- what is compared ---


def test_a_missing_run_is_said_and_does_not_lose_the_others(
    memlens: Any, logs: tuple[Path, Path], tmp_path: Path
) -> None:
    ran = memlens("compare", *logs, tmp_path / "gone.log", columns=80)
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"^gone\.log +missing", ran.out, re.MULTILINE)
    row = rows_of(memlens("compare", *logs, tmp_path / "gone.log", "--format", "csv"))[2]
    assert (row["status"], row["peak_bytes"]) == ("missing", "")


def test_nothing_readable_is_a_failure_that_still_shows_what_there_is(memlens: Any, tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    ran = memlens("compare", tmp_path / "gone.log", tmp_path / "empty.log", columns=80)
    assert ran.code == 1
    assert "unreadable" in ran.out
    assert ran.err.count("memlens: error:") == 2


def test_stdin_may_be_one_of_the_logs(logs: tuple[Path, Path]) -> None:
    with logs[1].open() as log:
        ran = process("compare", logs[0], "-", "--format", "json", stdin=log)
    first, second = json.loads(ran.stdout)["runs"]
    assert (second["path"], second["base"]) == ("<stdin>", first["path"])
    assert second["windows"][0]["d_peak_bytes"] == 2 * MIB


@pytest.mark.parametrize("jobs", some([2, 1]))
def test_so_many_jobs_say_the_same(case_3: str, jobs: int) -> None:
    ran = process("compare", case_3, "--jobs", jobs, "--format", "csv")
    assert ran.returncode == 0, ran.stderr
    assert [row["path"].count("gbs") for row in csv.DictReader(io.StringIO(ran.stdout))] == [1] * 96


# --- the ranks of one job ---


@pytest.mark.night
def test_a_folder_a_template_and_a_list_of_ranks_say_the_same(memlens: Any, tmp_path: Path) -> None:
    usual = Program()
    more = replace(usual, parameters=(*usual.parameters, (30 * MIB, "gather")))
    job = tmp_path / "job"
    MadeJob({f"node{k // 4}/workerlog.{k % 4}": more if k == 6 else usual for k in range(8)}).write(job)
    (job / "node1" / "nvidia-smi.txt").write_text("no log\n")
    ran = memlens("compare", job)
    assert ran.code == 0
    assert "One rank stands out: node 1 rank 2 holds 30.00 MiB more than its peers" in " ".join(ran.out.split())
    assert "1 file is no log" in ran.err
    for logs in (
        [f"{job}/node{{node}}/workerlog.{{rank}}"],
        sorted(job.glob("*/workerlog.*")),
        [job, "--scheduler", "local"],
    ):
        assert (
            memlens("compare", *logs, "--brief", columns=80).out == memlens("compare", job, "--brief", columns=80).out
        )
    values = json.loads(memlens("compare", job, "--format", "json").out)
    assert values["ranks"]["peers_by"] == []
    rows = rows_of(memlens("compare", job, "--format", "csv"))
    assert [(row["node"], row["rank"]) for row in rows] == [(str(k // 4), str(k % 4)) for k in range(8)]
    assert [row["peak_bytes"] for row in rows] == [str(144 * MIB)] * 6 + [str(174 * MIB), str(144 * MIB)]


@pytest.mark.night
def test_a_job_of_a_thousand_ranks_is_one_screen(memlens: Any, tmp_path: Path) -> None:
    large_job(1000).write(tmp_path / "job")
    ran = memlens("compare", tmp_path / "job", columns=80)
    assert (ran.code, ran.out.count("\n") <= 40) == (0, True)
    said = " ".join(ran.out.split())
    assert "rank 17 first by the time stamps" in said
    assert "rank 500 holds 267.58 MiB more than its peers, in 2 blocks of 134.00 MiB of gather" in said
    assert "ank 105 and 7 more, all of node 13, hold" in said


# --- outputs ---


@pytest.mark.skipif(sys.platform != "linux", reason="sends a signal to a group of processes")
def test_ctrl_c_ends_all_processes_and_leaves_no_file(tmp_path: Path) -> None:
    text = made.log_text(64 * MIB, blocks=1000, steps=20)
    for number in range(60):
        (tmp_path / f"{number}.log").write_text(text)
    command = [sys.executable, "-m", "memlens", "compare", f"{tmp_path}/{{n}}.log", "--jobs", "2"]
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")], stderr=subprocess.PIPE, start_new_session=True, env=os.environ | HERE
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and len(workers := children.read_text().split()) < 2:
        time.sleep(0.005)
    time.sleep(0.1)  # until they know that Ctrl-C is not theirs to answer
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == b"memlens: interrupted\n"
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert not any("out" in path.name for path in tmp_path.iterdir())


# --- errors ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no log to compare"),
        (["a.log", "{x}.log"], "a template and other logs exclude each other"),
        (["a.log", "--rows", "x"], "rows and cols are fields of a template"),
        (["a.log", "--cols", "x"], "rows and cols are fields of a template"),
        (["-", "-"], "stdin (-) can be read only once"),
        (["a.log", "--base", "b.log"], "none of the logs"),
        (["a.log", "-m", "size"], "no metric 'size'"),
        (["a.log", "--by", "(x"], "memlens: error:"),
        (["a.log", "--jobs", "0"], "--jobs"),
        (["a.log", "--format", "xml"], "xml"),
        (["{x"], "belongs to no field"),
        (["{x}{y}"], "side by side"),
    ],
)
def test_arguments_that_make_no_sense_are_wrong_usage(memlens: Any, options: list[str], message: str) -> None:
    ran = memlens("compare", *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rows", "size"], "no field 'size'"),
        (["--rows", "rank", "--cols", "rank"], "both rows and columns"),
        (["--base", "branch=main"], "no run has branch=main"),
    ],
)
def test_fields_that_a_template_has_not_are_wrong_usage(
    memlens: Any, case_3: str, options: list[str], message: str
) -> None:
    ran = memlens("compare", case_3, *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
