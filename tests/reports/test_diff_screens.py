"""What a comparison shows to people, from hand-made results: one screen where nothing is asked for, all there is otherwise."""

from __future__ import annotations

import re
from collections.abc import Callable

import made_diffs as made
import pytest
from answers import replace
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many
from widths import check_widths

from memlens.diffing.finding import Member
from memlens.diffing.result import Diff
from memlens.reports.blocks import brief
from memlens.reports.diff import diff_blocks
from memlens.reports.markdown import render as render_markdown
from memlens.reports.terminal import render
from memlens.text import format_exact, format_explained, visible, width_of

ROWS = 40
any_text = st.text(st.characters(codec=None), max_size=300)


def screen(diff: Diff, width: int | None = 80) -> str:
    """A comparison where nothing is asked for."""
    return render(diff_blocks(diff), width=width)


def full(diff: Diff, width: int | None = 80, top: int | None = None) -> str:
    """All that it shows."""
    return render(diff_blocks(diff, full=True, top=top), width=width)


def labels(text: str) -> dict[str, str]:
    """What stands behind each label at the margin, lines joined."""
    flat = re.sub(r"\n +", " ", text)
    return {row[1]: row[2] for row in re.finditer(r"^(\w+(?: \w+)?) {2,}(.*)$", flat, re.MULTILINE)}


@pytest.mark.parametrize("name", ["case1", "hostile"])
def test_one_screen_looks_as_approved(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"diff_screen_{name}_80.txt", screen(made.EVERY[name]()))


def test_a_comparison_as_markdown_looks_as_approved(golden: Callable[[str, str], None]) -> None:
    golden("diff_messy.md", render_markdown(diff_blocks(made.messy(), full=True)))


@pytest.mark.parametrize("name", list(made.EVERY))
def test_the_verdict_comes_first_and_every_width_says_the_same(name: str) -> None:
    diff = made.EVERY[name]()
    text = screen(diff)
    assert len(text.splitlines()) <= ROWS
    assert " ".join(text.partition("\n\n")[0].split()) == visible(diff.verdict)
    assert render(brief(diff_blocks(diff))) == f"{visible(diff.verdict)}\n"
    check_widths(lambda width: screen(diff, width))
    check_widths(lambda width: full(diff, width))


# --- one screen ---


@settings(max_examples=many(40))
@given(any_text, any_text, any_text, st.integers(1, 60))
def test_no_text_of_a_log_makes_it_longer(name: str, owner: str, line: str, count: int) -> None:
    diff = made.case1(name, owner=owner, freed_by=owner, context=made.context(77, *[line] * 9))
    sides = [made.run(f"{name}.log", count, doubt=f"doubtful: {line}", unpaired=(name,) * count) for _ in range(2)]
    diff = replace(diff, base=sides[0], head=sides[1], notes=(line,) * count)
    assert len(screen(diff).splitlines()) <= ROWS
    many = replace(made.series(), base=sides[0], head=sides[1], notes=(line,) * count, by=name)
    assert len(screen(many).splitlines()) <= ROWS


def test_windows_that_cost_come_before_those_that_save_and_alike_ones_are_one_row() -> None:
    """Windows 1 to 10: three keep one block more each, one keeps five fewer, one rises by two blocks, the others are equal."""
    windows = []
    for number in range(1, 11):
        left, rise = {3: (1, 0), 4: (1, 0), 5: (1, 0), 7: (-5, 0), 9: (0, 2)}.get(number, (0, 0))
        base = made.figures(f"STEP {number}", 100 * number, 6 * made.BLOCK, 9 * made.BLOCK)
        head = made.figures(f"STEP {number}", 100 * number, (6 + left) * made.BLOCK, (9 + rise) * made.BLOCK)
        account = made.remaining(missing_free=left * made.BLOCK)
        cost = abs(left) * made.BLOCK + rise
        windows.append(made.window(head.name, base, head, remaining=account, cost_bytes=cost))
    rows = [
        line.split("  ")[0] for line in screen(made.diff(*windows, by="STEP")).splitlines() if line.startswith("STEP")
    ]
    assert rows == ["STEP 3 to STEP 5", "STEP 9", "STEP 7"]


def test_a_series_of_which_nothing_is_judged_has_a_verdict_too() -> None:
    windows = tuple(replace(window, judged=False) for window in made.series().windows)
    for count in (0, 1, 3, 25):
        diff = replace(made.series(), windows=windows[:count], repeated=())
        assert diff.verdict.startswith("No window is judged; both peak at 10.12 MiB. " if count else "No window of one")
        assert len(screen(diff).splitlines()) <= ROWS
        assert f"{count} pair" in full(diff)


def test_where_runs_share_little_no_finding_is_told_as_the_cause() -> None:
    diff = made.little()
    assert (diff.shares_little, diff.to_dict()["factor"]) == (True, "2")
    assert "base times 2 (" in diff.answer.sentences[1]
    text = screen(diff)
    assert "log around" not in text
    assert re.search(r"^temporary in head +6\.75 MiB +3 +\+20\.25 MiB$", text, re.MULTILINE)


# --- one pair of windows ---


def test_blocks_alike_are_one_finding_with_a_count_and_the_places_of_the_others() -> None:
    members = tuple(Member(made.side(10 * n, 10 * n + 5), made.side(10 * n, None, "never")) for n in range(1, 13))
    text = full(made.case1(count=12, members=members, base=members[0].base, head=members[0].head))
    assert "Missing free: 12 × 3.38 MiB (3538944 B) = 40.50 MiB" in text
    assert labels(text)["Base"].endswith("FREE line 15 (the first of 12)")
    assert labels(text)["Also"] == "base's FREE lines 25, 35, 45, 55, 65, 75 and 5 more"


