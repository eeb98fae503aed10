"""Out-of-memory messages, and the figures that the framework prints about itself, read from single lines.

These lines are few, so each is read by the regular expressions of :mod:`memlens.inputs.paddle.wordings`.  A reader finds the lines
worth a look by :data:`LITERALS`, and hands each to :func:`read_message`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import NamedTuple

from memlens.facts import Figure, OutOfMemory
from memlens.inputs.paddle.wordings import (
    EXECUTOR_MEMORY,
    FREQUENT,
    JSON,
    LITERALS,
    OP_MEMORY,
    OUT_OF_MEMORY,
    TRAINER,
    USAGE_BYTE,
    USAGE_MB,
)

__all__ = ["FREQUENT", "LITERALS", "Message", "read_message"]


class Message(NamedTuple):
    """What one line says: an out-of-memory message, figures, or both."""

    oom: OutOfMemory | None
    figures: tuple[Figure, ...]


def read_message(line: bytes, offset: int, line_number: int) -> Message | None:
    """Read what one line says about memory.

    Args:
        line: The text of the line, with or without its line end.
        offset: Byte offset of the line.
        line_number: Its 1-based number.

    Returns:
        The message, or ``None`` where the line holds none.
    """
    oom = _out_of_memory(line, offset, line_number)
    figures = tuple(
        Figure(offset, metric, low, high, origin, device)
        for origin, metric, (low, high), device in _figures(line)
        if high < 1 << 62  # beyond that no memory is, and no sum of ours could be compared
    )
    return Message(oom, figures) if oom is not None or figures else None


#: Groups of wordings that are sizes.
_SIZES = ("requested", "free", "used", "total", "limit")


def _out_of_memory(line: bytes, offset: int, line_number: int) -> OutOfMemory | None:
    for wording in OUT_OF_MEMORY:
        match = wording.search(line)
        if match is not None:
            found = {key: text.decode() for key, text in match.groupdict().items() if text is not None}
            size = {key: _size(found[key]) for key in _SIZES if key in found}
            total = size.get("total", size.get("limit"))
            if total is None and "used" in size and "free" in size:
                total = size["used"] + size["free"]
            shown = line if len(line) <= 300 else line[match.start() : match.start() + 1200]
            return OutOfMemory(
                offset,
                line_number,
                found.get("device", ""),
                size.get("requested"),
                size.get("free"),
                shown.decode("utf-8", "replace").strip()[:300],
                total,
                limit_bytes=size.get("limit"),
            )
    return None


def _size(text: str) -> int:
    """Bytes of ``98.000244MB``, rounded to the nearest; a bare number is bytes."""
    number, unit = re.fullmatch(r"([\d.]+) ?([kKMGTP]?)B?", text).groups()  # type: ignore[union-attr]
    return int((_exact.multiply(Decimal(number), _scale(unit))).to_integral_value(ROUND_HALF_EVEN))


#: Wide enough that no size times a unit is ever rounded.
_exact = Context(prec=60)


def _scale(unit: str) -> Decimal:
    """Bytes in a unit by its first letter: ``M``, ``MB`` and ``MiB`` are 2**20, ``B`` and ``""`` 1."""
    return Decimal(1024 ** ("bkmgtp".index(unit[0].lower()) if unit else 0))


def _figures(line: bytes) -> Iterator[tuple[str, str, tuple[int, int], int]]:
    """Origin, metric, range of bytes and device (or -1) of each figure in a line."""
    for usage, read in ((USAGE_MB, _six_digits), (USAGE_BYTE, _integer)):
        for match in usage.find_all(line):
            for metric in ("reserved", "allocated"):
                if (span := read(match[metric].decode())) is not None:
                    yield usage.name, metric + "_peak", span, int(match["device"])
    for framework in (OP_MEMORY, EXECUTOR_MEMORY):
        matches = list(framework.find_all(line))
        for match in matches:
            if (span := _six_digits(match["value"].decode())) is not None:
                yield framework.name, _metric(match["key"].decode()), span, -1
        if matches:
            return  # else the trainer's format would read the same figures again
    for match in TRAINER.find_all(line):
        unit = (match["unit"] or b"").decode()
        if (span := _trainer_figure(match["key"].decode(), match["value"].decode(), unit)) is not None:
            yield TRAINER.name, _metric(match["key"].decode()), span, -1
    found = list(JSON.find_all(line))
    if len({match["key"] for match in found}) > 1:  # one key alone may be anybody's
        for match in found:
            yield JSON.name, match["key"].decode(), (int(match["value"]), int(match["value"])), -1


def _metric(key: str) -> str:
    return key.rpartition("_")[2] + ("_peak" if key.startswith("max_") else "")


def _integer(text: str) -> tuple[int, int] | None:
    return (int(text), int(text)) if text.isdigit() else None


@lru_cache(maxsize=4096)  # such figures are printed after every operator, and most of them again and again
def _six_digits(text: str) -> tuple[int, int] | None:
    """All byte counts that a C++ stream prints as ``text`` MB: divided by 2**20, six significant digits."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not 0 <= value < 1 << 42:
        return None

    def printed(count: int) -> float:
        return float(f"{count / (1 << 20):.6g}")

    # Six digits move a figure by 5 parts in a million at most; look a little further on both sides.
    below, above = int(value * (1 - 1e-5) * (1 << 20)) - 1, int(value * (1 + 1e-5) * (1 << 20)) + 2
    low = _first(lambda count: printed(count) >= value, max(below, 0), above)
    high = _first(lambda count: printed(count) > value, low, above) - 1
    if low <= high:
        return low, high
    return _digits(text, Decimal(1 << 20))  # more digits than a stream prints: somebody else's text


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest count of bytes, ``low`` to ``high``, from which on a condition holds; ``high`` where it never does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _trainer_figure(key: str, text: str, unit: str) -> tuple[int, int] | None:
    if unit in ("B", "") and text.isdigit():
        return _integer(text)
    if unit == "":  # the trainers that print no unit print bytes, or, under these names, a fraction of GiB
        return _digits(text, _scale("G")) if key.startswith(("current_memory_", "max_memory_")) else None
    if text.isdigit():  # integers are divided and rounded down by every trainer seen
        scale = int(_scale(unit))
        return int(text) * scale, (int(text) + 1) * scale - 1
    return _digits(text, _scale(unit))


def _digits(text: str, scale: Decimal) -> tuple[int, int]:
    """All byte counts that round to a decimal number of ``scale`` bytes with as many digits as were printed."""
    value = Decimal(text)
    exponent = value.as_tuple().exponent
    half = Decimal(5).scaleb((exponent if isinstance(exponent, int) else 0) - 1)
    low = _exact.multiply(_exact.subtract(value, half), scale).to_integral_value(ROUND_CEILING)
    high = _exact.multiply(_exact.add(value, half), scale).to_integral_value(ROUND_FLOOR)
    if low > high:  # so many digits that no whole number of bytes lies between: the nearest one is meant
        low = high = _exact.multiply(value, scale).to_integral_value(ROUND_HALF_EVEN)
    return max(int(low), 0), int(high)
