"""Columns of integers and texts as the page carries them: differences in byte planes, deflated, in base64.

What is packed is unpacked by ``viewer/data.js``, with nothing but what browsers have.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from memlens.errors import MemlensError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["pack", "pack_json"]

#: Numbers of JavaScript are exact up to twice this, which differences of two of them may be.
_EXACT = 1 << 52


def pack(values: ArrayLike) -> dict[str, Any]:
    """A column of integers.

    Args:
        values: Integers of less than 2**52 in absolute value, in any order; the less neighbours differ, the smaller is what comes out.

    Returns:
        ``{"n", "planes", "packed"}``: how many values, how many bytes a difference takes, and the lowest byte of each difference, then the
        second lowest of each, … deflated, in base64.  A difference ``d`` is written ``2d`` or ``-2d - 1``, so that small ones are small.

    Raises:
        MemlensError: A value is too large: no page could show it to the byte.
    """
    column = np.asarray(values, np.int64)
    if len(column) and max(int(column.max()), -int(column.min())) >= _EXACT:
        raise MemlensError(
            f"a page cannot show figures of {_EXACT:,} and more: they are not exact in a browser",
            "memlens analyze shows them.",
        )
    differences = np.diff(column, prepend=0)
    folded = ((differences << 1) ^ (differences >> 63)).astype("<u8")
    planes = max((int(folded.max(initial=0)).bit_length() + 7) // 8, 1)
    data = folded.view(np.uint8).reshape(-1, 8)[:, :planes].T.tobytes()
    return {"n": len(column), "planes": planes, "packed": _deflated(data)}


def pack_json(value: object) -> dict[str, str]:
    """Anything that JSON can hold: a long list of texts, as a rule."""
    return {"json": _deflated(msgspec.json.encode(value))}


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")
