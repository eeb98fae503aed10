"""What the package says of itself agrees with itself."""

from __future__ import annotations

import importlib.metadata
import re
from importlib import resources
from pathlib import Path

import pytest

import memlens

ROOT = Path(__file__).resolve().parents[2]


def test_the_package_carries_the_marker_of_typed_packages() -> None:
    assert resources.files("memlens").joinpath("py.typed").is_file()


def test_the_changelog_has_a_section_for_this_version() -> None:
    assert f"\n## {memlens.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


def test_the_changelog_keeps_its_order_of_sections() -> None:
    order = ["Security", "Removed", "Deprecated", "Added", "Changed", "Fixed"]
    for version in (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]:
        sections = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert sections == [name for name in order if name in sections]


def test_the_version_is_the_same_everywhere() -> None:
    assert 'version = { attr = "memlens.version.__version__" }' in (ROOT / "pyproject.toml").read_text()
    try:
        installed = importlib.metadata.version("memlens")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("memlens runs from its source tree here and is not installed")
    assert installed == memlens.__version__


def test_every_public_name_can_be_had() -> None:
    for name in memlens.__all__:
        assert getattr(memlens, name) is not None
