"""``memlens gate`` as CI runs it: exit codes, files, annotations, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml
from logs import ALLOC, FREE, HEADER

CHUNK = HEADER + "Not found and reallocate 1073741824(0x1), and remaining 0\n"
BY = r"STEP (\d+) START"
MIB = 1 << 20


def write(path: Path, *kept: int, name: str = "STEP {} START") -> Path:
    """Steps that each keep so many bytes, after 100 MiB that are freed again, and a line after which nothing is a step."""
    text = [CHUNK]
    for number, size in enumerate(kept, 1):
        big, small = number << 32, (number << 32) + (1 << 31)
        text += [
            f"{name.format(number)}\n",
            ALLOC.format(100 * MIB, big),
            ALLOC.format(size, small),
            FREE.format(100 * MIB, big),
        ]
    path.write_text("".join(text) + "TRAINED\n")
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write(tmp_path / "base.log", MIB, MIB, MIB)


@pytest.fixture
def head(tmp_path: Path) -> Path:
    return write(tmp_path / "head.log", MIB, 8 * MIB, MIB)


@pytest.fixture
def baseline(memlens: Any, base: Path, tmp_path: Path) -> Path:
    path = tmp_path / "memory.json"
    ran = memlens("gate", base, "--baseline", path, "--by", BY, "--end", "TRAINED", "--accept")
    assert (ran.code, ran.out) == (0, "")
    assert (
        ran.err == f"memlens: {path}: 4 windows of {base} accepted\n"
        "memlens: the peak of 103.00 MiB may grow by 2.06 MiB (2%); growth cannot be judged against it (3 closed steps, 4 needed)\n"
    )
    return path


# --- exit codes ---


def test_a_log_in_doubt_is_1(memlens: Any, head: Path, baseline: Path, tmp_path: Path) -> None:
    late = tmp_path / "late.log"
    late.write_text(CHUNK + FREE.format(4096, 1) + head.read_text())
    ran = memlens("gate", late, "--baseline", baseline, columns=80)
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("Not judged: ")
    assert "unknown frees" in ran.out
    assert memlens("gate", late, "--baseline", baseline, "--no-trust").code == 3
    assert memlens("gate", late, "--baseline", tmp_path / "new.json", "--accept").code == 1
    assert memlens("gate", late, "--baseline", tmp_path / "new.json", "--accept", "--no-trust").code == 0


def test_a_baseline_of_another_version_or_not_there_is_1(memlens: Any, base: Path, baseline: Path) -> None:
    baseline.write_text(baseline.read_text().replace("baseline/3", "baseline/2"))
    ran = memlens("gate", base, "--baseline", baseline)
    assert (ran.code, ran.out) == (1, "")
    assert "memlens.baseline/2" in ran.err
    assert "--end TRAINED --accept" in ran.err
    baseline.unlink()
    ran = memlens("gate", base, "--baseline", baseline)
    assert ran.code == 1
    assert "--accept" in ran.err


def test_an_improvement_is_told_with_the_command_that_accepts_it_and_that_command_works(
    memlens: Any, head: Path, base: Path, tmp_path: Path
) -> None:
    path = tmp_path / "won.json"
    memlens("gate", head, "--baseline", path, "--by", BY, "--end", "TRAINED", "--accept")
    ran = memlens("gate", base, "--baseline", path)
    assert ran.code == 0
    command = f"memlens gate {base} --baseline {path} --accept"
    assert f"To keep what was won: {command}" in ran.out
    assert memlens(*command.split()[1:]).code == 0
    assert "To keep" not in memlens("gate", base, "--baseline", path).out
    assert memlens("gate", head, "--baseline", path).code == 3


# --- outputs ---


def test_every_form_says_the_same(memlens: Any, head: Path, baseline: Path, tmp_path: Path) -> None:
    junit, comment = tmp_path / "memory.xml", tmp_path / "comment.md"
    ran = memlens("gate", head, "--baseline", baseline, "--format", "json", "--junit", junit, "--markdown", comment)
    assert (ran.code, ran.err) == (3, "")
    values = json.loads(ran.out)
    failing = [(row["name"], row["metric"], row["limit_bytes"]) for row in values["windows"] if not row["ok"]]
    # 100 MiB beside what the steps keep, and 2 % of them, cut to whole bytes
    assert failing == [
        ("2", "remaining", 2 * MIB),
        ("2", "peak", 102 * MIB + 102 * MIB * 2 // 100),
        ("(whole log)", "peak", 103 * MIB + 103 * MIB * 2 // 100),
        ("3", "peak", 103 * MIB + 103 * MIB * 2 // 100),
    ]
    report = JUnitXml.fromfile(str(junit))
    # Growth of three steps is not judged.
    assert (report.tests, report.failures, report.errors, report.skipped) == (10, 4, 0, 1)
    text = comment.read_text()
    assert "| `2` | remaining | 1.00 MiB | 8.00 MiB | **+7.00 MiB** | +700.00% | 2.00 MiB |" in text
    assert memlens("gate", head, "--baseline", baseline, "--format", "markdown").out == text
    rows = list(csv.DictReader(io.StringIO(memlens("gate", head, "--baseline", baseline, "--format", "csv").out)))
    assert [row["ok"] for row in rows] == ["False"] * 4 + ["True"] * 6


def test_github_gets_annotations_and_a_summary_and_no_command_from_the_log(
    memlens: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    hostile = "::add-mask::{}"
    base, head = write(tmp_path / "b.log", MIB, name=hostile), write(tmp_path / "h.log", 9 * MIB, name=hostile)
    ran = memlens("gate", head, "--base", base, "--by", r"(::add-mask::\d)", "--github")
    assert (ran.code, ran.err) == (3, "")
    lines = ran.out.splitlines()
    token = lines[0].removeprefix("::stop-commands::")
    end = lines.index(f"::{token}::")
    assert any(line.startswith(".:add-mask::1  remaining") for line in lines[:end])
    # The peak, and peak and remaining of the one window, which is judged though nothing ends it.
    assert [line.split(" title=")[0] for line in lines[end + 1 :]] == ["::error"] * 3 + ["::notice"]
    assert summary.read_text().startswith("# before\n**Regression in the run: peak went")
    assert "| `::add-mask::1` | remaining |" in summary.read_text()


def test_a_summary_that_cannot_be_written_costs_no_verdict(
    memlens: Any, base: Path, baseline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    ran = memlens("gate", base, "--baseline", baseline, "--github")
    assert ran.code == 0
    assert "summary of the job was not written" in ran.err


@pytest.mark.parametrize("option", ["-o", "--junit", "--markdown"])
def test_a_file_that_exists_is_written_over_with_force_only(
    memlens: Any, head: Path, baseline: Path, tmp_path: Path, option: str
) -> None:
    target = tmp_path / "out"
    target.write_text("mine")
    ran = memlens("gate", head, "--baseline", baseline, option, target)
    assert (ran.code, target.read_text()) == (1, "mine")
    assert memlens("gate", head, "--baseline", baseline, option, target, "-f").code == 3
    assert target.read_text() != "mine"


# --- wrong usage ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "there is nothing to judge this log by"),
        (["--baseline", "{baseline}", "--by", "STEP"], "not the anchors"),
        (["--baseline", "{baseline}", "--limit", "peak"], "is no limit"),
        (["{baseline}", "--baseline", "{baseline}"], "one log is judged at a time"),
        (["-", "-", "--baseline", "x", "--accept"], "stdin (-) can be read only once"),
        (["--accept"], "--accept needs --baseline"),
        (["--accept", "--baseline", "x", "--base", "y"], "--accept and --base exclude each other"),
        (["--accept", "--baseline", "x", "--junit", "y"], "--accept and --junit exclude each other"),
        (["--accept", "--baseline", "x", "--github"], "--accept and --github exclude each other"),
        (["--accept", "--baseline", "-"], "a baseline is a file"),
        (["--baseline", "{baseline}", "--junit", "same", "--markdown", "same"], "two outputs go to one file"),
        (["--baseline", "{baseline}", "--junit", "-"], "write to a file"),
        (["--baseline", "{baseline}", "--format", "xml"], "xml"),
        (["--budget", "peak=1B", "--by", "a", "--start", "b"], "--by and --start exclude each other"),
    ],
)
def test_arguments_that_make_no_sense_are_wrong_usage(
    memlens: Any,
    base: Path,
    baseline: Path,
    options: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    ran = memlens("gate", base, *(option.format(baseline=baseline) for option in options))
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert sorted(tmp_path.iterdir()) == before
