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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_runs as made
import pytest
from widths import check_widths

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


# --- the cases ---


def test_case_3_looks_as_approved_and_says_the_same_at_every_width(
    memlens: Any, case_3: str, golden: Callable[[str, str], None]
) -> None:
    options = ("--rows", "gbs,rank", "--cols", "branch", "--base", "branch=develop", "-m", "peak")

    def show(columns: int | None) -> str:
        ran = memlens("compare", "--template", case_3, *options, columns=columns)
        assert (ran.code, ran.err) == (0, "")
        return str(ran.out)

    golden("cli_compare_case_3_80.txt", show(80))
    check_widths(show)


def test_case_3_is_a_table_to_paste(memlens: Any, case_3: str) -> None:
    options = ("--base", "branch=develop", "-m", "peak", "--format", "markdown")
    lines = memlens("compare", "--template", case_3, *options).out.splitlines()
    assert "| gbs | rank | develop | PR | Change | % |" in lines
    assert "| 1024 | 1 | 25504.00 | 21380.00 | **-4124.00** | -16.17% |" in lines
    assert "| 3072 | 7 | OOM 256.00 MiB | 7834.00 | **was OOM** |  |" in lines


def test_case_2_on_real_logs(memlens: Any, shared: Path) -> None:
    folder = shared / "data" / "paddle"
    names = ["30b2_ast_transformer_pt.log", "30b2_ast_transformer_pir.log", "30_ast_transformer_pir.log"]
    ran = memlens("compare", *(folder / name for name in names), columns=80)
    assert (ran.code, ran.err) == (0, "")
    # 11790080, 12576512 and 12054784 bytes allocated; 12092672, 14062848 and 12244736 reserved, by the device itself
    figures = [line.split()[1:] for line in ran.out.splitlines() if "transfo" in line or ".log  " in line]
    figures = [row for row in figures if row and re.fullmatch(r"[\d.]+", row[0])]
    assert figures == [
        ["11.24", "11.53"],
        ["11.99", "+0.75", "+6.67%", "13.41", "+1.88"],
        ["11.50", "+0.25", "+2.24%", "11.68", "+0.15"],
    ]


def test_case_5_has_memory_and_time_of_an_iteration(memlens: Any, tmp_path: Path) -> None:
    for name, mib, step_us in (("before.log", 8250, 140_286), ("after.log", 7183, 129_857)):
        (tmp_path / name).write_text(made.log_text(mib * MIB, step_us=step_us, steps=3))
    pair = (tmp_path / "before.log", tmp_path / "after.log")
    ran = memlens("compare", *pair, "--start", "STEP 1", "--end", "STEP 2", "-m", "peak", "-m", "time", columns=80)
    assert re.search(r"^before\.log +8250\.00 +0\.982$", ran.out, re.MULTILINE)
    assert re.search(r"^after\.log +7183\.00 +-1067\.00 +-12\.93% +0\.909 +-0\.073 +-7\.43%$", ran.out, re.MULTILINE)


# --- what is compared ---


def test_logs_are_compared_with_the_first_or_with_the_base(memlens: Any, logs: tuple[Path, Path]) -> None:
    rows = rows_of(memlens("compare", *logs, "--format", "csv"))
    assert [row["d_peak_bytes"] for row in rows] == ["", str(2 * MIB)]
    rows = rows_of(memlens("compare", *logs, "--base", logs[1], "--format", "csv"))
    assert [row["d_peak_bytes"] for row in rows] == [str(-2 * MIB), ""]


def test_one_window_and_a_series_are_compared(memlens: Any, logs: tuple[Path, Path]) -> None:
    rows = rows_of(memlens("compare", *logs, "--start", "STEP 1", "--format", "csv"))
    assert [(row["window"], row["start_line"]) for row in rows] == [("STEP 1", "11"), ("STEP 1", "11")]
    values = json.loads(memlens("compare", *logs, "--by", r"STEP (\d+)", "--format", "json").out)
    assert values["by"] == r"STEP (\d+)"
    assert [[window["name"] for window in run["windows"]] for run in values["runs"]] == [["0", "1"], ["0", "1"]]
    assert values["runs"][1]["typical"]["peak_bytes"] == 12 * MIB


def test_a_run_out_of_memory_keeps_its_figures_in_json(memlens: Any, case_3: str) -> None:
    values = json.loads(memlens("compare", "--template", case_3, "--format", "json").out)
    assert (values["schema"], values["template"], values["cols"]) == ("memlens.compare/2", case_3, "branch")
    (run,) = [run for run in values["runs"] if run["path"] == "runs/gbs3072/develop/workerlog.0"]
    assert (run["status"], run["oom"]["requested_bytes"]) == ("oom", made.OOM_BYTES)
    assert run["windows"][0]["peak_bytes"] == 31 * 1024 * MIB
    assert run["windows"][0]["d_peak_bytes"] is None


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


