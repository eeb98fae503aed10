"""How much a window allocates and frees, and in which sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from memlens.analyzers.places import lasted_us, lasting_us, or_none
from memlens.facts import Kind
from memlens.folding import per_window, profile, size_code
from memlens.results import OnDemand, Result, Tables, lazy
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memlens.windows.windows import Window


class Bin(Result, frozen=True):
    """Blocks of ``low_bytes`` to ``high_bytes`` (both included), a power of two wide; blocks of 0 bytes have their own."""

    low_bytes: int
    high_bytes: int
    allocs: int
    alloc_bytes: int
    frees: int
    free_bytes: int


@lazy("duration_us", "histogram")
class Stats(Result, frozen=True):
    """Bytes and counts of a window's events.

    Attributes:
        requested_bytes: Σ of the sizes that tensors asked for, over the ALLOCs whose requested size is known; ``None`` where
            that is none.
        aligned_bytes: Σ of the sizes given, over the same ALLOCs; ``None`` where that is none.
        requested_allocs: How many ALLOCs that is.
        duration_us: From the first to the last known time; ``None`` without times.
        histogram: ALLOCs and FREEs by size, smallest first, only bins that hold any.
    """

    tables: ClassVar[Tables] = {"histogram": Bin}

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
    duration_us: int | None = None
    histogram: tuple[Bin, ...] = ()


def stats(windows: Sequence[Window]) -> OnDemand[Stats]:
    """Analyze windows of one log in one pass; durations whose times were not read, and histograms, are worked out when they are asked for."""
    figures = profile(windows)
    known = figures["requested_allocs"] > 0
    every, names = bool(known.all()), ("requested_bytes", "aligned_bytes")
    columns = {name: figures[name] if every else np.where(known, figures[name], np.array(None)) for name in names}
    late: dict[str, Callable[[Window], Any]] = {"duration_us": lambda window: lasted_us([window])(0)}
    if windows[0].log.time_us is not None:
        columns["duration_us"], late = or_none(lasting_us(windows)), {}
    return per_window(Stats, windows, {**figures.columns, **columns}, **late, histogram=histogram)


def histogram(window: Window) -> tuple[Bin, ...]:
    """ALLOCs and FREEs of a window by power of two of their size."""
    log = window.log
    counts, totals = np.zeros(128, np.int64), np.zeros(128, np.int64)
    for start, stop in walk(window.lo, window.hi):
        kind, size = log.kind[start:stop], log.size[start:stop]
        if kind.max() > Kind.FREE:
            blocks = np.flatnonzero(kind <= Kind.FREE)
            kind, size = kind[blocks], size[blocks]
        code = size_code(kind, size)
        counts += np.bincount(code, minlength=128)
        np.add.at(totals, code, size)
    rows = np.stack([counts, totals], axis=1).reshape(64, 4).tolist()  # ALLOCs, their bytes, FREEs, their bytes
    return tuple(
        Bin(1 << (k - 1) if k else 0, (1 << k) - 1, allocs, alloc_bytes, frees, free_bytes)
        for k, (allocs, alloc_bytes, frees, free_bytes) in enumerate(rows)
        if allocs or frees
    )
