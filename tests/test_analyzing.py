"""``memlens.analyze``: the twin of the command line."""

from __future__ import annotations

import gc
import math
import re
import weakref
from pathlib import Path

import pytest

import memlens

ALLOC = "I0712 10:54:{:02}.000000  1120 auto_growth_best_fit_allocator.cc:169] Alloc {} bytes, ptr = 0x{:x}\n"
FREE = "I0712 10:54:{:02}.000000  1120 auto_growth_best_fit_allocator.cc:220] Free {} bytes, ptr = 0x{:x}\n"
#: Two steps: the first leaves 100 bytes behind, the second frees them and leaves 30.
TEXT = (
    "STEP 1\n" + ALLOC.format(0, 100, 0xA) + ALLOC.format(1, 50, 0xB) + FREE.format(2, 50, 0xB)
    + "STEP 2\n" + ALLOC.format(3, 30, 0xC) + FREE.format(4, 100, 0xA)
)  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_text(TEXT)
    return path


def test_a_whole_log_is_one_window_with_every_built_in_analyzer(log: Path) -> None:
    (analyzed,) = memlens.analyze(log).logs
    (window,) = analyzed.windows
    wanted = "remaining composition activations peak segments stats unmatched lifetimes"
    assert list(window.results) == wanted.split()
    assert (window.start_line, window.end_line, window.events, window.whole) == (1, 7, 5, True)
    assert window.results["remaining"].remaining_bytes == 30
    assert window.results["peak"].peak_bytes == 150
    assert analyzed.growth is not None
    assert analyzed.growth.judged == 1  # STEP 1; what follows STEP 2 is open, and too few windows tell nothing
    assert analyzed.path == str(log)


def test_a_series_has_a_window_a_match_and_growth(log: Path) -> None:
    (analyzed,) = memlens.analyze(log, by=r"STEP (\d)").logs
    assert [window.name for window in analyzed.windows] == ["1", "2"]
    assert [window.results["remaining"].remaining_bytes for window in analyzed.windows] == [100, -70]
    assert [window.results["remaining"].carried_in_bytes for window in analyzed.windows] == [0, 100]
    assert analyzed.growth is not None
    assert analyzed.series


@pytest.mark.parametrize("times", [True, False])
def test_the_time_of_the_peak_is_known_with_and_without_a_column_of_times(log: Path, times: bool) -> None:
    (window,) = memlens.analyze(log, times=times).logs[0].windows
    day = 31 + 29 + 31 + 30 + 31 + 30 + 12 - 1  # the 12th of July, in a year with a 29th of February
    assert window.peak_time_us == ((day * 24 + 10) * 60 + 54) * 60_000_000 + 1_000_000
    assert window.duration_us == 4_000_000


@pytest.mark.parametrize("name", ["06_naive_best_fit_customdev", "08_cpu_stats_331", "05_oom_331", "06_noprefix"])
def test_times_that_are_looked_up_are_those_that_are_read(shared: Path, name: str) -> None:
    """Of events of all layers, in all that the machine output says."""
    path = shared / "data" / "paddle" / f"{name}.log"
    looked_up, read = (memlens.analyze(path, times=times).to_dict() for times in (False, True))
    assert looked_up == read
    assert (looked_up["logs"][0]["windows"][0]["peak"]["time_us"] is None) == (name == "06_noprefix")


def test_a_window_lasts_from_the_first_known_time_to_the_last(log: Path) -> None:
    """Two events without a stamp stand in front and one at the end; none of them is asked twice."""
    bare = [re.sub(r"^[IWEF]\S+ \S+ +\d+ ", "", line) for line in log.read_text().splitlines() if "ptr" in line]
    log.write_text("\n".join([*bare[:2], log.read_text(), bare[2]]))
    for times in (True, False):
        (window,) = memlens.analyze(log, times=times).logs[0].windows
        assert window.results["stats"].duration_us == 4_000_000
        assert window.results["lifetimes"].longest[0].life_us is None  # of the first line


def test_a_log_is_let_go_at_once_with_its_result(log: Path) -> None:
    """A search for cycles would take a moment of each start, and hold as much as the log until then."""
    gc.disable()
    try:
        events = memlens.read(log)
        there = weakref.ref(events)
        analyzed = memlens.analyze(events).to_dict()
        del events
        assert analyzed["logs"]
        assert there() is None
    finally:
        gc.enable()


def test_only_the_analyzers_asked_for_run_and_in_report_order(log: Path) -> None:
    (window,) = memlens.analyze(log, analyzers=["stats", "remaining", "stats"]).logs[0].windows
    assert list(window.results) == ["remaining", "stats"]


@pytest.mark.parametrize("windows", [200])
def test_a_series_of_many_windows_adds_up_to_the_whole(tmp_path: Path, windows: int) -> None:
    path = tmp_path / "many.log"
    path.write_text("".join(f"STEP {n}\n" + ALLOC.format(n % 60, 8 * n + 8, n + 1) for n in range(windows)))
    analysis = memlens.analyze(path, by=r"STEP \d+", analyzers=["remaining", "stats", "growth"])
    total = sum(window.results["remaining"].remaining_bytes for window in analysis.logs[0].windows)
    assert total == 8 * math.comb(windows + 1, 2)
    assert analysis.logs[0].growth is not None
    assert analysis.logs[0].growth.verdict == "growing"
