"""What is live at the peak, of which the page makes a flame graph and tables: the blocks that it knows there are those of the analyzer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from real_logs import FOLDERS, real_logs

from memlens.analyzers import get
from memlens.analyzers.peak import Peak
from memlens.drawing.levels import curve_of_page, levels, marks, stretches_of
from memlens.drawing.lifetimes import WindowBlocks, largest_blocks, moments
from memlens.drawing.memory_map import other_blocks
from memlens.drawing.page import Owners
from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import Window


def assert_the_page_knows_what_is_live_at_the_peak(window: Window) -> None:
    found = get("peak")(window)
    assert isinstance(found, Peak)
    owners, of, curve = Owners(window.log), WindowBlocks(window), curve_of_page(window)
    level = levels(window, curve, owners)
    bars, counted = largest_blocks(of, owners, contexts=0), moments(window, of, owners)
    named = np.array([of.peak])
    others = other_blocks(of, owners, bars["alloc"], named, stretches_of(level), counted["event"])
    event = marks(window, curve)[0]["event"] if len(window) else window.lo - 1
    assert any(lo <= event < hi for lo, hi in others["known"])
    # Its level is that of the moment, and what is no block's is the rest.
    assert found.peak_bytes == counted["level_bytes"][counted["event"] == event]
    live: Counter[tuple[int, int]] = Counter()
    for one in (bars, others["columns"]):
        at = (one["alloc"] <= event) & (event < one["free"])
        live.update(zip(one["size_bytes"][at].tolist(), one["owner"][at].tolist(), strict=True))
    codes = owners.code_texts(group.owner for group in found.live).tolist()
    expected = zip(found.live, codes, strict=True)
    assert live == Counter({(group.size_bytes, code): group.count for group, code in expected})


@pytest.mark.parametrize("folder", FOLDERS)
def test_of_every_real_log_they_are_those_that_the_analyzer_finds_live_at_its_peak(shared: Path, folder: str) -> None:
    for _, log in real_logs(shared / folder):
        assert_the_page_knows_what_is_live_at_the_peak(log.whole)


def test_a_window_may_begin_with_its_peak() -> None:
    rows = [(Kind.ALLOC, 100, 16), (Kind.ALLOC, 50, 256), (Kind.FREE, 100, 16), (Kind.ALLOC, 20, 16)]
    log = Log.from_rows(rows)
    assert_the_page_knows_what_is_live_at_the_peak(Window(log, "", 2, 4, 0, 0, 1, 1))


def test_what_the_log_frees_and_never_allocated_is_no_blocks() -> None:
    rows = [(Kind.FREE, 30, 8), (Kind.ALLOC, 100, 16), (Kind.ALLOC, 100, 32), (Kind.FREE, 100, 16)]
    assert_the_page_knows_what_is_live_at_the_peak(Log.from_rows(rows).whole)
