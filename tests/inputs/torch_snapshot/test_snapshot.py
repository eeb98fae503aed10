"""Memory snapshots of every year become events with exact levels, owners and marks."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from night import many
from snapshots import FORMS, Allocator, check_levels, entry, frame, levels, read, rows, segment, snapshot

from memlens.analyzers import get
from memlens.errors import InputError


@settings(max_examples=many(60))
@given(
    st.integers(0, 2**32),
    st.integers(0, 150),
    st.sampled_from(FORMS),
    st.integers(2, 5),
    st.none() | st.just(0) | st.integers(2, 200),  # a trace of one entry is no history, whatever it says
    st.booleans(),
)
def test_levels_are_exact_in_every_era_and_after_every_cut(
    seed: int, steps: int, era: str, protocol: int, last: int | None, streams: bool
) -> None:
    made = snapshot([Allocator(random.Random(seed)).run(steps, streams=streams)], era, last=last)
    if not made["segments"] and not any(made["device_traces"]):
        return
    (log,) = read(made, protocol)
    check_levels(log, made)
    trust = log.trust
    assert not trust.unknown_frees
    assert not trust.double_allocs
    assert not trust.malformed
    assert trust.ok or not len(log)


@settings(max_examples=many(30))
@given(st.integers(0, 2**32), st.integers(1, 60))
def test_each_device_has_a_log_of_its_own_though_addresses_coincide(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    allocators = [Allocator(chance, device=device).run(steps) for device in (0, 2, 3)]
    made = snapshot(allocators, last=40)
    assume(any(a.entries for a in allocators))
    logs = read(made)
    assert [log.device for log in logs] == [a.device for a in allocators if a.entries or a.segments]
    for log in logs:
        check_levels(log, made)


@given(st.integers(0, 2**32))
@settings(max_examples=many(20))
def test_levels_are_those_that_the_allocator_had(seed: int) -> None:
    allocator = Allocator(random.Random(seed)).run(120)
    (log,) = read(snapshot([allocator]))
    for index, level in levels(log).items():
        if index >= 0:
            assert level == (allocator.allocated[index], allocator.reserved[index])
    peak = get("peak")(log.whole)
    assert peak.peak_bytes == max(allocator.allocated)
    assert peak.reserved_peak_bytes == max(allocator.reserved)


def test_what_was_there_before_the_trace_begins_stands_at_its_front() -> None:
    trace = [entry("free_requested", 512, 100), entry("free_completed", 512, 100), entry("alloc", 512, 300)]
    held = [(7, "active_allocated"), (300, "active_allocated")]
    (log,) = read({"segments": [segment(0, 2048, held)], "device_traces": [trace]})
    assert rows(log) == [
        ("RESERVE", 2048, 0, -1),
        ("ALLOC", 7, 0, -1),
        ("ALLOC", 100, 512, -1),
        ("FREE", 100, 512, 1),
        ("ALLOC", 300, 512, 2),
    ]
    assert log.facts.opening == 3
    assert log.line is not None
    assert log.line.tolist() == [0, 0, 0, 2, 3]
    assert (log.whole.lo, log.facts.bytes, log.facts.lines) == (3, 3, 3)
    remaining = get("remaining")(log.whole)
    assert (remaining.carried_in_bytes, remaining.remaining_bytes, remaining.live_bytes) == (107, 200, 307)


def test_a_free_stands_at_its_request_where_the_block_waits_for_a_stream() -> None:
    trace = [
        entry("alloc", 512, 100),
        entry("free_requested", 512, 100),
        entry("alloc", 1024, 5),
        entry("free_completed", 512, 100),
        entry("free_requested", 1024, 5),
    ]
    made = {"segments": [segment(0, 2048, [(9, "inactive"), (8, "inactive"), (5, "active_pending_free")])]}
    (log,) = read({**made, "device_traces": [trace]})
    assert [row for row in rows(log) if row[3] >= 0] == [
        ("ALLOC", 100, 512, 0),
        ("FREE", 100, 512, 1),
        ("ALLOC", 5, 1024, 2),
        ("FREE", 5, 1024, 4),
    ]
    assert log.facts.hints["deferred_frees"] == 2
    assert log.trust.ok


def test_a_completion_whose_request_was_cut_off_is_of_a_block_that_was_given_back() -> None:
    (log,) = read({"segments": [segment(0, 1024)], "device_traces": [[entry("free_completed", 512, 100)]]})
    assert rows(log) == [("RESERVE", 1024, 0, -1)]


def test_two_segments_side_by_side_stay_two() -> None:
    (log,) = read({"segments": [segment(1024, 1024), segment(2048, 512)], "device_traces": [[]]})
    assert rows(log) == [("RESERVE", 1024, 1024, -1), ("RESERVE", 512, 2048, -1)]
    assert log.facts.hints == {"no_trace": 1}


def test_blocks_that_were_there_have_the_owner_that_the_segments_tell() -> None:
    here = [frame("a.py", 1, "f")]
    new = segment(0, 1024, [(5, "active_allocated")])
    new["blocks"][0]["frames"] = here
    old = segment(4096, 512, [(6, "active_allocated")])
    del old["blocks"][0]["frames"]
    old["blocks"][0]["history"] = [{"addr": 4096, "real_size": 6, "frames": here}, {"frames": [frame("b.py", 2, "g")]}]
    (log,) = read({"segments": [new, old], "device_traces": []})
    assert [log.owner_of(event) for event in range(len(log))] == [None, None, "a.py:1 f", "a.py:1 f"]


def test_what_cannot_be_read_is_counted_and_shown() -> None:
    trace = [
        7,
        {"action": 5},
        {"action": "alloc", "size": 5},
        {"action": "alloc", "addr": -1, "size": 5},
        {"action": "alloc", "addr": 0, "size": 1 << 48},
        {"action": "alloc", "addr": 0, "size": "5"},
        {"action": "alloc", "addr": 1 << 64, "size": 5},
        {"action": "something new", "addr": 0, "size": 5},
        entry("alloc", 0, 1),
    ]
    broken: list[Any] = [3, {"device": -1}, {"device": 0, "address": 5}, segment(0, 512, [(1, "inactive")])]
    broken[-1]["blocks"] += [
        7,
        {"size": -1},
        {"state": 5, "size": 4},
        {"state": "active_allocated", "requested_size": -4},
    ]
    (log,) = read({"segments": broken, "device_traces": [trace]})
    assert log.facts.malformed == 7 + 7
    assert [(sample.line, sample.text) for sample in log.facts.malformed_samples[:2]] == [
        (1, "entry 0: no action, or no address or size that can be"),
        (2, "entry 1: no action, or no address or size that can be"),
    ]
    assert log.facts.hints["unknown_actions"] == 8
    assert rows(log)[-1] == ("ALLOC", 1, 0, 8)


def test_a_trace_that_does_not_fit_its_segments_is_doubted() -> None:
    trace = [entry("alloc", 0, 100), entry("alloc", 0, 100), entry("free_requested", 0, 100)]
    (log,) = read({"segments": [segment(0, 512, [(70, "active_allocated")])], "device_traces": [trace]})
    assert {doubt.code for doubt in log.trust.doubts} >= {"double_allocs", "figures_disagree"}


def test_a_trace_that_holds_what_its_segments_lack_is_doubted() -> None:
    trace = [entry("segment_alloc", 0, 1 << 20), entry("alloc", 0, 100)]
    (log,) = read({"segments": [segment(0, 1 << 20, [(1 << 20, "inactive")])], "device_traces": [trace]})
    assert {doubt.code for doubt in log.trust.doubts} == {"figures_disagree"}


def test_a_bare_list_of_segments_is_a_snapshot() -> None:
    (log,) = read([segment(0, 512, [(9, "active_allocated")])])
    assert rows(log) == [("RESERVE", 512, 0, -1), ("ALLOC", 9, 0, -1)]


def test_the_profilers_converter_is_read() -> None:
    made = {
        "segments": [
            {
                "device": 1,
                "address": 4096,
                "total_size": 96,
                "stream": 0,
                "blocks": [
                    {"size": 64, "state": "inactive"},
                    {"size": 32, "state": "active_allocated", "requested_size": 32, "frames": []},
                ],
            }
        ],
        "device_traces": [
            [],
            [{"action": "alloc", "addr": 4160, "size": 32, "stream": 0, "frames": [], "category": "gradient"}],
        ],
    }
    (log,) = read(made)
    assert log.device == 1
    assert rows(log) == [("RESERVE", 96, 4096, -1), ("ALLOC", 32, 4160, 0)]


def test_a_source_without_lines_says_so() -> None:
    (log,) = read(snapshot([Allocator(random.Random(1)).run(30)]))
    source = log.source
    assert not source.rereadable
    assert source.line_numbers([-1, 0, 3, 10_000]) == [None, 1, 4, None]
    assert source.lines([0]) == [None]
    assert source.parts([(0, 5)]) == [b""]
    with pytest.raises(InputError):
        source.blocks()
