"""Out-of-memory failures: every figure and every cause against a model that knows what it did, and against plain walks over real logs."""

from __future__ import annotations

import io
import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from answers import failure_sentence
from failing_runs import KIB, FailedAt, Machine, run_until_full
from hypothesis import given
from hypothesis import strategies as st
from night import NIGHT, some
from snapshots import entry, frame, segment
from snapshots import read as read_snapshot

import memlens
from memlens.analyzers.failures import MemoryFailure, Room, cause_of, failures
from memlens.analyzers.peak import live_before
from memlens.events import Kind
from memlens.facts import Facts, OutOfMemory
from memlens.inputs import Reading
from memlens.log import Log
from memlens.reports.analyze import analysis_blocks
from memlens.windows.patterns import Pattern

A, F, R = Kind.ALLOC, Kind.FREE, Kind.RESERVE
Rows = list[tuple[Kind, int, int]]


def read(text: bytes) -> Log:
    log = memlens.read(io.BytesIO(text))
    assert isinstance(log, Log)
    return log


def only(log: Log) -> MemoryFailure:
    (failure,) = failures(log)
    return failure


def expected_cause(run: FailedAt, message: str) -> str:
    """By what the model did, and by how much of it the message says."""
    if message == "full":
        if 8 * run.others >= run.total and run.asked <= run.total - run.reserved:
            return "another process"  # it would have fitted but for the others
        return "too much" if run.allocated + run.asked > run.total - run.others else "fragmented"
    if run.allocated == run.reserved:
        return "too much"  # the device refused, so it had less left than was asked for
    return "fragmented" if run.allocated + run.asked <= run.reserved else "unknown"


@pytest.mark.parametrize("message", ["full", "size", "none"])
def test_every_figure_and_the_cause_are_those_of_the_model_that_wrote_the_log(message: str) -> None:
    causes: Counter[str] = Counter()
    for seed in range(150 if NIGHT else 60):
        machine, run = run_until_full(seed, message)
        found = only(read(machine.text))
        assert (found.line, found.requested_bytes) == (run.line, run.asked), seed
        assert (found.ended, found.allocs_after) == (True, 0), seed
        assert (found.allocated_bytes, found.reserved_bytes) == (run.allocated, run.reserved), seed
        assert found.owner == "conv2d < net.py:7 forward"
        gaps = found.free_bytes, found.gaps, found.largest_gap_bytes
        assert gaps == (sum(run.gaps), len(run.gaps), max(run.gaps, default=0)), seed
        assert (found.idle_chunks, found.idle_bytes) == (len(run.idle), sum(run.idle)), seed
        said = (run.left, run.total, run.others) if message == "full" else (None, None, None)
        assert (found.device_free_bytes, found.device_total_bytes, found.elsewhere_bytes) == said, seed
        assert found.cause == expected_cause(run, message), seed
        causes[found.cause] += 1
        _check_blocks(found, run)
        # Whatever the message says, what is claimed is so.
        fits = run.allocated + run.asked <= run.total - run.others
        assert found.cause != ("too much" if fits else "fragmented"), seed
        if found.cause == "too much" and message == "full":
            missing = run.asked - sum(run.gaps) - run.left
            assert found.missing_bytes == missing, seed
            assert (found.must_go_blocks, found.must_go_bytes) == _fewest(run.live, missing), seed
        elif found.cause in ("too much", "unknown"):
            assert (found.missing_bytes, found.must_go_blocks, found.must_go_bytes) == (None, None, None), seed
        else:
            left = run.left if message == "full" else 0
            assert found.missing_bytes == run.asked - max([*run.gaps, left]), seed
    assert min(causes.values()) >= 15, causes
    assert len(causes) == 3


def _check_blocks(found: MemoryFailure, run: FailedAt) -> None:
    groups = Counter(size for size, _ in run.live)
    by_total = sorted(((size * count, size, count) for size, count in groups.items()), reverse=True)
    assert sorted(((g.total_bytes, g.size_bytes, g.count) for g in found.live), reverse=True) == by_total
    assert [g.total_bytes for g in found.live] == [total for total, _, _ in by_total]
    ends = [(block.size_bytes, block.line) for block in (found.oldest, found.youngest) if block is not None]
    by_line = sorted(run.live, key=lambda block: block[1])
    assert ends == ([by_line[0], by_line[-1]] if by_line else [])


