"""How much a window allocates and frees, and in which sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.analyzers.levels import SUMS, profile, walk
from memlens.analyzers.places import elapsed_us
from memlens.analyzers.result import Later, Lazy, Result, Row
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.windows.windows import Window

__all__ = ["Bin", "Stats", "power_of_two", "stats"]


@dataclass(frozen=True)
class Bin(Row):
    """Blocks of ``low_bytes`` to ``high_bytes`` (both included), a power of two wide; blocks of 0 bytes have their own."""

    low_bytes: int
    high_bytes: int
    allocs: int
    alloc_bytes: int
    frees: int
    free_bytes: int


@dataclass(frozen=True)
class Stats(Result):
    """Bytes and counts of a window's events.

    Attributes:
        requested_bytes: Σ of the sizes that tensors asked for, over the ALLOCs whose requested size is known; ``None`` where
            that is none.
        aligned_bytes: Σ of the sizes given, over the same ALLOCs; ``None`` where that is none.
        requested_allocs: How many ALLOCs that is.
        duration_us: From the first to the last known time; ``None`` without times.
        histogram: ALLOCs and FREEs by size, smallest first, only bins that hold any.
    """

    tables: ClassVar[dict[str, type[Row]]] = {"histogram": Bin}

    alloc_bytes: int
    allocs: int
    free_bytes: int
    frees: int
    reserve_bytes: int
    reserves: int
    release_bytes: int
    releases: int
    largest_alloc_bytes: int
    largest_free_bytes: int
    requested_bytes: int | None = None
    aligned_bytes: int | None = None
    requested_allocs: int = 0
    duration_us: Lazy[int | None] = field(default=Lazy(None), repr=False)
    histogram: Lazy[tuple[Bin, ...]] = field(default=Lazy(()), repr=False)


def stats(windows: Sequence[Window]) -> list[Stats]:
    """Analyze windows of one log in one pass; durations and histograms are worked out when they are asked for."""
    if not windows:
        return []
    figures = profile(windows)
    columns = {name: figures[name].tolist() for name in SUMS}
    largest = figures.largest.tolist()
    return [
        Stats(
            columns["alloc_bytes"][i],
            columns["allocs"][i],
            columns["free_bytes"][i],
            columns["frees"][i],
            columns["reserve_bytes"][i],
            columns["reserves"][i],
            columns["release_bytes"][i],
            columns["releases"][i],
            largest[0][i],
            largest[1][i],
            columns["requested_bytes"][i] if known else None,
            columns["aligned_bytes"][i] if known else None,
            known,
            Later(duration_us, window.log, window.lo, window.hi),
            Later(histogram, window.log, window.lo, window.hi),
        )
        for i, (window, known) in enumerate(zip(windows, columns["requested_allocs"], strict=True))
    ]


def duration_us(log: EventLog, lo: int, hi: int) -> int | None:
    """Microseconds from the first to the last known time among events ``lo … hi-1``; ``None`` where none is known."""
    if log.time_us is None:
        return None
    first, last = _first_known(log.time_us[lo:hi]), _first_known(log.time_us[lo:hi][::-1])
    if first is None or last is None:
        return None
    return elapsed_us(int(log.time_us[lo + first]), int(log.time_us[hi - 1 - last]))


def _first_known(times: NDArray[np.int64]) -> int | None:
    if len(times) and times[0] >= 0:
        return 0
    for start, stop in walk(0, len(times)):
        known = times[start:stop] >= 0
        if known.any():
            return start + int(known.argmax())
    return None


def histogram(log: EventLog, lo: int, hi: int) -> tuple[Bin, ...]:
    """ALLOCs and FREEs among events ``lo … hi-1`` by power of two of their size."""
    counts, totals = np.zeros(128, np.int64), np.zeros(128, np.int64)
    for start, stop in walk(lo, hi):
        kind, size = log.kind[start:stop], log.size[start:stop]
        if kind.max() > Kind.FREE:
            blocks = np.flatnonzero(kind <= Kind.FREE)
            kind, size = kind[blocks], size[blocks]
        code = 2 * power_of_two(size) + kind
        counts += np.bincount(code, minlength=128)
        np.add.at(totals, code, size)
    rows = np.stack([counts, totals], axis=1).reshape(64, 4).tolist()  # ALLOCs, their bytes, FREEs, their bytes
    return tuple(
        Bin(1 << (k - 1) if k else 0, (1 << k) - 1, allocs, alloc_bytes, frees, free_bytes)
        for k, (allocs, alloc_bytes, frees, free_bytes) in enumerate(rows)
        if allocs or frees
    )


def power_of_two(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 for 0, else 1 + the power of two that each size reaches, read from the exponent of the size as a float64.

    Clearing each bit below a set one keeps the highest bit and keeps large sizes from being rounded up to the next power.
    """
    exponent = (size & ~(size >> 1)).astype(np.float64).view(np.int64) >> 52
    power: NDArray[np.int64] = np.maximum(exponent - 1022, 0)
    return power
