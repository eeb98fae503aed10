"""Kineto traces: the real ones, and what each of them must give."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kineto_judge import assert_as_plain, read_bytes
from night import NIGHT, some
from texts import read_packed

from memlens import text
from memlens.analyzers import get, growth
from memlens.errors import InputError, NoEventsError
from memlens.events import Kind
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import Request
from memlens.inputs.kineto.reader import read_kineto
from memlens.inputs.registry import get_format
from memlens.log import Log
from memlens.windows.anchor_discovery import find_steps

FOLDER = "data/torch/kineto"
CPU_TRACES = (
    *("cnn.json.gz", "cnn_leak.json.gz", "cnn_noschedule.json.gz", "cnn_nostack.json.gz", "oom.json"),
    *("threads_default.json", "transformer.json.gz", "transformer_6l_26steps.json.gz", "window1.json"),
    *("window2.json",),
)
TRACES = (*CPU_TRACES, "gpu_2021_resnet50.json.gz", "gpu_2022_rank1.json.gz")
LARGE = "transformer_6l_26steps.json.gz"


@cache
def read(shared: Path, name: str) -> list[Log]:
    return read_kineto(FileSource(shared / FOLDER / name), Request())


@cache
def memory_events(shared: Path, name: str) -> list[dict[str, Any]]:
    """What ``[memory]`` events say of themselves, in the order of time."""
    events = json.loads(read_packed(shared / FOLDER / name))["traceEvents"]
    return [e["args"] for e in sorted((e for e in events if e["name"] == "[memory]"), key=lambda e: e["ts"])]


def memory(ts: float, size: int, addr: int, **args: object) -> dict[str, object]:
    common = {"Device Type": 0, "Device Id": -1, "Addr": addr, "Bytes": size}
    return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts, "args": {**common, **args}}


def trace(*events: object, **keys: object) -> bytes:
    return json.dumps({"schemaVersion": 1, **keys, "traceEvents": events}).encode()


@pytest.mark.parametrize(
    "name", some([name for name in TRACES if NIGHT or name not in (LARGE, TRACES[-1])], 2)
)  # the large one takes ten seconds
def test_a_real_trace_is_read_as_the_reference_implementation_reads_it(shared: Path, name: str) -> None:
    assert_as_plain(read_packed(shared / FOLDER / name), read(shared, name))


@pytest.mark.parametrize("name", some(TRACES, 3))
def test_no_real_trace_has_an_unmatched_free_or_an_address_taken_twice(shared: Path, name: str) -> None:
    for log in read(shared, name):
        trust = log.trust
        assert (trust.unknown_frees, trust.double_allocs, trust.size_mismatches, trust.malformed) == (0, 0, 0, 0)


@pytest.mark.parametrize("name", [name for name in CPU_TRACES if NIGHT or name != LARGE])
def test_the_running_sum_is_every_events_total(shared: Path, name: str) -> None:
    (log,) = read(shared, name)
    totals = np.array([args["Total Allocated"] for args in memory_events(shared, name)])
    ours = np.concatenate([batch.allocated for batch in log.batches()])[log.facts.opening :]
    # What the second recording of a process counts from the time between the two is the same all along.
    assert np.unique(totals - ours).tolist() == ([2000] if name == "window2.json" else [0])
    assert (log.trust.figures_checked, log.trust.figures_agreeing) == (len(totals), len(totals))


def test_the_26_leaked_tensors_are_found_by_the_analyzers(shared: Path) -> None:
    (log,) = read(shared, LARGE)
    assert (log.trust.allocs, log.trust.frees) == (37_561, 37_310)
    (unmatched,) = get("unmatched").many([log.whole])
    leaked = [group for group in unmatched.held if group.size_bytes == 1_024_000]
    assert sum(group.count for group in leaked) == 26
    grown = growth(log.windows(r"ProfilerStep#(\d+)"))
    pile = next(pile for pile in grown.piling if pile.size_bytes == 1_024_000)
    assert grown.verdict == "growing"
    assert grown.since_window is not None
    assert pile.count == pile.windows == grown.judged - grown.since_window


def test_steps_and_annotations_are_anchors(shared: Path) -> None:
    (log,) = read(shared, LARGE)
    windows = log.windows(r"ProfilerStep#(\d+)")
    assert [window.name for window in windows if window.name != "(before)"] == [str(step) for step in range(26)]
    assert sum(len(window) for window in windows) == len(log)
    window = log.window("ProfilerStep#3", "ProfilerStep#4")
    named = next(one for one in windows if one.name == "3")
    assert (window.lo, window.hi) == (named.lo, named.hi)
    assert len(log.windows("## forward ##")) == 27


def span(category: str, name: str, ts: float, dur: float) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}


def test_annotations_that_count_on_through_a_whole_trace_are_its_steps_whatever_their_words() -> None:
    """An optimizer's own annotations count nothing; tiles are parts of a step, and begin anew in each."""
    events, mark = list[object](), "user_annotation"
    for step in range(6):
        at = 100.0 * step
        events += [memory(at + 2 + k, 512, 4096 + 1024 * (3 * step + k)) for k in range(3)]
        events += [span(mark, f"denoise {step}", at, 90), span(mark, "Optimizer.step#SGD.step", at + 4, 1)]
        events += [span(mark, f"tile {tile}", at + 10 * tile + 1.5, 9) for tile in range(3)]
    (log,) = read_bytes(trace(*events))
    steps = find_steps(log)
    assert steps is not None
    assert (steps.family.by, steps.unit, [one.name for one in steps.windows]) == (
        r"^(denoise \d+)", "step", [f"denoise {step}" for step in range(6)],
    )  # fmt: skip


