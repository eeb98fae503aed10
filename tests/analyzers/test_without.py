"""What the peak of a log is without some of its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memlens.analyzers.fates import peak_without
from memlens.events import EventLog
from memlens.facts import Kind
from memlens.source import Source

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject


@given(st.data())
def test_the_peak_without_blocks_is_that_of_the_log_that_lacks_them(data: DataObject) -> None:
    rows: list[tuple[Kind, int, int]] = []
    live: list[tuple[int, int]] = []
    for number in range(data.draw(st.integers(0, 40))):
        gives_back = data.draw(st.booleans())
        if live and gives_back:
            size, addr = live.pop(data.draw(st.integers(0, len(live) - 1)))
            rows.append((Kind.FREE, size, addr))
        else:
            size = data.draw(st.integers(1, 9))
            live.append((size, number + 1))
            rows.append((Kind.ALLOC, size, number + 1))
    log = EventLog.from_rows(rows, source=Source("<made>"))
    gone = data.draw(st.sets(st.sampled_from([addr for kind, _, addr in rows if kind == Kind.ALLOC] or [0])))
    partner = log.lifetimes.partner
    alloc = np.array([k for k, (kind, _, addr) in enumerate(rows) if kind == Kind.ALLOC and addr in gone], np.int64)
    end = np.where(partner[alloc] >= 0, partner[alloc], len(log)).astype(np.int64)
    lo, hi = sorted(data.draw(st.integers(0, len(rows))) for _ in range(2))
    level, top = 0, 0
    for k, (kind, size, addr) in enumerate(rows[:hi]):
        level += 0 if addr in gone else size if kind == Kind.ALLOC else -size
        top = max(top, level * (k >= lo))
    assert peak_without(log, alloc, end, log.size[alloc], lo, hi) == top
