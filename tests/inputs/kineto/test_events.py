"""Events of a trace, decoded many at once and one by one, to the same columns; and the innermost interval around a moment."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kineto_judge import read_bytes
from texts import read_packed

from memlens.inputs.kineto.events import Events, SpanKind, Spans, _one_in_thousandths, _thousandths
from memlens.inputs.kineto.stacks import CallStacks, Nesting
from memlens.log import Log


def alike(one: Log, other: Log) -> None:
    for column in ("kind", "size", "addr", "offset", "time_us", "thread", "owner"):
        assert np.array_equal(getattr(one, column), getattr(other, column))
    assert (one.marks, one.owner_names, one.facts.ooms) == (other.marks, other.owner_names, other.facts.ooms)
    for name in ("lines", "malformed", "opening"):
        assert getattr(one.facts, name) == getattr(other.facts, name)


@pytest.mark.parametrize("name", ["cnn.json.gz", "cnn_nostack.json.gz", "oom.json", "window2.json"])
def test_one_by_one_events_of_a_real_trace_are_what_they_are_together(
    shared: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = read_packed(shared / "data/torch/kineto" / name)
    together = read_bytes(text)
    real = Events.add
    monkeypatch.setattr(Events, "add", lambda self, text: bytes(text).count(b'"ph"') < 2 and real(self, text))
    one_by_one = read_bytes(text)
    assert len(together) == len(one_by_one)
    for log, other in zip(together, one_by_one, strict=True):
        alike(log, other)


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
    singly = []
    for text in texts:
        with suppress(ValueError, ArithmeticError):
            singly.append(_one_in_thousandths(text.encode()))
    try:
        found = _thousandths([msgspec.Raw(text.encode()) for text in texts]).tolist()
    except (ValueError, ArithmeticError):
        assert len(singly) < len(texts)
    else:
        assert found == singly


intervals = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 8)), max_size=20)
moments = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 22)), max_size=20)


@given(intervals, moments)
def test_it_is_the_one_that_started_last_and_then_ends_first(
    spans: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    rows = ([start, start + lasts, track, 0, 0, 0] for track, start, lasts in spans)
    others = Spans(*np.tile(np.array([*rows], np.int64).reshape(-1, 6).T, 2))
    nesting = Nesting(others, np.arange(2 * len(spans)) >= len(spans))
    found = nesting.innermost(
        np.array([track for track, _ in asked], np.int64), np.array([moment for _, moment in asked], np.int64)
    )
    for (track, moment), mine in zip(asked, found.tolist(), strict=True):
        around = [
            (start, -lasts, k)
            for k, (of, start, lasts) in enumerate(spans)
            if of == track and start <= moment <= start + lasts
        ]
        assert mine == (max(around)[2] + len(spans) if around else -1)

    for k, (track, start, lasts) in enumerate(spans):
        before = [
            (other, -length, j)
            for j, (of, other, length) in enumerate(spans)
            if of == track and (other, -length, j) < (start, -lasts, k) and other + length >= start + lasts
        ]
        assert nesting.around(np.array([len(spans) + k])).tolist() == [max(before)[2] + len(spans) if before else -1]


def test_a_deep_nest_and_many_moments_cost_little() -> None:
    count = 200_000
    start = np.arange(count, dtype=np.int64)
    zeros = np.zeros(count, np.int64)
    spans = Spans(start, 2 * count - start, zeros, zeros + SpanKind.FRAME, zeros, zeros - 1)
    nesting, nothing = (Nesting(spans, spans.kind == kind) for kind in (SpanKind.FRAME, SpanKind.OP))
    assert (nesting.innermost(zeros, np.full(count, 2 * count, np.int64)) == 0).all()
    stacks = CallStacks(spans, ["a.py(1): f"], lambda _: "a.py:1 f", nothing, nesting, zeros[:1] - 1, start[-1:])
    assert stacks.numbers is not None
    assert set(stacks.stack_of(0)) == {"a.py:1 f"}
    assert len(stacks.stack_of(0)) == 512
