"""The events of blocks right before and after the cuts of a log that is read part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Kind
from memlens.folding.condensed import NEAR, NearCuts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.folding.condenser import Events

    Ints = NDArray[np.int64]

__all__ = ["GrowingNearCuts"]


class GrowingNearCuts:
    """Their sizes, for cuts in order; of the last events so many are held as those of a cut may be that others still follow."""

    def __init__(self) -> None:
        self._places, self._sizes = [np.zeros(0, np.int64)], [np.zeros((0, 2 * NEAR), np.int64)]
        self._waiting = np.zeros(
            1, np.int64
        )  # cuts after which too few events came so far; the start of the log is one
        self._offset, self._signed = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._end = 1

    def add(self, events: Events, cuts: Ints, end: int) -> None:
        """Take the next events.

        Args:
            events: They.
            cuts: Cuts, rising; those before these events do not matter.
            end: Where the text ends that they stand in.
        """
        block = events.kind <= Kind.FREE
        size = events.size[block]
        self._offset = np.concatenate((self._offset, events.offset[block]))
        self._signed = np.concatenate((self._signed, np.where(events.kind[block] == Kind.ALLOC, size, -size)))
        places = np.concatenate((self._waiting, cuts[(cuts >= self._end) & (cuts < end)]))
        known = int(np.count_nonzero(np.searchsorted(self._offset, places) + NEAR <= len(self._offset)))
        self._take(places[:known])
        self._waiting = places[known:]
        self._offset, self._signed = self._offset[1 - 2 * NEAR :].copy(), self._signed[1 - 2 * NEAR :].copy()
        self._end = max(self._end, end)

    def _take(self, places: Ints) -> None:
        signed = np.pad(self._signed, NEAR)
        self._places.append(places)
        self._sizes.append(signed[np.searchsorted(self._offset, places)[:, None] + np.arange(2 * NEAR)])

    def finish(self) -> NearCuts:
        """Those of all cuts, of the start of the log and of its end."""
        self._take(np.append(self._waiting, self._end))
        return NearCuts(np.concatenate(self._places), np.concatenate(self._sizes))
