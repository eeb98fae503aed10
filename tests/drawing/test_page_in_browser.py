"""Reports opened in a browser: they are well, they fit, and they say what the other verbs say of the same input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browser import Browser, Make
from night import NIGHT, some
from selenium.webdriver.common.keys import Keys

import memlens
from memlens.facts import Kind
from memlens.text import format_bytes

#: Every input that a report is tried on; the diff has tests of its own.
INPUTS: tuple[str, ...] = (
    "small",
    "leak",
    "oom",
    "torn",
    "snapshot",
    "snapshot that ran out",
    "snapshot of one moment",
    "kineto",
    *(("million",) if NIGHT else ()),
    "hostile log",
    "hostile snapshot",
)
#: Those of one moment: no event, no curve.
STILL = ("snapshot that ran out", "snapshot of one moment")


@pytest.mark.parametrize("name", some(INPUTS, 6))
def test_the_page_says_what_analyze_says(report: Make, inputs: Make, name: str) -> None:
    made = report(*inputs(name))
    page = made.open()
    sentences = page.run("return [...document.querySelectorAll('#verdict span')].map((span) => span.textContent)")
    assert " ".join(sentences) == made.analysis["verdict"]
    assert page.text("h1") == " ".join(page.run("return document.title").split())


@pytest.mark.parametrize("name", some(name for name in INPUTS if name not in STILL))
def test_the_curve_reaches_the_peak_that_analyze_finds(report: Make, inputs: Make, name: str) -> None:
    made = report(*inputs(name))
    page = made.open()
    assert int(page.data("#picture")["peakBytes"]) == made.peak_bytes
    assert page.pixels("#picture canvas") > 1


@pytest.mark.parametrize("name", some(INPUTS, 5))
@pytest.mark.parametrize("width", some([400, 1400]))
def test_the_page_fits_the_window(report: Make, inputs: Make, name: str, width: int) -> None:
    page = report(*inputs(name)).open(width=width)
    assert page.overflow() <= 0
    page.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert page.overflow() <= 0


@pytest.mark.night
def test_zooms_are_tried_before_anybody_zooms_and_leave_the_view_as_it_was(report: Make, inputs: Make) -> None:
    page = report(*inputs("leak")).open()
    drawn = (
        "return performance.getEntriesByName('memlens-redraw').filter(({detail}) => detail.startsWith('What is live'))"
    )
    assert len(page.run(drawn)) >= 8
    seen, shown = "return document.querySelector('#picture canvas').toDataURL()", page.data("#picture")
    before = page.run(seen)
    page.run("document.querySelector('#picture canvas').focus()")
    page.press("+", Keys.HOME)
    assert (page.run(seen), page.data("#picture")) == (before, shown)


@pytest.mark.night
def test_the_links_lead_to_the_parts_in_the_frame_of_a_notebook_too(
    chromium: Browser, examples: Path, tmp_path: Path
) -> None:
    notebook = tmp_path / "notebook.html"
    frame = memlens.report(examples / "leak.log.gz")._repr_html_()
    notebook.write_text(f"<!doctype html><meta charset=utf-8><title>notebook</title>{frame}")
    page = chromium.open(notebook, wait=False)
    page.driver.switch_to.frame(0)
    page.wait_for(lambda: page.run("return document.documentElement.dataset.ready"), "report in the frame")
    page.one("nav a[href='#flame']").click()
    top = "return Math.abs(document.getElementById('flame').getBoundingClientRect().top)"
    page.wait_for(lambda: page.run(top) < 100, "flame graph at the top of the frame", 3)
    assert page.run("return [document.title, location.href]") == ["leak.log.gz", "about:srcdoc"]
    page.driver.switch_to.default_content()
    page.assert_well()


@pytest.mark.parametrize("name", some(["oom", "leak", "kineto", "snapshot"], 2))
def test_each_figure_on_top_stands_beside_the_moment_that_it_belongs_to(report: Make, inputs: Make, name: str) -> None:
    made = report(*inputs(name))
    page, peak = made.open(), made.log["windows"][0]["peak"]
    notes = page.run("return [...document.querySelectorAll('#figures .note')].map((note) => note.textContent)")
    word = "line" if name in ("leak", "oom") else "entry"
    reserved = peak["reserved_at_peak_bytes"]
    expected = [f"at {word} {peak['line']:,}" + ("" if reserved is None else f", {format_bytes(reserved)} reserved")]
    log = memlens.read(made.words[0])
    grown = np.where(log.kind == Kind.RESERVE, log.size, np.where(log.kind == Kind.RELEASE, -log.size, 0)).cumsum()
    highest = int(grown.argmax())
    if reserved is not None and highest >= log.facts.opening:
        expected.append(f"at {word} {log.line_numbers([highest])[0]:,}")
    assert notes == expected
