"""Tables that grow at their end, of a log that is read part by part."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from memlens.folding.condensed import Sizes

if TYPE_CHECKING:
    from memlens.columns import Ints
    from memlens.folding.tally import Tally


#: Parts of a tally that are joined when there are more.
_MOST_PARTS = 64
#: Different histograms that another one is compared with.
_KNOWN = 256


class GrowingTally:
    """A tally that grows at its end: segments that are closed, in parts, and the last one."""

    def __init__(self, *parts: Tally) -> None:
        self._parts = list(parts)

    def copy(self) -> GrowingTally:
        return GrowingTally(*self._parts)

    def add(self, more: Tally, *, kept: bool) -> None:
        """Take what follows; ``kept`` says that it begins a segment of its own, and does not go on with the last one."""
        last = self._parts.pop()
        if not kept and len(last):
            last, rest = last.part(0, len(last) - 1), last.part(len(last) - 1, len(last))
            more = rest.join(more).squeeze(np.append(rest.edges[:1], more.edges[1:]))
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


class GrowingSizes:
    """Histograms of stretches of a log, in order; of those that are equal one is kept, where it came not long ago."""

    def __init__(self) -> None:
        self._part, self._which = array("i"), array("i")
        self._known: dict[tuple[bytes, bytes, bytes], int] = {}
        self._ends, self._code, self._count, self._total = array("q", [0]), array("B"), array("i"), array("q")

    def add(self, first: int, counts: Ints, totals: Ints) -> None:
        """Take the next ones.

        Args:
            first: How many cuts stand before the first one; one more before each.
            counts: The events of each in each bin, int64, two dimensions.
            totals: Their bytes.
        """
        for part, (count, total) in enumerate(zip(counts, totals, strict=True), first):
            bins = np.flatnonzero(count)
            if not len(bins):
                continue
            columns = bins.astype(np.uint8), count[bins].astype(np.int32), total[bins]
            code, number, size = (column.tobytes() for column in columns)
            which = self._known.get((code, number, size))
            if which is None:
                which = len(self._ends) - 1
                self._code.frombytes(code)
                self._count.frombytes(number)
                self._total.frombytes(size)
                self._ends.append(len(self._code))
                if len(self._known) == _KNOWN:
                    self._known.clear()
                self._known[code, number, size] = which
            self._part.append(part)
            self._which.append(which)

    def finish(self, begins: Ints) -> Sizes:
        """All of them, given the first event that is kept after each cut, and before the first one 0."""
        return Sizes(
            begins[np.array(self._part, np.int32)].astype(np.int32),
            np.array(self._which, np.int32),
            np.array(self._ends, np.int64),
            np.array(self._code, np.uint8),
            np.array(self._count, np.int32),
            np.array(self._total, np.int64),
        )