def _fewest(live: Sequence[tuple[int, int]], missing: int) -> tuple[int | None, int | None]:
    """By trying: of all choices of so many blocks the one that holds most."""
    for count in range(1, len(live) + 1):
        if count <= 3:
            most = max(sum(size for size, _ in chosen) for chosen in itertools.combinations(live, count))
        else:  # too many to try: no choice of so many holds more than the largest
            most = sum(sorted((size for size, _ in live), reverse=True)[:count])
        if most >= missing:
            return count, most
    return None, None


# What is asked for where the message does not say.


def lines(*texts: str | tuple[int, str]) -> bytes:
    """Lines of threads, thread 1 by itself; and plain lines where the thread is 0."""
    rows = [text if isinstance(text, tuple) else (1, text) for text in texts]
    stamp = "I1120 10:40:54.334872 {:5d} auto_growth_best_fit_allocator.cc:270] "
    return "".join((stamp.format(thread) if thread else "") + f"{text}\n" for thread, text in rows).encode()


REFUSED = (0, "OSError: (External)  CustomDevice error, the error code is : 2.  (at custom_device.cc:387)")
BLOCK = ("Allocate 240 bytes, aligned to 256, extra size 0", "Not found and reallocate 256(0x1000), and remaining 0", "Alloc 256 bytes, ptr = 0x1000")  # fmt: skip


def asked(*texts: str | tuple[int, str]) -> tuple[int | None, str]:
    (oom,) = read(lines(*BLOCK, *texts, REFUSED)).facts.ooms
    return oom.unanswered_bytes, oom.owner


def test_who_waits_is_what_a_plain_walk_over_the_lines_says() -> None:
    """Lines of three threads by chance; a thread waits from its request to its block."""
    seen: Counter[int] = Counter()
    for seed in range(200):
        chance = random.Random(seed)
        waiting: dict[int, int] = {}
        rows: list[tuple[int, str]] = []
        for k in range(chance.randrange(12)):
            thread, size = chance.randrange(1, 4), 256 * chance.randrange(1, 9)
            kind = chance.choice(["ask", "give", "free", "say"])
            if kind == "ask":
                rows.append((thread, f"Allocate {size - 5} bytes, aligned to {size}, extra size 0"))
                waiting[thread] = size
            elif kind == "give":
                rows.append((thread, f"Alloc {waiting.pop(thread, size)} bytes, ptr = {0x10000 * (k + 1):#x}"))
            else:
                rows.append((thread, "nothing of note" if kind == "say" else "Free chunk with size 256"))
        assert asked(*rows)[0] == (next(iter(waiting.values())) if len(waiting) == 1 else None), seed
        seen[len(waiting)] += 1
    assert min(seen[count] for count in (0, 1, 2)) > 10


def test_a_traceback_names_the_operator_and_its_callers() -> None:
    trace = (
        (0, "Traceback (most recent call last):"),
        (0, '  File "/opt/train.py", line 78, in forward'),
        (0, "    x = F.relu(x)"),
        (0, '  File "/lib/activation.py", line 740, in relu'),
        (0, "    return _C_ops.relu(x)"),
    )
    request = "Allocate 500 bytes, aligned to 512, extra size 0"
    assert asked("Running AD API: other", request, *trace) == (
        512,
        "relu < activation.py:740 relu < train.py:78 forward",
    )
    # A traceback from before the request is another one's.
    assert asked(*trace, "Running AD API: other", request) == (512, "other")
    # That of C++ has no frames of Python.
    assert asked(
        request, (0, "C++ Traceback (most recent call last):"), (0, "0   relu_ad_func(paddle::Tensor const&)")
    ) == (512, "")


def test_in_a_recorded_program_the_call_that_asked_is_named_and_no_frame_of_the_recorder() -> None:
    trace = (
        (0, "Traceback (most recent call last):"),
        (0, '  File "/opt/train.py", line 26, in main'),
        (0, "    loss.backward()"),
        (0, '  File "/env/site-packages/memlens/recording/inside/program_lines.py", line 121, in call'),
        (0, "    return function(*args)"),
    )
    request = "Allocate 500 bytes, aligned to 512, extra size 0"
    backward = "memlens calls run_backward < train.py:26 main"
    node = "MatmulGradNode(0x564db3bc8080) Preparing"
    after = "memlens calls -"
    assert asked(backward, request, after, *trace) == (512, "run_backward < train.py:26 main")
    assert asked("AddGradNode(0x1) Preparing", backward, node, request, after, *trace) == (
        512,
        "MatmulGradNode < train.py:26 main",
    )
    # Between calls the traceback knows more; another thread's call is not its own.
    assert asked(backward, node, after, request, *trace) == (512, "train.py:26 main")
    assert asked((2, backward), (2, node), request, *trace) == (512, "train.py:26 main")


