"""Analyze logs: read, cut into windows, run the analyzers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, structs

from memlens.analyzing.result import Analysis, LogAnalysis, WindowAnalysis
from memlens.analyzing.verdict import answer_of, answer_of_log
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.folding.levels import bounds, profile
from memlens.inputs import Reading, expanded, input_name, named_devices
from memlens.options import Analyze, as_list
from memlens.options.keywords import with_keywords
from memlens.results import Deferred, Failure, OnDemand, answered, deferred
from memlens.scheduling.spreading import spread_out
from memlens.trust import trust_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.analyzers.curve import Curve
    from memlens.analyzers.registry import Analyzed
    from memlens.events import EventLog
    from memlens.log import Input
    from memlens.options import ReadAs
    from memlens.replaying.remedy import FailureRemedy
    from memlens.windows.windows import Window


_CUT = "Cut the log with --by REGEX (by=… in Python)."
#: What is said of each step.
_OF_STEPS = ("remaining", "peak")
#: Windows of one of several logs whose results are worked out at once, so that the log itself can be forgotten.
_SETTLED_AT_MOST = 100


def analyze_with(logs: Input | Sequence[Input], options: Analyze) -> Analysis:
    """Say where the memory went, in whole logs or in parts of them.

    Args:
        logs: One log or several: paths (``-`` is standard input), URLs, binary files, or logs already read.  An input with several
            devices is a log for each of them, and a folder stands for the logs in it.
        options: See :class:`memlens.options.Analyze`.

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

    orders = [_Order(given, options, chosen, alone=len(inputs) == 1) for given in inputs]
    found = dict(spread_out(_analyze_input, orders, options, options.progress))
    done: list[LogAnalysis] = []
    failures: list[Failure] = []
    for index, order in enumerate(orders):
        result = found[index]
        if isinstance(result, MemlensError):
            if order.alone:
                raise result
            failures.append(Failure(input_name(order.given), result.message, result.hint))
            continue
        done += (one for one in result if isinstance(one, LogAnalysis))
        failures += (one for one in result if isinstance(one, Failure))
    return answered(Analysis(tuple(done), tuple(failures), options.top, options.min_size), answer_of)


analyze = with_keywords("analyze", analyze_with, Analyze)


class _Order(Struct, frozen=True):
    """An input to be analyzed.

    Attributes:
        given: The input.
        options: What to make of it.
        chosen: The analyzers of windows, and whether to look at growth.
        alone: There is no other input.
    """

    given: Input
    options: Analyze
    chosen: tuple[Sequence[str], bool]
    alone: bool


def _analyze_input(order: _Order) -> tuple[LogAnalysis | Failure, ...]:
    """Analyze each device of one input."""
    from memlens.analyzers import registry
    from memlens.windows.windows import as_patterns

    options = order.options
    marks = as_patterns(as_list(options.owners), regex=True)
    needing = [name for name in order.chosen[0] if not registry.get(name).condensed]
    reading = Reading(
        options.patterns,
        strict=options.strict,
        times=options.times,
        owners=marks,
        how=options,
        landmarks=order.chosen[1],
        most_events=None if needing else options.most_events,
        needed_by=f"the analyzer {needing[0]!r}" if needing else "",
    )
    logs = reading.read_all(order.given)
    alone = order.alone and len(logs) == 1
    found: list[LogAnalysis | Failure] = []
    for log, name, device in named_devices(input_name(order.given), logs):
        try:
            found.append(_analyze_one(log, name, device, options, order.chosen, forget=not alone))
        except AnchorError as error:
            if alone:
                raise
            found.append(Failure(name, error.message, error.hint))
    return tuple(found)


def _analyze_one(
    log: EventLog, name: str, device: str, cut: Analyze, chosen: tuple[Sequence[str], bool], *, forget: bool
) -> LogAnalysis:
    from memlens.analyzers import growth
    from memlens.analyzers.failures.failures import failures, failures_outside
    from memlens.analyzers.series.phases import cut_phases, phases
    from memlens.analyzing.steps import find_steps, share_pass
    from memlens.windows.anchors import landmarks_of
    from memlens.windows.windows import open_window, suspect_anchors

    names, with_growth = chosen
    trust = trust_of(log)
    lists_lives = "lifetimes" in names and cut.top != 0
    windows = cut.windows(log)
    whole = not cut.given
    found = find_steps(log) if whole and with_growth else None
    if whole and found is None and with_growth and not names:
        raise UsageError(f"{name}: growth needs a series of windows, and no lines that count steps were found", _CUT)
    series = windows if cut.series else () if found is None else found.windows
    marks = landmarks_of(log) if with_growth and series else None
    pieces = None if marks is None else cut_phases(series, marks)
    share_pass(log, [windows] if series is windows else [windows, series], pieces)
    analyzed: Sequence[WindowAnalysis] = _analyzed(windows, names, whole=whole)
    repeated = cut.series or (found is not None and found.repeated)
    grown = growth(series, pieces) if with_growth and repeated else None
    steps = None if found is None else found.result(_of_steps(found.windows))
    columns = _figures(windows) if cut.series else {}
    levels = None if forget else deferred(_curve, log, windows, series)
    ooms: Any = deferred(failures, log, windows)
    if forget:
        if len(analyzed) <= _SETTLED_AT_MOST:
            analyzed = tuple(analyzed)  # what makes them holds the log
            for window in analyzed:
                _settle(window, *window.results.values())
        _settle(grown)
        steps = None if steps is None else structs.replace(steps, windows=tuple(map(_light, steps.windows)))
    if forget and trust.distinct_ooms <= _SETTLED_AT_MOST:
        ooms = tuple(failures(log, windows))
        _settle(*ooms)
    analysis = LogAnalysis(
        name,
        trust,
        analyzed,
        grown,
        cut.by,
        warnings=tuple(filter(None, [None if whole else suspect_anchors(windows)])),
        remarks=(
            *filter(None, [open_window(windows)]),
            *failures_outside(log, windows),
            *_not_kept(log, lists_lives=lists_lives, looked_for_steps=whole and with_growth),
        ),
        steps=steps,
        phases=None if pieces is None else phases(pieces),
        curve=levels,
        ooms=ooms,
        remedy=None if forget else deferred(_remedy, log, windows, cut),
        figures=columns,
        device=device,
    )
    return answered(analysis, answer_of_log)


