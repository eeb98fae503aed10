"""Levels of a log whose events are forgotten are those of its events, however it comes and whatever sets of groups count."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many
from numpy.typing import NDArray

from memlens.analyzers import running
from memlens.analyzers.running import Running
from memlens.facts import Kind
from memlens.inputs.input_format import NewEvents, Selection
from memlens.windows.landmarks import Landmarks

#: Kind, size, group; and whether a line that cuts stands before it, and whether what was read so far is handed over there.
EVENTS = st.lists(
    st.tuples(st.sampled_from(Kind), st.integers(0, 9), st.integers(0, 3), st.booleans(), st.booleans()), max_size=60
)
LINE = 10  # bytes of a line


def plain(events: list[tuple[int, Kind, int]], of: set[int]) -> tuple[int, int | None, list[int], list[int]]:
    """The peak of some events, the first line that reaches it, and the levels after each, of blocks and of chunks."""
    levels, reserved, peak, at = [0], [0], 0, None
    for line, kind, size in events:
        signed = -size if kind in (Kind.FREE, Kind.RELEASE) else size
        levels.append(levels[-1] + (signed if kind <= Kind.FREE else 0))
        reserved.append(reserved[-1] + (signed if kind > Kind.FREE else 0))
        if levels[-1] > peak:
            peak, at = levels[-1], line
    return peak, at, levels, reserved


@given(EVENTS, st.integers(0, 3), st.integers(2, 8))
@settings(max_examples=many(300))
def test_levels_are_those_of_the_events(
    events: list[tuple[Kind, int, int, bool, bool]], other: int, stretches: int
) -> None:
    found, cuts, handed, seen = Running(), [], 0, set[int]()
    old, running.STRETCHES = running.STRETCHES, stretches
    try:
        for k, (_, _, group, cuts_here, hands) in enumerate(events):
            if cuts_here:
                cuts.append(k * LINE)
            seen.add(group)
            if hands or k == len(events) - 1:
                part = events[handed : k + 1]
                new = [cut for cut in cuts if cut >= handed * LINE]
                first = min(seen - {0}, default=0)
                # Each group by itself, and those of no group with the first one, as devices are.
                sets = tuple(dict.fromkeys([*(frozenset({one}) for one in sorted({0} | seen)), frozenset({0, first})]))
                columns: dict[str, NDArray[Any]] = {
                    "kind": np.array([event[0] for event in part], np.int8),
                    "size": np.array([event[1] for event in part], np.int64),
                    "addr": np.zeros(len(part), np.uint64),
                    "offset": np.arange(handed, k + 1) * LINE,
                    "line": np.arange(handed, k + 1) + 1,
                }
                selected = (Selection(None, "", sets[0], sets[0], 0),)
                groups = np.array([event[2] for event in part], np.int8)
                found.add(
                    NewEvents(columns, groups, sets, selected, (k + 1) * LINE, k + 1, (), Landmarks(), 0),
                    np.array(new, np.int64),
                )
                handed = k + 1
                for of in sets:
                    assert_levels(found, events[:handed], cuts, of, sets[other % len(sets)])
    finally:
        running.STRETCHES = old


def assert_levels(
    found: Running,
    events: list[tuple[Kind, int, int, bool, bool]],
    cuts: list[int],
    blocks: frozenset[int],
    chunks: frozenset[int],
) -> None:
    mine = [
        (k + 1, kind, size if group in (blocks if kind <= Kind.FREE else chunks) else 0)
        for k, (kind, size, group, *_) in enumerate(events)
    ]
    peak, at, levels, reserved = plain(mine, set(blocks))
    whole, peak_line = found.whole(blocks, chunks)
    assert (whole["peak_bytes"], peak_line) == (peak, at)
    assert whole["live_bytes"] == levels[-1]
    assert whole["allocs"] == sum(kind == Kind.ALLOC and group in blocks for kind, _, group, *_ in events)
    assert whole["releases"] == sum(kind == Kind.RELEASE and group in chunks for kind, _, group, *_ in events)
    edges = np.array([*cuts, len(events) * LINE], np.int64)
    figures = found.figures(blocks, chunks, edges[:-1], edges[1:])
    spans = list(zip((edges[:-1] // LINE).tolist(), (edges[1:] // LINE).tolist(), strict=True))
    assert figures["peak_bytes"].tolist() == [max(levels[lo : hi + 1]) for lo, hi in spans]
    assert figures["rise_bytes"].tolist() == [max(levels[lo : hi + 1]) - levels[lo] for lo, hi in spans]
    assert figures["reserved_peak_bytes"].tolist() == [max(reserved[lo : hi + 1]) for lo, hi in spans]
    width = found.stretch
    assert len(events) <= width * running.STRETCHES < max(2 * len(events), running.STRETCHES + 1)
    for row, wanted in zip(found.timeline(blocks, chunks), (levels, reserved), strict=True):
        assert row.tolist() == [max(wanted[lo : lo + width + 1]) for lo in range(0, len(events), width)]


def test_what_is_forgotten_leaves_the_levels_that_were_noted() -> None:
    found, sets = Running(), (frozenset({0}),)
    sizes = [5, 7, 11, 13]
    for k, size in enumerate(sizes):
        columns = {
            "kind": np.zeros(1, np.int8),
            "size": np.array([size]),
            "addr": np.zeros(1, np.uint64),
            "offset": np.array([k * LINE]),
            "line": np.array([k + 1]),
        }
        new = NewEvents(columns, None, sets, (), (k + 1) * LINE, k + 1, (), Landmarks(), 0)
        found.add(new, np.array([k * LINE]))
        if k == 2:
            found.forget(np.array([2 * LINE]), np.array([LINE, 2 * LINE]))
    assert found.noted(sets[0]).tolist() == [5, 12]
    figures = found.figures(
        sets[0], sets[0], np.array([0, 2 * LINE, 3 * LINE]), np.array([2 * LINE, 3 * LINE, 4 * LINE])
    )
    assert figures["peak_bytes"].tolist() == [12, 23, 36]
    late = frozenset({1})  # a group that comes late has had no level before
    assert found.noted(late).tolist() == [0, 0]
