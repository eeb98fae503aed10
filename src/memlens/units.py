"""Counts as people write and read them: bytes in binary units, and things."""

from __future__ import annotations

import re

from memlens.errors import UsageError

__all__ = ["format_bytes", "format_signed", "parse_bytes", "plural"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNIT_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE = re.compile(r"\s*(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>[kmgtp]?)(?:i?b)?\s*", re.IGNORECASE)


def format_bytes(count: int) -> str:
    """Write a number of bytes for people: ``3538944`` as ``3.38 MiB``; below 1 KiB exact, ``640 B``.

    Two decimals, binary units, a leading ``-`` for negative counts.  A value that would round to 1024.00 goes to the
    next unit, so ``1048575`` is ``1.00 MiB``.
    """
    sign, value = ("-", -count) if count < 0 else ("", count)
    if value < 1024:
        return f"{sign}{value} B"
    scaled, unit = float(value), 0
    while unit < len(_UNITS) - 1 and round(scaled, 2) >= 1024:
        scaled /= 1024
        unit += 1
    return f"{sign}{scaled:.2f} {_UNITS[unit]}"


def format_signed(count: int) -> str:
    """Write a difference in bytes: always with a sign, ``+3.38 MiB``, ``-640 B``; zero is ``0 B``."""
    return f"+{format_bytes(count)}" if count > 0 else format_bytes(count)


def parse_bytes(text: str) -> int:
    """Read a size as people type it: ``4096``, ``64k``, ``1.5MiB``, ``2 GB`` (all units binary).

    Returns:
        The size in bytes, rounded to the nearest byte.

    Raises:
        UsageError: The text is not a size.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a size", "Write a size like 4096, 64KiB, 1.5MiB or 2GiB (units are binary).")
    number, unit = match["number"], _UNIT_BYTES[match["unit"].lower()]
    return round(float(number) * unit) if "." in number else int(number) * unit


def plural(count: int, one: str, many: str = "") -> str:
    """``1 free``, ``1,942 frees``; ``many`` is for words that do not just take an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
