"""Logs read down to the few figures of each that a comparison keeps, by several processes: small enough to come back from them.

Each log is read by one process, but for a large plain log of Paddle: the reader itself shares that out among all processors
(:mod:`memlens.inputs.blocks`).  Such logs are read one after the other by this process, so that neither processes nor logs in memory
multiply.  Where forking is not safe, all logs are read by this process.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from memlens.analyzers.failures import run_ended_in
from memlens.comparing.result import Oom, Run, RunWindow, Status
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.inputs import Input, Reading, input_name, named_devices, without_cpu
from memlens.inputs.blocks import processors
from memlens.inputs.remote import is_url
from memlens.options import Compare, ReadAs
from memlens.trust.report import PEAK_MAY_BE_EARLIER, failures_of
from memlens.windows.windows import Window, open_window, suspect_anchors

if TYPE_CHECKING:
    from memlens.analyzers.curve import Curve
    from memlens.events import EventLog

__all__ = ["Order", "record", "record_all"]

_LOOK_SECONDS = 0.1
#: After a log of more bytes than this memory is tidied up; after each of very many small ones that would cost more than it gives.
_LARGE = 16 << 20
#: A smaller log is read as fast by one process of many.
_SHARED_OUT = 48 << 20
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
    options = replace(order.options, progress=progress)
    # A look at a line or two tells the time of one window; of a series a column of times is cheaper.
    reading = Reading(
        options.patterns, strict=options.strict, times=options.series, how=options, most_events=options.most_events
    )
    try:
        logs, left_out = without_cpu(reading.read_all(order.given))
    except UsageError:
        raise
    except MemlensError as error:
        return Run(order.path, order.fields, _missing(order, error), message=error.message, hint=error.hint)
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


def _missing(order: Order, error: MemlensError) -> Status:
    """``missing`` where there is no such file, a link that leads nowhere included."""
    given = order.given
    if is_url(given):
        return "missing" if error.message.endswith(": no such file") else "unreadable"
    is_path = isinstance(given, (str, os.PathLike)) and str(given) != "-"
    return "missing" if is_path and not os.path.exists(str(given)) else "unreadable"


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

    if not windows:
        return ()
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
    from memlens.analyzers.places import elapsed_us
    from memlens.analyzers.stats import duration_us
    from memlens.inputs.paddle.times import times_of

    if window.log.time_us is not None:
        return duration_us(window)
    return elapsed_us(*times_of(window.log, [window.lo, window.hi - 1])) if len(window) else None


def record_all(
    orders: Sequence[Order], jobs: int | None = None, progress: Callable[[int], None] | None = None
) -> list[Run]:
    """Read logs and keep their figures.

    Args:
        orders: What to read.
        jobs: Read at most so many logs at a time, each in a process of its own; ``None`` is one a processor, 1 reads all in
            this process.
        progress: Called with the bytes read so far, over all logs, as they lie on disk.

    Returns:
        A run each, in their order.

    Raises:
        MemlensError: A process was killed.
        UsageError: The cut makes no sense.
    """
    report = progress or (lambda _: None)
    wanted = min(processors() if jobs is None else jobs, len(orders))
    together = [place for place, order in enumerate(orders) if wanted > 1 and _for_a_worker(order)]
    if len(together) < 2 or not _may_fork():
        together = []
    runs: dict[int, Run] = {}
    counted = 0
    for place in sorted(set(range(len(orders))).difference(together)):

        def add(done: int, before: int = counted) -> None:
            report(before + done)

        runs[place] = record(orders[place], add)
        counted += (size := _size(orders[place]))
        if size > _LARGE:
            gc.collect()  # what the reader's processes leave behind is in cycles, and as large as the log
        report(counted)
    if together:
        found = _in_processes([orders[place] for place in together], min(wanted, len(together)), report, counted)
        runs.update(zip(together, found, strict=True))
    return [runs[place] for place in range(len(orders))]


def _may_fork() -> bool:
    """Whether a child may be forked: elsewhere system libraries forbid it, and a lock of another thread stays locked in it."""
    return sys.platform == "linux" and threading.active_count() == 1


def _for_a_worker(order: Order) -> bool:
    """Whether one process should read a log whole: a regular file, and not one that the reader shares out."""
    given = order.given
    if not isinstance(given, (str, os.PathLike)) or not os.path.isfile(given):
        return False
    return _size(order) < _SHARED_OUT or not _shared_out(os.fspath(given), order.options)


def _shared_out(path: str, how: ReadAs) -> bool:
    """Whether the reader shares a large file out: plain text of Paddle."""
    from memlens.inputs.file_source import open_source
    from memlens.inputs.registry import PADDLE, recognise

    try:
        with closing(open_source(path)) as source:
            return not source.compression and recognise(source, how).format is PADDLE
    except MemlensError:  # reported when it is read
        return True


def _size(order: Order) -> int:
    try:
        return os.path.getsize(order.given) if isinstance(order.given, (str, os.PathLike)) else 0
    except (OSError, ValueError):
        return 0


class _Worker:
    """What workers, which are forked, share with their parent: the bytes read by all of them so far."""

    read: Any = None


def _in_processes(orders: Sequence[Order], workers: int, report: Callable[[int], None], before: int) -> list[Run]:
    # Imported here, since two small logs on one processor need none of this.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    fork = multiprocessing.get_context("fork")
    read = _Worker.read = fork.Value("q", 0)
    with warnings.catch_warnings():
        # The threads that Python warns of are those of a linear algebra library, idle, and not used by the workers.
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
        # Ctrl-C goes to all processes of a terminal; this one alone answers it.
        pool = ProcessPoolExecutor(workers, fork, signal.signal, (signal.SIGINT, signal.SIG_IGN))
        try:
            futures = [pool.submit(_record_here, order) for order in orders]
            waiting = set(futures)
            while waiting:
                done, waiting = wait(waiting, _LOOK_SECONDS, "FIRST_EXCEPTION")
                report(before + read.value)
                for future in done:
                    future.result()  # one that failed ends them all
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise MemlensError(
                "a process that read some of the logs was ended from outside",
                "Perhaps memory ran out; the system log says. --jobs 1 reads one log at a time.",
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _record_here(order: Order) -> Run:
    """In a worker: read one log, and add what is read to what all workers have read."""
    counted = 0

    def add(done: int) -> None:
        nonlocal counted
        with _Worker.read.get_lock():
            _Worker.read.value += done - counted
        counted = done

    run = record(order, add)
    add(_size(order))
    return run
