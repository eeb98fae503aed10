"""The envelope of levels against a plain walk over the events: no peak is lost, whatever the buckets and the batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from logs import window_of
from made_lives import any_events, batches_of, plain_levels

from memlens.analyzers.series.curve import Curve, curve
from memlens.events import Kind
from memlens.facts import Facts, OutOfMemory
from memlens.log import Log
from memlens.windows.windows import Window

Rows = list[tuple[Kind, int, int]]


def check(made: Curve, window: Window, levels: list[tuple[int, int]], buckets: int) -> None:
    assert len(made) == min(buckets, len(window))
    edges = made.edges.tolist()
    if not len(window):
        return
    assert (edges[0], edges[-1]) == (window.lo, window.hi)
    assert max(b - a for a, b in pairwise(edges)) - min(b - a for a, b in pairwise(edges)) <= 1
    for k, (a, b) in enumerate(pairwise(edges)):
        own = levels[a if k == 0 else a + 1 : b + 1]  # levels[e] is the one before event e
        assert made.low_bytes[k] == min(allocated for allocated, _ in own)
        assert made.high_bytes[k] == max(allocated for allocated, _ in own)
        assert made.reserved_bytes[k] == max(reserved for _, reserved in own)
    inside = [allocated for allocated, _ in levels[window.lo : window.hi + 1]]
    peak = inside.index(max(inside))
    assert made.high_bytes.max() == inside[peak]
    assert made.peak_event == (window.lo + peak - 1 if peak else None)


@given(any_events, st.integers(1, 50), st.sampled_from([1, 2, 3, 7, 64]), st.data())
def test_each_bucket_has_the_lowest_and_the_highest_level_of_its_events(
    events: Rows, buckets: int, batch: int, data: st.DataObject
) -> None:
    places = st.integers(0, len(events))
    lo, hi = sorted(data.draw(st.tuples(places, places)))
    window = window_of(Log.from_rows(events), lo, hi)
    with batches_of(batch):
        check(curve(window, buckets=buckets), window, plain_levels(events), buckets)


def test_failures_and_steps_are_marked_by_their_events() -> None:
    events: Rows = [(Kind.ALLOC, 256, address) for address in range(1, 9)]
    # The line of event k begins at byte 10 k; memory ran out behind events 3 and 5, and a message stands before all events.
    ooms = tuple(OutOfMemory(at, at, "GPU 0", size, None, "") for at, size in ((35, 1 << 20), (55, 2 << 20)))
    log = Log.from_rows(events, offset=np.arange(8) * 10, facts=Facts(ooms=ooms, bytes=80, lines=8))
    steps = [Window(log, name, lo, lo + 4, 10 * lo, 10 * lo + 40, lo + 1, lo + 4) for name, lo in (("a", 0), ("b", 4))]
    made = curve(log.whole, steps)
    assert made.failures == (3, 5)
    assert made.steps == ((0, "a"), (4, "b"))
    assert (made.start_line, made.end_line) == (1, 8)
    assert [curve(step).failures for step in steps] == [(3,), (5,)]


def test_opening_blocks_are_the_level_that_the_first_bucket_starts_from() -> None:
    events: Rows = [(Kind.ALLOC, 1000, 1), (Kind.RESERVE, 4000, 1), (Kind.FREE, 1000, 1), (Kind.ALLOC, 10, 2)]
    made = curve(Log.from_rows(events, facts=Facts(opening=2, lines=2)).whole)
    assert made.high_bytes.tolist() == [1000, 10]
    assert made.low_bytes.tolist() == [0, 10]
    assert made.reserved_bytes.tolist() == [4000, 4000]
    assert made.peak_event is None
