"""Logs read down to the few figures of each that a comparison keeps: small enough to come back from other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memlens.analyzers.failures import run_ended_in
from memlens.comparing.result import Oom, Run, RunWindow, Status
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.inputs import Input, Reading, input_name, named_devices, without_cpu
from memlens.options import Compare
from memlens.scheduling.spreading import on_all_processors, spread_out
from memlens.trust.report import PEAK_MAY_BE_EARLIER, failures_of
from memlens.windows.windows import Window, open_window, suspect_anchors

if TYPE_CHECKING:
    from memlens.analyzers.curve import Curve
    from memlens.events import EventLog

__all__ = ["Order", "record", "record_all"]

_ALWAYS = ("alloc_bytes", "allocs", "free_bytes", "frees")
_OF_BLOCKS = ("peak_bytes", "rise_bytes", "live_bytes", "remaining_bytes", "carried_in_bytes")
_OF_CHUNKS = ("reserved_peak_bytes",)


@dataclass(frozen=True)
class Order:
    """A log to be read, and how.

    Attributes:
        given: A path, or anything else that can be read.
        options: Where to cut it, and what to read it as.
        fields: What stands where the template has fields.
    """

    given: Input
    options: Compare = field(default_factory=Compare)
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The log as it was named."""
        return input_name(self.given)


def record(order: Order) -> Run:
    """Read one log and keep its figures; what cannot be read is a run with a status and no figures.

    Of an input with several devices each GPU is a run, the first one with the others as its ``further`` ones; the CPU beside
    them is left out with a remark.

    Args:
        order: What to read.

    Raises:
        UsageError: The cut makes no sense.
    """
    options = order.options
    # A look at a line or two tells the time of one window; of a series a column of times is cheaper.
    reading = Reading(
        options.patterns, strict=options.strict, times=options.series, how=options, most_events=options.most_events
    )
    try:
        logs, left_out = without_cpu(reading.read_all(order.given))
    except UsageError:
        raise
    except MemlensError as error:
        gone: Status = "missing" if error.message.endswith("no such file") else "unreadable"
        return Run(order.path, order.fields, gone, message=error.message, hint=error.hint)
    except MemoryError:
        message = "not enough memory for this log"
        return Run(order.path, order.fields, "unreadable", message=message, hint="Try --jobs 1.")
    run, *further = (_recorded(name, log, order, left_out) for log, name, _ in named_devices(order.path, logs))
    return replace(run, further=tuple(further))


def _recorded(path: str, log: EventLog, order: Order, left_out: tuple[str, ...]) -> Run:
    """The figures of one device's log."""
    cut, oom = order.options, _ending(log)
    run = Run(
        path,
        order.fields,
        "ok" if oom is None else "oom",
        doubts=tuple(doubt.code for doubt in log.trust.doubts),
        remarks=left_out,
        oom=oom,
        ooms=log.trust.distinct_ooms,
        device=log.device,
    )
    try:
        windows = cut.windows(log)
    except AnchorError as error:
        status: Status = "no_window" if oom is None else "oom"
        return replace(run, status=status, message=error.message, hint=error.hint)
    late = suspect_anchors(windows) if cut.given else None
    earlier = PEAK_MAY_BE_EARLIER if log.trust.peak_may_be_earlier else None
    return replace(
        run,
        windows=_figures(windows, oom),
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
    return curve(windows[0].log.whole if series else windows[0], windows if series else (), options.buckets)


def _ending(log: EventLog) -> Oom | None:
    """The out-of-memory failure that the run ended in."""
    found = failures_of(log)
    endings = [failure for failure, ended in zip(found, run_ended_in(log, found), strict=True) if ended]
    if not endings:
        return None
    asked = (failure.asked_bytes for failure in endings if failure.asked_bytes is not None)
    return Oom(next(asked, None), endings[0].device, endings[0].line)


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


def record_all(orders: Sequence[Order], options: Compare) -> list[Run]:
    """Read logs and keep their figures.

    Args:
        orders: What to read.
        options: Who reads it, and who is told of the bytes read so far, over all logs.

    Returns:
        A run each, in their order; what cannot be read is a run with a status and no figures.

    Raises:
        UsageError: The cut makes no sense.
        MemlensError: The executor cannot be had.
    """
    runs: dict[int, Run] = {}
    for index, found in spread_out(record, orders, on_all_processors(options, len(orders)), options.progress):
        order = orders[index]
        if isinstance(found, MemlensError):
            found = Run(order.path, order.fields, "unreadable", message=found.message, hint=found.hint)  # noqa: PLW2901
        runs[index] = found
    return [runs[index] for index in range(len(orders))]
