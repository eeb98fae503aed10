"""Inputs named by a URL: told from paths without importing anything that reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeVar

    Where = TypeVar("Where")

__all__ = ["is_url", "local_path", "scheme_of"]

#: A scheme has two letters at least: ``c://`` is a drive.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(?:::[^\s]+)?://")


def scheme_of(where: object) -> str:
    """The scheme of a URL, lower case; ``""`` for anything else."""
    match = _URL.match(where) if isinstance(where, str) else None
    return "" if match is None else match[1].lower()


def is_url(where: object) -> bool:
    """Whether an input is named by a URL (``s3://bucket/run.log``) and not by a path."""
    return bool(scheme_of(where))


def local_path(where: Where) -> Where | Path:
    """The path that a ``file://`` URL of this machine names; anything else as it is."""
    if scheme_of(where) != "file":
        return where
    from urllib.parse import unquote, urlsplit

    parts = urlsplit(str(where))
    return Path(unquote(parts.path)) if parts.netloc in ("", "localhost") and parts.path else where
