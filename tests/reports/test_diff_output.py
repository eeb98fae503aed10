"""A comparison as JSON, CSV and Markdown: exact figures, and text from a log that can do no harm."""

from __future__ import annotations

import csv
import html
import io
import json
import re

import made_diffs as made
from answers import replace
from hypothesis import given
from hypothesis import strategies as st
from texts import csv_of, json_of

from memlens.analyzers.places import ContextLine
from memlens.reports.blocks import Excerpt, Fold, Line
from memlens.reports.markdown import render

# --- machine output ---


def test_json_holds_the_names_of_the_contract_and_exact_figures() -> None:
    values = json.loads(json_of(made.case1()))
    assert (values["schema"], values["by"], values["found_by"]) == ("memlens.diff/2", None, False)
    (window,) = values["windows"]
    figures = ("d_remaining_bytes", "d_peak_bytes", "missing_free_bytes", "extra_free_bytes", "unexplained_bytes")
    assert [window[key] for key in figures] == [3538944, 0, 3538944, 0, 0]
    (finding,) = window["findings"]
    assert (finding["kind"], finding["size_bytes"], finding["count"]) == ("missing_free", 3538944, 1)
    assert finding["base"] == {
        "alloc_event": 32,
        "alloc_line": 65,
        "free_event": 38,
        "free_line": 77,
        "freed": "in_window",
        "holder": None,
    }
    assert (finding["head"]["alloc_line"], finding["head"]["free_line"], finding["head"]["freed"]) == (64, 201, "later")
    assert [line["line"] for line in finding["context"]] == [75, 76, 77, 78, 79]
    assert [line["is_event"] for line in finding["context"]] == [False, False, True, False, False]


def test_json_lists_are_cut_to_top_and_what_is_left_out_is_counted() -> None:
    (window,) = json.loads(json_of(replace(made.many(12), top=5, min_size=9 << 10)))["windows"]
    assert [finding["size_bytes"] >> 10 for finding in window["findings"]] == [12, 11, 10, 9]
    assert window["findings_left_out"] == 8


def test_csv_has_a_row_a_pair_of_windows() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_of(made.series(5)))))
    assert [row["name"] for row in rows[:2]] == ["SOT_CALL_1", "SOT_CALL_2"]
    figures = ("d_remaining_bytes", "missing_free_bytes", "base_start_line", "head_start_line", "peak_late_free_bytes")
    assert [int(rows[4][key]) for key in figures] == [2 * made.BLOCK, 2 * made.BLOCK, 500, 507, 0]
    assert "\x1b" not in rows[2]["name"]


# --- Markdown ---


def unfenced(text: str) -> str:
    """The text without its fenced code, read as CommonMark reads it: a fence ends at one at least as long."""
    kept, fence = [], ""
    for line in text.splitlines():
        run = re.match(r" {0,3}(`{3,})", line)
        if fence:
            closing = re.fullmatch(r" {0,3}(`{3,})[ \t]*", line)
            fence = "" if closing and len(closing[1]) >= len(fence) else fence
        elif run:
            fence = run[1]
        else:
            kept.append(line)
    assert not fence, "a fence is left open"
    return "\n".join(kept)


any_text = st.text(st.characters(codec=None), max_size=60)
fences = st.text("`~\n <>d/etailsummary", max_size=40)


@given(st.lists(st.one_of(any_text, fences), min_size=1, max_size=5))
def test_log_lines_cannot_break_out_of_their_fence(texts: list[str]) -> None:
    quoted = tuple(ContextLine(number, f"MARK{text}", number == 1) for number, text in enumerate(texts))
    text = render([Line("before"), Excerpt("around", quoted), Line("behind")])
    assert unfenced(text).split() == ["before", "around", "behind"]
    assert len(text.splitlines()) == len(texts) + 8


def test_a_fold_is_folded_in_markdown_and_its_summary_is_no_markup() -> None:
    text = render([Fold("a <b> & c", (Line("inside"),))])
    assert text == f"<details>\n<summary>{html.escape('a <b> & c')}</summary>\n\ninside\n\n</details>\n"
