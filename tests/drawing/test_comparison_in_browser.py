"""The page of a comparison: no script, and the figures of ``compare``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from browser import Browser
from hostile import hostile_log

from memlens.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, examples: Path) -> Path:
    """Two runs, and one with a hostile name and hostile text in it."""
    made = tmp_path_factory.mktemp("compared")
    for name in ("pt", "pir"):
        shutil.copy(examples / f"case1_{name}.log", made / f"run_{name}.log")
    other = made / "run_<img src=x onerror=window.ran=1>\u202e&lt;.log"
    other.write_bytes(hostile_log(tmp_path_factory.mktemp("hostile")).read_bytes())
    return made


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_of_a_comparison(chromium: Browser, folder: Path, width: int, scheme: str) -> None:
    template = f"{folder}/run_{{mode}}.log"
    page_path, said_path = folder / "matrix.html", folder / "matrix.json"
    for form, path in (("html", page_path), ("json", said_path)):
        assert main(["compare", "--template", template, "--format", form, "-o", str(path), "-f", "-q"]) == 0
    page = chromium.open(page_path, width=width, scheme=scheme, wait=False)
    page.assert_well()
    assert page.overflow() <= 0
    assert page.run("return [window.ran === undefined, document.scripts.length, document.images.length]") == [
        True,
        0,
        0,
    ]
    assert page.hidden_characters() == []
    said = json.loads(said_path.read_text())
    sentences = page.run("return [...document.querySelectorAll('#verdict span')].map((span) => span.textContent)")
    assert " ".join(sentences) == said["verdict"]
    assert "<img src=x onerror=window.ran=1>" in page.text()
