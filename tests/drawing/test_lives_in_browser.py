"""The bars, one block and one moment in a browser: what a click shows is what the other verbs say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.webdriver.common.keys import Keys

import memlens

Make = Callable[..., Any]

CANVAS = "#lifetimes canvas"


def test_the_largest_block_of_the_list_is_shown_with_its_whole_life(report: Make, inputs: Make) -> None:
    (path,) = inputs("oom")
    page = report(path).open()
    log = memlens.read(path)
    largest = int(log.size[log.kind == 0].max())
    page.one("#largest summary").send_keys(Keys.ENTER)
    page.press(Keys.TAB, Keys.ENTER)
    assert int(page.data("#life [data-bytes]")["bytes"]) == largest
    marked = page.run(
        "return [...document.querySelectorAll('#life mark')].map((mark) => [mark.dataset.line, mark.textContent])"
    )
    said = memlens.block(path, int(marked[0][0]))
    assert [int(line) for line, _ in marked] == [said.life.alloc_line, said.life.free_line]
    shown = page.run("return [...document.querySelectorAll('#life pre *')].map((line) => line.textContent.trimEnd())")
    wanted = [line for line in (*said.alloc_context, *said.free_context) if "Alloc" in line.text or "Free" in line.text]
    assert wanted
    assert sum(any(text.endswith(f"{line.line}  {line.text.rstrip()}") for text in shown) for line in wanted) >= 2
    page.assert_well()


def test_a_click_on_a_bar_selects_it_and_one_above_the_curve_a_moment(report: Make, inputs: Make) -> None:
    made = report(*inputs("leak"))
    page = made.open()
    page.click(CANVAS, 0.5, 0.97)
    block = int(page.data("#life")["block"])
    assert block >= 0
    log = memlens.read(inputs("leak")[0])
    line = int(page.run("return document.querySelector('#life mark').dataset.line"))
    assert int(page.data("#life [data-bytes]")["bytes"]) == memlens.block(log, line).life.size_bytes
    page.click(CANVAS, 0.5, 0.01)
    assert page.data("#life")["block"] == ""
    moment = page.data("#moment")
    rows = page.run(
        "return [...document.querySelectorAll('#moment tr[data-count]')].map((row) => Number(row.dataset.bytes))"
    )
    assert len(rows) > 1
    assert sum(rows) == int(moment["bytes"])
    assert int(moment["bytes"]) == log.level_before(int(moment["event"]) + 1)[0]
    page.assert_well()


def test_the_bars_of_a_million_events_are_drawn_at_once_and_zoomed(report: Make, inputs: Make, shared: Path) -> None:
    assert shared
    page = report(*inputs("million")).open()
    canvas = page.data(CANVAS)
    assert int(canvas["bars"]) >= 4000
    assert page.pixels(CANVAS) > 1
    page.assert_well()
