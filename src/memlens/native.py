"""The compiled modules, where they were built: everything works without them, slower."""

from __future__ import annotations

import importlib
import os
from typing import Any

__all__ = ["load"]


def load(name: str) -> Any:
    """A compiled module of this package by its name, ``None`` where it was not built or ``MEMLENS_PURE=1`` switches it off."""
    if os.environ.get("MEMLENS_PURE", "") not in {"", "0"}:
        return None
    try:
        return importlib.import_module(f"memlens.{name}")
    except ImportError:
        return None
