"""The logs of a gate: read, cut and with their figures, and what is to doubt of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.errors import InputError
from memlens.gating.figures import RunFigures, figures_of
from memlens.inputs import Reading, check_alike, input_name, several_devices, without_cpu
from memlens.trust.case import RESERVED_DOUBTS, place_word
from memlens.trust.report import PEAK_MAY_BE_EARLIER
from memlens.windows.windows import open_window, suspect_anchors

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.inputs import Input
    from memlens.options import Cut, ReadAs
    from memlens.windows.windows import Window

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
        left_out: What of the input is not looked at, in words.
    """

    name: str
    log: EventLog
    cut: Cut
    windows: tuple[Window, ...]
    figures: RunFigures
    left_out: tuple[str, ...] = ()

    def doubts(self) -> Iterator[str]:
        """Why its figures may be wrong."""
        if any(doubt.code not in _PARTIAL for doubt in self.log.trust.doubts):
            yield f"{self.name} is {self.log.trust.summary()}"
        if self.cut.given and (late := suspect_anchors(self.windows)) is not None:
            yield f"{self.name}: {late}"

    def notes(self) -> Iterator[str]:
        """What to know of it."""
        for what in self.left_out:
            yield f"{self.name}: {what}"
        if self.log.trust.peak_may_be_earlier:
            yield f"{self.name}: {PEAK_MAY_BE_EARLIER}"
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


def read_runs(logs: Sequence[Input], cut: Cut, how: ReadAs, *, trust: bool = True) -> list[Run]:
    """Read and cut logs of one kind; one that is given twice is read once.

    Of an input with the CPU and one GPU it is the GPU.

    Raises:
        UsageError: One has several GPUs, and none was named.
        InputError: One of them cannot be read, or is of another kind than the first.
        AnchorError: An anchor marks no line of one.
    """
    reading = Reading(cut.patterns, how=how)
    runs: list[Run] = []
    for place, given in enumerate(logs):
        same = next((run for run, earlier in zip(runs, logs[:place], strict=True) if _same(given, earlier)), None)
        if same is None:
            devices, left_out = without_cpu(reading.read_all(given))
            log = devices[0]
            if len(devices) > 1:
                raise several_devices(input_name(given), devices)
            if runs:
                check_alike(log, runs[0].log)
                _check_device(log, runs[0])
            windows = cut.windows(log)
            same = Run(input_name(given), log, cut, windows, figures_of(windows, trust=trust), left_out)
        runs.append(same)
    return runs


def _check_device(log: EventLog, first: Run) -> None:
    """Refuse to hold memory of a GPU against memory of the CPU."""
    if None in (log.device, first.log.device) or (log.device == -1) == (first.log.device == -1):
        return
    gpu, cpu = (first.name, log.source.name) if log.device == -1 else (log.source.name, first.name)
    raise InputError(
        f"{gpu} has memory of a GPU and {cpu} of the CPU: these cannot be compared",
        "Record both runs in the same way, or take the CPU of both (--device cpu).",
    )


def _same(one: Input, other: Input) -> bool:
    files = isinstance(one, (str, Path)) and isinstance(other, (str, Path))
    return one is other or (files and str(one) == str(other))
