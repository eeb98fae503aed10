"""The compiled modules, where there are any."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def load(name: str) -> ModuleType | None:
    """A compiled module of memlens, by its full name.

    Returns:
        The module; ``None`` where it was not built, or from other sources than those beside this one, or where ``MEMLENS_PURE``
        is set to anything but ``0``: then the caller's reference implementation does the work, with the same results.
    """
    if _switched_off():
        return None
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    return module if _sources() in (None, module.__doc__) else None


def _sources() -> str | None:
    """The checksum of the C sources; ``None`` where there are none, as in an installed package."""
    try:
        with open(os.path.join(os.path.dirname(__file__), "_sources.h"), encoding="utf-8") as header:
            return header.read().split('"')[1]
    except OSError:
        return None


def missing() -> bool:
    """Whether work is slow for want of the compiled modules, and not because they were switched off."""
    return not _switched_off() and None in map(load, ("memlens.scanner._scan", "memlens._columns", "memlens._replay"))


def _switched_off() -> bool:
    return os.environ.get("MEMLENS_PURE", "0") not in ("", "0")
