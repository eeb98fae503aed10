"""``memlens.diff`` on whole logs: how they are cut, what cannot be compared, and what is noted."""

from pathlib import Path

import pytest
from logs import HEADER, write_log

import memlens
from memlens.diffing.run import diff
from memlens.errors import AnchorError, NoEventsError

EXAMPLES = Path(__file__).parents[2] / "examples/logs"
PT, PIR = EXAMPLES / "case1_pt.log", EXAMPLES / "case1_pir.log"
KEPT = 3538944  # [1, 9216, 96] in float32, which the PIR run keeps


def test_one_window_of_each_log_names_the_free_that_head_lacks() -> None:
    found = diff(PT, PIR, start="START SOT_CALL_0", end="START SOT_CALL_1")
    (window,) = found.windows
    (finding,) = window.findings
    assert (finding.kind, finding.size_bytes, finding.count) == ("missing_free", KEPT, 1)
    assert window.d_remaining_bytes == KEPT == finding.d_remaining_bytes
    assert (found.series, found.by) == (False, None)
    text = PT.read_text().splitlines()
    assert finding.base is not None
    assert finding.base.free_line is not None
    assert text[finding.base.free_line - 1].endswith(f"Free {KEPT} bytes, ptr = 0x7fa26c000000")
    assert "Leave scope" in text[finding.base.free_line - 2]


def test_logs_with_one_family_of_anchors_are_cut_by_it_unasked() -> None:
    found = diff(PT, PIR)
    assert found.found_by
    assert found.series
    assert [w.name for w in found.windows] == ["(before)", *(f"SOT_CALL_{n}" for n in range(5))]
    by = diff(PT, PIR, by=found.by)
    assert not by.found_by
    assert [w.to_dict() for w in by.windows] == [w.to_dict() for w in found.windows]


def test_whole_compares_whole_logs_even_where_a_family_is_there() -> None:
    found = diff(PT, PIR, whole=True)
    assert [w.name for w in found.windows] == ["(whole log)"]
    assert found.windows[0].base.events == len(memlens.read(PT))


def test_two_steps_of_one_log_are_compared_and_the_log_is_read_once(tmp_path: Path) -> None:
    path = write_log(tmp_path, "a.log", "STEP 1", "+256@a", "-256@a", "STEP 2", "+256@b", "END")
    found = diff(path, path, base_start="STEP 1", head_start="STEP 2", base_end="STEP 2", head_end="END")
    (window,) = found.windows
    assert (window.base.name, window.head.name) == ("STEP 1", "STEP 2")
    assert [(f.kind, f.size_bytes) for f in window.findings] == [("missing_free", 256)]
    (head,) = [finding.head for finding in window.findings]
    assert head is not None
    assert head.freed == "never"


def test_windows_without_a_partner_are_told(tmp_path: Path) -> None:
    base = write_log(tmp_path, "base.log", "W 1", "+256@a", "W 2", "+256@b", "W 3", "+256@c")
    head = write_log(tmp_path, "head.log", "W 1", "+256@a", "W 3", "+256@b", "W 4", "+256@c")
    found = diff(base, head, by=r"W \d")
    assert [w.name for w in found.windows] == ["W 1", "W 3"]
    assert (found.base.unpaired, found.head.unpaired) == (("W 2",), ("W 4",))
    assert (found.base.windows, found.head.windows) == (3, 3)


def test_a_start_that_one_log_lacks_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    base = write_log(tmp_path, "base.log", "GO", "+256@a")
    head = write_log(tmp_path, "head.log", "GONE", "+256@a")
    with pytest.raises(AnchorError, match=r"head\.log"):
        diff(base, head, start="GO")


def test_a_log_without_blocks_cannot_be_compared(tmp_path: Path) -> None:
    base = write_log(tmp_path, "base.log", "+256@a")
    head = tmp_path / "head.log"
    head.write_text(f"{HEADER}Not found and reallocate 4194304(0x7f00), and remaining 0\n")
    with pytest.raises(NoEventsError, match=r"head\.log: only chunks were logged"):
        diff(base, head)


def test_what_only_one_log_knows_is_not_used_and_that_is_told(tmp_path: Path) -> None:
    asked = f"{HEADER}Allocate 100 bytes, aligned to 256, extra size 0"
    base = write_log(tmp_path, "base.log", asked, "+256@a", "-256@a")
    head = write_log(tmp_path, "head.log", "+256@a", "-256@a")
    found = diff(base, head)
    assert found.windows[0].same
    assert found.notes == (f"only {base} has requested sizes, so allocations were paired without them",)


def test_findings_over_all_windows_are_listed_by_what_they_do_to_one_peak_and_small_ones_take_no_place(
    tmp_path: Path,
) -> None:
    # In each of nine steps head has a temporary of 64 bytes more at its peak, and in the first of them one of 256 that it keeps.
    runs = []
    for name, more in (("base", []), ("head", ["+64@b"])):
        lines = []
        for k in range(9):
            kept = ["+256@c"] if more and k == 0 else []
            lines += [f"STEP {k} START", *kept, *more, "+512@a", "-512@a", *(f"-{row[1:]}" for row in more)]
        runs.append(write_log(tmp_path, f"{name}.log", *lines, "STEP 9 START"))
    found = diff(*runs, by=r"STEP (\d+)")
    rows = [(row.finding.size_bytes, row.windows, row.largest_d_peak_bytes) for row in found.repeated]
    assert rows == [(256, 1, 256), (64, 9, 64)]  # 9 × 64 bytes are at no peak together
    found = diff(*runs, by=r"STEP (\d+)", top=1, min_size=256)
    assert [row["finding"]["size_bytes"] for row in found.to_dict()["repeated"]] == [256]
    found = diff(*runs[::-1], by=r"STEP (\d+)", top=1, min_size=100)
    assert [row["finding"]["size_bytes"] for row in found.to_dict()["repeated"]] == [256]


def test_a_diff_is_a_table_a_row_a_window() -> None:
    found = diff(PT, PIR)
    frame = found.to_pandas()
    assert frame["name"].tolist() == [w.name for w in found.windows]
    assert frame["d_remaining_bytes"].tolist() == [w.d_remaining_bytes for w in found.windows]
