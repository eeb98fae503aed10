"""``memlens analyze`` from a log to a screen, a file or a pipe."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from logs import ALLOC

# --- case 1 ---


# --- machine output ---


# --- lists, sorting ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sort", "peak"], "--sort needs a table"),
        (["--by", "STEP", "--sort", "size"], "there is no column 'size' to sort by"),
        (["--by", "STEP", "-A", "remaining", "--sort", "peak"], "Ask for its analyzer with -A peak"),
        (["-A", "pike"], "no analyzer is called 'pike'"),
        (["--whole", "-A", "growth"], "growth needs a series"),
        (["--min-size", "big"], "is not a size"),
        (["--by", "STEP", "--start", "STEP"], "exclude each other"),
        (["--by", "(STEP"], "memlens: error:"),
        (["--format", "xml"], "xml"),
        (["-"], "_"),
    ],
)
def test_arguments_that_make_no_sense_are_wrong_usage(
    memlens: Any, small_log: Path, arguments: list[str], message: str
) -> None:
    ran = memlens("analyze", small_log, *(["-", "-"] if arguments == ["-"] else arguments))
    assert (ran.code, ran.out) == (2, "")
    assert arguments == ["-"] or message in ran.err


# --- outputs ---


def test_a_file_is_written_over_only_when_asked(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    target.write_text("mine")
    ran = memlens("analyze", small_log, "-o", target)
    assert ran.code == 1
    assert "exists" in ran.err
    assert "-f" in ran.err
    assert target.read_text() == "mine"
    assert memlens("analyze", small_log, "-o", target, "-f").code == 0
    assert "Peak" in target.read_text()


# --- inputs ---


def test_one_unreadable_log_does_not_lose_the_others(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.log"
    ran = memlens("analyze", missing, small_log, columns=80)
    assert ran.code == 1
    assert "small.log" in ran.out
    assert "not analyzed" in ran.out
    assert ran.err.startswith("memlens: error:")
    assert "missing.log" in ran.err
    ran = memlens("analyze", missing, small_log, "--format", "json")
    values = json.loads(ran.out)
    assert ran.code == 1
    assert [log["path"] for log in values["logs"]] == [str(small_log)]
    assert [failure["path"] for failure in values["failures"]] == [str(missing)]


def test_a_log_without_the_anchor_is_an_error_in_words(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "--start", "START SOT_CALL_9")
    assert (ran.code, ran.out) == (1, "")
    assert "START SOT_CALL_9" in ran.err
    assert "Traceback" not in ran.err


def test_strict_refuses_a_log_that_is_cut_short(memlens: Any, tmp_path: Path) -> None:
    whole = gzip.compress("".join(ALLOC.format(512, 512 * place) for place in range(1, 20_000)).encode())
    log = tmp_path / "cut.log.gz"
    log.write_bytes(whole[: len(whole) * 2 // 3])
    ran = memlens("analyze", log)
    assert ran.code == 0
    assert "doubtful" in ran.out
    ran = memlens("analyze", log, "--strict")
    assert (ran.code, ran.out) == (1, "")


# --- owners ---


# --- folders ---


def test_a_folder_stands_for_its_logs_and_what_is_none_is_named(memlens: Any, small_log: Path) -> None:
    folder = small_log.parent / "runs \x1b[31m"
    folder.mkdir()
    for name in ("worker.10", "worker.9"):
        (folder / name).write_bytes(small_log.read_bytes())
    (folder / "notes\x1b.txt").write_text("nothing\n")
    ran = memlens("analyze", folder)
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    assert ran.out.index("worker.9") < ran.out.index("worker.10")
    assert ran.err.endswith(": 1 file is no log by the first 64 KiB and left out: notes\\x1b.txt\n")
    assert memlens("analyze", folder, "-q").err == ""
    assert memlens("compare", folder).err == ran.err
    assert memlens("analyze", folder, "--sort", "peak").code == 0
    target = folder / "worker.9"
    assert "is" in memlens("analyze", folder, "-f", "-o", target).err
    assert target.read_bytes() == small_log.read_bytes()


@pytest.mark.parametrize("name", ["traps/late_leak.log.gz", "torch/kineto/window1.json", "torch/kineto/cnn.json.gz"])
def test_what_is_reserved_is_null_where_no_line_tells_of_chunks(memlens: Any, shared: Path, name: str) -> None:
    (log,) = json.loads(memlens("analyze", shared / "data" / name, "--format", "json").out)["logs"]
    for window in (*log["windows"], *(log["steps"] or {"windows": ()})["windows"]):
        assert window["peak"]["reserved_peak_bytes"] is None
        assert window["peak"]["reserved_at_peak_bytes"] is None
