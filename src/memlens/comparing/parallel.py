"""Many logs read by several processes, each log by one of them; only their few figures come back.

A large plain log of Paddle is different: the reader itself shares it out among all processors (:mod:`memlens.inputs.blocks`).  Such logs
are read one after the other by this process, so that neither processes nor logs in memory multiply.  Where forking is not
safe, all logs are read by this process.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from memlens.comparing.records import Order, record
from memlens.errors import MemlensError
from memlens.inputs.blocks import processors

if TYPE_CHECKING:
    from memlens.comparing.result import Run
    from memlens.options import ReadAs

__all__ = ["record_all"]

_LOOK_SECONDS = 0.1
#: After a log of more bytes than this memory is tidied up; after each of very many small ones that would cost more than it gives.
_LARGE = 16 << 20
#: A smaller log is read as fast by one process of many.
_SHARED_OUT = 48 << 20


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
    return _size(order) < _SHARED_OUT or not _shared_out(os.fspath(given), order.how)


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
    except MemlensError:  # said when it is read
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
