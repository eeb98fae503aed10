"""Figures of real logs against the framework's own, and verdicts on runs with and without a leak."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from night import some
from paddle import read

from memlens import analyze
from memlens.analyzers import get
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


def test_no_real_run_without_a_leak_is_called_growing(shared: Path) -> None:
    leaks = ("05_leak", "05_grow_batch", "20_big")  # a batch that grows every step holds more every step
    for path in some(sorted((shared / "data/paddle").glob("*.log*")), 6):
        if path.name.startswith((*leaks, "08_cpu_nolines", "10_v2")):
            continue
        (log,) = analyze(path, by=r"(STEP \d+) START", analyzers=["growth"]).logs
        assert log.growth is not None
        assert log.growth.verdict != "growing", path.name
