"""What users note in a snapshot, and its memory pools: anchors and columns."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many
from snapshots import Allocator, entry, frame, read, segment, snapshot

from memlens.facts import Mark
from memlens.inputs.torch_snapshot.stacks import as_text
from memlens.log import Log


def column(log: Log, name: str) -> list[str | None]:
    """The names that a column has for the events that have an entry."""
    numbers, names = getattr(log, name), (*getattr(log, f"{name}_names"), None)
    return [names[number] for number in numbers[log.facts.opening :].tolist()]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
        lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=300), inner, max_size=40),
        max_leaves=60,
    )
)
def test_whatever_is_noted_becomes_a_short_text(value: Any) -> None:
    assert len(as_text(value)) <= 200


def test_notes_that_hold_themselves_or_each_other_are_short_texts() -> None:
    ring: dict[str, Any] = {"a": 1}
    ring["b"] = [ring, {"c": ring}]
    bomb: Any = "x"
    for _ in range(60):
        bomb = [bomb] * 10
    assert as_text(ring).startswith("a=1, b=[{'a': 1, 'b': [")
    assert max(len(as_text(ring)), len(as_text({"bomb": bomb}))) <= 200
    assert as_text({"step": 3, "phase": "forward"}) == "step=3, phase=forward"


def annotated(*entries: dict[str, Any]) -> Log:
    """A snapshot of blocks with an entry of another kind before each but the first."""
    trace = [entry("alloc", 0, 10)]
    for k, one in enumerate(entries):
        trace += [{"action": "user_defined", **one}, entry("alloc", 512 * (k + 1), 10)]
    blocks = [(10, "active_allocated")] * (len(entries) + 1)
    (log,) = read({"segments": [segment(0, 1 << 20, blocks)], "device_traces": [trace]})
    return log


@pytest.mark.parametrize(
    ("start", "end"),
    [
        # as torch wrote them in 2024: the name as the file, the stage as the function of the only frame
        ({"frames": [frame("forward", 0, "START")]}, {"frames": [frame("forward", 0, "END")]}),
        ({"user_metadata": "START forward"}, {"user_metadata": "END forward"}),
    ],
)
def test_user_defined_entries_are_anchors(start: dict[str, Any], end: dict[str, Any]) -> None:
    common = {"addr": 0, "size": 0, "stream": 0, "time_us": 7}
    log = annotated({**common, **start}, end, start, {**common, **end})
    assert log.marks == (
        Mark(1, 2, "START forward"),
        Mark(3, 4, "END forward"),
        Mark(5, 6, "START forward"),
        Mark(7, 8, "END forward"),
    )
    assert log.offset.tolist()[log.facts.opening :] == [0, 2, 4, 6, 8]
    windows = {window.name: len(window) for window in log.windows("START (.*)", end="END forward")}
    assert windows == {"(before)": 1, "forward": 1, "forward #2": 1}
    assert log.facts.hints == {}
    assert log.trust.ok


POOLS = {"default pool": (0, 0), "private pool (0, 1)": (0, 1), "private pool (3, 0)": (3, 0)}


@settings(max_examples=many(20))
@given(st.integers(0, 2**32))
def test_pools_by_segments_are_those_that_entries_name(seed: int) -> None:
    chance = random.Random(seed)
    made = snapshot([Allocator(chance).run(200)])
    pools = {one["address"]: chance.choice([(0, 0), (0, 1), (2, 0)]) for one in made["segments"]}
    for one in made["segments"]:
        one["segment_pool_id"] = pools[one["address"]]
    (log,) = read(made)
    if all(pool == (0, 0) for pool in pools.values()):
        assert log.pool is None
        return
    current: dict[int, bool] = {}  # whether the segment at an address is the one of the end
    expected: list[str | None] = []
    last = {e["addr"]: k for k, e in enumerate(made["device_traces"][0]) if e["action"] == "segment_alloc"}
    for k, e in enumerate(made["device_traces"][0]):
        home = next((one for one in made["segments"] if 0 <= e["addr"] - one["address"] < one["total_size"]), None)
        if e["action"] == "segment_alloc":
            current[e["addr"]] = last[e["addr"]] == k
        if k in log.offset:
            known = home is not None and current.get(home["address"], False)
            names = {pool: name for name, pool in {**POOLS, "private pool (2, 0)": (2, 0)}.items()}
            expected.append(names[pools[home["address"]]] if home is not None and known else None)
    assert column(log, "pool") == expected


def test_a_user_defined_entry_that_says_nothing_is_said_to_be_unplaced() -> None:
    assert annotated({}).facts.hints == {"annotations_not_placed": 1}
