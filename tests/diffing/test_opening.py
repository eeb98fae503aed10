"""Blocks from before an input take part in a comparison: Δpeak = Δcarried in + Δrise, and who has what from before."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diff_judge import check_accounts, of_kind
from night import some

import memlens
from memlens.diffing.run import diff
from memlens.events import Kind
from memlens.facts import Facts
from memlens.log import Log

A, F = Kind.ALLOC, Kind.FREE


def log(opening: list[tuple[Kind, int, int]], *rows: tuple[Kind, int, int], **columns: Any) -> Log:
    """A log with some events from before it; as in a snapshot they have no line."""
    count = len(opening)
    lines = np.concatenate((np.zeros(count, np.int64), np.arange(1, len(rows) + 1)))
    return Log.from_rows([*opening, *rows], line=lines, facts=Facts(opening=count, lines=len(rows)), **columns)


def test_what_only_one_run_has_from_before_is_a_finding_and_no_no_difference() -> None:
    base = log([(A, 512, 1), (A, 256, 2)], (A, 64, 3), (F, 64, 3))
    head = log([(A, 1024, 9), (A, 512, 8), (A, 1024, 7)], (A, 64, 6), (F, 64, 6))
    window = diff(base.whole, head.whole).windows[0]
    # carried in: 768 and 2560; both rise by 64 on top of that
    assert (window.d_carried_in_bytes, window.d_rise_bytes, window.d_peak_bytes) == (1792, 0, 1792)
    assert (window.base.peak_bytes, window.head.peak_bytes) == (832, 2624)
    assert (window.d_remaining_bytes, window.d_live_bytes, window.cost_bytes) == (0, 1792, 0)
    assert not window.same
    assert not window.alike
    found = [(f.kind, f.size_bytes, f.count, f.d_peak_bytes, f.owner) for f in window.findings]
    assert found == [
        ("opening_only_head", 1024, 2, 2048, "(before the input)"),
        ("opening_only_base", 256, 1, -256, "(before the input)"),
    ]
    assert all((f.context, f.fate, f.freed_by, f.d_remaining_bytes) == ((), None, None, 0) for f in window.findings)
    assert window.peak_explained_bytes == window.d_peak_bytes


def test_a_window_that_does_not_begin_with_the_input_carries_in_without_findings() -> None:
    base = log([(A, 512, 1)], (A, 64, 3), (A, 32, 4))
    head = log([(A, 256, 1)], (A, 64, 3), (A, 32, 4))
    whole = base.whole, head.whole
    later = [type(w)(w.log, "later", w.lo + 1, w.hi, 1, w.end_offset, 2, w.end_line) for w in whole]
    window = diff(*later).windows[0]
    assert (window.d_carried_in_bytes, window.peak.carried_in_bytes, window.d_rise_bytes) == (-256, -256, 0)
    assert (window.alike, window.same, len(window.findings)) == (True, False, 0)


PAIRS = [
    ("train_19464", "medium_512_training"),
    ("medium_512_training", "ring_3000"),
    ("forward_fp32", "forward_bf16"),
    ("medium_1024_inference", "pre_existing_blocks"),
    ("state_only_2024", "segments_only"),
]


@pytest.mark.parametrize(("one", "two"), some(PAIRS, 2))
def test_the_peaks_of_snapshots_are_those_of_the_device_and_every_byte_has_its_term(
    shared: Path, one: str, two: str
) -> None:
    folder = shared / "data/torch"
    logs = [memlens.read(folder / "snapshots" / f"{name}.pickle") for name in (one, two)]
    expected = json.loads((folder / "expected.json").read_text())
    base, head = (expected[f"{name}.pickle"]["0"] for name in (one, two))
    window = diff(logs[0].whole, logs[1].whole).windows[0]
    assert window.d_peak_bytes == head["peak_allocated"] - base["peak_allocated"]
    assert window.d_carried_in_bytes == head["start_allocated"] - base["start_allocated"]
    assert window.d_live_bytes == head["end_allocated"] - base["end_allocated"]
    assert not window.same
    before = [Counter(log.size[: log.facts.opening][log.kind[: log.facts.opening] == A].tolist()) for log in logs]
    for kind, more in (("opening_only_head", before[1] - before[0]), ("opening_only_base", before[0] - before[1])):
        named: Counter[int] = Counter()
        for finding in of_kind(window, kind):
            named[finding.size_bytes] += finding.count
        assert named == more
    check_accounts(logs[0].whole, logs[1].whole, window)
