"""The made-up allocator is among the models while these tests run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from made_allocator import HISTORIES, MODEL

from memlens.allocators import registry


@pytest.fixture(autouse=True)
def _made_allocator(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    built_in = registry.built_in
    monkeypatch.setattr(registry, "built_in", lambda: (MODEL, *built_in()))
    yield
    HISTORIES.clear()
