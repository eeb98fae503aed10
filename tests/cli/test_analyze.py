"""``memlens analyze`` from a log to a screen, a file or a pipe."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from logs import ALLOC, HEADER


def lines_of(text: str) -> dict[str, str]:
    """Lines by their first word; continued lines are left out."""
    return {line.split()[0]: line for line in text.splitlines() if line and not line.startswith(" ")}


# --- case 1 ---


@pytest.mark.parametrize(
    ("log", "remaining", "freed"),
    [("case1_pir.log", "6.75 MiB", "3.38 MiB  1 free,"), ("case1_pt.log", "3.38 MiB", "6.75 MiB  2 frees,")],
)
def test_the_small_subgraph_of_case_1_prints_its_published_figures(
    memlens: Any, examples: Path, log: str, remaining: str, freed: str
) -> None:
    ran = memlens("analyze", examples / log, "--start", "START SOT_CALL_0", "--end", "START SOT_CALL_1", columns=80)
    assert ran.code == 0
    lines = lines_of(ran.out)
    assert remaining in lines["Remaining"]
    assert "10.12 MiB" in lines["Rise"]
    assert "10.12 MiB  3 allocs" in lines["Allocated"]
    assert freed in lines["Freed"]


# --- machine output ---


def test_json_is_exact(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "--format", "json")
    values = json.loads(ran.out)
    (window,) = values["logs"][0]["windows"]
    assert window["remaining"] == {"remaining_bytes": 2560, "carried_in_bytes": 0, "live_bytes": 2560}
    assert (window["peak"]["peak_bytes"], window["peak"]["event"], window["peak"]["line"]) == (3072, 1, 3)
    assert window["peak"]["live"] == [
        {"size_bytes": size, "count": 1, "total_bytes": size, "owner": None, "holder": None} for size in (2048, 1024)
    ]
    stats = window["stats"]
    assert (stats["alloc_bytes"], stats["allocs"], stats["free_bytes"], stats["frees"]) == (3584, 3, 1024, 1)
    assert stats["duration_us"] == 1_000_003
    assert (window["unmatched"]["held_allocs"], window["unmatched"]["held_bytes"]) == (2, 2560)
    assert set(window) >= {"remaining", "peak", "stats", "unmatched", "lifetimes"}
    assert values["logs"][0]["growth"] is None


# --- lists, sorting ---


def test_an_analyzer_that_was_asked_for_shows_all_it_says(memlens: Any, small_log: Path) -> None:
    ran = memlens("analyze", small_log, "-A", "stats", columns=80)
    assert "Sizes" in ran.out
    assert "Peak" not in ran.out
    ran = memlens("analyze", small_log, "-A", "remaining", "--format", "json")
    (window,) = json.loads(ran.out)["logs"][0]["windows"]
    assert "remaining" in window
    assert "peak" not in window


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


def test_several_logs_are_a_row_each(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_text(ALLOC.format(1 << 20, 4096))
    ran = memlens("analyze", small_log, other, "--sort", "peak", columns=80)
    assert ran.code == 0
    rows = [line.split()[:3] for line in ran.out.partition("\nLog ")[2].splitlines()[1:3]]
    assert rows == [["other.log", "1.00", "MiB"], ["small.log", "3.00", "KiB"]]


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


def owned_log(tmp_path: Path) -> Path:
    """Two blocks of equal size, allocated by two operators, and lines of the program's own in front of them."""
    header = HEADER.replace("auto_growth_best_fit_allocator.cc:270", "dygraph_functions.cc:1775")
    path = tmp_path / "run.log"
    path.write_text(
        f"{header}Running AD API: conv2d\nLAYER encoder forward\n{ALLOC.format(1024, 0x100)}"
        f"{header}Running AD API: relu\nLAYER <b>=decoder forward\n{ALLOC.format(1024, 0x200)}"
    )
    return path


def test_blocks_are_listed_by_size_and_owner_where_the_log_names_owners(memlens: Any, tmp_path: Path) -> None:
    ran = memlens("analyze", owned_log(tmp_path), columns=80)
    assert re.search(r"^ *Size +Count +Total +Share +Owner$", ran.out, re.MULTILINE)
    assert re.search(r"^1\.00 KiB +1 +1\.00 KiB +50% +conv2d$", ran.out, re.MULTILINE)
    assert re.search(r"^1\.00 KiB +1 +1\.00 KiB +50% +6 +relu$", ran.out, re.MULTILINE)


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


def test_what_no_line_tells_of_is_not_known_among_several_logs(memlens: Any, shared: Path) -> None:
    names = ("traps/late_leak.log.gz", "paddle/331_dygraph_cnn.log", "paddle/09_loader_workers_331.log.gz")
    out = memlens("analyze", *(shared / "data" / name for name in names), columns=160).out
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines() if ".log" in line[:30]}
    assert rows["late_leak.log.gz"].startswith("51.00 MiB not known 51.00 MiB ")
    assert rows["331_dygraph_cnn.log"].startswith("4.26 MiB 6.11 MiB 0 B ")
    assert rows["09_loader_workers_331.log.gz"].startswith("not known 7.30 MiB not known ")
