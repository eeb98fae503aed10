"""Who is alive when: the bars, one block's whole life and what is alive at a moment, against the blocks of the log paired line by line."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import Make, Page
from logs_of_reports import EVENT, plain_levels

CANVAS = "#lifetimes canvas"
ADDRESS = re.compile(r"\] (Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)")


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
    """Places of the picture where a bar is."""
    for x in (0.15, 0.35, 0.5, 0.65, 0.8, 0.89):
        for y in (0.97, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1):
            page.hover(CANVAS, x, y)
            if page.data("#lifetimes-at")["bytes"]:
                yield x, y


def test_no_block_is_left_out_of_the_count(page: Page, blocks: list[Block]) -> None:
    drawn = page.data(CANVAS)
    assert int(drawn["bars"]) + int(drawn["leftOutBlocks"]) == len(blocks)
    assert page.pixels(CANVAS) > 3


def test_a_bar_tells_its_whole_life(page: Page, blocks: list[Block], examples: Path) -> None:
    by_line = {block.alloc_line: block for block in blocks}
    text = lines_of(examples / "leak.log.gz")
    seen = set()
    for x, y in pointed_at(page):
        told = page.data("#lifetimes-at")
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
        assert int(page.data("#life [data-bytes]")["bytes"]) == block.size == int(told["bytes"])
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


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.85, 0.999])
def test_a_click_on_the_timeline_tells_what_is_alive_there(
    page: Page, blocks: list[Block], examples: Path, share: float
) -> None:
    levels, _ = plain_levels(examples / "leak.log.gz")
    page.click("#timeline canvas", share)
    moment = page.data("#moment")
    event = int(moment["event"])
    assert (
        abs(event - share * len(levels)) < len(levels) / 200
    )  # where the click was, or the nearest moment that is kept
    assert int(moment["bytes"]) == levels[event]
    rows = page.run(
        "return [...document.querySelectorAll('#moment tbody tr[data-count]')].map((row) => [Number(row.dataset.bytes), Number(row.dataset.count)])"
    )
    assert sum(total for total, _ in rows) == levels[event]
    live = [block for block in blocks if block.alloc <= event and (block.free is None or event < block.free)]
    assert sum(count for _, count in rows) == len(live)
    sizes = Counter(block.size for block in live)
    named = page.run(
        """return [...document.querySelectorAll('#moment tbody tr[data-count]')].map((row) => [row.cells[2].textContent, Number(row.dataset.bytes) / Number(row.dataset.count), Number(row.dataset.count)])"""
    )
    for size, each, count in named:
        if size:
            assert 0 < count <= sizes[int(each)]
    page.assert_well()
