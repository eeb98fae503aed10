"""Paddle's memory history: told from PyTorch's snapshots, with operators, annotations, and what is not known of its beginning.

The samples are made after what Paddle's source and its tests say; no file of a real run was seen.
"""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many
from snapshots import Allocator, entry, frame, levels, pickled, read, segment, snapshot, unshared

import memlens
from memlens.errors import AnchorError, NoEventsError
from memlens.facts import Mark
from memlens.inputs.file_source import FileSource
from memlens.inputs.registry import recognise
from memlens.inputs.torch_snapshot.reader import SnapshotSource

SITE = "/env/lib/python3.11/site-packages/paddle"
#: A call of a layer, innermost first.
STACK = [
    frame(f"{SITE}/nn/functional/common.py", 2200, "linear"),
    frame(f"{SITE}/nn/layer/layers.py", 1777, "_dygraph_call_func"),
    frame(f"{SITE}/nn/layer/layers.py", 1835, "__call__"),
    frame("/home/user/model.py", 12, "forward"),
    frame("/home/user/train.py", 30, "<module>"),
]


def made(action: str, addr: int, size: int, name: str = "", frames: Any = (), **more: Any) -> dict[str, Any]:
    """An entry as Paddle writes it."""
    return entry(action, addr, size, time_us=1_790_000_000_000_000, op_name=name, frames=[*frames], **more)


def history(*trace: dict[str, Any], segments: Any = ()) -> dict[str, Any]:
    return {"segments": [*segments], "device_traces": [[*trace]]}


def plain_levels(trace: list[dict[str, Any]]) -> tuple[int, list[int]]:
    """What was live before a trace of which nothing else is known, and after each entry, entry by entry."""
    live: dict[int, int] = {}
    waiting: set[int] = set()
    before, level, found = 0, 0, []
    actions = [(one["action"], one["addr"]) for one in trace]
    # That requests are left out is known where a block is completed without one.
    requests = any(action == "free_requested" for action, _ in actions) or not any(
        action == "free_completed" and ("alloc", addr) in actions[:k] for k, (action, addr) in enumerate(actions)
    )
    for one in trace:
        action, addr, size = one["action"], one["addr"], one["size"]
        if action == "alloc":
            live[addr] = size
            level += size
        elif action == "free_requested" or (action == "free_completed" and addr not in waiting):
            if addr in live:
                level -= live.pop(addr)
            elif action == "free_requested" or not requests:
                before += size
                level -= size
            if action == "free_requested":
                waiting.add(addr)
        elif action == "free_completed":
            waiting.discard(addr)
        found.append(level)
    return before, [before + level for level in found]


@settings(max_examples=many(60))
@given(
    st.integers(0, 2**32),
    st.integers(1, 150),
    st.sampled_from(["free_requested", "segment_alloc", ""]),
    st.none() | st.integers(2, 200),
    st.booleans(),
)
def test_levels_without_segments_are_those_of_a_plain_reading(
    seed: int, steps: int, left_out: str, last: int | None, apart: bool
) -> None:
    allocator = Allocator(random.Random(seed)).run(steps, streams=True)
    of_segments = ("segment_alloc", "segment_free") if left_out == "segment_alloc" else (left_out,)
    allocator.entries = [one for one in allocator.entries if one["action"] not in of_segments]
    value = snapshot([allocator], "paddle", last=last) | {"segments": []}
    trace = value["device_traces"][0]
    if not any(one["action"] in ("alloc", "segment_alloc", "free_requested") for one in trace):
        return
    (log,) = read(unshared(value) if apart else value)
    before, expected = plain_levels(trace)
    found = levels(log)
    assert (log.level_before(log.facts.opening)[0], log.level_before(len(log))[0]) == (before, expected[-1])
    for index, one in enumerate(trace):
        if one["action"] == "alloc":
            assert found[index][0] == expected[index]
    assert not log.facts.figures
    assert log.trust.ok
    said = [note.message for note in log.trust.notes if note.code == "starts_late"]
    assert len(said) == (before > 0 or log.level_before(log.facts.opening)[1] > 0)
    if said and left_out == "segment_alloc":
        assert said[0].startswith("at least ")


