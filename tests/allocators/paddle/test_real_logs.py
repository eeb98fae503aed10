"""Every real log of Paddle comes out of its own replay as it was recorded, chunk by chunk and block by block, or it is said why not."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from night import some
from paddle import read
from real_logs import ONE_PROCESS
from texts import read_packed

import memlens
from memlens.allocators.engine import prove
from memlens.allocators.history import NotReplayable, RequestHistory
from memlens.allocators.paddle.auto_growth import AUTO_GROWTH
from memlens.allocators.paddle.history import COLUMNS, processes
from memlens.options.verbs import TryOut
from memlens.replaying.run import Replayable, replayable, replayed

FOLDER = "data/paddle"
#: Why the others cannot be replayed: a part of the reason.
REASONS = {
    "06_naive_best_fit_customdev.log": "naive_best_fit",
    "08_cpu_stats_331.log": "the layer host_stats",
    "09_loader_workers_331.log.gz": "no line of a block",
    "09_torn_4procs_unbuffered_331.log.gz": "4 processes",
    "09_two_procs_one_file_331.log.gz": "2 processes",
}
#: Logs without an event.
EMPTY = {"08_cpu_nolines_331.log", "10_v2_dygraph_331.log"}
#: What they were run with, beside the defaults, by their ``.stats.json``.
FLAGS = {
    "06_free_idle_chunk.log": {"FLAGS_free_idle_chunk": True},
    "06_padding32.log": {"padding_bytes": 32},
    "06_small_pool.log": {
        "FLAGS_small_pool_size_in_mb": 1,
        "FLAGS_small_pool_auto_growth_chunk_size_in_mb": 2,
        "FLAGS_small_pool_pre_alloc_in_mb": 4,
        "FLAGS_large_pool_pre_alloc_in_mb": 16,
    },
}
LOGS = (
    *ONE_PROCESS,
    "06_small_pool.log",
    "07_stdout_anchors_331.log.gz",
    "10_v8_dygraph_331.log.gz",
    "20_big_v10_dygraph_331.part.log.zst",
)


def test_each_log_is_listed(shared: Path) -> None:
    there = {path.name for path in (shared / FOLDER).iterdir() if path.is_file() and ".stats." not in path.name}
    assert there == {*LOGS, *REASONS, *EMPTY}


@pytest.mark.parametrize("name", some(LOGS, 2))
def test_a_real_log_replays_exactly(shared: Path, name: str) -> None:
    path = shared / FOLDER / name
    text = read_packed(path)
    count = {
        what: len(re.findall(form, text))
        for what, form in {
            "taken": rb"Not found and reallocate \d+\(0x[0-9a-f]+\), and remaining|PreAlloc (?:small|large)_pool",
            "given_back": rb"Free chunk with size \d+",
            "blocks": rb"Thread \d+ Allocate \d+ bytes at address 0x"
            if name.startswith("10_v8")
            else rb"Alloc \d+ bytes, ptr = 0x",
            "refused": rb"CustomDevice error",
        }.items()
    }
    history = AUTO_GROWTH.history(memlens.read(path, columns=COLUMNS))
    assert history is not None
    assert not isinstance(history, NotReplayable), history
    values = AUTO_GROWTH.recorded(history)
    proof = prove(history, AUTO_GROWTH.rules(history, values))
    assert proof.exact, proof.mismatch
    assert (proof.chunks.matched, proof.given_back.matched, proof.addresses.matched, proof.failures.matched) == tuple(
        count.values()
    )
    assert proof.operations.matched == proof.operations.of
    differing = {key: value for key, value in values.items() if value != AUTO_GROWTH.defaults[key]}
    differing.pop("retry_refused", None)  # the device's
    assert differing == FLAGS.get(name, {})


@pytest.mark.parametrize("name", REASONS)
def test_other_logs_say_why_they_cannot_be_replayed(shared: Path, name: str) -> None:
    history = AUTO_GROWTH.history(memlens.read(shared / FOLDER / name, columns=COLUMNS))
    assert isinstance(history, NotReplayable)
    assert REASONS[name] in history.reason
    assert history.hint


def test_a_device_that_refuses_is_not_asked_again_where_it_is_a_plug_in(shared: Path) -> None:
    """By the rule for other devices the eleven idle chunks would have been given back, and the run would have gone on."""
    history = AUTO_GROWTH.history(memlens.read(shared / FOLDER / "05_oom_331.log", columns=COLUMNS))
    assert history is not None
    assert not isinstance(history, NotReplayable)
    values = AUTO_GROWTH.recorded(history)
    assert values["retry_refused"] is False
    proof = prove(history, AUTO_GROWTH.rules(history, {**values, "retry_refused": True}))
    assert not proof.exact
    assert (proof.failures.matched, proof.failures.of) == (0, 1)


@pytest.mark.parametrize(
    ("name", "count"), [("09_two_procs_one_file_331.log.gz", 2), ("09_torn_4procs_unbuffered_331.log.gz", 4)]
)
def test_processes_of_one_file_are_told_apart_by_their_threads(shared: Path, name: str, count: int) -> None:
    text = read_packed(shared / FOLDER / name)
    found = processes(memlens.read(shared / FOLDER / name, columns=COLUMNS))
    assert (
        len(found)
        == count
        == len(set(re.findall(rb" (\d+) auto_growth_best_fit_allocator.cc:\d+\] chunk_size_:", text)))
    )
    blocks = 0
    for log in found:
        history = AUTO_GROWTH.history(log)
        assert history is not None
        assert not isinstance(history, NotReplayable), history
        proof = prove(history, AUTO_GROWTH.rules(history, AUTO_GROWTH.recorded(history)))
        assert proof.exact, proof.mismatch
        blocks += proof.addresses.matched
    assert blocks == len(re.findall(rb"Alloc \d+ bytes, ptr = 0x", text))


@pytest.mark.parametrize(
    "name", ["10_v10_ast_pt_30.log.gz", "10_v10_dygraph_331.log.gz", "20_big_v10_dygraph_331.part.log.zst"]
)
@pytest.mark.changed("allocators")
def test_lines_of_the_stream_safe_layer_with_those_of_chunks_are_enough(shared: Path, name: str) -> None:
    path = shared / FOLDER / name
    history = AUTO_GROWTH.history(read(path, columns=COLUMNS, layer="stream_safe"))
    assert isinstance(history, RequestHistory)
    proof = prove(history, AUTO_GROWTH.rules(history, AUTO_GROWTH.recorded(history)))
    assert proof.exact, proof.mismatch
    assert proof.addresses.matched == len(
        re.findall(rb"Thread \d+ Allocate \d+ bytes at address 0x", read_packed(path))
    )


def test_of_several_threads_they_do_not_tell_in_which_order(shared: Path) -> None:
    """They are written outside the lock, and name no free block: the first difference is named."""
    history = AUTO_GROWTH.history(
        read(shared / FOLDER / "10_v10_ast_pir_262.log.gz", columns=COLUMNS, layer="stream_safe")
    )
    assert isinstance(history, RequestHistory)
    proof = prove(history, AUTO_GROWTH.rules(history, AUTO_GROWTH.recorded(history)))
    assert proof.mismatch is not None
    assert proof.addresses.matched / proof.addresses.of > 0.9


@pytest.mark.changed("allocators")
@pytest.mark.parametrize("name", some(["01_first_venv_dygraph.log", "06_free_idle_chunk.log"], 2))
def test_a_log_that_ends_anywhere_replays_as_far_as_it_goes(shared: Path, name: str) -> None:
    # Whatever is under way on the last line: a request, one that has its chunk already, a FREE whose chunk goes back next.
    lines = read_packed(shared / "data" / "paddle" / name).splitlines(keepends=True)
    for stop in range(600, 640):
        log = memlens.read(io.BytesIO(b"".join(lines[:stop])), columns=COLUMNS)
        known = replayable(log)
        assert isinstance(known, Replayable), (stop, known)
        found = replayed(log, name, known, TryOut(settings=["FLAGS_auto_growth_chunk_size_in_mb=4"]), scanned=False)
        assert found.proof.holds, (stop, found.proof)
        assert not found.refused
        assert len(found.trials) == 2
