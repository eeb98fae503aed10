"""``memlens export``: what it writes, where, and what it says."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import process
from pseudo_terminal import in_terminal

import memlens as library

Run = Callable[..., Any]


@pytest.fixture
def log(examples: Path) -> Path:
    return examples / "case1_pir.log"


def test_a_file_is_written_and_said(memlens: Run, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.csv"
    ran = memlens("export", log, "--to", "csv", "-o", out)
    events = len(library.read(log))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"memlens: {out}: {out.stat().st_size:,} bytes, {events:,} rows\n"
    assert memlens("export", log, "--to", "csv", "-o", out, "-f", "-q").err == ""


def test_of_a_log_that_is_cut_short_what_there_is_is_written_and_that_is_said(
    memlens: Run, log: Path, tmp_path: Path
) -> None:
    cut, out = tmp_path / "run.log.gz", tmp_path / "run.csv"
    cut.write_bytes(gzip.compress(log.read_bytes())[:-999])
    ran = memlens("export", cut, "-o", out)
    first, second = ran.err.splitlines()
    assert (ran.code, first) == (0, f"memlens: {cut}: the gzip stream ends in the middle; what was readable is written")
    assert second.startswith(f"memlens: {out}: ")
    assert memlens("export", cut, "-o", out, "-f", "--strict").code == 1


def test_text_goes_to_stdout_and_so_does_what_is_piped_on(log: Path) -> None:
    rows = [json.loads(line) for line in process("export", log, "--to", "jsonl", encoding=None).stdout.splitlines()]
    assert len(rows) == len(library.read(log))
    ran = process("export", log, "--to", "parquet", encoding=None)
    assert ran.returncode == 0
    assert pd.read_parquet(io.BytesIO(ran.stdout))["size_bytes"].tolist() == [row["size_bytes"] for row in rows]


def test_an_export_is_piped_into_the_next_command(log: Path) -> None:
    exported = process("export", log, "--to", "parquet", encoding=None).stdout
    ran = process("analyze", "-", "--format", "json", input=exported, encoding=None)
    (ours,), (theirs,) = (
        json.loads(one.stdout)["logs"] for one in (ran, process("analyze", log, "--format", "json", encoding=None))
    )
    for one in (ours, theirs):
        del one["path"], one["trust"]["path"]
    assert ours == theirs


def test_bytes_are_not_written_on_a_terminal(log: Path) -> None:
    said = in_terminal("export", log, "--to", "perfetto")
    assert said.startswith("memlens: error: perfetto is no text for a terminal\n")
    assert "Name a file with -o" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing says which form to write"),
        (("--to", "xlsx"), "'xlsx' is not one of"),
        (("--to", "speedscope", "--by", "STEP"), "speedscope is of one window"),
        (("--to", "csv", "--by", "STEP", "--start", "A"), "--by and --start exclude each other"),
    ],
)
def test_wrong_usage_is_said(memlens: Run, log: Path, arguments: tuple[str, ...], said: str) -> None:
    ran = memlens("export", log, *arguments)
    assert ran.code == 2
    assert said in ran.err
