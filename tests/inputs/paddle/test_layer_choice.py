"""Which layer of a log is believed, what the others add to it, and that layers of one log tell the same."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from in_threads import in_small_blocks
from paddle import read
from texts import read_packed

from memlens.errors import NoEventsError, UsageError
from memlens.events import EventLog, Kind
from memlens.inputs import blocks
from memlens.inputs.paddle.layers import Layer, choose

#: One log, several layers; in the first three frees are never put off and no thread comes between the lines of one free.
SAME_ORDER = ("10_v10_dygraph_331.log.gz", "10_v10_ast_pt_30.log.gz", "20_big_v10_dygraph_331.part.log.zst")

GLOG = "I1120 10:22:32.856307 {:5d} a.cc:1] "


def log_of(tmp_path: Path, *lines: str, **options: str) -> EventLog:
    path = tmp_path / "run.log"
    path.write_text("".join(line + "\n" for line in lines))
    return read(path, **options)


def by(thread: int, text: str) -> str:
    return GLOG.format(thread) + text


def _read_in_small_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)


def rows(log: EventLog) -> list[tuple[str, int, int]]:
    return [
        (Kind(kind).name, size, addr)
        for kind, size, addr in zip(log.kind.tolist(), log.size.tolist(), log.addr.tolist(), strict=True)
    ]


def blocks_of(log: EventLog) -> EventLog:
    mine = log.kind <= Kind.FREE
    return EventLog(log.kind[mine], log.size[mine], log.addr[mine], log.offset[mine])


def lives(log: EventLog) -> dict[int, list[tuple[int, bool]]]:
    """For each address the blocks that lay there, one after the other: bytes, and whether each was freed."""
    found = defaultdict(list)
    for event in np.flatnonzero(log.kind == Kind.ALLOC).tolist():
        found[int(log.addr[event])].append((int(log.size[event]), bool(log.lifetimes.partner[event] >= 0)))
    return found


@pytest.mark.parametrize("name", SAME_ORDER)
def test_the_layers_of_one_log_tell_the_same_blocks_in_the_same_order(shared: Path, name: str) -> None:
    path = shared / "data/paddle" / name
    auto = read(path)
    safe, stats = read(path, layer="stream_safe"), read(path, layer="stats")
    assert [log.facts.layer for log in (auto, safe, stats)] == ["auto_growth", "stream_safe", "stats"]
    one, two, three = blocks_of(auto), blocks_of(safe), blocks_of(stats)
    for column in ("kind", "size", "addr"):
        assert np.array_equal(getattr(one, column), getattr(two, column))
    assert np.array_equal(one.lifetimes.partner, two.lifetimes.partner)
    for known in ("requested", "stream"):
        assert np.array_equal(getattr(auto, known), getattr(safe, known))
        assert (getattr(auto, known)[auto.kind == Kind.ALLOC] >= 0).all()
    # Statistics name no block: the curve is the same, chunks too, and nothing pairs.
    assert np.array_equal(one.kind, three.kind)
    assert np.array_equal(one.size, three.size)
    assert not three.addr.any()
    assert (stats.lifetimes.partner < 0).all()
    assert not len(stats.lifetimes.double_allocs)
    for kind in (Kind.RESERVE, Kind.RELEASE):
        assert np.array_equal(auto.size[auto.kind == kind], stats.size[stats.kind == kind])


def test_where_a_free_waits_the_stream_safe_layer_tells_it_earlier_but_the_same_blocks(shared: Path) -> None:
    path = shared / "data/paddle/10_v10_ast_pir_262.log.gz"
    auto, safe = read(path), read(path, layer="stream_safe")
    assert lives(auto) == lives(safe)
    assert not np.array_equal(blocks_of(auto).addr, blocks_of(safe).addr)
    # Each block is freed no later, and so the peak is no higher.
    frees = [log.offset[log.lifetimes.partner[log.kind == Kind.ALLOC]] for log in (auto, safe)]
    assert (frees[1] <= frees[0]).all()
    peak = [int(np.cumsum(np.where(b.kind == Kind.ALLOC, b.size, -b.size)).max()) for b in map(blocks_of, (auto, safe))]
    assert peak[1] < peak[0]


@pytest.mark.parametrize(
    ("name", "layer", "chunks"),
    [
        ("06_naive_best_fit_customdev.log", "naive_best_fit", ""),
        ("08_cpu_stats_331.log", "host_stats", "host_stats"),
        ("10_v8_dygraph_331.log.gz", "stream_safe", "auto_growth"),
        ("10_v10_dygraph_331.log.gz", "auto_growth", "auto_growth"),
        ("09_loader_workers_331.log.gz", "auto_growth", "auto_growth"),
    ],
)
def test_the_layer_of_a_real_log_gives_the_peaks_that_the_framework_printed(
    shared: Path, name: str, layer: str, chunks: str
) -> None:
    log = read(shared / "data/paddle" / name)
    stats = json.loads((shared / "data/paddle" / name.replace(".gz", "").replace(".log", ".stats.json")).read_text())
    assert (log.facts.layer, log.facts.chunk_layer) == (layer, chunks)
    signed = np.where(log.kind & 1, -log.size, log.size)
    block = log.kind <= Kind.FREE
    if block.any():
        assert int(np.cumsum(signed[block]).max()) == stats["allocated_peak"]
    if chunks:
        assert int(np.cumsum(signed[~block]).max()) == stats["reserved_peak"]
    assert log.trust.first_disagreement is None


def test_what_a_layer_cannot_tell_is_told(shared: Path) -> None:
    curve = read(shared / "data/paddle/08_cpu_stats_331.log").trust
    assert [doubt.code for doubt in curve.doubts] == ["no_lifetimes"]
    assert [note.code for note in curve.notes] == ["host_memory"]
    naive = read(shared / "data/paddle/06_naive_best_fit_customdev.log").trust
    assert [doubt.code for doubt in naive.doubts] == ["no_chunk_lines"]
    assert [note.code for note in naive.notes] == ["sizes_from_allocs"]
    safe = read(shared / "data/paddle/10_v8_dygraph_331.log.gz").trust
    assert safe.ok
    assert [note.code for note in safe.notes] == ["other_layers", "sizes_from_allocs"]
    assert (
        "blocks are those of the stream safe layer and chunks those of the auto growth layer" in safe.notes[0].message
    )


def test_a_free_without_a_size_has_that_of_its_alloc_and_one_without_an_alloc_has_none(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        by(1, "Try free allocation 0x9"),
        by(1, "Try allocate 200 bytes"),
        by(1, "Thread 7 Allocate 256 bytes at address 0x1  , stream: 0x5"),
        by(2, "Try free allocation 0x1"),
        by(1, "Allocate 512 bytes at address 0x1"),
    )
    assert rows(log) == [("FREE", 0, 9), ("ALLOC", 256, 1), ("FREE", 256, 1), ("ALLOC", 512, 1)]
    assert log.requested is not None
    assert log.requested.tolist() == [-1, 200, -1, -1]
    assert log.stream is not None
    assert log.stream.tolist() == [-1, 5, 5, -1]
    assert log.facts.threads == (1, 2)


def test_frees_that_are_put_off_are_told_with_their_first_line(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        by(1, "Thread 7 Allocate 256 bytes at address 0x1  , stream: 0x5"),
        by(1, "Try free allocation 0x1"),
        by(1, "Put into unfreed_allocation list"),
    )
    assert [(note.code, note.line) for note in log.trust.notes if note.code == "deferred_frees"] == [
        ("deferred_frees", 3)
    ]


def test_an_alloc_of_naive_best_fit_has_the_size_that_its_thread_said_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        by(1, "Allocate 100 bytes on Place(gpu:0)"),
        by(2, "Allocate 200 bytes on Place(gpu:0)"),
        by(1, "  pointer=0x1"),
        by(2, "  pointer=0x2"),
        by(2, "  pointer=0x3"),
        by(3, "Allocate 300 bytes on Place(cpu)"),
        by(3, "  pointer=0x4"),
        by(1, "Free pointer=0x2 on Place(gpu:0)"),
        by(1, "Free pointer=0x4 on Place(cpu)"),
    )
    device = [("ALLOC", 100, 1), ("ALLOC", 200, 2), ("FREE", 200, 2)]
    for _ in range(2):  # in one block, and in blocks of a line each
        log = log_of(tmp_path, *lines)
        assert rows(log) == device
        assert log.facts.other_layers == {"host_naive_best_fit": 2}
        assert log.facts.malformed == 1  # the third pointer, whose size nobody said
        host = log_of(tmp_path, *lines, layer="host_naive_best_fit")
        assert rows(host) == [("ALLOC", 300, 4), ("FREE", 300, 4)]
        _read_in_small_blocks(monkeypatch, 40)


def test_events_of_the_auto_growth_layer_come_first_wherever_they_stand(tmp_path: Path) -> None:
    lines = (
        by(1, "Thread 7 Allocate 256 bytes at address 0x1  , stream: 0x5"),
        by(1, "DeviceMemoryStatAllocated0: Update current_value with 256, after update, current value = 256"),
        by(1, "Alloc 256 bytes, ptr = 0x2"),
    )
    log = log_of(tmp_path, *lines)
    assert rows(log) == [("ALLOC", 256, 2)]
    assert log.facts.other_layers == {"stream_safe": 1, "stats": 1}
    assert rows(log_of(tmp_path, *lines, layer="stats")) == [("ALLOC", 256, 0)]


def test_lines_of_the_driver_and_chunk_dumps_are_the_last_resort(tmp_path: Path) -> None:
    lines = (
        by(1, "[cudaMalloc] size=4 MB, result=0"),
        by(1, "[cudaMalloc] size=4 MB, result=2"),
        by(1, "[cudaFree] size=0.5 MB"),
        by(1, "[cudaMallocAsync] ptr = 0x7 size = 0.000244141 MB result = 0 stream = 0x55"),
        by(1, "[cudaFreeAsync] ptr = 0x7 size =0.000244141 MB result = 0 stream = 0x55"),
    )
    log = log_of(tmp_path, *lines)
    assert rows(log) == [("RESERVE", 4 << 20, 0), ("RELEASE", 1 << 19, 0), ("ALLOC", 256, 7), ("FREE", 256, 7)]
    assert log.stream is not None
    assert log.stream.tolist() == [-1, -1, 0x55, 0x55]
    assert "rounded_sizes" in [doubt.code for doubt in log.trust.doubts]
    dump = ("MemDbg memory after growth chunk, realloc_size = 1792", "FreeIdleChunks chunk is 1792, 0x5")
    assert rows(log_of(tmp_path, *dump)) == [("RESERVE", 1792, 0), ("RELEASE", 1792, 5)]
    chunk = by(1, "Not found and reallocate 512(0x9), and remaining 0")
    assert rows(log_of(tmp_path, *dump, chunk)) == [("RESERVE", 512, 9)]


def test_broken_lines_count_for_the_layer_that_is_believed(tmp_path: Path) -> None:
    broken = by(1, "Try free allocation 0xZ")
    safe = log_of(tmp_path, by(1, "Allocate 1 bytes at address 0x1"), broken)
    assert (safe.facts.malformed, [sample.line for sample in safe.facts.malformed_samples]) == (1, [2])
    auto = log_of(tmp_path, by(1, "Alloc 1 bytes, ptr = 0x1"), broken)
    assert auto.facts.malformed == 0


def test_a_layer_that_is_not_there_or_not_known_is_an_error_that_says_what_is(tmp_path: Path) -> None:
    with pytest.raises(NoEventsError) as caught:
        log_of(tmp_path, by(1, "Alloc 1 bytes, ptr = 0x1"), layer="stream_safe")
    assert "no event of the stream_safe layer" in caught.value.message
    assert "auto_growth (1)" in caught.value.message
    with pytest.raises(UsageError) as unknown:
        log_of(tmp_path, "x", layer="heap")
    assert "auto_growth, stream_safe" in unknown.value.hint


def test_no_layer_is_added_to_another_and_the_host_comes_after_devices() -> None:
    counts = np.ones((len(Layer), 2), np.int64)
    assert choose(counts, None) == (Layer.AUTO_GROWTH, Layer.AUTO_GROWTH)
    counts[Layer.AUTO_GROWTH, 0] = 0
    assert choose(counts, None) == (Layer.STREAM_SAFE, Layer.AUTO_GROWTH)
    assert choose(counts, Layer.STATS) == (Layer.STATS, Layer.STATS)
    assert choose(counts, Layer.HOST_STATS) == (Layer.HOST_STATS, Layer.HOST_STATS)
    assert choose(counts, Layer.AUTO_GROWTH) == (None, Layer.AUTO_GROWTH)
    counts[:] = 0
    assert choose(counts, None) == (None, None)
    counts[[Layer.HOST_STATS, Layer.HOST_NAIVE_BEST_FIT], 0] = 1
    assert choose(counts, None) == (Layer.HOST_NAIVE_BEST_FIT, None)
    counts[Layer.CUDA_MALLOC, 1] = 1
    assert choose(counts, None) == (None, Layer.CUDA_MALLOC)


def test_layers_read_by_several_threads_or_in_small_blocks_are_the_same(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(read_packed(shared / "data/paddle/10_v8_dygraph_331.log.gz"))
    whole = read(path, columns=("thread",))
    with in_small_blocks(33_333):
        apart = read(path, columns=("thread",))
    assert [apart.owner_of(event) for event in range(len(apart))] == [
        whole.owner_of(event) for event in range(len(whole))
    ]
    for column in ("kind", "size", "addr", "offset", "requested", "thread"):
        assert np.array_equal(getattr(whole, column), getattr(apart, column)), column
    _read_in_small_blocks(monkeypatch, 3000)
    small = read(path, columns=("thread",))
    for column in ("kind", "size", "addr", "offset", "requested", "stream", "thread"):
        assert np.array_equal(getattr(whole, column), getattr(small, column)), column
    assert [whole.owner_of(event) for event in range(len(whole))] == [
        small.owner_of(event) for event in range(len(small))
    ]
    assert whole.facts.threads == small.facts.threads
    assert whole.facts.other_layers == small.facts.other_layers
