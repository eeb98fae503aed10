"""What a comparison shows to people, from hand-made results: golden copies, and the figures that decide."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import made_diffs as made
import pytest
from hypothesis import given
from hypothesis import strategies as st
from widths import check_widths

from memlens.diffing.finding import Member
from memlens.diffing.result import Approximation, Diff
from memlens.reports.diff import diff_blocks
from memlens.reports.markdown import render as render_markdown
from memlens.reports.terminal import render
from memlens.text import format_change, format_exact, format_explained, visible, width_of


def screen(diff: Diff, width: int | None = 80, **options: Any) -> str:
    """All that a comparison shows."""
    return render(diff_blocks(diff, **{"full": True, **options}), width=width)


@pytest.mark.parametrize("name", list(made.EVERY))
def test_a_comparison_looks_as_approved_and_says_the_same_at_every_width(
    golden: Callable[[str, str], None], name: str
) -> None:
    diff = made.EVERY[name]()
    golden(f"diff_{name}_80.txt", screen(diff))
    check_widths(lambda width: screen(diff, width))


def test_a_pipe_shows_every_column(golden: Callable[[str, str], None]) -> None:
    golden("diff_messy_pipe.txt", screen(made.messy(), None))


@pytest.mark.parametrize("name", list(made.EVERY))
def test_a_comparison_as_markdown_looks_as_approved(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"diff_{name}.md", render_markdown(diff_blocks(made.EVERY[name](), full=True)))


# --- one pair of windows ---


def test_case_1_names_its_missing_free_and_explains_all_of_it() -> None:
    text = screen(made.case1())
    assert "Explained  100.00% of Δremaining, by 1 finding\n" in text
    assert "Missing free: 3.38 MiB (3538944 B)\nbase frees it in the window, head does not\n" in text
    assert "Base    ALLOC line 65, FREE line 77\n" in text
    assert "Head    ALLOC line 64, freed later, FREE line 201\n" in text
    assert "Effect  +3.38 MiB of Δremaining (100.00%)\n" in text
    assert re.search(r"^Missing frees +\+3\.38 MiB\nSum +\+3\.38 MiB\nUnexplained +0 B$", text, re.MULTILINE)


def test_the_line_that_tells_the_runs_apart_is_marked_among_its_neighbours() -> None:
    lines = screen(made.case1(), None).splitlines()
    start = lines.index("base's log around this FREE:")
    shown = lines[start + 1 : start + 6]
    assert [line[:4] for line in shown] == ["  75", "  76", "> 77", "  78", "  79"]
    assert "Leave scope" in shown[1]
    assert shown[2].endswith("Free 3538944 bytes, ptr = 0x7fa26c000000")


@pytest.mark.parametrize(
    ("side", "said"),
    [
        (made.side(58, None, "never"), "ALLOC line 58, never freed"),
        (made.side(58, 2010, "later"), "ALLOC line 58, freed later, FREE line 2,010"),
        (made.side(None, 60), "FREE line 60"),
        (made.side(58, None, "later"), "ALLOC line 58, freed later"),
        (None, "has none like it"),
    ],
)
def test_the_fate_of_a_block_is_said_in_words(side: Any, said: str) -> None:
    assert f"Head    {said}\n" in screen(made.case1(head=side))


def test_blocks_alike_are_one_finding_with_a_count_and_the_places_of_the_others() -> None:
    members = tuple(Member(made.side(10 * n, 10 * n + 5), made.side(10 * n, None, "never")) for n in range(1, 13))
    text = screen(made.case1(count=12, members=members, base=members[0].base, head=members[0].head))
    assert "Missing free: 12 × 3.38 MiB (3538944 B) = 40.50 MiB" in text
    assert "FREE line 15 (the first of 12)" in text
    assert "base's FREE lines 25, 35, 45, 55, 65, 75 and 5 more" in text


def test_bytes_come_before_percent_and_a_percent_of_nothing_is_new() -> None:
    lines = {line.split()[0]: line.split() for line in screen(made.only_held()).splitlines() if line}
    assert lines["Remaining"] == ["Remaining", "0", "B", "3.38", "MiB", "+3.38", "MiB", "new"]
    lines = {line.split()[0]: line.split() for line in screen(made.case1()).splitlines() if line}
    assert lines["Remaining"][-3:] == ["+3.38", "MiB", "+100.00%"]
    assert lines["Frees"] == ["Frees", "2", "1", "-1", "-50.00%"]


def test_equal_windows_are_one_clear_line() -> None:
    text = screen(made.identical())
    assert "\nNo difference: every allocation has its partner" in text
    assert "Adding up" not in text


def test_no_difference_is_said_only_where_what_is_reserved_and_carried_in_is_equal_too() -> None:
    text = " ".join(screen(made.equal()).split())
    assert "No difference" not in text
    assert "The same work: every allocation has its partner" in text
    assert "The reserved peak differs by +3.38 MiB." in text
    base = made.figures("w", 1, 0, made.BLOCK, carried_in_bytes=made.BLOCK)
    head = made.figures("w", 1, 0, made.BLOCK, carried_in_bytes=3 * made.BLOCK)
    window = made.window("w", base, head, peak=made.peak(carried_in=2 * made.BLOCK))
    assert (window.alike, window.same) == (True, False)
    for found in (made.diff(window), made.diff(window, window, by="w")):
        text = " ".join(screen(found).split())
        assert "No difference" not in text
        assert "The same work" in text
        assert "+6.75 MiB" in text


def test_what_piles_up_until_the_work_is_done_is_one_line_with_its_total() -> None:
    text = " ".join(screen(made.piling()).split())
    # 30 × 3.375 MiB and 30 × 0.84375 MiB
    assert "Piling up head keeps 60 blocks, 126.56 MiB, until the work of the window is done, from line 104 on:" in text
    assert "30 × 3.38 MiB, 30 × 864.00 KiB; base frees the like sooner, or has none" in text
    assert "Late free: 30 × 3.38 MiB (3538944 B) = 101.25 MiB both runs free it, head only when the work" in text
    assert "both runs make up to 900 ALLOCs (1.32 GiB) between the one FREE and the other" in text


def test_a_factor_between_the_sizes_is_the_first_thing_said_and_what_is_left_is_explained() -> None:
    text = " ".join(screen(made.factored()).split())
    assert text.index("Factor nearly all sizes of head are those of base times 2.") < text.index("Peak ")
    assert "Explained 100.00% of Δremaining beside the factor, by 1 finding" in text
    assert "Effect +3.38 MiB of Δremaining beside the factor (100.00%)" in text
    assert "Factor between the sizes +6.75 MiB +10.12 MiB Sum +10.12 MiB +10.12 MiB" in text
    assert made.factored().to_dict()["factor"] == "2"


def test_the_peak_comes_first_and_the_rise_beside_it_where_something_was_carried_in() -> None:
    lines = [" ".join(line.split()) for line in screen(made.opening()).splitlines()]
    at = lines.index("Peak 16.88 MiB 23.62 MiB +6.75 MiB +40.00%")  # (2 + 3) and (4 + 3) blocks of 3.375 MiB
    assert lines[at + 1 : at + 5] == [
        "Rise 10.12 MiB 10.12 MiB 0 B",
        "Carried in 6.75 MiB 13.50 MiB +6.75 MiB +100.00%",
        "Remaining 3.38 MiB 3.38 MiB 0 B",
        "Live at the end 10.12 MiB 16.88 MiB +6.75 MiB +66.66%",
    ]
    assert "Explained 100.00% of Δpeak, by 2 findings" in lines
    assert "Rise" not in screen(made.case1())


def test_peaks_of_several_windows_are_never_added() -> None:
    row = replace(made.series().repeated[0], largest_d_peak_bytes=made.BLOCK, largest_window="SOT_CALL_9")
    found = replace(made.series(), repeated=(row,))
    text = screen(found, None)
    assert "Largest Δpeak" in text
    assert "SOT_CALL_9" in text
    values = row.to_dict()
    assert (values["largest_d_peak_bytes"], values["largest_window"]) == (made.BLOCK, "SOT_CALL_9")
    assert "d_peak_bytes" not in values


def test_threads_that_were_compared_each_on_its_own_are_told() -> None:
    found = made.moved_only()
    threads = (
        "Threads 4 threads of each run pair by what they do, and each is compared on its own, however they interleave"
    )
    assert threads not in " ".join(screen(found).split())
    found = replace(found, windows=(replace(found.windows[0], threads=4),))
    assert threads in " ".join(screen(found).split())


def test_the_same_work_in_another_order_is_no_difference() -> None:
    assert "No difference but the order: 2 blocks (6.75 MiB)" in screen(made.moved_only())


def test_temporaries_alone_are_no_difference_in_what_is_kept() -> None:
    found = made.finding("only_head", 512, count=3, fate="temporary", head=made.side(82, 83), context_of="head")
    base = made.figures("w", 1, 0, 4096)
    text = screen(made.diff(made.window("w", base, base, found, only_head_temporary_bytes=1536)))
    flat = " ".join(text.split())
    assert "No difference in what is kept: the runs differ in temporaries, 1.50 KiB in head only." in flat
    assert "Missing" not in text
    assert "Temporary, and only one run allocates it\n" in text


def test_what_cancels_out_is_told_although_nothing_is_left() -> None:
    found = (
        made.missing(4096),
        made.finding(
            "extra_free", 4096, d_remaining_bytes=-4096, base=made.side(1, None, "never"), head=made.side(1, 5)
        ),
    )
    base = made.figures("w", 1, 0, 4096)
    account = made.remaining(missing_free=4096, extra_free=4096)
    text = screen(made.diff(made.window("w", base, base, *found, remaining=account)))
    assert "Δremaining and Δpeak are 0 B: what differs adds up to nothing." in text
    assert "Missing free: 4.00 KiB (4096 B)" in text
    assert "Extra free: 4.00 KiB (4096 B)" in text
    assert re.search(r"^Missing frees +\+4\.00 KiB\nExtra frees +-4\.00 KiB\nSum +0 B$", text, re.MULTILINE)


def test_a_share_is_cut_and_never_rounded_up_to_all() -> None:
    size = 1_000_000_000
    left = made.remaining(missing_free=size - 1, d_unknown_free=-1)
    base, head = made.figures("w", 1, 0, size), made.figures("w", 1, size, size)
    text = screen(made.diff(made.window("w", base, head, made.missing(size - 1), remaining=left)))
    assert "Explained  99.99% of Δremaining, by 1 finding" in text
    assert "Frees without an ALLOC" in text


def test_no_share_is_given_where_none_makes_sense() -> None:
    # Findings of +5 MiB stand against unknown frees of 4 MiB: they are 500 % of what is left.
    mib = 1 << 20
    base, head = made.figures("w", 1, 0, mib), made.figures("w", 1, mib, mib)
    account = made.remaining(missing_free=5 * mib, d_unknown_free=4 * mib)
    text = screen(made.diff(made.window("w", base, head, made.missing(5 * mib), remaining=account)))
    assert "Explained  +5.00 MiB of Δremaining +1.00 MiB, by 1 finding" in text
    assert "Effect  +5.00 MiB of Δremaining\n" in text


def test_the_terms_of_both_sums_stand_side_by_side() -> None:
    text = screen(made.messy(), None)
    rows = {row[1]: (row[2], row[3]) for row in re.finditer(r"^(\S.*?) {2,}([-+0].*?) {2,}(\S.*)$", text, re.MULTILINE)}
    assert rows["Missing frees"] == ("+8.00 MiB", "0 B")
    assert rows["Extra frees"] == ("-4.00 MiB", "-4.00 MiB")
    assert rows["Only base allocates"] == ("-1.50 MiB", "0 B")
    assert rows["Sum"] == ("+2.00 MiB", "-3.00 MiB")
    assert rows["Unexplained"] == ("0 B", "0 B")


def test_an_approximation_is_said_in_words() -> None:
    flat = " ".join(screen(made.messy()).split())
    assert (
        "Approximate too large to be solved as a whole: 120,000 ALLOCs were aligned in 34 pieces, 512 of them" in flat
    )
    assert "costs at most 1.50 KiB more than the cheapest" in flat
    proved = replace(made.messy().windows[0], approximation=Approximation(9, 3, 0, 0))
    assert "Exact      9 ALLOCs were aligned in 3 pieces" in screen(made.diff(proved), None)


def test_doubts_of_a_log_stand_below_it_and_clean_logs_say_nothing() -> None:
    doubtful = replace(made.case1(), head=made.run("b.log", doubt="doubtful: torn lines; 98 events"))
    text = screen(doubtful)
    assert text.count("doubtful") == 1
    assert re.search(r"^Head +b\.log.*\n +doubtful: torn lines; 98 events\n", text, re.MULTILINE)
    assert "ok:" not in screen(made.case1())


@pytest.mark.parametrize(("top", "shown"), [(None, 5), (2, 2), (0, 0), (100, 12)])
def test_findings_left_out_are_counted(top: int | None, shown: int) -> None:
    text = screen(made.many(12), top=top)
    assert text.count("Missing free:") == shown
    assert (f"… and {12 - shown} more findings" in text) == (shown < 12)


def test_findings_come_largest_first_and_small_ones_may_be_left_out() -> None:
    text = screen(replace(made.many(12), min_size=10 << 10))
    assert re.findall(r"Missing free: (\d+)", text) == ["12", "11", "10"]
    assert "… and 9 more findings" in text
    assert "Explained  100.00% of Δremaining, by 12 findings" in text


def test_where_nothing_is_freed_differently_the_largest_block_of_one_run_has_its_lines() -> None:
    text = screen(made.only_held())
    assert "Held, and only one run allocates it\n" in text
    assert "head's log around this ALLOC:\n" in text
    assert "> 58  Alloc 3538944 bytes" in text


def test_the_first_late_frees_that_explain_the_peak_are_told_and_the_others_are_rows() -> None:
    mib = 1 << 20
    found = [
        made.finding("late_free", n * mib, d_peak_bytes=n * mib, base=made.side(9, 10 * n), head=made.side(9, 11 * n))
        for n in (5, 4, 3)
    ]
    found.append(made.finding("early_free", mib, d_peak_bytes=-mib, base=made.side(9, 50), head=made.side(9, 40)))
    base, head = made.figures("w", 1, 0, mib), made.figures("w", 1, 0, 12 * mib)
    account = made.peak(late_free=12 * mib, early_free=-mib)
    text = screen(made.diff(made.window("w", base, head, *found, peak=account)), None)
    assert finding_titles(text) == ["Late free: 5.00 MiB (5242880 B)", "Late free: 4.00 MiB (4194304 B)"]
    assert re.search(r"^freed late +3\.00 MiB +1 +3\.00 MiB +\+3\.00 MiB +30 +33$", text, re.MULTILINE)
    assert re.search(r"^freed early +1\.00 MiB +1 +1\.00 MiB +-1\.00 MiB +50 +40$", text, re.MULTILINE)


def finding_titles(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(r"(Missing|Extra|Late|Early) free: ", line)]


def test_blocks_at_one_peak_say_whose_peak_it_is() -> None:
    found = [
        made.finding("elsewhere", 1024, count=2, d_peak_bytes=effect, base=made.side(1, 9), head=made.side(2, 9))
        for effect in (2048, -2048, 0)
    ]
    base = made.figures("w", 1, 0, 4096)
    text = screen(made.diff(made.window("w", base, base, *found)))
    assert re.findall(r"^(\w+) +1\.00 KiB ", text, re.MULTILINE) == ["head", "base", "either"]


def test_frees_without_an_alloc_alone_are_explained_by_nothing() -> None:
    base, head = made.figures("w", 1, 0, 0), made.figures("w", 1, -1024, 0)
    text = screen(made.diff(made.window("w", base, head, remaining=made.remaining(d_unknown_free=1024))))
    assert "Explained  0.00% of Δremaining, by 0 findings" in text
    assert re.search(r"^Frees without an ALLOC +-1\.00 KiB$", text, re.MULTILINE)


def test_a_late_free_is_told_by_its_effect_on_the_peak() -> None:
    text = screen(made.late())
    assert "Explained  100.00% of Δpeak, by 1 finding" in text
    assert "Late free: 2 × 3.38 MiB (3538944 B) = 6.75 MiB" in text
    assert "Effect       +6.75 MiB of Δpeak (100.00%)" in text
    assert "the tensor asked for 3538940 B" in " ".join(text.split())


# --- a series ---


def test_a_series_says_where_the_runs_part_and_what_repeats() -> None:
    text = screen(made.series(), None)
    flat = " ".join(text.split())
    assert r"25 pairs of windows by START (SOT_CALL_\d+), a family of lines that both logs have" in flat
    assert "only in base: SOT_CALL_99 only in head: EXTRA_0," in flat
    assert "EXTRA_5 and 2 more" in flat
    assert "Parting the runs part first in [red]STEP[/]" in flat
    assert "(base line 300, head line 307): Δremaining +3.38 MiB, Δrise 0 B" in flat
    # 23 of 25 windows keep one block each, and every fifth window one more: 28 in all.
    assert "Together Δremaining +94.50 MiB; 23 of 25 windows differ" in flat
    assert re.search(r"^3\.38 MiB  kept by head +23 of 25 +28  \+94\.50 MiB", text, re.MULTILINE)


def test_windows_come_by_their_difference_and_the_worst_one_is_told_in_full() -> None:
    text = screen(made.series(), None, top=3)
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("SOT_CALL_")]
    assert rows == ["SOT_CALL_5", "SOT_CALL_10", "SOT_CALL_15", "SOT_CALL_5"]
    assert "… and 20 more differing windows\n" in text
    assert "\nSOT_CALL_5  differs most\n" in text
    assert re.search(r"^\[red\]STEP.*  is where the runs part first$", text, re.MULTILINE)
    assert "Missing free: 2 × 3.38 MiB (3538944 B) = 6.75 MiB" in text


def test_a_series_without_any_difference_is_one_clear_line() -> None:
    same = made.series(2)
    text = screen(same)
    assert "No difference: all 2 pairs of windows are the same on both sides.\n" in text
    assert "differs most" not in text
    one = screen(replace(same, windows=same.windows[:1], found_by=False))
    assert "No difference: the one pair of windows is the same on both sides.\n" in one


def test_a_series_of_no_windows_at_all_is_shown_without_a_failure() -> None:
    assert "0 pairs of windows" in screen(replace(made.series(0), windows=()))


# --- any text, any figure ---

any_text = st.text(st.characters(codec=None), max_size=60)


@given(any_text, any_text, any_text, st.sampled_from([None, 45, 80]))
def test_text_of_a_log_cannot_act_on_the_terminal(name: str, owner: str, line: str, width: int | None) -> None:
    lines = made.context(77, line, owner, name)
    diff = replace(made.case1(name, owner=owner, freed_by=owner, context=lines), notes=(line,))
    text = screen(diff, width)
    assert visible(text.replace("\n", "")) == text.replace("\n", "")
    assert width is None or all(width_of(row) <= width for row in text.splitlines())


@given(st.integers(-(2**62), 2**62), st.integers(0, 2**62), st.integers(-(2**62), 2**62), st.integers(0, 2**62))
def test_every_pair_of_figures_fits_eighty_columns(old: int, old_peak: int, new: int, new_peak: int) -> None:
    counts = old_peak >> 22, new_peak >> 22  # up to 10 ** 12 allocations
    sides = (
        made.figures("w", 1, old, old_peak, allocs=counts[0]),
        made.figures("w", 1, new, new_peak, allocs=counts[1]),
    )
    text = screen(made.diff(made.window("w", *sides, made.missing(abs(new) or 1))))
    assert all(width_of(row) <= 80 for row in text.splitlines())


@given(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62))
def test_a_share_says_all_only_of_all_and_nothing_only_of_nothing(part: int, whole: int) -> None:
    share = format_explained(part, whole)
    assert (share == "100.00%") == (part == whole != 0)
    assert (share == "0.00%") == (part == 0 != whole)


@pytest.mark.parametrize(
    ("base", "head", "said"),
    [
        (100, 150, "+50.00%"),
        (3, 5, "+66.66%"),
        (100, 0, "-100.00%"),
        (10**9, 1, "-99.99%"),
        (10**9, 10**9 + 1, "+<0.01%"),
        (0, 5, "new"),
        (5, 5, ""),
        (0, 0, ""),
        (-5, 5, ""),
        (1, 12_345, "+1,234,400%"),
    ],
)
def test_a_change_in_percent_is_cut_and_not_rounded(base: int, head: int, said: str) -> None:
    assert format_change(base, head) == said


@pytest.mark.parametrize(("size", "said"), [(640, "640 B"), (3_538_944, "3.38 MiB (3538944 B)"), (0, "0 B")])
def test_a_size_that_names_blocks_is_exact(size: int, said: str) -> None:
    assert format_exact(size) == said


def test_an_output_that_knows_ascii_only_gets_ascii_only() -> None:
    text = render(diff_blocks(made.late(), full=True), ascii_only=True)
    assert text.isascii()
    assert "2 x 3.38 MiB" in text
    assert "100.00% of dpeak" in text
