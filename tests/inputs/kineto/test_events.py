"""Events of a trace, decoded many at once and one by one, to the same columns; and the innermost interval around a moment."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto_judge import read_bytes
from texts import read_packed

from memlens.events import EventLog
from memlens.inputs.kineto.events import UNKNOWN, Events, SpanKind, _one_in_thousandths, _thousandths
from memlens.inputs.kineto.owners import innermost

MEMORY = '{"ph": "i", "name": "[memory]", "pid": 1, "tid": "2", "ts": 7.25, "args": {"Device Type": 0, "Device Id": -1, "Bytes": 8, "Addr": 16}}'
SPAN = '{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 1700000000000000.123, "dur": 3, "args": {"Call stack": "a"}}'


def alike(one: EventLog, other: EventLog) -> None:
    for column in ("kind", "size", "addr", "offset", "time_us", "thread", "owner"):
        assert np.array_equal(getattr(one, column), getattr(other, column))
    assert (one.marks, one.owner_names, one.facts.ooms) == (other.marks, other.owner_names, other.facts.ooms)
    assert (one.facts.lines, one.facts.malformed, one.facts.opening) == (
        other.facts.lines,
        other.facts.malformed,
        other.facts.opening,
    )


@pytest.mark.parametrize("name", ["cnn.json.gz", "cnn_nostack.json.gz", "oom.json", "window2.json"])
def test_one_by_one_events_of_a_real_trace_are_what_they_are_together(
    shared: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = read_packed(shared / "data/torch/kineto" / name)
    together = read_bytes(text)
    monkeypatch.setattr(Events, "add", lambda self, text: False)
    one_by_one = read_bytes(text)
    assert len(together) == len(one_by_one)
    for log, other in zip(together, one_by_one, strict=True):
        alike(log, other)


def test_usual_events_are_decoded_together() -> None:
    texts = [MEMORY, SPAN, MEMORY.replace("[memory]", "x"), '{"ph": "M", "name": "x", "args": {"labels": [1]}}']
    together, one_by_one = Events(), Events()
    assert together.add(memoryview(", ".join(texts).encode()))
    one_by_one.add_singly((0, text.encode()) for text in texts)
    for found in (together, one_by_one):
        assert found.count == 4
        assert [column.tolist() for column in found.changes[:1] + found.changes[2:6]] == [[7250], [0], [-1], [8], [16]]
        assert found.changes.allocated.tolist() == found.changes.reserved.tolist() == [UNKNOWN]
        (span,) = np.array(found.spans).T.tolist()
        assert span[:2] == [1_700_000_000_000_000_123, 1_700_000_000_000_003_123]
        assert {found.tracks[span[2]], found.tracks[found.changes.track[0]]} == {(1, 2)}
        assert (span[3], found.texts[span[4]], found.texts[span[5]]) == (SpanKind.OP, "aten::add", "a")


@pytest.mark.parametrize(
    ("usual", "odd", "malformed"),
    [
        ('"pid": 1', '"pid": null', 0),
        ('"tid": "2"', '"tid": 2.0', 0),
        ('"ts": 7.25', '"ts": "7.25"', 1),
        ('"ts": 7.25', '"ts": 725e-2', 0),
        ('"ts": 7.25', '"ts": -7.25', 1),
        ('"ts": 7.25', '"ts": 7.2500000000000000000001', 0),
        ('"ts": 7.25', '"ts": 4000000000000001', 1),
        ('"Bytes": 8', '"Bytes": 8.0', 0),
        ('"Bytes": 8', '"Bytes": "8"', 1),
        ('"Bytes": 8', '"Bytes": 0', 1),
        ('"Bytes": 8', '"Bytes": NaN', 1),
        ('"Addr": 16', '"Addr": 18446744073709551600', 0),
        ('"Addr": 16', '"Addr": null', 1),
        ('"Addr": 16', '"Addr": -1', 1),
        ('"args": {', '"args": [], "args": {', 0),
        ('"ph": "i"', '"ph": ["i"]', 0),
        ('"[memory]"', '"[OutOfMemory]"', 0),
        ('"[memory]"', '"[memory]", "x": "\\ud800"', 0),
        ('"[memory]"', '"[memory]", "x": "\n"', 0),
        ('"[memory]"', '"[memory]", "x": NaN', 0),
        ('"[memory]"', '"[memory]", "x": [}', 1),
    ],
)
def test_one_odd_event_sends_all_of_its_block_one_by_one(usual: str, odd: str, malformed: int) -> None:
    """Which costs time and nothing else: the events beside it are read, and it itself is what it says, or malformed."""
    changed = MEMORY.replace(usual, odd)
    assert changed != MEMORY
    assert Events().add(memoryview(f"{MEMORY}, {MEMORY}".encode()))
    together = Events()
    assert not together.add(memoryview(f"{MEMORY}, {changed}, {MEMORY}".encode()))
    assert (together.count, together.has_changes, together.spans.name.tolist()) == (0, False, [])
    (log,) = read_bytes(f'{{"traceEvents": [{MEMORY}, {changed}, {MEMORY}, {MEMORY}]}}'.encode())
    assert log.facts.malformed == malformed
    nothing = '"ph": ["i"]' in odd or "OutOfMemory" in odd
    assert len(log) == 4 - malformed - nothing
    assert len(log.facts.ooms) == ("OutOfMemory" in odd)


numbers = st.one_of(
    st.integers(0, 5 * 10**15).map(str),
    st.integers(0, 10**20).map(str),
    st.tuples(st.integers(0, 5 * 10**15), st.text("0123456789", min_size=1, max_size=8)).map(
        lambda parts: f"{parts[0]}.{parts[1]}"
    ),
    st.sampled_from(
        ["0", "0.0", "-1", "1e3", "4000000000000000", "4000000000000000.001", '"1"', "null", "true", '"1 2"', "[1]"]
    ),
)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_times_are_the_same_many_at_once_and_one_by_one(texts: list[str]) -> None:
    singly = [_one_in_thousandths(json.loads(text, parse_float=Decimal)) for text in texts]
    try:
        found = _thousandths([msgspec.Raw(text.encode()) for text in texts]).tolist()
    except ValueError:
        assert None in singly or any(len(text) > 20 or "e" in text for text in texts)
    else:
        assert found == singly


intervals = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8)), max_size=20)
moments = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 22)), max_size=20)


@given(intervals, moments)
def test_it_is_the_one_that_started_last_and_then_ends_first(
    spans: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    found = innermost(
        np.array([track for track, _, _ in spans], np.int64),
        np.array([start for _, start, _ in spans], np.int64),
        np.array([start + lasts for _, start, lasts in spans], np.int64),
        np.array([track for track, _ in asked], np.int64),
        np.array([moment for _, moment in asked], np.int64),
    )
    for (track, moment), mine in zip(asked, found.tolist(), strict=True):
        around = [
            (start, -lasts, k)
            for k, (of, start, lasts) in enumerate(spans)
            if of == track and start <= moment <= start + lasts
        ]
        assert mine == (max(around)[2] if around else -1)


def test_a_deep_nest_and_many_moments_cost_little() -> None:
    count = 200_000
    start = np.arange(count, dtype=np.int64)
    zeros = np.zeros(count, np.int64)
    found = innermost(zeros, start, 2 * count - start, zeros, np.full(count, 2 * count, np.int64))
    assert (found == 0).all()
