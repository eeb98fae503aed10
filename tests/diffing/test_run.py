"""``memlens.diff`` on whole logs: how they are cut, what cannot be compared, and what is noted."""

from pathlib import Path
from typing import Any

import pytest

import memlens
from memlens.diffing.run import diff, diff_windows
from memlens.errors import AnchorError, MemlensError, NoEventsError, UsageError

EXAMPLES = Path(__file__).parents[2] / "examples/logs"
PT, PIR = EXAMPLES / "case1_pt.log", EXAMPLES / "case1_pir.log"
KEPT = 3538944  # [1, 9216, 96] in float32, which the PIR run keeps

GLOG = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] "


def log(folder: Path, name: str, *lines: str) -> Path:
    """A log whose lines are anchors, or ``+size@address`` and ``-size@address``."""
    text = []
    for line in lines:
        if line[0] in "+-":
            size, _, addr = line[1:].partition("@")
            text.append(f"{GLOG}{'Alloc' if line[0] == '+' else 'Free'} {size} bytes, ptr = 0x{addr}")
        else:
            text.append(line)
    path = folder / name
    path.write_text("\n".join(text) + "\n")
    return path


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


def test_the_lines_around_the_free_are_as_many_as_asked_for() -> None:
    for each_side in (0, 1, 5):
        window = diff(PT, PIR, start="START SOT_CALL_0", end="START SOT_CALL_1", context=each_side).windows[0]
        context = window.findings[0].context
        assert len(context) == 2 * each_side + 1
        assert [line.is_event for line in context].index(True) == each_side


def test_logs_with_one_family_of_anchors_are_cut_by_it_unasked() -> None:
    found = diff(PT, PIR)
    assert found.found_by
    assert found.series
    assert [w.name for w in found.windows] == ["(before)", *(f"SOT_CALL_{n}" for n in range(5))]
    by = diff(PT, PIR, by=found.by)
    assert not by.found_by
    assert [w.to_dict() for w in by.windows] == [w.to_dict() for w in found.windows]


def test_what_is_kept_in_two_windows_is_one_row() -> None:
    found = diff(PT, PIR)
    kept = [row for row in found.repeated if row.finding.kind == "missing_free"]
    assert [(row.windows, row.count, row.total_bytes, row.first_window) for row in kept] == [
        (2, 2, 2 * KEPT, "SOT_CALL_0")
    ]
    assert found.parting is not None
    assert found.parting.name == "SOT_CALL_0"


def test_whole_compares_whole_logs_even_where_a_family_is_there() -> None:
    found = diff(PT, PIR, whole=True)
    assert [w.name for w in found.windows] == ["(whole log)"]
    assert found.windows[0].base.events == len(memlens.read(PT))


def test_two_steps_of_one_log_are_compared_and_the_log_is_read_once(tmp_path: Path) -> None:
    path = log(tmp_path, "a.log", "STEP 1", "+256@a", "-256@a", "STEP 2", "+256@b", "END")
    found = diff(path, path, base_start="STEP 1", head_start="STEP 2", base_end="STEP 2", head_end="END")
    (window,) = found.windows
    assert (window.base.name, window.head.name) == ("STEP 1", "STEP 2")
    assert [(f.kind, f.size_bytes) for f in window.findings] == [("missing_free", 256)]
    (head,) = [finding.head for finding in window.findings]
    assert head is not None
    assert head.freed == "never"


def test_a_start_of_one_run_alone_takes_the_place_of_the_common_one(tmp_path: Path) -> None:
    base = log(tmp_path, "base.log", "+1@9", "GO", "+256@a")
    head = log(tmp_path, "head.log", "+2@9", "+3@8", "BEGIN 7", "+256@a")
    found = diff(base, head, start="GO", head_start_regex=r"BEGIN \d")
    assert (found.windows[0].base.start_line, found.windows[0].head.start_line) == (2, 3)
    assert found.windows[0].alike
    assert not found.windows[0].same  # base carries in 1 byte and head 5
    assert (found.windows[0].d_carried_in_bytes, found.windows[0].peak.carried_in_bytes) == (4, 4)


def test_each_run_has_its_own_count_of_starts(tmp_path: Path) -> None:
    base = log(tmp_path, "base.log", "GO", "+256@a", "GO", "+512@b")
    head = log(tmp_path, "head.log", "GO", "+512@a", "GO", "+1@b")
    found = diff(base, head, start="GO", base_nth=2, head_nth=1, end="GO")
    assert (found.windows[0].base.start_line, found.windows[0].head.start_line) == (3, 1)
    assert found.windows[0].alike
    assert [note for note in found.notes if "no end anchor closes it" in note]  # base's second GO is the last one


def test_windows_without_a_partner_are_told(tmp_path: Path) -> None:
    base = log(tmp_path, "base.log", "W 1", "+256@a", "W 2", "+256@b", "W 3", "+256@c")
    head = log(tmp_path, "head.log", "W 1", "+256@a", "W 3", "+256@b", "W 4", "+256@c")
    found = diff(base, head, by=r"W \d")
    assert [w.name for w in found.windows] == ["W 1", "W 3"]
    assert (found.base.unpaired, found.head.unpaired) == (("W 2",), ("W 4",))
    assert (found.base.windows, found.head.windows) == (3, 3)