def _figures(windows: Sequence[Window]) -> dict[str, NDArray[Any]]:
    """Figures of all windows of a series by the names of the machine output; one that is not known of all windows has ``None`` among objects."""
    from memlens.analyzers.places import all_elapsed_us

    log, lo, hi = bounds(windows)
    found: dict[str, NDArray[Any]] = {**profile(windows).columns, "events": log.numbers(hi) - log.numbers(lo)}
    if log.time_us is not None and len(log):
        ends = (log.time_us[np.clip(events, 0, len(log) - 1)] for events in (lo, hi - 1))
        lasted = np.where(hi > lo, all_elapsed_us(*ends), -1)
        found["duration_us"] = lasted if (lasted >= 0).all() else np.where(lasted >= 0, lasted, np.array(None))
    return found


def _not_kept(log: EventLog, *, lists_lives: bool, looked_for_steps: bool) -> Iterator[str]:
    """Yield remarks on what a condensed log does not tell."""
    if (condensed := log.condensed) is None:
        return
    if lists_lives and not condensed.lives:
        yield "Which blocks live longest is not known of so many windows: not all events are kept (--event-memory 0 keeps them)."
    if count := condensed.shallow.shape[1]:
        yield (
            f"What is live at the peak is known of the highest windows: of {count:,} lower ones the events are not kept (--event-memory 0 keeps"
            " them)."
        )
    if looked_for_steps and log.landmarks is not None and not log.landmarks.complete:
        yield "Too many lines may mark steps to look for the steps of the run: --by REGEX names those that do."


def _analyzed(windows: Sequence[Window], names: Sequence[str], *, whole: bool = False) -> OnDemand[WindowAnalysis]:
    """Return the results of windows of one log, each made on demand."""
    from memlens.analyzers import registry
    from memlens.analyzers.places import lasting_us

    # One vectorised pass an analyzer, over all windows; nothing below touches events.
    columns = {name: registry.get(name).many(windows) for name in names}

    def one(index: int) -> WindowAnalysis:
        window = windows[index]
        results = Deferred[Mapping[str, Any]](lambda: {name: column[index] for name, column in columns.items()})
        times = deferred(_peak_time, window, results), deferred(lasting_us, window)
        lines = int(window.start_line), int(window.end_line)
        said: Any = results  # worked out when it is asked for
        return WindowAnalysis(window.name, *lines, window.events, said, window.open_end, whole, *times)

    return OnDemand(len(windows), one)


def _of_steps(steps: Sequence[Window]) -> Sequence[WindowAnalysis]:
    """Return the result of each step; of a condensed log, which does not keep the peaks' live blocks, the figures alone."""
    analyzed = _analyzed(steps, _OF_STEPS)
    if steps[0].log.condensed is None:
        return analyzed
    return OnDemand(len(steps), lambda k: _light(analyzed[k]))


def _light(step: WindowAnalysis) -> WindowAnalysis:
    """A step with its figures alone, without what needs its log."""
    peak: Any = step.results["peak"]
    results = {**step.results, "peak": structs.replace(peak, line=peak.line, live=())}
    return structs.replace(step, results=results, peak_time_us=None, duration_us=None)


def _curve(log: EventLog, windows: Sequence[Window], series: Sequence[Window]) -> Curve | None:
    from memlens.analyzers.curve import curve
    from memlens.windows.windows import whole

    return curve(whole(log), series) if series else curve(windows[0])


def _remedy(log: EventLog, windows: Sequence[Window], how: ReadAs) -> FailureRemedy | None:
    from memlens.analyzers.failures import failures

    if not failures(log, windows):
        return None
    from memlens.replaying.remedy import remedy_of

    return remedy_of(log, how)


def _peak_time(window: Window, results: Callable[[], Mapping[str, Analyzed]]) -> int | None:
    from memlens.inputs.paddle.times import times_of

    peaks = [event for result in results().values() if isinstance(event := getattr(result, "event", None), int)]
    indices = window.log.indices(np.array(peaks[:1], np.int64)).tolist()
    return times_of(window.log, indices)[0] if peaks else None


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
