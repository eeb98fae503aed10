"""What the figures of small, readable logs are, by arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memlens.analyzers import get
from memlens.analyzers.peak import LiveGroup, Peak
from memlens.analyzers.places import YEAR_US
from memlens.errors import UsageError
from memlens.events import Kind, Lifetimes
from memlens.log import Log
from memlens.windows.windows import Window

A, F, R, X = Kind.ALLOC, Kind.FREE, Kind.RESERVE, Kind.RELEASE


def log_of(rows: list[tuple[Kind, int, int]], **columns: Any) -> Log:
    """A log whose pairs are told by addresses that are used once."""
    log = Log.from_rows(rows, **columns)
    partner = np.full(len(rows), -1, np.int32)
    for i, (kind, _, addr) in enumerate(rows):
        for j, (other, _, same) in enumerate(rows[i:], i):
            if kind == A and other == F and addr == same:
                partner[i], partner[j] = j, i
    log.__dict__["lifetimes"] = Lifetimes(partner, np.zeros(0, np.int64))
    return log


def part(log: Log, lo: int = 0, hi: int | None = None) -> Window:
    return Window(log, "part", lo, len(log) if hi is None else hi, 0, 0, 1, 1)


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


def test_at_most_a_hundred_lives_are_kept_and_they_are_the_right_ones() -> None:
    # GIVEN 150 blocks, born in order and freed in reverse order, so that the first lives longest
    rows = [(A, 10, k) for k in range(150)] + [(F, 10, k) for k in reversed(range(150))]
    summary = get("lifetimes")(part(log_of(rows)))
    assert [row.alloc_event for row in summary.longest] == list(range(100))
    assert [row.alloc_event for row in summary.wasteful] == list(range(100))
    assert [row.meanwhile_bytes for row in summary.wasteful[:2]] == [1490, 1480]


def test_windows_of_two_logs_are_refused() -> None:
    with pytest.raises(ValueError, match="one log"):
        get("remaining").many([part(log_of([])), part(log_of([]))])


class TestResults:
    """What all results can do."""

    peak = Peak(9, 9, 0, 1, 12, None, (LiveGroup(4, 2, 8), LiveGroup(1, 1, 1)))

    def test_tables_are_cut_to_the_rows_wanted_and_say_how_many_are_left_out(self) -> None:
        plain = self.peak.to_dict(top=1)
        assert plain["live"] == [{"size_bytes": 4, "count": 2, "total_bytes": 8, "owner": None, "holder": None}]
        assert plain["live_left_out"] == 1
        assert "live_left_out" not in self.peak.to_dict(top=2)
        assert "live" not in self.peak.to_dict(top=0)

    def test_a_result_made_by_hand_equals_one_that_was_worked_out(self) -> None:
        log = log_of([(A, 4, 1), (A, 4, 2)], line=np.array([3, 5]))
        assert get("peak")(part(log)) == Peak(8, 8, None, 1, 5, None, (LiveGroup(4, 2, 8),))

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
        assert list(get("peak")(window).to_pandas().columns) == [
            "size_bytes",
            "count",
            "total_bytes",
            "owner",
            "holder",
        ]
        assert "first_alloc_line" in get("unmatched")(window).to_pandas("unknown").columns
        assert get("remaining")(window).to_pandas()["live_bytes"].tolist() == [0]

    def test_a_table_that_is_not_there_is_a_usage_error(self) -> None:
        pytest.importorskip("pandas")
        with pytest.raises(UsageError, match="no table 'held'"):
            self.peak.to_pandas("held")
