"""Logs read down to the few figures of each that a comparison keeps: small enough to come back from other processes.

A few ranks are read once more: what is live at the peak of those that stand out and of the ranks they are compared with, and how the first one failed.
"""

from __future__ import annotations

from collections import Counter
from statistics import median_low
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from memlens.analyzers.failures import failures
from memlens.analyzers.failures.failures import MemoryFailure, run_ended_in
from memlens.analyzers.failures.words import most_telling
from memlens.analyzers.peak import peak
from memlens.comparing.figures import METRICS, Oom, Run, RunWindow, Status
from memlens.comparing.ranks import HeldMore, Outlier, Ranks
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.facts import Kind
from memlens.inputs import Reading, input_name, named_devices, without_cpu
from memlens.inputs.paddle.times import times_of
from memlens.options import Compare
from memlens.scheduling.spreading import on_all_processors, spread_out
from memlens.text import LINES, Terms, innermost, terms_of
from memlens.trust.report import PEAK_MAY_BE_EARLIER, allocs_before, failures_of, trust_of
from memlens.windows.windows import BEFORE, NEVER, Window, judged, open_window, suspect_anchors, whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlens.analyzers.curve import Curve
    from memlens.log import Input, Log


_ALWAYS = ("alloc_bytes", "allocs", "free_bytes", "frees")
_OF_BLOCKS = ("peak_bytes", "rise_bytes", "live_bytes", "remaining_bytes", "carried_in_bytes")
_OF_CHUNKS = ("reserved_peak_bytes",)
#: Of so many ranks that stand out by their peak, the farthest, it is told what they hold that their peers do not.
_READ_AGAIN = 32
#: Characters of an owner that are kept.
_OF_OWNER = 200
#: Groups of blocks that are listed, the largest.
_MOST_HELD = 10
#: How many blocks of each size and owner.
Held: TypeAlias = "Counter[tuple[int, str | None]]"


class Order(Struct, frozen=True):
    """A log to be read, and how.

    Attributes:
        given: A path, or anything else that can be read.
        options: Where to cut it, and what to read it as.
        fields: What stands where the template has fields.
        of_job: It is of one of the ranks of a job: of a series only its own median window is kept.
    """

    given: Input
    options: Compare = field(default_factory=Compare)
    fields: Mapping[str, str] = {}
    of_job: bool = False

    @property
    def path(self) -> str:
        """The log as it was named."""
        return input_name(self.given)


def record(order: Order) -> tuple[Run, ...]:
    """Read one log and keep its figures; what cannot be read is a run with a status and no figures.

    Of an input with several devices each GPU is a run; the CPU beside them is left out with a remark.

    Args:
        order: What to read.

    Raises:
        UsageError: The cut makes no sense.
    """
    try:
        logs, left_out = read_logs(order)
    except UsageError:
        raise
    except MemlensError as error:
        gone: Status = "missing" if error.message.endswith("no such file") else "unreadable"
        return (Run(order.path, order.fields, gone, message=error.message, hint=error.hint),)
    except MemoryError:
        message = "not enough memory for this log"
        return (Run(order.path, order.fields, "unreadable", message=message, hint="Try --jobs 1."),)
    return tuple(_recorded(name, log, order, left_out) for log, name, _ in named_devices(order.path, logs))


def read_logs(order: Order) -> tuple[Sequence[Log], tuple[str, ...]]:
    """The log of each device of an input, without the CPU beside GPUs, and that this was left out.

    Raises:
        MemlensError: It cannot be read.
    """
    options = order.options
    # A look at a line or two tells the time of one window; of a series a column of times is cheaper.
    reading = Reading(
        options.patterns, strict=options.strict, times=options.series, how=options, most_events=options.most_events
    )
    return without_cpu(reading.read_all(order.given))


