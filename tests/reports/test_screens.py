"""What an analysis shows to people, from hand-made results: golden copies, and what holds at every width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from widths import check_widths

from memlens.reports.analyze import analysis_blocks
from memlens.reports.blocks import Table
from memlens.reports.markdown import render as render_markdown
from memlens.reports.terminal import render
from memlens.results import Failure
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
        "long_name": make.analysis(make.log(make.case1(make.LONG), path="/data/runs/2024/" + make.LONG)),
        "whole": make.analysis(make.log(whole)),
        "opening": make.analysis(make.opening()),
        "series": make.analysis(make.series(remarks=("STEP_25 is open: no end anchor closes it.",), open_end=True)),
        "series_late_anchors": make.analysis(make.series(2, warnings=("3 of 4 windows hold no event.",))),
        "logs": make.analysis(
            make.log(whole, path="runs/workerlog.0"),
            make.log(make.window("(whole log)", 7), path="runs/workerlog.1", trust=make.doubtful()),
            failures=(Failure("runs/empty.log", "runs/empty.log: the file is empty", "Name a log."),),
        ),
    }


SCREENS = ("window", "window_hostile", "long_name", "whole", "opening", "series", "series_late_anchors", "logs")


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_looks_as_approved_and_says_the_same_at_every_width(
    make: Any, golden: Callable[[str, str], None], name: str
) -> None:
    blocks = analysis_blocks(screens(make)[name])
    if name in ("window", "window_hostile", "series", "opening"):
        golden(f"{name}_80.txt", render(blocks, width=80))
    if name in ("window_hostile", "series"):
        golden(f"{name}.md", render_markdown(blocks))
    check_widths(lambda width: render(blocks, width=width), narrow=60)


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