def test_it_is_told_from_a_snapshot_of_pytorch_by_what_its_entries_say(tmp_path: Path) -> None:
    allocator = Allocator(random.Random(3)).run(50)
    for form, name, title in (
        ("paddle", "paddle-history", "a Paddle memory history"),
        ("2026", "torch-snapshot", "a PyTorch memory snapshot"),
    ):
        for protocol in (2, 4, 5):
            data = pickled(snapshot([allocator], form), protocol)
            found = recognise(FileSource(io.BytesIO(data)))
            assert (found.format.name, found.format.title, found.certain) == (name, title, True)
        path = tmp_path / name
        path.write_bytes(pickled(snapshot([allocator], form)))
        (log,) = memlens.analyze(path).logs
        assert log.trust.layer == name.replace("-", "_")
    with pytest.raises(memlens.MemlensError, match=r"a Paddle memory history and .* a PyTorch memory snapshot"):
        memlens.diff(tmp_path / "paddle-history", tmp_path / "torch-snapshot")


def test_what_is_told_too_late_for_its_name_is_read_as_paddles_all_the_same() -> None:
    """Segments of more than 64 KiB stand before the first operator."""
    many_segments = [segment(k << 21, 1 << 21) for k in range(1, 10_000)]
    value = history(made("alloc", 0, 256, "matmul"), segments=many_segments)
    assert recognise(FileSource(io.BytesIO(pickled(value)))).format.name == "torch-snapshot"
    (log,) = read(value)
    assert (log.facts.layer, log.owner_names) == ("paddle_history", ("matmul",))


@pytest.mark.parametrize(
    ("name", "frames", "owner", "whole"),
    [
        ("matmul", STACK, "matmul < paddle/nn/functional/common.py:2200 linear < model.py:12 forward < train.py:30 <module>", 6),
        ("matmul_grad", [frame("", 0, "matmul_grad")], "matmul_grad", 1),
        ("matmul_grad", [frame("matmul_grad", 0, "")], "matmul_grad", 1),
        ("matmul_grad", [], "matmul_grad", 1),
        ("", STACK[3:], "model.py:12 forward < train.py:30 <module>", 2),
        ("step", [frame("train.py", 7, "step")], "step < train.py:7 step", 2),
        ("", [], None, 0),
        (7, STACK[3:], "model.py:12 forward < train.py:30 <module>", 2),
    ],
)  # fmt: skip
def test_an_operator_is_said_once_and_first(name: Any, frames: list[Any], owner: str | None, whole: int) -> None:
    first = made("alloc", 512, 256, "relu")
    (log,) = read(history(made("alloc", 0, 256, name, frames), first, made("alloc", 1024, 256, name, frames)))
    assert [log.owner_of(event) for event in range(3)] == [owner, "relu", owner]
    assert isinstance(log.source, SnapshotSource)
    assert len(log.source.stack(0)) == whole
    if name and owner:
        assert log.source.stack(2)[0] == (name if name != 7 else "/home/user/model.py:12 forward")


def steps(count: int, *, leaks: bool) -> list[dict[str, Any]]:
    """Steps that allocate a block of a megabyte each, which is freed or not, after one that stays."""
    trace = [made("alloc", 1 << 40, 1 << 20, "uniform", STACK)]
    for step in range(count):
        trace.append(made("annotation", 0, 0, f"gstep {step} begin"))
        addr = (1 << 40) + (step + 1 << 20)
        trace.append(made("alloc", addr, 1 << 20, "matmul", STACK))
        if not leaks:
            trace += [made(f"free_{what}", addr, 1 << 20) for what in ("requested", "completed")]
        trace.append(made("annotation", 0, 0, f"gstep {step} end"))
    return trace


