"""The memory map, the flame graph and the tables in a browser: they show the figures of the analysis, and answer pointer and keys."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from browser import Browser, Make
from canvases import colour, drawn_in
from night import some
from selenium.webdriver.common.keys import Keys
from unpacked import view_of

import memlens
from memlens.analyzers.segments import layout_before
from memlens.cli import main
from memlens.drawing.lifetimes import largest_blocks

pytestmark = pytest.mark.changed("drawing")


def test_what_failed_is_shown_first_and_each_moment_by_its_button(report: Make, inputs: Make) -> None:
    page = report(*inputs("oom")).open()
    assert page.text('#map-figures [aria-pressed="true"]') == "Out of memory"
    page.run("document.querySelector('#map-figures [data-at=\"peak\"] button').click()")
    assert page.text('#map-figures [aria-pressed="true"]') == "The peak"
    assert "at the peak" in page.run("return document.querySelector('#map canvas').ariaLabel")


@pytest.mark.parametrize("name", some(["oom", "snapshot"]))
def test_the_keys_go_through_all_blocks_of_the_map_and_select_them(report: Make, inputs: Make, name: str) -> None:
    made = report(*inputs(name))
    page = made.open()
    view = view_of(made.path.read_text())
    moment = next((one for one in view["maps"]["moments"] if one["at"] == "oom"), view["maps"]["moments"][0])
    layout = layout_before(memlens.read(made.words[0]), moment["after"] + 1)
    assert layout is not None
    seen = page.run("""
        const canvas = document.querySelector('#map canvas'), told = document.getElementById('map-at'), seen = [];
        for (let last = ''; ; last = told.textContent) {
          canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
          if (told.textContent === last) return seen;
          seen.push([Number(told.dataset.event), Number(told.dataset.bytes), told.textContent]);
        }""")
    assert sorted(event for event, _, _ in seen) == layout.block_event.tolist()
    assert sum(size for _, size, _ in seen) == moment["allocated_bytes"]
    addresses = dict(zip(layout.block_event.tolist(), layout.block_addr.tolist(), strict=True))
    assert all(f"at 0x{addresses[event]:x} " in text for event, _, text in seen)
    assert all("Block of" in text for _, _, text in seen)
    page.run("document.querySelector('#map canvas').focus()")
    page.press(Keys.ENTER)
    bars = view["lifetimes"]["alloc"]
    assert page.data("#life")["block"] == str(bars.index(seen[-1][0]) if seen[-1][0] in bars else -1)
    page.assert_well()


@pytest.mark.parametrize("name", some(["snapshot", "oom", "leak"]))
def test_the_map_is_that_of_whatever_moment_is_clicked(report: Make, inputs: Make, name: str) -> None:
    made = report(*inputs(name))
    page, log = made.open(), memlens.read(made.words[0])
    before = page.data("#map canvas")
    for share in (0.1, 0.45, 0.7):
        page.click("#picture canvas", share, 0.13)
        event = int(page.data("#moment")["event"])
        layout = layout_before(log, event + 1)
        assert layout is not None
        chunks, gaps, gap_bytes, largest, outside = layout.figures()
        allocated, reserved = log.level_before(event + 1)
        expected = {"reserved_bytes": reserved, "allocated_bytes": allocated, "chunks": chunks, "gaps": gaps}
        expected |= {"gap_bytes": gap_bytes, "largest_gap_bytes": largest}
        assert not outside
        cells = page.run("""
            return Object.fromEntries([...document.querySelectorAll('#map-figures tr:last-child td')].map((cell) => [cell.dataset.key, cell.dataset.value]))""")
        assert {key: int(cells[key]) for key in expected} == expected
        assert page.data("#map canvas")["event"] == str(event)
        words = f"{chunks:,} {'chunk' if name in ('oom', 'leak') else 'segment'}s"
        assert words in page.run("return document.querySelector('#map canvas').ariaLabel")
    page.press(Keys.ESCAPE)
    assert page.data("#map canvas") == before
    page.assert_well()


@pytest.mark.night
def test_of_a_long_log_the_map_is_that_of_the_nearest_known_moment_and_says_so(
    chromium: Browser, inputs: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlens.drawing.memory_map.OTHERS", 1000)
    monkeypatch.setattr("memlens.drawing.report.largest_blocks", partial(largest_blocks, most=100))
    to = tmp_path / "page.html"
    assert main(["report", *inputs("leak"), "-o", str(to), "-q"]) == 0
    page, log = chromium.open(to), memlens.read(inputs("leak")[0])
    for share in (0.11, 0.31, 0.63):
        page.click("#picture canvas", share, 0.13)
        asked, event = int(page.data("#legend")["event"]), int(page.data("#map canvas")["event"])
        assert (event == asked) == (page.text("#map [role=status]") == "")
        if event != asked:
            said = f"Of event {asked:,} this page does not know every block; the map is that of event {event:,}, "
            assert said in page.text("#map [role=status]")
        layout = layout_before(log, event + 1)
        assert layout is not None
        assert f"with {layout.figures()[1]:,} gaps" in page.run(
            "return document.querySelector('#map canvas').ariaLabel"
        )
    page.assert_well()


def test_a_click_on_a_flame_zooms_and_escape_shows_all(report: Make, inputs: Make) -> None:
    made = report(*inputs("snapshot"))
    page = made.open()
    assert int(page.data("#flame canvas")["peakBytes"]) == made.peak_bytes
    height = page.run("return document.querySelector('#flame canvas').clientHeight")
    page.click("#flame canvas", 0.1, 1.5 * 19 / height)
    told = page.data("#flame-at")
    assert page.data("#flame canvas")["focus"] == told["name"] != "all that is live"
    assert 0 < int(told["bytes"]) < made.peak_bytes
    page.press(Keys.ESCAPE)
    assert page.data("#flame canvas")["focus"] == "all that is live"
    page.press(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ARROW_DOWN, Keys.ENTER)
    inner = page.data("#flame canvas")["focus"]
    assert inner == told["name"]  # the largest one, which comes first
    page.press(Keys.ARROW_DOWN, Keys.ENTER, Keys.BACKSPACE)
    assert page.data("#flame canvas")["focus"] == inner
    # Of the block that the pointer is on there is the whole stack that allocates it, in the map as in the picture.
    view, seen = view_of(made.path.read_text()), 0
    parts = (view["lifetimes"], view["others"]["columns"])
    number = {alloc: owner for part in parts for alloc, owner in zip(part["alloc"], part["owner"], strict=True)}
    for x in (0.1, 0.3, 0.5, 0.7):
        page.hover("#map canvas", x, 0.3)
        if event := page.data("#map-at").get("event"):
            stack = view["owners"][number[int(event)]]
            assert " ".join(stack.split()) in page.text("#map-at")
            seen += stack.count(" < ") > 1
    assert seen
    page.assert_well()


@pytest.mark.parametrize(("name", "ink", "other"), [("leak", "piles", "size-1"), ("diff", "owner-1", None)])
def test_a_flame_has_the_colours_of_the_picture(
    report: Make, inputs: Make, name: str, ink: str, other: str | None
) -> None:
    made = report(*inputs(name))
    page = made.open()
    canvas = "#flame canvas"
    area = page.run("const c = document.querySelector(arguments[0]); return c.width * c.height", canvas)
    # In the leak nearly all of each kind of block piles up; in the diff both runs call what allocates most by one name, though their own names differ.
    assert drawn_in(page, canvas, colour(page, ink)) > area / 4 / (2 if name == "diff" else 1)
    if other:
        assert drawn_in(page, canvas, colour(page, other)) == 0
        page.run("""
        const by = document.querySelector("#picture-by");
        by.selectedIndex = [...by.options].findIndex(({ text }) => text === "size");
        by.dispatchEvent(new Event("change", { bubbles: true }));""")
        page.settle()
        assert drawn_in(page, canvas, colour(page, ink)) == 0
        assert drawn_in(page, canvas, colour(page, other)) > area / 10
    page.assert_well()


@pytest.mark.night
def test_what_is_sought_in_the_picture_keeps_its_colour_in_the_flame_graph(report: Make, inputs: Make) -> None:
    page = report(*inputs("snapshot")).open()
    colours = page.pixels("#flame canvas")
    page.one("#picture-find").send_keys("no box is called so")
    page.settle()
    assert page.pixels("#flame canvas") < colours / 2
    page.one("#picture-find").send_keys(Keys.BACKSPACE * len("no box is called so"))
    page.settle()
    assert page.pixels("#flame canvas") == colours


@pytest.mark.night
def test_ten_thousand_windows_are_shown_in_pages(report: Make, tmp_path: Path) -> None:
    line = "I0712 10:54:13.{:06d} 1 auto_growth_best_fit_allocator.cc:131] {} 512 bytes, ptr = 0x7f0000{:04x}00\n"
    path = tmp_path / "many.log"
    path.write_text(
        "".join(f"STEP {k} START\n{line.format(k, 'Alloc', k)}{line.format(k, 'Free', k)}" for k in range(10_000))
    )
    page = report(str(path), "--by", r"STEP (\d+) START").open()
    assert len(page.all("#windows-table tbody tr")) == 20
    took = page.run("""
        const start = performance.now();
        document.querySelector('#windows-table th[data-key="name"] button').click();
        document.querySelector('#windows-table th[data-key="name"] button').click();
        return performance.now() - start;""")
    assert page.text("#windows-table tbody tr td") == "9999 (open)"
    assert took < 1000
    page.assert_well()
