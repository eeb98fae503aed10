"""Analyze logs: read, cut into windows, run the analyzers.  The twin of ``memlens analyze``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memlens.analyzers.result import Later
from memlens.analyzing.result import Analysis, Failure, LogAnalysis, WindowAnalysis
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.inputs import Reading, device_label, input_name
from memlens.options import Cut, ReadAs, as_list

if TYPE_CHECKING:
    from memlens.analyzers.registry import Analyzed
    from memlens.events import EventLog
    from memlens.inputs import Input
    from memlens.windows.windows import Window

__all__ = ["Analysis", "Failure", "LogAnalysis", "WindowAnalysis", "analyze"]

#: Windows of one of several logs whose results are worked out at once, so that the log itself can be forgotten.
_SETTLED_AT_MOST = 100


def analyze(
    logs: Input | Sequence[Input],
    *,
    start: str | None = None,
    end: str | Sequence[str] = (),
    start_regex: str | None = None,
    end_regex: str | Sequence[str] = (),
    nth: int = 1,
    by: str | None = None,
    owners: str | Sequence[str] = (),
    analyzers: Sequence[str] | None = None,
    top: int | None = 10,
    min_size: int = 0,
    strict: bool = False,
    times: bool = True,
    progress: Callable[[int], None] | None = None,
    input_format: str | None = None,
    device: int | None = None,
    layer: str | None = None,
    formats: str | Path | None = None,
) -> Analysis:
    """Say where the memory went, in whole logs or in parts of them.

    Args:
        logs: One log or several: paths (``-`` is standard input), URLs, binary files, or logs already read.  An input with several
            devices is a log for each of them.
        start: A window starts with the line that contains this as whole words; ``None`` is the beginning.
        end: It ends before the first later line that contains any of these.
        start_regex: Like ``start``, a regular expression.
        end_regex: Like ``end``, regular expressions.
        nth: Which of the lines that match the start to take, from 1.
        by: Cut into consecutive windows instead, one from each line that this regular expression matches.
        owners: Regular expressions of further lines that name the owner of what comes after them, by their first group or by what
            they matched; see :func:`memlens.read`.  A log already read keeps the owners that it has.
        analyzers: Names of analyzers; ``None`` is all built-in ones (``growth`` only with ``by``).
        top: Rows of each list in the machine output; ``None`` is all.
        min_size: Leave blocks smaller than this, in bytes, out of lists.
        strict: An input that is cut short is an error.
        times: Read the time of every event.  Without them a large log is read quicker, and results hold no times; a
            window's own ``peak_time_us`` and ``duration_us`` are then looked up when they are asked for.
        progress: Called with the bytes read so far, over all logs, as they lie on disk.
        input_format: The format of the inputs, where it is not to be looked for; see :func:`memlens.read`.
        device: The device to analyze of inputs that have several; -1 is the CPU.
        layer: The allocator layer of Paddle to take blocks from; see :func:`memlens.read`.
        formats: A TOML file with formats of your own, instead of those in the nearest ``pyproject.toml``.

    Raises:
        UsageError: Arguments that make no sense together, or an analyzer that does not exist.
        MemlensError: The only log cannot be analyzed.  One of several becomes a :class:`Failure` instead.
    """
    from memlens.windows.windows import as_patterns

    cut = Cut(start, tuple(as_list(end)), start_regex, tuple(as_list(end_regex)), nth, by)
    chosen = _choose(analyzers, by is not None)
    inputs: list[Input] = list(logs) if isinstance(logs, (list, tuple)) else [logs]  # type: ignore[list-item]
    if not inputs:
        raise UsageError("no log to analyze", "Name one, or several.")

    marks = as_patterns(as_list(owners), regex=True)
    how = ReadAs(input_format, device, formats, layer)
    reading = Reading(cut.patterns, strict=strict, times=times, owners=marks, progress=progress, how=how)
    done: list[LogAnalysis] = []
    failures: list[Failure] = []
    for given in inputs:
        name = input_name(given)
        try:
            found = reading.read_all(given)
            for log in found:
                name = f"{input_name(given)} {device_label(log)}" if len(found) > 1 else input_name(given)
                alone = len(inputs) == len(found) == 1
                try:
                    done.append(_analyze_one(log, name, cut, chosen, forget=not alone))
                except AnchorError as error:
                    if alone:
                        raise
                    failures.append(Failure(name, error.message, error.hint))
        except UsageError:
            raise
        except MemlensError as error:
            if len(inputs) == 1:
                raise
            failures.append(Failure(name, error.message, error.hint))
    return Analysis(tuple(done), tuple(failures), top, min_size)


def _analyze_one(
    log: EventLog, name: str, cut: Cut, chosen: tuple[Sequence[str], bool], *, forget: bool
) -> LogAnalysis:
    from memlens.analyzers import registry
    from memlens.windows.windows import open_window, suspect_anchors

    names, with_growth = chosen
    windows = cut.windows(log)
    # One vectorised pass an analyzer, over all windows; nothing below touches events.
    columns = [registry.get(name).many(windows) for name in names]
    growth = registry.get_series("growth")(windows) if with_growth else None
    whole = not cut.given
    analyzed = tuple(
        WindowAnalysis(
            window.name,
            int(window.start_line),
            int(window.end_line),
            len(window),
            {name: column[place] for name, column in zip(names, columns, strict=True)},
            window.open_end,
            whole,
            Later(_peak_time, window, [column[place] for column in columns]),
            Later(_duration, window),
        )
        for place, window in enumerate(windows)
    )
    if forget and len(analyzed) <= _SETTLED_AT_MOST:
        for window in analyzed:
            for owing in (window, *window.results.values()):
                _settle(owing)
    doubt = None if whole else suspect_anchors(windows)
    remarks = tuple(filter(None, [open_window(windows)]))
    return LogAnalysis(name, log.trust, analyzed, growth, cut.by, () if doubt is None else (doubt,), remarks)


def _peak_time(window: Window, results: Sequence[Analyzed]) -> int | None:
    from memlens.inputs.paddle.times import times_of

    peaks = [event for result in results if isinstance(event := getattr(result, "event", None), int)]
    return times_of(window.log, peaks[:1])[0] if peaks else None


def _duration(window: Window) -> int | None:
    from memlens.analyzers.places import elapsed_us
    from memlens.inputs.paddle.times import times_of

    return elapsed_us(*times_of(window.log, [window.lo, window.hi - 1])) if len(window) else None


def _settle(owing: object) -> None:
    """Work out what is still owed, so that a result no longer needs its log and many logs do not add up in memory."""
    if dataclasses.is_dataclass(owing):
        for spec in dataclasses.fields(owing):
            getattr(owing, spec.name)


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
