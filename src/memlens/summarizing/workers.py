"""Several inputs, each read by one call of a function: in this process or by the workers of any executor, with one count of the bytes read.

A worker opens its log itself; what only this process has (a pipe, an open file, a log) is read here.  What is bad costs its log alone.
"""

from __future__ import annotations

import os
import pickle
import platform
import signal
import sys
import threading
import uuid
import warnings
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from memlens.errors import MemlensError, UsageError
from memlens.inputs import input_name
from memlens.inputs.blocks import processors
from memlens.inputs.streams import NamedPath
from memlens.source import is_url
from memlens.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future

    from memlens.log import Input
    from memlens.options import Spread


Result = TypeVar("Result")
ASpread = TypeVar("ASpread", bound="Spread")

#: How often progress is looked at while workers read.
_LOOK_SECONDS = 0.1
#: Characters of what an executor raises that are shown.
_MOST_SHOWN = 300
_INSTALL = (
    f"Install memlens {__version__} where the workers run (pip install memlens=={__version__}), and start them again."
)
_MEMORY = "Perhaps memory ran out there: give workers more, or read fewer logs at once (--jobs 1)."
#: How long to wait for a cluster to answer, and for a worker of it to be there.
_CONNECT_SECONDS, _WORKER_SECONDS = 30, 60
#: Loggers of Dask and of what it stands on that print what a client meets.
_LOUD = ("distributed.client", "distributed.core", "distributed.utils_comm", "tornado.application")
#: An executor that is open, and who says how many bytes are read so far of the logs that its workers are at, as far as that is known.
Workers: TypeAlias = "tuple[Executor, Callable[[], int]]"


class Order(Struct, frozen=True):
    """What a worker is to read.

    Attributes:
        given: The input.
        options: How to read it, and what to make of it; its ``progress`` is told how much is read.
        about: What else the work needs to know.
        base: A second input, that of an earlier run.
    """

    given: Input
    options: Any
    about: Any = None
    base: Input | None = None


def spread_out(
    work: Callable[[Order], Result], orders: Sequence[Order], spread: Spread, progress: Callable[[int], None] | None
) -> list[Result | MemlensError]:
    """Do something with each of several inputs, where options say.

    Args:
        work: A function of a module; what it gives is small, and can be pickled.  It tells ``progress`` of the order's options how much is read.
        orders: What to read, and how.
        spread: Who reads them.
        progress: Called with the bytes read so far over all inputs, as they lie on disk.

    Returns:
        Of each input its result, or the error that it alone ends in.

    Raises:
        UsageError: Of any of them: it would be that of all.
        MemlensError: The executor cannot be had.
    """
    there: dict[int, Order] = {}
    if (spread.executor, spread.scheduler, spread.jobs) != (None, None, None):
        processes = local_processes(spread)
        if processes != 1:
            there = {k: order for k, order in enumerate(orders) if all(map(_for_a_worker, _inputs(order).values()))}
        if processes is not None and len(there) < 2:
            there = {}
    count = _Count(progress)
    found = {index: _here(work, order, count) for index, order in enumerate(orders) if index not in there}
    if there:
        with opened(spread) as workers:
            found |= _there(work, there, workers, count, cancels=processes is None)
    return [found[index] for index in range(len(orders))]


def on_all_processors(spread: ASpread, inputs: int) -> ASpread:
    """Who reads so many inputs: where options say nothing, a process a processor."""
    if (spread.executor, spread.scheduler, spread.jobs) == (None, None, None):
        return spread.replace(jobs=max(min(processors(), inputs), 1))
    return spread


class _Count:
    """The bytes read so far: of inputs that are done, and of those that are being read."""

    def __init__(self, report: Callable[[int], None] | None) -> None:
        self._report, self._done, self._shown = report, 0, 0

    def reading(self, size: int) -> None:
        if self._report is not None and self._done + size > self._shown:
            self._shown = self._done + size
            self._report(self._shown)

    def done(self, size: int) -> None:
        self._done += size
        self.reading(0)


def _here(work: Callable[[Order], Result], order: Order, count: _Count) -> Result | MemlensError:
    found: Result | MemlensError
    try:
        found = work(replace(order, options=order.options.replace(progress=count.reading)))
    except UsageError:
        raise
    except MemlensError as error:
        found = error
    count.done(_size(order))
    return found


def _there(
    work: Callable[[Order], Result], orders: Mapping[int, Order], workers: Workers, count: _Count, *, cancels: bool
) -> Iterator[tuple[int, Result | MemlensError]]:
    from concurrent.futures import Future
    from queue import Empty, SimpleQueue

    executor, reading = workers
    running: dict[int, Future[bytes]] = {}
    ended: SimpleQueue[int] = SimpleQueue()
    run = uuid.uuid4().hex
    try:
        for index, order in orders.items():
            call = pickle.dumps(_Call(__version__, pickle.dumps((work, _packed(order))), f"{run} {index}"))
            try:
                future: Future[bytes] = executor.submit(pickle.loads, call)
            except Exception as error:  # noqa: BLE001  it is shut down, or broken
                future = Future()
                future.set_exception(error)
            running[index] = future
            future.add_done_callback(lambda _, index=index: ended.put(index))  # type: ignore[misc]
        while running:
            try:
                index = ended.get(timeout=_LOOK_SECONDS)
            except Empty:
                count.reading(reading())
            else:
                yield index, _answer(running.pop(index), input_name(orders[index].given), count)
    finally:
        # Processes of ours are ended; their pool would fail over calls that were cancelled.
        for future in running.values() if cancels else ():
            future.cancel()


