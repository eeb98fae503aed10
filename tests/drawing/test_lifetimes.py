"""The blocks that have bars: every block of a window, what becomes of it, and which are the largest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_lives import cut, plain_blocks, plain_level, windows_of_made_logs

import memlens
from memlens.analyzers.lifetimes import lifetimes
from memlens.analyzers.unmatched import unmatched
from memlens.drawing.lifetimes import Fate, LargestBlocks, WindowBlocks, largest_blocks
from memlens.drawing.owners import Owners
from memlens.events import EventLog
from memlens.facts import Facts, Kind
from memlens.lifetimes import odd_frees
from memlens.windows.windows import Window


def bars_of(window: Window, **how: Any) -> LargestBlocks:
    return largest_blocks(WindowBlocks(window), Owners(window.log), **how)


@settings(max_examples=300, deadline=None)
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
    found = zip(of.alloc.tolist(), of.size.tolist(), of.freed.tolist(), of.end.tolist(), of.fate.tolist(), strict=True)
    assert list(found) == expected
    bars = bars_of(window, most=most, contexts=0)
    assert len(bars) == min(most, len(expected))
    # The largest half are as large as the largest there are, and of the rest none has more bytes times events than one that is shown.
    largest = sorted((size for _, size, *_ in expected), reverse=True)[: most - most // 2]
    assert sorted(bars.size_bytes.tolist(), reverse=True)[: len(largest)] == largest
    area = {alloc: size * (end - max(alloc, lo)) for alloc, size, _, end, _ in expected}
    shown = {alloc: area.pop(alloc) for alloc in bars.alloc.tolist()}
    if most > 1 and area:
        assert sum(value >= max(area.values()) for value in shown.values()) >= most // 2
    assert bars.fates == [
        (sum(row[4] == fate for row in expected), sum(row[1] for row in expected if row[4] == fate)) for fate in Fate
    ]
    drawn = [row for row in expected if row[0] in shown]
    sums = [sum(size for alloc, size, _, end, _ in drawn if alloc <= event < end) for event in range(-1, hi)]
    assert bars.most_bytes == max(sums, default=0)
    plain = bars.to_dict()
    assert plain["left_out"] == {
        "blocks": len(expected) - len(bars),
        "bytes": sum(row[1] for row in expected) - int(bars.size_bytes.sum()),
    }


@settings(max_examples=200, deadline=None)
@given(windows_of_made_logs())
def test_live_blocks_and_odd_frees_are_the_level_after_every_event(window: Window) -> None:
    of, odd = WindowBlocks(window), odd_frees(window.log)
    if not window.log.facts.addresses:
        return
    for event in range(window.lo - 1, window.hi):
        live = int(of.size[(of.alloc <= event) & (of.end > event)].sum())
        beyond = int(
            odd.excess[odd.mismatched <= event].sum() - window.log.size[odd.unknown[odd.unknown <= event]].sum()
        )
        assert live + beyond == plain_level(window.log, event)


def test_of_blocks_alike_those_at_the_peak_come_first_and_the_rest_are_spread_evenly() -> None:
    # Eight blocks of 4 bytes, one after the other; the fifth is live together with 1 byte more, at the peak.
    rows: list[tuple[Kind, int, int]] = []
    for k in range(8):
        rows += [(Kind.ALLOC, 4, k + 1), *([(Kind.ALLOC, 1, 99)] if k == 4 else []), (Kind.FREE, 4, k + 1)]
    log = EventLog.from_rows(rows)
    firsts = [k for k, row in enumerate(rows) if row[0] == Kind.ALLOC and row[1] == 4]
    assert bars_of(log.whole, most=1).alloc.tolist() == [firsts[4]]
    # By size that one, then the first and the fourth of the seven others; by bytes times events the block that is never freed, then the
    # first of the five that are left.
    never = rows.index((Kind.ALLOC, 1, 99))
    assert bars_of(log.whole, most=5).alloc.tolist() == [firsts[0], firsts[1], firsts[3], firsts[4], never]
    # What is asked for by name is there in any case.
    assert firsts[6] in bars_of(log.whole, most=1, also=[firsts[6]]).alloc.tolist()


def test_the_owners_of_the_most_bytes_times_events_have_colours() -> None:
    rows = [(Kind.ALLOC, 10 * (k + 1), k + 1) for k in range(10)]
    log = EventLog.from_rows(rows, owner=np.array([*range(9), -1], np.int32), owner_names=tuple("abcdefghi"))
    bars = bars_of(log.whole)
    # Block k of 10 (k + 1) bytes lives for 10 - k events: 100, 180, 240, 280, 300, 300, 280, 240, 180; the last one has no owner.
    largest = [bars.owner[k] for k in (4, 5, 3, 6, 2, 7, 1)]
    assert bars.largest_owners == largest


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
    for window in (log.whole, cut(log, third, len(log) - 5), cut(log, log.facts.opening, third)):
        lives, left = lifetimes([window])[0], unmatched([window])[0]
        bars = bars_of(window)
        temporary, held, released, kept = bars.fates
        assert temporary == (lives.temporary_allocs, lives.temporary_bytes)
        assert held == (lives.held_allocs, lives.held_bytes) == (left.held_allocs, left.held_bytes)
        assert released == (lives.released_frees, lives.released_bytes)
        assert kept[1] == left.opening_bytes + left.earlier_bytes


def test_the_known_blocks_of_case_1(examples: Path) -> None:
    # The small subgraph of the case is three blocks of 3538944 bytes, of which one run frees two and the other one.
    for name, temporary in (("case1_pir.log", 1), ("case1_pt.log", 2)):
        text = (examples / name).read_text().splitlines()
        log = memlens.read(examples / name)
        subgraph = bars_of(log.window("START SOT_CALL_0", "START SOT_CALL_1"))
        small = subgraph.fate[(subgraph.size_bytes == 3538944) & (subgraph.alloc >= subgraph.alloc[-3])]
        assert sorted(small.tolist()) == [Fate.TEMPORARY] * temporary + [Fate.HELD] * (3 - temporary)
        bars = bars_of(log.whole)
        known = np.flatnonzero(bars.size_bytes == 3538944).tolist()
        assert len(known) == sum(" Alloc 3538944 bytes" in line for line in text)
        contexts = {row[0]: row[1:] for row in bars.contexts}
        for k in known:
            born = text[bars.alloc_line[k] - 1]
            assert " Alloc 3538944 bytes" in born
            for (first, *lines), line in zip(contexts[k], (bars.alloc_line[k], bars.free_line[k]), strict=True):
                assert lines == text[first - 1 : first - 1 + len(lines)]
                assert first <= line < first + len(lines)
            freed = text[bars.free_line[k] - 1]
            assert " Free 3538944 bytes" in freed
            assert freed.partition("ptr = ")[2] == born.partition("ptr = ")[2]


def test_a_log_without_addresses_has_no_bars() -> None:
    log = EventLog.from_rows([(Kind.ALLOC, 8, 0), (Kind.FREE, 8, 0)], facts=Facts(addresses=False))
    bars = bars_of(log.whole)
    assert (len(bars), bars.known, bars.to_dict()["left_out"]) == (0, False, {"blocks": 0, "bytes": 0})
