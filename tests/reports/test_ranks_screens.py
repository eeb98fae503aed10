"""What the ranks of a job show to people: golden copies, and what holds at every width; and ``docs/ranks.md`` names every field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import made_rankings as made
import pytest
from texts import csv_of, json_of
from widths import check_widths

from memlens.ranking.result import Ranking
from memlens.reports.markdown import render as render_markdown
from memlens.reports.ranks import ranks_blocks
from memlens.reports.terminal import SCREEN_ROWS, render
from memlens.text import width_of

SCREENS: dict[str, Callable[[], Ranking]] = {
    "quiet": made.quiet,
    "loud": made.loud,
    "modes": made.modes,
    "hostile": made.hostile,
    "unreadable": made.unreadable,
}
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "ranks.md").read_text()


@pytest.mark.parametrize("name", list(SCREENS))
def test_one_screen_looks_as_approved(golden: Callable[[str, str], None], name: str) -> None:
    text = render(ranks_blocks(SCREENS[name]()), width=80)
    golden(f"ranks_{name}_80.txt", text)
    assert text.count("\n") <= SCREEN_ROWS
    assert all(width_of(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("name", list(SCREENS))
def test_all_of_it_says_the_same_at_every_width(name: str) -> None:
    ranking = SCREENS[name]()
    check_widths(lambda width: render(ranks_blocks(ranking, full=True), width=width))


def test_all_of_it_as_markdown_looks_as_approved(golden: Callable[[str, str], None]) -> None:
    golden("ranks_loud.md", render_markdown(ranks_blocks(made.loud(), full=True)))


def test_the_verdict_comes_first_and_names_who_failed_who_stands_out_and_by_what() -> None:
    text = " ".join(render(ranks_blocks(made.loud()), width=80).split("\n\n")[0].split())
    assert text.startswith("3 of 62 ranks ran out of memory, rank 3 first by the time stamps (6.00 s before rank 9).")
    assert "62 ranks, 60 of them with figures: peaks of 60.00 GiB to 68.00 GiB" in text
    assert "2 ranks have no log, rank 40 the first" in text
    assert "rank 50 holds 3.00 GiB more than its peers, in 1 block of 3.00 GiB" in text
    assert "rank 21 holds 2.10 GiB more than its peers, in 2 blocks of 1.05 GiB of embedding" in text
    assert "rank 33 reserves 8.50 GiB more than its peers (its log is in doubt: unknown frees)" in text


def test_top_counts_what_is_left_out() -> None:
    text = render(ranks_blocks(made.loud(), top=1), width=None)
    assert "… and 2 more rows" in text
    assert "… and 3 more groups" in text


def test_hostile_text_is_harmless_in_every_form() -> None:
    ranking = made.hostile()
    for text in (
        render(ranks_blocks(ranking), width=80),
        render(ranks_blocks(ranking, full=True), width=None),
        render_markdown(ranks_blocks(ranking, full=True)),
        csv_of(ranking),
        json_of(ranking),
    ):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
    assert "<b>" not in re.sub(r"``.*?``|`[^`]*`", "", render_markdown(ranks_blocks(ranking, full=True)))


def fields_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in ("fields", "failure"):  # names of fields are data; the failure is that of memlens analyze
                yield from fields_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from fields_of(inner)


def test_every_field_of_the_machine_output_is_described() -> None:
    named = {name for make in SCREENS.values() for name in fields_of(json.loads(json_of(make())))}
    assert len(named) > 70
    assert sorted(name for name in named if f"`{name}`" not in PAGE) == []


def test_every_column_of_the_csv_is_described() -> None:
    named = {name for row in made.loud().rows() for name in row} - {"node", "pp", "rank"}
    assert sorted(name for name in named if f"`{name}`" not in PAGE) == []