def _recorded(path: str, log: Log, order: Order, left_out: tuple[str, ...]) -> Run:
    """The figures of one device's log."""
    cut, oom, opening, trust = order.options, _ending(log), log.facts.opening, trust_of(log)
    begins, ends = times_of(log, [opening, len(log) - 1]) if len(log) > opening else (None, None)
    run = Run(
        path,
        order.fields,
        "ok" if oom is None else "oom",
        doubts=tuple(doubt.code for doubt in trust.doubts),
        remarks=left_out,
        oom=oom,
        ooms=trust.distinct_ooms,
        device=log.device,
        allocs=allocs_before(log, [NEVER])[0] - _opening_blocks(log),
        begins_us=begins,
        ends_us=ends,
    )
    try:
        windows = cut.windows(log)
    except AnchorError as error:
        status: Status = "no_window" if oom is None else "oom"
        return replace(run, status=status, message=error.message, hint=error.hint)
    late = suspect_anchors(windows) if cut.given else None
    earlier = PEAK_MAY_BE_EARLIER if trust.peak_may_be_earlier else None
    figures = _figures(windows, oom)
    return replace(
        run,
        windows=(typical_of(_counted(figures)),) if order.of_job and cut.series else figures,
        notes=tuple(filter(None, [late])),
        remarks=(*filter(None, [open_window(windows), earlier]), *left_out),
        curve=_curve(windows, cut),
    )


def _curve(windows: Sequence[Window], options: Compare) -> Curve | None:
    """The levels of the only window, or of all of a log with its windows marked."""
    from memlens.analyzers.curve import curve

    if not options.buckets or not windows[0].log.tells_of_blocks:
        return None
    series = options.series
    return curve(whole(windows[0].log) if series else windows[0], windows if series else (), options.buckets)


def _ending(log: Log) -> Oom | None:
    """The out-of-memory failure that the run ended in."""
    found = failures_of(log)
    endings = [failure for failure, ended in zip(found, run_ended_in(log, found), strict=True) if ended]
    if not endings:
        return None
    asked = (failure.asked_bytes for failure in endings if failure.asked_bytes is not None)
    first = endings[0]
    last = int(log.offset.searchsorted(first.offset)) - 1
    time = times_of(log, [last])[0] if last >= log.facts.opening else None
    allocs = allocs_before(log, [first.offset])[0] - _opening_blocks(log)
    return Oom(next(asked, None), first.device, first.line, time, allocs)


def _opening_blocks(log: Log) -> int:
    return int(np.count_nonzero(log.kind[: log.facts.opening] == Kind.ALLOC))


def _counted(windows: Sequence[RunWindow]) -> Sequence[RunWindow]:
    """The windows of a run that count: not what precedes the first one, an open one, or one that ended out of memory, where there are others."""
    closed = (window for window, counts in zip(windows, judged(windows), strict=True) if counts)
    return [window for window in closed if window.name != BEFORE and not window.oom] or windows


def middle_window(log: Log, options: Compare) -> Window:
    """The only window of a log, or that of a series whose peak is the median.

    Raises:
        AnchorError: It has no such window.
    """
    windows = options.windows(log)
    figures = _figures(windows, _ending(log))
    return windows[figures.index(_middle_of(_counted(figures)))]


