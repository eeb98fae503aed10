"""One log read down to its figures: what each is, and what a run without figures is called."""

from __future__ import annotations

import gzip
import json
import pickle
from dataclasses import replace
from pathlib import Path

import made_runs as made
import pytest
from snapshots import pickled, segment

from memlens.comparing.result import Run
from memlens.comparing.runs import Order, record
from memlens.errors import UsageError
from memlens.options import Compare

MIB = made.MIB


def run_of(folder: Path, text: str, cut: Compare | None = None, name: str = "run.log") -> Run:
    (folder / name).write_text(text)
    return record(Order(str(folder / name), cut or Compare()))


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
    (window,) = record(Order(str(path), Compare())).windows
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
    (window,) = record(Order(str(folder / f"{name}.log"))).windows
    assert window.reserved_peak_bytes == stats["hostdev_peak"]
    if name.startswith("331"):  # events of one thread: the framework's own peak is right
        assert window.peak_bytes == stats["allocated_peak"]


def test_a_record_comes_back_from_another_process_as_it_is(tmp_path: Path) -> None:
    run = run_of(tmp_path, made.log_text(MIB, steps=2, oom_bytes=MIB), Compare(by="STEP"))
    assert pickle.loads(pickle.dumps(run)) == run


# --- out of memory ---


def test_a_run_that_ended_out_of_memory_says_what_it_asked_for_and_keeps_its_figures(tmp_path: Path) -> None:
    run = run_of(tmp_path, made.log_text(10 * MIB, oom_bytes=256 * MIB))
    assert run.status == run.status_of(None) == "oom"
    assert run.oom is not None
    assert (run.oom.requested_bytes, run.oom.device, run.oom.line) == (256 * MIB, "GPU 0", 8)
    assert run.windows[0].oom
    assert run.windows[0].peak_bytes == 10 * MIB


def test_only_the_window_in_which_it_happened_is_out_of_memory(tmp_path: Path) -> None:
    run = run_of(tmp_path, made.log_text(10 * MIB, oom_bytes=MIB, steps=3), Compare(by=r"STEP (\d+)"))
    assert [run.status_of(name) for name in "0123"] == ["ok", "ok", "oom", "oom"]  # the fourth step never came


def test_a_run_that_went_on_after_a_failure_did_not_end_in_it(tmp_path: Path) -> None:
    """One in a hundred allocations may come after the message; a run that goes on makes more."""
    failed = made.log_text(10 * MIB, blocks=200, oom_bytes=MIB)
    going_down = failed + made.log_text(MIB, blocks=2).replace("0x7f", "0x6f")
    assert run_of(tmp_path, going_down).status == "oom"  # 2 of 202
    went_on = failed + made.log_text(MIB, blocks=3).replace("0x7f", "0x6f")
    run = run_of(tmp_path, went_on)
    assert (run.status, run.oom, run.ooms) == ("ok", None, 1)  # 3 of 203


def test_a_real_device_that_refuses_is_out_of_memory(shared: Path) -> None:
    run = record(Order(str(shared / "data" / "paddle" / "05_oom_331.log"), Compare(by=r"STEP (\d+) START")))
    assert run.oom is not None
    # Its message does not say; line 1,329 is "Allocate 786432 bytes, aligned to 786432", and no Alloc comes after it.
    assert run.oom.requested_bytes == 786432
    assert [(window.name, run.status_of(window.name)) for window in run.windows] == [
        ("(before)", "ok"), ("0", "ok"), ("1", "ok"), ("2", "oom"),
    ]  # fmt: skip


# --- no figures ---


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    run = record(Order(str(tmp_path / "gone.log")))
    assert (run.status, run.windows) == ("missing", ())
    assert "no such file" in run.message
    (tmp_path / "link").symlink_to(tmp_path / "gone.log")
    assert record(Order(tmp_path / "link")).status == "missing"


def test_what_is_no_log_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "text.log").write_text("nothing of the allocator\n")
    for name in ("empty.log", "text.log", "."):
        run = record(Order(str(tmp_path / name)))
        assert (run.status, run.windows) == ("unreadable", ()), name
        assert run.message


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


def test_a_log_cut_short_is_doubtful_and_unreadable_where_strict(tmp_path: Path) -> None:
    packed = gzip.compress("".join(made.log_text(MIB, blocks=500, steps=40)).encode())
    (tmp_path / "cut.log.gz").write_bytes(packed[: len(packed) // 2])
    order = Order(str(tmp_path / "cut.log.gz"))
    assert "cut_short" in record(order).doubts
    assert record(replace(order, options=Compare(strict=True))).status == "unreadable"


def test_wrong_usage_is_no_property_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        run_of(tmp_path, made.log_text(MIB), Compare(by="(STEP"))
