"""JSON Schemas of the machine output, one a verb: the files in this folder are made from the types of the results by a test."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from memlens.errors import UsageError

__all__ = ["schema"]


def schema(verb: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of what a verb writes with ``--format json``; ``"baseline"`` is that of the file of a gate.

    Raises:
        UsageError: That verb writes no JSON.
    """
    folder = resources.files(__name__)
    names = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    if verb not in names:
        raise UsageError(f"no JSON is written by {verb!r}", f"There are schemas of: {', '.join(names)}.")
    found: dict[str, Any] = json.loads(folder.joinpath(f"{verb}.json").read_text())
    return found
