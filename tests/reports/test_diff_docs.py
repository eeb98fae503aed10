"""``docs/diff.md`` names every field of the machine output of a comparison, and every kind of finding."""

from __future__ import annotations

import re
from pathlib import Path

import made_diffs as made
from answers import replace
from fields import fields_of

from memlens.diffing.differences import KINDS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "diff.md").read_text()


def test_every_field_of_the_machine_output_is_described() -> None:
    diffs = [made.messy(), made.late(), made.opening(), made.little(), made.series(), replace(made.many(3), top=1)]
    named = {name for diff in diffs for name in fields_of(diff.to_dict())}
    missing = sorted(name for name in named - {"ok", "doubts", "lines"} if f"`{name}`" not in PAGE)
    assert len(named) > 50
    assert not missing


def test_every_kind_of_finding_is_described() -> None:
    assert re.findall(
        r"^\| `(\w+)` \| (?:paired|only head|only base|born|both|live|the opposite)", PAGE, re.MULTILINE
    ) == [*KINDS]
