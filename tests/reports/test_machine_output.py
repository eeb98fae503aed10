"""JSON, CSV and Markdown: exact figures, and text from a log that can do no harm."""

from __future__ import annotations

import csv
import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from answers import replace
from hypothesis import example, given
from hypothesis import strategies as st
from texts import csv_of, json_of

import memlens
from memlens import results
from memlens.reports.machine import _json, _text, cell, csv_parts, json_parts
from memlens.reports.markdown import code

ROOT = Path(__file__).resolve().parents[2]
any_text = st.text(st.characters(codec=None))


def test_json_holds_exact_integers_under_the_names_of_the_contract(make: Any) -> None:
    text = json_of(make.analysis(make.log(make.case1())))
    values = json.loads(text)
    assert values["schema"] == "memlens.analyze/2"
    (log,) = values["logs"]
    assert (log["path"], log["trust"]["ok"], log["growth"], log["notes"]) == ("run.log", True, None, [])
    (window,) = log["windows"]
    assert {key: window[key] for key in ("name", "start_line", "end_line", "events")} == {
        "name": "SOT_CALL_0",
        "start_line": 52,
        "end_line": 75,
        "events": 7,
    }
    assert window["remaining"] == {"remaining_bytes": 7077888, "carried_in_bytes": 23889664, "live_bytes": 30967552}
    assert (window["peak"]["peak_bytes"], window["peak"]["rise_bytes"]) == (23889664 + 10616832, 10616832)
    assert (window["peak"]["line"], window["peak"]["event"]) == (69, 35)
    block = {"size_bytes": 16809728, "count": 1, "total_bytes": 16809728, "owner": None, "holder": None}
    assert window["peak"]["live"][1] == block
    assert (window["stats"]["allocs"], window["stats"]["frees"]) == (3, 1)
    assert window["unmatched"]["held"][0]["freed"] == "never"
    assert values["failures"] == []


def test_json_lists_are_cut_to_top_and_what_is_left_out_is_counted(make: Any) -> None:
    peak = json.loads(json_of(make.analysis(make.log(make.case1()), top=1)))["logs"][0]["windows"][0]["peak"]
    assert (len(peak["live"]), peak["live_left_out"]) == (1, 2)


def test_json_lists_leave_small_blocks_out(make: Any) -> None:
    analysis = make.analysis(make.log(make.case1()), top=10, min_size=4096)
    peak = json.loads(json_of(analysis))["logs"][0]["windows"][0]["peak"]
    assert [row["size_bytes"] for row in peak["live"]] == [3538944, 16809728]
    assert peak["live_left_out"] == 1


@pytest.mark.parametrize("top", [0, 3, None])
def test_windows_are_written_one_by_one_and_the_text_is_the_same(make: Any, top: int | None) -> None:
    analysis = make.analysis(make.series(400), make.log(make.case1(make.HOSTILE)), top=top)
    parts = list(json_parts(analysis))
    text = "".join(parts)
    assert json.loads(text) == analysis.to_dict()
    assert text.isascii()
    assert len(parts) > 2
    assert max(map(len, parts)) < len(text) / 2
    rows, out = analysis.rows(), io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
    assert "".join(csv_parts(analysis)) == out.getvalue()


def test_records_are_written_as_field_by_field(examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = memlens.diff(examples / "case1_pt.log", examples / "case1_pir.log")
    assert any(len(finding.members) > 1 for window in compared.windows for finding in window.findings)
    text, values = json_of(compared), compared.to_dict()
    monkeypatch.setattr(results, "_is_record", lambda kind: False)
    assert json_of(compared) == text
    assert compared.to_dict() == values == json.loads(text)


@given(st.integers(0, 9), st.integers(1, 4), st.slices(9))
def test_rows_are_the_tuple_of_all(count: int, at_once: int, part: slice) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "_MOST_KEPT", at_once)
        rows = results.Rows(count, lambda at: [f"row {k}" for k in at])
        whole = tuple(f"row {k}" for k in range(count))
        assert (len(rows), tuple(rows), rows[part], pickle.loads(pickle.dumps(rows))) == (
            count,
            whole,
            whole[part],
            whole,
        )
        assert [rows[k] for k in range(-count, count)] == [whole[k] for k in range(-count, count)]
        with pytest.raises(IndexError):
            rows[count]


