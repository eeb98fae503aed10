"""One log read down to its figures: what each is, and what a run without figures is called."""

from __future__ import annotations

import json
from pathlib import Path

import made_runs as made
import pytest
from msgspec.structs import replace
from snapshots import pickled, segment

from memlens.comparing.run import record
from memlens.options.verbs import Compare
from memlens.summarizing.summary import Run
from memlens.summarizing.workers import Order

MIB = made.MIB


def run_of(folder: Path, text: str, cut: Compare | None = None, name: str = "run.log") -> Run:
    (folder / name).write_text(text)
    (run,) = record(Order(str(folder / name), cut or Compare(), ({}, False)))
    return run


# --- figures ---


def test_the_figures_of_a_whole_log(tmp_path: Path) -> None:
    run = run_of(tmp_path, made.log_text(10 * MIB, reserved=12 * MIB, blocks=4, step_us=1000))
    (window,) = run.windows
    assert (run.status, run.doubts, run.oom, run.ooms) == ("ok", (), None, 0)
    assert (window.peak_bytes, window.rise_bytes, window.reserved_peak_bytes) == (10 * MIB, 10 * MIB, 12 * MIB)
    assert (window.alloc_bytes, window.allocs, window.free_bytes, window.frees) == (10 * MIB, 4, 10 * MIB, 4)
    assert (window.remaining_bytes, window.events) == (0, 9)
    assert window.duration_us == 8 * 1000  # nine events, a millisecond apart


def test_a_snapshot_of_a_device_that_holds_nothing_needs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "idle.pickle"
    path.write_bytes(pickled({"segments": [segment(MIB, 2 * MIB)], "device_traces": [[]]}))
    (window,) = record(Order(str(path), Compare(), ({}, False)))[0].windows
    assert (window.peak_bytes, window.live_bytes, window.reserved_peak_bytes) == (0, 0, 2 * MIB)


def test_the_figures_of_a_window_and_of_a_series(tmp_path: Path) -> None:
    text = made.log_text(8 * MIB, steps=3)
    run = run_of(tmp_path, text, Compare(start="STEP 1 START", end=("STEP 2 START",)))
    (window,) = run.windows
    # Eight events in a step, the first of them a millisecond after the last one of the step before.
    assert (window.name, window.allocs, window.peak_bytes, window.duration_us) == ("STEP 1 START", 4, 8 * MIB, 7000)
    series = run_of(tmp_path, text, Compare(by=r"STEP (\d+)")).windows
    assert [(one.name, one.events, one.duration_us) for one in series] == [
        ("0", 9, 8000),
        ("1", 8, 7000),
        ("2", 8, 7000),
    ]
    assert replace(series[1], name=window.name) == window


def test_what_a_window_carries_in_is_in_its_peak_and_not_in_its_rise(tmp_path: Path) -> None:
    kept = "I0712 09:59:59.000000  1120 auto_growth_best_fit_allocator.cc:169] Alloc 4096 bytes, ptr = 0x100\n"
    (window,) = run_of(tmp_path, kept + made.log_text(MIB), Compare(start="STEP 0")).windows
    assert (window.carried_in_bytes, window.rise_bytes, window.peak_bytes) == (4096, MIB, MIB + 4096)
    assert (window.remaining_bytes, window.live_bytes) == (0, 4096)


def test_what_a_log_does_not_tell_of_is_unknown_and_not_0(tmp_path: Path) -> None:
    lines = made.log_text(MIB).splitlines(keepends=True)
    (blocks,) = run_of(tmp_path, "".join(line for line in lines if "reallocate" not in line)).windows
    assert (blocks.peak_bytes, blocks.reserved_peak_bytes) == (MIB, None)
    (chunks,) = run_of(tmp_path, "".join(line for line in lines if "ptr" not in line)).windows
    assert (chunks.reserved_peak_bytes, chunks.allocs) == (MIB, 0)
    assert (chunks.peak_bytes, chunks.rise_bytes, chunks.live_bytes, chunks.remaining_bytes) == (None,) * 4


@pytest.mark.parametrize("name", ["30b2_ast_transformer_pir", "331_ast_pt_cnn", "331_dygraph_cnn"])
def test_real_logs_have_the_figures_of_the_framework(shared: Path, name: str) -> None:
    folder = shared / "data" / "paddle"
    stats = json.loads((folder / f"{name}.stats.json").read_text())
    (window,) = record(Order(str(folder / f"{name}.log"), Compare(), ({}, False)))[0].windows
    assert window.reserved_peak_bytes == stats["hostdev_peak"]
    if name.startswith("331"):  # events of one thread: the framework's own peak is right
        assert window.peak_bytes == stats["allocated_peak"]


# --- out of memory ---


def test_a_run_that_ended_out_of_memory_says_what_it_asked_for_and_keeps_its_figures(tmp_path: Path) -> None:
    run = run_of(tmp_path, made.log_text(10 * MIB, oom_bytes=256 * MIB))
    assert run.status == run.status_of(None) == "oom"
    assert run.oom is not None
    assert (run.oom.requested_bytes, run.oom.device, run.oom.line) == (256 * MIB, "GPU 0", 8)
    assert run.windows[0].oom
    assert run.windows[0].peak_bytes == 10 * MIB


def test_a_run_that_went_on_after_a_failure_did_not_end_in_it(tmp_path: Path) -> None:
    """One in a hundred allocations may come after the message; a run that goes on makes more."""
    failed = made.log_text(10 * MIB, blocks=200, oom_bytes=MIB)
    going_down = failed + made.log_text(MIB, blocks=2).replace("0x7f", "0x6f")
    assert run_of(tmp_path, going_down).status == "oom"  # 2 of 202
    went_on = failed + made.log_text(MIB, blocks=3).replace("0x7f", "0x6f")
    run = run_of(tmp_path, went_on)
    assert (run.status, run.oom, run.ooms) == ("ok", None, 1)  # 3 of 203


# --- no figures ---


def test_a_log_without_the_anchor_has_no_window_and_one_that_failed_before_it_is_out_of_memory(tmp_path: Path) -> None:
    run = run_of(tmp_path, made.log_text(MIB), Compare(start="STEP 7"))
    assert (run.status, run.windows) == ("no_window", ())
    assert "STEP 7" in run.message
    assert run_of(tmp_path, made.log_text(MIB, oom_bytes=MIB), Compare(start="STEP 7")).status == "oom"


def test_a_doubtful_log_keeps_its_figures_and_says_what_is_in_doubt(tmp_path: Path) -> None:
    free = "I0712 10:54:14.000003  1120 auto_growth_best_fit_allocator.cc:220] Free 512 bytes, ptr = 0x9\n"
    run = run_of(tmp_path, free + made.log_text(MIB))
    assert (run.status, run.doubts) == ("ok", ("unknown_frees",))
    assert run.windows[0].peak_bytes == MIB - 512  # the level before it is not known, so its FREE counts from 0
