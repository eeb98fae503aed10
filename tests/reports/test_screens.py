"""What an analysis shows to people, from hand-made results: golden copies, and what holds at every width."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from widths import check_widths

from memlens.analyzing.analyze import Failure
from memlens.errors import UsageError
from memlens.reports.analyze import analysis_blocks
from memlens.reports.blocks import Table
from memlens.reports.markdown import render as render_markdown
from memlens.reports.terminal import render
from memlens.text import width_of


def screens(make: Any) -> dict[str, Any]:
    whole = make.case1("(whole log)", whole=True)
    return {
        "window": make.analysis(make.log(make.case1())),
        "window_hostile": make.analysis(
            make.log(
                make.case1(make.HOSTILE, open_end=True),
                path=f"dir/{make.HOSTILE}.log",
                trust=make.doubtful(),
                remarks=(f"{make.HOSTILE} runs to the end of the log: no end anchor closes it.",),
            )
        ),
        "window_long_name": make.analysis(make.log(make.case1(make.LONG), path="/data/runs/2024/" + make.LONG)),
        "whole": make.analysis(make.log(whole)),
        "opening": make.analysis(make.opening()),
        "series": make.analysis(make.series(remarks=("STEP_25 is open: no end anchor closes it.",), open_end=True)),
        "series_late_anchors": make.analysis(make.series(2, notes=("3 of 4 windows hold no event.",))),
        "logs": make.analysis(
            make.log(whole, path="runs/workerlog.0"),
            make.log(make.window("(whole log)", 7), path="runs/workerlog.1", trust=make.doubtful()),
            failures=(Failure("runs/empty.log", "runs/empty.log: the file is empty", "Name a log."),),
        ),
    }


SCREENS = ("window", "window_hostile", "window_long_name", "whole", "opening", "series", "series_late_anchors", "logs")


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_approved_and_says_the_same_at_every_width(
    make: Any, golden: Callable[[str, str], None], name: str
) -> None:
    blocks = analysis_blocks(screens(make)[name])
    golden(f"{name}_80.txt", render(blocks, width=80))
    check_widths(lambda width: render(blocks, width=width), narrow=60)


def test_a_pipe_shows_every_column(make: Any, golden: Callable[[str, str], None]) -> None:
    golden("series_pipe.txt", render(analysis_blocks(screens(make)["series"])))


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_as_markdown_looks_as_approved(make: Any, golden: Callable[[str, str], None], name: str) -> None:
    golden(f"{name}.md", render_markdown(analysis_blocks(screens(make)[name])))


def test_case_1_prints_its_published_figures(make: Any) -> None:
    text = render(analysis_blocks(screens(make)["window"]), width=80)
    lines = {line.split()[0]: line for line in text.splitlines() if line}
    assert "6.75 MiB" in lines["Remaining"]
    assert "32.91 MiB" in lines["Peak"]  # 23,889,664 B carried in and 3 × 3,538,944 B
    assert "10.12 MiB" in lines["Rise"]
    assert "10.12 MiB  3 allocs" in lines["Allocated"]
    assert "3.38 MiB  1 free," in lines["Freed"]


def test_the_whole_log_is_one_screen(make: Any) -> None:
    text = render(analysis_blocks(screens(make)["whole"]), width=80)
    assert len(text.splitlines()) <= 40


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_keeps_remaining_and_peak(make: Any, width: int) -> None:
    text = render(analysis_blocks(screens(make)["series"]), width=width)
    # 7 × (10 + 2) MiB, of which 7 × 2 MiB rise and 7 × 1 MiB remain
    assert ("84.00 MiB   7.00 MiB" if width < 60 else "84.00 MiB  14.00 MiB   7.00 MiB") in text
    assert all(width_of(line) <= width for line in text.splitlines())


def rows_of(analysis: Any, **options: Any) -> list[str]:
    first = next(block for block in analysis_blocks(analysis, **options) if isinstance(block, Table))
    return [str(row[0]) for row in first.rows]


def test_windows_come_in_file_order_until_asked_otherwise(make: Any) -> None:
    analysis = make.analysis(make.log(make.window("b", 2), make.window("c", 9), make.window("a", 5), by="x"))
    assert rows_of(analysis) == ["b", "c", "a"]
    assert rows_of(analysis, sort="remaining") == ["c", "a", "b"]
    assert rows_of(analysis, sort="peak_bytes") == ["c", "a", "b"]
    assert rows_of(analysis, sort="name") == ["a", "b", "c"]
    assert rows_of(analysis, sort="line") == ["b", "a", "c"]
    assert rows_of(analysis, sort="duration", top=1) == ["c"]


def test_logs_are_sorted_too(make: Any) -> None:
    logs = [make.log(make.window("(whole log)", number), path=f"{number}.log") for number in (2, 9, 5)]
    assert rows_of(make.analysis(*logs), sort="reserved-peak") == ["9.log", "5.log", "2.log"]
    assert rows_of(make.analysis(*logs), sort="name") == ["2.log", "5.log", "9.log"]


def test_an_unknown_column_is_answered_with_the_known_ones(make: Any) -> None:
    with pytest.raises(UsageError, match="no column 'size'") as raised:
        analysis_blocks(make.analysis(make.series()), sort="size")
    assert "remaining" in raised.value.hint
    assert "rise" in raised.value.hint


def test_small_blocks_are_left_out_of_lists_and_counted(make: Any) -> None:
    text = render(analysis_blocks(make.analysis(make.log(make.case1()), min_size=4096)), width=80)
    assert " 512 B" not in text
    assert "… and 1 more size\n" in text


def test_figures_of_a_result_that_nobody_knows_are_shown_by_their_names(make: Any) -> None:
    class Foreign:
        def to_dict(self) -> dict[str, Any]:
            rows = [
                {"owner": "[red]conv[/]", "size_bytes": 2048, "alloc_event": 3},
                {"owner": None, "size_bytes": 1, "alloc_event": 4},
            ]
            return {"wasted_bytes": 3 * 2**20, "blocks": 1942, "idle_us": 61_000_000, "ratio": 0.5, "worst": rows}

    window = make.case1()
    window.results["waste"] = Foreign()
    text = render(analysis_blocks(make.analysis(make.log(window))), width=80)
    assert (
        "Waste\nWasted bytes    3.00 MiB\nBlocks             1,942\nIdle          1 min 01 s\nRatio               0.50\n"
        in text
    )
    assert "Worst\nOwner             Size  Alloc event\n[red]conv[/]  2.00 KiB            3\n" in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "growing from STEP_2 on: +512 B a window, 14.50 KiB in all, over 30 windows judged"),
        ({"verdict": "flat", "since": None}, "flat over 30 windows judged"),
        ({"verdict": "swinging", "since": None, "swing_bytes": 3 << 19}, "swinging within ±1.50 MiB over 30"),
        ({"verdict": "shrinking", "gained_bytes_per_window": -1024.0}, "shrinking, -1.00 KiB a window over 30"),
        ({"verdict": "flat", "judged": 3}, "not judged: 3 windows, 4 are the fewest that tell anything"),
        ({"open_end": "\x1b[31mX"}, "left out: \\x1b[31mX, which runs to the end of the log"),
    ],
)
def test_the_verdict_on_a_series_in_words(make: Any, changes: dict[str, Any], says: str) -> None:
    log = make.log(make.window("STEP_1", 1), growth=dataclasses.replace(make.growth(), **changes), by="x")
    assert says in render(analysis_blocks(make.analysis(log)), width=None)
