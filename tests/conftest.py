"""Fixtures that several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real logs beside the project; tests that need it are skipped without it, and fail in CI."""
    folder = Path(os.environ.get("MEMLENS_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"no shared data at {folder}: CI must have it")
        pytest.skip(f"needs the real logs of the shared data folder, which is not at {folder}")
    return folder


@pytest.fixture(scope="session")
def examples() -> Path:
    """The logs that come with the project."""
    return ROOT / "examples" / "logs"
