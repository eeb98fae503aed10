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
    if _largest(column) >= _EXACT:
        raise MemlensError(
            f"a page cannot show figures of {_EXACT:,} and more: they are not exact in a browser",
            "memlens analyze shows them.",
        )
    how, numbers = next(way for way in _ways(column, beside or {}) if _largest(way[1]) < _EXACT)
    unit = int(np.gcd.reduce(numbers)) if len(numbers) else 0
    if unit > 1:
        numbers, how = numbers // unit, how | {"unit": unit}
    folded = ((numbers << 1) ^ (numbers >> 63)).astype("<u8")
    planes = max((int(folded.max(initial=0)).bit_length() + 7) // 8, 1)
    data = folded.view(np.uint8).reshape(-1, 8)[:, :planes].T.tobytes()
    # What is filtered is mostly small numbers with a somewhat random distribution (the manual of zlib): columns are.
    return {"n": len(column), "planes": planes, **how, "packed": _text(data, zlib.Z_FILTERED)}


def _largest(numbers: Ints) -> int:
    return max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))


def _ways(column: Ints, beside: Mapping[str, Ints]) -> Iterator[tuple[dict[str, Any], Ints]]:
    """Ways to write a column, the one that seems to take the fewest bits first: what says so, and the numbers to be written."""
    at = np.arange(1, len(column), max(len(column) // _SAMPLE, 1))

    def bits(numbers: Ints) -> float:
        return float(np.log2(np.abs(numbers) + 1.0).mean()) if len(numbers) else 0.0

    parts: list[tuple[dict[str, Any], Ints, Ints | None, float]] = [({}, column, None, 0.0)]
    parts += [({"near": name}, column, other, 0.0) for name, other in beside.items() if len(other) >= len(column)]
    if len(column) > _SAMPLE and len(kinds := distinct(column)) * 2 <= len(column):
        more = bits(kinds) * len(kinds) / len(column)
        parts.append(({"table": pack(kinds)}, kinds.searchsorted(column), None, more))
    found = []
    for how, numbers, other, more in parts:
        here, before = (numbers[k] - (0 if other is None else other[k]) for k in (at, at - 1))
        found += [(bits(here - before) + more, how, numbers, other)]
        found += [(bits(here) + more, how | {"plain": True}, numbers, other)]
    # Steps first: of ways that are alike the first is taken.
    for _, how, numbers, other in sorted(found, key=lambda way: way[0]):
        written = numbers if other is None else numbers - other[: len(numbers)]
        yield how, written if "plain" in how else np.diff(written, prepend=0)


def pack_json(value: object) -> dict[str, str]:
    """Anything that JSON can hold: a long list of texts, as a rule."""
    return {"json": _text(msgspec.json.encode(value))}


def _text(data: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Bytes deflated, in base 85 as ``base64.b85encode`` has it, but for three characters."""
    made = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS, 9, strategy)
    return base64.b85encode(made.compress(data) + made.flush()).translate(_SAFE).decode("ascii")
