"""What the page unpacks, unpacked in Python: the plain counterpart of ``viewer/data.js``."""

from __future__ import annotations

import base64
import json
import re
import zlib
from itertools import accumulate
from typing import Any

import numpy as np


def unpacked(value: Any, beside: dict[str, Any] | None = None) -> Any:
    """The same tree with lists of integers and texts for what was packed, or is packed as the page is written."""
    if isinstance(value, list):
        return [unpacked(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if not isinstance(value, dict):
        return value
    if "packed" in value:
        return _column(value, beside or {})
    if set(value) == {"json"}:
        return json.loads(_bytes(value["json"]))
    found: dict[str, Any] = {}
    for name, item in value.items():
        found[name] = unpacked(item, found)
    return found


def _column(packed: dict[str, Any], beside: dict[str, Any]) -> list[int]:
    data, n = _bytes(packed["packed"]), packed["n"]
    folded = [sum(data[plane * n + k] << 8 * plane for plane in range(packed["planes"])) for k in range(n)]
    numbers = [(-(number + 1) // 2 if number % 2 else number // 2) * packed.get("unit", 1) for number in folded]
    values = numbers if packed.get("plain") else list(accumulate(numbers))
    if "table" in packed:
        kinds = unpacked(packed["table"])
        return [kinds[index] for index in values]
    return (
        [value + other for value, other in zip(values, beside[packed["near"]], strict=False)]
        if "near" in packed
        else values
    )


def _bytes(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text.translate(str.maketrans(".:,", "<>&"))))


def view_of(html: str, log: int = 0) -> Any:
    """What a page shows of one of its logs."""
    return unpacked(_data_of(html)["logs"][log])


def diff_of(html: str) -> Any:
    """What a page shows of a comparison."""
    return unpacked(_data_of(html)["diff"])


def _data_of(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])
