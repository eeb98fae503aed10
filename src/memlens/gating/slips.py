"""What came over an anchor by chance: threads that run ahead or behind the one that prints the anchors decide that.

A block that is taken or given back right at an anchor, and on its other side in the other run, moves the level at that anchor, and so what
two neighbouring windows leave behind, by its size; nothing more is held before it nor after it.  So a difference of the two runs' levels at
an anchor counts for nothing where events right at the anchor account for it *and* it goes away again on both sides: a block that is kept
does not, nor does one that is freed deep in the next window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from memlens.analyzers.levels import bounds
from memlens.events import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.gating.figures import RunFigures
    from memlens.gating.limits import Metric
    from memlens.gating.pairs import PairedRuns
    from memlens.slicing import Window

__all__ = ["Slack", "slack_of", "slipped"]

#: Events on each side of an anchor that chance may move over it.
_NEAR = 2

#: How far the level at the start and at the end of a window may fall, and how far it may rise, when events next to it change sides.
Slack: TypeAlias = "tuple[tuple[int, int], tuple[int, int]]"


def slack_of(windows: Sequence[Window]) -> dict[str, Slack]:
    """What events next to the anchors of windows of one log account for, in bytes, by the windows' names."""
    log, lo, hi = bounds(windows)
    if not len(log):
        return {}
    near = np.arange(_NEAR)

    def total(first: NDArray[np.int64], kind: Kind) -> NDArray[np.int64]:
        """The bytes of events of a kind among those from each of these on, int64."""
        at = first[:, None] + near
        there = (at >= log.facts.opening) & (at < len(log))
        at = np.clip(at, 0, len(log) - 1)
        found: NDArray[np.int64] = np.where(there & (log.kind[at] == kind), log.size[at], 0).sum(axis=1)
        return found

    # An ALLOC before the anchor and a FREE after it may have the level too high, a FREE before and an ALLOC after it too low.
    start, end = (
        zip(
            (total(edge - _NEAR, Kind.ALLOC) + total(edge, Kind.FREE)).tolist(),
            (total(edge - _NEAR, Kind.FREE) + total(edge, Kind.ALLOC)).tolist(),
            strict=True,
        )
        for edge in (lo, hi)
    )
    return dict(zip([window.name for window in windows], zip(start, end, strict=True), strict=True))


def slipped(head: RunFigures, paired: PairedRuns, slack: Mapping[str, Slack]) -> dict[tuple[str, Metric], int]:
    """The bytes of the figures of head's windows that only came over an anchor, by window and metric."""
    partner = {new.name: base for base, new in paired.pairs}
    windows = [window for window in head.windows if window.name in partner and window.name in slack]
    # By how much head's level differs from base's at each start and each end, and how far chance may move it.
    points: list[tuple[int, int, int]] = []
    for window in windows:
        figures = partner[window.name].figures
        before = (
            window.live_bytes - window.remaining_bytes - max(one.live_bytes - one.remaining_bytes for one in figures)
        )
        after = window.live_bytes - max(one.live_bytes for one in figures)
        points += [(before, *slack[window.name][0]), (after, *slack[window.name][1])]
    moved = _moved(points)
    found: dict[tuple[str, Metric], int] = {}
    for place, window in enumerate(windows):
        start, end = moved[2 * place : 2 * place + 2]
        found[window.name, "rise"] = max(-start, 0)
        found[window.name, "remaining"] = max(end - start, 0)
    return found


def _moved(points: Sequence[tuple[int, int, int]]) -> list[int]:
    """What of each difference goes away on both sides of it within the slack of its point; below 0 where it is too low."""
    sides = [_settled(points), _settled(points[::-1])[::-1]]
    too_high = [value - max(one, other) for (value, _, _), one, other in zip(points, *sides, strict=True)]
    flipped = [(-value, up, down) for value, down, up in points]
    sides = [_settled(flipped), _settled(flipped[::-1])[::-1]]
    too_low = [value - max(one, other) for (value, _, _), one, other in zip(flipped, *sides, strict=True)]
    return [high - low for high, low in zip(too_high, too_low, strict=True)]


def _settled(points: Sequence[tuple[int, int, int]]) -> list[int]:
    """The lowest that each difference may be within its slack and not below the one before it, as far as that was settled."""
    found: list[int] = []
    for value, down, _ in points:
        found.append(max(value - down, min(value, found[-1])) if found else value)
    return found
