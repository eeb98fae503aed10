"""``memlens whatif`` from a log to a screen, a file or a pipe."""

from __future__ import annotations

import gzip
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from commands import process


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


def test_without_the_compiled_modules_one_error_says_what_is_needed(examples: Path) -> None:
    ran, analyzed = (
        process(verb, examples / "oom.log.gz", env={"MEMLENS_PURE": "1"}) for verb in ("whatif", "analyze")
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "Install a C compiler, then: pip install --force-reinstall" in ran.stderr
    assert (analyzed.returncode, analyzed.stderr, "Setting " in analyzed.stdout) == (0, "", False)
