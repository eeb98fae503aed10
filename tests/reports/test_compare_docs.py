"""``docs/compare.md`` names every column, every metric and every word of a cell."""

from __future__ import annotations

from pathlib import Path

import made_comparisons as made

from memlens.reports.compare.tables import WORDS
from memlens.summarizing.figures import METRICS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "compare.md").read_text()


def test_every_column_of_the_csv_is_described() -> None:
    named = {name for row in made.failures().rows() for name in row}
    assert sorted(name for name in named if f"`{name}`" not in PAGE) == []


def test_every_metric_is_described() -> None:
    names = [name for metric in METRICS for name in (metric.name, metric.key, metric.change_key, *metric.also)]
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_every_word_of_a_cell_is_described() -> None:
    words = (*WORDS.values(), "unknown", "was OOM", "now OOM", "flat", "unsteady")
    assert [word for word in words if f"`{word}" not in PAGE] == []
