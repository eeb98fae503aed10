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
from memlens.reports.compare.tables import scale_of
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


# --- what is no figure ---


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


def test_no_text_of_a_log_acts() -> None:
    for comparison in (getattr(made, name)() for name in SCREENS + RANKS):
        for text in (screen(comparison), render_markdown(compare_blocks(comparison, full=True))):
            assert not set("\x1b\x07\u202e\u200b").intersection(text)
    assert "<b>" not in re.sub(
        r"``.*?``|`[^`]*`",
        "",
        "".join(render_markdown(compare_blocks(one, full=True)) for one in (made.hostile(), made.ranks_hostile())),
    )
