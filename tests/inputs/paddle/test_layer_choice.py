"""Which layer of a log is believed, what the others add to it, and that layers of one log tell the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from paddle import read

from memlens.errors import NoEventsError, UsageError
from memlens.events import Kind
from memlens.inputs import blocks
from memlens.log import Log

#: One log, several layers; in the first three frees are never put off and no thread comes between the lines of one free.
SAME_ORDER = ("10_v10_dygraph_331.log.gz", "10_v10_ast_pt_30.log.gz", "20_big_v10_dygraph_331.part.log.zst")

GLOG = "I1120 10:22:32.856307 {:5d} a.cc:1] "


def log_of(tmp_path: Path, *lines: str, **options: str) -> Log:
    path = tmp_path / "run.log"
    path.write_text("".join(line + "\n" for line in lines))
    return read(path, **options)


def by(thread: int, text: str) -> str:
    return GLOG.format(thread) + text


def _read_in_small_blocks(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", size)


def rows(log: Log) -> list[tuple[str, int, int]]:
    return [
        (Kind(kind).name, size, addr)
        for kind, size, addr in zip(log.kind.tolist(), log.size.tolist(), log.addr.tolist(), strict=True)
    ]


def blocks_of(log: Log) -> Log:
    mine = log.kind <= Kind.FREE
    return Log(log.kind[mine], log.size[mine], log.addr[mine], log.offset[mine])


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
    assert "Blocks are taken from the stream safe layer, chunks from the auto growth layer." in safe.notes[0].message


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


def test_a_layer_that_is_not_there_or_not_known_is_an_error_that_says_what_is(tmp_path: Path) -> None:
    with pytest.raises(NoEventsError) as caught:
        log_of(tmp_path, by(1, "Alloc 1 bytes, ptr = 0x1"), layer="stream_safe")
    assert "no event of the stream_safe layer" in caught.value.message
    assert "auto_growth (1)" in caught.value.message
    with pytest.raises(UsageError) as unknown:
        log_of(tmp_path, "x", layer="heap")
    assert "auto_growth, stream_safe" in unknown.value.hint