def test_a_line_of_ones_own_names_who_asked_before_all_others() -> None:
    text = lines(
        "layer encoder.3",
        "Running AD API: relu",
        (2, "layer decoder"),
        "Allocate 5 bytes, aligned to 256, extra size 0",
    )
    text += lines((0, "Traceback (most recent call last):"), (0, "    return _C_ops.relu(x)"), REFUSED)
    log = memlens.read(io.BytesIO(lines(*BLOCK) + text), owners=[Pattern(r"layer (\S+)", regex=True)])
    assert isinstance(log, Log)
    assert [oom.owner for oom in log.facts.ooms] == ["encoder.3"]


# Causes: what must be claimed, and what must not.


def room(**known: int) -> Room:
    return Room(**{name: known.get(name) for name in Room.__struct_fields__})


@pytest.mark.parametrize(
    ("known", "cause", "missing"),
    [
        # Q > F + D
        ({"asked": 100, "reserved": 50, "allocated": 20, "free": 30, "gaps": 1, "largest": 30, "left": 69}, "too much", 1),
        ({"asked": 100, "reserved": 50, "allocated": 20, "free": 30, "gaps": 1, "largest": 30, "left": 70}, "fragmented", 30),
        # Of D nothing is known but that it is less than Q.
        ({"asked": 100, "reserved": 50, "allocated": 50, "free": 0, "gaps": 0, "largest": 0}, "too much", None),
        ({"asked": 100, "reserved": 51, "allocated": 50, "free": 1, "gaps": 1, "largest": 1}, "unknown", None),
        ({"asked": 100, "reserved": 99, "allocated": 0, "free": 99, "gaps": 3, "largest": 50}, "unknown", None),
        # Enough in all, and no gap that is large enough.
        ({"asked": 100, "free": 100, "gaps": 2, "largest": 99}, "fragmented", 1),
        ({"asked": 100, "free": 100, "gaps": 1, "largest": 100}, "unknown", None),
        # D >= Q: a limit that the log does not say.
        ({"asked": 100, "free": 0, "gaps": 0, "largest": 0, "left": 100}, "unknown", None),
        # E = 800 - 10 - 690 = 100 = T / 8
        ({"asked": 100, "reserved": 690, "allocated": 690, "free": 0, "gaps": 0, "largest": 0, "left": 10, "total": 800}, "another process", 90),
        ({"asked": 110, "reserved": 690, "allocated": 690, "free": 0, "gaps": 0, "largest": 0, "left": 10, "total": 800}, "another process", 100),
        # Without the others it would not have fitted either.
        ({"asked": 111, "reserved": 690, "allocated": 690, "free": 0, "gaps": 0, "largest": 0, "left": 10, "total": 800}, "too much", 101),
        # E = 99: what a process needs itself.
        ({"asked": 100, "reserved": 691, "allocated": 691, "free": 0, "gaps": 0, "largest": 0, "left": 10, "total": 800}, "too much", 90),
        # Without chunks: allocated + Q against T alone.
        ({"asked": 100, "allocated": 701, "left": 10, "total": 800}, "too much", 1),
        ({"asked": 100, "allocated": 700, "left": 10, "total": 800}, "unknown", None),
        ({"asked": 100, "allocated": 700}, "unknown", None),
        # Levels of chunks without their addresses.
        ({"asked": 100, "reserved": 900, "allocated": 801, "free": 99, "left": 0}, "too much", 1),
        ({"asked": 100, "reserved": 900, "allocated": 800, "free": 100}, "unknown", None),
        ({"free": 100, "gaps": 2, "largest": 99, "left": 0, "total": 800}, "unknown", None),
    ],
)  # fmt: skip
def test_a_cause_follows_from_arithmetic(known: dict[str, int], cause: str, missing: int | None) -> None:
    judged = cause_of(room(**known))
    assert (judged.cause, judged.missing) == (cause, missing)
    assert judged.explanation


