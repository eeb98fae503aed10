"""What an analysis of logs consists of: a log, its windows, their results, and all of it in plain types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from memlens.analyzers.result import Lazy, OneByOne, Result, Tabled
from memlens.errors import Failure
from memlens.text import Answer, Answered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memlens.analyzers import Growth
    from memlens.analyzers.curve import Curve
    from memlens.analyzers.failures import MemoryFailure
    from memlens.analyzers.registry import Analyzed
    from memlens.analyzers.series.phases import Phases
    from memlens.replaying.remedy import FailureRemedy
    from memlens.trust import Trust

__all__ = ["SCHEMA", "Analysis", "Failure", "LogAnalysis", "Steps", "WindowAnalysis", "plain"]

SCHEMA = "memlens.analyze/2"

#: Makes the list of what is said of each of some windows.
_Listed: TypeAlias = "Callable[[Sequence[WindowAnalysis], Callable[[WindowAnalysis], Any]], list[Any]]"


def _at_once(windows: Sequence[WindowAnalysis], make: Callable[[WindowAnalysis], Any]) -> list[Any]:
    return [make(window) for window in windows]


@dataclass(frozen=True, eq=False, repr=False)
class WindowAnalysis:
    """What the analyzers say of one window.

    Attributes:
        name: The window's name; text from the log.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included).
        events: Events in it.
        results: Results by analyzer, in report order; looked up when they are asked for.
        open_end: It is an open window: it runs to the end of the log, for no end line closes it (:class:`memlens.windows.windows.Window`).
        whole: It is the whole log.
        peak_time_us: The time of the peak, ``None`` where unknown; looked up in the log where its times were not read.
        duration_us: From the first event to the last, likewise.
    """

    name: str
    start_line: int
    end_line: int
    events: int
    results: Lazy[Mapping[str, Any]] = field(default=Lazy({}), repr=False)
    open_end: bool = False
    whole: bool = False
    peak_time_us: Lazy[int | None] = field(default=Lazy(None), repr=False)
    duration_us: Lazy[int | None] = field(default=Lazy(None), repr=False)

    @property
    def starts_input(self) -> bool:
        """Whether nothing but opening blocks is carried in: it starts where the input starts."""
        return self.start_line <= 1

    def __repr__(self) -> str:
        return f"<WindowAnalysis {self.name!r}: {self.events:,} events>"

    def to_dict(self, top: int | None = None, min_size: int = 0) -> dict[str, Any]:
        """The window as it stands in the machine output.

        Args:
            top: Rows of each list; ``None`` keeps all, ``0`` leaves the lists out.
            min_size: Leave rows of smaller blocks (bytes) out of lists.
        """
        head = {"name": self.name, "start_line": self.start_line, "end_line": self.end_line, "events": self.events}
        return {**head, "open_end": self.open_end} | {
            name: plain(result, top, min_size) for name, result in self.results.items()
        }


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a run, found by themselves: a series of windows.

    Attributes:
        by: The regular expression that cuts the log so (``by`` of :func:`analyze`).
        windows: One from each line that counts a step to the next, with the results ``remaining`` and ``peak``; first what precedes them.  Each is made when
            it is asked for; of one of several logs they are figures alone, without what is live at a peak.
        anchors: How many lines count them.
        repeated: Each is the same work again (steps, iterations, epochs), so that growth is judged over them; else they are parts of
            a larger unit of work (calls, blocks, layers), and what they leave behind may be used later.
        figures: Figures of all windows at once, by the names of the machine output, int64, one entry a window: for what looks at all of a
            long series.
    """

    by: str
    windows: Sequence[WindowAnalysis]
    anchors: int
    repeated: bool
    figures: Mapping[str, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    def to_dict(self, listed: _Listed = _at_once) -> dict[str, Any]:
        """The steps as they stand in the machine output: figures only, no lists."""
        return {
            "by": self.by,
            "anchors": self.anchors,
            "repeated": self.repeated,
            "windows": listed(self.windows, lambda window: window.to_dict(0)),
        }


@dataclass(frozen=True, eq=False, repr=False)
class LogAnalysis(Answered):
    """What the analyzers say of one log.

    Attributes:
        path: The input as it was named, with its device where it has several.
        trust: What to believe of it.
        windows: Its windows, in file order, each made when it is asked for; exactly one unless the log was cut into a series.
        growth: How memory develops over the series, or over the steps of the run where it was not cut; ``None`` where there are none.
        by: The regular expression that cut the series, or ``None``.
        notes: What to doubt of the windows themselves (anchors that came late), in words.
        remarks: What to know of them (which one is open, that the log runs out of memory outside of them), in words.
        steps: The steps of the run, where it was not cut and lines count them.
        phases: The phases of the windows of the series, or of the steps, where lines mark them.
        curve: The levels over the window, or over the whole log where it was cut into a series; ``None`` where one of several logs was
            analyzed, which are not kept in memory for it.  Worked out when it is asked for.
        ooms: The out-of-memory failures on the lines of the windows, in their order; each is worked out when it is asked for.
        remedy: What other settings of the allocator would have done about a failure; ``None`` where none is reported, where the run cannot be replayed, and of one
            of several logs.  Worked out when it is asked for.
        figures: Figures of all windows at once, as those of :attr:`Steps.figures`.
        device: Which of several devices of its input it is of, ``device 1`` or ``CPU``; ``""`` of an input with one.
    """

    path: str
    trust: Trust
    windows: Sequence[WindowAnalysis]
    growth: Growth | None = None
    by: str | None = None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    steps: Steps | None = None
    phases: Phases | None = None
    curve: Lazy[Curve | None] = field(default=Lazy(None), repr=False)
    ooms: Lazy[Sequence[MemoryFailure]] = field(default=Lazy(()), repr=False)
    remedy: Lazy[FailureRemedy | None] = field(default=Lazy(None), repr=False)
    figures: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    device: str = ""

    @property
    def input(self) -> str:
        """The input as it was named, without the device."""
        return self.path.removesuffix(f" [{self.device}]")

    @property
    def series(self) -> bool:
        """Whether the log was cut into a series of windows."""
        return self.by is not None

    @cached_property
    def answer(self) -> Answer:
        """The verdict, in sentences."""
        from memlens.analyzing.verdict import answer_of_log

        return answer_of_log(self)

    def to_dict(self, top: int | None = None, min_size: int = 0, listed: _Listed = _at_once) -> dict[str, Any]:
        """The log as it stands in the machine output; arguments as for :meth:`WindowAnalysis.to_dict`, and what makes the lists of windows."""
        most = 10 if top == 0 else top  # a failure is shown where lists are not
        return {
            "path": self.path,
            "verdict": self.verdict,
            "trust": self.trust.to_dict(),
            "ooms": [failure.to_dict(top, min_size) for failure in self.ooms[:most]],
            **({"ooms_left_out": len(self.ooms) - most} if most is not None and len(self.ooms) > most else {}),
            **({"remedy": None if self.remedy is None else self.remedy.to_dict()} if self.ooms else {}),
            "windows": listed(self.windows, lambda window: window.to_dict(top, min_size)),
            "growth": None if self.growth is None else plain(self.growth, top, min_size),
            "steps": None if self.steps is None else self.steps.to_dict(listed),
            "phases": None if self.phases is None else self.phases.to_dict(),
            "notes": [*self.notes, *self.remarks],
        }


@dataclass(frozen=True, eq=False, repr=False)
class Analysis(Answered, Tabled):
    """What :func:`analyze` found.

    Attributes:
        logs: One entry a log that could be analyzed, in the order given.
        failures: The others; empty when a single log was given, whose error is raised instead.
        top: Rows of each list in :meth:`to_dict`; ``None`` is all.
        min_size: Blocks smaller than this, in bytes, are left out of lists (not of figures).
    """

    logs: tuple[LogAnalysis, ...]
    failures: tuple[Failure, ...] = ()
    top: int | None = 10
    min_size: int = 0

    @cached_property
    def answer(self) -> Answer:
        """The verdict on all logs, in sentences."""
        from memlens.analyzing.verdict import answer_of

        return answer_of(self)

    def to_dict(self, listed: _Listed = _at_once) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.analyze/2``: exact bytes, 1-based lines."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "logs": [log.to_dict(self.top, self.min_size, listed) for log in self.logs],
            **({"failures": [failure.to_dict() for failure in self.failures]} if self.failures else {}),
        }

    def to_lazy_dict(self) -> dict[str, Any]:
        """The same, but windows are written down while the lists of them are walked through."""
        return self.to_dict(OneByOne)

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a window: its log, its name and lines, and every single figure of its results.

        A figure keeps its name; where two analyzers have a figure of one name, the later one gets its analyzer's name in
        front (``lifetimes_held_bytes``), and so do places and times (``peak_line``, ``peak_event``, ``peak_time_us``).
        """
        return list(self._rows())

    def lazy_rows(self) -> tuple[Sequence[str], Iterator[dict[str, Any]]]:
        """The names of their columns, and the rows one by one."""
        rows = chain.from_iterable(map(_telling_rows, self.logs))
        return list(dict.fromkeys(name for row in rows for name in row)), self._rows()

    def _rows(self) -> Iterator[dict[str, Any]]:
        return (_row(log, window) for log in self.logs for window in log.windows)


def plain(result: Analyzed, top: int | None, min_size: int) -> dict[str, Any]:
    """A result in plain JSON types, its lists without small blocks and cut to ``top`` rows."""
    if not isinstance(result, Result):  # of another package, whose to_dict() knows no rows
        return result.to_dict()
    if top == 0:
        return result.to_dict(0)
    if top is None and min_size <= 0:
        return result.to_dict()
    values = result.to_dict(top if min_size <= 0 else None)
    for table in result.tables:
        if table == "histogram":  # a scale, and not a list with the most important first
            values[table] = [row.to_dict() for row in getattr(result, table)]
            values.pop(f"{table}_left_out", None)
            continue
        if min_size <= 0:
            continue
        rows = values[table]
        kept = [row for row in rows if row.get("size_bytes", min_size) >= min_size][:top]
        values[table] = kept
        if len(kept) < len(rows):
            values[f"{table}_left_out"] = len(rows) - len(kept)
    return values


#: Figures whose bare name says too little in a flat row.
_PREFIXED = frozenset({"line", "event", "time_us"})


def _row(log: LogAnalysis, window: WindowAnalysis) -> dict[str, Any]:
    """The row of one window."""
    row: dict[str, Any] = {"path": log.path, "name": window.name, "start_line": window.start_line}
    row |= {"end_line": window.end_line, "events": window.events, "open_end": window.open_end}
    for name, result in window.results.items():
        for key, value in plain(result, 0, 0).items():
            if value is None or isinstance(value, (int, float, str)):
                row[f"{name}_{key}" if key in _PREFIXED or key in row else key] = value
    return row


def _telling_rows(log: LogAnalysis) -> Iterable[dict[str, Any]]:
    """Rows of a log that have all of its columns: the first one, for analyzers of memlens have the same figures of every window; those of others may not."""
    own = all(isinstance(result, Result) for result in log.windows[0].results.values()) if log.windows else True
    return (_row(log, window) for window in (log.windows[:1] if own else log.windows))
