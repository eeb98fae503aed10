"""Kineto traces made up: whatever is valid JSON is read as the reference implementation reads it, and what is damaged ends in words."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kineto_judge import assert_as_plain, read_bytes
from night import many, some
from texts import mutate, read_packed

from memlens.errors import MemlensError, NoEventsError
from memlens.events import Kind
from memlens.inputs.kineto import reader
from memlens.log import Log

pytestmark = pytest.mark.changed("inputs")

ROUNDS = 24

texts = st.one_of(
    st.sampled_from(
        [
            *("aten::add", "a.py(1): f", "torch/nn/x.py(2): g", "lib\\site-packages\\y.py(3): h"),
            *('q"uo{te}[s]', "ProfilerStep#3", "back\\", "\\u0041", "nn.Module: X(1): a"),
            *("<frozen importlib>(4): z", "/tmp/torchinductor_me/ab/cab.py(7): call"),
            *("<eval_with_key>.3(4): forward", "[memory]", "Bytes", "ts", "args"),
            *("autograd::engine::evaluate_function: AddBackward0", "AddBackward0", "torch/optim/sgd.py(5): step"),
        ]
    ),
    st.text(max_size=12),
)
odd_values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from(["Bytes", "ts", "name", "x"]), st.integers(0, 9), max_size=2),
)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 19).flatmap(lambda roll: odd_values if roll == 0 else usual)


moments = st.one_of(st.integers(0, 30), st.floats(0, 30).map(lambda t: round(t, 3)), st.just(1_700_000_000_000_000))
threads = st.sampled_from([1, 2, "1", -3, "worker"])
sizes = st.sampled_from([8, 16, 16, 24, 1 << 40])


@st.composite
def events(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["memory", "memory", "memory", "span", "span", "oom", "other"]))
    if kind == "other":
        return draw(odd_values)
    event: dict[str, Any] = {"pid": draw(mostly(threads)), "tid": draw(mostly(threads)), "ts": draw(mostly(moments))}
    if kind == "span":
        event |= {
            "ph": "X",
            "cat": draw(mostly(st.sampled_from(["cpu_op", "Operator", "python_function", "user_annotation"]))),
        }
        event |= {"name": draw(mostly(texts)), "dur": draw(mostly(moments))}
        if draw(st.booleans()):
            event["args"] = draw(
                mostly(
                    st.fixed_dictionaries(
                        {
                            "Call stack": mostly(
                                st.sampled_from(
                                    ["", "a.py(1): f;torch/b.py(2): g", "<eval_with_key>.3(4): h;a.py(1): f"]
                                )
                            )
                        }
                    )
                )
            )
        return shuffled(draw, event)
    size = draw(sizes) * draw(st.sampled_from([1, -1]))
    args = {
        "Device Type": draw(mostly(st.sampled_from([0, 1]))),
        "Device Id": draw(mostly(st.just(0))),
        "Bytes": draw(mostly(st.just(size))),
        "Addr": draw(mostly(st.sampled_from([16, 32, 48, (1 << 64) - 8]))),
        "Total Allocated": draw(mostly(st.integers(0, 100))),
        "Total Reserved": draw(mostly(st.sampled_from([0, 64, 128]))),
        "finished": False,
    }
    for key in draw(st.lists(st.sampled_from(sorted(args)), max_size=2)):
        args.pop(key, None)
    event |= {
        "ph": draw(mostly(st.sampled_from(["i", "I"]))),
        "name": "[memory]" if kind == "memory" else "[OutOfMemory]",
    }
    event["args"] = draw(mostly(st.just(shuffled(draw, args))))
    return shuffled(draw, event)


def shuffled(draw: st.DrawFn, pairs: dict[str, Any]) -> dict[str, Any]:
    return dict(draw(st.permutations(list(pairs.items()))))


@st.composite
def traces(draw: st.DrawFn) -> bytes:
    listed = draw(st.lists(events(), max_size=12))
    if draw(st.integers(0, 3)) == 0:  # a trace of 2021: no address anywhere
        for event in listed:
            if isinstance(event, dict) and isinstance(event.get("args"), dict):
                event["args"].pop("Addr", None)
    whole: Any = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "x": [1]}],
        "traceEvents": listed,
        "traceName": "x",
    }
    whole["baseTimeNanoseconds"] = draw(mostly(st.integers(0, 10**18)))
    whole = shuffled(draw, whole)
    if draw(st.booleans()):
        whole = listed
    style: dict[str, Any] = draw(
        st.sampled_from(
            [{}, {"indent": 2}, {"separators": (",", ":")}, {"indent": "\t", "separators": (" , ", "  :\n  ")}]
        )
    )
    return json.dumps(whole, ensure_ascii=draw(st.booleans()), **style).encode("utf-8", "surrogatepass")


@settings(max_examples=many(200))
@given(text=traces())
def test_a_made_trace_is_read_as_the_reference_implementation_reads_it(text: bytes) -> None:
    try:
        logs = read_bytes(text)
    except NoEventsError:
        logs = []
    assert_as_plain(text, logs)


@settings(max_examples=many(60))
@given(text=traces(), block=st.sampled_from([7, 64, 300]))
def test_it_does_not_matter_where_blocks_end(text: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "BLOCK_BYTES", block)
        try:
            logs = read_bytes(text)
        except NoEventsError:
            logs = []
    assert_as_plain(text, logs)


@settings(max_examples=many(100))
@given(text=traces(), share=st.floats(0, 1))
def test_a_made_trace_cut_anywhere_gives_its_beginning_or_words(text: bytes, share: float) -> None:
    try:
        for log in read_bytes(text[: int(len(text) * share)]):
            check(log)
    except MemlensError as error:
        assert error.message


def check(log: Log) -> None:
    trust = log.trust
    assert (trust.allocs, trust.frees) == tuple(int((log.kind == kind).sum()) for kind in (Kind.ALLOC, Kind.FREE))
    assert trust.cut_short == log.facts.cut_short
    assert (log.size >= 0).all()
    assert len(log.whole) == len(log) - log.facts.opening
    whole = sum(len(window) for window in log.windows(".")) if log.marks else len(log.whole)
    assert whole == len(log.whole) or (whole < len(log.whole) and any(mark.end for mark in log.marks or ()))


@pytest.mark.parametrize("name", some(["gpu_2022_rank1.json.gz", "cnn.json.gz", "oom.json"], 2))
def test_a_damaged_real_trace_gives_sound_logs_or_words(
    shared: Path, rounds: Callable[[int], range], name: str
) -> None:
    text = read_packed(shared / "data/torch/kineto" / name)
    if len(text) > 1 << 21:  # the beginning, and some of its [memory] events
        at = text.index(b"[memory]")
        text = text[: 1 << 19] + b"}]}, " + text[text.rindex(b"{", 0, at) : at + (1 << 19)]
    chance = random.Random(name)
    for _ in rounds(ROUNDS):
        damaged = mutate(text[: chance.randrange(1, len(text))] if chance.random() < 0.5 else text, chance)
        try:
            for log in read_bytes(damaged):
                check(log)
        except MemlensError as error:
            assert error.message


def test_an_object_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "LONGEST_EVENT", 1 << 16)
    monkeypatch.setattr(reader, "BLOCK_BYTES", 1 << 12)
    event = {
        "ph": "i",
        "name": "[memory]",
        "ts": 1,
        "args": {"Device Type": 0, "Device Id": -1, "Bytes": 8, "Addr": 16},
    }
    text = b'{"traceEvents": [' + json.dumps(event).encode() + b', {"name": "' + b"x" * (1 << 20)
    (log,) = read_bytes(text)
    assert "longer than" in log.facts.cut_short