def test_stdin_may_be_one_of_the_logs(process: Callable[..., Any], logs: tuple[Path, Path]) -> None:
    with logs[1].open() as log:
        ran = process("compare", logs[0], "-", "--format", "json", stdin=log)
    first, second = json.loads(ran.stdout)["runs"]
    assert (second["path"], second["base"]) == ("<stdin>", first["path"])
    assert second["windows"][0]["d_peak_bytes"] == 2 * MIB


@pytest.mark.parametrize("jobs", [1, 2])
def test_so_many_jobs_say_the_same(process: Callable[..., Any], case_3: str, jobs: int) -> None:
    ran = process("compare", "--template", case_3, "--jobs", jobs, "--format", "csv")
    assert ran.returncode == 0, ran.stderr
    assert [row["path"].count("gbs") for row in csv.DictReader(io.StringIO(ran.stdout))] == [1] * 96


def test_hostile_names_stay_text(memlens: Any, tmp_path: Path) -> None:
    for name in ("[red]a[] \x1b[31m", "=1+2", "\u202eb|`c`"):
        (tmp_path / f"{name}.log").write_text(made.log_text(MIB))
    for form in ("table", "markdown", "csv"):
        ran = memlens("compare", "--template", f"{tmp_path}/{{x}}.log", "--format", form, columns=80)
        assert (ran.code, ran.err) == (0, "")
        assert not set("\x1b\u202e").intersection(ran.out)
    assert "'=1+2" in ran.out


# --- outputs ---


def test_the_table_goes_to_a_file_and_not_over_a_log(memlens: Any, logs: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "out.md"
    ran = memlens("compare", *logs, "--format", "markdown", "-o", target)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert "| `after.log` | **12.00** | +2.00 | +20.00% |" in target.read_text()
    assert memlens("compare", *logs, "-o", target).code == 1
    template = f"{tmp_path}/{{x}}.log"
    ran = memlens("compare", "--template", template, "-f", "-o", logs[1])
    assert (ran.code, "an input of this command" in ran.err) == (2, True)


def test_comparing_into_a_pipe_needs_neither_pandas_nor_rich(
    process: Callable[..., Any], logs: tuple[Path, Path]
) -> None:
    code = (
        f"import sys; from memlens.cli import main; main(['compare', *{[str(log) for log in logs]!r}]); "
        "heavy = {'pandas', 'rich'} & set(sys.modules); sys.exit(f'heavy: {heavy}' if heavy else 0)"
    )
    ran = process("-c", code, python="")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="sends a signal to a group of processes")
def test_ctrl_c_ends_all_processes_and_leaves_no_file(tmp_path: Path) -> None:
    text = made.log_text(64 * MIB, blocks=1000, steps=20)
    for number in range(60):
        (tmp_path / f"{number}.log").write_text(text)
    command = [sys.executable, "-m", "memlens", "compare", "--template", f"{tmp_path}/{{n}}.log", "--jobs", "2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [*command, "-o", str(tmp_path / "out")], stderr=subprocess.PIPE, start_new_session=True, env=environment
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
        (["a.log", "--template", "{x}.log"], "LOG and --template exclude each other"),
        (["runs/{x}.log"], "A template is given alone, behind --template."),
        (["a.log", "--rows", "x"], "--rows needs --template"),
        (["a.log", "--cols", "x"], "--cols needs --template"),
        (["-", "-"], "stdin (-) can be read only once"),
        (["a.log", "--base", "b.log"], "none of the logs"),
        (["a.log", "-m", "size"], "no metric 'size'"),
        (["a.log", "--by", "(x"], "memlens: error:"),
        (["a.log", "--jobs", "0"], "--jobs"),
        (["a.log", "--format", "xml"], "xml"),
        (["--template", "a.log"], "has no field"),
        (["--template", "{x"], "belongs to no field"),
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
    ran = memlens("compare", "--template", case_3, *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_a_template_that_matches_nothing_says_how_far_it_came(memlens: Any, case_3: str) -> None:
    ran = memlens("compare", "--template", case_3.replace("workerlog", "log"))
    assert (ran.code, ran.out) == (1, "")
    assert "no file matches the template" in ran.err
    assert "no file 'log.{rank}'" in ran.err
