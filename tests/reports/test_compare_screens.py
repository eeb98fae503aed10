"""What a comparison of many runs shows to people: golden copies, and what holds at every width."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import made_comparisons as made
import pytest
from widths import check_widths

from memlens.comparing.result import Comparison
from memlens.comparing.statistics import choose_metrics
from memlens.reports.compare import compare_blocks
from memlens.reports.compare.tables import scale_of
from memlens.reports.markdown import render as render_markdown
from memlens.reports.terminal import render
from memlens.text import width_of

SCREENS: dict[str, Callable[[], Comparison]] = {
    "case_2": made.case_2,
    "case_3": made.case_3,
    "case_5": made.case_5,
    "failures": made.failures,
    "hostile": made.hostile,
    "series": made.series,
    "ranks": made.ranks,
}
PEAK, ALLOCS, TIME = choose_metrics(["peak", "allocs", "time"])


def screen(comparison: Comparison, width: int | None = 80) -> str:
    return render(compare_blocks(comparison, full=True), width=width)


@pytest.mark.parametrize("name", list(SCREENS))
def test_a_screen_looks_as_approved_and_says_the_same_at_every_width(
    golden: Callable[[str, str], None], name: str
) -> None:
    comparison = SCREENS[name]()
    golden(f"compare_{name}_80.txt", screen(comparison))
    check_widths(lambda width: screen(comparison, width))


def test_a_pipe_shows_every_column(golden: Callable[[str, str], None]) -> None:
    golden("compare_series_pipe.txt", screen(made.series(), None))


@pytest.mark.parametrize("name", list(SCREENS))
def test_a_screen_as_markdown_looks_as_approved(golden: Callable[[str, str], None], name: str) -> None:
    golden(f"compare_{name}.md", render_markdown(compare_blocks(SCREENS[name](), full=True)))


# --- the published tables ---


def rows_of(text: str) -> dict[str, list[str]]:
    """The cells of each row of a Markdown table by its first cell."""
    rows = [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows}


def test_case_2_has_the_published_figures_in_one_table() -> None:
    rows = rows_of(render_markdown(compare_blocks(made.case_2(), full=True)))
    figures = {name: (rows[name][3], rows[name][0]) for name in ("pt.log", "pir_develop.log", "pir_pr.log")}
    assert figures == {  # Max reserved (MB), Max allocated (MB)
        "pt.log": ("8959.77", "8824.07"),
        "pir_develop.log": ("11033.88", "9707.65"),
        "pir_pr.log": ("10053.88", "8727.65"),
    }
    assert rows["pir_pr.log"][1:3] == ["-96.42", "-1.09%"]  # bytes before percent


def test_case_3_has_the_published_matrix() -> None:
    text = screen(made.case_3())
    cells = {tuple(line.split()[:2]): line.split()[2:] for line in text.splitlines() if re.match(r" *\d+ +\d ", line)}
    assert cells["64", "1"] == ["21634.00", "21380.00", "-254.00", "-1.17%"]
    assert cells["2048", "7"] == ["15710.00", "7834.00", "-7876.00", "-50.13%"]
    assert cells["3072", "0"] == ["OOM", "256.00", "MiB", "24664.00", "was", "OOM"]
    assert re.search(r"^ +1 +\+4\.03 MiB +flat$", text, re.MULTILINE)
    assert re.search(r"^ +0 +flat +flat$", text, re.MULTILINE)
    assert "left out: 3 OOM" in text


def test_case_5_has_memory_and_time_side_by_side() -> None:
    rows = rows_of(render_markdown(compare_blocks(made.case_5(), full=True)))
    assert rows["before.log"] == ["8250.00", "", "", "0.982", "", ""]
    assert rows["after.log"] == ["7183.00", "-1067.00", "-12.93%", "0.909", "-0.073", "-7.43%"]


# --- what is no figure ---


def test_what_has_no_figure_is_said_in_words_and_never_as_0() -> None:
    rows = rows_of(render_markdown(compare_blocks(made.failures(), full=True)))
    peaks = {name: cells[0].strip("\\*") for name, cells in rows.items()}
    assert peaks["oom.log"] == "OOM 256.00 MiB"
    assert peaks["oom_unsaid.log"] == "OOM"
    assert (peaks["gone.log"], peaks["empty.log"], peaks["short.log"]) == ("missing", "unreadable", "no window")
    assert rows["brave.log"][6] == "unknown"  # its times are not known
    assert "120.50\\*" in render_markdown(compare_blocks(made.failures(), full=True))  # doubtful
    assert rows["oom.log"][1] == "now OOM"


def test_a_run_that_is_missing_in_every_column_has_a_row() -> None:
    whole = made.case_3()
    runs = tuple(run for run in whole.runs if (run.fields["gbs"], run.fields["rank"]) != ("64", "1"))
    text = screen(made.matrix("gbs{gbs}/{branch}/workerlog.{rank}", *runs, metrics=["peak"]))
    assert re.search(r"^ +64 +1 +missing +missing$", text, re.MULTILINE)


def test_a_ragged_matrix_has_rows_for_what_there_is() -> None:
    runs = [
        made.run(f"{n}/{r}", made.window(1), fields={"node": n, "rank": str(r), "x": "a"})
        for n, s in (("0", 0), ("1", 8), ("2", 16))
        for r in range(s, s + 8)
    ]
    text = screen(made.matrix("{node}/{rank}.{x}", *runs))
    assert len(re.findall(r"^ +[012] +\d+ ", text, re.MULTILINE)) == 24
    assert "missing" not in text


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


def test_times_and_counts_have_units_of_their_own() -> None:
    assert scale_of(TIME, [982_000]).heading == "Time (s)"
    assert scale_of(TIME, [982_000]).text(909_000) == "0.909"
    assert scale_of(TIME, [99_999]).text(99_999) == "100.00"
    assert scale_of(TIME, [2_000_000]).text(100) == "100 µs"
    assert scale_of(ALLOCS, [3791]).text(3791) == "3,791"
    assert [scale_of(ALLOCS, []).signed(change) for change in (852, -852, 0)] == ["+852", "-852", "0"]
    assert [scale_of(PEAK, [1 << 20]).signed(change) for change in (1 << 20, -512, 0)] == ["+1.00", "-512 B", "0"]


# --- width, order, harm ---


def test_a_narrow_terminal_leaves_out_by_rule_and_says_what() -> None:
    text = screen(made.case_2(), 80)
    header = next(line for line in text.splitlines() if line.startswith("Run "))
    assert re.split(r"  +", header) == ["Run", "Peak (MiB)", "Δpeak", "Δpeak %", "Reserved (MiB)", "Δreserved"]
    assert "no room here for: Δreserved %, Time (s)" in text
    assert "no room" not in screen(made.case_2(), None)


def test_many_columns_leave_a_matrix_from_the_last_one_and_keep_the_base() -> None:
    runs = [made.run(f"v{v}", made.window(1000 + v), fields={"version": f"version_{v}"}) for v in range(12)]
    text = screen(made.matrix("{version}", *runs, metrics=["peak"], base="version=version_3"))
    header = next(line for line in text.splitlines() if line.lstrip().startswith("version_"))
    assert header.split()[0] == "version_3"
    assert all(width_of(line) <= 80 for line in text.splitlines())
    assert "no room here for:" in text


def test_the_windows_that_change_most_come_first_and_the_rest_is_counted() -> None:
    text = screen(made.series())
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
    for make in SCREENS.values():
        for text in (screen(make()), render_markdown(compare_blocks(make(), full=True))):
            assert not set("\x1b\x07\u202e\u200b").intersection(text)
    assert "<b>" not in re.sub(r"``.*?``|`[^`]*`", "", render_markdown(compare_blocks(made.hostile(), full=True)))


def test_many_runs_in_doubt_are_counted_beyond_the_first_few() -> None:
    runs = [made.run(f"{n}.log", made.window(1), doubts=("malformed",)) for n in range(30)]
    text = screen(made.listed(*runs))
    assert "… and 24 more doubtful runs" in text


def test_nothing_to_show_is_no_crash() -> None:
    gone = made.run("a.log", status="missing", message="a.log: no such file")
    assert "missing" in screen(made.listed(gone))
    fields = replace(gone, fields={"x": "1"})
    assert "missing" in screen(made.matrix("{x}.log", fields))
