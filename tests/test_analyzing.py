"""``memlens.analyze``: the twin of the command line."""

from __future__ import annotations

import dataclasses
import io
import math
from pathlib import Path

import pytest

import memlens
from memlens import EventLog, Kind
from memlens.source import MemorySource

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
    assert list(window.results) == ["remaining", "peak", "segments", "stats", "unmatched", "lifetimes"]
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


def test_one_window_is_cut_by_anchors(log: Path) -> None:
    (window,) = memlens.analyze(log, start="STEP 1", end="STEP 2").logs[0].windows
    assert (window.start_line, window.end_line, window.open_end) == (1, 4, False)
    (window,) = memlens.analyze(log, start_regex="STEP", nth=2, end_regex=["never"]).logs[0].windows
    assert (window.start_line, window.end_line, window.open_end) == (5, 7, True)


@pytest.mark.parametrize("times", [True, False])
def test_the_time_of_the_peak_is_known_with_and_without_a_column_of_times(log: Path, times: bool) -> None:
    (window,) = memlens.analyze(log, times=times).logs[0].windows
    day = 31 + 29 + 31 + 30 + 31 + 30 + 12 - 1  # the 12th of July, in a year with a 29th of February
    assert window.peak_time_us == ((day * 24 + 10) * 60 + 54) * 60_000_000 + 1_000_000
    assert window.duration_us == 4_000_000


def test_a_log_can_be_a_stream_or_already_read(log: Path) -> None:
    expected = memlens.analyze(log).logs[0].windows[0].to_dict()
    assert memlens.analyze(io.BytesIO(TEXT.encode())).logs[0].windows[0].to_dict() == expected
    read = memlens.read(log, columns=("time_us",))
    assert memlens.analyze(read).logs[0].windows[0].to_dict() == expected


def test_a_log_in_memory_without_lines_can_be_analyzed() -> None:
    log = EventLog.from_rows([(Kind.ALLOC, 8, 1), (Kind.FREE, 8, 1)], source=MemorySource(b"", "made"))
    (analyzed,) = memlens.analyze(log).logs
    assert analyzed.path == "made"
    assert analyzed.windows[0].results["peak"].peak_bytes == 8
    assert analyzed.windows[0].peak_time_us is None


def test_only_the_analyzers_asked_for_run_and_in_report_order(log: Path) -> None:
    (window,) = memlens.analyze(log, analyzers=["stats", "remaining", "stats"]).logs[0].windows
    assert list(window.results) == ["remaining", "stats"]


def test_lists_are_cut_to_top_in_dictionaries(log: Path) -> None:
    whole = memlens.analyze(log, top=None).to_dict()["logs"][0]["windows"][0]
    assert [group["size_bytes"] for group in whole["peak"]["live"]] == [100, 50]
    cut = memlens.analyze(log, top=1).to_dict()["logs"][0]["windows"][0]
    assert [group["size_bytes"] for group in cut["peak"]["live"]] == [100]
    assert cut["peak"]["live_left_out"] == 1
    assert len(cut["stats"]["histogram"]) == 3  # 16 to 31, 32 to 63, 64 to 127 bytes: a scale is not cut
    none = memlens.analyze(log, top=0).to_dict()["logs"][0]["windows"][0]
    assert "live" not in none["peak"]
    large = memlens.analyze(log, min_size=60).to_dict()["logs"][0]["windows"][0]
    assert [group["size_bytes"] for group in large["peak"]["live"]] == [100]


def test_a_data_frame_has_a_row_a_window(log: Path) -> None:
    frame = memlens.analyze([log, log], by=r"STEP (\d)").to_pandas()
    assert frame["name"].tolist() == ["1", "2"] * 2
    assert frame["peak_bytes"].tolist() == [150, 130] * 2
    assert frame["rise_bytes"].tolist() == [150, 30] * 2
    assert frame["peak_line"].tolist() == [3, 6] * 2
    assert frame["allocs"].tolist() == [2, 1] * 2
    assert frame["held_bytes"].tolist() == [100, 30] * 2


def test_results_are_frozen(log: Path) -> None:
    analysis = memlens.analyze(log)
    for holder in (analysis, analysis.logs[0], analysis.logs[0].windows[0]):
        with pytest.raises(dataclasses.FrozenInstanceError):
            holder.name = "other"  # type: ignore[union-attr, misc]


def test_one_of_several_logs_may_fail_but_the_only_one_may_not(log: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.log"
    analysis = memlens.analyze([missing, log])
    assert [found.path for found in analysis.logs] == [str(log)]
    assert [failure.path for failure in analysis.failures] == [str(missing)]
    with pytest.raises(memlens.InputError):
        memlens.analyze(missing)
    with pytest.raises(memlens.InputError):
        memlens.analyze([missing])
    with pytest.raises(memlens.UsageError):
        memlens.analyze([log, log], by="(")
    with pytest.raises(memlens.UsageError):
        memlens.analyze([])


def test_arguments_that_exclude_each_other_are_refused(log: Path) -> None:
    with pytest.raises(memlens.UsageError, match="exclude"):
        memlens.analyze(log, by="STEP", start="STEP")
    with pytest.raises(memlens.UsageError, match="exclude"):
        memlens.analyze(log, start="STEP", start_regex="STEP")
    with pytest.raises(memlens.UsageError, match="growth needs a series"):
        memlens.analyze(log, analyzers=["growth"], whole=True)
    with pytest.raises(memlens.UsageError, match="exclude"):
        memlens.analyze(log, by="STEP", whole=True)


def test_progress_counts_up_over_all_logs(log: Path) -> None:
    seen: list[int] = []
    memlens.analyze([log, log], progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 2 * len(TEXT)


def test_logs_analyzed_together_are_not_kept_in_memory(log: Path) -> None:
    for analyzed in memlens.analyze([log, log]).logs:
        for result in (analyzed.windows[0], *analyzed.windows[0].results.values()):
            values = [vars(result)[spec.name] for spec in dataclasses.fields(result)]
            assert not any(callable(value) for value in values)


@pytest.mark.parametrize("windows", [200])
def test_a_series_of_many_windows_adds_up_to_the_whole(tmp_path: Path, windows: int) -> None:
    path = tmp_path / "many.log"
    path.write_text("".join(f"STEP {n}\n" + ALLOC.format(n % 60, 8 * n + 8, n + 1) for n in range(windows)))
    analysis = memlens.analyze(path, by=r"STEP \d+", analyzers=["remaining", "stats", "growth"])
    total = sum(window.results["remaining"].remaining_bytes for window in analysis.logs[0].windows)
    assert total == 8 * math.comb(windows + 1, 2)
    assert analysis.logs[0].growth is not None
    assert analysis.logs[0].growth.verdict == "growing"
