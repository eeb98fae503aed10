"""What a window leaves behind: bytes allocated in it less bytes freed in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memlens.analyzers.levels import profile
from memlens.analyzers.result import Result

if TYPE_CHECKING:
    from memlens.windows.windows import Window

__all__ = ["Remaining", "remaining"]


@dataclass(frozen=True)
class Remaining(Result):
    """Bytes carried into a window, left behind by it, and live at its end.

    Attributes:
        remaining_bytes: Σ ALLOC - Σ FREE sizes of the window's events; negative where more is freed than allocated.
        carried_in_bytes: Σ ALLOC - Σ FREE from the start of the log to right before the window.
        live_bytes: ``carried_in_bytes + remaining_bytes``, the absolute level at the window's end.
    """

    remaining_bytes: int
    carried_in_bytes: int
    live_bytes: int


def remaining(windows: Sequence[Window]) -> list[Remaining]:
    """Analyze windows of one log in one pass."""
    if not windows:
        return []
    figures = profile(windows)
    net = (figures["alloc_bytes"] - figures["free_bytes"]).tolist()
    carried = figures.levels[0].tolist()
    return [Remaining(left, before, before + left) for left, before in zip(net, carried, strict=True)]
