"""Analyze logs: read, cut into windows, run the analyzers.  The twin of ``memlens analyze``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from memlens.errors import MemlensError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from memlens.analyzers import Growth
    from memlens.analyzers.registry import Analyzed
    from memlens.events import EventLog
    from memlens.slicing import Pattern, Window
    from memlens.trust import Trust

__all__ = ["SCHEMA", "Analysis", "Failure", "LogAnalysis", "WindowAnalysis", "analyze", "plain"]

SCHEMA = "memlens.analyze/1"

#: Windows of one of several logs whose results are worked out at once, so that the log itself can be forgotten.
_SETTLED_AT_MOST = 100

#: Names of files whose lines cannot be looked up at little cost; a guess, which the time of a peak depends on and no more.
_COMPRESSED = frozenset({".gz", ".zst", ".xz", ".bz2"})

Input: TypeAlias = "str | Path | BinaryIO | EventLog"


@dataclass(frozen=True, eq=False)
class WindowAnalysis:
    """What the analyzers say of one window.

    Attributes:
        name: The window's name; text from the log.
        start_line: 1-based number of its first line.
        end_line: 1-based number of its last line (included).
        events: Events in it.
        results: Results by analyzer, in report order.
        open_end: It ends with the log though an end was asked for.
        whole: It is the whole log.
        peak_time_us: The time of the peak, ``None`` where unknown; see ``times`` of :func:`analyze`.
        duration_us: From the first event to the last, ``None`` where unknown.
    """

    name: str
    start_line: int
    end_line: int
    events: int
    results: Mapping[str, Any]
    open_end: bool = False
    whole: bool = False
    peak_time_us: int | None = None
    duration_us: int | None = None

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
class LogAnalysis:
    """What the analyzers say of one log.

    Attributes:
        path: The input as it was named.
        trust: What to believe of it.
        windows: Its windows, in file order; exactly one unless it was cut into a series.
        growth: How memory develops over a series, or ``None``.
        by: The regular expression that cut the series, or ``None``.
        notes: What to doubt of the windows themselves (anchors that came late), in words.
    """

    path: str
    trust: Trust
    windows: tuple[WindowAnalysis, ...]
    growth: Growth | None = None
    by: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def series(self) -> bool:
        """Whether the log was cut into a series of windows."""
        return self.by is not None

    def to_dict(self, top: int | None = None, min_size: int = 0) -> dict[str, Any]:
        """The log as it stands in the machine output; arguments as for :meth:`WindowAnalysis.to_dict`."""
        return {
            "path": self.path,
            "trust": self.trust.to_dict(),
            "windows": [window.to_dict(top, min_size) for window in self.windows],
            "growth": None if self.growth is None else plain(self.growth, top, min_size),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Failure:
    """One of several logs that could not be analyzed.

    Attributes:
        path: The input as it was named.
        message: What is wrong.
        hint: What to do next, or ``""``.
    """

    path: str
    message: str
    hint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {"path": self.path, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, eq=False)
class Analysis:
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

    def to_dict(self) -> dict[str, Any]:
        """Everything, in plain JSON types, by the contract ``memlens.analyze/1``: exact bytes, 1-based lines."""
        return {
            "schema": SCHEMA,
            "logs": [log.to_dict(self.top, self.min_size) for log in self.logs],
            **({"failures": [failure.to_dict() for failure in self.failures]} if self.failures else {}),
        }

    def rows(self) -> list[dict[str, Any]]:
        """A flat row a window: its log, its name and lines, and every single figure of its results.

        A figure keeps its name; where two analyzers have a figure of one name, the later one gets its analyzer's name in
        front (``lifetimes_held_bytes``), and so do places and times (``peak_line``, ``peak_event``, ``peak_time_us``).
        """
        return [row for log in self.logs for row in _log_rows(log)]

    def to_pandas(self) -> pd.DataFrame:
        """:meth:`rows` as a DataFrame, a row a window."""
        import pandas as pd

        return pd.DataFrame(self.rows())


def analyze(
    logs: Input | Sequence[Input],
    *,
    start: str | None = None,
    end: str | Sequence[str] = (),
    start_regex: str | None = None,
    end_regex: str | Sequence[str] = (),
    nth: int = 1,
    by: str | None = None,
    analyzers: Sequence[str] | None = None,
    top: int | None = 10,
    min_size: int = 0,
    strict: bool = False,
    times: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Analysis:
    """Say where the memory went, in whole logs or in parts of them.

    Args:
        logs: One log or several: paths (``-`` is standard input), binary files, or logs already read.
        start: A window starts with the line that contains this as whole words; ``None`` is the beginning.
        end: It ends before the first later line that contains any of these.
        start_regex: Like ``start``, a regular expression.
        end_regex: Like ``end``, regular expressions.
        nth: Which of the lines that match the start to take, from 1.
        by: Cut into consecutive windows instead, one from each line that this regular expression matches.
        analyzers: Names of analyzers; ``None`` is all built-in ones (``growth`` only with ``by``).
        top: Rows of each list in the machine output; ``None`` is all.
        min_size: Leave blocks smaller than this, in bytes, out of lists.
        strict: An input that is cut short is an error.
        times: Read the time of every event.  Without them a large log is read quicker, results hold no times, and only the
            time of the peak and the duration of a single window are looked up.
        progress: Called with the bytes read so far, over all logs, as they lie on disk.

    Raises:
        UsageError: Arguments that make no sense together, or an analyzer that does not exist.
        MemlensError: The only log cannot be analyzed.  One of several becomes a :class:`Failure` instead.
    """
    end, end_regex = _as_list(end), _as_list(end_regex)
    if by is not None and (start is not None or start_regex is not None):
        raise UsageError("by and start exclude each other", "A series starts a window at each line that `by` matches.")
    cut = _Cut(start, tuple(end), start_regex, tuple(end_regex), nth, by)
    chosen = _choose(analyzers, by is not None)
    inputs: list[Input] = list(logs) if isinstance(logs, (list, tuple)) else [logs]  # type: ignore[list-item]
    if not inputs:
        raise UsageError("no log to analyze", "Name one, or several.")

    reading = _Reading(cut.patterns(), strict, times, progress)
    done: list[LogAnalysis] = []
    failures: list[Failure] = []
    for given in inputs:
        try:
            done.append(_analyze_one(reading, given, cut, chosen, forget=len(inputs) > 1))
        except UsageError:  # noqa: PERF203  one log must not lose the others
            raise
        except MemlensError as error:
            if len(inputs) == 1:
                raise
            failures.append(Failure(_name(given), error.message, error.hint))
    return Analysis(tuple(done), tuple(failures), top, min_size)


@dataclass(frozen=True)
class _Cut:
    """Where to cut."""

    start: str | None
    end: tuple[str, ...]
    start_regex: str | None
    end_regex: tuple[str, ...]
    nth: int
    by: str | None

    @property
    def given(self) -> bool:
        return self.start is not None or self.start_regex is not None or bool(self.end or self.end_regex)

    def patterns(self) -> tuple[Pattern, ...]:
        """What to look for while reading, so that the text need not be read twice (a pipe cannot be)."""
        from memlens.slicing import as_patterns

        regexes = [pattern for pattern in (self.start_regex, self.by) if pattern is not None]
        literals = [] if self.start is None else [self.start]
        return (
            *as_patterns([*literals, *self.end], regex=False),
            *as_patterns([*regexes, *self.end_regex], regex=True),
        )

    def windows(self, log: EventLog) -> tuple[Window, ...]:
        if self.by is not None:
            return log.windows(self.by, end=self.end, end_regex=self.end_regex)
        if not self.given:
            return (log.whole,)
        return (log.window(self.start, self.end, start_regex=self.start_regex, end_regex=self.end_regex, nth=self.nth),)


@dataclass
class _Reading:
    """Reads one log after another and adds their progress up."""

    patterns: tuple[Pattern, ...]
    strict: bool
    times: bool
    progress: Callable[[int], None] | None
    before: int = 0

    def read(self, given: Input) -> EventLog:
        from memlens.events import EventLog
        from memlens.parsing.reader import read

        if isinstance(given, EventLog):
            return given
        before = self.before

        def add_up(done: int) -> None:
            self.before = before + done
            if self.progress is not None:
                self.progress(self.before)

        return read(given, patterns=self.patterns, columns=self._columns(given), strict=self.strict, progress=add_up)

    def _columns(self, given: Input) -> tuple[str, ...]:
        plain_file = isinstance(given, (str, Path)) and str(given) != "-" and Path(given).suffix not in _COMPRESSED
        return () if plain_file and not self.times else ("time_us",)


def _analyze_one(
    reading: _Reading, given: Input, cut: _Cut, chosen: tuple[Sequence[str], bool], *, forget: bool
) -> LogAnalysis:
    from memlens.analyzers import registry
    from memlens.slicing import suspect_anchors

    names, with_growth = chosen
    log = reading.read(given)
    windows = cut.windows(log)
    # One vectorised pass an analyzer, over all windows; nothing below touches events.
    columns = [registry.get(name).many(windows) for name in names]
    growth = registry.get_series("growth")(windows) if with_growth else None
    whole = not cut.given and cut.by is None
    analyzed = tuple(
        WindowAnalysis(
            window.name,
            int(window.start_line),
            int(window.end_line),
            len(window),
            {name: column[place] for name, column in zip(names, columns, strict=True)},
            window.open_end,
            whole,
            *(_times(window, [column[place] for column in columns]) if len(windows) == 1 else (None, None)),
        )
        for place, window in enumerate(windows)
    )
    if forget and len(analyzed) <= _SETTLED_AT_MOST:
        for window in analyzed:
            for result in window.results.values():
                _settle(result)
    doubt = None if whole else suspect_anchors(windows)
    return LogAnalysis(_name(given), log.trust, analyzed, growth, cut.by, () if doubt is None else (doubt,))


def _times(window: Window, results: Sequence[Analyzed]) -> tuple[int | None, int | None]:
    """The time of a window's peak, and how long it is, both in microseconds."""
    from memlens.analyzers.places import elapsed_us
    from memlens.moments import times_of

    if not len(window):
        return None, None
    peaks = [event for result in results if isinstance(event := getattr(result, "event", None), int)]
    first, last, *peak = times_of(window.log, [window.lo, window.hi - 1, *peaks[:1]])
    return peak[0] if peak else None, elapsed_us(first, last)


