"""What a comparison shows where nothing is asked for: one screen, the verdict first, what costs before what saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import made_diffs as made
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from widths import check_widths

from memlens.diffing.result import Diff
from memlens.reports.blocks import brief
from memlens.reports.diff import diff_blocks
from memlens.reports.terminal import render
from memlens.text import visible

ROWS = 40
any_text = st.text(st.characters(codec=None), max_size=300)


def screen(diff: Diff, width: int | None = 80) -> str:
    return render(diff_blocks(diff), width=width)


@pytest.mark.parametrize("name", ["case1", "piling", "messy", "series", "hostile"])
def test_one_screen_looks_as_approved_and_says_the_same_at_every_width(
    golden: Callable[[str, str], None], name: str
) -> None:
    golden(f"diff_screen_{name}_80.txt", screen(made.EVERY[name]()))
    check_widths(lambda width: screen(made.EVERY[name](), width))


@pytest.mark.parametrize("name", list(made.EVERY))
def test_the_verdict_comes_first_and_all_of_it_is_one_screen(name: str) -> None:
    diff = made.EVERY[name]()
    text = screen(diff)
    assert len(text.splitlines()) <= ROWS
    assert " ".join(text.partition("\n\n")[0].split()) == visible(diff.verdict)
    assert render(brief(diff_blocks(diff))) == f"{visible(diff.verdict)}\n"


@settings(max_examples=40, deadline=None)
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
    for count in (1, 3, 25):
        diff = replace(made.series(), windows=windows[:count], repeated=())
        assert diff.verdict.startswith("No window is judged; both peak at 10.12 MiB. ")  # 3 × 3.375 MiB
        assert len(screen(diff).splitlines()) <= ROWS
    assert replace(made.series(), windows=()).verdict == (
        "No window of one run has a partner in the other, so nothing was compared."
    )
