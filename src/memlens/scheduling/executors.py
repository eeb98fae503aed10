"""The executors that read several logs: one of the caller's, a Dask cluster, or processes of this machine."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

from memlens.errors import MemlensError, UsageError
from memlens.inputs.blocks import processors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Executor

    from memlens.options import Spread


#: How long to wait for a cluster to answer, and for a worker of it to be there.
_CONNECT_SECONDS, _WORKER_SECONDS = 30, 60
#: Loggers of Dask and of what it stands on that print what a client meets.
_LOUD = ("distributed.client", "distributed.core", "distributed.utils_comm", "tornado.application")


#: An executor that is open, and who says how many bytes are read so far of the logs that its workers are at, as far as that is known.
Workers: TypeAlias = "tuple[Executor, Callable[[], int]]"


def local_processes(spread: Spread) -> int | None:
    """How many processes of this machine options ask for, 1 for this one; ``None`` where another executor reads.

    Raises:
        UsageError: A scheduler that is none, or several ways at once.
    """
    if spread.jobs is not None and spread.jobs < 1:
        raise UsageError(f"{spread.jobs} jobs read nothing", "Give 1 or more.")
    if spread.executor is not None:
        if spread.scheduler is not None or spread.jobs is not None:
            raise UsageError("executor excludes scheduler and jobs", "It has workers of its own.")
        return None
    if spread.scheduler is None:
        return spread.jobs if spread.jobs and may_fork() else 1
    if spread.scheduler == "local":
        return spread.jobs or processors()
    if spread.jobs is not None:
        raise UsageError("--jobs and a cluster exclude each other", "A cluster has workers of its own.")
    if "://" not in spread.scheduler:
        raise UsageError(
            f"{spread.scheduler!r} is no scheduler", "Give the address of a Dask cluster, tcp://HOST:8786, or local."
        )
    return None


def may_fork() -> bool:
    """Whether a child may be forked: elsewhere system libraries forbid it, and a lock of another thread stays locked in it."""
    return sys.platform == "linux" and threading.active_count() == 1


def opened(spread: Spread) -> AbstractContextManager[Workers]:
    """The executor that options ask for; what was started for them ends with the block.

    Raises:
        MemlensError: The cluster does not answer, or has no worker.
    """
    if spread.executor is not None:
        return nullcontext((spread.executor, int))
    if spread.scheduler in (None, "local"):
        return _local(spread.jobs or processors())
    return _dask(str(spread.scheduler))


@contextmanager
def _local(count: int) -> Iterator[Workers]:
    """Processes of this machine, forked where that is safe; they end with the block, in the midst of what they do."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context: Any = multiprocessing.get_context("fork" if may_fork() else "spawn")
    shared = context.Value("q", 0)
    pool = ProcessPoolExecutor(count, context, _begin, (shared,))
    try:
        with warnings.catch_warnings():
            # The threads that Python warns of are those of a linear algebra library, idle, and not used by the workers.
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            pool.submit(int)  # which starts all that are forked
        yield pool, lambda: int(shared.get_obj().value)  # without its lock, which a process that was killed may hold
    finally:
        # What they are at is wanted no more; a log may take minutes.
        for process in list((pool._processes or {}).values()):  # noqa: SLF001  has a name from Python 3.14 on
            process.terminate()
        pool.shutdown(cancel_futures=True)


class _InWorker:
    """The bytes read by all processes of a pool of the logs that they are at, in such a process."""

    shared: Any = None


def _begin(shared: Any) -> None:
    """In a process of a pool: leave Ctrl-C, which goes to all processes of a terminal, to the parent, and end with it."""
    import multiprocessing

    _InWorker.shared = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def add_read(more: int) -> None:
    """In a worker: count bytes of the log that is being read, for whoever shows progress."""
    if _InWorker.shared is not None:
        with _InWorker.shared.get_lock():
            _InWorker.shared.value += more


@contextmanager
def _dask(address: str) -> Iterator[Workers]:
    """A Dask cluster that exists."""
    try:
        from distributed import Client
        from distributed.comm import get_address_host_port
        from distributed.security import Security
    except ImportError:
        raise MemlensError(
            "a Dask cluster needs the package distributed", "Install it with: pip install 'memlens[dask]'."
        ) from None
    with ExitStack() as stack:
        # What goes wrong is said of the logs that it costs; Dask would print tracebacks between the lines of a terminal.
        for logger in map(logging.getLogger, _LOUD):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL + 1)
        try:
            # Of an address that is none a client would wait for its own end, and write a traceback then.
            get_address_host_port(address)
            if address.startswith("tls:") and Security().get_connection_args("client").get("ssl_context") is None:
                raise ValueError("Dask's configuration names no certificates")  # noqa: TRY301
            client = stack.enter_context(Client(address, timeout=_CONNECT_SECONDS, set_as_default=False))
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except Exception as error:  # noqa: BLE001  each kind of address fails in its own ways
            raise MemlensError(
                f"{address}: no Dask cluster with a worker answers: {error}",
                f"Its scheduler's log says its address. Start one: dask scheduler; and workers: dask worker {address}.",
            ) from None
        yield client.get_executor(), int
