"""Every figure has its definition in docs/analyzers.md, and nothing is defined there that is not a figure."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from memlens import analyzers
from memlens.analyzers import registry

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "analyzers.md").read_text()
RESULTS: dict[str, type[analyzers.Result]] = {
    "remaining": analyzers.Remaining,
    "peak": analyzers.Peak,
    "segments": analyzers.Segments,
    "stats": analyzers.Stats,
    "unmatched": analyzers.Unmatched,
    "lifetimes": analyzers.LifetimeSummary,
    "growth": analyzers.Growth,
}


def section(name: str) -> str:
    found = re.search(rf"^## {name}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/analyzers.md has no section {name}"
    return found[1]


def defined_in(text: str) -> set[str]:
    """Names in the first column of the tables."""
    return {name for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}


def fields_of(kind: Any) -> set[str]:
    return {spec.name for spec in dataclasses.fields(kind)}


def test_every_registered_analyzer_has_a_section() -> None:
    registered = {*(analyzer.name for analyzer in registry.BUILT_IN), registry.OF_SERIES}
    assert registered == set(RESULTS)
    assert registered == set(re.findall(r"^\| \[`(\w+)`\]\(#\1\)", PAGE, re.MULTILINE))


@pytest.mark.parametrize("name", RESULTS)
def test_every_field_is_defined_in_its_section_and_no_other(name: str) -> None:
    result = RESULTS[name]
    wanted = fields_of(result)
    for row in result.tables.values():
        wanted |= fields_of(row)
    assert defined_in(section(name)) == wanted
