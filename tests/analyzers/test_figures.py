"""What the figures of small, readable logs are, by arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memlens.analyzers import Bin, LiveGroup, Peak, Remaining, get
from memlens.analyzers.places import YEAR_US, elapsed_us
from memlens.errors import UsageError
from memlens.events import EventLog, Kind
from memlens.lifetimes import Lifetimes
from memlens.source import MemorySource
from memlens.windows.windows import Window

A, F, R, X = Kind.ALLOC, Kind.FREE, Kind.RESERVE, Kind.RELEASE


def log_of(rows: list[tuple[Kind, int, int]], **columns: Any) -> EventLog:
    """A log whose pairs are told by addresses that are used once."""
    log = EventLog.from_rows(rows, **columns)
    partner = np.full(len(rows), -1, np.int32)
    for i, (kind, _, addr) in enumerate(rows):
        for j, (other, _, same) in enumerate(rows[i:], i):
            if kind == A and other == F and addr == same:
                partner[i], partner[j] = j, i
    log.__dict__["lifetimes"] = Lifetimes(partner, np.zeros(0, np.int64))
    return log


def part(log: EventLog, lo: int = 0, hi: int | None = None) -> Window:
    return Window(log, "part", lo, len(log) if hi is None else hi, 0, 0, 1, 1)


@pytest.mark.parametrize(("frees", "remaining"), [(1, 7077888), (2, 3538944)])
def test_the_small_subgraph_of_case_1_has_its_published_figures(frees: int, remaining: int) -> None:
    # GIVEN three allocations of 3538944 bytes, of which one run frees one and the other two
    window = part(
        log_of([(A, 3538944, 1), (A, 3538944, 2), (A, 3538944, 3), *[(F, 3538944, k + 1) for k in range(frees)]])
    )
    # THEN remaining, peak and the sums are those of the pull request
    assert get("remaining")(window) == Remaining(remaining, 0, remaining)
    assert get("peak")(window).peak_bytes == 10616832
    stats = get("stats")(window)
    assert (stats.alloc_bytes, stats.allocs, stats.free_bytes, stats.frees) == (10616832, 3, frees * 3538944, frees)
    (held,) = get("unmatched")(window).held
    assert (held.size_bytes, held.count, held.freed, held.first_event) == (3538944, 3 - frees, "never", frees)


def test_a_peak_reached_twice_is_the_first_time() -> None:
    window = part(log_of([(A, 8, 1), (F, 8, 1), (A, 8, 2), (A, 0, 3)]))
    assert get("peak")(window).event == 0


def test_a_window_that_only_frees_peaks_at_its_start() -> None:
    log = log_of([(A, 100, 1), (A, 50, 2), (F, 100, 1), (F, 50, 2)])
    peak = get("peak")(part(log, 2))
    assert (peak.peak_bytes, peak.rise_bytes, peak.event, peak.line) == (150, 0, None, None)
    # AND what is live there is what was carried in
    assert peak.live == (LiveGroup(100, 1, 100), LiveGroup(50, 1, 50))


def test_reserved_and_allocated_peaks_are_told_apart_and_counted_absolutely() -> None:
    log = log_of([(R, 1000, 0), (A, 10, 1), (X, 1000, 0), (R, 400, 0), (R, 300, 0), (X, 400, 0), (A, 5, 2)])
    assert get("peak")(part(log)).reserved_peak_bytes == 1000
    assert get("peak")(part(log, 3)).reserved_peak_bytes == 700
    assert get("peak")(part(log, 6)).reserved_peak_bytes == 300
    assert get("peak")(part(log, 6)).peak_bytes == 15


def test_the_line_of_one_peak_is_looked_up_alone_and_those_of_all_others_together() -> None:
    class Counting(MemorySource):
        asked = 0

        def line_numbers(self, offsets: Any) -> list[int | None]:
            Counting.asked += 1
            return super().line_numbers(offsets)

    text = b"START\nAlloc 8\nnoise\nAlloc 9\n"
    log = log_of([(A, 8, 1), (A, 9, 2)], source=Counting(text), offset=np.array([6, 20]), time_us=np.array([-1, 77]))
    peaks = get("peak").many([part(log, 0, 1), part(log, 1, 2), part(log, 0, 0), part(log, 1, 2)])
    assert Counting.asked == 0
    assert peaks[0].line == 2
    assert Counting.asked == 1
    assert [peak.line for peak in peaks] == [2, 4, None, 4]
    assert [peak.time_us for peak in peaks] == [None, 77, None, 77]
    assert Counting.asked == 2


def test_the_histogram_bins_by_power_of_two_exactly_even_where_floats_round() -> None:
    sizes = [0, 1, 2, 3, 4, 2**53 - 1, 2**53, 2**60 - 1, 2**60, 2**62 - 1]
    bins = get("stats")(part(log_of([(A, size, k) for k, size in enumerate(sizes)]))).histogram
    assert [(b.low_bytes, b.high_bytes, b.alloc_bytes) for b in bins] == [
        (0, 0, 0),
        (1, 1, 1),
        (2, 3, 5),
        (4, 7, 4),
        (2**52, 2**53 - 1, 2**53 - 1),
        (2**53, 2**54 - 1, 2**53),
        (2**59, 2**60 - 1, 2**60 - 1),
        (2**60, 2**61 - 1, 2**60),
        (2**61, 2**62 - 1, 2**62 - 1),
    ]


def test_the_histogram_counts_allocs_and_frees_and_no_chunks() -> None:
    window = part(log_of([(R, 512, 0), (A, 512, 1), (A, 1023, 2), (F, 512, 1), (X, 512, 0)]))
    assert get("stats")(window).histogram == (Bin(512, 1023, 2, 1535, 1, 512),)


def test_sums_stay_exact_above_what_a_float_holds() -> None:
    window = part(log_of([(A, 2**60, 1), (A, 1, 2), (A, 2**60, 3), (F, 2**60, 1)]))
    assert get("stats")(window).alloc_bytes == 2**61 + 1
    assert get("remaining")(window).remaining_bytes == 2**60 + 1


@pytest.mark.parametrize(
    ("times", "duration"),
    [
        ([5, 9, 7], 2),
        ([-1, 5, 3], 0),  # stamps step back a little
        ([-1, 5, -1], 0),
        ([-1, 4, 9], 5),
        ([-1, -1, -1], None),
        ([YEAR_US - 10, 5, 20], 30),  # over New Year
    ],
)
def test_a_duration_is_from_the_first_to_the_last_known_time(times: list[int], duration: int | None) -> None:
    log = log_of([(A, 1, 1), (A, 1, 2), (A, 1, 3)], time_us=np.array(times))
    assert get("stats")(part(log)).duration_us == duration


def test_a_window_without_events_has_no_duration() -> None:
    log = log_of([(A, 1, 1)], time_us=np.array([3]))
    assert get("stats")(part(log, 1)).duration_us is None
    assert elapsed_us(None, 3) is None


def test_the_most_wasteful_block_is_the_large_one_across_a_busy_stretch() -> None:
    # GIVEN a small block that lives longest, a large one while much is allocated, a larger one while nothing is
    log = log_of([
        (A, 1, 1), (A, 100, 2), (A, 60, 3), (F, 60, 3), (F, 100, 2), (A, 500, 4), (F, 500, 4), (A, 7, 5), (F, 1, 1),
    ])  # fmt: skip
    lives = get("lifetimes")(part(log))
    # THEN the order by events is another than the order by waste
    assert [(row.size_bytes, row.life_events) for row in lives.longest[:2]] == [(1, 8), (100, 3)]
    assert [(row.size_bytes, row.meanwhile_bytes) for row in lives.wasteful] == [(100, 60), (1, 667), (500, 0), (60, 0)]
    # AND what is never freed lives to the end of the log, and is no waste
    assert [(row.life_events, row.free_event) for row in lives.longest if row.size_bytes == 7] == [(2, None)]


def test_at_most_a_hundred_lives_are_kept_and_they_are_the_right_ones() -> None:
    # GIVEN 150 blocks, born in order and freed in reverse order, so that the first lives longest
    rows = [(A, 10, k) for k in range(150)] + [(F, 10, k) for k in reversed(range(150))]
    summary = get("lifetimes")(part(log_of(rows)))
    assert [row.alloc_event for row in summary.longest] == list(range(100))
    assert [row.alloc_event for row in summary.wasteful] == list(range(100))
    assert [row.meanwhile_bytes for row in summary.wasteful[:2]] == [1490, 1480]


def test_no_windows_give_no_results() -> None:
    for name in ("remaining", "peak", "stats", "unmatched", "lifetimes"):
        assert list(get(name).many([])) == []


def test_a_log_without_events_has_figures_of_zero() -> None:
    window = part(log_of([]))
    for name in ("remaining", "peak", "stats", "unmatched", "lifetimes"):
        plain = get(name)(window).to_dict()
        assert not any(plain.values()), (name, plain)


def test_windows_of_two_logs_are_refused() -> None:
    with pytest.raises(ValueError, match="one log"):
        get("remaining").many([part(log_of([])), part(log_of([]))])


class TestResults:
    """What all results can do."""

    peak = Peak(9, 9, 0, 1, 12, None, (LiveGroup(4, 2, 8), LiveGroup(1, 1, 1)))

    def test_tables_are_cut_to_the_rows_wanted_and_say_how_many_are_left_out(self) -> None:
        plain = self.peak.to_dict(top=1)
        assert plain["live"] == [{"size_bytes": 4, "count": 2, "total_bytes": 8, "owner": None}]
        assert plain["live_left_out"] == 1
        assert "live_left_out" not in self.peak.to_dict(top=2)
        assert "live" not in self.peak.to_dict(top=0)

    def test_a_result_made_by_hand_equals_one_that_was_worked_out(self) -> None:
        log = log_of([(A, 4, 1), (A, 4, 2)], line=np.array([3, 5]))
        assert get("peak")(part(log)) == Peak(8, 8, 0, 1, 5, None, (LiveGroup(4, 2, 8),))

    def test_showing_a_result_works_nothing_out(self) -> None:
        log = log_of([(A, 4, 1)])
        del log.__dict__["lifetimes"]
        peak = get("peak")(part(log))
        assert "peak_bytes=4" in repr(peak)
        assert "lifetimes" not in log.__dict__

    def test_a_result_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            self.peak.live = ()  # type: ignore[misc]

    def test_a_table_becomes_a_data_frame_with_its_columns_even_when_empty(self) -> None:
        pytest.importorskip("pandas")
        assert self.peak.to_pandas()["total_bytes"].tolist() == [8, 1]
        window = part(log_of([]))
        assert list(get("peak")(window).to_pandas().columns) == ["size_bytes", "count", "total_bytes", "owner"]
        assert "first_alloc_line" in get("unmatched")(window).to_pandas("unknown").columns
        assert get("remaining")(window).to_pandas()["live_bytes"].tolist() == [0]

    def test_a_table_that_is_not_there_is_a_usage_error(self) -> None:
        pytest.importorskip("pandas")
        with pytest.raises(UsageError, match="no table 'held'"):
            self.peak.to_pandas("held")


def test_groups_of_one_total_have_the_larger_blocks_first_and_then_the_earlier_ones() -> None:
    # 200 bytes each: two blocks of 100 and one of 200; of the two that come to 300 one is freed later.
    rows = [(A, 100, 1), (A, 100, 2), (A, 200, 3), (A, 300, 4), (A, 300, 5), (F, 300, 4)]
    window = part(log_of(rows), 0, 5)
    # At the peak the two blocks of 300 are one group, larger than the others.
    assert [(row.size_bytes, row.count) for row in get("peak")(window).live] == [(300, 2), (200, 1), (100, 2)]
    held = get("unmatched")(window).held
    assert [(row.size_bytes, row.freed, row.first_event) for row in held] == [
        (300, "later", 3), (300, "never", 4), (100, "never", 0), (200, "never", 2),
    ]  # fmt: skip
