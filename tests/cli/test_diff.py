"""``memlens diff`` from two logs to a screen, a file or a pipe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from logs import ALLOC, FREE


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two steps each; in the second one head keeps the 4096 bytes that base frees on line 8."""

    def step(number: int, address: int, *, free: bool) -> str:
        lines = [f"STEP {number} START\n", ALLOC.format(1024, address), ALLOC.format(4096, address + 4096)]
        lines += [FREE.format(1024, address), *([FREE.format(4096, address + 4096)] if free else [])]
        return "".join(lines)

    base, head = tmp_path / "base.log", tmp_path / "head.log"
    base.write_text(step(1, 0x1000, free=False) + step(2, 0x10000, free=True))
    head.write_text(step(1, 0x3000, free=False) + step(2, 0x30000, free=False))
    return base, head


def finding_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(r"(Missing|Extra|Late|Early) free: ", line)]


# --- case 1 ---


def test_case_1_names_its_missing_free_and_explains_everything(memlens: Any, examples: Path) -> None:
    logs, window = (examples / "case1_pt.log", examples / "case1_pir.log"), ("START SOT_CALL_0", "START SOT_CALL_1")
    ran = memlens("diff", *logs, "--start", window[0], "--end", window[1], columns=80)
    assert (ran.code, ran.err) == (0, "")
    assert finding_lines(ran.out) == ["Missing free: 3.38 MiB (3538944 B)"]
    assert "All of the 3.38 MiB left behind is a missing Free of 3.38 MiB" in " ".join(ran.out.split())
    # Base frees it on leaving a scope, which is the line above the marked one.
    lines = ran.out.splitlines()
    marked = next(i for i, line in enumerate(lines) if line.startswith("> "))
    assert any("Leave scope" in line for line in lines[marked - 2 : marked])


# --- what is compared ---


def test_a_series_pairs_windows_by_name(memlens: Any, pair: tuple[Path, Path]) -> None:
    values = json.loads(memlens("diff", *pair, "--by", r"STEP (\d+) START", "--open", "--format", "json").out)
    assert (values["by"], values["found_by"], values["parting"]) == (r"STEP (\d+) START", False, "2")
    assert [window["d_remaining_bytes"] for window in values["windows"]] == [0, 4096]


# --- errors ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--whole", "--start", "STEP"], "--whole and anchors exclude each other"),
        (["--whole", "--head-nth", "2"], "--whole and anchors exclude each other"),
        (["--by", "STEP", "--start", "STEP"], "--by and --start exclude each other"),
        (["--by", "STEP", "--base-start", "STEP"], "--by and --base-start exclude each other"),
        (["--base-start", "a", "--base-start-regex", "a"], "--base-start and --base-start-regex exclude each other"),
        (["--by", "STEP", "--head-nth", "2"], "--by and --head-nth exclude each other"),
        (["--base-nth", "2"], "--base-nth needs --start or --base-start"),
        (["--by", "(STEP"], "memlens: error:"),
        (["--context", "-1"], "--context"),
        (["--min-size", "big"], "is not a size"),
        (["--format", "xml"], "xml"),
        (["--base-nth", "0"], "--base-nth"),
    ],
)
def test_arguments_that_make_no_sense_are_wrong_usage(
    memlens: Any, pair: tuple[Path, Path], options: list[str], message: str
) -> None:
    ran = memlens("diff", *pair, *options)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
