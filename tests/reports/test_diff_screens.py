"""What a comparison shows to people, from hand-made results: one screen where nothing is asked for, all there is otherwise."""

from __future__ import annotations

import made_diffs as made
import pytest
from answers import replace
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many
from widths import check_widths

from memlens.diffing.result import Diff
from memlens.reports.blocks import brief
from memlens.reports.diff import diff_blocks
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


# --- one pair of windows ---


# --- a series ---


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
