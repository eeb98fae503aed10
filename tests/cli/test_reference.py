"""The reference page of the command line is what the commands say."""

from __future__ import annotations

from pathlib import Path

from memlens.cli.reference import reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


def test_the_reference_page_is_fresh() -> None:
    assert PAGE.read_text() == reference(), "write it anew: python -m memlens.cli.reference > docs/cli.md"
