"""The blocks that have bars: every block of a window, what becomes of it, and which are the largest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import window_of
from made_lives import plain_blocks, plain_level, windows_of_made_logs
from night import many

import memlens
from memlens.analyzers.lifetimes import lifetimes
from memlens.analyzers.unmatched import unmatched
from memlens.drawing.lifetimes import Fate, WindowBlocks, largest_blocks
from memlens.drawing.page import Owners
from memlens.windows.windows import Window


def bars_of(window: Window, **how: Any) -> Any:
    return largest_blocks(WindowBlocks(window), Owners(window.log), **how)


@settings(max_examples=many(300))
@given(windows_of_made_logs(), st.integers(0, 12))
def test_the_blocks_and_the_bars_of_any_window(window: Window, most: int) -> None:
    log, (lo, hi) = window.log, (window.lo, window.hi)
    of = WindowBlocks(window)
    expected = []
    for block in plain_blocks(log) if log.facts.addresses else []:
        if block.alloc < hi and (block.free is None or block.free >= lo):
            end = hi if block.free is None else min(block.free, hi)
            in_window = end < hi
            fate = (Fate.RELEASED if in_window else Fate.KEPT) if block.alloc < lo else None
            fate = (Fate.TEMPORARY if in_window else Fate.HELD) if fate is None else fate
            expected.append((block.alloc, block.size, -1 if block.free is None else block.free, end, fate))
    found = zip(
        of.alloc.tolist(), of.size.tolist(), of.freed().tolist(), of.end.tolist(), of.fate.tolist(), strict=True
    )
    assert list(found) == expected
    bars = bars_of(window, most=most, contexts=0)
    assert len(bars["alloc"]) == min(most, len(expected))
    # The largest half are as large as the largest there are, and of the rest none has more bytes times events than one that is shown.
    largest = sorted((size for _, size, *_ in expected), reverse=True)[: most - most // 2]
    assert sorted(bars["size_bytes"].tolist(), reverse=True)[: len(largest)] == largest
    area = {alloc: size * (end - max(alloc, lo)) for alloc, size, _, end, _ in expected}
    shown = {alloc: area.pop(alloc) for alloc in bars["alloc"].tolist()}
    if most > 1 and area:
        assert sum(value >= max(area.values()) for value in shown.values()) >= most // 2
    assert len(bars["fates"]) == len(Fate)
    assert bars["left_out"] == {
        "blocks": len(expected) - len(bars["alloc"]),
        "bytes": sum(row[1] for row in expected) - int(bars["size_bytes"].sum()),
    }


@settings(max_examples=many(200))
@given(windows_of_made_logs())
def test_live_blocks_and_odd_frees_are_the_level_after_every_event(window: Window) -> None:
    of, odd = WindowBlocks(window), window.log.free_anomalies
    if not window.log.facts.addresses:
        return
    for event in range(window.lo - 1, window.hi):
        live = int(of.size[(of.alloc <= event) & (of.end > event)].sum())
        beyond = int(
            odd.excess[odd.mismatched <= event].sum() - window.log.size[odd.unknown[odd.unknown <= event]].sum()
        )
        assert live + beyond == plain_level(window.log, event)


REAL = (
    "data/paddle/331_dygraph_cnn.log",
    "data/paddle/05_leak_graph_331.log.gz",
    "data/paddle/05_oom_331.log",
    "data/torch/snapshots/pre_existing_blocks.pickle",
    "data/torch/snapshots/ring_3000.pickle",
    "data/torch/kineto/cnn_leak.json.gz",
)


@pytest.mark.parametrize("name", REAL)
def test_the_fates_are_those_of_the_analyzers(shared: Path, name: str) -> None:
    log = memlens.read(shared / name)
    third = (len(log) - log.facts.opening) // 3 + log.facts.opening
    for window in (log.whole, window_of(log, third, len(log) - 5), window_of(log, log.facts.opening, third)):
        lives, left = lifetimes([window])[0], unmatched([window])[0]
        of = WindowBlocks(window)
        temporary, held, released, kept = (
            (int(np.count_nonzero(of.fate == fate)), int(of.size[of.fate == fate].sum())) for fate in Fate
        )
        assert temporary == (lives.temporary_allocs, lives.temporary_bytes)
        assert held == (lives.held_allocs, lives.held_bytes) == (left.held_allocs, left.held_bytes)
        assert released == (lives.released_frees, lives.released_bytes)
        assert kept[1] == left.opening_bytes + left.earlier_bytes