def test_annotations_are_anchors_and_the_steps_of_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run.pickle"
    path.write_bytes(pickled(history(*steps(12, leaks=True))))
    (log,) = read(history(*steps(2, leaks=True)))
    assert log.marks == (
        *(Mark(1, 2, "gstep 0 begin"), Mark(3, 4, "gstep 0 end")),
        *(Mark(4, 5, "gstep 1 begin"), Mark(6, 7, "gstep 1 end")),
    )
    cut = memlens.read(path).windows(r"^gstep (\d+) begin")
    assert [window.name for window in cut] == ["(before)", *map(str, range(12))]
    answer = str(memlens.analyze(path).answer)
    assert answer.startswith("Memory grows from gstep 0 on: 1.00 MiB a step, 11.00 MiB in all")
    assert "by matmul < model.py:12 forward" in answer
    path.write_bytes(pickled(history(*steps(12, leaks=False))))
    assert "does not grow" in str(memlens.analyze(path).answer)
    with pytest.raises(AnchorError) as error:
        memlens.analyze(path, by=r"gsteps (\d+) begin")
    assert "entry 2: gstep 0 begin" in error.value.hint


def test_words_about_recording_are_paddles() -> None:
    (log,) = read(history(made("alloc", 0, 256, "matmul")))
    with pytest.raises(AnchorError) as anchor:
        log.windows("STEP")
    assert "paddle.device.cuda._annotate_memory_history(text)" in anchor.value.hint
    for value in (history(), history(made("annotation", 0, 0, "alone"))):
        with pytest.raises(NoEventsError) as error:
            read(value)
        assert "paddle.device.cuda._record_memory_history" in error.value.hint
        assert "FLAGS_use_virtual_memory_auto_growth=1" in error.value.hint
    assert "torch" not in error.value.hint
    with pytest.raises(NoEventsError) as error:
        read(history() | {"external_annotations": [], "allocator_settings": {}})
    assert "paddle" not in error.value.hint


def test_a_full_ring_may_have_dropped_what_is_live() -> None:
    """Without segments, what was allocated before the ring's first entry and is not freed in it is in no entry."""
    for count, says in ((1000, True), (1001, False)):
        (log,) = read(history(*(made("alloc", k << 20, 256, "matmul") for k in range(count))))
        said = [note.message for note in log.trust.notes if note.code == "starts_late"]
        assert bool(said) == says
    (log,) = read(history(*(made("alloc", k << 20, 256, "matmul") for k in range(1000))))
    said = [note.message for note in log.trust.notes if note.code == "starts_late"]
    assert said[0].startswith("what was live before the first entry is not known: it seems that only the last 1,000")


def test_reserved_bytes_are_known_where_segments_are() -> None:
    trace = made("alloc", 1 << 21, 512, "matmul")
    held = {"device": 0, "address": 1 << 21, "total_size": 1 << 21, "stream": 0}
    block = {"size": 512, "address": 1 << 21, "state": "active_allocated", "frames": []}
    (with_segments,) = read(history(trace, segments=[{**held, "blocks": [block]}]))
    (without,) = read(history(trace))
    assert with_segments.level_before(len(with_segments)) == (512, 1 << 21)
    assert [note.code for note in with_segments.trust.notes if note.code == "no_reserved"] == []
    assert without.level_before(len(without)) == (512, 0)
    assert [note.code for note in without.trust.notes] == ["no_reserved"]
    assert without.trust.ok


def test_blocks_take_what_they_say_and_no_more() -> None:
    """Blocks of 256 bytes lie side by side; in PyTorch each would take 512."""
    trace = [made("segment_alloc", 1 << 21, 1 << 21), *(made("alloc", (1 << 21) + 256 * k, 256, "x") for k in range(4))]
    (log,) = read(history(*trace))
    assert log.facts.block_granularity == 1
    assert log.facts.kept is not None
    assert not len(log.facts.kept.addr)
    assert log.trust.ok


def test_a_failed_allocation_is_told() -> None:
    (log,) = read(history(made("alloc", 0, 256, "relu", STACK), made("oom", 0, 1 << 30, "matmul", STACK)))
    ((requested, left, owner),) = [(oom.requested_bytes, oom.free_bytes, oom.owner) for oom in log.facts.ooms]
    assert (requested, left) == (1 << 30, None)
    assert owner.startswith("matmul < ")
