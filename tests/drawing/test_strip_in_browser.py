"""What stands around the picture: bands, the strip of the whole run, buttons, the choice of a device, and a page without events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browser import Make, Page
from selenium.webdriver.common.keys import Keys
from snapshots import read_file

import memlens

CANVAS, STRIP = "#picture canvas", "#picture .track + .track canvas"

pytestmark = pytest.mark.changed("drawing")


def test_a_click_on_a_band_shows_the_step_alone(leak: Page, examples: Path) -> None:
    log = memlens.read(examples / "leak.log.gz")
    steps = {step.name: step for step in log.windows(r"^(STEP \d+) START")}
    twelve = steps["STEP 12"]
    leak.click(CANVAS, (twelve.lo + twelve.hi) / 2 / len(log), 0.02)
    assert leak.shown() == (twelve.lo, twelve.hi)
    leak.hover(CANVAS, 0.5, 0.5)
    assert "STEP 12" in leak.text("#picture-at")
    # What is read off follows the part that is shown, though the pointer does not move.
    for key, by in ((Keys.SHIFT, 300), (Keys.CONTROL, -100), (Keys.SHIFT, -500)):
        before, told = leak.shown(), leak.text("#picture-at")
        leak.wheel(CANVAS, 0.5, 0.5, by, held=key)
        from_, to = leak.shown()
        assert (from_, to) != before
        assert from_ <= int(leak.data("#picture-at")["event"]) < to
        assert key == Keys.CONTROL or leak.text("#picture-at") != told
        followed = leak.text("#picture-at")
        leak.hover("h1", 0.01)
        leak.hover(CANVAS, 0.5, 0.5)
        assert leak.text("#picture-at") == followed
    # Nor is anything said of what the keyboard was at once that is not shown any more.
    leak.hover("h1", 0.01)
    leak.run("arguments[0].focus()", leak.one(CANVAS))
    leak.press(*[".", "."] * 9, *"++++")
    # Keys zoom in on that.
    from_, to = leak.shown()
    assert to - from_ < 30
    assert from_ <= int(leak.data("#picture-at")["event"]) < to
    leak.press(*[Keys.ARROW_RIGHT] * 4)
    assert not leak.text("#picture-at")
    leak.assert_well()


def test_the_strip_draws_another_part_and_moves_it(leak: Page) -> None:
    leak.drag(STRIP, 0.5, 0.7)
    from_, to = leak.shown()
    assert from_ == pytest.approx(9097 * 0.5, abs=20)
    assert to == pytest.approx(9097 * 0.7, abs=20)
    leak.drag(STRIP, 0.6, 0.3)  # what is shown is taken along, and not drawn anew
    assert leak.shown()[0] == pytest.approx(from_ - 9097 * 0.3, abs=25)
    assert leak.shown()[1] == pytest.approx(to - 9097 * 0.3, abs=25)
    leak.drag(STRIP, 0.3, 0.0)  # and stays within the run
    assert leak.shown()[0] == 0
    assert leak.shown()[1] == pytest.approx(to - from_, abs=2)
    leak.double_click(STRIP)
    assert leak.shown() == (0, 9097)
    leak.assert_well()


#: Choose a device, and which one is chosen.
CHOOSE = "document.querySelectorAll('#devices button')[arguments[0]].click()"
PRESSED = """
return [...document.querySelectorAll("#devices button")].findIndex(({ ariaPressed }) => ariaPressed === "true")"""


@pytest.mark.night
def test_of_devices_chosen_one_right_after_the_other_the_last_is_shown(report: Make, shared: Path) -> None:
    path = shared / "data/torch/kineto/gpu_2022_rank1.json.gz"
    page = report(str(path)).open()
    peak = page.data("#figures [data-peak-bytes]")["peakBytes"]
    parts = "return [...document.querySelectorAll('main section')].map((part) => part.id)"
    before, said = page.run(parts), page.text("#verdict")
    other = 1 - int(page.run(PRESSED))
    page.run(CHOOSE, other)
    page.wait_for(lambda: page.text("#verdict") != said, "verdict of the other device")
    # That of the GPU is shown first; each is named, for all else says which it is of.
    assert page.text("#verdict") == f"CPU: {memlens.analyze(path, device=-1).verdict}"
    page.run(CHOOSE, 1 - other)
    page.wait_for(lambda: page.text("#verdict") == said, "verdict of both")
    page.wait_for(lambda: page.run(parts) == before, "all parts")
    page.run("""
    const choices = [...document.querySelectorAll("#devices button")], own = choices.findIndex(({ ariaPressed }) => ariaPressed === "true");
    for (const at of [1 - own, own, 1 - own, own]) choices[at].click();
    document.querySelector("#trust").remove();""")
    page.wait_for(lambda: page.run("return document.querySelector('#trust') !== null"), "last part")
    for _ in range(20):
        page.settle()
    assert page.run(parts) == before
    assert page.data("#figures [data-peak-bytes]")["peakBytes"] == peak
    page.assert_well()


#: How many pixels of a column of a device's row are of the colour of areas.
DRAWN = """
const canvas = document.querySelector(`#devices canvas[data-device="${arguments[0]}"]`), ink = getComputedStyle(document.documentElement).getPropertyValue("--allocated");
const copy = document.createElement("canvas"), at = Math.floor(arguments[1] * canvas.width), wanted = [1, 3, 5].map((k) => parseInt(ink.trim().slice(k, k + 2), 16)).join();
[copy.width, copy.height] = [1, canvas.height];
const context = copy.getContext("2d", { willReadFrequently: true });
context.drawImage(canvas, -at, 0);
const { data } = context.getImageData(0, 0, 1, copy.height);
return Array.from({ length: copy.height }, (_, y) => [...data.slice(4 * y, 4 * y + 3)].join()).filter((colour) => colour === wanted).length;"""


LEGEND = """
return [...document.querySelectorAll("#legend tr[data-group]")].map((row) => [row.querySelector("th").title, row.querySelector("i").className])"""


def test_devices_have_a_row_each_over_the_time_that_they_share(report: Make, inputs: Make) -> None:
    made = report(*inputs("three devices"))
    page, logs = made.open(), read_file(made.words[0])
    times = [np.asarray(log.time_us)[log.facts.opening :] for log in logs]
    begin, end = min(time[0] for time in times), max(time[-1] for time in times)
    most = int(page.data("#devices canvas")["mostBytes"])
    assert most == max(window["peak"]["peak_bytes"] for log in made.analysis["logs"] for window in log["windows"])
    before = 0
    for share in (0.05, 0.3, 0.5, 0.7, 0.95):
        for device, (log, time) in enumerate(zip(logs, times, strict=True)):
            moment = begin + share * (end - begin)
            event = log.facts.opening + int(np.searchsorted(time, moment, "right")) - 1
            level = 0 if moment < time[0] else log.level_before(event + 1)[0]
            drawn = page.run(DRAWN, device, share)
            assert drawn == pytest.approx(46 * level / (most * 1.04), abs=3)
            before += moment < time[0]
    assert before >= 3  # devices that had not begun
    assert "over time" in page.text("#devices .hint")
    inks = dict(page.run(LEGEND))
    page.click('#devices canvas[data-device="2"]')
    page.wait_for(
        lambda: page.text("#verdict") == f"Device 2: {memlens.analyze(made.words[0], device=2).verdict}", "third device"
    )
    assert page.text('#devices [aria-pressed="true"]').startswith("three.pickle")
    # An owner has one colour on all devices, and no two have the same on one.
    others = dict(page.run(LEGEND))
    assert len(set(others.values())) == len(others)
    assert len(inks.keys() & others.keys()) > 4
    assert all(inks[owner] == others[owner] for owner in inks.keys() & others.keys())
    assert page.run(PRESSED) == 2
    page.assert_well()


@pytest.mark.night
def test_on_a_small_screen_what_is_selected_is_a_drawer_that_does_not_cover_the_picture(
    report: Make, inputs: Make
) -> None:
    page = report(*inputs("leak")).open(width=400, height=900)
    page.run("document.querySelector('#picture canvas').focus()")
    page.press("+", "+")
    assert page.data("#picture")["from"] != "0"
    page.double_click("#picture canvas", 0.6, 0.7)
    assert (page.data("#picture")["from"], page.data("#picture")["to"]) == ("0", "9097")
    assert not page.all("#moment")
    page.run("scrollTo(0, 0)")
    page.click("#picture canvas", 0.6, 0.7)
    page.wait_for(lambda: page.run("return document.querySelector('#chosen').classList.contains('open')"), "drawer")
    ends = """return arguments[0].map((one) => document.querySelector(one).getBoundingClientRect())"""
    canvas, drawer = page.run(ends, ["#picture canvas", "#chosen"])
    assert canvas["bottom"] <= drawer["top"] + 1
    assert canvas["top"] > 0
    for part in ("#map", "#windows", "#trust"):  # nor does it cover what a link leads to
        page.run("document.querySelector(`nav a[href='${arguments[0]}']`).click()", part)
        title, drawer = page.run(ends, [f"{part} h2", "#chosen"])
        assert 0 <= title["top"] < title["bottom"] <= drawer["top"]
    page.press(Keys.ESCAPE)
    assert not page.all("#moment")
    assert not page.run("return document.querySelector('#chosen').checkVisibility()")
    page.assert_well()


def test_a_page_of_one_moment_has_no_curve(report: Make, inputs: Make) -> None:
    page = report(*inputs("snapshot of one moment")).open()
    assert page.all("#picture") == []
    assert "no curve, and a peak is not known" in page.text("#app")
    assert not any("peak" in page.text(part).lower() for part in ("#figures", "#map", "#flame", "#held"))
    # What is freed later, and what was before, such an input cannot know.
    assert page.table("#held-table")[0] == ["Size", "Blocks", "Together", "Owner"]
    assert "of it from before" not in page.text("#held")
    page.assert_well()