@given(st.fixed_dictionaries({name: st.none() | st.integers(0, 64) for name in Room.__struct_fields__}))
def test_what_is_claimed_holds_whatever_is_not_known(known: dict[str, int | None]) -> None:
    """Each claim is checked by what it means, for each room that could be."""
    here = Room(**known)
    judged = cause_of(here)
    left = here.left or 0
    if judged.cause == "too much":
        assert here.asked is not None
        if here.free is None:
            assert here.asked + (here.allocated or 0) > (here.total or 0) > 0 or here.total == 0
        else:  # whatever the device had left, if it was less than what was asked for
            assert all(
                here.free + more < here.asked for more in ([left] if here.left is not None else range(here.asked))
            )
    elif judged.cause == "fragmented":
        assert here.free is not None and here.asked is not None and here.largest is not None  # noqa: PT018
        assert max(here.largest, left) < here.asked <= here.free + left
        assert judged.missing == here.asked - max(here.largest, left)
    elif judged.cause == "another process":
        assert here.total is not None and here.reserved is not None and here.asked is not None  # noqa: PT018
        others = here.total - left - here.reserved
        assert 8 * others >= here.total
        assert left < here.asked <= left + others
    else:
        assert judged.missing is None


CHUNK: Rows = [(R, 1000, 1000), (A, 400, 1000), (A, 300, 1600)]


def made(rows: Rows, ooms: Sequence[OutOfMemory], **facts: Any) -> Log:
    return Log.from_rows(rows, facts=Facts(lines=9, bytes=99, ooms=tuple(ooms), **facts))


def oom(offset: int, size: int | None, free: int | None = None, **more: Any) -> OutOfMemory:
    return OutOfMemory(offset, offset + 1, "GPU 0", size, free, "oom", **more)


def test_nothing_is_claimed_of_a_log_in_doubt() -> None:
    # 300 bytes are free in gaps of 200 and 100.
    assert only(made(CHUNK, [oom(3, 250)])).cause == "fragmented"
    assert only(made(CHUNK, [oom(3, 350, 0)])).cause == "too much"
    for broken in ([(F, 50, 7000)], [(A, 10, 1000)]):  # a FREE of nothing, an ALLOC where one lives
        rows: Rows = [*CHUNK, *broken]
        for size in (250, 350):
            found = only(made(rows, [oom(4, size, 0)]))
            assert (found.cause, found.missing_bytes) == ("unknown", None)
            assert "doubt" in found.explanation
    assert only(made(CHUNK, [oom(3, 250)], malformed=1)).cause == "unknown"
    # An input that ends too early is sound up to there.
    assert only(made(CHUNK, [oom(3, 250)], cut_short="it ends")).cause == "fragmented"


def test_a_chunk_of_a_later_request_was_not_there_yet() -> None:
    """The run catches the failure, and asks for less: the chunk of that is taken before its block, and was not reserved when more was refused."""
    machine = Machine(64 * KIB)
    machine.alloc(24 * KIB)
    assert machine.alloc(48 * KIB) is None
    failed = machine.fail(48 * KIB, "full")
    machine.alloc(16 * KIB)
    found = only(read(machine.text))
    assert (found.reserved_bytes, found.free_bytes, found.largest_gap_bytes) == (failed.reserved, 0, 0)
    assert (found.cause, found.missing_bytes) == ("too much", 8 * KIB)


def test_nothing_is_said_of_chunks_of_which_lines_are_missing() -> None:
    """More is allocated than chunks hold, so what is reserved is not known, nor what others hold."""
    rows: Rows = [(R, 700, 1000), (A, 400, 1000), (A, 300, 1400), (A, 300, 9000)]
    found = only(made(rows, [oom(4, 250, 10, total_bytes=2000)]))
    assert (found.allocated_bytes, found.reserved_bytes, found.elsewhere_bytes) == (1000, None, None)


