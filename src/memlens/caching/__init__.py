"""A cache of what was read: whether it is asked for.  :mod:`memlens.caching.keeping` reads through it, :mod:`memlens.caching.listing` lists and clears it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["WHERE", "chosen_place", "is_on"]

#: The variable that says where entries lie when no option does.
WHERE = "MEMLENS_CACHE"


def chosen_place(cache: str | Path | None) -> str:
    """Where what is read is to be kept: ``user``, ``beside``, a folder, or ``off``; see :attr:`memlens.options.ReadAs.cache`."""
    return (os.environ.get(WHERE, "") if cache is None else os.fspath(cache)) or "off"


def is_on(cache: str | Path | None) -> bool:
    """Whether what is read is to be kept at all."""
    return chosen_place(cache) != "off"