def test_what_an_optimizer_alone_annotates_cuts_a_trace_into_whole_steps() -> None:
    """The blocks of a step are made before its optimizer clears gradients, and gives one back; forward passes are pieces of their own."""
    events = list[object]()
    for step in range(6):
        at = 100.0 * step + 10
        events += [memory(at + 10 * k, 512, 4096 + 1024 * (3 * step + k)) for k in range(3)]
        events += [memory(at + 85, -512, 4096 + 3072 * step), span("user_annotation", "zero_grad", at + 80, 9)]
        events += [span("user_annotation", "## forward ##", at - 1, 50)]
    (log,) = read_bytes(trace(*events))
    windows = log.windows("zero_grad")
    assert [len(window) for window in windows] == [3, 4, 4, 4, 4, 4, 1]
    assert [window.open_end for window in windows] == [False] * 6 + [True]
    assert [len(window) for window in log.windows("forward")] == [3] * 6


def test_the_line_of_the_user_is_no_line_of_pythons_own_library() -> None:
    frames = ["train.py(7): main", "asyncio/runners.py(118): run", "copy.py(128): deepcopy", "torch/storage.py(253): clone"]  # fmt: skip
    around = [span("python_function", name, k, 20 - 2 * k) for k, name in enumerate(frames)]
    (log,) = read_bytes(trace(*around, memory(10, 512, 4096)))
    assert log.owner_names == ("torch/storage.py(253): clone < train.py(7): main",)
    assert [text.innermost(" < ".join(reversed(frames[:k]))) for k in (2, 3)] == [
        "asyncio/runners.py(118): run < train.py(7): main", "copy.py(128): deepcopy < train.py(7): main",
    ]  # fmt: skip


def test_a_trace_without_addresses_pairs_by_size(shared: Path) -> None:
    cpu, gpu = read(shared, "gpu_2021_resnet50.json.gz")
    assert (cpu.trust.allocs, cpu.trust.frees, gpu.trust.allocs, gpu.trust.frees) == (2310, 2308, 4110, 4110)
    assert "no_addresses" in gpu.facts.hints
    (unmatched,) = get("unmatched").many([gpu.whole])
    assert (unmatched.held_bytes, unmatched.unknown_free_bytes) == (0, 0)
    assert next(mark.text for mark in gpu.marks or () if mark.text.startswith("ProfilerStep")) == "ProfilerStep#5"
    assert any("Call" not in name and "resnet50_profiler_api.py" in name for name in gpu.owner_names)


