"""The steps of a run, found by themselves: the windows of the lines that count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.analyzing.result import Steps
from memlens.folding.levels import bounds, figures, profile
from memlens.windows.anchor_discovery import family
from memlens.windows.anchor_templates import Work
from memlens.windows.windows import suspect_anchors, windows_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memlens.analyzers.series.phases import Pieces
    from memlens.analyzing.result import WindowAnalysis
    from memlens.events import EventLog
    from memlens.windows.anchor_discovery import Family
    from memlens.windows.windows import Window


class FoundSteps(NamedTuple):
    """The steps of one log.

    Attributes:
        family: The lines that count them.
        windows: One from each such line to the next, and what precedes the first.
    """

    family: Family
    windows: Sequence[Window]

    @property
    def repeated(self) -> bool:
        """Whether each is the same work again, so that memory that one leaves behind after the other is growth."""
        return self.family.work is not Work.PART

    def result(self, windows: Sequence[WindowAnalysis]) -> Steps:
        """Return the steps as a result."""
        return Steps(self.family.by, windows, len(self.family.anchors[0]), self.repeated, profile(self.windows).columns)


def find_steps(log: EventLog) -> FoundSteps | None:
    """Look for the steps of a log.

    Returns:
        ``None`` where no lines count them, where these came late, or where its text cannot be read again and they were not looked for
        when it was read.
    """
    found = family(log)
    if found is None:
        return None
    windows = windows_at(log, found.anchors[0])
    return None if suspect_anchors(windows) is not None else FoundSteps(found, windows)


def share_pass(log: EventLog, windows: Sequence[Sequence[Window]], pieces: Pieces | None) -> None:
    """Go over the events once for all that is asked afterwards of these windows and phases."""
    if log.condensed is not None:  # whose figures are there
        return
    stretches = [bounds(some)[1:] for some in windows if len(some)] + (
        [] if pieces is None else [(pieces.lo, pieces.hi)]
    )
    lo, hi = map(np.concatenate, zip(*stretches, strict=True))
    figures(log, lo, hi)
