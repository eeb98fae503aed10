"""The page about the trust report names everything that the report can say."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from memlens.trust import SWITCH_ON, Trust
from memlens.trust.doubts import DOUBTS
from memlens.trust.notes import NOTES

PAGE = (Path(__file__).resolve().parents[2] / "docs/trust.md").read_text()


def section(title: str) -> set[str]:
    """The names in the first column of a section's table."""
    text = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    return {name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


def test_every_field_of_the_report_is_explained_and_no_other() -> None:
    assert section("Fields") == {field.name for field in fields(Trust)}


@pytest.mark.parametrize(("title", "rules"), [("Doubts", DOUBTS), ("Notes", NOTES)])
def test_every_code_is_explained_and_no_other(title: str, rules: dict[str, object]) -> None:
    assert section(title) == set(rules)


def test_the_page_switches_logging_on_as_the_error_does() -> None:
    for line in SWITCH_ON.splitlines():
        if line.startswith("    "):
            assert line in PAGE
