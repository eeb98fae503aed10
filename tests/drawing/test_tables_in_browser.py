"""The tables of the page: their figures are those of ``analyze``, and they can be sorted, filtered and followed into the pictures."""

from __future__ import annotations

from typing import Any

import pytest
from browser import Make
from grids import rows_of
from night import some
from selenium.webdriver.common.keys import Keys

#: The figures of a window by the analyzer that has them in the machine output.
FIGURES = {
    "peak": ("peak_bytes", "rise_bytes", "reserved_peak_bytes"),
    "remaining": ("remaining_bytes", "live_bytes", "carried_in_bytes"),
    "stats": ("alloc_bytes", "allocs", "free_bytes", "frees"),
}


def windows_said(log: dict[str, Any]) -> list[dict[str, Any]]:
    """The windows that ``analyze`` has, or the steps that it found."""
    return list(log["windows"] if log["steps"] is None else log["steps"]["windows"])


@pytest.mark.parametrize("name", some(["leak", "small", "hostile log"]))
def test_the_windows_are_those_of_analyze(report: Make, inputs: Make, name: str) -> None:
    made = report(*inputs(name))
    page = made.open()
    said = windows_said(made.log)
    rows = rows_of(page, "#windows-table")
    assert len(rows) == len(said)
    for row, window in zip(rows, said, strict=True):
        for part, figures in FIGURES.items():
            for figure in figures:
                if part in window and figure in row:
                    assert int(row[figure]) == window[part][figure], figure
        assert int(row["start_line"]) == window["start_line"]
        if name != "hostile log":  # its names are made visible
            assert row["name"].removesuffix(" (open)") == window["name"]


@pytest.mark.changed("drawing")
def test_a_heading_sorts_and_a_filter_leaves_what_it_names(report: Make, inputs: Make) -> None:
    made = report(*inputs("leak"))
    page = made.open()
    said = windows_said(made.log)
    peaks = [window["peak"]["peak_bytes"] for window in said]
    page.click("#windows-table th[data-key=peak_bytes] button")
    assert page.one("#windows-table th[data-key=peak_bytes]").get_attribute("aria-sort") == "descending"
    assert [int(row["peak_bytes"]) for row in rows_of(page, "#windows-table")] == sorted(peaks, reverse=True)
    page.click("#windows-table th[data-key=peak_bytes] button")
    assert [int(row["peak_bytes"]) for row in rows_of(page, "#windows-table")] == sorted(peaks)
    page.click("#windows-table th[data-key=peak_bytes] button")
    assert [int(row["row"]) for row in rows_of(page, "#windows-table")] == list(range(len(said)))
    page.click("#windows-table th[data-key=name] button")
    names = [row["name"] for row in rows_of(page, "#windows-table")]
    assert names.index("STEP 2") < names.index("STEP 10")  # numbers as numbers
    page.one("#windows input[type=search]").send_keys("step 1")
    page.settle()
    wanted = [window["name"] for window in said if "STEP" in window["name"] and "1" in window["name"]]  # both words
    assert sorted(row["name"] for row in rows_of(page, "#windows-table")) == sorted(wanted)
    page.assert_well()


@pytest.mark.changed("drawing")
def test_a_row_is_followed_into_the_pictures_and_back(report: Make, inputs: Make) -> None:
    made = report(*inputs("leak"))
    page = made.open()
    said = windows_said(made.log)
    firsts = [sum(window["events"] for window in said[:k]) for k in range(len(said) + 1)]
    page.click("#windows-table tbody tr[data-row='3']", 0.05)
    assert page.shown() == (firsts[3], firsts[4])
    assert "chosen" in str(page.one("#windows-table tr[data-row='3']").get_attribute("class"))
    page.one("#windows-table tr[data-row='3']").send_keys(Keys.ARROW_DOWN)
    page.press(Keys.ENTER)
    assert page.shown() == (firsts[4], firsts[5])
    only = "#windows .controls input[type=checkbox]"
    page.click(only)
    assert [int(row["row"]) for row in rows_of(page, "#windows-table")] == [4]
    page.click(only)
    page.click("#picture canvas", 0.5)  # a moment of window 4
    chosen = page.run("return [...document.querySelectorAll('#windows-table tr.chosen')].map((row) => row.dataset.row)")
    assert chosen == ["4"]
    page.assert_well()


@pytest.mark.parametrize(
    "name", some(["snapshot", "leak", "oom", "small", "snapshot that ran out", "kineto", "hostile snapshot"])
)
def test_the_memory_map_has_the_figures_of_analyze(report: Make, inputs: Make, name: str) -> None:
    made = report(*inputs(name))
    page = made.open()
    moments = (made.log["windows"][0]["segments"] or {}).get("moments", [])
    if not moments:
        assert not page.all("#map-figures")
        return
    script = """
    return [...document.querySelectorAll("#map-figures tbody tr")].map((row) => [row.dataset.at, Object.fromEntries(
      [...row.querySelectorAll("td[data-key]")].map((cell) => [cell.dataset.key, cell.dataset.value]))]);"""
    rows = page.run(script)
    rows.sort(key=lambda row: row[0])
    moments.sort(key=lambda moment: moment["at"])
    if not page.all("#picture"):  # a state without history is one moment
        moments = [moment for moment in moments if moment["at"] == "end"]
    assert [at for at, _ in rows] == [moment["at"] for moment in moments]
    for (_, row), moment in zip(rows, moments, strict=True):
        for figure, value in row.items():
            assert value == ("" if moment[figure] is None else str(moment[figure])), figure
    assert page.pixels("#map canvas") > 1 or page.one("#map canvas").get_attribute("hidden") is not None


@pytest.mark.night
def test_every_byte_of_the_map_is_told_under_the_pointer(report: Make, inputs: Make) -> None:
    page = report(*inputs("leak")).open()
    found = set()
    for x in (0.1, 0.35, 0.62, 0.88):
        for y in (0.1, 0.4, 0.7):
            page.hover("#map canvas", x, y)
            told = page.data("#map-at")
            if told["bytes"]:
                found.add(told["bytes"])
                assert told["bytes"] in page.text("#map-at") or int(told["bytes"]) < 1024
    assert len(found) > 2
    page.run("document.querySelector('#map canvas').focus()")
    page.press(Keys.ARROW_RIGHT, Keys.ENTER)
    page.assert_well()
