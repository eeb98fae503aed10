"""What memory snapshots are doubted for, and what is said of their beginning."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many
from snapshots import HOLDING, Allocator, read, read_file, replayed, segment, snapshot

from memlens.log import Log
from memlens.text import format_bytes


def note(log: Log, code: str) -> str:
    """The message of a note; nothing where there is no such note."""
    return next((note.message for note in log.trust.notes if note.code == code), "")


def doubt(log: Log, code: str) -> str:
    """The message of a doubt; nothing where there is no such doubt."""
    return next((doubt.message for doubt in log.trust.doubts if doubt.code == code), "")


@settings(max_examples=many(40))
@given(st.integers(0, 2**32), st.integers(2, 200), st.integers(2, 200))
def test_what_was_live_before_the_first_entry_is_said_and_whether_the_peak_was(
    seed: int, steps: int, last: int
) -> None:
    made = snapshot([Allocator(random.Random(seed)).run(steps)], last=last)
    entries = made["device_traces"][0]
    if len(entries) < 2 or not made["segments"]:
        return
    (log,) = read(made)
    levels = [allocated for allocated, _ in replayed(made, 0)]
    said = note(log, "starts_late")
    assert bool(said) == (replayed(made, 0)[0] != (0, 0))
    if said:
        assert said.startswith(format_bytes(levels[0]))
        assert ("and is not known" in said) == (max(levels[1:]) <= levels[0])


def with_sums(made: dict[str, Any]) -> dict[str, Any]:
    """A snapshot whose segments say of themselves what torch says."""
    for one in made["segments"]:
        active = [block for block in one["blocks"] if block["state"] in HOLDING]
        one["allocated_size"] = sum(block["size"] for block in active if block["state"] == HOLDING[0])
        one["active_size"] = sum(block["size"] for block in active)
        one["requested_size"] = sum(block["requested_size"] for block in active)
    return made


@settings(max_examples=many(40))
@given(st.integers(0, 2**32), st.data())
def test_a_segment_is_doubted_exactly_where_its_blocks_do_not_add_up(seed: int, data: st.DataObject) -> None:
    made = with_sums(snapshot([Allocator(random.Random(seed)).run(80, streams=True)]))
    if not made["segments"]:
        return
    (log,) = read(made)
    assert not log.facts.uneven_segments
    assert not doubt(log, "uneven_segments")
    broken = data.draw(st.sampled_from(made["segments"]))
    what = data.draw(st.sampled_from(["allocated_size", "active_size", "requested_size", "total_size"]))
    before, by = broken[what], data.draw(st.sampled_from([-512, 512, 4096]))
    broken[what] = max(before + by, 0)
    if broken[what] == before or (what == "total_size" and by > 0):  # free room that no block tells of is no matter
        return
    (log,) = read(made)
    ((address, named, stated, held),) = [
        (one.address, one.what, one.stated_bytes, one.blocks_bytes) for one in log.facts.uneven_segments
    ]
    assert (address, named, stated, held) == (broken["address"], what, broken[what], before)
    said = doubt(log, "uneven_segments")
    assert f"0x{address:x}" in said
    assert f"{abs(stated - held):,} bytes" in said
    assert not log.trust.ok


def test_blocks_that_lie_over_each_other_or_beyond_their_segment_are_doubted() -> None:
    over = segment(1 << 20, 2048, [(1, "active_allocated"), (2, "active_allocated")])
    over["blocks"][0]["address"], over["blocks"][1]["address"] = 1 << 20, (1 << 20) + 100
    beyond = segment(1 << 21, 1024, [(1, "active_allocated"), (2, "inactive"), (3, "active_allocated")])
    before = segment(1 << 22, 1024, [(1, "active_allocated")])
    before["blocks"][0]["address"] = (1 << 22) - 512
    (log,) = read({"segments": [over, beyond, before], "device_traces": [[]]})
    assert [(one.address, one.what) for one in log.facts.uneven_segments] == [
        (1 << 20, "overlap"),
        (1 << 21, "total_size"),
        (1 << 22, "total_size"),
    ]
    said = doubt(log, "uneven_segments")
    assert (
        "3 segments have blocks that do not add up to it. The one at 0x100000: its blocks overlap by 412 bytes" in said
    )
    (log,) = read({"segments": [beyond], "device_traces": [[]]})
    assert "its blocks reach 512 bytes beyond that" in doubt(log, "uneven_segments")


@pytest.mark.night
def test_no_real_snapshot_has_a_segment_that_does_not_add_up(shared: Path) -> None:
    for path in sorted((shared / "data/torch/snapshots").glob("*.pickle")):
        for log in read_file(path):
            assert not log.facts.uneven_segments, path.name
