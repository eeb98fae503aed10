"""A tally of a log that is read part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.folding.levels import SUMS, Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["GrowingTally"]

_MOST_PARTS = 64


class GrowingTally:
    """A tally that grows at its end: segments that are closed, in parts, and the last one."""

    def __init__(self, parts: Sequence[Tally]) -> None:
        self._parts = list(parts)

    @classmethod
    def zeros(cls, edges: Ints) -> GrowingTally:
        """Segments without an event."""
        count = len(edges) - 1
        sums, two = np.zeros((len(SUMS), count), np.int64), np.zeros((2, count), np.int64)
        return cls([Tally(edges, sums, two, two, np.zeros(count, np.int64))])

    def copy(self) -> GrowingTally:
        return GrowingTally(self._parts)

    def add(self, more: Tally, *, kept: bool) -> None:
        """Take what follows; ``kept`` says that it begins a segment of its own, and does not go on with the last one."""
        last = self._parts.pop()
        if not kept and len(last):
            closed, rest = last.split(len(last) - 1)
            more = rest.join(more).squeeze(np.append(rest.edges[:1], more.edges[1:]))
            last = closed
        self._parts += [part for part in (last, more) if len(part)]
        if len(self._parts) > _MOST_PARTS:
            self._parts = [self.tally]

    @property
    def tally(self) -> Tally:
        """All segments."""
        if len(self._parts) > 1:
            self._parts = [self._parts[0].join(*self._parts[1:])]
        return self._parts[0]

    def squeeze(self, edges: Ints) -> None:
        """Keep only these edges."""
        self._parts = [self.tally.squeeze(edges)]

    def widen(self, stretch: int) -> None:
        """Keep the edges that are multiples of a number, and the end."""
        edges = self.tally.edges
        self.squeeze(np.append(edges[:-1][edges[:-1] % stretch == 0], edges[-1]))
