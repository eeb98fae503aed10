"""``memlens report``: where the page goes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pseudo_terminal import in_terminal


def test_the_page_goes_to_a_file(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    ran = memlens("report", small_log, "-o", page)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_a_terminal_gets_none(small_log: Path) -> None:
    said = in_terminal("report", small_log)
    assert "-o report.html" in said
    assert "<html" not in said
    assert "<html" in in_terminal("report", small_log, "-o", "-")


def test_what_is_there_is_kept(memlens: Any, small_log: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("mine")
    ran = memlens("report", small_log, "-o", page)
    assert ran.code == 1
    assert "-f" in ran.err
    assert page.read_text() == "mine"
    assert memlens("report", small_log, "-o", page, "-f").code == 0
    assert "<html" in page.read_text()
    before = small_log.read_bytes()
    ran = memlens("report", small_log, "-o", small_log, "-f")
    assert ran.code == 2
    assert small_log.read_bytes() == before


def test_a_log_that_cannot_be_read_leaves_no_page(memlens: Any, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    empty = tmp_path / "empty.log"
    empty.write_bytes(b"")
    ran = memlens("report", empty, "-o", page)
    assert ran.code == 1
    assert "empty.log" in ran.err
    assert not page.exists()
