"""The large logs of the benchmarks hold what their arithmetic says: by a walk over every line of small ones, and by memlens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

import memlens

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "large_log.py"


def made(piece: Path, to: Path, *options: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, SCRIPT, piece, to, *options], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def counted(text: bytes) -> dict[str, Any]:
    """The same figures, of all lines that were written."""
    found = dict.fromkeys(("allocs", "frees", "reserves", "releases", "alloc_bytes", "free_bytes"), 0)
    level = peak = peak_line = reserved = windows = peak_window = 0
    live: dict[str, int] = {}
    lines = text.decode().splitlines()
    for number, line in enumerate(lines, 1):
        if line.startswith("START STEP_"):
            windows += 1
        elif match := re.search(r"\bAlloc (\d+) bytes, ptr = (0x\w+)", line):
            size, address = int(match[1]), match[2]
            assert address not in live, line  # no repetition takes what another one holds
            live[address] = size
            level += size
            found["allocs"] += 1
            found["alloc_bytes"] += size
        elif match := re.search(r"\bFree (\d+) bytes, ptr = (0x\w+)", line):
            assert live.pop(match[2]) == int(match[1])
            level -= int(match[1])
            found["frees"] += 1
            found["free_bytes"] += int(match[1])
        elif match := re.search(r"Not found and reallocate (\d+)\(", line):
            reserved += int(match[1])
            found["reserves"] += 1
        if level > peak:
            peak, peak_line, peak_window = level, number, windows
    assert sum(live.values()) == level
    return {
        **found,
        "repetitions": windows,
        "windows": windows,
        "bytes": len(text),
        "lines": len(lines),
        "peak_bytes": peak,
        "peak_line": peak_line,
        "peak_repetition": peak_window - 1,
        "reserved_peak_bytes": reserved,
        "live_bytes": level,
        "remaining_bytes_per_repetition": level // windows,
    }


@pytest.mark.parametrize(
    "options",
    [
        ("--repetitions", "1"),
        ("--repetitions", "11"),
        ("--repetitions", "12", "--leak", "768B"),
        ("--repetitions", "3", "--higher-at", "0", "--ranges", "1"),
        ("--repetitions", "9", "--higher-at", "6", "--higher-by", "100KiB", "--leak", "512B"),
        ("--repetitions", "40", "--higher-at", "2", "--higher-by", "100KiB", "--leak", "10KiB"),
        ("--repetitions", "7", "--leak", "20MiB", "--higher-at", "3"),
        ("--size", "1MB", "--higher-at", "1"),
    ],
)
def test_every_figure_is_that_of_the_lines(examples: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    log = tmp_path / "large.log"
    said = made(examples / "cnn_5steps.log.gz", log, *options)
    assert said == counted(log.read_bytes())
    assert said["bytes"] <= 1_000_000 or "--size" not in options
    (found,) = memlens.analyze(log, by=r"START (STEP_\d+)").to_dict()["logs"]
    assert found["trust"]["ok"], found["trust"]["doubts"]
    assert {name: found["trust"][name] for name in ("lines", "allocs", "frees", "unknown_frees", "double_allocs")} == {
        "lines": said["lines"],
        "allocs": said["allocs"],
        "frees": said["frees"],
        "unknown_frees": 0,
        "double_allocs": 0,
    }
    windows = found["windows"]
    assert [window["name"] for window in windows] == [f"STEP_{k}" for k in range(said["windows"])]
    highest = max(windows, key=lambda window: window["peak"]["peak_bytes"])
    assert (highest["name"], highest["peak"]["peak_bytes"], highest["peak"]["line"]) == (
        f"STEP_{said['peak_repetition']}",
        said["peak_bytes"],
        said["peak_line"],
    )
    assert {window["remaining"]["remaining_bytes"] for window in windows} == {said["remaining_bytes_per_repetition"]}
    assert windows[-1]["remaining"]["live_bytes"] == said["live_bytes"]
    assert max(window["peak"]["reserved_peak_bytes"] for window in windows) == said["reserved_peak_bytes"]


@pytest.mark.parametrize("name", ["331_parts_pir_transformer.log", "10_v10_dygraph_331.log.gz", "06_noprefix.log"])
def test_pieces_of_several_threads_of_all_layers_and_without_headers(shared: Path, tmp_path: Path, name: str) -> None:
    log = tmp_path / "large.log"
    options = ("--repetitions", "3", "--ranges", "2", "--leak", "256B", "--higher-at", "1")
    said = made(shared / "data/paddle" / name, log, *options)
    assert said == counted(log.read_bytes())
    (found,) = memlens.analyze(log, whole=True).to_dict()["logs"]
    (whole,) = found["windows"]
    assert (found["trust"]["allocs"], found["trust"]["frees"]) == (said["allocs"], said["frees"])
    assert (whole["peak"]["peak_bytes"], whole["peak"]["line"]) == (said["peak_bytes"], said["peak_line"])
    assert whole["remaining"]["live_bytes"] == said["live_bytes"]


def test_times_go_on_from_one_repetition_to_the_next(examples: Path, tmp_path: Path) -> None:
    log = tmp_path / "large.log"
    made(examples / "cnn_5steps.log.gz", log, "--repetitions", "90")
    stamps = re.findall(rb"(?m)^I(\d{4} \d\d:\d\d:\d\d\.\d{6}) ", log.read_bytes())
    assert stamps == sorted(stamps)  # its piece has one thread
    assert stamps[0].startswith(b"0101 00:00:00")
    assert stamps[-1].startswith(b"0101 00:01:29")  # none of its repetitions lasts a second


def test_a_compressed_one_holds_the_same_and_so_does_one_that_is_piped(examples: Path, tmp_path: Path) -> None:
    piece, plain, packed = examples / "cnn_5steps.log.gz", tmp_path / "large.log", tmp_path / "large.log.zst"
    assert made(piece, plain, "--repetitions", "5") == made(piece, packed, "--repetitions", "5")
    text = plain.read_bytes()
    assert zstandard.ZstdDecompressor().decompressobj().decompress(packed.read_bytes()) == text
    command = [sys.executable, str(SCRIPT), str(piece), "-", "--repetitions", "5"]
    assert subprocess.run(command, check=True, capture_output=True).stdout == text
