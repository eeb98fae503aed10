"""The page for people who read it by keys, with a screen reader, with weak eyes, or without scripts."""

from __future__ import annotations

import itertools

import pytest
from browser import Browser, Make, Page
from night import some

#: One input that has all parts of a page that a log can have, and one of PyTorch.
NAMES = ("leak", "oom", "snapshot")

pytestmark = pytest.mark.changed("drawing")


@pytest.fixture(params=some(NAMES))
def page(request: pytest.FixtureRequest, report: Make, inputs: Make) -> Page:
    return report(*inputs(request.param)).open()  # type: ignore[no-any-return]


def test_keys_reach_all_of_it_in_the_order_in_which_it_is_read(page: Page) -> None:
    stops = page.tab_stops()
    can = page.run("""
    return [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")].filter((e) =>
      !e.disabled && e.tabIndex >= 0 && e.checkVisibility() && !(e.type === "radio" && !e.checked)).length""")
    assert len(stops) == can
    # Downward, where in one row heights differ; what stands beside the picture begins at its top again, to the right of it.
    column = page.run("return document.getElementById('details').getBoundingClientRect().left")
    places = [(int(stop["left"]) >= column and int(stop["top"]) > 0, int(stop["top"])) for stop in stops]
    for (beside, before), (other, after) in itertools.pairwise(places):
        assert after >= before - 30 or (other and not beside)
    assert [stop for stop in stops if stop["visible"] != "true"] == []


def test_whatever_can_be_used_has_a_name(page: Page) -> None:
    used = {
        *("button", "link", "checkbox", "radio", "combobox", "textbox", "searchbox", "slider", "image"),
        *("img", "listbox"),
    }
    nameless = [node for node in page.accessible() if node["role"] in used and not node["name"].strip()]
    assert nameless == []
    roles = {node["role"] for node in page.accessible()}
    assert {"heading", "button", "main"} <= roles


#: The least contrast of a text with what is behind it, by the relative luminance of WCAG 2.2 (1.4.3).
CONTRAST = """
const luminance = (color) => {
  const [r, g, b] = color.map((part) => part / 255).map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length < 4 || color[3] > 0.99) return color.slice(0, 3);
  }
  return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
};
for (const fold of document.querySelectorAll("details")) fold.open = true;
const weak = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  if (!own || !element.checkVisibility() || element.closest("script, style, noscript, :disabled")) continue;
  const style = getComputedStyle(element), [a, b] = [luminance(numbers(style.color).slice(0, 3)), luminance(behind(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) weak.push(`${element.tagName} ${element.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
}
return weak;"""


@pytest.mark.parametrize("scheme", some(["dark", "light"]))
def test_text_stands_out(report: Make, inputs: Make, scheme: str) -> None:
    for name in some(NAMES):
        assert report(*inputs(name)).open(scheme=scheme).run(CONTRAST) == []


@pytest.mark.night
def test_on_paper_tables_are_whole_and_nothing_is_there_to_be_pressed(report: Make, inputs: Make) -> None:
    made = report(*inputs("leak"))
    page = made.open()
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert len(page.all("#windows-table tbody tr")) == len(made.log["steps"]["windows"]) > 20
    assert page.run("return document.getElementById('words').open")
    shown = "return [...document.querySelectorAll(arguments[0])].filter((e) => e.checkVisibility()).length"
    assert page.run(shown, "nav, .controls, .hint") == 0
    assert page.run(shown, "#legend tr") >= 4
    # Each column has its heading, and A4 less its margins is wide enough for all of them.
    assert page.run(shown, "#windows-table th button") == len(page.all("#windows-table th"))
    page.resize(720)
    wide = "return [...document.querySelectorAll('.wide')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.firstChild.id)"
    assert page.run(wide) == []
    page.run("dispatchEvent(new Event('afterprint'))")
    assert len(page.all("#windows-table tbody tr")) == 20
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    page.assert_well()


def test_a_drawer_that_is_about_to_open_moves_nothing(report: Make, inputs: Make) -> None:
    page = report(*inputs("leak")).open(width=400, height=800)
    top = "return document.getElementById('map').getBoundingClientRect().top + scrollY"
    page.hover("#picture canvas", 0.6, 0.7)  # what is told of a place below the picture takes room
    before = page.run(top)
    page.click("#picture canvas", 0.6, 0.7)
    assert not page.all("#chosen.open")  # for the click may be the first of two
    assert page.run(top) == before
    page.run("document.querySelector(\"nav a[href='#flame']\").click()")
    page.wait_for(lambda: page.all("#chosen.open"), "drawer")
    # What is linked to stands above the drawer.
    at, drawer = page.run(
        "return ['#flame', '#chosen'].map((one) => document.querySelector(one).getBoundingClientRect().top)"
    )
    assert 0 <= at < drawer
    page.assert_well()


def test_pictures_are_drawn_for_paper_and_devices_keep_their_names_there(report: Make, inputs: Make) -> None:
    page = report(*inputs("three devices")).open(width=1400)
    # Of each picture its width, and how many pixels it has for one.
    asked = (
        "return [...document.querySelectorAll('canvas')].map((one) => [one.clientWidth, one.width / one.clientWidth])"
    )
    before = page.run(asked)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.run("dispatchEvent(new Event('beforeprint'))")
    # 190 mm are what A4 has within its margins, of 96 pixels an inch; a browser would squeeze a wider picture, with all that is written in it.
    assert all(width <= 190 / 25.4 * 96 and sharp >= 2.9 for width, sharp in page.run(asked))
    names = "return [...document.querySelectorAll('#devices button')].map((one) => one.checkVisibility() && one.textContent)"
    assert [name.partition(":")[0] for name in page.run(names)] == [f"three.pickle [device {k}]" for k in range(3)]
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    page.run("dispatchEvent(new Event('afterprint'))")
    page.settle()
    assert page.run(asked) == before
    page.assert_well()


def test_without_scripts_the_words_can_be_read(report: Make, inputs: Make, chromium: Browser) -> None:
    made = report(*inputs("leak"))
    chromium.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page = chromium.open(made.path, wait=False)
        page.wait_for(lambda: page.all("#words summary"), "words")
        page.one("#words summary").click()
        assert "JavaScript" in page.one("noscript").text
        assert "79.62 MiB" in page.one("#words").text
    finally:
        chromium.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_browser_too_old_says_so(report: Make, inputs: Make, chromium: Browser) -> None:
    made = report(*inputs("leak"))
    old = chromium.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream"}
    )
    try:
        page = chromium.open(made.path, wait=False)
        page.wait_for(lambda: page.run("return document.documentElement.dataset.ready") == "failed", "word of failure")
        assert "too old" in page.text("#app")
        assert page.violations() == []
    finally:
        chromium.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", old)
