"""The runs of a gate: read, cut, and with the figures that are judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Struct

from memlens.analyzers.failures.failures import failures, run_ended_in
from memlens.analyzers.failures.words import failure_sentence
from memlens.analyzing.steps import find_steps
from memlens.errors import InputError
from memlens.folding.levels import profile
from memlens.inputs import Reading, input_key, input_name, several_devices, without_cpu
from memlens.inputs.registry import check_layers_alike
from memlens.text import terms_of
from memlens.trust.case import RESERVED_DOUBTS
from memlens.trust.report import PEAK_MAY_BE_EARLIER, Trust, failures_of, trust_of
from memlens.windows.windows import edges_of, names_of, open_window, suspect_anchors, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.gating.limits import Metric
    from memlens.log import Input, Log
    from memlens.options import Cut, ReadAs
    from memlens.windows.windows import Window


_Size = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Level = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]

#: Doubts of the trust report that leave some figures unknown and nothing wrong: these figures are not judged, and all others are.
_PARTIAL = RESERVED_DOUBTS | {"no_tensor_events"}


class WindowFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of one window that can be gated, as the analyzers define them.

    Attributes:
        name: The window's name; text from the log.
        peak_bytes: The highest level of allocated bytes in it.
        rise_bytes: How far that is above what was carried in; at least 0.
        remaining_bytes: What it leaves behind; may be negative.
        open_end: It runs to the end of the log because no end line closed it, or the run died in it.
    """

    name: str
    peak_bytes: _Level
    rise_bytes: _Size
    remaining_bytes: _Level
    open_end: bool = False

    def of(self, metric: Metric) -> int:
        """The figure of a metric of windows, in bytes."""
        return int(getattr(self, f"{metric}_bytes"))


class RunFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figures of one run.

    Attributes:
        peak_bytes: The highest level of allocated bytes in the whole run; ``None`` where the log reports no block.
        reserved_peak_bytes: The highest level of what chunks hold; ``None`` where the log does not tell.
        windows: The windows that it was cut into, in file order.
        steps_by: The regular expression that cuts it into the steps over which growth is judged; ``""`` where there are none.
        step_levels: The allocated level at the end of each closed step.
        begins_at_bytes: The level that a recording begins at that may begin after the peak of its run; ``None`` where it does not.
    """

    peak_bytes: _Size | None
    reserved_peak_bytes: _Size | None
    windows: Annotated[tuple[WindowFigures, ...], msgspec.Meta(min_length=1)]
    steps_by: str = ""
    step_levels: tuple[_Level, ...] = ()
    begins_at_bytes: _Level | None = None

    def __post_init__(self) -> None:
        if len({window.name for window in self.windows}) < len(self.windows):
            raise ValueError("two windows have one name")


class LogKind(Struct, frozen=True):
    """The kind of a log: only logs of one kind can be compared.

    Attributes:
        name: The log as it was named.
        layer: The layer of its events, which tells what its sizes are.
        device: Its device; -1 is the CPU, ``None`` where the log does not tell.
    """

    name: str
    layer: str
    device: int | None


class Summary(LogKind, frozen=True):
    """The figures of a log without its events: a baseline is made of these.

    Attributes:
        figures: Its figures.
        doubts: Why they may be wrong, or why they are not those of a run that has what it needs.
    """

    figures: RunFigures
    doubts: tuple[str, ...]


class Run(Struct, frozen=True, eq=False):
    """A log, cut, with its figures.

    Attributes:
        name: The log as it was named.
        log: Its events.
        cut: Where it was cut.
        windows: Its windows.
        steps: The windows over which growth is judged: those of a series, or the steps that are found; none where there are neither.
        figures: Its figures.
        left_out: What of the input is not looked at, in words.
    """

    name: str
    log: Log
    cut: Cut
    windows: Sequence[Window]
    steps: Sequence[Window]
    figures: RunFigures
    left_out: tuple[str, ...] = ()

    @property
    def trust(self) -> Trust:
        """The trust report of the log."""
        return trust_of(self.log)

    def summary(self) -> Summary:
        """Its figures without its events."""
        doubts = (*self.doubts(), *self.out_of_memory())
        return Summary(self.name, self.log.facts.layer, self.log.device, self.figures, doubts)

    def doubts(self) -> Iterator[str]:
        """Why its figures may be wrong."""
        if any(doubt.code not in _PARTIAL for doubt in self.trust.doubts):
            yield f"{self.name} is {self.trust.summary().partition('; ')[0]}"
        if self.cut.given and (late := suspect_anchors(self.windows)) is not None:
            yield f"{self.name}: {late}"

    def notes(self) -> Iterator[str]:
        """Remarks on it that are no doubts."""
        late = PEAK_MAY_BE_EARLIER if self.trust.peak_may_be_earlier else None
        notes = [*self.left_out, late, None if self.cut.series else open_window(self.windows)]
        return (f"{self.name}: {note}" for note in notes if note)

    def failed(self) -> str:
        """The failure that it ran out of memory in, as a sentence; ``""`` where there is none."""
        found = failures(self.log)
        return failure_sentence(found, terms_of(self.trust.has_lines), "Head") if found else ""

    def out_of_memory(self) -> Iterator[str]:
        """That it ran out of memory, where it did."""
        if ooms := self.trust.ooms:
            where = terms_of(self.trust.has_lines).at(ooms[0].line)
            yield f"{self.name}: the run ran out of memory ({where}), so what it held is not what it needs"


def read_runs(
    logs: Sequence[Input],
    cut: Cut,
    how: ReadAs,
    *,
    trust: bool = True,
    most_events: int | None = None,
    needed_by: str = "",
) -> list[Run]:
    """Read and cut logs of one kind; one that is given twice is read once.

    Of an input with the CPU and one GPU it is the GPU.

    Raises:
        UsageError: One has several GPUs, and none was named.
        InputError: One of them cannot be read, or is of another kind than the first.
        AnchorError: An anchor marks no line of one.
    """
    reading = Reading(cut.patterns, how=how, landmarks=not cut.given, most_events=most_events, needed_by=needed_by)
    runs: dict[object, Run] = {}
    first: LogKind | None = None
    keys = list(map(input_key, logs))
    for key, given in dict(zip(keys, logs, strict=True)).items():
        (log, *more), left_out = without_cpu(reading.read_all(given))
        if more:
            raise several_devices(input_name(given), [log, *more])
        kind = LogKind(input_name(given), log.facts.layer, log.device)
        check_runs_alike(first := first or kind, kind)
        windows = cut.windows(log)
        by, steps = _steps(log, cut, windows)
        runs[key] = Run(kind.name, log, cut, windows, steps, _figures(windows, by, steps, trust=trust), left_out)
    return [runs[key] for key in keys]


def _steps(log: Log, cut: Cut, windows: Sequence[Window]) -> tuple[str, Sequence[Window]]:
    """The windows over which growth is judged, with the regular expression that cuts them, as :func:`memlens.analyze` finds them."""
    if cut.by is not None:
        return cut.by, windows
    found = None if cut.given else find_steps(log)
    return ("", ()) if found is None or not found.repeated else (found.family.by, found.windows)


def _figures(windows: Sequence[Window], by: str, steps: Sequence[Window], *, trust: bool) -> RunFigures:
    """The figures of a log and of the windows that it was cut into; what the trust report doubts of them is not known."""
    log = windows[0].log
    run, each = profile([whole(log)]), profile(windows)
    is_open = edges_of(windows, "open_end")
    if trust and (found := failures_of(log)):
        died = [oom.line for oom, ended in zip(found, run_ended_in(log, found), strict=True) if ended]
        is_open = is_open | (edges_of(windows, "end_line") >= min(died, default=log.facts.lines + 1))
    doubted = trust and any(doubt.code in RESERVED_DOUBTS for doubt in trust_of(log).doubts)
    figures = [each[f"{metric}_bytes"].tolist() for metric in ("peak", "rise", "remaining")]
    levels: list[int] = []
    if len(steps):
        of_steps = each if steps is windows else profile(steps)
        levels = of_steps["live_bytes"][~edges_of(steps, "open_end")].tolist()
    late = trust and trust_of(log).peak_may_be_earlier
    return RunFigures(
        int(run["peak_bytes"][0]) if log.tells_of_blocks else None,
        int(run["reserved_peak_bytes"][0]) if log.tells_of_chunks and not doubted else None,
        tuple(map(WindowFigures, names_of(windows), *figures, is_open.tolist())),
        by,
        tuple(levels),
        int(run["live_bytes"][0] - run["remaining_bytes"][0]) if late else None,
    )


def check_runs_alike(first: LogKind, run: LogKind) -> None:
    """Refuse to compare logs of two kinds, or memory of a GPU with memory of the CPU.

    Raises:
        InputError: They are of two kinds.
    """
    check_layers_alike(first.name, first.layer, run.name, run.layer)
    if None in (run.device, first.device) or (run.device == -1) == (first.device == -1):
        return
    gpu, cpu = (first.name, run.name) if run.device == -1 else (run.name, first.name)
    raise InputError(
        f"{gpu} has memory of a GPU and {cpu} of the CPU: these cannot be compared",
        "Record both runs in the same way, or take the CPU of both (--device cpu).",
    )
