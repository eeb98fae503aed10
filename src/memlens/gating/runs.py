"""The logs of a gate: read, cut and with their figures, and what is to doubt of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.gating.figures import RESERVED_DOUBTS, RunFigures, figures_of
from memlens.parsing.inputs import check_alike
from memlens.reading import ReadAs, Reading, input_name
from memlens.slicing import open_window, suspect_anchors
from memlens.trust.case import place_word

if TYPE_CHECKING:
    from memlens.cut import Cut
    from memlens.events import EventLog
    from memlens.reading import Input
    from memlens.slicing import Window

__all__ = ["Run", "read_runs"]

#: Doubts of the trust report that leave some figures unknown and nothing wrong: these figures are not judged, and all others are.
_PARTIAL = RESERVED_DOUBTS | {"no_tensor_events"}


@dataclass(frozen=True, eq=False)
class Run:
    """A log, cut, with its figures.

    Attributes:
        name: The log as it was named.
        log: Its events.
        cut: Where it was cut.
        windows: Its windows.
        figures: Its figures, with an entry for each window.
    """

    name: str
    log: EventLog
    cut: Cut
    windows: tuple[Window, ...]
    figures: RunFigures

    def doubts(self) -> Iterator[str]:
        """Why its figures may be wrong."""
        if any(doubt.code not in _PARTIAL for doubt in self.log.trust.doubts):
            yield f"{self.name} is {self.log.trust.summary()}"
        if self.cut.given and (late := suspect_anchors(self.windows)) is not None:
            yield f"{self.name}: {late}"

    def notes(self) -> Iterator[str]:
        """What to know of it."""
        for note in self.log.trust.notes:
            if note.code == "traceback":
                yield f"{self.name}: {note.message}"
        if not self.cut.series and (remark := open_window(self.windows)) is not None:
            yield f"{self.name}: {remark}"

    def out_of_memory(self) -> str:
        """That it ran out of memory, in words; ``""`` where it did not."""
        trust = self.log.trust
        if not trust.ooms:
            return ""
        where = f"{place_word(trust.layer)} {trust.ooms[0].line:,}"
        return f"{self.name}: the run ran out of memory ({where}), so what it held is not what it needs"


def read_runs(
    logs: Sequence[Input], cut: Cut, progress: Callable[[int], None] | None, how: ReadAs, *, trust: bool = True
) -> list[Run]:
    """Read and cut logs of one kind; one that is given twice is read once.

    Raises:
        InputError: One of them cannot be read, or is of another kind than the first.
        AnchorError: An anchor marks no line of one.
    """
    reading = Reading(cut.patterns, progress=progress, how=how)
    runs: list[Run] = []
    for place, given in enumerate(logs):
        same = next((run for run, earlier in zip(runs, logs[:place], strict=True) if _same(given, earlier)), None)
        if same is None:
            log = reading.read(given)
            if runs:
                check_alike(log, runs[0].log)
            windows = cut.windows(log)
            same = Run(input_name(given), log, cut, windows, figures_of(windows, trust=trust))
        runs.append(same)
    return runs


def _same(one: Input, other: Input) -> bool:
    files = isinstance(one, (str, Path)) and isinstance(other, (str, Path))
    return one is other or (files and str(one) == str(other))
