"""What the page unpacks, unpacked in Python: the plain counterpart of ``viewer/data.js``."""

from __future__ import annotations

import base64
import json
import re
import zlib
from itertools import accumulate
from typing import Any

import numpy as np


def unpacked(value: Any) -> Any:
    """The same tree with lists of integers and texts for what was packed, or is packed as the page is written."""
    if isinstance(value, list):
        return [unpacked(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if not isinstance(value, dict):
        return value
    if "packed" in value:
        data, n = zlib.decompress(base64.b64decode(value["packed"])), value["n"]
        folded = [sum(data[plane * n + k] << 8 * plane for plane in range(value["planes"])) for k in range(n)]
        return list(accumulate(-(number + 1) // 2 if number % 2 else number // 2 for number in folded))
    if set(value) == {"json"}:
        return json.loads(zlib.decompress(base64.b64decode(value["json"])))
    return {name: unpacked(item) for name, item in value.items()}


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
