"""Runs whose sizes are those of another times a factor, padded anew."""

from __future__ import annotations

from fractions import Fraction

from msgspec.structs import replace

from memlens.events import Kind
from memlens.windows.windows import Window


def scaled(window: Window, factor: Fraction, *, padding: int = 256, small: int = 4096) -> Window:
    """A copy whose blocks of more than ``small`` bytes are ``factor`` times as large, padded; small ones stay as they are."""
    log = window.log
    size = log.size.copy()
    large = (log.kind <= Kind.FREE) & (size > small)
    exact = -(-(size[large] * factor.numerator) // factor.denominator)
    size[large] = -(-exact // padding) * padding
    return replace(window, log=log.without_cache(size=size, requested=None))
