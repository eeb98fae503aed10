"""Runs whose sizes are those of another times a factor, padded anew, and runs whose sizes only partly are."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np

from memlens.events import EventLog, Kind
from memlens.windows.windows import Window

__all__ = ["lossy", "partly_scaled", "scaled"]


def scaled(window: Window, factor: Fraction, *, padding: int = 256, small: int = 4096) -> Window:
    """A copy whose blocks of more than ``small`` bytes are ``factor`` times as large, padded; small ones stay as they are."""
    log = window.log
    size = log.size.copy()
    large = (log.kind <= Kind.FREE) & (size > small)
    exact = -(-(size[large] * factor.numerator) // factor.denominator)
    size[large] = -(-exact // padding) * padding
    return _copy(window, size)


def partly_scaled(window: Window, factor: Fraction, chance: Random, share: float) -> Window:
    """A copy in which so large a share of all distinct sizes, chosen by chance, is ``factor`` times as large."""
    log = window.log
    sizes, which = np.unique(log.size, return_inverse=True)
    chosen = np.array([chance.random() < share for _ in sizes])
    made = np.where(chosen, -(-(sizes * factor.numerator // factor.denominator) // 256) * 256, sizes)
    return _copy(window, np.where(log.kind <= Kind.FREE, made[which], log.size))


def lossy(window: Window, chance: Random, count: int) -> tuple[Window, dict[int, int]]:
    """A copy that lacks some FREEs of its own blocks, and how many it lacks of each size."""
    log, partner = window.log, window.log.lifetimes.partner
    frees = [e for e in range(window.lo, window.hi) if log.kind[e] == Kind.FREE and partner[e] >= window.lo]
    gone = sorted(chance.sample(frees, count))
    lost: dict[int, int] = {}
    for event in gone:
        lost[int(log.size[partner[event]])] = lost.get(int(log.size[partner[event]]), 0) + 1
    # What has lost its FREE is not allocated over.
    addr = log.addr.copy()
    for number, event in enumerate(gone):
        addr[partner[event]] = int(log.addr.max()) + (1 << 20) + 512 * number
    keep = np.ones(len(log), np.bool_)
    keep[gone] = False
    places = np.arange(int(keep.sum()), dtype=np.int64)
    copy = EventLog(log.kind[keep], log.size[keep], addr[keep], places, line=places + 1)
    hi = window.hi - count
    return Window(copy, window.name, window.lo, hi, window.lo, hi, window.lo + 1, hi), lost


def _copy(window: Window, size: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Window:
    log = window.log.without_cache(size=size, requested=None)
    return Window(
        log,
        window.name,
        window.lo,
        window.hi,
        window.start_offset,
        window.end_offset,
        window.start_line,
        window.end_line,
    )
