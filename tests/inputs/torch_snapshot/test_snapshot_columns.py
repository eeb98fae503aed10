"""What users note in a snapshot, and its memory pools: anchors and columns."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshots import Allocator, entry, frame, read, read_file, segment, snapshot

from memlens.events import EventLog, Kind
from memlens.facts import Mark
from memlens.inputs.torch_snapshot.pickles import load
from memlens.inputs.torch_snapshot.stacks import as_text


def column(log: EventLog, name: str) -> list[str | None]:
    """The names that a column has for the events that have an entry."""
    numbers, names = getattr(log, name), (*getattr(log, f"{name}_names"), None)
    return [names[number] for number in numbers[log.facts.opening :].tolist()]


def noted(notes: list[Any]) -> EventLog:
    trace = [entry("alloc", 512 * k, 10, user_metadata=note) for k, note in enumerate(notes)]
    (log,) = read({"segments": [segment(0, 1 << 20)], "device_traces": [trace]})
    return log


def test_metadata_that_is_a_dict_is_an_anchor_and_a_column() -> None:
    steps = [{"step": k // 4, "phase": ("forward", "backward")[k // 2 % 2]} for k in range(8)]
    log = noted([*steps, {}, None, "", "free text"])
    texts = [f"step={k // 4}, phase={('forward', 'backward')[k // 2 % 2]}" for k in range(8)]
    assert column(log, "user_metadata") == [*texts, None, None, None, "free text"]
    assert log.marks is not None
    assert [mark.text for mark in log.marks if mark.text.startswith("START")] == [
        *(f"START {text}" for text in dict.fromkeys(texts)),
        "START free text",
    ]
    windows = log.windows(r"START step=(\d+), phase=forward")
    assert [(window.name, len(window)) for window in windows if window.name != "(before)"] == [("0", 4), ("1", 8)]
    window = log.window("START step=1, phase=forward", "START free text")
    assert len(window) == 7
    (first,) = [frame for name, frame in log.to_pandas().groupby("user_metadata", observed=True) if name == texts[0]]
    assert len(first) == 2


def test_a_snapshot_without_notes_and_pools_has_no_such_columns() -> None:
    made = snapshot([Allocator(random.Random(1)).run(50)], "newest")
    for one in made["device_traces"][0]:
        one["user_metadata"] = ""
    (log,) = read(made)
    assert log.pool is None
    assert log.user_metadata is None
    assert not {"pool", "user_metadata"} & set(log.to_pandas())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
        lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=300), inner, max_size=40),
        max_leaves=60,
    )
)
def test_whatever_is_noted_becomes_a_short_text(value: Any) -> None:
    assert len(as_text(value)) <= 420  # the room, and what one key and one bracket may go beyond it


def test_notes_that_hold_themselves_or_each_other_are_short_texts() -> None:
    ring: dict[str, Any] = {"a": 1}
    ring["b"] = [ring, {"c": ring}]
    bomb: Any = "x"
    for _ in range(60):
        bomb = [bomb] * 10
    assert as_text(ring).startswith("a=1, b=[{a=1, b=[{a=1")
    assert max(len(as_text(ring)), len(as_text({"bomb": bomb}))) < 420
    assert as_text({"a": "x" * 1000}) == "a=" + "x" * 197 + "…"


def annotated(*entries: dict[str, Any]) -> EventLog:
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
        ({"stage": "START", "name": "forward"}, {"stage": "END", "name": "forward"}),
        (
            {"user_metadata": {"stage": "START", "name": "forward"}},
            {"user_metadata": {"stage": "END", "name": "forward"}},
        ),
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
    assert [(window.name, len(window)) for window in log.windows("START (.*)", end="END forward")] == [
        ("(before)", 1),
        ("forward", 1),
        ("forward #2", 1),
    ]
    assert log.facts.hints == {}
    assert log.trust.ok


def test_a_user_defined_entry_that_says_nothing_is_said_to_be_unplaced() -> None:
    assert annotated({}).facts.hints == {"annotations_not_placed": 1}


POOLS = {"default pool": (0, 0), "private pool (0, 1)": (0, 1), "private pool (3, 0)": (3, 0)}


def test_pools_that_entries_name_are_a_column() -> None:
    names = ["default pool", "private pool (0, 1)", "private pool (0, 1)", "private pool (3, 0)", "default pool"]
    trace = [entry("alloc", 512 * k, 10, pool_id=POOLS[name]) for k, name in enumerate(names)]
    (log,) = read({"segments": [], "device_traces": [trace]})
    assert column(log, "pool") == names
    assert log.to_pandas().groupby("pool", observed=True)["size"].sum().to_dict() == {
        "default pool": 20,
        "private pool (0, 1)": 20,
        "private pool (3, 0)": 10,
    }


def test_pools_follow_from_the_segments_where_entries_name_none() -> None:
    old = segment(0, 1024, [(5, "active_allocated")], segment_pool_id=(0, 1))
    new = segment(1 << 20, 1024, [(6, "active_allocated")], segment_pool_id=(3, 0))
    trace = [
        entry("alloc", 512, 20),  # in the segment that was there before
        entry("segment_alloc", 1 << 20, 1024),
        entry("alloc", 1 << 20, 30),
        entry("free_requested", 1 << 20, 30),
        entry("free_completed", 1 << 20, 30),
        entry("segment_free", 1 << 20, 1024),  # what was here so far was another segment
        entry("segment_alloc", 1 << 20, 1024),
        entry("alloc", 1 << 20, 6),
        entry("alloc", 1 << 21, 40),  # in no segment of the end
        entry("free_requested", 512, 20),
        entry("free_completed", 512, 20),
    ]
    (log,) = read({"segments": [old, new], "device_traces": [trace]})
    first, second = "private pool (0, 1)", "private pool (3, 0)"
    assert log.pool is not None
    assert log.pool_names == (first, second)
    # a segment and a block from before, and then the trace
    assert [log.pool_names[number] for number in log.pool[: log.facts.opening]] == [first, first]
    assert column(log, "pool") == [first, None, None, None, None, second, second, None, first]
    (said,) = [note.message for note in log.trust.notes if note.code == "private_pools"]
    assert said.startswith("2.00 KiB of the 2.00 KiB reserved at the end are of 2 private pools")


@settings(deadline=None, max_examples=20)
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


def test_the_pools_of_a_real_snapshot_hold_what_its_segments_do(shared: Path) -> None:
    path = shared / "data/torch/snapshots/segments_only.pickle"
    (log,) = read_file(path)
    with path.open("rb") as stream:
        segments = load(stream.read)["segments"]
    expected: dict[str, int] = defaultdict(int)
    for one in segments:
        first, second = one["segment_pool_id"]
        expected[f"private pool ({first}, {second})" if first or second else "default pool"] += one["total_size"]
    assert len(expected) == 3
    assert log.pool is not None
    reserved = np.bincount(log.pool[log.kind == Kind.RESERVE], log.size[log.kind == Kind.RESERVE]).astype(int).tolist()
    assert dict(zip(log.pool_names, reserved, strict=True)) == expected
