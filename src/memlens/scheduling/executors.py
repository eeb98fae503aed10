"""The executors that jobs are run by: one that the caller has, a Dask cluster, or processes of this machine."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from memlens.errors import MemlensError, UsageError
from memlens.inputs.blocks import processors

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from memlens.options import Spread

__all__ = ["Counted", "LocalProcesses", "count_here", "may_fork", "opened"]

Args = ParamSpec("Args")
Result = TypeVar("Result")

#: How long to wait for a cluster to answer, and for a worker of it to be there.
_CONNECT_SECONDS, _WORKER_SECONDS = 30, 60


#: Loggers of Dask and of what it stands on that print what a client meets.
_LOUD = ("distributed.client", "distributed.core", "distributed.utils_comm", "tornado.application")


@contextmanager
def opened(spread: Spread) -> Iterator[Executor | None]:
    """The executor that options ask for; what was started for them ends with the block.

    Yields:
        An executor, or ``None``: the logs are read by this process, one after another.

    Raises:
        UsageError: A scheduler that is none, or several at once.
        MemlensError: The cluster does not answer, or has no worker.
    """
    if spread.jobs is not None and spread.jobs < 1:
        raise UsageError(f"{spread.jobs} jobs read nothing", "Give 1 or more.")
    if spread.executor is not None and (spread.scheduler is not None or spread.jobs is not None):
        raise UsageError("executor excludes scheduler and jobs", "It has workers of its own.")
    if spread.jobs is not None and spread.scheduler not in (None, "local"):
        raise UsageError("--jobs and a cluster exclude each other", "A cluster has workers of its own.")
    if spread.executor is not None:
        yield spread.executor
    elif spread.scheduler == "local" or (spread.jobs or 1) > 1:
        workers = spread.jobs or processors()
        if spread.scheduler is None and not may_fork():
            yield None
            return
        with LocalProcesses(workers) as pool:
            yield pool
    elif spread.scheduler is not None:
        with _dask(spread.scheduler) as executor:
            yield executor
    else:
        yield None


def may_fork() -> bool:
    """Whether a child may be forked: elsewhere system libraries forbid it, and a lock of another thread stays locked in it."""
    return sys.platform == "linux" and threading.active_count() == 1


class LocalProcesses(Executor):
    """Processes of this machine, forked where that is safe; all of them end with it, whatever they do, and new ones start with the next job.

    Args:
        workers: How many.

    Attributes:
        ahead: How many jobs to hand to it before one of them is done: at most so many are lost at once when it breaks.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._read: Any = None
        self.ahead = 2 * workers  # one that runs, and one to go on with
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, work: Callable[Args, Result], /, *args: Args.args, **keywords: Args.kwargs) -> Future[Result]:
        with warnings.catch_warnings():
            # The threads that Python warns of are those of a linear algebra library, idle, and not used by the workers.
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            if self._pool is None:
                self._pool = self._started()
            return self._pool.submit(work, *args, **keywords)

    def _started(self) -> ProcessPoolExecutor:
        # Imported here, since two small logs on one processor need none of this.
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        context: Any = multiprocessing.get_context("fork" if may_fork() else "spawn")
        self._read = context.Value("q", 0)
        return ProcessPoolExecutor(self._workers, context, _begin, (self._read,))

    @property
    def reading(self) -> int:
        """The bytes read so far of the logs that are being read, as they lie on disk."""
        return 0 if self._read is None else int(self._read.value)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:  # noqa: ARG002
        """End the processes, in the midst of what they do."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        # What they are at is wanted no more; a log may take minutes.
        for process in list((pool._processes or {}).values()):  # noqa: SLF001  has a name from Python 3.14 on
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


class _Here:
    """What a process of ours shares with its parent: the bytes read by all of them of the logs that they are at."""

    read: Any = None


class Counted:
    """The bytes that a worker has read of its log; called with each new figure."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self, done: int) -> None:
        if _Here.read is not None:
            with _Here.read.get_lock():
                _Here.read.value += done - self.bytes
        self.bytes = done


@contextmanager
def count_here() -> Iterator[Counted]:
    """In a worker: count the bytes of a log while the block reads it, for whoever shows progress."""
    count = Counted()
    try:
        yield count
    finally:
        if _Here.read is not None:
            with _Here.read.get_lock():
                _Here.read.value -= count.bytes


def _begin(read: Any) -> None:
    """In a process of ours: leave Ctrl-C, which goes to all processes of a terminal, to the parent, and end with it."""
    import multiprocessing

    _Here.read = read
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _dask(address: str) -> Iterator[Executor]:
    """A Dask cluster that exists.

    Raises:
        UsageError: No such address.
        MemlensError: Dask is not installed, or the cluster does not answer or has no worker.
    """
    if "://" not in address:
        raise UsageError(
            f"{address!r} is no scheduler", "Give the address of a Dask cluster, tcp://HOST:8786, or local."
        )
    try:
        from distributed import Client
    except ImportError:
        raise MemlensError(
            "a Dask cluster needs the package distributed", "Install it with: pip install 'memlens[dask]'."
        ) from None
    import logging

    # What goes wrong is said of the logs that it costs; Dask would print tracebacks between the lines of a terminal.
    loud = {logger: logger.level for logger in map(logging.getLogger, _LOUD)}
    for logger in loud:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with _connected(Client, address) as executor:
            yield executor
    finally:
        for logger, level in loud.items():
            logger.setLevel(level)


@contextmanager
def _connected(connect: Any, address: str) -> Iterator[Executor]:
    try:
        _answers(address)
        client = connect(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # noqa: BLE001  each kind of address fails in its own ways; a time-out is an OSError
        raise MemlensError(
            f"{address}: no Dask scheduler answers: {error}", "Its log says its address; dask scheduler starts one."
        ) from None
    try:
        try:
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except OSError:
            raise MemlensError(
                f"{address}: the cluster has no worker, and none came in {_WORKER_SECONDS} seconds",
                f"Start some: dask worker {address}.",
            ) from None
        yield client.get_executor(pure=False)
    finally:
        client.close()


def _answers(address: str) -> None:
    """Connect to a scheduler and leave: a client of an address that is none waits for its own end, and writes a traceback then."""
    from distributed.comm import connect
    from distributed.security import Security
    from distributed.utils import LoopRunner, sync

    how, runner = Security().get_connection_args("client"), LoopRunner(asynchronous=False)
    runner.start()
    try:
        sync(runner.loop, sync(runner.loop, connect, address, timeout=_CONNECT_SECONDS, **how).close)
    finally:
        runner.stop()
