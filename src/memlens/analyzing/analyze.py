"""Analyze logs: read, cut into windows, run the analyzers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import structs

from memlens.analyzing.claims import claims_of, claims_of_log
from memlens.analyzing.result import Analysis, LogAnalysis, Steps, WindowAnalysis
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.folding import bounds, figures, plain_rows, profile
from memlens.inputs import Reading, expanded, input_name, named_devices
from memlens.options.keywords import with_keywords
from memlens.options.verbs import Analyze
from memlens.results import Deferred, Failure, OnDemand, claimed, deferred
from memlens.summarizing.workers import Order, spread_out
from memlens.trust import pairing_beside, trust_of
from memlens.windows.windows import edges_of, names_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.analyzers.series.curve import Curve
    from memlens.analyzers.series.phases import Pieces
    from memlens.events import EventLog
    from memlens.log import Input, Log
    from memlens.options import ReadAs
    from memlens.replaying.remedy import FailureRemedy
    from memlens.windows.anchor_discovery import FoundSteps
    from memlens.windows.windows import Window


_CUT = "Cut the log with --by REGEX (by=… in Python)."
_TOO_MANY_MARKS = "Too many lines may mark steps to look for the steps of the run: --by REGEX names those that do."
#: What is said of each step.
_OF_STEPS = ("remaining", "peak")
#: The columns of windows that their rows in the machine output are made of.
_EDGES = ("start_line", "end_line", "lo", "hi", "open_end")
#: Windows of one of several logs whose results are worked out at once, so that the log itself can be forgotten.
_SETTLED_AT_MOST = 100


def analyze_with(logs: Input | Sequence[Input], options: Analyze) -> Analysis:
    """Say where the memory went, in whole logs or in parts of them.

    Args:
        logs: One log or several: paths (``-`` is standard input), URLs, binary files, or logs already read.  An input with several
            devices is a log for each of them, and a folder stands for the logs in it.
        options: See :class:`memlens.options.verbs.Analyze`.

    Raises:
        UsageError: Arguments that make no sense together, or an analyzer that does not exist.
        MemlensError: The only log cannot be analyzed.  One of several becomes a :class:`Failure` instead.
    """
    if options.whole and options.given:
        raise UsageError("whole and anchors exclude each other", "Leave out --whole to cut the logs.")
    chosen = _choose(options.analyzers, options)
    given_logs: list[Input] = list(logs) if isinstance(logs, (list, tuple)) else [logs]  # type: ignore[list-item]
    inputs = expanded(given_logs, options)
    if not inputs:
        raise UsageError("no log to analyze", "Name one, or several.")

    alone = len(inputs) == 1
    orders = [Order(given, options, (*chosen, alone)) for given in inputs]
    found = spread_out(_analyze_input, orders, options, options.progress)
    done: list[LogAnalysis] = []
    failures: list[Failure] = []
    for given, result in zip(inputs, found, strict=True):
        if isinstance(result, MemlensError):
            if alone:
                raise result
            failures.append(Failure(input_name(given), result.message, result.hint))
            continue
        done += (one for one in result if isinstance(one, LogAnalysis))
        failures += (one for one in result if isinstance(one, Failure))
    return claimed(Analysis(tuple(done), tuple(failures), options.top, options.min_size), claims_of)


analyze = with_keywords("analyze", analyze_with, Analyze)


def analyze_each(name: str, logs: Sequence[Log], options: Analyze) -> Iterator[tuple[Log, LogAnalysis]]:
    """Each log of an input that is read already, a device each, with its analysis."""
    for log, path, device in named_devices(name, logs):
        (analysis,) = analyze_with(log, options).logs
        yield log, structs.replace(analysis, path=path, device=device)


def _analyze_input(order: Order) -> tuple[LogAnalysis | Failure, ...]:
    """Analyze each device of one input by some analyzers, perhaps growth too; it may be the only input."""
    options: Analyze = order.options
    names, with_growth, only = order.about
    owners, strict = options.owner_patterns, options.strict
    landmarks = with_growth or not options.series  # steps tell growth, and roles
    reading = Reading(
        options.patterns, strict=strict, times=options.times, owners=owners, how=options, landmarks=landmarks
    )
    logs = reading.read_all(order.given)
    alone = only and len(logs) == 1
    found: list[LogAnalysis | Failure] = []
    for log, path, device in named_devices(input_name(order.given), logs):
        try:
            found.append(_analyze_one(log, path, device, options, names, with_growth=with_growth, forget=not alone))
        except AnchorError as error:
            if alone:
                raise
            found.append(Failure(path, error.message, error.hint))
    return tuple(found)


def _analyze_one(
    log: EventLog, path: str, device: str, cut: Analyze, names: Sequence[str], *, with_growth: bool, forget: bool
) -> LogAnalysis:
    from memlens.analyzers import growth
    from memlens.analyzers.endings import freed_last
    from memlens.analyzers.failures import failures, failures_outside
    from memlens.analyzers.series.phases import cut_phases, phases
    from memlens.windows.anchor_discovery import find_steps
    from memlens.windows.anchors import landmarks_of
    from memlens.windows.windows import open_window, suspect_anchors

    whole = not cut.given
    with pairing_beside(log):
        windows = cut.windows(log)
        found = find_steps(log) if whole and with_growth else None
        if whole and found is None and with_growth and not names:
            raise UsageError(
                f"{path}: growth needs a series of windows, and no lines that count steps were found", _CUT
            )
        series = windows if cut.series else () if found is None else found.windows
        marks = landmarks_of(log) if with_growth and series else None
        pieces = None if marks is None else cut_phases(series, marks)
        _share_pass(log, [windows] if series is windows else [windows, series], pieces)
    trust = trust_of(log)
    analyzed: Sequence[WindowAnalysis] = _analyzed(windows, names, whole=whole)
    repeated = cut.series or (found is not None and found.repeated)
    grown = growth(series, pieces and pieces.inside()) if with_growth and repeated else None
    steps = None if found is None else _steps(found)
    columns = _figures(windows) if cut.series else {}
    levels = None if forget else deferred(_curve, log, windows, series)
    ooms: Any = deferred(failures, log, windows)
    if forget:
        if len(analyzed) <= _SETTLED_AT_MOST:
            analyzed = tuple(analyzed)  # what makes them holds the log
            for window in analyzed:
                _settle(window, *window.results.values())
        _settle(grown)
        light = partial(_light, times=log.time_us is not None)
        steps = None if steps is None else structs.replace(steps, windows=tuple(map(light, steps.windows)))
    if forget and trust.distinct_ooms <= _SETTLED_AT_MOST:
        ooms = tuple(failures(log, windows))
        _settle(*ooms)
    analysis = LogAnalysis(
        path,
        trust,
        analyzed,
        grown,
        cut.by,
        warnings=tuple(filter(None, [None if whole else suspect_anchors(windows)])),
        remarks=(
            *filter(None, [open_window(windows)]),
            *failures_outside(log, windows),
            *([_TOO_MANY_MARKS] if whole and with_growth and found is None and _is_full(log) else ()),
        ),
        steps=steps,
        phases=None if pieces is None else phases(pieces),
        curve=levels,
        ooms=ooms,
        remedy=None if forget else deferred(_remedy, log, windows, cut),
        saving={} if forget else deferred(_saving, log, cut),
        figures=columns,
        device=device,
        uncut=cut.whole,
        can_be_cut=log.can_be_cut,
        freed_last=freed_last(log),
    )
    return claimed(analysis, claims_of_log)


def _is_full(log: EventLog) -> bool:
    """Whether a log has more lines that may mark its work than are kept."""
    return log.landmarks is not None and not log.landmarks.complete


def _share_pass(log: EventLog, windows: Sequence[Sequence[Window]], pieces: Pieces | None) -> None:
    """Go over the events once for all that is asked afterwards of these windows and phases."""
    stretches = [bounds(some)[1:] for some in windows if len(some)]
    stretches += [] if pieces is None else [(pieces.lo, pieces.hi)]
    figures(log, *map(np.concatenate, zip(*stretches, strict=True)))


def _figures(windows: Sequence[Window]) -> dict[str, NDArray[Any]]:
    """Figures of all windows of a series by the names of the machine output; one that is not known of all windows has ``None`` among objects."""
    from memlens.analyzers.places import lasting_us, or_none

    log, lo, hi = bounds(windows)
    found: dict[str, NDArray[Any]] = {**profile(windows).columns, "events": hi - lo}
    if log.time_us is not None:
        found["duration_us"] = or_none(lasting_us(windows))
    return found


def _analyzed(windows: Sequence[Window], names: Sequence[str], *, whole: bool = False) -> OnDemand[WindowAnalysis]:
    """Return the results of windows of one log, each made on demand."""
    from memlens.analyzers import registry
    from memlens.analyzers.places import lasted_us

    # One vectorised pass an analyzer, over all windows; nothing below touches events.
    columns = {name: registry.get(name).many(windows) for name in names}
    lasted = lasted_us(windows) if windows else None

    def one(index: int) -> WindowAnalysis:
        window = windows[index]
        results = Deferred[Mapping[str, Any]](lambda: {name: column[index] for name, column in columns.items()})
        times = deferred(_peak_time, window, results), lasted and deferred(lasted, index)
        lines = int(window.start_line), int(window.end_line)
        said: Any = results  # worked out when it is asked for
        return WindowAnalysis(window.name, *lines, window.events, said, window.open_end, whole, *times)

    def rows() -> Iterator[dict[str, Any]]:
        start, end, lo, hi, open_end = (edges_of(windows, edge) for edge in _EDGES)
        found = {"start_line": start, "end_line": end, "events": hi - lo, "open_end": open_end}
        said = {name: of_each() for name, of_each in plainly.items() if of_each is not None}
        return plain_rows({"name": names_of(windows), **found, **said})

    plainly = {name: getattr(column, "plain_rows", None) for name, column in columns.items()}
    return OnDemand(len(windows), one, None if None in plainly.values() else rows)


def _steps(found: FoundSteps) -> Steps:
    """Return the steps of a log, with their figures."""
    by, windows = found.family.by, found.windows
    analyzed = _analyzed(windows, _OF_STEPS)
    family = found.family
    return Steps(
        by, analyzed, len(family.anchors[0]), found.repeated, family.ends, profile(windows).columns, found.unit
    )


def _light(step: WindowAnalysis, *, times: bool) -> WindowAnalysis:
    """A step with its figures alone, without what needs its log; with the time of its peak where times were read."""
    peak: Any = step.results["peak"]
    results = {
        **step.results,
        "peak": structs.replace(
            peak,
            line=peak.line,
            time_us=peak.time_us if times else None,
            live=(),
            reserved_at_peak_bytes=peak.reserved_at_peak_bytes,
            reserved_peak_line=None,
        ),
    }
    return structs.replace(step, results=results, peak_time_us=None, duration_us=None)


def _curve(log: EventLog, windows: Sequence[Window], series: Sequence[Window]) -> Curve | None:
    from memlens.analyzers.series.curve import curve
    from memlens.windows.windows import whole

    return curve(whole(log), series) if series else curve(windows[0])


def _remedy(log: EventLog, windows: Sequence[Window], how: ReadAs) -> FailureRemedy | None:
    from memlens.analyzers.failures import failures

    if not failures(log, windows):
        return None
    from memlens.replaying.remedy import remedy_of

    return remedy_of(log, how)


def _saving(log: EventLog, how: ReadAs) -> dict[str, Any]:
    from memlens.replaying.remedy import saving_of

    return saving_of(log, how)


def _peak_time(window: Window, results: Callable[[], Mapping[str, Any]]) -> int | None:
    peaks = [event for result in results().values() if isinstance(event := getattr(result, "event", None), int)]
    return window.log.times_of(peaks[:1])[0] if peaks else None


def _settle(*results: object) -> None:
    """Work out what is still owed, so that results no longer need their log and many logs do not add up in memory."""
    for owing in results:
        for name in getattr(owing, "__struct_fields__", ()):
            getattr(owing, name)


def _choose(analyzers: Sequence[str] | None, cut: Analyze) -> tuple[Sequence[str], bool]:
    """The analyzers of windows to run, in report order, and whether to look at growth."""
    from memlens.analyzers import registry

    judges = cut.series or not (cut.given or cut.whole)
    if analyzers is None:
        return [analyzer.name for analyzer in registry.BUILT_IN], judges
    wanted = list(dict.fromkeys(analyzers))
    with_growth = "growth" in wanted
    if with_growth and not judges:
        raise UsageError("growth needs a series of windows", _CUT)
    names = [name for name in wanted if name != "growth"]
    for name in names:
        registry.get(name)
    own = [analyzer.name for analyzer in registry.BUILT_IN]
    # In report order; the list of installed ones is looked at only where one is asked for.
    return [name for name in own if name in names] + sorted(set(names).difference(own)), with_growth