def _settle(result: Analyzed) -> None:
    """Work out what a result still owes, so that it no longer needs its log and many logs do not add up in memory."""
    if dataclasses.is_dataclass(result):
        for spec in dataclasses.fields(result):
            getattr(result, spec.name)


def _choose(analyzers: Sequence[str] | None, series: bool) -> tuple[Sequence[str], bool]:
    """The analyzers of windows to run, in report order, and whether to look at growth."""
    from memlens.analyzers import registry

    if analyzers is None:
        return [analyzer.name for analyzer in registry.BUILT_IN], series
    wanted = list(dict.fromkeys(analyzers))
    with_growth = "growth" in wanted
    if with_growth and not series:
        raise UsageError("growth needs a series of windows", "Cut the log with --by REGEX (by=… in Python).")
    names = [name for name in wanted if name != "growth"]
    for name in names:
        registry.get(name)
    own = [analyzer.name for analyzer in registry.BUILT_IN]
    # In report order; the list of installed ones is looked at only where one is asked for.
    return [name for name in own if name in names] + sorted(set(names).difference(own)), with_growth


def _as_list(patterns: str | Sequence[str]) -> list[str]:
    return [patterns] if isinstance(patterns, str) else list(patterns)


def _name(given: Input) -> str:
    from memlens.events import EventLog

    if isinstance(given, EventLog):
        return given.source.name
    if isinstance(given, (str, Path)):
        return "<stdin>" if str(given) == "-" else str(given)
    name = getattr(given, "name", "")
    return name if isinstance(name, str) and name else "<stream>"


def plain(result: Analyzed, top: int | None, min_size: int) -> dict[str, Any]:
    """A result in plain JSON types, its lists without small blocks and cut to ``top`` rows."""
    from memlens.analyzers.result import Result

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


def _log_rows(log: LogAnalysis) -> list[dict[str, Any]]:
    rows = []
    for window in log.windows:
        row: dict[str, Any] = {"path": log.path, "name": window.name, "start_line": window.start_line}
        row |= {"end_line": window.end_line, "events": window.events}
        for name, result in window.results.items():
            for key, value in plain(result, 0, 0).items():
                if value is None or isinstance(value, (int, float, str)):
                    row[f"{name}_{key}" if key in _PREFIXED or key in row else key] = value
        rows.append(row)
    return rows
