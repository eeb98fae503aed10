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

from memlens.comparing.result import Oom, Run, RunWindow, Status
from memlens.errors import AnchorError, MemlensError, UsageError
from memlens.inputs import Reading, device_label, input_name, without_cpu
from memlens.inputs.blocks import processors
from memlens.inputs.remote import is_url
from memlens.options import Compare
from memlens.trust.report import PEAK_MAY_BE_EARLIER, failures_of

if TYPE_CHECKING:
    from memlens.events import EventLog
    from memlens.inputs import Input
    from memlens.options import ReadAs
    from memlens.windows.windows import Window

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
    reading = Reading(options.patterns, strict=options.strict, times=options.series, how=options)
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

    cut, run = order.options, _judged(order, log)
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
    from memlens.analyzers.failures import run_ended_in

    found, trust = failures_of(log), log.trust
    endings = [failure for failure, ended in zip(found, run_ended_in(log, found), strict=True) if ended]
    asked = (failure.asked_bytes for failure in endings)
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


def _figures(windows: Sequence[Window], oom: Oom | None) -> tuple[RunWindow, ...]:
    """The figures of windows of one log, from one pass over it."""
    from memlens.analyzers.levels import profile

    if not windows:
        return ()
    log, found = windows[0].log, profile(windows)
    known = {name: found[name].tolist() for name in _ALWAYS}
    known |= {name: found[name].tolist() for name in _OF_BLOCKS if log.tells_of_blocks}
    known |= {name: found[name].tolist() for name in _OF_CHUNKS if log.tells_of_chunks}
    return tuple(
        RunWindow(
            window.name,
            int(window.start_line),
            int(window.end_line),
            len(window),
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
    runs: list[Run | None] = [None] * len(orders)
    wanted = min(processors() if jobs is None else jobs, len(orders))
    together = [place for place, order in enumerate(orders) if wanted > 1 and _for_a_worker(order)]
    if len(together) < 2 or not _may_fork():
        together = []
    counted = 0
    for place in sorted(set(range(len(orders))).difference(together)):

        def add(done: int, before: int = counted) -> None:
            if progress is not None:
                progress(before + done)

        runs[place] = record(orders[place], add)
        counted += _size(orders[place])
        if _size(orders[place]) > _LARGE:
            gc.collect()  # what the reader's processes leave behind is in cycles, and as large as the log
        add(counted, 0)
    if together:
        found = _in_processes([orders[place] for place in together], min(wanted, len(together)), progress, counted)
        for place, run in zip(together, found, strict=True):
            runs[place] = run
    return [run for run in runs if run is not None]


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
        with closing(open_source(path)) as source, closing(source.open()) as stream:
            if stream.compression:
                return False
        with closing(open_source(path)) as source:
            return recognise(source, how).format is PADDLE
    except MemlensError:  # reported when it is read
        return True


def _size(order: Order) -> int:
    try:
        return os.path.getsize(order.given) if isinstance(order.given, (str, os.PathLike)) else 0
    except (OSError, ValueError):
        return 0


class _Worker:
    """What a worker shares with its parent: the bytes read by all workers so far."""

    read: Any = None


def _in_processes(
    orders: Sequence[Order], workers: int, progress: Callable[[int], None] | None, before: int
) -> list[Run]:
    # Imported here, since two small logs on one processor need none of this.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    fork = multiprocessing.get_context("fork")
    read = fork.Value("q", 0)
    with warnings.catch_warnings():
        # The threads that Python warns of are those of a linear algebra library, idle, and not used by the workers.
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
        pool = ProcessPoolExecutor(workers, fork, _begin, (read,))
        try:
            futures = [pool.submit(_record_here, order) for order in orders]
            waiting = set(futures)
            while waiting:
                _, waiting = wait(waiting, None if progress is None else _LOOK_SECONDS, "FIRST_EXCEPTION")
                if progress is not None:
                    progress(before + read.value)
                if any(future.done() and future.exception() for future in futures):
                    break
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise MemlensError(
                "a process that read some of the logs was ended from outside",
                "Perhaps memory ran out; the system log says. --jobs 1 reads one log at a time.",
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(read: Any) -> None:
    """In a new worker.  Ctrl-C goes to all processes of a terminal; the parent alone answers it."""
    _Worker.read = read
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
