"""What a comparison of two runs shows to people, as blocks that any form can show: the verdict, and a screen or all there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlens.reports.blocks import Block, answered
from memlens.reports.diff.full import everything
from memlens.reports.diff.screen import screen

if TYPE_CHECKING:
    from memlens.diffing.result import Diff

__all__ = ["diff_blocks"]


def diff_blocks(diff: Diff, *, top: int | None = None, full: bool = False) -> list[Block]:
    """The verdict of a comparison, and what it rests on.

    Args:
        diff: What to show.
        top: Findings, and rows of each table; ``None`` for as many as fit.
        full: Show everything; without it, and without ``top``, all of it is one screen.
    """
    if full or top is not None:
        return [*answered(diff.answer), None, *everything(diff, top)]
    return screen(diff)