def test_a_failed_allocation_is_no_event(shared: Path) -> None:
    (log,) = read(shared, "oom.json")
    (oom,) = log.facts.ooms
    asked = next(
        e
        for e in json.loads((shared / FOLDER / "oom.json").read_bytes())["traceEvents"]
        if e["name"] == "[OutOfMemory]"
    )
    assert (oom.device, oom.requested_bytes) == ("CPU", asked["args"]["Bytes"])
    assert (log.kind == Kind.ALLOC).sum() + (log.kind == Kind.FREE).sum() == 6


def test_a_trace_of_all_threads_has_no_memory_events_and_says_what_to_do(shared: Path) -> None:
    with pytest.raises(NoEventsError, match="profile_all_threads"):
        read(shared, "threads_profile_all_threads.json")


def test_memory_events_that_cannot_be_read_are_told_where_there_are_no_others(tmp_path: Path) -> None:
    events = [{"ph": "X", "name": "step"}, {"name": "[memory]", "ph": "i", "ts": 1, "args": {"Bytes": "x", "Addr": 1}}]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    said = "no .memory. event among 2 events of a Kineto trace; 1 of them cannot be read, first event 2"
    with pytest.raises(NoEventsError, match=said):
        read_kineto(FileSource(path), Request())


def test_a_trace_cut_short_gives_what_there_is(shared: Path) -> None:
    text = read_packed(shared / FOLDER / "cnn.json.gz")
    (whole,) = read_bytes(text)
    cut = text[: text.rindex(b'"[memory]"')]
    (log,) = read_bytes(cut)
    assert "ends in the middle" in log.facts.cut_short
    assert log.size.tolist() == whole.size.tolist()[:-1]
    with pytest.raises(InputError, match="ends in the middle"):
        read_kineto(_source(cut), Request(strict=True))


def test_blocks_from_before_the_trace_come_before_its_first_place() -> None:
    mark = {"ph": "X", "cat": "user_annotation", "name": "step", "pid": 1, "tid": 1, "ts": 1, "dur": 5}
    (log,) = read_bytes(trace(mark, memory(2, -100, 16), memory(3, 50, 16), memory(4, -50, 16)))
    assert log.facts.opening == 1
    assert [Kind(kind).name for kind in log.kind] == ["ALLOC", "FREE", "ALLOC", "FREE"]
    (window,) = log.windows("step")
    assert (window.lo, window.hi) == (1, 4)
    assert get("remaining").many([window])[0].carried_in_bytes == 100


def test_two_kinds_of_devices_of_one_number_are_two_logs() -> None:
    text = trace(
        memory(1, 8, 16, **{"Device Type": 1, "Device Id": 0}), memory(2, 9, 16, **{"Device Type": 13, "Device Id": 0})
    )
    assert [(log.device, log.size.tolist()) for log in read_bytes(text)] == [(0, [8]), (13000, [9])]


def test_times_are_since_1970() -> None:
    (log,) = read_bytes(
        trace(memory(1000.9995, 8, 16), memory(2000, -8, 16), baseTimeNanoseconds=1_700_000_000_000_000_500)
    )
    assert log.time_us is not None
    assert log.time_us.tolist() == [1_700_000_000_001_001, 1_700_000_000_002_000]


def test_a_list_of_events_alone_is_a_trace() -> None:
    (log,) = read_bytes(json.dumps([memory(1, 8, 16)]).encode())
    assert len(log) == 1


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"traceEvents": []}',
        b'{"traceEvents": {"a": [1]}}',
        b'{"traceEvents": 1}',
        b"[]",
        b"[" * 1_000_000,
        b'{"a":' * 500_000 + b"1" + b"}" * 500_000,
        b'{"traceEvents": [' + b"[" * 500_000 + b"]" * 500_000 + b"]}",
        b'{"traceEvents": ["[memory]", 1, null, NaN, [{"name": "[memory]"}]]}',
        b'{"traceEvents": [{"name": "[memory]", "ph": "i", "ts": 1, "args": {"Bytes": NaN}}]}',
        b'{"x": "' + b"y" * 3_000_000,
        b"",
        b" \n\n",
        b"]" * 100,
        b"}{",
    ],
    ids=lambda text: text[:24].decode(),
)
def test_what_holds_no_memory_events_is_an_error_with_words(text: bytes) -> None:
    with pytest.raises(InputError) as raised:
        read_bytes(text)
    assert raised.value.hint


