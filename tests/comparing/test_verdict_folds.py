"""What a verdict of a comparison says once, and what a screen of it never leaves out."""

from __future__ import annotations

import made_comparisons as made
import pytest

from memlens.comparing.result import Comparison
from memlens.reports.compare import compare_blocks
from memlens.reports.terminal import render
from memlens.summarizing.summary import Oom, Run

GBS, RANKS = (8, 16, 32, 64), (0, 1, 2, 3)


def runs(more: int = 0, fields: tuple[int, ...] = GBS) -> list[Run]:
    """Runs of each ``gbs`` and rank that need 10 MiB and 1.5 MiB per gbs; rank 2 needs so much more."""
    return [
        made.run(
            f"gbs{gbs}/rank{rank}.log",
            made.window(10 + 1.5 * gbs + (more if rank == 2 else 0)),
            fields={"gbs": str(gbs), "rank": str(rank)},
        )
        for gbs in fields
        for rank in RANKS
    ]


def compared(given: list[Run], **options: str) -> Comparison:
    return made.matrix("gbs{gbs}/rank{rank}.log", *given, **options)


def screen(comparison: Comparison) -> str:
    text = render(compare_blocks(comparison), width=80)
    assert text.count("\n") <= 40
    return text


def test_slopes_that_are_alike_are_said_once_and_the_base_is_named_with_its_field() -> None:
    found = compared(runs(5), base="rank=0")
    assert "4 of 12 runs need more than rank 0, by up to 5.00 MiB" in found.verdict
    assert "Peak allocated grows by 1.50 MiB per gbs for each rank." in found.verdict
    assert "up to 1.50" not in compared(runs(5)).verdict


def test_the_slopes_that_the_verdict_is_about_stay_on_the_screen() -> None:
    text = screen(compared(runs(5)))
    assert "Peak allocated: slope for one more of gbs" in text


def test_runs_without_figures_have_their_row_and_their_reason_on_every_screen() -> None:
    given = runs()
    given[0] = made.run(
        "gbs8/rank0.log", fields=given[0].fields, status="missing", message="gbs8/rank0.log: no such file"
    )
    given[-1] = made.run(
        "gbs64/rank3.log", fields=given[-1].fields, status="unreadable", message="gbs64/rank3.log: no allocator event"
    )
    text = screen(compared(given))
    rows = [line.split() for line in text.splitlines()]
    assert ["8", "0", "missing"] in [row[:3] for row in rows]
    assert ["64", "3", "unreadable"] in [row[:3] for row in rows]
    assert "no such file" in text
    assert "no allocator event" in text


@pytest.mark.parametrize("alike", [True, False])
def test_runs_that_all_ran_out_alike_are_one_clause(alike: bool) -> None:
    asked = [256 << 20, 256 << 20, (256 if alike else 128) << 20]
    given = [
        made.run(f"{k}.log", made.window(9, oom=True), status="oom", oom=Oom(size, "GPU 0", 7), ooms=1)
        for k, size in enumerate(asked)
    ]
    found = made.listed(*given).verdict
    if alike:
        assert found.startswith("All 3 runs ran out of memory, each asking for 256.00 MiB.")
        fine = made.run("fine.log", made.window(9))
        some = made.listed(fine, *given).verdict
        assert some.startswith("3 of 4 runs ran out of memory, each asking for 256.00 MiB: 0.log, 1.log, 2.log.")
    else:
        assert "2.log (asked for 128.00 MiB)" in found


def test_one_log_given_twice_is_said_to_be_one() -> None:
    one = made.run("a.log", made.window(20))
    assert made.listed(one, made.run("a.log", made.window(20))).verdict == (
        "The peak is 20.00 MiB in a.log, which is compared with itself."
    )
