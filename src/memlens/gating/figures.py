"""The runs of a gate: read, cut and with their figures, and what can be said of these beside those of another run.

**Events at anchors.** Threads run ahead of the one that prints an anchor, or behind, so an event may come on its other side by chance.
It moves the level at the anchor, and so what the windows on both sides leave behind and rise by, while nothing more is held at
any moment.  It is known by this: one of the last events before the anchor in one run is, alike in kind and size, one of the first after
it in the other run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from memlens.analyzers.failures import failure_sentence, failures, run_ended_in
from memlens.analyzers.result import Row
from memlens.errors import InputError
from memlens.facts import Kind
from memlens.folding.condensed import NEAR
from memlens.folding.levels import bounds, profile
from memlens.inputs import Input, Reading, input_key, input_name, several_devices, without_cpu
from memlens.inputs.registry import check_layers_alike
from memlens.text import terms_of
from memlens.trust.case import RESERVED_DOUBTS, place_word
from memlens.trust.report import PEAK_MAY_BE_EARLIER, failures_of
from memlens.windows.windows import BEFORE, Window, edges_of, judged, names_of, open_window, suspect_anchors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.gating.limits import Limit, Metric
    from memlens.options import Cut, ReadAs

__all__ = [
    "NEAR",
    "Near",
    "RunFigures",
    "Summary",
    "WindowFigures",
    "check_runs_alike",
    "given_back",
    "read_runs",
    "slipped",
]

#: The :data:`NEAR` events on each side of an anchor that chance may move over it, as signed sizes, ALLOC above 0 and FREE below: the last ones before it, the first ones after it.
Near: TypeAlias = tuple[int, ...]

#: Doubts of the trust report that leave some figures unknown and nothing wrong: these figures are not judged, and all others are.
_PARTIAL = RESERVED_DOUBTS | {"no_tensor_events"}


@dataclass(frozen=True, slots=True)
class WindowFigures(Row):
    """The figures of one window that can be gated, as the analyzers define them.

    Attributes:
        name: The window's name; text from the log.
        rise_bytes: How far the level of allocated bytes rises in it above what was carried in; at least 0.
        remaining_bytes: What it leaves behind; may be negative.
        live_bytes: The level at its end.
        open_end: It runs to the end of the log because no end line closed it.
        start_events: The events next to its start; see :data:`Near`.
        end_events: The events next to its end.
    """

    name: str
    rise_bytes: int
    remaining_bytes: int
    live_bytes: int
    open_end: bool = False
    start_events: Near = (0,) * (2 * NEAR)
    end_events: Near = (0,) * (2 * NEAR)

    def of(self, metric: Metric) -> int:
        """The figure of a metric of windows, in bytes."""
        return self.rise_bytes if metric == "rise" else self.remaining_bytes


@dataclass(frozen=True)
class RunFigures:
    """The figures of one run.

    Attributes:
        peak_bytes: The highest level of allocated bytes in the whole run; ``None`` where the log reports no block.
        reserved_peak_bytes: The highest level of what chunks hold; ``None`` where the log does not tell.
        windows: The windows that it was cut into, in file order.
    """

    peak_bytes: int | None
    reserved_peak_bytes: int | None
    windows: tuple[WindowFigures, ...]

    @property
    def series(self) -> tuple[WindowFigures, ...]:
        """The windows of the series that an end line or the next start closes: those that growth is judged by."""
        fates = zip(self.windows, judged(self.windows), strict=True)
        return tuple(window for window, fate in fates if fate and window.name != BEFORE)

    @property
    def all_open(self) -> bool:
        """Whether no window is closed (the start marks one line), so that open ones are all there is to judge."""
        return any(window.open_end for window in self.series)


def figures_of(windows: Sequence[Window], *, trust: bool = True) -> RunFigures:
    """The figures of a log and of the windows that it was cut into.

    Args:
        windows: Windows of one log, one at least.
        trust: Take what is reserved as unknown where the trust report doubts it.
    """
    log = windows[0].log
    run, each = profile([log.whole]), profile(windows)
    alike: dict[int, int] = {}  # those of steps that repeat are
    rise, left = (
        [alike.setdefault(size, size) for size in each[name].tolist()] for name in ("rise_bytes", "remaining_bytes")
    )
    live, is_open = each["live_bytes"].tolist(), edges_of(windows, "open_end").tolist()
    doubted = trust and any(doubt.code in RESERVED_DOUBTS for doubt in log.trust.doubts)
    return RunFigures(
        int(run["peak_bytes"][0]) if log.tells_of_blocks else None,
        int(run["reserved_peak_bytes"][0]) if log.tells_of_chunks and not doubted else None,
        tuple(map(WindowFigures, names_of(windows), rise, left, live, is_open, *near(windows))),
    )


@dataclass(frozen=True)
class LogKind:
    """What tells whether logs can be held against each other.

    Attributes:
        name: The log as it was named.
        layer: The layer of its events, which tells what its sizes are.
        device: Its device; -1 is the CPU, ``None`` where the log does not tell.
    """

    name: str
    layer: str
    device: int | None


@dataclass(frozen=True)
class Summary(LogKind):
    """What a baseline is taken of, without the log.

    Attributes:
        figures: Its figures.
        doubts: Why they may be wrong, or why they are not those of a run that has what it needs.
    """

    figures: RunFigures
    doubts: tuple[str, ...]


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
    windows: Sequence[Window]
    figures: RunFigures
    left_out: tuple[str, ...] = ()

    def summary(self) -> Summary:
        """What is known of it without its log."""
        doubts = (*self.doubts(), *self.out_of_memory())
        return Summary(self.name, self.log.facts.layer, self.log.device, self.figures, doubts)

    def doubts(self) -> Iterator[str]:
        """Why its figures may be wrong."""
        if any(doubt.code not in _PARTIAL for doubt in self.log.trust.doubts):
            yield f"{self.name} is {self.log.trust.summary().partition('; ')[0]}"
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

    def begins_later(self, base: Run, limit: Limit | None) -> bool:
        """Whether its peak may lie before its first event where that of the base does not, or less early.

        Two recordings that begin at one place of a program begin with as much live, but for what may grow.
        """
        late, base_late = (run.log.trust.peak_may_be_earlier for run in (self, base))
        if not late or not base_late:
            return late
        whole = profile([self.log.whole]), profile([base.log.whole])
        head, old = (int(run["live_bytes"][0] - run["remaining_bytes"][0]) for run in whole)
        return head - old > (0 if limit is None else limit.allows(old))

    def died_in(self) -> frozenset[str]:
        """The windows that the run was in when it ended out of memory: they never came to free what they hold."""
        if not (found := failures_of(self.log)):
            return frozenset()
        lines = [oom.line for oom, ended in zip(found, run_ended_in(self.log, found), strict=True) if ended]
        return frozenset(window.name for window in self.windows if lines and window.end_line >= lines[0])

    def failed(self) -> str:
        """The failure that it ran out of memory in, as a sentence; ``""`` where there is none."""
        found = failures(self.log)
        return failure_sentence(found, terms_of(self.log.trust.layer), "Head") if found else ""

    def out_of_memory(self) -> Iterator[str]:
        """That it ran out of memory, where it did."""
        if ooms := self.log.trust.ooms:
            where = f"{place_word(self.log.trust.layer)} {ooms[0].line:,}"
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
    reading = Reading(cut.patterns, how=how, most_events=most_events, needed_by=needed_by, near_cuts=True)
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
        runs[key] = Run(kind.name, log, cut, windows, figures_of(windows, trust=trust), left_out)
    return [runs[key] for key in keys]


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


def near(windows: Sequence[Window]) -> tuple[list[Near], list[Near]]:
    """The events next to the starts of windows of one log, and those next to their ends; 0 where there is none of a block."""
    log, lo, hi = bounds(windows)
    shared: dict[Near, Near] = {}  # those of steps that repeat are alike
    found = []
    for edge, at in (("start_offset", lo), ("end_offset", hi)):
        if log.condensed is None:
            sizes = _near(log, at)
        elif log.condensed.near_cuts is None:
            sizes = np.zeros((len(at), 2 * NEAR), np.int64)
        else:
            sizes = log.condensed.near_cuts.at(edges_of(windows, edge))
        rows, which = np.unique(sizes, axis=0, return_inverse=True)
        alike = [shared.setdefault(one, one) for one in map(tuple, rows.tolist())]
        found.append([alike[k] for k in which.reshape(-1)])
    return found[0], found[1]


def _near(log: EventLog, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """The events next to some places (the index of the first event after them, int64) of a log that keeps all, a row each, int64."""
    blocks = np.flatnonzero(log.kind <= Kind.FREE)  # among the events, int64
    if not len(blocks):
        return np.zeros((len(at), 2 * NEAR), np.int64)
    places = np.searchsorted(blocks, at)[:, None] + np.arange(-NEAR, NEAR)
    there = (places >= np.searchsorted(blocks, log.facts.opening)) & (places < len(blocks))
    places = blocks[np.clip(places, 0, len(blocks) - 1)]
    sizes = np.where(log.kind[places] == Kind.ALLOC, log.size[places], -log.size[places])
    return np.where(there, sizes, 0)


def slipped(base: Near, head: Near) -> int:
    """By how many bytes head's level at an anchor is higher than base's for events on the other side of it; below 0 where it is lower."""
    return _moved(head, base) - _moved(base, head)


def _moved(one: Near, other: Near) -> int:
    """The bytes of the events that stand before the anchor in one run and after it in the other."""
    before, after = (Counter(a) - Counter(b) for a, b in ((one[:NEAR], other[:NEAR]), (other[NEAR:], one[NEAR:])))
    return sum((before & after).elements())


def given_back(base: Sequence[WindowFigures], head: Sequence[WindowFigures]) -> list[int]:
    """By how many bytes windows of head may leave more behind than those of the base, for the base gives back there what head never left.

    What a window of the base gives back was left behind since the last window that ended as low.  Over all of these together head leaves
    no more behind than the base, whatever it does in the last one alone.
    """
    # The base's levels at ends of windows that no later one was below, and how far head's are above them.
    lower: list[tuple[int, int]] = []
    found = []
    for old, new in zip(base, head, strict=True):
        level, beyond = old.live_bytes, new.live_bytes - old.live_bytes
        carried_in = beyond - new.remaining_bytes + old.remaining_bytes
        lower = lower or [(level - old.remaining_bytes, carried_in)]
        while len(lower) > 1 and lower[-1][0] > level:
            lower.pop()
        found.append(max(min(lower[-1][1] - carried_in, -old.remaining_bytes), 0))
        lower.append((level, beyond))
    return found
