"""The pictures of the page about the report are what a browser shows of it today; ``MEMLENS_APPROVE=1`` takes them anew."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from browser import Browser, Page, browser
from PIL import Image

from memlens.cli import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = DOCS / "report.md"

#: Each picture: what its report is of, and the part of the page that stands on top in it.
PICTURES = {
    "report_leak.png": ("examples/logs/leak.log.gz", ""),
    "report_oom.png": ("examples/logs/oom.log.gz", "#map"),
    "report_diff.png": ("examples/logs/case1_pir.log --base examples/logs/case1_pt.log", ""),
    "report_snapshot.png": ("examples/logs/torch_leak.json.gz", "#flame"),
}


def taken(page: Page, part: str) -> Image.Image:
    """What is seen of a page from one of its parts on."""
    if part:
        page.run(f"document.querySelector({part!r}).scrollIntoView()")
    page.settle()
    return Image.open(io.BytesIO(page.driver.get_screenshot_as_png())).convert("RGB")


def small(picture: Image.Image) -> np.ndarray:
    """A picture without its details, which other fonts change."""
    return np.asarray(picture.resize((48, 36), Image.Resampling.BOX), np.int64)


@pytest.fixture(scope="module")
def shown() -> object:
    with browser() as running:
        yield running


@pytest.mark.night
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_the_page_shows(
    name: str, shown: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    arguments, part = PICTURES[name]
    to = tmp_path / "report.html"
    assert main(["report", *arguments.split(), "-o", str(to)]) == 0
    now = taken(shown.open(to, width=1200, height=900), part)
    if os.environ.get("MEMLENS_APPROVE"):
        now.quantize(256, Image.Quantize.FASTOCTREE).save(DOCS / name, optimize=True)
    kept = Image.open(DOCS / name).convert("RGB")
    assert kept.size == now.size == (1200, 900)
    assert np.abs(small(now) - small(kept)).mean() < 6, "the page looks otherwise than its picture"
    text = PAGE.read_text()
    assert f"    memlens report {arguments} -o " in text
    assert f"]({name})" in text
