"""The logs of a gate: read, cut and with their figures, and what is to doubt of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.errors import InputError
from memlens.gating.figures import RESERVED_DOUBTS, RunFigures, figures_of
from memlens.inputs import Reading, check_alike, input_name, several_devices, without_cpu
from memlens.trust.case import place_word
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
        trust = self.log.trust
        said = [
            *self.left_out,
            PEAK_MAY_BE_EARLIER if trust.peak_may_be_earlier else None,
            *(note.message for note in trust.notes if note.code == "traceback"),
            None if self.cut.series else open_window(self.windows),
        ]
        return (f"{self.name}: {what}" for what in said if what)

    def out_of_memory(self) -> Iterator[str]:
        """That it ran out of memory, where it did."""
        if ooms := self.log.trust.ooms:
            where = f"{place_word(self.log.trust.layer)} {ooms[0].line:,}"
            yield f"{self.name}: the run ran out of memory ({where}), so what it held is not what it needs"


def read_runs(logs: Sequence[Input], cut: Cut, how: ReadAs, *, trust: bool = True) -> list[Run]:
    """Read and cut logs of one kind; one that is given twice is read once.

    Of an input with the CPU and one GPU it is the GPU.

    Raises:
        UsageError: One has several GPUs, and none was named.
        InputError: One of them cannot be read, or is of another kind than the first.
        AnchorError: An anchor marks no line of one.
    """
    reading = Reading(cut.patterns, how=how)
    runs: dict[object, Run] = {}
    keys = [str(given) if isinstance(given, (str, Path)) else id(given) for given in logs]
    for key, given in dict(zip(keys, logs, strict=True)).items():
        (log, *more), left_out = without_cpu(reading.read_all(given))
        if more:
            raise several_devices(input_name(given), [log, *more])
        if runs:
            first = next(iter(runs.values()))
            check_alike(log, first.log)
            _check_device(log, first)
        windows = cut.windows(log)
        runs[key] = Run(input_name(given), log, cut, windows, figures_of(windows, trust=trust), left_out)
    return [runs[key] for key in keys]


def _check_device(log: EventLog, first: Run) -> None:
    """Refuse to hold memory of a GPU against memory of the CPU."""
    if None in (log.device, first.log.device) or (log.device == -1) == (first.log.device == -1):
        return
    gpu, cpu = (first.name, log.source.name) if log.device == -1 else (log.source.name, first.name)
    raise InputError(
        f"{gpu} has memory of a GPU and {cpu} of the CPU: these cannot be compared",
        "Record both runs in the same way, or take the CPU of both (--device cpu).",
    )
