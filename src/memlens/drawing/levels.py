"""The levels of a window for a picture that can be zoomed into: of each bucket of events the lowest and the highest level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memlens.analyzers.curve import curve
from memlens.drawing.packing import pack

if TYPE_CHECKING:
    from memlens.analyzers.curve import Curve
    from memlens.windows.windows import Window

__all__ = ["Levels", "levels"]

#: A log of so many events is drawn event by event; of a longer one there are as many buckets.
EXACT = 1 << 17


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of a window.

    Attributes:
        curve: The levels of each bucket.
    """

    curve: Curve

    def to_dict(self) -> dict[str, Any]:
        """What the page gets: columns with one entry a bucket, and the edges of the buckets, one more."""
        curve = self.curve
        return {
            "edges": pack(curve.edges),
            "low_bytes": pack(curve.low_bytes),
            "high_bytes": pack(curve.high_bytes),
            "reserved_bytes": pack(curve.reserved_bytes),
        }


def levels(window: Window) -> Levels:
    """The levels of a window."""
    return Levels(curve(window, buckets=EXACT))
