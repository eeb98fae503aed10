"""Data as a page holds it: columns of integers and lists of texts, deflated, in characters that may stand in JSON within HTML.

``viewer/data.js`` unpacks them with nothing but what browsers have.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from memlens.columns import distinct
from memlens.errors import MemlensError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import ArrayLike

    from memlens.columns import Ints

#: Numbers of JavaScript are exact up to twice this, which is how a number of this is written.
_EXACT = 1 << 52
#: Of so many values it is estimated how a column is written in fewest bytes; fewer are not worth a table.
_SAMPLE = 1 << 11
#: Characters of base 85 that mean something in HTML, and what stands for them.
_SAFE = bytes.maketrans(b"<>&", b".:,")


def packed(value: object) -> Any:
    """The same tree with every array of integers in it packed (:func:`pack`), beside the columns that stand before it in the same dictionary."""
    if isinstance(value, np.ndarray):
        return pack(value)
    if isinstance(value, list | tuple):
        return [packed(one) for one in value]
    if not isinstance(value, dict):
        return value
    found, columns = {}, dict[str, "Ints"]()
    for name, one in value.items():
        if isinstance(one, np.ndarray):
            found[name] = pack(one, columns)
            columns[name] = np.asarray(one, np.int64)
        else:
            found[name] = packed(one)
    return found


def pack(values: ArrayLike, beside: Mapping[str, Ints] | None = None) -> dict[str, Any]:
    """A column of integers, written in whichever way takes the fewest bytes, as far as that can be told from some of the values.

    Args:
        values: Integers of less than 2**52 in absolute value, in any order.
        beside: Other columns by their names; those that are as long or longer may stand for a part of the values.

    Returns:
        ``n``, how many values, and ``packed``, the lowest byte of each number, then the second lowest of each, …, ``planes`` of them (:func:`_text`).  A
        number ``d`` is written ``2d`` or ``-2d - 1``, so that small ones are small; times ``unit``, where there is one, it is the difference from the number
        before, or with ``plain`` itself.  The value is that, or with ``near`` what it is more than the value of the column of that name at its place, or
        with ``table`` its index in that column.

    Raises:
        MemlensError: A value is too large: no page could show it to the byte.
    """
    column = np.asarray(values, np.int64)
    if len(column) and max(int(column.max()), -int(column.min())) >= _EXACT:
        raise MemlensError(
            f"a page cannot show figures of {_EXACT:,} and more: they are not exact in a browser",
            "memlens analyze shows them.",
        )
    _, how, numbers = min(_ways(column, beside or {}), key=lambda way: way[0])
    unit = int(np.gcd.reduce(numbers)) if len(numbers) else 0
    if unit > 1:
        numbers, how = numbers // unit, how | {"unit": unit}
    folded = ((numbers << 1) ^ (numbers >> 63)).astype("<u8")
    planes = max((int(folded.max(initial=0)).bit_length() + 7) // 8, 1)
    data = folded.view(np.uint8).reshape(-1, 8)[:, :planes].T.tobytes()
    # What is filtered is mostly small numbers with a somewhat random distribution (the manual of zlib): columns are.
    return {"n": len(column), "planes": planes, **how, "packed": _text(data, zlib.Z_FILTERED)}


def _ways(column: Ints, beside: Mapping[str, Ints]) -> Iterator[tuple[float, dict[str, Any], Ints]]:
    """Ways to write a column: about how many bits a value takes, what says so, and the numbers to be written."""
    step = max(len(column) // _SAMPLE, 1)

    def bits(numbers: Ints) -> float:
        return float(np.log2(np.abs(numbers[::step]) + 1.0).mean()) if len(numbers) else 0.0

    # Steps first: of ways that are alike the first is taken.
    parts: list[tuple[dict[str, Any], Ints, float]] = [({}, column, 0.0)]
    parts += [
        ({"near": name}, column - other[: len(column)], 0.0)
        for name, other in beside.items()
        if len(other) >= len(column)
    ]
    if len(column) > _SAMPLE and len(kinds := distinct(column)) * 2 <= len(column):
        parts.append(({"table": pack(kinds)}, kinds.searchsorted(column), bits(kinds) * len(kinds) / len(column)))
    for how, numbers, more in parts:
        for kind, written in (({}, np.diff(numbers, prepend=0)), ({"plain": True}, numbers)):
            if max(int(written.max(initial=0)), -int(written.min(initial=0))) < _EXACT:
                yield bits(written) + more, how | kind, written


def pack_json(value: object) -> dict[str, str]:
    """Anything that JSON can hold: a long list of texts, as a rule."""
    return {"json": _text(msgspec.json.encode(value))}


def _text(data: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Bytes deflated, in base 85 as ``base64.b85encode`` has it, but for three characters."""
    made = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, strategy)
    return base64.b85encode(made.compress(data) + made.flush()).translate(_SAFE).decode("ascii")