def test_a_late_free_is_told_by_each_runs_own_peak() -> None:
    shown = labels(full(made.late(), None))
    assert shown["Explained"] == "100.00% of Δpeak, by 1 finding"
    assert shown["Freed"] == "22 allocations after head's peak, 25 before base's"
    assert shown["Effect"] == "+6.75 MiB of Δpeak (100.00%)"
    assert "the tensor asked for 3538940 B" in full(made.late(), None)


def test_no_difference_is_said_only_where_what_is_reserved_and_carried_in_is_equal_too() -> None:
    assert made.identical().verdict.startswith("No difference: ")
    base = made.figures("w", 1, 0, made.BLOCK, carried_in_bytes=made.BLOCK)
    head = made.figures("w", 1, 0, made.BLOCK, carried_in_bytes=3 * made.BLOCK)
    window = made.window("w", base, head, peak=made.peak(carried_in=2 * made.BLOCK))
    assert (window.alike, window.same) == (True, False)
    assert made.equal().verdict.startswith("The same work: ")
    assert made.equal().verdict.endswith("he reserved peak differs by +3.38 MiB.")
    found = made.diff(window)
    assert "No difference" not in found.verdict
    assert "+6.75 MiB of that was carried in from before" in found.verdict


@pytest.mark.parametrize(("top", "in_full", "rows"), [(None, 5, 5), (2, 2, 2), (100, 12, 0)])
def test_findings_left_out_are_counted(top: int | None, in_full: int, rows: int) -> None:
    text = full(made.many(12), top=top)
    assert text.count("Missing free:") == in_full
    assert len(re.findall(r"^kept by head ", text, re.MULTILINE)) == rows
    left = 12 - in_full - rows
    assert (f"… and {left} more findings" in text) == (left > 0)


def test_findings_come_largest_first_and_small_ones_may_be_left_out() -> None:
    text = full(replace(made.many(12), min_size=10 << 10))
    assert re.findall(r"Missing free: (\d+)", text) == ["12", "11", "10"]
    assert "… and 9 more findings" in text
    assert labels(text)["Explained"] == "100.00% of Δremaining, by 12 findings"


# --- a series ---


def test_a_series_says_where_the_runs_part_and_what_repeats() -> None:
    text = full(made.series(), None)
    shown = labels(text)
    assert shown["Windows"] == r"25 pairs of windows by START (SOT_CALL_\d+), a family of lines that both logs have"
    assert shown["Unpaired"].startswith("only in base: SOT_CALL_99 ")
    assert shown["Parting"].startswith("the runs part first in [red]STEP[/]")
    assert shown["Parting"].endswith("(base line 300, head line 307): Δremaining +3.38 MiB, Δrise 0 B")
    # 23 of 25 windows keep one block each, and every fifth window one more: 28 in all.
    assert shown["Together"] == "Δremaining +94.50 MiB; 23 of 25 windows differ"
    assert re.search(r"^3\.38 MiB  kept by head +23 of 25 +28  \+94\.50 MiB", text, re.MULTILINE)


def test_peaks_of_several_windows_are_never_added() -> None:
    row = replace(made.series().repeated[0], largest_d_peak_bytes=made.BLOCK, largest_window="SOT_CALL_9")
    text = full(replace(made.series(), repeated=(row,)), None)
    assert "Largest Δpeak" in text
    assert "SOT_CALL_9" in text
    values = row.to_dict()
    assert (values["largest_d_peak_bytes"], values["largest_window"]) == (made.BLOCK, "SOT_CALL_9")
    assert "d_peak_bytes" not in values


# --- any text, any figure ---


@given(any_text, any_text, any_text, st.sampled_from([None, 45, 80]))
def test_text_of_a_log_cannot_act_on_the_terminal(name: str, owner: str, line: str, width: int | None) -> None:
    lines = made.context(77, line, owner, name)
    diff = replace(made.case1(name, owner=owner, freed_by=owner, context=lines), notes=(line,))
    text = full(diff, width)
    assert visible(text.replace("\n", "")) == text.replace("\n", "")
    assert width is None or all(width_of(row) <= width for row in text.splitlines())


@given(st.integers(-(2**62), 2**62), st.integers(0, 2**62), st.integers(-(2**62), 2**62), st.integers(0, 2**62))
def test_every_pair_of_figures_fits_eighty_columns(old: int, old_peak: int, new: int, new_peak: int) -> None:
    counts = old_peak >> 22, new_peak >> 22  # up to 10 ** 12 allocations
    sides = (
        made.figures("w", 1, old, old_peak, allocs=counts[0]),
        made.figures("w", 1, new, new_peak, allocs=counts[1]),
    )
    text = full(made.diff(made.window("w", *sides, made.missing(abs(new) or 1))))
    assert all(width_of(row) <= 80 for row in text.splitlines())


@given(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62))
def test_a_share_says_all_only_of_all_and_nothing_only_of_nothing(part: int, whole: int) -> None:
    share = format_explained(part, whole)
    assert (share == "100.00%") == (part == whole != 0)
    assert (share == "0.00%") == (part == 0 != whole)


@pytest.mark.parametrize(("size", "words"), [(640, "640 B"), (3_538_944, "3.38 MiB (3538944 B)"), (0, "0 B")])
def test_a_size_that_names_blocks_is_exact(size: int, words: str) -> None:
    assert format_exact(size) == words
