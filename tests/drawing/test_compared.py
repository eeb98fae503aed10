"""Runs side by side as a page: the tables that the terminal shows, and in each cell the curve of its run."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from browser import Browser
from elements import Elements
from made_lives import plain_levels, rows_of
from night import some

import memlens
from hostile import TEXTS, hostile_log
from memlens.cli import main
from memlens.comparing.result import Comparison
from memlens.drawing.compared import comparison_page
from memlens.reports.blocks import Table
from memlens.reports.compare import compare_blocks

pytestmark = pytest.mark.changed("drawing")

LEAKS = ("05_fixed_331.log.gz", "05_leak_graph_331.log.gz", "05_oom_331.log", "nosuch.log")


class Tables(Elements):
    """The tables of a page: their cells as text, and what is drawn in them as points."""

    def __init__(self, html: str) -> None:
        self.tables: list[list[list[str]]] = []
        self.curves: dict[tuple[int, int, int], dict[str, list[tuple[float, float]]]] = {}
        self.marks: list[tuple[str, float, float]] = []
        super().__init__(html)

    @property
    def _place(self) -> tuple[int, int, int]:
        return len(self.tables) - 1, len(self.tables[-1]) - 1, len(self.tables[-1][-1]) - 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        given = dict(attrs)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "polygon":
            points = [tuple(map(float, point.split(","))) for point in (given["points"] or "").split()]
            self.curves.setdefault(self._place, {})[given["class"] or ""] = points  # type: ignore[assignment]
        elif tag == "rect":
            self.marks.append((given["class"] or "", float(given["x"] or 0), float(given["width"] or 0)))

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open) and "title" not in self.open:
            self.tables[-1][-1][-1] += data


def tables_of(comparison: Comparison) -> list[list[list[str]]]:
    """The tables of the screen, cell by cell."""
    blocks = compare_blocks(comparison, full=True)
    return [
        [
            [column.title for column in table.columns],
            *([str("" if cell is None else cell).strip() for cell in row] for row in table.rows),
        ]
        for table in blocks
        if isinstance(table, Table)
    ]


@pytest.fixture
def leaks(shared: Path) -> list[str]:
    return [str(shared / "data/paddle" / name) for name in LEAKS]


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_run_has_its_curve_on_one_scale(leaks: list[str], jobs: int) -> None:
    comparison = memlens.compare(leaks, buckets=50, jobs=jobs)
    html = comparison_page(comparison).html
    page = Tables(html)
    assert page.tables == tables_of(comparison)
    assert "<strong>Base</strong> <code>05_fixed_331.log.gz</code>" in html  # as the tables name it
    assert len(page.curves) == 3  # the missing one has none
    levels = [[level for level, _ in plain_levels(rows_of(memlens.read(path)))][1:] for path in leaks[:3]]
    highest = max(max(own) for own in levels)
    for (table, row, column), drawn in page.curves.items():
        assert (table, column) == (0, 1)
        own = levels[row - 1]
        edges = [k * len(own) // 50 for k in range(51)]
        buckets = [own[first:stop] for first, stop in pairwise(edges)]
        buckets[0] = [0, *buckets[0]]  # the run starts from nothing
        upper, lower = drawn["between"][:100], drawn["between"][100:][::-1]
        for k, bucket in enumerate(buckets):
            for side, level in ((upper, max(bucket)), (lower, min(bucket))):
                (x, y), (to, _) = side[2 * k : 2 * k + 2]
                assert (x, to) == (k, k + 1)
                assert y == pytest.approx(40 - 40 * level / highest, abs=0.01)
    # The run that ended out of memory has its failure marked, after the last event before it.
    (failed,) = [x for kind, x, _ in page.marks if kind == "failed"]
    ooms = memlens.read(leaks[2]).trust.ooms
    line_numbers = memlens.read(leaks[2]).line_numbers(list(range(len(levels[2]))))
    before = max(k for k, line in enumerate(line_numbers) if line is not None and line < ooms[0].line)
    assert failed == pytest.approx(before * 50 / len(levels[2]), abs=0.01)


def test_a_matrix_has_a_curve_a_cell(shared: Path) -> None:
    template = str(shared / "data/paddle/331_ast_{ir}_cnn.log")
    comparison = memlens.compare(template, cols="ir", buckets=200)
    html = comparison_page(comparison).html
    page = Tables(html)
    assert page.tables == tables_of(comparison)
    assert sorted(page.curves) == [(0, 1, 0), (0, 1, 1)]
    assert comparison.verdict.split(":")[0] in html
    assert "<h1>Comparison of 331_ast_{ir}_cnn.log</h1>" in html  # not where that lies


@pytest.mark.parametrize("width", some([400, 1400]))
def test_the_page_in_a_browser(chromium: Browser, leaks: list[str], tmp_path: Path, width: int) -> None:
    to = tmp_path / "page.html"
    comparison_page(memlens.compare(leaks, buckets=200)).save(to)
    page = chromium.open(to, wait=False, width=width)
    page.settle()
    page.assert_well()
    assert not page.violations()
    assert page.overflow() <= 0
    assert page.run("return document.scripts.length") == 0
    assert page.run("return document.querySelectorAll('svg.curve').length") == 3
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    page.resize(1046)  # A4 across, without its margins
    assert (
        page.run("return Math.max(...[...document.querySelectorAll('.scrolls')].map((one) => one.scrollWidth))") <= 1046
    )
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    # Styles reach what is drawn.
    fill = "return getComputedStyle(document.querySelector('svg.curve .below')).fill"
    assert page.run(fill) not in ("", "rgb(0, 0, 0)")


def test_hostile_names_stay_text(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = hostile_log(folder)
    names = [text[:60].replace("/", "").replace("\x00", "") for text in some(TEXTS[:12], 6)]
    for name in names:
        shutil.copy(log, folder / f"{name} run.log")
    to = tmp_path / "page.html"
    for words in ([str(folder / "{mode} run.log"), "--base", f"mode={names[0]}"], [str(folder)]):
        by = ["--by", "^STEP (.*) START"]
        assert main(["compare", *words, *by, "--format", "html", "-o", str(to), "-f", "-q"]) == 0
        page = chromium.open(to, wait=False)
        page.settle()
        page.assert_well()
        assert page.run("return window.ran") is None
        assert page.run("return document.scripts.length") == 0
        assert page.all("svg.curve")
