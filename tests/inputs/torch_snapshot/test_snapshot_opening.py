"""Of the segments that were there before a trace begins: their streams and their pools."""

from __future__ import annotations

import random

import pytest
from snapshots import entry, read, segment

from memlens.analyzers import get
from memlens.events import Kind
from memlens.log import Log

MIB = 1 << 20
NAMES = {(0, 0): "default pool", (0, 1): "private pool (0, 1)"}


def opening(log: Log) -> dict[int, tuple[int, str | None]]:
    """Stream and pool of each segment from before the trace, by address."""
    found = {}
    for event in range(log.facts.opening):
        if log.kind[event] == Kind.RESERVE:
            assert log.stream is not None
            number = -1 if log.pool is None else int(log.pool[event])
            found[int(log.addr[event])] = int(log.stream[event]), (*log.pool_names, None)[number]
    return found


@pytest.mark.parametrize("named", [True, False])
def test_segments_from_before_a_ring_buffer_have_their_stream_and_pool(named: bool) -> None:
    """Segments of changing streams come and go at ten addresses; only the last entries are kept."""
    for seed in range(40):
        chance = random.Random(seed)
        there: dict[int, tuple[int, tuple[int, int]]] = {}
        states, entries = [dict(there)], []
        for _ in range(60):
            addr = chance.randrange(10) * MIB
            known = there.pop(addr, None)
            stream, pool = known or (chance.choice([0, 7, 9]), chance.choice(list(NAMES)))
            if not known:
                there[addr] = stream, pool
            names = {"pool_id": pool} if named else {}
            entries.append(entry("segment_free" if known else "segment_alloc", addr, MIB, **names) | {"stream": stream})
            states.append(dict(there))
        last = chance.randrange(2, 60)
        segments = [
            segment(addr, MIB, segment_pool_id=pool) | {"stream": stream} for addr, (stream, pool) in there.items()
        ]
        (log,) = read({"segments": segments, "device_traces": [entries[-last:]]})
        expected = states[-1 - last]
        found = opening(log)
        assert found.keys() == expected.keys()
        for at, (of_stream, name) in found.items():
            assert of_stream == expected[at][0]
            is_told = log.pool is not None and (named or name is not None)
            assert name == (NAMES[expected[at][1]] if is_told else None)


def test_parts_of_a_segment_that_are_unmapped_are_of_its_stream() -> None:
    trace = [
        entry("segment_unmap", 4 * MIB, 2 * MIB) | {"stream": 7},
        entry("segment_map", 5 * MIB, MIB) | {"stream": 7},
        entry("segment_unmap", 20 * MIB, MIB) | {"stream": 9},
        entry("segment_map", 20 * MIB, MIB) | {"stream": 3},
    ]
    left = segment(MIB, 3 * MIB) | {"stream": 7}
    segments = [left, segment(5 * MIB, MIB) | {"stream": 7}, segment(20 * MIB, MIB) | {"stream": 3}]
    (log,) = read({"segments": segments, "device_traces": [trace]})
    # [1, 4) stays; [4, 6) is unmapped, of which [5, 6) comes back; [20, 21) goes to another stream.
    assert opening(log) == {MIB: (7, None), 4 * MIB: (7, None), 20 * MIB: (9, None)}
    reserved = [(row.stream, row.reserved_bytes) for row in get("segments")(log.whole).pools if row.moment == 1]
    assert reserved == [(7, 4 * MIB), (3, MIB)]


def test_a_segment_that_is_reserved_later_does_not_cut_one_that_lay_there_before() -> None:
    trace = [entry("segment_free", MIB, 6 * MIB), entry("segment_alloc", 3 * MIB, 2 * MIB)]
    (log,) = read({"segments": [segment(3 * MIB, 2 * MIB)], "device_traces": [trace]})
    assert log.addr.tolist() == [MIB, MIB, 3 * MIB]
    assert log.size.tolist() == [6 * MIB, 6 * MIB, 2 * MIB]


def test_a_block_that_is_freed_has_the_pool_that_its_entry_names() -> None:
    trace = [
        entry("free_requested", 512, 20, pool_id=(0, 1)),
        entry("free_completed", 512, 20, pool_id=(0, 1)),
        entry("segment_free", 0, MIB, pool_id=(0, 1)),
    ]
    (log,) = read({"segments": [], "device_traces": [trace]})
    assert log.pool is not None
    assert log.pool_names == ("private pool (0, 1)",)
    assert log.pool.tolist() == [0] * 4  # the segment and the block from before, and what ends them


@pytest.mark.parametrize(
    ("action", "join"),
    [("segment_map", True), ("segment_unmap", True), ("segment_alloc", False), ("segment_free", False)],
)
def test_segments_that_are_mapped_or_unmapped_are_expandable(action: str, join: bool) -> None:
    held = [] if action in ("segment_unmap", "segment_free") else [segment(MIB, MIB)]
    trace = [entry(action, MIB, MIB), entry("alloc", 9 * MIB, 1)]
    (log,) = read({"segments": held, "device_traces": [trace]})
    assert log.facts.chunks_join is join
