"""The parts of an analysis: a log, its windows, their results, and all of it in plain types."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from memlens.results import Answered, Failure, Result, Tabular, lazy, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from memlens.analyzers.failures import MemoryFailure
    from memlens.analyzers.series.curve import Curve
    from memlens.analyzers.series.growth import Growth
    from memlens.analyzers.series.phases import Phases
    from memlens.replaying.remedy import FailureRemedy
    from memlens.trust import Trust


SCHEMA = "memlens.analyze/2"


@lazy("results", "peak_time_us", "duration_us")
class WindowAnalysis(Result, frozen=True, eq=False):
    """The results of one window.

    Attributes:
        name: The window's name; text from the log.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included).
        events: Events in it.
        results: Results by analyzer, in report order; looked up when they are asked for.
        open_end: It is an open window: it runs to the end of the log, for no end line closes it (:class:`memlens.windows.windows.Window`).
        whole: It is the whole log.
        peak_time_us: The time of the peak, ``None`` where unknown; looked up in the log where its times were not read.
        duration_us: From the first known time to the last, likewise.
    """

    in_json: ClassVar[tuple[str, ...]] = ("name", "start_line", "end_line", "events", "open_end", "results")
    spliced: ClassVar[frozenset[str]] = frozenset({"results"})

    name: str
    start_line: int
    end_line: int
    events: int
    results: Mapping[str, Any] = {}
    open_end: bool = False
    whole: bool = False
    peak_time_us: int | None = None
    duration_us: int | None = None

    @property
    def starts_input(self) -> bool:
        """Whether nothing but opening blocks is carried in: it starts where the input starts."""
        return self.start_line <= 1

    def __repr__(self) -> str:
        return f"<WindowAnalysis {self.name!r}: {self.events:,} events>"


class Steps(Result, frozen=True, eq=False):
    """The steps of a run, found by themselves: a series of windows.

    Attributes:
        by: The regular expression that cuts the log so (``by`` of :func:`analyze`).
        windows: One from each line that counts a step to the next, with the results ``remaining`` and ``peak``; first what precedes them.  Each is made when
            it is asked for; of one of several logs they are figures alone, without what is live at a peak.
        anchors: How many lines count them.
        repeated: Each is the same work again (steps, iterations, epochs), so that growth is judged over them; else they are parts of
            a larger unit of work (calls, blocks, layers), and what they leave behind may be used later.
        ends: Their lines come when the work is done, so that each window has the name of the line that ends it; the last one is ``(after)``.
        figures: Figures of all windows at once, by the names of the machine output, int64, one entry a window: for what looks at all of a
            long series.
        unit: What each is: a ``step``, or a ``window`` where their lines do not count steps one by one.
    """

    in_json: ClassVar[tuple[str, ...]] = ("by", "anchors", "repeated", "ends", "windows")
    top: ClassVar[int] = 0  # figures only, no lists

    by: str
    windows: Sequence[WindowAnalysis]
    anchors: int
    repeated: bool
    ends: bool = False
    figures: Mapping[str, NDArray[np.int64]] = {}
    unit: str = "step"


@lazy("curve", "ooms", "remedy", "saving")
class LogAnalysis(Answered, frozen=True, eq=False):
    """The analysis of one log.

    Attributes:
        path: The input as it was named, with its device where it has several.
        trust: What to believe of it.
        windows: Its windows, in file order, each made when it is asked for; exactly one unless the log was cut into a series.
        growth: How memory develops over the series, or over the steps of the run where it was not cut; ``None`` where there are none.
        by: The regular expression that cut the series, or ``None``.
        warnings: What to doubt of the windows themselves (anchors that came late), in words.
        remarks: What to know of them (which one is open, that the log runs out of memory outside of them), in words.
        steps: The steps of the run, where it was not cut and lines count them.
        phases: The phases of the windows of the series, or of the steps, where lines mark them.
        curve: The levels over the window, or over the whole log where it was cut into a series; ``None`` where one of several logs was
            analyzed, which are not kept in memory for it.  Worked out when it is asked for.
        ooms: The out-of-memory failures on the lines of the windows, in their order; each is worked out when it is asked for.
        remedy: What other settings of the allocator would have done about a failure; ``None`` where none is reported, where the run cannot be replayed, and of one
            of several logs.  Worked out when it is asked for.
        saving: The setting of the allocator with which the run reserves least, as values of a claim; empty where it is not known, and of one of
            several logs.  Worked out when it is asked for.
        figures: Figures of all windows at once, as those of :attr:`Steps.figures`.
        device: Which of several devices of its input it is of, ``device 1`` or ``CPU``; ``""`` of an input with one.
        uncut: Its steps were not looked for: ``whole`` was asked for.
        can_be_cut: It has lines of text, or annotations.
        freed_last: Bytes freed after the last ALLOC of the log.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        "path", "verdict", "claims", "trust", "ooms", "remedy", "windows", "growth", "steps", "phases", "notes",
    )  # fmt: skip
    headlines: ClassVar[frozenset[str]] = frozenset({"ooms"})

    path: str
    trust: Trust
    windows: Sequence[WindowAnalysis]
    growth: Growth | None = None
    by: str | None = None
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    steps: Steps | None = None
    phases: Phases | None = None
    curve: Curve | None = None
    ooms: Sequence[MemoryFailure] = ()
    remedy: FailureRemedy | None = None
    saving: Mapping[str, Any] = {}
    figures: Mapping[str, NDArray[Any]] = {}
    device: str = ""
    uncut: bool = False
    can_be_cut: bool = True
    freed_last: int = 0

    @property
    def input(self) -> str:
        """The input as it was named, without the device."""
        return self.path.removesuffix(f" [{self.device}]")

    @property
    def series(self) -> bool:
        """Whether the log was cut into a series of windows."""
        return self.by is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings and remarks on the windows, in words."""
        return (*self.warnings, *self.remarks)


class Analysis(Tabular, frozen=True, eq=False):
    """The result of :func:`memlens.analyze`.

    Attributes:
        logs: One entry a log that could be analyzed, in the order given.
        failures: The others; empty when a single log was given, whose error is raised instead.
        top: Rows of each list in :meth:`to_dict`; ``None`` is all.
        min_size: Blocks smaller than this, in bytes, are left out of lists (not of figures).
    """

    schema: ClassVar[str] = SCHEMA
    in_json: ClassVar[tuple[str, ...]] = ("schema", "verdict", "claims", "logs", "failures")

    logs: tuple[LogAnalysis, ...]
    failures: tuple[Failure, ...] = ()
    top: int | None = 10
    min_size: int = 0

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a window: its log, its name and lines, and every single figure of its results.

        A figure keeps its name; where two analyzers have a figure of one name, the later one gets its analyzer's name in
        front (``lifetimes_held_bytes``), and so do places and times (``peak_line``, ``peak_event``, ``peak_time_us``).
        """
        return list(self.lazy_rows()[1])

    def lazy_rows(self) -> tuple[Sequence[str], Iterator[dict[str, Any]]]:
        """The names of their columns, and the rows one by one."""
        rows = chain.from_iterable(map(_telling_rows, self.logs))
        names = list(dict.fromkeys(name for row in rows for name in row))
        return names, chain.from_iterable(_rows(log, log.windows) for log in self.logs)


#: Figures whose bare name says too little in a flat row.
_PREFIXED = frozenset({"line", "event", "time_us"})


def _rows(log: LogAnalysis, windows: Sequence[WindowAnalysis]) -> Iterator[dict[str, Any]]:
    """The rows of some windows."""
    for said in plain(windows, 0):
        row: dict[str, Any] = {"path": log.path}
        for name, value in said.items():
            for key, figure in value.items() if isinstance(value, dict) else ():
                if figure is None or isinstance(figure, (int, float, str)):
                    row[f"{name}_{key}" if key in _PREFIXED or key in row else key] = figure
            if not isinstance(value, dict):
                row[name] = value
        yield row


def _telling_rows(log: LogAnalysis) -> Iterable[dict[str, Any]]:
    """Rows of a log that have all of its columns: the first one, for analyzers of memlens have the same figures of every window; those of others may not."""
    own = all(isinstance(result, Result) for result in log.windows[0].results.values()) if log.windows else True
    return _rows(log, log.windows[:1] if own else log.windows)