def test_no_window_with_a_partner_is_an_error_that_names_both_sides(tmp_path: Path) -> None:
    base = log(tmp_path, "base.log", "W 1", "+256@a")
    head = log(tmp_path, "head.log", "W 2", "+256@a")
    with pytest.raises(AnchorError, match=r"W 1.*W 2"):
        diff(base, head, by=r"W \d")


def test_a_start_that_one_log_lacks_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    base = log(tmp_path, "base.log", "GO", "+256@a")
    head = log(tmp_path, "head.log", "GONE", "+256@a")
    with pytest.raises(AnchorError, match=r"head\.log"):
        diff(base, head, start="GO")


def test_a_log_without_blocks_cannot_be_compared(tmp_path: Path) -> None:
    base = log(tmp_path, "base.log", "+256@a")
    head = tmp_path / "head.log"
    head.write_text(f"{GLOG}Not found and reallocate 4194304(0x7f00), and remaining 0\n")
    with pytest.raises(NoEventsError, match=r"head\.log: only chunks were logged"):
        diff(base, head)


def test_what_only_one_log_knows_is_not_used_and_that_is_told(tmp_path: Path) -> None:
    asked = f"{GLOG}Allocate 100 bytes, aligned to 256, extra size 0"
    base = log(tmp_path, "base.log", asked, "+256@a", "-256@a")
    head = log(tmp_path, "head.log", "+256@a", "-256@a")
    found = diff(base, head)
    assert found.windows[0].same
    assert found.notes == (f"only {base} has requested sizes, so allocations were paired without them",)


def test_equal_sizes_of_unequal_requests_do_not_pair(tmp_path: Path) -> None:
    ask = "{}Allocate {} bytes, aligned to 256, extra size 0"
    base = log(tmp_path, "base.log", ask.format(GLOG, 100), "+256@a", ask.format(GLOG, 200), "+256@b", "-256@b")
    head = log(tmp_path, "head.log", ask.format(GLOG, 200), "+256@a", ask.format(GLOG, 100), "+256@b", "-256@b")
    (window,) = diff(base, head).windows
    # By size alone nothing would differ. By request the one that base holds can only pair with the one that head frees, or the
    # other way round: 256 for that pair, 256 for what is held alone, 128 for what is temporary and alone.
    assert window.cost_bytes == 256 + 256 + 128


@pytest.mark.parametrize(
    "arguments",
    [
        {"whole": True, "start": "x"},
        {"by": "x", "start": "y"},
        {"by": "x", "base_start": "y"},
        {"context": -1},
        {"start": "x", "start_regex": "y"},
    ],
)
def test_arguments_that_make_no_sense_together_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        diff(PT, PIR, **arguments)


def test_a_window_is_compared_with_a_window_only() -> None:
    window = memlens.read(PT).whole
    with pytest.raises(UsageError, match="window"):
        diff(window, PIR)
    with pytest.raises(UsageError, match="cut already"):
        diff(window, window, start="x")


def test_an_unreadable_log_is_named(tmp_path: Path) -> None:
    with pytest.raises(MemlensError, match="nowhere"):
        diff(PT, tmp_path / "nowhere.log")


def test_a_block_that_head_frees_later_and_one_that_it_never_frees_are_two_findings(tmp_path: Path) -> None:
    blocks = "+256@1", "+256@2"
    base = log(tmp_path, "base.log", "START A", *blocks, "-256@1", "-256@2", "START B", "+64@9", "START C")
    head = log(tmp_path, "head.log", "START A", *blocks, "START B", "+64@9", "-256@1", "START C")
    (window, *_) = diff(base, head, by="START ([A-C])").windows
    assert [(f.kind, f.count, f.head and f.head.freed) for f in window.findings] == [
        ("missing_free", 1, "later"),
        ("missing_free", 1, "never"),
    ]
    (same, *_) = diff(
        base, log(tmp_path, "never.log", "START A", *blocks, "START B", "+64@9", "START C"), by="START ([A-C])"
    ).windows
    assert [(f.kind, f.count) for f in same.findings] == [("missing_free", 2)]


def test_no_pairs_are_no_diffs() -> None:
    assert diff_windows([]) == []


def test_progress_counts_the_bytes_of_both_logs() -> None:
    seen: list[int] = []
    diff(PT, PIR, progress=seen.append)
    assert seen[-1] == PT.stat().st_size + PIR.stat().st_size
    assert seen == sorted(seen)


def test_a_diff_is_a_table_a_row_a_window() -> None:
    found = diff(PT, PIR)
    frame = found.to_pandas()
    assert frame["name"].tolist() == [w.name for w in found.windows]
    assert frame["d_remaining_bytes"].tolist() == [w.d_remaining_bytes for w in found.windows]


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
        runs.append(log(tmp_path, f"{name}.log", *lines, "STEP 9 START"))
    found = diff(*runs, by=r"STEP (\d+)")
    rows = [(row.finding.size_bytes, row.windows, row.largest_d_peak_bytes) for row in found.repeated]
    assert rows == [(256, 1, 256), (64, 9, 64)]  # 9 × 64 bytes are at no peak together
    found = diff(*runs, by=r"STEP (\d+)", top=1, min_size=256)
    assert [row["finding"]["size_bytes"] for row in found.to_dict()["repeated"]] == [256]
    found = diff(*runs[::-1], by=r"STEP (\d+)", top=1, min_size=100)
    assert [row["finding"]["size_bytes"] for row in found.to_dict()["repeated"]] == [256]
