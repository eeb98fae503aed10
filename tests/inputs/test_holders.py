"""Who holds blocks, as a program of PyTorch noted it in a snapshot or in a trace."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from kineto_judge import read_bytes
from snapshots import entry, frame, read, segment

from memlens.claims.roles import GRAPH, OF_BACKWARD, TEMPORARY, UNSEEN
from memlens.log import Log

START = 1_700_000_000_000_000
A, B = 1 << 40, (1 << 40) + 4096
NAMES = ["variable feats[*] (main, train.py)", "parameter net.w (train.py)", "-"]

#: Two blocks; the first is given back, and its address taken again.
EVENTS = [(10, A, 512), (20, B, 1024), (30, A, -512), (40, A, 256)]


def noted(*walks: tuple[int, list[tuple[int, int]]], **other: Any) -> dict[str, Any]:
    """What a program notes: of each walk its time, and addresses with the numbers of names."""
    rows = [row for _, those in walks for row in those]
    columns = {"time_us": [START + time for time, _ in walks], "rows": [len(those) for _, those in walks]}
    return {
        "holders": {"names": NAMES, **columns, "address": [a for a, _ in rows], "name": [n for _, n in rows], **other}
    }


def of_snapshot(notes: Any, *, timed: bool = True) -> Log:
    trace = []
    for time, addr, size in EVENTS:
        more = {"time_us": START + time} if timed else {}
        actions = ("alloc",) if size > 0 else ("free_requested", "free_completed")
        trace += [entry(action, addr, abs(size), **more) for action in actions]
    sizes = (256, "active_allocated"), (3840, "inactive"), (1024, "active_allocated"), (3072, "inactive")
    blocks = [{"size": size, "requested_size": size, "state": state, "frames": []} for size, state in sizes]
    reserved = {**segment(A, 8192), "blocks": blocks}
    (log,) = read({"segments": [reserved], "device_traces": [trace], "memlens": notes})
    return log


def of_trace(notes: Any) -> Log:
    events = [
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": {"Device Type": 0, "Device Id": -1, "Bytes": size, "Addr": addr}}
        for time, addr, size in EVENTS
    ]  # fmt: skip
    text = base64.b64encode(json.dumps(notes).encode()).decode()
    (log,) = read_bytes(
        json.dumps({"memlens": text, "baseTimeNanoseconds": START * 1000, "traceEvents": events}).encode()
    )
    return log


def holders(log: Log) -> list[str | None]:
    """Who holds the block of each event that is no chunk."""
    if log.holder is None:
        return []
    return [None if n < 0 else log.holder_names[n] for n in log.holder[log.kind < 2].tolist()]


@pytest.mark.parametrize("read_log", [of_snapshot, of_trace])
def test_a_holder_is_that_of_the_block_that_was_live_when_it_was_seen(read_log: Any) -> None:
    feats, weight, _ = NAMES
    assert holders(read_log(noted((25, [(A, 0), (B, 1)])))) == [feats, weight, feats, None]
    assert holders(read_log(noted((35, [(A, 0)])))) == [None, None, None, None]  # nothing is live there
    assert holders(read_log(noted((15, [(A, 0)]), (45, [(A, 1)])))) == [feats, None, feats, weight]


@pytest.mark.parametrize("read_log", [of_snapshot, of_trace])
def test_what_a_later_walk_that_saw_all_does_not_find_is_held_by_no_variable(read_log: Any) -> None:
    feats, weight, _ = NAMES
    first = (22, [(A, 1), (B, 0), (0, 2)])
    assert holders(read_log(noted(first, (25, [(0, 2)])))) == [weight, "no variable", weight, None]
    assert holders(read_log(noted(first, (25, [])))) == [weight, feats, weight, None]


@pytest.mark.parametrize("read_log", [of_snapshot, of_trace])
def test_a_walk_before_the_first_event_says_nothing_of_blocks_that_were_there(read_log: Any) -> None:
    assert set(holders(read_log(noted((5, [(A, 0), (B, 1)]))))) == {None}


def test_where_entries_have_no_times_the_walk_of_the_snapshot_itself_counts() -> None:
    log = of_snapshot(noted((25, [(A, 0), (B, 1)]), (50, [(A, 1)])), timed=False)
    assert holders(log) == [None, None, None, NAMES[1]]


@pytest.mark.parametrize("read_log", [of_snapshot, of_trace])
@pytest.mark.parametrize(
    "notes",
    [
        None,
        7,
        [],
        {},
        {"holders": None},
        {"holders": {}},
        noted((25, [(A, 0)]), names="x"),
        noted((25, [(A, 0)]), names=[1]),
        noted((25, [(A, 3)])),
        noted((25, [(A, -1)])),
        noted((25, [(1 << 64, 0)])),
        noted((25, [(A, 0)]), rows=[2]),
        noted((25, [(A, 0)]), rows=[1 << 62]),
        noted((25, [(A, 0)]), time_us=[]),
        noted((25, [(A, 0)]), address=[True]),
        noted((25, [(A, 0)]), address=[A, A]),
        noted((25, []), (20, [])),
    ],
)
def test_notes_that_cannot_be_read_are_none(read_log: Any, notes: Any) -> None:
    assert read_log(notes).holder is None


def test_a_note_that_is_no_text_of_base_64_is_none() -> None:
    for text in ('"?"', '"eA=="', '"W10="', "7"):
        (log,) = read_bytes(
            b'{"memlens": %b, "traceEvents": [{"ph": "i", "name": "[memory]", "ts": 1, "args": {"Device Type": 0,'
            b' "Device Id": -1, "Bytes": 8, "Addr": 8}}]}' % text.encode()
        )
        assert log.holder is None


FORWARD = [frame("/home/u/model.py", 5, "forward"), frame("/home/u/train.py", 9, "main")]
PROGRAM = [frame("/home/u/train.py", 12, "main")]
_FUNCTION = "/usr/lib/python3.12/site-packages/torch/autograd/function.py"
COMPILED = [frame("/tmp/torchinductor_u/ab/c.py", 3, "call"), frame(_FUNCTION, 317, "apply")]
#: Six blocks: their address and size, when they are made and given back, and what runs then: a call, the program, a backward pass.
LIVES = {
    "in a call": (4096, (11, FORWARD), (13, FORWARD)),
    "saved": (8192, (12, FORWARD), (32, [])),
    "saved, for a compiled function": (12288, (14, FORWARD), (36, COMPILED)),
    "of the program": (16384, (15, FORWARD), (25, PROGRAM)),
    "of the pass": (20480, (31, []), (33, [])),
    "kept": (24576, (16, FORWARD), None),
}
EXPECTED = {
    "in a call": TEMPORARY,
    "saved": GRAPH,
    "saved, for a compiled function": GRAPH,
    "of the program": UNSEEN,
    "of the pass": OF_BACKWARD,
    "kept": None,
}


def lives() -> list[tuple[int, int, bool, Any]]:
    """The time, the address, and whether it is an ALLOC of each event, with the stack; in order."""
    ends = [
        (end, addr, end is made) for addr, made, freed in LIVES.values() for end in (made, freed) if end is not None
    ]
    return sorted(((time, addr, first, stack) for (time, stack), addr, first in ends), key=lambda one: one[0])


def lives_of_snapshot() -> Log:
    trace = [
        entry(action, addr, 512, time_us=START + time, frames=stack)
        for time, addr, first, stack in lives()
        for action in (("alloc",) if first else ("free_requested", "free_completed"))
    ]
    blocks = [{"size": 512, "requested_size": 512, "state": "active_allocated", "frames": []}]
    kept = LIVES["kept"][0]
    blocks = [{"size": kept - 4096, "requested_size": 0, "state": "inactive", "frames": []}, *blocks]
    whole = {**segment(4096, kept + 512 - 4096), "blocks": blocks}
    (log,) = read({"segments": [whole], "device_traces": [trace], "memlens": noted((50, []))})
    return log


def lives_of_trace() -> Log:
    spans = [
        ("aten::linear", 10, 10),
        ("aten::empty", 11, 1),
        (f"{_ENGINE}: LinearBackward0", 30, 10),
        ("aten::mm", 31, 1),
    ]
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": time, "dur": lasts}
        for name, time, lasts in spans
    ]
    for time, addr, first, _ in lives():
        args = {"Device Type": 0, "Device Id": -1, "Bytes": 512 if first else -512, "Addr": addr}
        events.append({"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": time, "args": args})
    text = base64.b64encode(json.dumps(noted((50, []))).encode()).decode()
    whole = {"memlens": text, "baseTimeNanoseconds": START * 1000, "traceEvents": events}
    (log,) = read_bytes(json.dumps(whole).encode())
    return log


_ENGINE = "autograd::engine::evaluate_function"


@pytest.mark.parametrize("read_log", [lives_of_snapshot, lives_of_trace])
def test_of_what_no_walk_saw_its_life_tells_who_held_it(read_log: Any) -> None:
    log = read_log()
    found = {addr: log.holder_of(event) for event, addr in enumerate(log.addr.tolist()) if log.kind[event] < 2}
    assert {name: found[addr] for name, (addr, _, _) in LIVES.items()} == EXPECTED
