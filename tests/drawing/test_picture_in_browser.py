"""The picture under pointer and keys: what it shows is counted again here, line by line, from the text of the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Make, Page
from logs_of_reports import SPIKE, plain_levels
from night import some
from selenium.webdriver.common.keys import Keys

CANVAS = "#picture canvas"
#: How near the pointer has to be, in CSS pixels.
NEAR = 2

pytestmark = pytest.mark.changed("drawing")


def picture(page: Page) -> str:
    """What is drawn."""
    return str(page.run("return document.querySelector(arguments[0]).toDataURL()", CANVAS))


def test_a_drag_shows_what_was_dragged_over(leak: Page) -> None:
    lo, hi = leak.shown()
    assert (lo, hi) == (0, 9097)
    before = picture(leak)
    leak.drag(CANVAS, 0.25, 0.75)
    pixel = 9097 / leak.run("return document.querySelector(arguments[0]).clientWidth", CANVAS)
    from_, to = leak.shown()
    assert from_ == pytest.approx(9097 / 4, abs=2 * pixel + 1)
    assert to == pytest.approx(9097 * 3 / 4, abs=2 * pixel + 1)
    assert picture(leak) != before
    leak.drag(CANVAS, 0.6, 0.4)  # the other way, of a part
    assert leak.shown()[0] == pytest.approx(9097 * 0.45, abs=4 * pixel + 2)
    assert leak.shown()[1] == pytest.approx(9097 * 0.55, abs=4 * pixel + 2)
    leak.run("document.querySelector(arguments[0]).focus()", CANVAS)
    leak.press(Keys.HOME)
    leak.hover("h1", 0.01)  # what the pointer is at is marked
    assert leak.shown() == (0, 9097)
    assert picture(leak) == before
    leak.drag(CANVAS, 0.25, 0.75)
    leak.double_click(CANVAS)
    assert leak.shown() == (0, 9097)
    leak.assert_well()


@pytest.mark.parametrize("share", some([0.37, 0.0, 0.1, 0.999, 0.5, 0.81], 6))
@pytest.mark.parametrize("zoomed", some([True, False]))
def test_the_pointer_finds_the_highest_level_near_it(leak: Page, examples: Path, share: float, zoomed: bool) -> None:
    levels, lines = plain_levels(examples / "leak.log.gz")
    if zoomed:
        leak.drag(CANVAS, 0.4, 0.6)
    leak.hover(CANVAS, share)
    told = leak.data("#picture-at")
    event = int(told["event"])
    assert int(told["bytes"]) == levels[event]
    assert int(told["line"]) == lines[event]
    assert told["bytes"] in leak.text("#picture-at")
    width = leak.run("return document.querySelector(arguments[0]).clientWidth", CANVAS)
    from_, to = leak.shown()
    a_pixel = (to - from_) / width
    at = from_ + share * (to - from_)
    # None that is surely near is higher; and what is found is near.
    sure = levels[max(int(at - (NEAR - 1) * a_pixel) + 2, 0) : int(at + (NEAR - 1) * a_pixel) - 1]
    assert levels[event] >= max(sure, default=0)
    assert at - (NEAR + 2) * a_pixel - 2 <= event <= at + (NEAR + 2) * a_pixel + 2
    leak.assert_well()


@pytest.mark.night
def test_the_peak_of_a_million_events_that_lasts_one_is_found_and_exact(report: Make, inputs: Make) -> None:
    made = report(*inputs("million"))
    page = made.open()
    peak = made.log["windows"][0]["peak"]
    assert made.peak_bytes >= SPIKE
    at = made.log["windows"][0]["events"] // 2
    assert abs(peak["event"] - at) < 5000
    _, hi = page.shown()
    page.hover(CANVAS, peak["event"] / hi)
    told = page.data("#picture-at")
    assert (int(told["bytes"]), int(told["event"]), int(told["line"])) == (made.peak_bytes, peak["event"], peak["line"])
    page.run("document.querySelector(arguments[0]).focus()", CANVAS)
    page.press("p")
    from_, to = page.shown()
    assert from_ <= peak["event"] < to
    assert to - from_ < 10_000
    told = page.data("#picture-at")
    assert (int(told["bytes"]), int(told["event"])) == (made.peak_bytes, peak["event"])
    levels, lines = plain_levels(Path(made.words[0]))
    assert max(levels) == made.peak_bytes
    for share in (0.2, 0.45, 0.7, 0.9):  # each event is there around the peak
        page.hover(CANVAS, share)
        told = page.data("#picture-at")
        event = int(told["event"])
        assert (int(told["bytes"]), int(told["line"])) == (levels[event], lines[event])
    page.assert_well()
