"""Results in a notebook: their screens as HTML in which nothing of a log is markup, and short plain texts elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from elements import Elements

import memlens
from memlens.reports import html
from memlens.reports.blocks import Block, Column, Excerpt, Figure, Figures, Fold, Line, Quoted, Table

#: What the form may write; anything else came from a log.
TAGS = frozenset(["div", "p", "h3", "strong", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "br", "em"])


def assert_harmless(shown: Elements) -> None:
    assert {tag for tag, _ in shown.tags} <= TAGS
    assert [attributes for _, attributes in shown.tags if attributes not in ({}, {"style": "text-align:right"})] == []


@pytest.fixture(scope="module")
def results(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    base, head = examples / "case1_pt.log", examples / "case1_pir.log"
    kept = tmp_path_factory.mktemp("gate") / "memory.json"
    memlens.accept(base, kept)
    analysis = memlens.analyze(head)
    return {
        "log": memlens.read(head),
        "analysis": analysis,
        "log analysis": analysis.logs[0],
        "diff": memlens.diff(base, head),
        "comparison": memlens.compare([base, head]),
        "verdict": memlens.gate(head, baseline=kept),
        "block": memlens.block(head, 64),
    }


NAMES = ("log", "analysis", "log analysis", "diff", "comparison", "verdict", "block")


@pytest.mark.parametrize("name", NAMES)
def test_each_result_shows_itself_in_a_notebook(results: dict[str, Any], name: str) -> None:
    shown = Elements(results[name]._repr_html_())
    assert_harmless(shown)
    assert "case1_pir.log" in shown.text


def test_nothing_of_a_log_is_markup(make: Any) -> None:
    hostile = (
        make.HOSTILE
        + "</code></pre><script>alert(1)</script><img src=x onerror=alert(1)>[a](javascript:alert(1)) https://x.y"
    )
    blocks: list[Block] = [
        Line(hostile, name=hostile, label="Trust"),
        Line(hostile, "heading"),
        Line(hostile, "bad"),
        Figures((Figure("Peak", "1 B", hostile),)),
        Table("Windows", (Column("name", "Window", "name"), Column("word", "Word", "word")), ((hostile, hostile),)),
        Excerpt("Around:", (Quoted(1, hostile, True), Quoted(2, "```\n" + hostile))),
        Fold("more", (Line("", name=hostile),)),
    ]
    shown = Elements(html.render(blocks))
    assert_harmless(shown)
    assert shown.text.count("<script>alert(1)</script>") >= 8
    assert "\x1b" not in shown.text
