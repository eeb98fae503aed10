"""Every figure has its definition in docs/analyzers.md, and nothing is defined there that is not a figure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from memlens.analyzers import registry
from memlens.analyzers.composition import Composition
from memlens.analyzers.lifetimes import LifetimeSummary
from memlens.analyzers.peak import Peak, Remaining
from memlens.analyzers.roles.activations import Activations
from memlens.analyzers.segments import Segments
from memlens.analyzers.series.growth import Growth
from memlens.analyzers.stats import Stats
from memlens.analyzers.unmatched import Unmatched
from memlens.results import Result

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "analyzers.md").read_text()
RESULTS: dict[str, type[Result]] = {
    "remaining": Remaining,
    "peak": Peak,
    "composition": Composition,
    "activations": Activations,
    "segments": Segments,
    "stats": Stats,
    "unmatched": Unmatched,
    "lifetimes": LifetimeSummary,
    "growth": Growth,
}


def section(name: str) -> str:
    found = re.search(rf"^## {name}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/analyzers.md has no section {name}"
    return found[1]


def defined_in(text: str) -> set[str]:
    """Names before the colon of each item of its lists."""
    items = re.findall(r"^- ((?:`\w+`,?\s+)*`\w+`):", text, re.MULTILINE)
    return {name for item in items for name in re.findall(r"`(\w+)`", item)}


def fields_of(kind: Any) -> set[str]:
    return set(kind.__struct_fields__)


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
