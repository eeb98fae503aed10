"""The first lines of diff, compare and gate over the real logs: their peaks are the framework's own, and all of it is one screen.

The expected peaks are those of ``NAME.stats.json``; of logs with several threads, of which Paddle's own figure is too low, those that the folder's
README gives by replay.  The expected figures of the traps come from a loop over their lines.
"""

from __future__ import annotations

import gzip
import json
import re
from itertools import permutations
from pathlib import Path

import pytest
from night import some
from real_windows import RUNS

import memlens
from memlens.reports.blocks import Block
from memlens.reports.compare import compare_blocks
from memlens.reports.diff import diff_blocks
from memlens.reports.gate import gate_blocks
from memlens.reports.terminal import render
from memlens.text import format_bytes, format_signed

ROWS = 40
BY_REPLAY = {
    "331_ast_pir_cnn": 4578560,
    "331_parts_pir_transformer": 8942336,
    "30_ast_transformer_pir": 12054784,
    "30_ast_transformer_pt": 12054784,
    "30b2_ast_transformer_pir": 12576512,
    "30b2_ast_transformer_pt": 11790080,
    "04_threads_30_ast_pt_transformer": 11949824,
}
PAIRS = sorted({(base, head) for _, base, head in RUNS if not {base[:3], head[:3]} & {"262"}})
#: 200 steps, of which each lasts: good, a leak of each step, and the like.
TRAPS = ["five", "seven", "five_osexit", "good", "leak900k", "late_leak", "sawtooth"]


@pytest.fixture(scope="module")
def logs(shared: Path) -> Path:
    return shared / "data" / "paddle"


def peak_of(log: Path) -> int:
    """The peak of a run by the framework's own figures."""
    name = log.name.split(".log")[0]
    if name in BY_REPLAY:
        return BY_REPLAY[name]
    stats = log.parent / (
        f"{name.split('.')[0]}.rank{log.name[-1]}.stats.json" if "workerlog" in log.name else f"{name}.stats.json"
    )
    peak: int = json.loads(stats.read_text())["allocated_peak"]
    return peak


def check_peaks(said: str, base: int, head: int) -> None:
    if base == head:
        assert f"oth peak at {format_bytes(head)}" in said
    else:
        more = f"{format_bytes(abs(head - base))} {'more' if head > base else 'less'} than base"
        assert f"ead peaks at {format_bytes(head)}, {more} ({format_bytes(base)})" in said


def rows_on_screen(blocks: list[Block]) -> int:
    return len(render(blocks, width=80).splitlines())


@pytest.mark.parametrize(("base", "head"), some(PAIRS, 2))
def test_diff_says_the_peaks_of_the_framework_on_one_screen(logs: Path, base: str, head: str) -> None:
    diff = memlens.diff(logs / base, logs / head)
    check_peaks(diff.verdict, peak_of(logs / base), peak_of(logs / head))
    assert (diff.base.peak_bytes, diff.head.peak_bytes) == (peak_of(logs / base), peak_of(logs / head))
    assert diff.to_dict()["verdict"] == diff.verdict
    assert len(diff.answer.sentences) <= 6
    worse = peak_of(logs / head) - peak_of(logs / base)
    assert diff.answer.tone == "bad" if worse > 0 else diff.answer.tone != "bad" or worse == 0
    assert rows_on_screen(diff_blocks(diff)) <= ROWS
    assert rows_on_screen(diff_blocks(memlens.diff(logs / base, logs / head, whole=True))) <= ROWS


@pytest.mark.parametrize(("base", "head"), some((pair for pair in PAIRS if pair[0] != pair[1]), 2))
def test_compare_and_gate_say_the_peaks_of_the_framework_on_one_screen(logs: Path, base: str, head: str) -> None:
    old, new = peak_of(logs / base), peak_of(logs / head)
    comparison = memlens.compare([logs / base, logs / head], base=str(logs / base))
    than = (
        f"as much as in {base}" if old == new else f"{format_bytes(abs(new - old))} {'more' if new > old else 'less'}"
    )
    assert f"The peak is {format_bytes(new)} in {head}, {than}" in comparison.verdict
    assert rows_on_screen(compare_blocks(comparison)) <= ROWS
    gate = memlens.gate(logs / head, base=logs / base, limits="growth=off")
    limit = old + max(64 << 10, old * 2 // 100)
    if new <= limit:
        said = f"Within limits: the peak of the run is {format_bytes(new)}, {format_signed(new - old)} against {format_bytes(old)}, "
        assert gate.explanation.startswith(f"{said}limit {format_bytes(limit)}; ")
    else:
        said = f"Regression in the run: peak went from {format_bytes(old)} to {format_bytes(new)}, {format_signed(new - old)} ("
        assert gate.explanation.startswith(said)
        assert f"hat is over the limit of {format_bytes(limit)} by {format_bytes(new - limit)} (" in gate.explanation
    assert gate.answer.tone == ("good" if new <= limit else "bad")
    assert gate.to_dict()["explanation"] == gate.explanation
    assert rows_on_screen(gate_blocks(gate)) <= ROWS


def replayed(log: Path) -> int:
    """The peak of a log by a loop over its lines."""
    live = peak = 0
    with gzip.open(log, "rt") as lines:
        for line in lines:
            if event := re.search(r"(Alloc|Free) (\d+) bytes, ptr", line):
                live += int(event[2]) * (1 if event[1] == "Alloc" else -1)
                peak = max(peak, live)
    return peak


@pytest.mark.parametrize(("base", "head"), some(permutations(TRAPS, 2)))
def test_the_traps_have_their_peaks_in_the_first_line_of_one_screen(shared: Path, base: str, head: str) -> None:
    paths = [shared / "data" / "traps" / f"{name}.log.gz" for name in (base, head)]
    diff = memlens.diff(*paths)
    check_peaks(diff.verdict, *map(replayed, paths))
    assert rows_on_screen(diff_blocks(diff)) <= ROWS
    assert rows_on_screen(compare_blocks(memlens.compare(paths, by=r"STEP (\d+) START"))) <= ROWS
    gate = memlens.gate(paths[1], base=paths[0], by=r"STEP (\d+) START", trust=False)
    assert rows_on_screen(gate_blocks(gate)) <= ROWS
    assert gate.explanation.startswith({"pass": "Within limits", "regression": "Regression"}[gate.verdict])


def test_snapshots_have_the_figures_that_two_other_methods_agree_on(shared: Path) -> None:
    """``expected.json``: the start, the end and the peak of each snapshot, and what it reserved, by independent replays."""
    folder = shared / "data" / "torch"
    expected = {name: devices["0"] for name, devices in json.loads((folder / "expected.json").read_text()).items()}
    names = sorted(expected)
    for base, head in some(zip(names, [*names[1:], names[0]], strict=True), 9):
        diff = memlens.diff(folder / "snapshots" / base, folder / "snapshots" / head)
        check_peaks(diff.verdict, expected[base]["peak_allocated"], expected[head]["peak_allocated"])
        for name, run in ((base, diff.base), (head, diff.head)):
            figures = (run.peak_bytes, run.live_bytes, run.reserved_peak_bytes)
            assert figures == tuple(expected[name][key] for key in ("peak_allocated", "end_allocated", "peak_reserved"))
        assert rows_on_screen(diff_blocks(diff)) <= ROWS
        assert (
            rows_on_screen(compare_blocks(memlens.compare([folder / "snapshots" / name for name in (base, head)])))
            <= ROWS
        )
