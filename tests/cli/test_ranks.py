"""``memlens ranks`` from logs to a screen, a file or a pipe."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_rank_logs import MIB, MadeJob, Program, large_job


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Eight ranks on two machines, of which one holds a block more, and a file that is no log."""
    usual = Program()
    more = replace(usual, parameters=(*usual.parameters, (30 * MIB, "gather")))
    MadeJob({f"node{k // 4}/workerlog.{k % 4}": more if k == 6 else usual for k in range(8)}).write(tmp_path / "job")
    (tmp_path / "job" / "node1" / "nvidia-smi.txt").write_text("no log\n")
    return tmp_path / "job"


def test_a_folder_stands_for_all_logs_below_it(memlens: Any, job: Path) -> None:
    ran = memlens("ranks", job)
    assert ran.code == 0
    assert ran.out.startswith(
        "8 ranks: peaks of 144.00 MiB to 174.00 MiB, median 144.00 MiB. One rank stands out: node 1 rank 2 holds 30.00 MiB more"
    )
    assert "1 file is no log" in ran.err


def test_a_template_and_a_list_of_logs_say_the_same(memlens: Any, job: Path) -> None:
    folder = memlens("ranks", job, "--brief").out
    assert memlens("ranks", f"{job}/node{{node}}/workerlog.{{rank}}", "--brief").out == folder
    assert memlens("ranks", *sorted(job.glob("*/workerlog.*")), "--brief", "-j", 2).out == folder
    assert memlens("ranks", job, "--brief", "--scheduler", "local").out == folder


def test_the_machine_forms_have_every_rank(memlens: Any, job: Path, tmp_path: Path) -> None:
    assert memlens("ranks", job, "--format", "json", "-o", tmp_path / "r.json").code == 0
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["schema"] == "memlens.ranks/1"
    rows = list(csv.DictReader(io.StringIO(memlens("ranks", job, "--format", "csv").out)))
    assert [row["name"] for row in rows] == [rank["name"] for rank in result["ranks"]]
    assert [row["peak_bytes"] for row in rows] == [str(144 * MIB)] * 6 + [str(174 * MIB), str(144 * MIB)]
    assert [(row["node"], row["rank"]) for row in rows] == [(str(k // 4), str(k % 4)) for k in range(8)]


def test_where_no_log_can_be_read_it_fails_and_says_why(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("ranks", tmp_path / "rank0.log", tmp_path / "rank1.log")
    assert ran.code == 1
    assert ran.out.startswith("None of 2 ranks could be read: no such file.")
    assert ran.err.count("no such file") == 2


def test_wrong_usage_is_told(memlens: Any, job: Path) -> None:
    assert memlens("ranks").code == 2
    ran = memlens("ranks", f"{job}/{{x}}{{y}}")
    assert (ran.code, "side by side" in ran.err) == (2, True)
    ran = memlens("ranks", job, "--by", "x", "--start", "y")
    assert (ran.code, "exclude each other" in ran.err) == (2, True)


def test_a_job_of_a_thousand_ranks_fits_one_screen(memlens: Any, tmp_path: Path) -> None:
    large_job(1000).write(tmp_path / "job")
    ran = memlens("ranks", tmp_path / "job", columns=80)
    assert ran.code == 0
    assert ran.out.count("\n") <= 40
    assert "rank 17" in ran.out
    assert "rank 500 holds" in ran.out