def _middle_of(windows: Sequence[RunWindow]) -> RunWindow:
    """The window whose peak is the lower median of all."""
    return sorted(windows, key=lambda window: window.peak_bytes or 0)[(len(windows) - 1) // 2]


def typical_of(windows: Sequence[RunWindow]) -> RunWindow:
    """The window in the middle with the lower median of each figure: one that some window has, exact, and of no size that none has."""
    figures = {}
    for metric in METRICS:
        values = [value for window in windows if (value := window.figure(metric)) is not None]
        figures[metric.key] = median_low(values) if values else None
    return replace(_middle_of(windows), **figures)


def _figures(windows: Sequence[Window], oom: Oom | None) -> tuple[RunWindow, ...]:
    """The figures of windows of one log, from one pass over it."""
    from memlens.folding.levels import profile

    log, found = windows[0].log, profile(windows)
    names = [*_ALWAYS, *(_OF_BLOCKS if log.tells_of_blocks else ()), *(_OF_CHUNKS if log.tells_of_chunks else ())]
    known = {name: found[name].tolist() for name in names}
    return tuple(
        RunWindow(
            window.name,
            int(window.start_line),
            int(window.end_line),
            window.events,
            **{name: column[k] for name, column in known.items()},
            duration_us=_duration(window),
            oom=oom is not None and window.start_line <= oom.line <= window.end_line,
            open_end=window.open_end,
        )
        for k, window in enumerate(windows)
    )


def _duration(window: Window) -> int | None:
    """From the first event of a window to its last, in microseconds."""
    from memlens.analyzers.places import lasting_us
    from memlens.analyzers.stats import duration_us

    return lasting_us(window) if window.log.time_us is None else duration_us(window)


def record_all(orders: Sequence[Order], options: Compare) -> list[tuple[Run, ...]]:
    """Read logs and keep their figures.

    Args:
        orders: What to read.
        options: Who reads it, and who is told of the bytes read so far, over all logs.

    Returns:
        The runs of each, in their order; what cannot be read is a run with a status and no figures.

    Raises:
        UsageError: The cut makes no sense.
        MemlensError: The executor cannot be had.
    """
    runs: dict[int, tuple[Run, ...]] = {}
    for index, found in spread_out(record, orders, on_all_processors(options, len(orders)), options.progress):
        order = orders[index]
        if isinstance(found, MemlensError):
            found = (Run(order.path, order.fields, "unreadable", message=found.message, hint=found.hint),)  # noqa: PLW2901
        runs[index] = found
    return [runs[index] for index in range(len(orders))]


# --- a few ranks read once more ---


class Details(Struct, frozen=True):
    """One rank's largest groups and its failure, beside its figures.

    Attributes:
        held: The blocks live at its peak; ``None`` where these are not known.
        failure: How it ran out of memory, without lists of blocks; ``None`` where it did not.
        terms: What the lines of its input are called.
    """

    held: Held | None = None
    failure: MemoryFailure | None = None
    terms: Terms = LINES


def with_details(
    outliers: Sequence[Outlier], ranks: Ranks, orders: Mapping[str, Order], options: Compare
) -> tuple[list[Outlier], Ranks]:
    """The same with what ranks hold that their peers do not, and with the first failure.

    Args:
        outliers: The ranks that stand out, the farthest first.
        ranks: What else is said of them.
        orders: By the path of each rank how its log is read.
        options: Who reads them.
    """
    highest = [one for one in outliers if one.metric == "peak_bytes" and one.off > 0][:_READ_AGAIN]
    first = ranks.first_failure
    paths = [path for one in highest for path in (one.path, one.median_path)]
    paths = [*dict.fromkeys([*paths, *([] if first is None else [first.path])])]
    again, known = [orders[path] for path in paths], {}
    for index, found in spread_out(_details_of, again, on_all_processors(options, len(again)), None):
        if not isinstance(found, MemlensError):
            known[paths[index]] = found
    if first is not None and (failed := known.get(first.path)) is not None:
        ranks = replace(ranks, first_failure=replace(first, failure=failed.failure, terms=failed.terms))
    holds = {id(one): _holds_more(known.get(one.path), known.get(one.median_path)) for one in highest}
    return [replace(one, holds=holds.get(id(one), ())) for one in outliers], ranks


def _details_of(order: Order) -> Details:
    """Read a log for its details, in a worker: one that has one device, or of which one was named.

    Raises:
        MemlensError: It cannot be read any more.
    """
    (log,), _ = read_logs(order)
    found = failures(log)
    failure = None
    if found:
        one = found[most_telling(found)]
        failure = replace(one, live=(), youngest=None, oldest=None, owner=_short(one.owner))
    return Details(_held(log, order), failure, terms_of(log.facts.has_lines))


def _held(log: Log, order: Order) -> Held | None:
    try:
        highest = peak([middle_window(log, order.options)])[0]
    except AnchorError:  # it failed before
        return None
    held: Held = Counter()
    for group in highest.live:
        held[group.size_bytes, _short(group.owner)] += group.count
    return held if held or not highest.peak_bytes else None


def _short(owner: str | None) -> str | None:
    """An operator, or the innermost frame of a call stack."""
    return None if owner is None else innermost(owner)[:_OF_OWNER]


def _holds_more(rank: Details | None, median_rank: Details | None) -> tuple[HeldMore, ...]:
    """The groups that a rank holds more of at its peak than another one, the most bytes first; nothing where either is not known."""
    own, usual = (None if one is None else one.held for one in (rank, median_rank))
    if own is None or usual is None:
        return ()
    more = (HeldMore(size, blocks, size * blocks, owner) for (size, owner), blocks in (own - usual).items())
    return tuple(sorted(more, key=lambda one: (-one.more_bytes, -one.size_bytes, one.owner or "")))[:_MOST_HELD]