class _Foreign:
    """What an analyzer of another package says: of some windows more than of others."""

    def __init__(self, **values: int) -> None:
        self._values = values

    def to_dict(self) -> dict[str, int]:
        return self._values


def test_columns_that_only_later_windows_have_are_there(make: Any) -> None:
    series = make.series(3)
    said = [{"a": 1}, {"a": 2, "late": 7}, {}]
    windows = [
        replace(window, results={**window.results, "other": _Foreign(**values)})
        for window, values in zip(series.windows, said, strict=True)
    ]
    rows = rows_of(csv_of(make.analysis(replace(series, windows=windows))))
    assert [(row["a"], row["late"]) for row in rows] == [("1", ""), ("2", "7"), ("", "")]


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_a_row_a_window_and_exact_figures(make: Any) -> None:
    rows = rows_of(csv_of(make.analysis(make.series(3))))
    assert [row["name"] for row in rows[:2]] == ["STEP_1", "STEP_2"]
    assert rows[1]["path"] == "run.log"
    figures = ("start_line", "remaining_bytes", "peak_bytes", "rise_bytes", "peak_line", "allocs", "frees")
    assert [int(rows[1][key]) for key in figures] == [20, 2 << 20, 24 << 20, 4 << 20, 20, 2000, 1998]
    assert rows[1]["duration_us"] == "122000000"
    assert rows[1]["peak_time_us"] == ""


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("SOT_CALL_4", "SOT_CALL_4"),
        ('a,"b"', 'a,"b"'),
        ("=1+2", "'=1+2"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-----STEP", "'-----STEP"),
        (" +1", "' +1"),
        ("\uff1d1+2", "'\uff1d1+2"),  # full width, which some spreadsheets take for the same
        ("\uff20SUM", "'\uff20SUM"),
        ("\t=1", "\\t=1"),
        ("\x1b[31m", "\\x1b[31m"),
    ],
)
def test_csv_text_is_visible_and_no_formula(make: Any, name: str, cell: str) -> None:
    assert rows_of(csv_of(make.analysis(make.log(make.case1(name)))))[0]["name"] == cell


@given(any_text)
def test_a_code_span_of_any_text_closes_and_stays_in_its_cell(text: str) -> None:
    span = code(text)
    fence = span[: len(span) - len(span.lstrip("`"))]
    inside = span[len(fence) : -len(fence)]
    assert span.endswith(fence)
    # The fence is longer than any run of backticks inside, so that nothing inside ends the span.
    assert fence not in inside
    # As GitHub reads a row: a backslash and the character behind it belong together, and no bare pipe is left.
    rest = iter(inside)
    assert not any(character == "|" for character in rest if character != "\\" or not next(rest, ""))
    assert "\n" not in span


@given(st.dictionaries(any_text, st.one_of(any_text, st.integers(), st.none(), st.lists(any_text)), min_size=1))
@example({"no UTF-8": "\ud800", "a control character": "\x7f"})
def test_entries_that_are_written_at_once_are_those_written_one_by_one(entries: dict[str, Any]) -> None:
    text = "".join(_json([[[[entries]]]], 0))
    assert text.isascii()
    assert "##" not in text
    lines = text.splitlines()[5:-5]
    assert lines == [
        f"     {_text(name)}: {_text(value)}{',' * (number < len(entries))}"
        for number, (name, value) in enumerate(entries.items(), 1)
    ]


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("examples/logs/cnn_5steps.log.gz", r"^START (\w+)"),
        ("examples/logs/case1_pir.log", r"START (SOT_CALL_\d+)"),
        ("examples/logs/torch_leak.json.gz", r"(.+)"),
        ("06_noprefix.log", r"^I?.*Alloc \d+(3)"),
        ("06_naive_best_fit_customdev.log", r"(Alloc|ALLOC).*[0-9a]$"),
        ("08_cpu_stats_331.log", r"Update.*(\d)$"),
    ],
)
def test_windows_without_lists_are_said_of_all_at_once_as_of_each(request: Any, name: str, by: str) -> None:
    """What the machine output says of a series is made of columns; here each window's is made of its results, too."""
    path = ROOT / name if "/" in name else request.getfixturevalue("shared") / "data" / "paddle" / name
    (log,) = memlens.analyze(path, by=by, top=0).logs
    windows: Any = log.windows
    each = [results.to_builtins(results.plain(window, 0)) for window in windows]
    assert len(each) > 1
    assert [*windows.plain_rows()] == each