def test_what_a_log_leaves_out_is_not_taken_for_nothing() -> None:
    """Where no line tells of chunks, all of the device would be held elsewhere; where none tells of blocks, all would be free."""
    full = {"free": 10, "total_bytes": 1000}
    blocks_alone: Rows = [(A, 400, 1000), (A, 300, 1600)]
    found = only(made(blocks_alone, [oom(2, 301, **full)]))
    assert (found.cause, found.missing_bytes) == ("too much", 1)
    assert (found.reserved_bytes, found.elsewhere_bytes) == (None, None)
    assert only(made(blocks_alone, [oom(2, 300, **full)])).cause == "unknown"
    given_back: Rows = [*blocks_alone, (Kind.RELEASE, 100, 0)]
    assert only(made(given_back, [oom(3, 300, **full)])).cause == "unknown"
    chunks_alone: Rows = [(R, 700, 1000)]
    found = only(made(chunks_alone, [oom(1, 50, **full)]))
    assert (found.cause, found.elsewhere_bytes) == ("another process", 290)
    assert (found.allocated_bytes, found.free_bytes) == (None, None)
    assert only(made([(R, 980, 1000)], [oom(1, 50, **full)])).cause == "unknown"
    # Levels without addresses: 1000 reserved, 700 allocated.
    for size, cause in ((311, "too much"), (310, "unknown")):
        assert only(made(CHUNK, [oom(3, size, 10)], addresses=False)).cause == cause


def test_a_snapshot_has_what_its_entry_says() -> None:
    """Two segments of 20 and 2 MiB, in them blocks of 8, 8 and 1 MiB: 4 MiB and 1 MiB are free."""
    mib = 1 << 20
    stack = [frame("/home/me/net.py", 7, "forward"), frame("/home/me/train.py", 3, "step")]
    taken = [(20 * mib, 20 * mib), (1 << 30, 2 * mib)]
    blocks = [(20 * mib, 8 * mib), (28 * mib, 8 * mib), (1 << 30, mib)]
    segments = [segment(addr, size, frames=[]) for addr, size in taken]
    for asked_for, left, cause, missing in (
        (8 * mib, 3 * mib, "fragmented", 4 * mib),
        (8 * mib + 512, 3 * mib, "too much", 512),
        (4 * mib, 3 * mib, "unknown", None),  # a gap of 4 MiB is there
        (8 * mib, 8 * mib, "unknown", None),  # the device had enough
    ):
        trace = [entry("segment_alloc", *one) for one in taken] + [entry("alloc", *one) for one in blocks]
        trace.append({"action": "oom", "size": asked_for, "stream": 0, "device_free": left, "frames": stack})
        trace += [entry("free_completed", *one) for one in blocks]
        (log,) = read_snapshot({"segments": segments, "device_traces": [trace]})
        found = only(log)
        assert (found.line, found.event, found.device) == (6, 4, "GPU 0")
        assert found.owner == "net.py:7 forward < train.py:3 step"
        assert (found.allocated_bytes, found.reserved_bytes) == (17 * mib, 22 * mib)
        assert (found.free_bytes, found.gaps, found.largest_gap_bytes) == (5 * mib, 2, 4 * mib)
        assert (found.cause, found.missing_bytes, found.device_free_bytes) == (cause, missing, left)
        assert (found.must_go_blocks, found.must_go_bytes) == ((1, 8 * mib) if cause == "too much" else (None, None))


def test_one_failure_of_a_gpu_is_one_however_often_it_is_printed() -> None:
    text = (
        lines(*BLOCK, "Allocate 1073741800 bytes, aligned to 1073741824, extra size 0")
        + b"""Traceback (most recent call last):
  File "train.py", line 9, in <module>
    return _C_ops.matmul(x, y, False, False)
MemoryError:

--------------------------------------
C++ Traceback (most recent call last):
--------------------------------------
0   paddle::pybind::eager_api_matmul(_object*, _object*, _object*)
1   paddle::memory::allocation::CUDAAllocator::AllocateImpl(unsigned long)

----------------------
Error Message Summary:
----------------------
ResourceExhaustedError:

Out of memory error on GPU 0. Cannot allocate 1.000000GB memory on GPU 0, 15.000000GB memory has been allocated and available memory is only 800.000000MB.

Please check whether there is any other process using GPU 0.
1. If yes, please stop them, or start PaddlePaddle on another GPU.
2. If no, please decrease the batch size of your model.
 (at ../paddle/fluid/memory/allocation/cuda_allocator.cc:86)
"""
    )
    found = only(read(text))
    assert (found.requested_bytes, found.device_free_bytes) == (1 << 30, 800 << 20)
    assert found.device_total_bytes == (15 << 30) + (800 << 20)
    assert found.owner == "matmul < train.py:9 <module>"
    # This run holds 256 bytes of the 15 GiB.
    assert (found.cause, found.elsewhere_bytes) == ("another process", (15 << 30) - 256)


