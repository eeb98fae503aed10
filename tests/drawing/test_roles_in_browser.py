"""Bars by role: those of the blocks that are live at the peak are what analyze says of it, in the same words, and what nothing tells is grey."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from browser import Make, Page
from made_trainings import Training
from night import some
from unpacked import view_of

from memlens.claims.roles import ROLES, TOLD_BY
from memlens.drawing.stacks import _REST, ROLE_INKS

CANVAS = "#picture canvas"


def test_each_role_has_a_colour_of_its_own() -> None:
    assert ROLE_INKS.keys() == ROLES.keys()
    assert len({*ROLE_INKS.values(), _REST}) == len(ROLES) + 1


def at_peak(view: Any, peak: int) -> Counter[str]:
    """The bytes of the bars that are live right after an event, by the names of their roles."""
    found, lives, way = Counter[str](), view["lifetimes"], roles_of(view)
    columns = (*(lives[key] for key in ("alloc", "free", "size_bytes")), way["bars"])
    for alloc, free, size, role in zip(*columns, strict=True):
        if alloc <= peak < free:
            found[way["groups"][int(role)]["name"]] += size
    return found


def roles_of(view: Any) -> Any:
    """The way that groups what is live by role; None where there is none."""
    return next((way for way in view["stacks"]["ways"] if way["key"] == "role"), None)


def colour_by_role(page: Page) -> str:
    """Choose it, and give the words of the choice."""
    words: str = page.run("""
        const select = document.querySelector("#picture-by");
        select.selectedIndex = [...select.options].findIndex((option) => option.value.startsWith("role"));
        select.dispatchEvent(new Event("change")); return select.value;""")
    page.settle()
    return words


@pytest.mark.parametrize("name", some(["recorded", "small", "training", "leak", "snapshot"], 5))
def test_bars_by_role_are_what_analyze_says(
    report: Make, inputs: Make, tmp_path: Path, shared: Path, name: str
) -> None:
    if name == "training":
        (path := tmp_path / "training.log").write_text(Training(3, 2).text())
        made = report(str(path))
    elif name == "recorded":
        made = report(str(shared / "data" / "paddle" / "331_parts_pir_transformer.log"))
    else:
        made = report(*inputs(name))
    (window,) = made.log["windows"]
    shares = [one for one in window["composition"]["roles"] if one["at"] == "peak"]
    told = {ROLES.get(one["role"], "role not known"): one["total_bytes"] for one in shares}
    view = view_of(made.path.read_text())
    lives = view["lifetimes"]
    page = made.open()
    if not told:
        assert roles_of(view) is None
        assert "role" not in page.text("#picture .controls")
        return
    way = roles_of(view)
    drawn = at_peak(view, window["peak"]["event"])
    assert drawn <= Counter(told)
    assert drawn == told or lives["left_out"]["blocks"]
    assert colour_by_role(page) == f"role, told by {TOLD_BY[shares[0]['told_by']]}"
    # The areas at the peak, of all blocks, are what analyze says of it.
    shown = page.run("""
        return [...document.querySelectorAll("#legend [data-group]")].map((row) => [row.cells[0].title, Number(row.cells[1].dataset.bytes)])""")
    assert {role: size for role, size in shown if size} == told
    assert page.pixels(CANVAS) > 3
    # The sentence of a bar ends with its role, and so it is said of the block that is clicked.
    for y in (0.94, 0.9, 0.8, 0.7, 0.6):
        page.hover(CANVAS, 0.5, y)
        bar, sentence = page.run(
            "const { dataset, textContent } = document.querySelector('#picture-at'); return [dataset.block, textContent]"
        )
        if int(bar) >= 0:
            role = way["groups"][int(way["bars"][int(bar)])]["name"]
            assert sentence.endswith(role)
            page.click(CANVAS, 0.5, y)
            assert role in page.text("#life")
    # The memory map at the peak has the same roles.
    peak = page.all("#map-figures [data-at='peak'] button")
    if peak and page.all("#map canvas:not([hidden])"):
        page.run("arguments[0].click()", peak[0])
        page.settle()
        legend = page.run("return [...document.querySelectorAll('#map .legend span')].map((one) => one.textContent)")
        assert {role for role, size in told.items() if size} == {*legend} & {*ROLES.values(), "role not known"}
    page.assert_well()