@pytest.mark.parametrize(
    "text",
    [
        b'{"traceEvents": [' + b" " * 3_000_000 + b'{"name": "x"}, {"name": "y"}',
        b'{"traceEvents": [{"name": "x"}' + b", " * 1_500_000,
        b'{"traceEvents": [{"x": ' + b"[" * 3_000_000,
        b'{"traceEvents": [{"x": "' + b"\\\\" * 1_500_000,
        b'{"traceEvents": [{"x": [' + b"[]," * 300_000,
        b"{" * 3_000_000,
    ],
    ids=lambda text: text[-8:].decode(),
)
def test_hostile_text_is_refused_in_time(text: bytes) -> None:
    began = time.process_time()
    with pytest.raises(InputError):
        read_bytes(text)
    assert time.process_time() - began < 5  # a generous two on a machine with other work


@pytest.mark.parametrize(
    "args",
    [
        {"Bytes": 10**25},
        {"Bytes": True},
        {"Bytes": "8"},
        {"Bytes": None},
        {"Bytes": 0},
        {"Bytes": 8.5},
        {"Addr": -1},
        {"Addr": 1 << 64},
        {"Device Type": "CPU"},
        {"Device Id": 1 << 40},
        {"Total Allocated": 10**400},
    ],
    ids=str,
)
def test_an_event_that_makes_no_sense_is_counted_and_shown(args: dict[str, object]) -> None:
    (log,) = read_bytes(trace(memory(1, 8, 16), memory(2, 8, 32, **args)))
    assert (len(log), log.facts.malformed) == (1, 1)
    assert log.facts.malformed_samples[0].line == 2
    assert "[memory]" in log.facts.malformed_samples[0].text


def test_an_exponent_beyond_all_bounds_costs_nothing() -> None:
    text = trace(memory(1, 8, 16), memory(2, 9, 32)).replace(b'"Bytes": 9', b'"Bytes": 9e999999999999999999')
    (log,) = read_bytes(text)
    assert log.facts.malformed == 1


def test_sizes_beyond_all_memory_are_an_error() -> None:
    events = [memory(k, 1 << 46, 16 * k) for k in range(1, 70_000)]
    with pytest.raises(InputError, match="4 EiB"):
        read_bytes(trace(*events))


@pytest.mark.parametrize(
    ("head", "like"),
    [
        (b' {\n  "schemaVersion": 1,', True),
        (b'\xef\xbb\xbf{"traceEvents": [', True),
        (b'[{"name": "x", "ph": "X"', True),
        (b"[[1, 2], [3]]", False),
        (b'{"a": 1}', False),
        (b"Alloc 5 bytes", False),
        (b"", False),
    ],
)
def test_a_trace_is_known_by_its_beginning(head: bytes, like: bool) -> None:
    assert bool(get_format("kineto").recognise(head)) is like


@pytest.mark.night
def test_the_large_trace_needs_little_memory(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    path.write_bytes(gzip.decompress((shared / FOLDER / LARGE).read_bytes()))
    script = (
        "import sys; from memlens.inputs.kineto.reader import read_kineto; from memlens.inputs.file_source import FileSource;"
        "from memlens.inputs.input_format import Request;log, = read_kineto(FileSource(sys.argv[1]), Request()); log.trust;"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    found = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, check=True, text=True)
    assert int(found.stdout) < 120 << 10  # KiB; the file has 120 MiB


def _source(text: bytes) -> FileSource:
    return FileSource(io.BytesIO(text))


def test_times_of_a_trace_that_is_cut_short_are_since_1970_too() -> None:
    text = trace(memory(1000, 8, 16), memory(2000, -8, 16), baseTimeNanoseconds=1_700_000_000_000_000_000)
    (log,) = read_bytes(text[:-2])
    assert log.facts.cut_short
    assert log.time_us is not None
    assert log.time_us[0] == 1_700_000_000_001_000
