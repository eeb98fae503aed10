"""The page about the trust report names everything that the report can say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memlens.trust import Trust
from memlens.trust.advice import SWITCH_ON
from memlens.trust.doubts import DOUBTS
from memlens.trust.notes import NOTES

PAGE = (Path(__file__).resolve().parents[2] / "docs/trust.md").read_text()


def section(title: str) -> set[str]:
    """The names before the colon of each item of a section's list."""
    text = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    items = re.findall(r"^- ((?:`\w+`,?\s+)*`\w+`):", text, re.MULTILINE)
    return {name for item in items for name in re.findall(r"`(\w+)`", item)}


def test_every_field_of_the_report_is_explained_and_no_other() -> None:
    assert section("Fields") == set(Trust.__struct_fields__)


@pytest.mark.parametrize(("title", "rules"), [("Doubts", DOUBTS), ("Notes", NOTES)])
def test_every_code_is_explained_and_no_other(title: str, rules: dict[str, object]) -> None:
    assert section(title) == set(rules)


def test_the_page_switches_logging_on_as_the_error_does() -> None:
    for line in SWITCH_ON.splitlines():
        if line.startswith("    "):
            assert line in PAGE
