"""One browser for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser, browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A headless browser; tests that need it are skipped without one, and fail in CI."""
    with browser() as running:
        yield running
