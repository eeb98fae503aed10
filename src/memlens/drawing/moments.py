"""Blocks alive at any moment of a window, by size and owner: counts on a grid of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, structs

from memlens.analyzers.groups import kinds_of_blocks, owner_labels
from memlens.analyzers.places import lines_at
from memlens.columns import Ints, distinct
from memlens.drawing.packing import pack
from memlens.folding.levels import levels_before
from memlens.folding.tally import tally
from memlens.trust.report import failures_in

if TYPE_CHECKING:
    from memlens.drawing.lifetimes import WindowBlocks
    from memlens.drawing.packing import Owners
    from memlens.windows.windows import Window


#: Events of the grid at most, and how many of them may be failures.
GRID, FAILURES = 1024, 64
#: Groups of blocks alike: those of the most bytes times events, and those that are largest at the peak.
BY_AREA, AT_PEAK = 44, 20


class Moments(Struct, frozen=True, eq=False):
    """Blocks live right after each event of a grid.

    At each of them ``Σ size × count + other_bytes + odd_bytes`` is the level.

    Attributes:
        event: The events, rising, int64; the first one is the event before the window (-1 where there is none), which has what is carried in.
        line: Their lines, 1-based, 0 where there is none, int64.
        level_bytes: The allocated level right after each, int64.
        size_bytes: The size of the blocks of each group, int64; the group of the most bytes times events comes first.
        owner: The page's number of the owner of each group, int64, -1 for none.
        counts: How many blocks of each group (row) are live right after each event (column), int64.
        other_counts: How many blocks of no group are live, int64.
        other_bytes: Their bytes, int64; all of the level where the log does not tell which blocks are live.
        odd_bytes: What the level has beyond the live blocks, int64: ALLOC sizes less FREE sizes of the pairs that differ, less the frees of what the
            log never allocates; below 0 as a rule where it is not 0.
    """

    event: Ints
    line: Ints
    level_bytes: Ints
    size_bytes: Ints
    owner: list[int]
    counts: Ints
    other_counts: Ints
    other_bytes: Ints
    odd_bytes: Ints

    def to_dict(self) -> dict[str, Any]:
        """Return what the page gets; the rows of ``counts`` one after the other."""
        columns = structs.asdict(self) | {"counts": self.counts.ravel()}
        return {name: pack(column) for name, column in columns.items()}


def moments(window: Window, of: WindowBlocks, owners: Owners) -> Moments:
    """Count what is live at some moments of a window.

    Args:
        window: The window.
        of: Its blocks.
        owners: Gives the numbers of their owners.
    """
    log, grid = window.log, _grid(window, of.peak)
    level = np.array([allocated for allocated, _ in levels_before(log, grid + 1)], np.int64)
    born, gone = grid.searchsorted(of.alloc), grid.searchsorted(of.end)
    number, sizes, labels = kinds_of_blocks(log, of.alloc)
    area = np.bincount(number, of.life, len(sizes)) * sizes
    at_peak = np.bincount(number[of.at_peak], minlength=len(sizes)) * sizes
    chosen = np.argsort(-area, kind="stable")[:BY_AREA].tolist()
    largest = np.argsort(-at_peak, kind="stable")[:AT_PEAK]
    chosen = list(dict.fromkeys([*chosen, *largest[at_peak[largest] > 0].tolist()]))
    group_of = np.full(len(sizes), len(chosen), np.int64)  # the last group is all others
    group_of[chosen] = np.arange(len(chosen))
    cells, width = group_of[number] * (len(grid) + 1), len(grid) + 1
    changes = np.bincount(cells + born, minlength=(len(chosen) + 1) * width)
    changes -= np.bincount(cells + gone, minlength=len(changes))
    counts = changes.reshape(-1, width).cumsum(axis=1)[:, :-1]
    anomalous = _odd_bytes(window, grid) if log.facts.addresses else np.zeros(len(grid), np.int64)
    names = owner_labels(log)
    return Moments(
        event=grid,
        line=lines_at(log, grid),
        level_bytes=level,
        size_bytes=sizes[chosen],
        owner=owners.code_texts(names[label] for label in labels[chosen].tolist()),
        counts=counts[:-1],
        other_counts=counts[-1],
        other_bytes=level - anomalous - sizes[chosen] @ counts[:-1],
        odd_bytes=anomalous,
    )


def _grid(window: Window, peak: int) -> Ints:
    """The window's edges, its peak and its failures, and of each of many stretches the event with the highest level."""
    log, (lo, hi) = window.log, (window.lo, window.hi)
    failed = [oom.offset for oom in failures_in(window)]
    before = np.searchsorted(log.offset, np.array(failed[:FAILURES], np.int64)) - 1
    fixed = np.clip(np.array([lo - 1, hi - 1, peak, *before.tolist()], np.int64), lo - 1, max(hi - 1, lo - 1))
    stretches = min(GRID - len(fixed), hi - lo)
    if not stretches:
        return distinct(fixed)
    edges = lo + np.arange(stretches + 1, dtype=np.int64) * (hi - lo) // stretches
    found = tally(log, edges).over(edges[:-1], edges[1:])
    # A stretch that never rises above its start is highest right after its first event.
    return distinct(np.append(fixed, np.where(found.rise[0] > 0, found.summit, edges[:-1])))


def _odd_bytes(window: Window, grid: Ints) -> Ints:
    """Σ (ALLOC - FREE) over the pairs whose sizes differ, less Σ unknown frees, from the start of the log to right after each event."""
    log, anomalies = window.log, window.log.free_anomalies
    sums = np.zeros(len(grid), np.int64)
    for events, amounts in (
        (anomalies.unknown, -log.size[anomalies.unknown]),
        (anomalies.mismatched, anomalies.excess),
    ):
        sums += np.append(0, np.cumsum(amounts))[np.searchsorted(events, grid, "right")]
    return sums
