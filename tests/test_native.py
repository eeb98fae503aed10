"""Compiled modules are of the sources that stand beside them, or are not used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from unittest import mock

import pytest

from memlens import native

SOURCES = Path(native.__file__).parent
HEADER = SOURCES / "_sources.h"
pytestmark = pytest.mark.skipif(not HEADER.exists(), reason="the package is installed, without its C sources")


def test_the_checksum_is_that_of_the_sources() -> None:
    files = sorted(path for path in SOURCES.rglob("*.[ch]") if path != HEADER)
    assert len(files) >= 9
    found = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    assert f'"{found}"' in HEADER.read_text(), (
        f"C sources have changed: write {found} to {HEADER.name}, and build them anew"
    )


@pytest.mark.skipif(
    native.load("memlens._columns") is None, reason="the compiled module was not built, or is switched off"
)
def test_a_module_that_was_built_from_other_sources_is_not_used() -> None:
    with mock.patch.object(native, "_sources", return_value="of another version"):
        assert native.load("memlens._columns") is None
        assert native.missing()
    with mock.patch.object(native, "__file__", "/nowhere/native.py"):  # installed, without sources
        assert native.load("memlens._columns") is not None
