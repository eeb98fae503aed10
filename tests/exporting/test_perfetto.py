"""The trace, opened in Perfetto's own trace processor and asked for the figures of the framework; and read by its message definitions."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_source import MemorySource
from night import some
from texts import read_packed
from trace_processor import query

import memlens
from memlens.events import Kind
from memlens.exporting.perfetto import lanes
from memlens.facts import Facts, OutOfMemory
from memlens.log import Log

LEVELS = "select t.name, max(c.value) from counter c join track t on c.track_id = t.id group by 1 order by 1"
BLOCKS = "select count(*), sum(dur = -1) from slice s join track t on s.track_id = t.id where t.name glob 'blocks*'"
PROBLEMS = "select name from stats where severity = 'error' and value > 0"


def exported(log: Any, folder: Path, **options: Any) -> Path:
    path = folder / "run.pftrace"
    memlens.export(log, to="perfetto", output=path, force=True, **options)
    return path


REAL = ["30_sot_cnn_breaks_pir.log", "05_leak_graph_331.log.gz", "331_dygraph_cnn.log"]


@pytest.mark.parametrize("name", some(REAL, 2))
def test_the_highest_value_of_each_counter_is_the_peak_that_the_framework_says(
    shared: Path, tmp_path: Path, name: str
) -> None:
    log = shared / "data" / "paddle" / name
    stats = json.loads(log.with_name(f"{name.partition('.log')[0]}.stats.json").read_text())
    levels, problems = query(exported(log, tmp_path), LEVELS, PROBLEMS)
    assert dict(levels) == {"allocated": stats["allocated_peak"], "reserved": stats["reserved_peak"]}
    assert problems == []


@pytest.mark.changed("exporting")
@pytest.mark.parametrize("name", REAL)
def test_each_lifetime_is_a_slice_and_those_that_are_never_freed_have_no_end(
    shared: Path, tmp_path: Path, name: str
) -> None:
    log = shared / "data" / "paddle" / name
    # Counted in the text: what stands in it between an Alloc and the next one of its address.
    live: Counter[str] = Counter()
    blocks = 0
    for line in read_packed(log).decode(errors="replace").splitlines():
        for word, step in (("] Alloc ", 1), ("] Free ", -1)):
            if word in line and " bytes, ptr = " in line:
                live[line.rpartition("ptr = ")[2].split()[0]] += step
                blocks += step > 0
    (counted,) = query(exported(log, tmp_path), BLOCKS)
    assert counted == [(blocks, sum(live.values()))]


@pytest.mark.changed("exporting")
@pytest.mark.parametrize("name", some(["medium_512_training.pickle", "train_19464.pickle", "segments_only.pickle"], 2))
def test_a_snapshot_has_the_peak_that_was_worked_out_for_it(shared: Path, tmp_path: Path, name: str) -> None:
    folder = shared / "data" / "torch"
    (expected,) = json.loads((folder / "expected.json").read_text())[name].values()
    (levels,) = query(exported(folder / "snapshots" / name, tmp_path), LEVELS)
    assert dict(levels) == {"allocated": expected["peak_allocated"], "reserved": expected["peak_reserved"]}


MADE = (
    (Kind.RESERVE, 4096, 0x1000),
    (Kind.ALLOC, 1024, 0x1000),
    (Kind.ALLOC, 512, 0x1400),
    (Kind.FREE, 1024, 0x1000),
    (Kind.ALLOC, 2048, 0x1000),
    (Kind.ALLOC, 100, 0x1000),  # the address is still live
    (Kind.FREE, 100, 0x1000),
    (Kind.FREE, 77, 0x9999),  # nothing was allocated there
)


def made(**columns: Any) -> Log:
    columns.setdefault("source", MemorySource(name="made.log"))
    return Log.from_rows(MADE, **columns)


@pytest.mark.changed("exporting")
def test_a_log_without_times_has_event_numbers_for_its_axis_and_says_so(tmp_path: Path) -> None:
    found = memlens.export(made(), to="perfetto", output=tmp_path / "run.pftrace")
    assert found.rows == 4
    assert found.remarks == ("the time axis is event numbers, 1 µs an event, for no event in it has a time",)
    slices, levels, tracks = query(
        tmp_path / "run.pftrace",
        "select s.ts, s.dur, s.name from slice s join track t on s.track_id = t.id where t.name glob 'blocks*' order by 1",
        "select c.ts, c.value from counter c join track t on c.track_id = t.id where t.name = 'allocated' order by c.id",
        "select distinct name from track where name glob '*time axis*'",
    )
    assert slices == [(1000, 2000, "1.00 KiB"), (2000, -1, "512 B"), (4000, -1, "2.00 KiB"), (5000, 1000, "100 B")]
    assert [time for time, _ in levels] == [1000 * event for event in range(8)]
    assert [level for _, level in levels] == [0, 1024, 1536, 512, 2560, 2660, 2560, 2483]
    assert tracks == [("memlens: made.log (time axis: event numbers, 1 µs an event, for no event in it has a time)",)]


@pytest.mark.changed("exporting")
def test_arguments_name_the_owner_and_what_else_is_known_and_hostile_names_stay_names(tmp_path: Path) -> None:
    nasty = "matmul\x1b[31m</script>\u202e'; drop table slice; --"
    log = made(
        owner=np.array([-1, 0, -1, 0, 0, -1, -1, -1], np.int32),
        owner_names=(nasty,),
        thread=np.array([7, 7, -1, 7, 8, 8, 8, 8]),
        requested=np.array([-1, 1000, 500, -1, -1, 100, -1, -1]),
    )
    sql = "select s.name, a.key, coalesce(a.string_value, a.int_value) from slice s join args a using (arg_set_id) where {} order by 2"
    first, second = query(exported(log, tmp_path), sql.format("s.ts = 1000"), sql.format("s.ts = 2000"))
    shown = r"matmul\x1b[31m</script>\u202e'; drop table slice; --"
    assert first == [
        (f"1.00 KiB {shown}", f"debug.{key}", value)
        for key, value in (
            ("fate", "temporary"),
            ("owner", shown),
            ("requested_bytes", 1000),
            ("size_bytes", 1024),
            ("thread", 7),
        )
    ]
    assert [row[1:] for row in second] == [
        ("debug.fate", "held"),
        ("debug.requested_bytes", 500),
        ("debug.size_bytes", 512),
    ]


def test_the_peak_failures_and_steps_are_there(shared: Path, tmp_path: Path) -> None:
    log = shared / "data" / "paddle" / "05_oom_331.log"
    analyzed = memlens.analyze(log)
    moments, windows = query(
        exported(log, tmp_path),
        "select s.name from slice s join track t on s.track_id = t.id where t.name = 'peak and failures' order by ts",
        "select s.name from slice s join track t on s.track_id = t.id where t.name = 'windows' order by ts, s.id",
    )
    assert len(moments) == 1 + analyzed.logs[0].trust.distinct_ooms
    assert moments[-1][0].startswith("out of memory")
    assert any(name.startswith("peak: ") for (name,) in moments)
    steps = analyzed.logs[0].steps
    assert [name for (name,) in windows] == ([] if steps is None else [window.name for window in steps.windows])


def test_a_failure_stands_where_the_levels_are_those_that_it_met(examples: Path, tmp_path: Path) -> None:
    """It is in the windows that its line is in, and in no others."""
    log = examples / "oom.log.gz"
    lines = read_packed(log).decode(errors="replace").splitlines()
    failed = next(number for number, line in enumerate(lines) if "the error code is : 2" in line)
    blocks = [re.search(r"\] (Alloc|Free) (\d+) bytes, ptr", line) for line in lines[:failed]]
    live = sum(int(one[2]) * (1 if one[1] == "Alloc" else -1) for one in blocks if one)
    at = "(select max(s.ts) from slice s join track t on s.track_id = t.id where s.name glob 'out of memory*')"
    level = "select value from counter c join track t on c.track_id = t.id where t.name = 'allocated' and ts <= {} order by ts desc limit 1"
    assert query(exported(log, tmp_path), level.format(at)) == [[(live,)]]

    following = next(line for line in lines[failed:] if "] Free " in line)
    (after,) = query(exported(log, tmp_path, start_regex=f"^{re.escape(following)}"), f"select {at}")
    assert after == [(None,)]


@pytest.mark.changed("exporting")
def test_a_window_begins_with_what_was_carried_into_it(tmp_path: Path) -> None:
    text = "".join(
        f"STEP {step}\nI0712 10:00:0{step}.00000{k} 7 auto_growth_best_fit_allocator.cc:1] {line}\n"
        for step, lines in enumerate(
            (["Alloc 512 bytes, ptr = 0x10"], ["Alloc 256 bytes, ptr = 0x20", "Free 512 bytes, ptr = 0x10"])
        )
        for k, line in enumerate(lines)
    )
    (tmp_path / "run.log").write_text(text)
    path = exported(tmp_path / "run.log", tmp_path, start="STEP 1", nth=1)
    levels, slices, windows = query(
        path,
        "select value from counter order by id",
        "select ts, dur, s.name from slice s join track t on s.track_id = t.id where t.name glob 'blocks*' order by 1, 3",
        "select ts, s.name from slice s join track t on s.track_id = t.id where t.name = 'windows'",
    )
    assert [value for (value,) in levels] == [512, 768, 256]
    assert slices == [(0, -1, "256 B"), (0, 1000, "512 B")]
    assert windows == [(0, "STEP 1")]


def test_every_packet_is_what_the_published_messages_say(tmp_path: Path) -> None:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    oom = OutOfMemory(6, 7, "GPU 0", 1 << 20, None, "Out of memory")
    log = made(facts=Facts(bytes=100, ooms=(oom,)), stream=np.arange(8), time_us=np.arange(8) * 10**15)
    packed = messages.Trace.FromString(exported(log, tmp_path).read_bytes()).packet
    plain = b"".join(zlib.decompress(packet.compressed_packets) for packet in packed)
    trace = messages.Trace.FromString(plain)
    assert {packet.trusted_packet_sequence_id for packet in trace.packet} == {1}
    # Nothing that the definitions do not know, and no byte more than the library writes.
    trace.DiscardUnknownFields()
    assert len(trace.SerializeToString()) == len(plain)
    counted = Counter(packet.track_event.type for packet in trace.packet if packet.HasField("track_event"))
    assert counted[messages.TrackEvent.TYPE_SLICE_BEGIN] == 4
    assert counted[messages.TrackEvent.TYPE_SLICE_END] == 2
    assert counted[messages.TrackEvent.TYPE_COUNTER] == len(log) + 2
    assert counted[messages.TrackEvent.TYPE_INSTANT] == 2


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 99)), max_size=60))
def test_lanes_are_as_many_as_blocks_are_live_at_once_and_no_two_share_one(moves: list[tuple[bool, int, int]]) -> None:
    alloc: list[int] = []
    free: list[int] = []
    group: list[int] = []
    most = Counter[int]()
    for event, (grows, of, which) in enumerate(moves):
        live = [k for k in range(len(alloc)) if free[k] < 0]
        if grows or not live:
            alloc.append(event)
            free.append(-1)
            group.append(of)
        else:
            free[live[which % len(live)]] = event
        for number in range(3):
            now = sum(free[k] < 0 and group[k] == number for k in range(len(alloc)))
            most[number] = max(most[number], now)
    lane = lanes(np.array(alloc, np.int64), np.array(free, np.int64), np.array(group, np.int64)).tolist()
    for number in range(3):
        assert len({lane[k] for k in range(len(alloc)) if group[k] == number}) == most[number]
    for k, one in enumerate(lane):
        for other in range(k):
            if (lane[other], group[other]) == (one, group[k]):
                assert 0 <= free[other] < alloc[k]
