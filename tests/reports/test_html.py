"""Results in a notebook: their screens as HTML in which nothing of a log is markup, and short plain texts elsewhere."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from elements import Elements
from night import some

import memlens
from memlens.analyzers.places import ContextLine
from memlens.reports import html
from memlens.reports.blocks import Block, Column, Excerpt, Figure, Figures, Fold, Line, Table

#: What the form may write; anything else came from a log.
TAGS = frozenset(
    [
        "div",
        "span",
        "p",
        "h3",
        "strong",
        "code",
        "pre",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "img",
        "details",
        "summary",
    ]
)


def assert_harmless(shown: Elements) -> None:
    assert {tag for tag, _ in shown.tags} <= TAGS
    pictures = [attributes for tag, attributes in shown.tags if tag == "img"]
    assert all(
        set(one) == {"src", "alt"} and str(one["src"]).startswith("data:image/svg+xml;base64,") for one in pictures
    )
    others = [attributes for tag, attributes in shown.tags if tag != "img"]
    styles = ("heading", "strong", "good", "bad", "doubt", "hint", "quiet", "plain", "scrolls")
    ours = ({}, {"style": "text-align:right"}, *({"class": style} for style in styles))
    assert [attributes for attributes in others if attributes not in ours] == []


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


@pytest.mark.parametrize("name", some(NAMES, 2))
def test_each_result_shows_itself_in_a_notebook(results: dict[str, Any], name: str) -> None:
    shown = Elements(results[name]._repr_html_())
    assert_harmless(shown)
    assert "case1_pir.log" in shown.text


@pytest.mark.parametrize("name", some(["log", "analysis", "log analysis", "diff"], 3))
def test_what_has_levels_shows_its_picture_and_its_verdict_first(results: dict[str, Any], name: str) -> None:
    text = results[name]._repr_html_()
    shown = Elements(text)
    assert [tag for tag, _ in shown.tags][:3] == ["div", "p", "img"]
    (picture,) = [base64.b64decode(str(one["src"]).partition(",")[2]) for tag, one in shown.tags if tag == "img"]
    named = {one.get("id") for one in ET.fromstring(picture).iter()}
    assert named >= ({"base", "head-1", "peak-1"} if name == "diff" else {"allocated", "peak"})
    assert b"<script" not in picture
    assert not re.search(rb'(?:href|src)="(?!#)', picture)
    assert html.of(results[name]) in text


def test_a_hostile_name_is_text_in_a_picture_and_beside_it(tmp_path: Path, examples: Path) -> None:
    log = tmp_path / "<img src=x onerror=alert(1)>\u202e&.log"
    log.write_bytes((examples / "case1_pir.log").read_bytes())
    for result in (memlens.read(log), memlens.analyze(log), memlens.diff(examples / "case1_pt.log", log)):
        assert_harmless(Elements(str(result._repr_html_())))


def test_without_matplotlib_the_screen_is_what_is_shown(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert results["analysis"]._repr_html_() == html.of(results["analysis"])


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
        Excerpt("Around:", (ContextLine(1, hostile, True), ContextLine(2, "```\n" + hostile, False))),
        Fold("more", (Line("", name=hostile),)),
    ]
    shown = Elements(html.render(blocks))
    assert_harmless(shown)
    assert shown.text.count("<script>alert(1)</script>") >= 8
    assert "\x1b" not in shown.text
