"""The names in a result as programs get it: each has to stand on the pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any


def fields_of(value: Any, free: Collection[str] = ()) -> Iterator[str]:
    """Every key of nested dictionaries and lists; below ``free`` ones stand data and no names of ours."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            if key not in free:
                yield from fields_of(inner, free)
    elif isinstance(value, list):
        for inner in value:
            yield from fields_of(inner, free)
