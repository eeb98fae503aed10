"""Asking the picture: the bars, one block's whole life, what is live at a moment or stays of a range, against the blocks of the log paired line by line."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import Make, Page
from canvases import colour, drawn_in
from logs_of_reports import EVENT, plain_levels
from night import some
from selenium.webdriver.common.keys import Keys

CANVAS = "#picture canvas"
ADDRESS = re.compile(r"\] (Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)")

pytestmark = pytest.mark.changed("drawing")


@dataclass
class Block:
    """One block: its size, and the events and lines (1-based) of its ALLOC and its FREE."""

    size: int
    alloc: int
    alloc_line: int
    free: int | None = None
    free_line: int | None = None


def lines_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as log:
        return log.read().split("\n")


def blocks_of(path: Path) -> list[Block]:
    """The blocks of a log, in the order of their ALLOCs."""
    made: list[Block] = []
    live: dict[str, Block] = {}
    event = 0
    for number, line in enumerate(lines_of(path), 1):
        if EVENT.search(line) is None:
            continue
        if (found := ADDRESS.search(line)) is not None:
            if found[1] == "Alloc":
                live[found[3]] = Block(int(found[2]), event, number)
                made.append(live[found[3]])
            else:
                block = live.pop(found[3])
                block.free, block.free_line = event, number
        event += 1
    return made


@pytest.fixture(scope="module")
def blocks(examples: Path) -> list[Block]:
    return blocks_of(examples / "leak.log.gz")


@pytest.fixture
def page(report: Make, inputs: Make) -> Page:
    return report(*inputs("leak")).open()  # type: ignore[no-any-return]


def pointed_at(page: Page) -> Iterator[tuple[float, float]]:
    """Places of the picture of the first steps where a bar is."""
    page.drag(CANVAS, 0.002, 0.1)
    page.run("[...document.querySelectorAll('#picture label')].find((e) => /height/.test(e.textContent)).click()")
    for x in some((0.15, 0.35, 0.5, 0.65, 0.8, 0.89), 3):
        for y in (0.94, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3):
            page.hover(CANVAS, x, y)
            if page.data("#picture-at").get("block", "-1") != "-1":
                yield x, y


def test_no_block_is_left_out_of_the_count(page: Page, blocks: list[Block]) -> None:
    counted = page.data("#blocks [data-bars]")
    assert int(counted["bars"]) + int(counted["leftBlocks"]) == len(blocks)
    assert f"of {len(blocks):,} blocks" in page.text("#blocks .controls")
    assert page.pixels(CANVAS) > 3


def test_a_bar_tells_its_whole_life(page: Page, blocks: list[Block], examples: Path) -> None:
    by_line = {block.alloc_line: block for block in blocks}
    text = lines_of(examples / "leak.log.gz")
    seen = set()
    for x, y in pointed_at(page):
        told = page.data("#picture-at")
        assert f"{blocks[int(told['block'])].size} B" in page.text("#picture-at")
        if told["block"] in seen:
            continue
        seen.add(told["block"])
        page.click(CANVAS, x, y)
        assert page.data("#life")["block"] == told["block"]
        said = page.text("#life")
        found = re.search(r"Allocated ?line ([\d,]+) \(event ([\d,]+)\)", said)
        assert found is not None
        block = by_line[int(found[1].replace(",", ""))]
        assert int(found[2].replace(",", "")) == block.alloc
        assert int(page.data("#life [data-bytes]")["bytes"]) == block.size
        freed = re.search(r"Freed ?line ([\d,]+) \(event ([\d,]+)\)", said)
        assert freed is not None
        assert int(freed[1].replace(",", "")) == block.free_line
        assert int(freed[2].replace(",", "")) == block.free
        quoted = page.run(
            "return [...document.querySelectorAll('#life [data-line]')].map((e) => [Number(e.dataset.line), e.textContent])"
        )
        for line, shown in quoted:
            assert text[line - 1].strip() in shown
    assert len(seen) >= 3
    page.assert_well()


@pytest.mark.parametrize("share", some([0.2, 0.001, 0.5, 0.85, 0.999], 5))
def test_a_click_beside_bars_tells_exactly_what_is_live_there(
    page: Page, blocks: list[Block], examples: Path, share: float
) -> None:
    levels, _ = plain_levels(examples / "leak.log.gz")
    page.click(CANVAS, share, 0.15)
    moment = page.data("#moment")
    event = int(moment["event"])
    assert abs(event - share * len(levels)) < len(levels) / 200
    assert int(moment["bytes"]) == levels[event]
    live = Counter(
        block.size for block in blocks if block.alloc <= event and (block.free is None or event < block.free)
    )
    rows = page.run("""
        return [...document.querySelectorAll("#alive tbody tr")].map((row) => [Number(row.dataset.bytes), Number(row.dataset.count)])""")
    assert {total // count: count for total, count in rows} == live
    # The legend has the bytes of each group at that moment, and the flame graph is of it.
    page.hover("h1", 0.01)
    groups = page.run(
        "return [...document.querySelectorAll('#legend [data-group] td')].map((e) => Number(e.dataset.bytes))"
    )
    assert sum(groups) == levels[event]
    assert int(page.data("#flame canvas")["peakBytes"]) == levels[event]
    page.press(Keys.ESCAPE)
    assert not page.all("#moment")
    assert int(page.data("#flame canvas")["peakBytes"]) == max(levels)
    page.assert_well()


def test_a_range_tells_what_is_born_in_it_and_stays(page: Page, blocks: list[Block], examples: Path) -> None:
    levels, _ = plain_levels(examples / "leak.log.gz")
    page.drag(CANVAS, 0.3, 0.6, 0.3, held=Keys.SHIFT)
    assert page.shown() == (0, len(levels))  # asked about, and not zoomed into
    said = {name: int(value) for name, value in page.data("#range").items()}
    lo, hi = said["from"], said["to"]
    assert lo == pytest.approx(0.3 * len(levels), abs=len(levels) / 200)
    assert hi == pytest.approx(0.6 * len(levels), abs=len(levels) / 200)
    stay = [block for block in blocks if lo <= block.alloc <= hi and (block.free is None or block.free > hi)]
    assert (said["staying"], said["stayingBytes"]) == (len(stay), sum(block.size for block in stay))
    assert said["bytes"] == levels[hi] - levels[lo - 1]
    page.run("document.querySelector(arguments[0]).focus()", CANVAS)
    page.press(Keys.ESCAPE, "[", ".", ".", ".", "]")  # the same by keys, after what the pointer was at
    assert int(page.data("#range")["to"]) > int(page.data("#range")["from"])
    page.assert_well()


def test_what_is_sought_stands_out(page: Page, blocks: list[Block]) -> None:
    before = {name: drawn_in(page, CANVAS, colour(page, name)) for name in ("piles", "steady", "passing")}
    assert min(before.values()) > 500
    page.one("#picture-find").send_keys("piles up")
    page.settle()
    found = {name: drawn_in(page, CANVAS, colour(page, name)) for name in before}
    assert (found["steady"], found["passing"]) == (0, 0)
    assert found["piles"] == pytest.approx(before["piles"], rel=0.02)  # where there is room its bars have edges
    page.wait_for(lambda: page.run("return location.hash") == "#find=piles+up", "address")
    # Blocks that are too small for bars of their own are there all the same: 512 KiB is less than two pixels high.
    page.run("document.querySelector('#picture-find').value = ''")
    page.one("#picture-find").send_keys("512.00 KiB")
    page.settle()
    sought = [block for block in blocks if block.size == 512 << 10]
    assert f"{len(sought)} of {len(blocks):,} bars" in page.text("#picture-found")
    assert 0.2 < drawn_in(page, CANVAS, colour(page, "piles")) / before["piles"] < 0.6
    page.assert_well()


def test_a_group_is_shown_alone_from_the_legend(page: Page) -> None:
    before = drawn_in(page, CANVAS, colour(page, "steady"))
    page.click("#legend [data-group='0'] button")
    assert (drawn_in(page, CANVAS, colour(page, "piles")), drawn_in(page, CANVAS, colour(page, "passing"))) == (0, 0)
    assert drawn_in(page, CANVAS, colour(page, "steady")) == pytest.approx(before, rel=0.1)
    assert page.focused()["tag"] == "button"  # where it was
    page.press(Keys.ENTER)
    assert drawn_in(page, CANVAS, colour(page, "piles")) > 500
    page.assert_well()


def test_a_link_shows_the_same_view(page: Page) -> None:
    page.drag(CANVAS, 0.3, 0.6)
    page.run("""
        const select = document.querySelector("#picture-by");
        select.selectedIndex = [...select.options].findIndex((option) => option.value === "size");
        select.dispatchEvent(new Event("change"));""")
    page.click(CANVAS, 0.4, 0.2)
    page.hover("h1", 0.01)
    page.wait_for(lambda: "moment=" in page.run("return location.hash"), "address")
    seen = (page.shown(), page.data("#moment"), page.text("#legend"), page.data(CANVAS)["by"])
    address = page.run("return location.href")
    page.driver.get("about:blank")
    page.driver.get(address)
    page.wait_until_drawn()
    assert (page.shown(), page.data("#moment"), page.text("#legend"), page.data(CANVAS)["by"]) == seen
    assert page.run("return document.querySelector('#picture-by').value") == "size"
    page.run("location.hash = ''")
    page.wait_for(lambda: page.shown() == (0, 9097), "whole run")
    assert page.run("return document.querySelector('#picture-by').value") == "what piles up"


@pytest.mark.night
@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_the_selected_bar_stands_out_from_whatever_lies_beside_it(report: Make, inputs: Make, scheme: str) -> None:
    page = report(*inputs("leak")).open(scheme=scheme)
    text, back = colour(page, "text"), colour(page, "back")

    def luminance(of: list[int]) -> float:
        parts = [part / 255 for part in of]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    # Its edge and its inside: whatever colour lies beside it, one of the two is 3:1 against that.
    low, high = sorted((luminance(text) + 0.05, luminance(back) + 0.05))
    assert high / low >= 9
    x, y = next(iter(pointed_at(page)))
    page.click(CANVAS, x, y)
    page.hover("h1", 0.01)
    assert drawn_in(page, CANVAS, colour(page, "text")) > 20
