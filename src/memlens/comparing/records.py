"""One log, read down to the few figures of it that a comparison keeps: small enough to come back from another process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from memlens.comparing.result import Oom, Run, RunWindow, Status
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.events import EventLog, Kind
from memlens.inputs import Reading, device_label, input_name, without_cpu
from memlens.inputs.remote import is_url
from memlens.options import Cut, ReadAs
from memlens.trust.report import PEAK_MAY_BE_EARLIER

if TYPE_CHECKING:
    from memlens.facts import OutOfMemory
    from memlens.inputs import Input
    from memlens.windows.windows import Window

__all__ = ["Order", "record"]

#: A run ended in an out-of-memory failure where at most one in so many of its allocations comes after the message: what the
#: process still allocates while it goes down.  A run that caught the failure and went on allocates far more.
_STILL_GOING = 100


@dataclass(frozen=True)
class Order:
    """A log to be read, and how.

    Attributes:
        given: A path, or anything else that can be read.
        cut: Where to cut it.
        strict: A log that is cut short is an error.
        fields: What stands where the template has fields.
        how: The format and the device, where they are given.
    """

    given: Input
    cut: Cut = field(default_factory=Cut)
    strict: bool = False
    fields: Mapping[str, str] = field(default_factory=dict)
    how: ReadAs = field(default_factory=ReadAs)

    @property
    def path(self) -> str:
        """The log as it was named."""
        return input_name(self.given)


def record(order: Order, progress: Callable[[int], None] | None = None) -> Run:
    """Read one log and keep its figures; what cannot be read is a run with a status and no figures.

    Of an input with several devices each GPU is a run, the first one with the others as its ``further`` ones; the CPU beside
    them is left out with a remark.

    Args:
        order: What to read.
        progress: Called with the bytes of it read so far, as they lie on disk.

    Raises:
        UsageError: The cut makes no sense.
    """
    cut = order.cut
    # A look at a line or two tells the time of one window; of a series a column of times is cheaper.
    reading = Reading(cut.patterns, strict=order.strict, times=cut.series, progress=progress, how=order.how)
    try:
        logs, left_out = without_cpu(reading.read_all(order.given))
    except UsageError:
        raise
    except MemlensError as error:
        return _without_figures(order, _missing(order, error), error.message, error.hint)
    except MemoryError:
        return _without_figures(order, "unreadable", "not enough memory for this log", "Try --jobs 1.")
    runs = [
        replace(
            run,
            path=f"{run.path} {device_label(log)}" if len(logs) > 1 else run.path,
            device=log.device,
            remarks=(*run.remarks, *left_out),
        )
        for log in logs
        for run in [_recorded(order, log)]
    ]
    return replace(runs[0], further=tuple(runs[1:]))


def _recorded(order: Order, log: EventLog) -> Run:
    """The figures of one device's log."""
    from memlens.windows.windows import open_window, suspect_anchors

    cut, run = order.cut, _judged(order, log)
    try:
        windows = cut.windows(log)
    except AnchorError as error:
        status: Status = "no_window" if run.oom is None else "oom"
        return replace(run, status=status, message=error.message, hint=error.hint)
    doubt = suspect_anchors(windows) if cut.given else None
    return replace(
        run,
        windows=_figures(windows, run.oom),
        notes=() if doubt is None else (doubt,),
        remarks=(
            *filter(None, [open_window(windows)]),
            *((PEAK_MAY_BE_EARLIER,) if log.trust.peak_may_be_earlier else ()),
        ),
    )


def _judged(order: Order, log: EventLog) -> Run:
    """The run without its windows: whether to trust it, and what it ended in."""
    endings, trust = _ending_messages(log), log.trust
    asked = (message.requested_bytes for message in endings)
    oom = None
    if endings:
        first = endings[0]
        oom = Oom(next((size for size in asked if size is not None), None), first.device, first.line)
    return Run(
        order.path,
        order.fields,
        "ok" if oom is None else "oom",
        doubts=tuple(doubt.code for doubt in trust.doubts),
        oom=oom,
        ooms=trust.distinct_ooms,
    )


def _without_figures(order: Order, status: Status, message: str, hint: str) -> Run:
    return Run(order.path, order.fields, status, (), message, hint)


def _missing(order: Order, error: MemlensError) -> Status:
    """``missing`` where there is no such file, a link that leads nowhere included."""
    given = order.given
    if is_url(given):
        return "missing" if error.message.endswith(": no such file") else "unreadable"
    is_path = isinstance(given, (str, os.PathLike)) and str(given) != "-"
    return "missing" if is_path and not os.path.exists(str(given)) else "unreadable"


def _ending_messages(log: EventLog) -> Sequence[OutOfMemory]:
    """The out-of-memory messages after which hardly anything is allocated: what the run ended in."""
    ooms = log.facts.ooms
    if not ooms:
        return ()
    allocs = np.flatnonzero(log.kind == Kind.ALLOC)
    before = np.searchsorted(log.offset[allocs], [oom.offset for oom in ooms]).tolist()
    return [oom for oom, count in zip(ooms, before, strict=True) if (len(allocs) - count) * _STILL_GOING <= len(allocs)]


def _figures(windows: Sequence[Window], oom: Oom | None) -> tuple[RunWindow, ...]:
    """The figures of windows of one log, from one pass over it."""
    from memlens.analyzers.levels import profile

    if not windows:
        return ()
    found = profile(windows)
    blocks, chunks = windows[0].log.tells_of_blocks, windows[0].log.tells_of_chunks
    rise, reserved = found.rise[0].tolist(), (found.levels[1] + found.rise[1]).tolist()
    carried = found.levels[0].tolist()
    sums = {name: found[name].tolist() for name in ("alloc_bytes", "allocs", "free_bytes", "frees")}
    left = [taken - given for taken, given in zip(sums["alloc_bytes"], sums["free_bytes"], strict=True)]
    times = _durations(windows)
    return tuple(
        RunWindow(
            window.name,
            int(window.start_line),
            int(window.end_line),
            len(window),
            peak_bytes=carried[k] + rise[k] if blocks else None,
            rise_bytes=rise[k] if blocks else None,
            reserved_peak_bytes=reserved[k] if chunks else None,
            live_bytes=carried[k] + left[k] if blocks else None,
            remaining_bytes=left[k] if blocks else None,
            carried_in_bytes=carried[k] if blocks else None,
            alloc_bytes=sums["alloc_bytes"][k],
            allocs=sums["allocs"][k],
            free_bytes=sums["free_bytes"][k],
            frees=sums["frees"][k],
            duration_us=times[k],
            oom=oom is not None and window.start_line <= oom.line <= window.end_line,
            open_end=window.open_end,
        )
        for k, window in enumerate(windows)
    )


def _durations(windows: Sequence[Window]) -> list[int | None]:
    """From the first event of each window to its last, in microseconds."""
    from memlens.analyzers.places import elapsed_us
    from memlens.analyzers.stats import duration_us
    from memlens.inputs.paddle.times import times_of

    log = windows[0].log
    if log.time_us is not None:
        return [duration_us(log, window.lo, window.hi) for window in windows]
    return [elapsed_us(*times_of(log, [window.lo, window.hi - 1])) if len(window) else None for window in windows]
