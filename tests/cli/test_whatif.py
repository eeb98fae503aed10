"""``memlens whatif`` from a log to a screen, a file or a pipe."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest


def test_the_verdict_comes_first_and_the_proof_before_the_settings(memlens: Any, examples: Path) -> None:
    ran = memlens("whatif", examples / "oom.log.gz")
    assert ran.code == 0
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert lines[0].startswith(
        "This run ran out of memory at line 1,327. With FLAGS_free_idle_chunk=1 it gets past that within 7.59 MiB"
    )
    # 55 chunks and 357 blocks are what the log says it took and gave out: its lines, counted by another program.
    assert "Replayed   55 of 55 chunks, 357 of 357 addresses as recorded" in lines
    assert lines.index("Set        FLAGS_free_idle_chunk=1") < next(
        k for k, line in enumerate(lines) if line.startswith("Setting ")
    )
    assert "\x1b" not in ran.out


def test_one_screen_of_eighty_columns(memlens: Any, examples: Path) -> None:
    for log in ("oom.log.gz", "leak.log.gz", "case1_pt.log"):
        out = memlens("whatif", examples / log, columns=80).out
        assert max(map(len, out.splitlines())) <= 80
        assert len(out.splitlines()) <= 40


def test_nothing_of_a_figure_is_cut_away_at_forty_columns(memlens: Any, examples: Path) -> None:
    lines = memlens("whatif", examples / "oom.log.gz", columns=40).out.splitlines()
    assert max(map(len, lines)) <= 40
    first = next(k for k, line in enumerate(lines) if line.startswith("Setting "))
    table = lines[first : lines.index("", first)]
    assert not [line for line in table if "…" in line.lstrip("…")]  # the last line counts what is left out
    shown = " ".join(" ".join(line[30:] for line in table[:-1]).split())
    assert shown.startswith("Completes within 4.26 MiB 4.69 MiB to 5.30 MiB")
    assert "8.20 MiB to 8.98 MiB" in shown


def test_only_the_verdict(memlens: Any, examples: Path) -> None:
    assert memlens("whatif", examples / "oom.log.gz", "--brief").out.count("\n") == 1


def test_the_machine_forms_have_every_setting(memlens: Any, examples: Path, tmp_path: Path) -> None:
    assert memlens("whatif", examples / "oom.log.gz", "--format", "json", "-o", tmp_path / "w.json").code == 0
    result = json.loads((tmp_path / "w.json").read_text())
    assert result["schema"] == "memlens.whatif/1"
    (log,) = result["logs"]
    assert log["proof"]["holds"]
    assert log["model"] == "paddle-auto-growth"
    rows = list(csv.DictReader(io.StringIO(memlens("whatif", examples / "oom.log.gz", "--format", "csv").out)))
    assert [row["line"] for row in rows] == [trial["line"] for trial in log["trials"]]
    assert sum(row["as_run"] == "True" for row in rows) == 1
    markdown = memlens("whatif", examples / "oom.log.gz", "--format", "markdown").out
    assert all(f"`{trial['line']}`" in markdown for trial in log["trials"] if trial["line"])


def test_what_exists_is_not_written_over(memlens: Any, examples: Path, tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text("mine")
    assert memlens("whatif", examples / "oom.log.gz", "-o", tmp_path / "w.json").code == 1
    assert (tmp_path / "w.json").read_text() == "mine"


def test_a_limit_and_a_setting_of_ones_own(memlens: Any, examples: Path) -> None:
    ran = memlens("whatif", examples / "leak.log.gz", "--limit", "64MiB", "--set", "auto_growth_chunk_size_in_mb=4")
    assert ran.code == 0
    assert ran.out.startswith("As it was set this run fails within 64.00 MiB at line ")
    assert "No setting can help: 79.62 MiB are live at once" in ran.out  # its peak of allocated bytes, by the framework
    assert ran.out.count("auto_growth_chunk_size_in_mb=4") == 1


def test_a_setting_that_there_is_not_names_the_one_that_was_meant(memlens: Any, examples: Path) -> None:
    ran = memlens("whatif", examples / "oom.log.gz", "--set", "auto_growth_chunk_size=4")
    assert ran.code == 2
    assert "paddle-auto-growth has no setting 'auto_growth_chunk_size'" in ran.err
    assert "Did you mean: FLAGS_auto_growth_chunk_size_in_mb" in ran.err
    assert ran.out == ""


def test_how_the_run_was_set_can_be_given_and_is_proved(memlens: Any, examples: Path) -> None:
    ran = memlens("whatif", examples / "oom.log.gz", "--was", "auto_growth_chunk_size_in_mb=4")
    assert ran.code == 1
    assert ran.out.startswith(
        "Nothing can be said of other settings: replayed as it was set, this run differs from its log at line "
    )
    assert "Set " not in ran.out


def test_what_cannot_be_replayed_says_why(memlens: Any, examples: Path) -> None:
    ran = memlens("whatif", examples / "torch_leak.json.gz")
    assert ran.code == 1
    assert ran.out == ""
    assert "cannot be replayed: no allocator that memlens can replay writes kineto" in ran.err


def test_each_process_of_a_file_that_several_wrote_is_replayed_on_its_own(memlens: Any, examples: Path) -> None:
    ran = memlens("whatif", examples / "torn_4procs.log.gz", "--format", "json")
    assert ran.code == 0
    logs = json.loads(ran.out)["logs"]
    assert len({log["path"] for log in logs}) == 4
    for log in logs:
        assert re.search(r"\[process of thread \d+\]$", log["path"])
        assert log["proof"]["holds"]
    text = gzip.decompress((examples / "torn_4procs.log.gz").read_bytes())
    assert sum(log["proof"]["addresses"] for log in logs) == text.count(b"Alloc ")
    shown = memlens("whatif", examples / "torn_4procs.log.gz").out
    assert shown.startswith("Process of thread ")
    assert "3 of 3 other processes would need less" in " ".join(shown.split())


def test_an_interrupt_ends_it_with_130(examples: Path, tmp_path: Path) -> None:
    out = tmp_path / "w.txt"
    command = [sys.executable, "-m", "memlens", "whatif", examples / "leak.log.gz", "--all", "-v", "-o", out]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert "read in" in running.stderr.readline()
        time.sleep(0.3)  # then come its replays: all combinations take many times as long
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
        assert running.wait(timeout=30) == 130
    assert said.splitlines()[-1] == "memlens: interrupted"
    assert not out.exists()


def test_a_log_that_is_kept_says_the_same_the_second_time(memlens: Any, examples: Path, tmp_path: Path) -> None:
    pytest.importorskip("xxhash", reason="pip install 'memlens[cache]'")
    first, second = (memlens("whatif", examples / "oom.log.gz", "--cache", tmp_path) for _ in range(2))
    assert first.out == second.out == memlens("whatif", examples / "oom.log.gz").out
    assert any(tmp_path.iterdir())
    # One that was kept without its lines of requests, by another verb, is no answer here.
    for verb in ("analyze", "whatif"):
        assert memlens(verb, examples / "leak.log.gz", "--cache", tmp_path, "--brief").code == 0
