"""The memory map, the flame graph and the tables in a browser: they show the figures of the analysis, and answer pointer and keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Make
from selenium.webdriver.common.keys import Keys
from unpacked import view_of


def test_what_failed_is_shown_first_and_each_moment_by_its_button(report: Make, inputs: Make) -> None:
    page = report(*inputs("oom")).open()
    assert page.text('#map-figures [aria-pressed="true"]') == "Out of memory"
    page.run("document.querySelector('#map-figures [data-at=\"peak\"] button').click()")
    assert page.text('#map-figures [aria-pressed="true"]') == "The peak"
    assert "at the peak" in page.run("return document.querySelector('#map canvas').ariaLabel")


@pytest.mark.parametrize("name", ["oom", "snapshot"])
def test_the_keys_go_through_all_blocks_of_the_map_and_select_them(report: Make, inputs: Make, name: str) -> None:
    made = report(*inputs(name))
    page = made.open()
    view = view_of(made.path.read_text())
    moment = next((one for one in view["maps"]["moments"] if one["at"] == "oom"), view["maps"]["moments"][0])
    seen = page.run("""
        const canvas = document.querySelector('#map canvas'), told = document.getElementById('map-at'), seen = [];
        for (let last = ''; ; last = told.textContent) {
          canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
          if (told.textContent === last) return seen;
          seen.push([Number(told.dataset.event), Number(told.dataset.bytes), told.textContent]);
        }""")
    assert sorted(event for event, _, _ in seen) == sorted(moment["pieces"]["events"])
    assert sum(size for _, size, _ in seen) == moment["allocated_bytes"]
    assert all("Block of" in text for _, _, text in seen)
    page.run("document.querySelector('#map canvas').focus()")
    page.press(Keys.ENTER)
    bars = view["lifetimes"]["alloc"]
    assert page.data("#life")["block"] == str(bars.index(seen[-1][0]) if seen[-1][0] in bars else -1)
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
    page.assert_well()


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
