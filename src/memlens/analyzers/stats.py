"""How much a window allocates and frees, and in which sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.analyzers.places import elapsed_us
from memlens.facts import Kind
from memlens.folding import profile, size_code
from memlens.results import OnDemand, Result, Tables, lazy, per_window
from memlens.spool import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.windows.windows import Window


#: Events at each end of a window whose times are looked up, if they were not read, until one is known.
_LOOKED_UP = 64


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
    """Analyze windows of one log in one pass; durations and histograms are worked out when they are asked for."""
    figures = profile(windows)
    known = figures["requested_allocs"] > 0
    every, names = bool(known.all()), ("requested_bytes", "aligned_bytes")
    requested = {name: figures[name] if every else np.where(known, figures[name], np.array(None)) for name in names}
    return per_window(Stats, windows, {**figures.columns, **requested}, duration_us=duration_us, histogram=histogram)


def duration_us(window: Window) -> int | None:
    """Microseconds from the first to the last known time in a window; ``None`` where none is known.

    Where times were not read, those at its ends are looked up.
    """
    log, events = window.log, range(window.lo, window.hi)
    if log.time_us is None:
        times = (log.times_of(some) for some in (events[:_LOOKED_UP], events[: -1 - _LOOKED_UP : -1]))
        return elapsed_us(*(next((time for time in some if time is not None), None) for some in times))
    read = log.time_us[window.lo : window.hi]
    return elapsed_us(_first_known(read), _first_known(read[::-1]))


def _first_known(times: NDArray[np.int64]) -> int | None:
    for start, stop in walk(0, len(times)):
        known = np.flatnonzero(times[start:stop] >= 0)
        if len(known):
            return int(times[start + known[0]])
    return None


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
