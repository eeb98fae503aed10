"""Figures of real logs against the framework's own, and verdicts on runs with and without a leak."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from paddle import read

from memlens import analyze
from memlens.analyzers import get, growth, names
from memlens.events import Kind

#: Logs in which several threads allocate, and the peaks that an independent replay found.
SEVERAL_THREADS = {
    "331_ast_pir_cnn": 4578560,
    "331_parts_pir_transformer": 8942336,
    "30_ast_transformer_pir": 12054784,
    "30_ast_transformer_pt": 12054784,
    "04_threads_30_ast_pt_transformer": 11949824,
}


def logs_with_figures(shared: Path) -> list[tuple[Path, dict[str, int]]]:
    """Logs whose run wrote its own figures beside them at its end."""
    stats = sorted((shared / "data/paddle").glob("*.stats.json"))
    read_figures = [(path, json.loads(path.read_text())) for path in stats]
    return [
        (log, figures)
        for path, figures in read_figures
        if figures.get("allocated_peak")
        for log in path.parent.glob(path.name.removesuffix(".stats.json") + ".log*")
    ]


def test_peaks_equal_the_frameworks_own_figures(shared: Path) -> None:
    exact = 0
    for path, figures in logs_with_figures(shared):
        name = path.name.split(".log")[0]
        if name.startswith(("30b2", "08_", "09_", "10_v2", "10_v8", "06_small_pool", "06_naive")):
            continue  # events not logged or of another layer, several processes, or a reserved peak that is not known
        log = read(path, columns=("thread",))
        peak = get("peak")(log.whole)
        if name in SEVERAL_THREADS:
            assert peak.peak_bytes == SEVERAL_THREADS[name], name
        assert log.thread is not None
        if len(np.unique(log.thread[log.kind <= Kind.FREE])) == 1:
            assert peak.peak_bytes == figures["allocated_peak"], name
            exact += 1
        else:  # the framework's counter misses peaks that threads reach together
            assert peak.peak_bytes >= figures["allocated_peak"], name
        assert peak.reserved_peak_bytes == figures["reserved_peak"], name
        assert sum(group.total_bytes for group in peak.live) == peak.peak_bytes, name
    assert exact >= 12


@pytest.mark.parametrize(
    ("name", "says", "slope"),
    [
        ("05_fixed_331.log.gz", "flat", 0),
        ("05_leak_activations_331.log.gz", "growing", 512),
        ("05_leak_graph_331.log.gz", "growing", 2724864),
    ],
)
def test_leaks_grow_by_what_they_leak_a_step_and_the_fixed_run_is_flat(
    shared: Path, name: str, says: str, slope: int
) -> None:
    windows = read(shared / "data/paddle" / name).windows(r"STEP \d+ START")
    for part in (windows, windows[1:], windows[:-1], windows[3:12]):
        found = growth(part)
        assert (found.verdict, found.gained_bytes_per_window) == (says, slope)
        # Beside what leaks, a pile may hold a few blocks of the same size that the next step would free.
        assert sum(pile.bytes_per_window for pile in found.piling) == pytest.approx(slope, rel=0.02)


@pytest.mark.parametrize(
    ("name", "by", "says", "since", "gained"),
    [
        # 1 MiB a step from step 50 on; step 99 is open
        ("traps/late_leak.log.gz", r"(STEP \d+) START", "growing", "STEP 50", 49 << 20),
        # 900 KiB in each of 199 closed steps
        ("traps/leak900k.log.gz", r"(STEP \d+) START", "growing", "STEP 0", 199 * 900 * 1024),
        ("traps/sawtooth.log.gz", r"(STEP \d+) START", "swinging", None, 0),
        ("traps/good.log.gz", r"(STEP \d+) START", "flat", None, 0),
        ("traps/five.log.gz", r"(STEP \d+) START", "flat", None, 0),
        ("traps/seven.log.gz", r"(STEP \d+) START", "flat", None, 0),
        # 0.6 MB in each step from step 1 on, 59 closed steps; step 0 warms up
        ("paddle/20_big_v10_dygraph_331.part.log.zst", r"(STEP \d+) START", "growing", "STEP 1", 58 * 597_504),
        ("paddle/05_leak_graph_sot_transformer_30_pt.log.gz", r"(STEP \d+) START", "growing", "STEP 1", 28 * 3_354_880),
        ("torch/kineto/cnn_leak.json.gz", r"ProfilerStep#(\d+)", "growing", "1", 3 * 320),
    ],
)
def test_verdicts_on_real_series_name_the_first_window_that_leaks(
    shared: Path, name: str, by: str, says: str, since: str | None, gained: int
) -> None:
    (log,) = analyze(shared / "data" / name, by=by, analyzers=["growth"]).logs
    assert log.growth is not None
    assert (log.growth.verdict, log.growth.since, log.growth.gained_bytes) == (says, since, gained)


def test_no_real_run_without_a_leak_is_called_growing(shared: Path) -> None:
    leaks = ("05_leak", "05_grow_batch", "20_big")  # a batch that grows every step holds more every step
    for path in sorted((shared / "data/paddle").glob("*.log*")):
        if path.name.startswith((*leaks, "08_cpu_nolines", "10_v2")):
            continue
        (log,) = analyze(path, by=r"(STEP \d+) START", analyzers=["growth"]).logs
        assert log.growth is not None
        assert log.growth.verdict != "growing", path.name


def test_the_identity_holds_in_every_step_of_a_log_of_several_processes(shared: Path) -> None:
    log = read(shared / "data/paddle/09_torn_4procs_unbuffered_331.log.gz")
    windows = (*log.windows(r"STEP \d+ START"), log.whole)
    remaining, unmatched = (get(name).many(windows) for name in ("remaining", "unmatched"))
    for left, u in zip(remaining, unmatched, strict=True):
        assert left.remaining_bytes == u.held_bytes - u.released_bytes - u.unknown_free_bytes + u.mismatch_bytes


def test_results_of_a_real_log_are_plain_json(shared: Path) -> None:
    log = read(shared / "data/paddle/01_first_venv_dygraph.log", columns=("time_us",))
    for name in names():
        plain = get(name)(log.whole).to_dict(top=5)
        assert json.loads(json.dumps(plain)) == plain
    windows = log.windows(r"STEP \d+ START")
    plain = growth(windows).to_dict(top=5)
    assert json.loads(json.dumps(plain)) == plain


def test_lines_of_results_hold_the_events_they_name(shared: Path) -> None:
    path = shared / "data/paddle/01_first_venv_dygraph.log"
    log = read(path)
    lines = path.read_bytes().splitlines()
    peak = get("peak")(log.whole)
    assert b"Alloc " in lines[peak.line - 1]
    for row in get("lifetimes")(log.whole).wasteful[:20]:
        assert f"Alloc {row.size_bytes} bytes".encode() in lines[row.alloc_line - 1]
        assert f"Free {row.size_bytes} bytes".encode() in lines[row.free_line - 1]
        address = hex(int(log.addr[row.alloc_event])).encode()
        assert lines[row.alloc_line - 1].endswith(address)
        assert lines[row.free_line - 1].endswith(address)
    assert np.all(np.diff(log.offset) >= 0)
