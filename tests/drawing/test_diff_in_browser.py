"""The report of two runs: both curves over one axis, the difference, the findings and the windows are those of ``diff`` and of the logs' lines."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, Make, Page
from canvases import colour, drawn_in
from grids import rows_of
from logs_of_reports import plain_levels
from night import some
from unpacked import diff_of

import memlens
from memlens.drawing import differences
from memlens.facts import Kind

UPPER = "#diff canvas"


@pytest.fixture
def made(report: Make, inputs: Make) -> Any:
    return report(*inputs("diff"))


ROW = "#findings-table tr[data-row='0']"


def findings_of(page: Page) -> list[dict[str, str]]:
    return rows_of(page, "#findings-table") if page.all("#findings-table") else []


def test_the_findings_are_those_of_diff(made: Any) -> None:
    page = made.open()
    said = made.diff["repeated"]
    assert said
    rows = findings_of(page)
    assert len(rows) == len(said)
    for row, finding in zip(rows, said, strict=True):
        assert int(row["size_bytes"]) == finding["finding"]["size_bytes"]
        assert int(row["count"]) == finding["count"]
        assert int(row["total_bytes"]) == finding["total_bytes"]
        assert int(row["d_remaining_bytes"]) == finding["d_remaining_bytes"]
        # That no peak of a window differs by any of them is no figure: it would read as if the peak of the run did not.
        assert finding["largest_d_peak_bytes"] == 0
        assert "d_peak_bytes" not in row
        assert int(row["windows"]) == finding["windows"]
        assert row["first_window"] == finding["first_window"]
    # No table has to be scrolled sideways on a screen of 1,400 pixels.
    wide = "return [...document.querySelectorAll('.wide')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.firstChild.id)"
    assert page.run(wide) == []


@pytest.mark.changed("drawing")
def test_the_pointer_tells_both_levels_and_what_lies_between_them(made: Any, examples: Path) -> None:
    page = made.open()
    level = {}
    for side, name in (("base", "case1_pt.log"), ("head", "case1_pir.log")):
        levels, lines = plain_levels(examples / name)
        level[side] = {0: 0} | dict(zip(lines, levels, strict=True))
    seen = set()
    for selector in (UPPER, "#diff .caption + .track canvas"):
        for share in (0.02, 0.2, 0.41, 0.6, 0.83, 0.99):
            page.hover(selector, share)
            told = page.data("#diff-at")
            base, head = int(told["baseBytes"]), int(told["headBytes"])
            assert base == level["base"][int(told["baseLine"])]
            assert head == level["head"][int(told["headLine"])]
            assert int(told["differenceBytes"]) == head - base
            seen.add((base, head))
    assert len(seen) > 4
    page.assert_well()


@pytest.mark.changed("drawing")
def test_a_click_shows_a_finding_in_both_runs(made: Any) -> None:
    page = made.open()
    finding = made.diff["repeated"][0]["finding"]
    whole = page.shown("#diff")
    before = page.run("return document.querySelector(arguments[0]).toDataURL()", UPPER)
    assert page.text("#finding")  # the first one is open already
    page.click(ROW, 0.05)
    assert not page.text("#finding")
    page.click(ROW, 0.05)
    said = page.text("#finding")
    for side in ("base", "head"):
        for line in (finding[side]["alloc_line"], finding[side]["free_line"]):
            assert f"{line:,}" in said
    for quoted in finding["context"]:
        assert " ".join(quoted["text"].split()) in said
    assert "chosen" in str(page.one(ROW).get_attribute("class"))
    part = page.shown("#diff")
    assert whole[0] <= part[0] < part[1] <= whole[1]
    assert page.run("return document.querySelector(arguments[0]).toDataURL()", UPPER) != before
    page.assert_well()


@pytest.mark.changed("drawing")
def test_a_hostile_log_beside_itself_with_less(
    report: Make, inputs: Make, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log, *cut = inputs("hostile log")
    lines = Path(log).read_bytes().splitlines(keepends=True)
    less = tmp_path_factory.mktemp("less") / Path(log).name
    less.write_bytes(b"".join(line for line in lines if b"Free 8192 bytes" not in line))
    page = report(log, "--base", str(less), *cut).open()
    assert findings_of(page)
    page.run("for (const row of document.querySelectorAll('#findings-table tbody tr')) row.click()")
    page.settle()
    assert page.run("return window.ran") is None
    assert page.hidden_characters() == []
    page.assert_well()
    page.resize(400)
    assert page.overflow() <= 0


@pytest.mark.parametrize("width", some([400, 1400]))
@pytest.mark.parametrize("scheme", some(["dark", "light"]))
def test_the_page_of_a_diff_fits_the_window(made: Any, width: int, scheme: str) -> None:
    page = made.open(width=width, scheme=scheme)
    assert page.overflow() <= 0
    page.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert page.overflow() <= 0


def test_what_both_runs_hold_is_stacked_by_the_same_groups(made: Any, examples: Path) -> None:
    page, view = made.open(), diff_of(made.path.read_text())
    logs = {"base": memlens.read(examples / "case1_pt.log"), "head": memlens.read(examples / "case1_pir.log")}
    ways = {side: view["stacks"][side]["ways"] for side in logs}
    assert [way["groups"] for way in ways["base"]] == [way["groups"] for way in ways["head"]]
    by_size = next(k for k, way in enumerate(ways["base"]) if way["key"] == "size")
    page.run(
        "const by = document.querySelector('#diff-by'); by.selectedIndex = arguments[0]; by.dispatchEvent(new Event('change'))",
        by_size,
    )
    groups = ways["base"][by_size]["groups"]
    for share in (0.1, 0.3, 0.41, 0.6, 0.83):
        page.hover(UPPER, share)
        told = page.data("#diff-at")
        for side, log in logs.items():
            event = log.line_numbers(range(len(log))).index(int(told[f"{side}Line"]))
            alloc = np.flatnonzero(log.kind[: event + 1] == Kind.ALLOC)
            partner = log.lifetimes.partner[alloc]
            sizes = log.size[alloc[(partner < 0) | (partner > event)]]
            inside = [(sizes >= group["from"]) & (sizes < group["to"]) for group in groups]
            if not groups[-1]["to"]:
                inside[-1] = ~np.logical_or.reduce(inside)
            sums = [int(size) for size in told[f"{side}Sums"].split(",")]
            assert sums == [int(sizes[one].sum()) for one in inside]
            assert sum(sums) == int(told[f"{side}Bytes"])
    inks = [colour(page, group["ink"]) for group in groups]
    assert sum(drawn_in(page, UPPER, ink) > 50 for ink in inks) >= 3
    page.assert_well()


#: From now on note what is written on canvases where it can be seen.
NOTE = """
const { prototype } = CanvasRenderingContext2D, fill = prototype.fillText;
window.written = [];
prototype.fillText = function (text, x, y) {
  const wide = this.measureText(text).width, left = x - wide * { left: 0, center: 0.5, right: 1 }[this.textAlign];
  if (left >= 0 && left + wide <= this.canvas.clientWidth) written.push(text);
  fill.call(this, text, x, y);
};"""


def test_the_axis_of_two_runs_is_named(made: Any) -> None:
    page = made.open()
    page.run(NOTE)
    page.click("#diff .controls input")  # the scales are drawn anew
    written = page.run("return window.written")
    assert {"base line", "head line"} <= set(written)
    # There is room for the name of a trace's axis, which has entries.
    room = page.run("""
    const { clientWidth: width } = document.querySelector("#diff .track canvas:last-child"), context = document.createElement("canvas").getContext("2d");
    context.font = "11px system-ui, sans-serif";
    return width - 6 - Math.max(...["base entry", "head entry"].map((name) => context.measureText(name).width));""")
    assert room >= 0
    assert not any(text.startswith("base ") and text != "base line" for text in written)


@pytest.mark.changed("drawing")
def test_where_the_runs_part_is_marked(made: Any) -> None:
    page, view = made.open(), diff_of(made.path.read_text())
    assert view["parting"] == made.diff["parting"]
    (span,) = next(row["spans"] for row in view["windows"] if row["name"] == view["parting"])
    height = page.run("return document.querySelector(arguments[0]).clientHeight", UPPER)
    page.click(UPPER, sum(span) / 2 / view["slots"], 1.5 * 17 / height)  # the row below that of the windows
    assert page.shown("#diff") == tuple(span)
    # A link shows the same part, in the same groups, and no finding where none is chosen.
    page.run(
        "const by = document.querySelector('#diff-by'); by.selectedIndex = 1; by.dispatchEvent(new Event('change'))"
    )
    page.click(ROW, 0.05)
    seen = "return [...document.querySelectorAll('#diff .legend span, #diff-by, #finding, [role=status]')].map((e) => e.value ?? e.textContent)"
    page.hover("h1", 0.01)
    page.wait_for(lambda: "finding=" in page.run("return location.hash"), "address")
    before, address = page.run(seen), page.run("return location.href")
    page.driver.get("about:blank")
    page.driver.get(address)
    page.wait_until_drawn()
    assert page.shown("#diff") == tuple(span)
    assert page.run(seen) == before
    assert not page.text("#finding")
    page.run("location.hash = ''")
    page.wait_for(lambda: page.shown("#diff") == (0, view["slots"]), "whole runs")
    assert page.text("#finding")
    page.assert_well()


@pytest.mark.changed("drawing")
def test_places_of_a_long_axis_that_are_told_together_are_counted(
    examples: Path, tmp_path: Path, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("EXACT", 16), ("BUCKETS", 16), ("AROUND", 2)):
        monkeypatch.setattr(differences, name, most)
    made = memlens.report(examples / "case1_pir.log", base=examples / "case1_pt.log")
    made.save(tmp_path / "page.html")
    page = chromium.open(tmp_path / "page.html")
    together = int(page.data("#diff")["slots"]) // 16
    said = set()
    for share in (0.05, 0.2, 0.5, 0.9):
        page.hover(UPPER, share)
        found = re.search(r", the most of (\d+) places together", page.text("#diff-at"))
        said.add(int(found[1]) if found else 1)
    # Buckets are nearly alike in size.
    assert said <= {together, together + 1}
    # However little is shown, the axis has lines: of places that are told together it is said where those are.
    view, beside = diff_of((tmp_path / "page.html").read_text()), 0
    columns = [part[f"{side}_line"] for part in (view["curves"], *view["details"]) for side in ("base", "head")]
    known = {f"{line:,}" for column in columns for line in column if line}
    page.run(f"{NOTE} document.querySelector('#diff canvas').focus()")
    for key in "++.++.+++.....":
        page.run("window.written = []")
        page.press(key)
        written = page.run("return window.written")
        assert known & {text.strip("\u2190\u2192 ") for text in written}
        beside += any(text.startswith("\u2190") or text.endswith("\u2192") for text in written)
    assert beside
    page.assert_well()
