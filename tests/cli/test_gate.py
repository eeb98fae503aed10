"""``memlens gate`` as CI runs it: exit codes, files, annotations, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

ALLOC = "I0712 10:54:13.000001  1120 auto_growth_best_fit_allocator.cc:169] Alloc {} bytes, ptr = 0x{:x}\n"
FREE = "I0712 10:54:14.000003  1120 auto_growth_best_fit_allocator.cc:220] Free {} bytes, ptr = 0x{:x}\n"
CHUNK = "I0712 10:54:12.000001  1120 auto_growth_best_fit_allocator.cc:105] Not found and reallocate 1073741824(0x1), and remaining 0\n"
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
    assert ran.err == f"memlens: {path}: 4 windows of {base} accepted, peak 103.00 MiB\n"
    return path


# --- exit codes ---


def test_within_limits_is_0(memlens: Any, base: Path, baseline: Path) -> None:
    ran = memlens("gate", base, "--baseline", baseline, columns=80)
    assert (ran.code, ran.err) == (0, "")
    # The peak of the run, and rise and remaining of (before) and three steps; four steps are needed to tell growth.
    assert "; all 9 figures judged are within limits. Not judged: growth of the run" in " ".join(ran.out.split())
    assert re.search(r"^\(whole log\)  growth +3 closed, 4 needed$", ran.out, re.MULTILINE)


def test_a_regression_is_3_with_every_failing_figure_the_worst_first(
    memlens: Any, head: Path, base: Path, baseline: Path
) -> None:
    ran = memlens("gate", head, "--baseline", baseline, "--base-log", base, columns=80)
    assert (ran.code, ran.err) == (3, "")
    # 7 MiB more: the limit of what remains is 1 MiB over 1 MiB, that of the peak 2 % of 101 MiB.
    assert re.findall(r"^2 +(\w+) +\S+ MiB +\S+ MiB  \+7\.00 MiB", ran.out, re.MULTILINE) == ["remaining", "rise"]
    assert "2  is over the limit" in ran.out
    assert "Only in head: 8.00 MiB (8388608 B)" in ran.out


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


def test_a_baseline_that_is_damaged_of_another_version_or_not_there_is_1(
    memlens: Any, base: Path, baseline: Path
) -> None:
    text = baseline.read_text()
    for damaged, message in (
        (text.replace(str(101 * MIB), str(901 * MIB)), "check sum"),
        (text[:-20], "no JSON"),
        (text.replace("baseline/2", "baseline/1"), "memlens.baseline/1"),
        ("{}", "no baseline of memlens"),
    ):
        assert damaged != text
        baseline.write_text(damaged)
        ran = memlens("gate", base, "--baseline", baseline)
        assert (ran.code, ran.out) == (1, "")
        assert message in ran.err
    baseline.unlink()
    ran = memlens("gate", base, "--baseline", baseline)
    assert ran.code == 1
    assert "--accept" in ran.err


def test_a_log_that_is_not_there_or_lacks_the_anchor_is_1(memlens: Any, tmp_path: Path, baseline: Path) -> None:
    assert memlens("gate", tmp_path / "nowhere.log", "--baseline", baseline).code == 1
    other = write(tmp_path / "other.log", 1, name="EPOCH {}")
    ran = memlens("gate", other, "--baseline", baseline)
    assert (ran.code, ran.out) == (1, "")
    assert "STEP" in ran.err


def test_missing_windows_are_3_unless_they_are_allowed(
    memlens: Any, base: Path, tmp_path: Path, baseline: Path
) -> None:
    short = tmp_path / "short.log"
    short.write_text(base.read_text().replace("STEP 2 START", "STEP TWO"))
    ran = memlens("gate", short, "--baseline", baseline, "--limit", "remaining=off")
    assert ran.code == 3
    assert "the log lacks 2, which the base has" in ran.out
    assert memlens("gate", short, "--baseline", baseline, "--limit", "remaining=off", "--allow-missing").code == 0


def test_a_run_that_ends_earlier_is_0_and_says_so(memlens: Any, tmp_path: Path, baseline: Path) -> None:
    ran = memlens("gate", write(tmp_path / "short.log", MIB, MIB), "--baseline", baseline)
    assert ran.code == 0
    assert "3 of the base's 4 windows judged, for the run ends earlier" in ran.out


def test_limits_and_budgets_decide(memlens: Any, head: Path, baseline: Path) -> None:
    wide = ("--limit", "peak=10%,1MiB", "--limit", "rise=10%", "--limit", "remaining=7MiB")
    assert memlens("gate", head, "--baseline", baseline, *wide).code == 0
    # Steps keep 1, 8 and 1 MiB, so the third one has its 100 MiB beside 10.
    assert memlens("gate", head, "--baseline", baseline, *wide, "--budget", "peak=109MiB").code == 3
    assert memlens("gate", head, "--baseline", baseline, *wide, "--limit", "reserved=0").code == 0
    for cut in ((), ("--by", BY), ("--start", "STEP 1 START", "--end", "STEP 2 START")):
        assert memlens("gate", head, "--budget", "peak=110MiB", *cut).code == 0
        assert memlens("gate", head, "--budget", "peak=109MiB", *cut).code == 3


def test_a_leak_that_is_below_the_limit_of_every_window_is_caught_by_what_it_adds_up_to(
    memlens: Any, tmp_path: Path
) -> None:
    base, leak = write(tmp_path / "base.log", *[0] * 200), write(tmp_path / "leak.log", *[900 << 10] * 200)
    ran = memlens("gate", leak, "--base-log", base, "--by", BY, "--limit", "peak=off")
    assert ran.code == 3
    said = "1 of 401 figures is over the limit: the growth of the run. Memory grows by 900.00 KiB a window"
    assert said in " ".join(ran.out.split())
    # A growth that stays below the limit in all passes, and is said.
    small = write(tmp_path / "small.log", *[512] * 200)
    ran = memlens("gate", small, "--base-log", base, "--by", BY, columns=200)
    assert ran.code == 0
    assert re.search(r" all 402 .*Memory grows by 512 B a window .*, within the limit", " ".join(ran.out.split()))
    assert memlens("gate", small, "--base-log", base, "--by", BY, "--limit", "growth=0").code == 3


def test_several_runs_are_accepted_together_and_keep_their_spread(memlens: Any, tmp_path: Path) -> None:
    runs = [write(tmp_path / f"{kept}.log", kept * MIB, 0, kept * MIB, 0) for kept in (1, 9, 5)]
    path = tmp_path / "memory.json"
    ran = memlens("gate", *runs, "--baseline", path, "--by", BY, "--accept")
    assert (ran.code, ran.out) == (0, "")
    # The highest of the runs holds 9 MiB of step 1, and in step 3 another 9 beside the 100.
    assert ran.err == f"memlens: {path}: 5 windows of {', '.join(map(str, runs))} accepted, peak 118.00 MiB\n"
    for run in runs:
        assert memlens("gate", run, "--baseline", path, "--limit", "peak=0", "--limit", "rise=0").code == 0
    # Remaining of step 1 was 1 to 9 MiB, so that it may be 9 + 8.
    assert memlens("gate", write(tmp_path / "a.log", 17 * MIB, 0, 9 * MIB, 0), "--baseline", path).code == 0
    ran = memlens("gate", write(tmp_path / "b.log", 17 * MIB + 1, 0, 9 * MIB, 0), "--baseline", path)
    assert ran.code == 3
    assert "3 accepted runs" in ran.out
    # Two of them alone keep a smaller spread.
    memlens("gate", *runs[1:], "--baseline", path, "--accept")
    assert memlens("gate", tmp_path / "a.log", "--baseline", path).code == 3


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


def test_events_beside_the_baseline_blame_without_the_old_log(
    memlens: Any, head: Path, base: Path, tmp_path: Path
) -> None:
    path = tmp_path / "memory.json"
    ran = memlens("gate", base, "--baseline", path, "--by", BY, "--accept", "--with-events")
    assert f"its events are in {tmp_path / 'memory.events.npz'}" in ran.err
    base.unlink()
    ran = memlens("gate", head, "--baseline", path)
    assert ran.code == 3
    assert "Only in head: 8.00 MiB (8388608 B)" in ran.out


def test_a_log_may_come_from_stdin(process: Callable[..., Any], head: Path, baseline: Path) -> None:
    with head.open() as log:
        ran = process("gate", "-", "--baseline", baseline, stdin=log)
    assert ran.returncode == 3
    assert "\n\n<stdin>  regression" in ran.stdout


# --- outputs ---


def test_every_form_says_the_same(memlens: Any, head: Path, baseline: Path, tmp_path: Path) -> None:
    junit, comment = tmp_path / "memory.xml", tmp_path / "comment.md"
    ran = memlens("gate", head, "--baseline", baseline, "--format", "json", "--junit", junit, "--markdown", comment)
    assert (ran.code, ran.err) == (3, "")
    values = json.loads(ran.out)
    failing = [(row["name"], row["metric"], row["limit_bytes"]) for row in values["windows"] if not row["ok"]]
    # 101 MiB and 2 % of them, cut to whole bytes
    # and the peak of the run: 100 MiB beside what three steps keep
    assert failing == [
        ("2", "remaining", 2 * MIB),
        ("2", "rise", 101 * MIB + 101 * MIB * 2 // 100),
        ("(whole log)", "peak", 103 * MIB + 103 * MIB * 2 // 100),
    ]
    report = JUnitXml.fromfile(str(junit))
    # Growth cannot be told of three steps.
    assert (report.tests, report.failures, report.errors, report.skipped) == (10, 3, 0, 1)
    text = comment.read_text()
    assert "| `2` | remaining | 1.00 MiB | 8.00 MiB | **+7.00 MiB** | +700.00% | 2.00 MiB |" in text
    assert memlens("gate", head, "--baseline", baseline, "--format", "markdown").out == text
    rows = list(csv.DictReader(io.StringIO(memlens("gate", head, "--baseline", baseline, "--format", "csv").out)))
    assert [row["ok"] for row in rows] == ["False"] * 3 + ["True"] * 8


def test_github_gets_annotations_and_a_summary_and_no_command_from_the_log(
    memlens: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    hostile = "::add-mask::{}"
    base, head = write(tmp_path / "b.log", MIB, name=hostile), write(tmp_path / "h.log", 9 * MIB, name=hostile)
    ran = memlens("gate", head, "--base-log", base, "--by", r"(::add-mask::\d)", "--github")
    assert (ran.code, ran.err) == (3, "")
    lines = ran.out.splitlines()
    token = lines[0].removeprefix("::stop-commands::")
    end = lines.index(f"::{token}::")
    assert any(line.startswith("::add-mask::1  remaining") for line in lines[:end])
    # The peak, and rise and remaining of the one window, which is judged though nothing ends it.
    assert [line.split(" title=")[0] for line in lines[end + 1 :]] == ["::error"] * 3
    assert summary.read_text().startswith("# before\n**Regression in ::add-mask::1: ")
    assert "| `::add-mask::1` | remaining |" in summary.read_text()


def test_annotations_stay_out_of_a_result_that_a_program_reads(
    memlens: Any, head: Path, baseline: Path, tmp_path: Path
) -> None:
    ran = memlens("gate", head, "--baseline", baseline, "--github", "--format", "json")
    assert json.loads(ran.out)["verdict"] == "regression"
    assert ran.err.startswith("::error ")
    ran = memlens("gate", head, "--baseline", baseline, "--github", "--format", "json", "-o", tmp_path / "out.json")
    assert ran.out.startswith("::error ")
    assert json.loads((tmp_path / "out.json").read_text())["verdict"] == "regression"


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


@pytest.mark.parametrize("option", ["-o", "--junit", "--markdown"])
@pytest.mark.parametrize("which", ["head", "base", "baseline"])
def test_no_input_is_written_over(
    memlens: Any, head: Path, base: Path, baseline: Path, option: str, which: str
) -> None:
    target = {"head": head, "base": base, "baseline": baseline}[which]
    before = target.read_bytes()
    ran = memlens("gate", head, "--baseline", baseline, "--base-log", base, "-f", option, target)
    assert (ran.code, target.read_bytes()) == (2, before)


def test_what_is_no_baseline_is_not_written_over(memlens: Any, base: Path, tmp_path: Path) -> None:
    target = tmp_path / "notes.txt"
    target.write_text("mine")
    ran = memlens("gate", base, "--baseline", target, "--accept")
    assert (ran.code, ran.out, target.read_text()) == (1, "", "mine")
    assert "not written over" in ran.err
    assert memlens("gate", base, "--baseline", base, "--accept").code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base.log", "notes.txt"]


def test_judging_into_a_pipe_needs_neither_pandas_nor_rich(
    process: Callable[..., Any], base: Path, baseline: Path
) -> None:
    code = (
        f"import sys; from memlens.cli import main; main(['gate', {str(base)!r}, '--baseline', {str(baseline)!r}]); "
        "heavy = {'pandas', 'rich'} & set(sys.modules); sys.exit(f'heavy: {heavy}' if heavy else 0)"
    )
    ran = process("-c", code, python="")
    assert ran.returncode == 0, ran.stderr


# --- wrong usage ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "there is nothing to judge this log by"),
        (["--limit", "peak=1%"], "there is nothing to judge this log by"),
        (["--baseline", "{baseline}", "--by", "STEP"], "not the anchors"),
        (["--baseline", "{baseline}", "--limit", "peak"], "is no limit"),
        (["--baseline", "{baseline}", "--limit", "size=1"], "no metric"),
        (["--baseline", "{baseline}", "--limit", "peak=10"], "10MiB"),
        (["--baseline", "{baseline}", "--budget", "peak=1000"], "1000MiB"),
        (["--budget", "rise=1MiB"], "no budget for rise"),
        (["{baseline}", "--baseline", "{baseline}"], "one log is judged at a time"),
        (["-", "-", "--baseline", "x", "--accept"], "stdin (-) can be read only once"),
        (["--baseline", "{baseline}", "--budget", "peak=2%"], "holds no size"),
        (["--baseline", "{baseline}", "--with-events"], "--with-events needs --accept"),
        (["--accept"], "--accept needs --baseline"),
        (["--accept", "--baseline", "x", "--base-log", "y"], "--accept and --base-log exclude each other"),
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
