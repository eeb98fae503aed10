"""Text that tries to be markup or script stays text, wherever the page shows it and whatever is done to the page."""

from __future__ import annotations

import pytest
from browser import Make, Page
from night import some

from hostile import TEXTS
from memlens.text import visible

NAMES = ("hostile log", "hostile snapshot")


def assert_nothing_ran(page: Page) -> None:
    """No element that the page does not make by itself, no handler, no script that ran."""
    assert page.run("return window.ran") is None
    strangers = "img, iframe, object, embed, base, link, svg, form, textarea, template, meta[http-equiv=refresh]"
    assert page.run("return document.querySelectorAll(arguments[0]).length", strangers) == 0
    assert page.run("return [document.scripts.length, document.querySelectorAll('style').length]") == [2, 1]
    handlers = """
    return [...document.querySelectorAll("*")].flatMap((e) => [...e.attributes]).filter((a) =>
      /^on/.test(a.name) || a.name === "style" && !a.ownerElement.matches("canvas") && !/^background: var[(]--[a-z0-9-]+[)];$/.test(a.value) || /^(href|src)$/.test(a.name) && !a.value.startsWith("#")).map((a) => a.name + "=" + a.value);"""
    assert page.run(handlers) == []
    assert page.hidden_characters() == []
    page.assert_well()


@pytest.mark.changed("drawing")
@pytest.mark.parametrize("name", NAMES)
def test_nothing_runs_whatever_is_touched(report: Make, inputs: Make, name: str) -> None:
    page = report(*inputs(name)).open()
    assert_nothing_ran(page)
    page.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    canvases = page.run("""
    return [...document.querySelectorAll("canvas")].filter((e) => e.checkVisibility()).map((e, k) => { e.dataset.tried = k; return k; })""")
    for number in canvases:
        for x in some((0.5, 0.1, 0.9)):
            for y in (0.3, 0.95):
                page.click(f"canvas[data-tried='{number}']", x, y)
    page.run("for (const one of document.querySelectorAll('main button, main tbody tr')) one.click()")
    page.run(
        """
    for (const choice of document.querySelectorAll("select")) for (let k = 0; k < choice.length; k += 1) {
      choice.selectedIndex = k;
      choice.dispatchEvent(new Event("change", {bubbles: true}));
    }
    for (const field of document.querySelectorAll("input[type=search]")) {
      field.value = arguments[0];
      field.dispatchEvent(new Event("input", {bubbles: true}));
    }""",
        TEXTS[0],
    )
    page.settle()
    assert_nothing_ran(page)


def test_names_are_shown_as_they_are(report: Make, inputs: Make) -> None:
    page = report(*inputs("hostile log")).open()
    names = page.run(
        "return [...document.querySelectorAll('#windows-table td[data-key=name]')].map((cell) => cell.textContent)"
    )
    for text in TEXTS[:6]:
        assert visible(text) in names


@pytest.mark.parametrize("name", some(NAMES))
def test_long_names_do_not_widen_the_page(report: Make, inputs: Make, name: str) -> None:
    page = report(*inputs(name)).open(width=400)
    page.run("for (const fold of document.querySelectorAll('details')) fold.open = true")
    assert page.overflow() <= 0
