"""What a comparison of many runs shows to people: golden copies, and what holds at every width."""

from __future__ import annotations

import re
from collections.abc import Callable

import made_comparisons as made
import pytest
from widths import check_widths

from memlens.comparing.layout import choose_metrics
from memlens.comparing.result import Comparison
from memlens.reports.compare import compare_blocks
from memlens.reports.compare.tables import scale_of, tables_of
from memlens.reports.markdown import render as render_markdown
from memlens.reports.terminal import SCREEN, render
from memlens.text import width_of

SCREENS = ("case_2", "case_3", "failures", "hostile", "series")
RANKS = ("ranks_healthy", "ranks_loud", "ranks_hostile", "ranks_unreadable")
(PEAK,) = choose_metrics(["peak"])


def screen(comparison: Comparison, width: int | None = 80) -> str:
    return render(compare_blocks(comparison, full=True), width=width)


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_approved_and_says_the_same_at_every_width(
    golden: Callable[[str, str], None], name: str
) -> None:
    comparison = getattr(made, name)()
    if name in ("case_3", "hostile"):
        golden(f"compare_{name}_80.txt", screen(comparison))
    if name == "failures":
        golden("compare_failures.md", render_markdown(compare_blocks(comparison, full=True)))
    check_widths(lambda width: screen(comparison, width))


@pytest.mark.parametrize("name", RANKS)
def test_the_ranks_of_a_job_are_one_screen_and_say_the_same_at_every_width(
    golden: Callable[[str, str], None], name: str
) -> None:
    comparison = getattr(made, name)()
    text = render(compare_blocks(comparison), width=80)
    assert text.count("\n") <= SCREEN.rows
    assert all(width_of(line) <= 80 for line in text.splitlines())
    if name == "ranks_loud":
        golden("compare_ranks_loud_80.txt", text)
    check_widths(lambda width: screen(comparison, width))


# --- the published tables ---


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each row of a Markdown table by its first cell."""
    rows = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows}


# --- what is no figure ---


def test_what_has_no_figure_is_said_in_words_and_never_as_0() -> None:
    rows = rows_of(render_markdown(compare_blocks(made.failures(), full=True)))
    peaks = {name: cells[0].strip("\\*") for name, cells in rows.items()}
    assert peaks["oom.log"] == "OOM 256.00 MiB"
    assert peaks["oom_unsaid.log"] == "OOM"
    assert (peaks["gone.log"], peaks["empty.log"], peaks["short.log"]) == ("missing", "unreadable", "no window")
    assert rows["brave.log"][6] == "not known"  # its times are not known
    assert "120.50\\*" in render_markdown(compare_blocks(made.failures(), full=True))  # doubtful
    assert rows["oom.log"][1] == "now OOM"


# --- units ---


@pytest.mark.parametrize(
    ("figures", "heading", "texts"),
    [
        ([8_824 << 20, 512, 0], "Peak (MiB)", ["8824.00", "512 B", "0.00"]),
        ([1 << 20, -(1 << 19)], "Peak (MiB)", ["1.00", "-0.50"]),
        ([(1 << 20) - 1, 3], "Peak (KiB)", ["1024.00", "3 B"]),
        ([640, 1023], "Peak (B)", ["640", "1023"]),
        ([], "Peak (B)", []),
    ],
)
def test_a_column_has_one_unit_and_nothing_in_it_looks_like_0(
    figures: list[int], heading: str, texts: list[str]
) -> None:
    scale = scale_of(PEAK, figures)
    assert scale.heading == heading
    assert [scale.text(figure) for figure in figures] == texts


# --- width, order, harm ---


def test_a_narrow_terminal_leaves_out_by_rule_and_says_what() -> None:
    text = screen(made.case_2(), 80)
    header = next(line for line in text.splitlines() if line.startswith("Run "))
    assert re.split(r"  +", header) == ["Run", "Peak (MiB)", "Δpeak", "Δpeak %", "Reserved (MiB)", "Δreserved"]
    assert "no room here for: Δreserved %, Time (s)" in text
    assert "no room" not in screen(made.case_2(), None)


def test_the_windows_that_change_most_come_first_and_the_rest_is_counted() -> None:
    text = render(compare_blocks(made.series(), top=10))
    windows = re.findall(r"^(STEP_\d+) ", text, re.MULTILINE)
    # STEP_23 changes by more, but is open in one of the runs, and STEP_24 in the other
    assert windows[:4] == ["STEP_22", "STEP_22", "STEP_21", "STEP_21"]
    marked = re.findall(
        r"^(STEP_2[345](?: \(open\))?) +(\w)/run.log", render(compare_blocks(made.series(), top=25)), re.MULTILINE
    )
    assert marked == [("STEP_23", "a"), ("STEP_23 (open)", "b"), ("STEP_24 (open)", "a")]
    assert "… and 15 more windows" in text
    assert "has no STEP_24" in " ".join(text.split())


def test_no_text_of_a_log_acts() -> None:
    for comparison in (getattr(made, name)() for name in SCREENS + RANKS):
        for text in (screen(comparison), render_markdown(compare_blocks(comparison, full=True))):
            assert not set("\x1b\x07\u202e\u200b").intersection(text)
    assert "<b>" not in re.sub(
        r"``.*?``|`[^`]*`",
        "",
        "".join(render_markdown(compare_blocks(one, full=True)) for one in (made.hostile(), made.ranks_hostile())),
    )


def test_of_many_typical_windows_those_are_shown_whose_own_figures_change_most() -> None:
    runs = [made.run(f"{k}.log", made.window(100, name="STEP_0"), made.window(100, name="STEP_1")) for k in range(6)]
    typical = tuple(made.window(300 if k == 4 else 100, name="(median)") for k in range(6))
    table = next(tables_of(made.listed(*runs, by=r"(STEP_\d+)", typical=typical), None, most=2))
    assert [row[0] for row in table.rows] == ["0.log", "4.log"]  # the base, and the run that differs
