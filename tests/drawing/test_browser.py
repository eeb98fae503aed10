"""The tests of pages see what they are there to see: each test here makes a page that does what a report must never do."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Browser, Page

READY = "<script>document.documentElement.dataset.ready = 'true'</script>"


def made(folder: Path, body: str, head: str = "") -> Path:
    path = folder / "page.html"
    path.write_text(f"<!doctype html><html lang=en><meta charset=utf-8>{head}<title>t</title><body>{body}", "utf-8")
    return path


def opened(chromium: Browser, folder: Path, body: str, head: str = "") -> Page:
    page = chromium.open(made(folder, body, head), wait=False)
    page.settle()
    return page


def test_a_page_without_faults_is_well(chromium: Browser, tmp_path: Path) -> None:
    page = chromium.open(made(tmp_path, f"<p>fine</p>{READY}"))
    page.assert_well()
    assert page.text() == "fine"
    assert 0 < page.drawn_after() < 60


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("<script>console.error('oh no')</script>", "oh no"),
        ("<img src='http://127.0.0.1:9/a.png'>", "http://127.0.0.1:9/a.png"),
        ("<script>fetch('http://127.0.0.1:9/b').catch(() => 0)</script>", "http://127.0.0.1:9/b"),
        ("<script>new WebSocket('ws://127.0.0.1:9/c')</script>", "ws://127.0.0.1:9/c"),
        ("<script src='other.js'></script>", "other.js"),
        ("<link rel=stylesheet href='https://example.invalid/d.css'>", "example.invalid/d.css"),
    ],
)
def test_a_fault_is_seen(chromium: Browser, tmp_path: Path, body: str, seen: str) -> None:
    page = opened(chromium, tmp_path, body)
    page.wait_for(lambda: page.console() or page.requests() or page.errors(), "fault")
    with pytest.raises(AssertionError) as found:
        page.assert_well()
    assert seen in str(found.value)