def test_nothing_is_free_where_blocks_lie_outside_of_all_chunks() -> None:
    found = only(made([*CHUNK, (A, 50, 9000)], [oom(4, 250)]))
    assert (found.cause, found.free_bytes, found.largest_gap_bytes) == ("unknown", None, 200)


def test_a_run_that_went_on_has_not_ended_in_its_failure() -> None:
    more: Rows = [(A, 1, 1400 + k) for k in range(100)]
    log = made([*CHUNK, *more], [oom(3, 250), oom(103, 250)])
    first, second = failures(log)
    assert (first.ended, first.allocs_after, second.ended, second.allocs_after) == (False, 100, True, 0)
    assert "; the last of 2 failures)" in failure_sentence([first, second])
    assert failure_sentence([first, second]).startswith("Ran out of memory at line 104:")
    assert failure_sentence([first]).startswith("Ran out of memory at line 4, and went on: 250 B were asked for")


# Real logs.


def test_the_real_failure_has_its_request_its_owner_and_its_cause(examples: Path) -> None:
    """What was in use, and what was free between it, is replayed by the judge of claims."""
    found = only(memlens.read(examples / "oom.log.gz"))
    # The last line of the allocator before the traceback is "Allocate 786432 bytes, aligned to 786432"; its last frame calls _C_ops.relu.
    assert found.requested_bytes == 786432
    assert (found.owner or "").startswith("relu < paddle/nn/functional/activation.py:740 relu < train.py:78 forward")
    assert found.largest_gap_bytes is not None
    assert (found.cause, found.missing_bytes) == ("fragmented", 786432 - found.largest_gap_bytes)
    # The framework's own figure at the line before: reserved 6387456, and two chunks of 786432 were taken since.
    assert found.reserved_bytes == 6387456 + 2 * 786432
    assert sum(group.total_bytes for group in found.live) == found.allocated_bytes


def test_snapshots_fail_where_their_traces_say(shared: Path) -> None:
    for name, devices in some(json.loads((shared / "data/torch/expected.json").read_text()).items(), 2):
        path = shared / "data/torch/snapshots" / f"{name.removesuffix('.pickle')}.pickle"
        found = {str(log.device): [f.event for f in failures(log)] for log in Reading(()).read_all(path)}
        assert found == {device: figures["ooms"] for device, figures in devices.items()}, name


def test_a_failure_in_a_trace_has_the_operator_and_the_frame_around_it(shared: Path) -> None:
    path = shared / "data/torch/kineto/oom.json"
    events = json.loads(path.read_text())["traceEvents"]
    (failed,) = [event for event in events if event["name"] == "[OutOfMemory]"]
    around = [
        event
        for event in events
        if event.get("ph") == "X"
        and event["tid"] == failed["tid"]
        and event["ts"] <= failed["ts"] <= event["ts"] + event["dur"]
    ]
    operators = [event["name"] for event in around if event["cat"] == "cpu_op"]
    (found,) = [failure for log in Reading(()).read_all(path) for failure in failures(log)]
    assert (found.owner or "").split(" < ")[0] == operators[-1]
    assert found.requested_bytes == failed["args"]["Bytes"]
    assert found.allocated_bytes == failed["args"]["Total Allocated"]
    assert found.cause == "unknown"  # a trace does not say what the machine has


def test_thousands_of_failures_are_worked_out_one_by_one() -> None:
    chance = random.Random(7)
    rows: Rows = [(R, 1 << 30, 1 << 30), *((A, 256, (1 << 30) + 256 * k) for k in range(30_000))]
    places = sorted(chance.sample(range(1, 30_000), 10_000))
    many = failures(made(rows, [oom(place, 1 << 31) for place in places]))
    assert len(many) == 10_000
    assert many[5000].allocated_bytes == 256 * (places[5000] - 1)
    assert " of 10,000 failures" in failure_sentence(many)


def test_a_screen_looks_into_a_few_of_thousands_of_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = [(R, 1 << 30, 1 << 30), *((A, 256, (1 << 30) + 256 * k) for k in range(3_000))]
    analysis = memlens.analyze(made(rows, [oom(place, 1 << 31) for place in range(1, 3_000)]))
    looked = [0]

    def counted(*given: Any) -> Any:
        looked[0] += 1
        return live_before(*given)

    monkeypatch.setattr("memlens.analyzers.failures.live_before", counted)
    assert analysis_blocks(analysis)
    assert 0 < looked[0] < 10
