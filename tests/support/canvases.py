"""What a canvas of a page shows, by its colours."""

from __future__ import annotations

from browser import Page

COLOURS = """
    const canvas = document.querySelector(arguments[0]), copy = document.createElement("canvas"), count = {};
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const { data } = context.getImageData(0, 0, copy.width, copy.height);
    for (let k = 0; k < data.length; k += 4) {
      const key = [data[k], data[k + 1], data[k + 2]].join();
      count[key] = (count[key] ?? 0) + 1;
    }
    return count;"""


def colour(page: Page, name: str) -> list[int]:
    """A colour of the style sheet, as red, green and blue."""
    text: str = page.run(
        "return getComputedStyle(document.documentElement).getPropertyValue(arguments[0])", f"--{name}"
    )
    return list(bytes.fromhex(text.strip()[1:]))


def drawn_in(page: Page, selector: str, ink: list[int]) -> int:
    """How many pixels of a canvas have a colour."""
    return int(page.run(COLOURS, selector).get(",".join(map(str, ink)), 0))
