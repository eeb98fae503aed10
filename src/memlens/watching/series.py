"""The windows of a log that is still written: cut by what the user names, or by the steps of the run as far as they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.analyzing.steps import find_steps
from memlens.events import Outline
from memlens.facts import Facts
from memlens.watching.state import KEPT_WINDOWS, LiveWindow
from memlens.windows.landmarks import Landmarks
from memlens.windows.numbering import Numbering
from memlens.windows.patterns import Match
from memlens.windows.windows import BEFORE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.analyzers.running import Running
    from memlens.inputs.line_reader import Believed, Taken
    from memlens.windows.patterns import Pattern

    Ints = NDArray[np.int64]

__all__ = ["LiveSeries"]

#: Lines that may mark steps, up to which steps are looked for; what cuts the log then goes on to.
_MOST_LANDMARKS = 1 << 13
#: The text after which steps are looked for first; then each time that it, or the lines that may mark them, have doubled.
_FIRST_LOOK = 1 << 12


class LiveSeries:
    """The windows of one log.

    Where nothing is given to cut by, the steps are looked for among the lines that may mark them whenever the text has doubled, as
    :func:`memlens.analyzing.steps.find_steps` does in a log that is complete, and levels are kept at each such line: so the windows
    before are right too, and a better family of lines takes the place of the one that was found first.  After :data:`_MOST_LANDMARKS` such lines
    what was found stays; where a block of the text is so full of them that not all are known, there are no windows.  Of several devices the
    events of the first one tell.

    Args:
        by: What to cut by; ``None`` for the steps.

    Attributes:
        repeated: What :attr:`memlens.watching.state.LogState.repeated` says.
    """

    def __init__(self, by: Pattern | None) -> None:
        self._by, self._given = by, by is not None
        self._settled, self.repeated = self._given, True
        self._starts: list[Match] = []
        self._numbering = Numbering()
        self._forgotten = 0  # windows of which the levels at their ends are kept alone
        self._landmarks = Landmarks()
        self._looked = 1, _FIRST_LOOK // 2

    @property
    def by(self) -> str:
        """The regular expression that cuts the log; ``""`` for none."""
        return self._by.text if self._by is not None and (self._given or self._starts) else ""

    def take(self, taken: Taken) -> Ints:
        """Take the new lines that start windows.

        Returns:
            Where to cut the text, rising byte offsets, int64.
        """
        if self._given:
            new = list(taken.anchors[0])
            cuts = [match.start for match in new]
        else:
            marks = taken.landmarks
            new = marks.matches(self._by) if self._by else []
            if not self._settled and marks.offsets:
                self._landmarks = self._landmarks.and_then([marks])
            cuts = [match.start for match in new] if self._settled else list(marks.offsets)
        for match in new:
            self._append(match)
        return np.array(cuts, np.int64)

    def _append(self, match: Match) -> None:
        if not self._starts and not self._forgotten and match.start > 0:
            self._starts.append(Match(0, 1, BEFORE))
        self._starts.append(match._replace(name=self._numbering.next(match.name)))

    def settle(self, running: Running, believed: Believed, lines: int, *, ended: bool = False) -> None:
        """Look for the steps where it is time to, and forget what is not shown.

        Args:
            running: The levels, cut as :meth:`take` said.
            believed: What counts.
            lines: Lines so far.
            ended: Nothing more comes.
        """
        count = len(self._landmarks.offsets)
        if not self._settled and count:
            marks, end = self._looked
            self._settled = count >= _MOST_LANDMARKS or not self._landmarks.complete
            if ended or self._settled or count >= 2 * marks or running.end >= 2 * end:
                self._looked = count, max(running.end, _FIRST_LOOK // 2)
                self._look(running, believed, lines)
            if self._settled:
                self._landmarks = Landmarks()
                running.forget(self._offsets(), np.zeros(0, np.int64))
        if self._settled and len(self._starts) > 2 * KEPT_WINDOWS:
            dropped = len(self._starts) - KEPT_WINDOWS
            ends = self._offsets()[1 : dropped + 1]
            self._starts = self._starts[dropped:]
            self._forgotten += dropped
            running.forget(self._offsets(), ends)

    def _look(self, running: Running, believed: Believed, lines: int) -> None:
        places = np.append(np.array(self._landmarks.offsets, np.int64), running.end)
        figures = running.figures(believed.blocks, believed.chunks, np.zeros_like(places), places)
        blocks = figures["allocs"] + figures["frees"]
        facts = Facts(bytes=running.end, lines=lines)
        events = blocks + figures["reserves"] + figures["releases"]
        found = find_steps(Outline.of(places, events, facts, self._landmarks, blocks=bool(blocks[-1])))
        self._starts, self._numbering, self._by = [], Numbering(), None
        self.repeated = found is None or found.repeated
        if found is not None:
            anchor = found.family.anchors[0]
            self._by = anchor.pattern
            for row in zip(anchor.offsets, anchor.lines, anchor.names, strict=True):
                self._append(Match(*row))

    def _offsets(self) -> Ints:
        return np.array([match.start for match in self._starts], np.int64)

    def windows(
        self, running: Running, believed: Believed, *, chunks: bool
    ) -> tuple[tuple[LiveWindow, ...], int, Ints]:
        """The last windows, how many there were in all, and the live level at the end of each closed one, int64."""
        if not self._starts:
            return (), 0, np.zeros(0, np.int64)
        count = self._forgotten + len(self._starts)
        shown = self._starts[-KEPT_WINDOWS:]
        places = self._offsets()
        of = believed.blocks, believed.chunks
        ends = np.concatenate((running.noted(believed.blocks), running.figures(*of, places[1:], places[1:]).levels[0]))
        lo = places[-len(shown) :]
        figures = running.figures(*of, lo, np.append(lo[1:], running.end))
        names = ("peak_bytes", "rise_bytes", "live_bytes", "reserved_peak_bytes", "allocs", "frees")
        columns = zip(*(figures[name].tolist() for name in names), strict=True)
        windows = tuple(
            LiveWindow(
                name=match.name,
                index=count - len(shown) + k,
                start_line=match.line,
                peak_bytes=peak,
                rise_bytes=rise,
                live_bytes=live,
                reserved_peak_bytes=reserved if chunks else None,
                allocs=allocs,
                frees=frees,
                open=k == len(shown) - 1,
            )
            for k, (match, (peak, rise, live, reserved, allocs, frees)) in enumerate(zip(shown, columns, strict=True))
        )
        return windows, count, ends
