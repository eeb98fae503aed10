"""Snapshots that PyTorch wrote on GPUs: each is replayed to the byte, or it is said why not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from night import some
from snapshots import plain_pickle

import memlens
from memlens.allocators.engine import prove, replay
from memlens.allocators.history import NotReplayable, Operation
from memlens.allocators.models import Values
from memlens.allocators.torch.caching import CACHING

#: Those with a trace, and those that have only what the device held at their end.
TRACED = (
    *("forward_bf16", "forward_fp32", "medium_1024_inference", "medium_256_training", "medium_512_training"),
    *("pre_existing_blocks", "ring_3000", "train_19464", "without_frames"),
)
STATES = ("oom_2023", "segments_only", "state_only_2023", "state_only_2024")


def opening_blocks(snapshot: Any) -> int:
    """How many blocks were there before the trace, walked back address by address."""
    first: dict[int, str] = {}
    for entry in snapshot["device_traces"][0]:
        if entry["action"] in ("alloc", "free_requested", "free_completed"):
            first.setdefault(entry["addr"], entry["action"])
    at_end = {
        block["address"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"].startswith("active")
    }
    return sum(action != "alloc" for action in first.values()) + len(at_end - first.keys())


@pytest.mark.parametrize("name", some(TRACED, 3))
def test_a_snapshot_with_a_trace_is_replayed_to_the_byte(name: str, shared: Path) -> None:
    path = shared / "data/torch/snapshots" / f"{name}.pickle"
    history = CACHING.history(memlens.read(path))
    assert history is not None
    assert not isinstance(history, NotReplayable)
    proof = prove(history, CACHING.rules(history, CACHING.recorded(history)))
    snapshot = plain_pickle(path)
    counts = Counter(entry["action"] for entry in snapshot["device_traces"][0])
    opening = opening_blocks(snapshot)
    assert proof.exact, proof
    assert (proof.chunks.matched, proof.given_back.matched) == (counts["segment_alloc"], counts["segment_free"])
    assert proof.addresses.matched == counts["alloc"] + opening
    assert (history.opening, history.requests) == (opening, counts["alloc"] + opening)
    assert int((history.operation == Operation.FREE).sum()) == counts["free_completed"]
    # What is live at the end has the addresses and the bytes that the segments give it.
    got = replay(history, CACHING.rules(history, CACHING.recorded(history)), trace=True)
    assert got.address is not None
    assert got.block_bytes is not None
    freed = set(history.of.tolist())
    live = [at for at in np.flatnonzero(history.operation == Operation.REQUEST).tolist() if at not in freed]
    assert {(int(got.address[at]), int(got.block_bytes[at])) for at in live} == {
        (block["address"], block["size"])
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }
    assert got.reserved_end == sum(segment["total_size"] for segment in snapshot["segments"])


@pytest.mark.parametrize("name", STATES)
def test_a_snapshot_without_a_trace_says_what_to_record(name: str, shared: Path) -> None:
    found = CACHING.history(memlens.read(shared / "data/torch/snapshots" / f"{name}.pickle"))
    assert isinstance(found, NotReplayable)
    assert "no trace" in found.reason
    assert "_record_memory_history" in found.hint


def test_every_snapshot_there_is_is_looked_at(shared: Path) -> None:
    assert {path.stem for path in (shared / "data/torch/snapshots").glob("*.pickle")} == {*TRACED, *STATES}


@pytest.mark.parametrize("name", some(TRACED, 2))
def test_what_must_hold_of_any_setting(name: str, shared: Path) -> None:
    """Reserved bytes are never below those of blocks, and no block is smaller than what was asked for; where blocks begin is no matter of the setting's own."""
    history = CACHING.history(memlens.read(shared / "data/torch/snapshots" / f"{name}.pickle"))
    assert history is not None
    assert not isinstance(history, NotReplayable)
    own = CACHING.recorded(history)
    tried: list[Values] = [own, *CACHING.candidates(history, own)]
    assert len(tried) > 4
    for values in tried:
        rules = CACHING.rules(history, values)
        requests = history.operation == Operation.REQUEST
        assert (rules.block[requests] >= history.size[requests]).all()
        got = replay(history, rules)
        assert got.reserved_peak >= got.allocated_peak
        assert got.completed
        assert got.reserved_end >= got.allocated_end