def _answer(future: Future[bytes], name: str, count: _Count) -> Any:
    """Return what a worker found in a log, or an error that says what became of the worker."""
    try:
        found, size = pickle.loads(future.result())  # noqa: S301  of a worker that runs what this process gave it
    except MemlensError as error:
        return MemlensError(f"{name}: {error.message}", error.hint)
    except (ImportError, AttributeError) as error:
        return MemlensError(f"{name}: its worker cannot load memlens: {_in_words(error)}", _INSTALL)
    except Exception as error:  # noqa: BLE001  executors raise what they like
        return MemlensError(f"{name}: its worker was lost: {_in_words(error)}", _MEMORY)
    if isinstance(found, UsageError):
        raise found
    count.done(size)
    return found


class _Call:
    """A call of :func:`at_worker`: made by pickling it, and carried out by loading that.

    So what an executor is handed is made of the standard library alone, ``pickle.loads`` and bytes: Dask waits for ever where a worker,
    or the scheduler in between, cannot load what it is handed.
    """

    def __init__(self, *args: object) -> None:
        self._args = args

    def __reduce__(self) -> tuple[Any, ...]:
        return at_worker, self._args


def at_worker(version: str, payload: bytes, ticket: str) -> bytes:  # noqa: ARG001
    """In a worker: do what is to be done with one input, and return what that gives, or the error that the log ends in, and the bytes read; pickled.

    Args:
        version: The memlens that asks for it; with another one, and where the function fails, a :class:`MemlensError` is raised.
        payload: The function and its order, pickled.
        ticket: Unlike that of any other call, since Dask gives what it remembers as the answer to an equal one.
    """
    if version != __version__:
        where = f"the worker on {platform.node()}"
        raise MemlensError(f"{where} has memlens {__version__}, and it is asked by {version}", _INSTALL)
    work, order = pickle.loads(payload)  # noqa: S301  made by spread_out
    read = 0

    def progress(done: int) -> None:
        nonlocal read
        add_read(done - read)
        read = done

    try:
        found = work(replace(order, options=order.options.replace(progress=progress)))
        return pickle.dumps((found, max(read, _size(order))))
    except MemlensError as error:
        return pickle.dumps((error, max(read, _size(order))))
    except Exception as error:  # noqa: BLE001  it costs this log alone
        hint = _MEMORY if isinstance(error, MemoryError) else ""
        raise MemlensError(f"it failed in its worker: {_in_words(error)}", hint) from None
    finally:
        add_read(-read)


def _in_words(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"[:_MOST_SHOWN]


def _packed(order: Order) -> Order:
    """An order as another process can carry it out, in another working directory and on another machine."""
    from memlens.inputs.custom import formats_file, user_formats

    how = order.options
    formats = formats_file(how.formats) if how.formats is not None or user_formats() else None
    options = how.replace(
        progress=None,
        formats=None if formats is None else os.path.abspath(formats),
        **dict.fromkeys(("executor", "scheduler", "jobs")),
    )
    return replace(order, options=options, **{name: _place(given) for name, given in _inputs(order).items()})


def _inputs(order: Order) -> dict[str, Any]:
    """The inputs of an order by the names of their fields."""
    return {"given": order.given} | ({} if order.base is None else {"base": order.base})


def _place(given: str | Path) -> str:
    name = os.fspath(given)
    return name if is_url(name) else NamedPath(os.path.abspath(name), name=name)


def _for_a_worker(given: Input) -> bool:
    """Whether a worker can open an input: a URL or a file, also one that is not there."""
    if not isinstance(given, (str, Path)) or os.fspath(given) in ("", "-"):
        return False
    return os.path.isfile(given) or not os.path.exists(given)


def _size(order: Order) -> int:
    """The bytes of an order's inputs as they lie on disk, where these are files."""
    files = (given for given in _inputs(order).values() if isinstance(given, (str, Path)))
    return sum(os.path.getsize(given) for given in files if os.path.isfile(given))


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
            with _interrupts_blocked():
                for _ in range(1 if may_fork() else count):  # the first one starts all that are forked
                    pool.submit(int)
        yield pool, lambda: int(shared.get_obj().value)  # without its lock, which a process that was killed may hold
    finally:
        # What they are at is wanted no more; a log may take minutes.
        for process in list((pool._processes or {}).values()):  # noqa: SLF001  has a name from Python 3.14 on
            process.terminate()
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes with Ctrl-C blocked, which goes to all processes of a terminal, until they have learned to leave it to this one."""
    mask: Any = getattr(signal, "pthread_sigmask", None)  # Windows has none
    before = mask and mask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if mask:
            mask(signal.SIG_SETMASK, before)


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
    import logging

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
