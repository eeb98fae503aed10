"""Several inputs, each read by one call of a function: in this process or by the workers of any executor, with one count of the bytes read.

A worker opens its log itself; what only this process has (standard input, a pipe, an open file, a log already read) is read here.  What is
bad costs its log alone, and what becomes of a lost worker is up to the executor.
"""

from __future__ import annotations

import gc
import os
import pickle
import platform
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from memlens.errors import MemlensError, UsageError
from memlens.inputs import input_name
from memlens.inputs.blocks import processors
from memlens.inputs.remote import is_url
from memlens.inputs.streams import NamedPath
from memlens.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from memlens.log import Input
    from memlens.options import Spread
    from memlens.scheduling.executors import Workers


Result = TypeVar("Result")
AnOrder = TypeVar("AnOrder")
ASpread = TypeVar("ASpread", bound="Spread")

#: After a log of more bytes than this memory is tidied up; after each of very many small ones that would cost more than it gives.
_LARGE = 16 << 20
#: How often progress is looked at while workers read.
_LOOK_SECONDS = 0.1
#: Characters of what an executor raises that are shown.
_MOST_SHOWN = 300
_INSTALL = (
    f"Install memlens {__version__} where the workers run (pip install memlens=={__version__}), and start them again."
)
_MEMORY = "Perhaps memory ran out there: give workers more, or read fewer logs at once (--jobs 1)."


def spread_out(
    work: Callable[[AnOrder], Result], orders: Sequence[AnOrder], spread: Spread, progress: Callable[[int], None] | None
) -> Iterator[tuple[int, Result | MemlensError]]:
    """Do something with each of several inputs, where options say.

    Args:
        work: A function of a module; what it gives is small, and can be pickled.  It tells ``progress`` of the order's options how much is read.
        orders: Frozen dataclasses that say what to read (``given``, and perhaps ``base``) and how (``options``: of a verb that reads).
        spread: Who reads them.
        progress: Called with the bytes read so far over all inputs, as they lie on disk.

    Yields:
        The index of each input with its result, or with the error that it alone ends in, as they come.

    Raises:
        UsageError: Of any of them: it would be that of all.
        MemlensError: The executor cannot be had.
    """
    there: dict[int, AnOrder] = {}
    if (spread.executor, spread.scheduler, spread.jobs) != (None, None, None):
        # Imported here, since one log needs none of this.
        from memlens.scheduling.executors import local_processes, opened

        processes = local_processes(spread)
        if processes != 1:
            there = {k: order for k, order in enumerate(orders) if all(map(_for_a_worker, _inputs(order).values()))}
        if processes is not None and len(there) < 2:
            there = {}
    count = _Count(progress)
    for index, order in enumerate(orders):
        if index not in there:
            yield index, _here(work, order, count)
    if there:
        with opened(spread) as workers:
            yield from _there(work, there, workers, count)


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


def _here(work: Callable[[Any], Result], order: Any, count: _Count) -> Result | MemlensError:
    found: Result | MemlensError
    try:
        found = work(replace(order, options=order.options.replace(progress=count.reading)))
    except UsageError:
        raise
    except MemlensError as error:
        found = error
    count.done(size := _size(order))
    if size > _LARGE:
        gc.collect()  # what readers leave behind is in cycles, and as large as the log
    return found


def _there(
    work: Callable[[Any], Result], orders: Mapping[int, Any], workers: Workers, count: _Count
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
        for future in running.values():
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
    """In a worker: do what is to be done with one input.

    Args:
        version: The memlens that asks for it.
        payload: The function and its order, pickled.
        ticket: Unlike that of any other call, since Dask gives what it remembers as the answer to an equal one.

    Returns:
        What the function gives, or the error that the log ends in, and the bytes read; pickled.

    Raises:
        MemlensError: Nothing is known of the log: the worker has another memlens, or the function failed.
    """
    from memlens.scheduling.executors import add_read

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


def _packed(order: Any) -> Any:
    """An order as another process can carry it out, in another working directory and on another machine."""
    from memlens.inputs.custom.formats import formats_file, user_formats

    how = order.options
    formats = formats_file(how.formats) if how.formats is not None or user_formats() else None
    options = how.replace(
        progress=None,
        formats=None if formats is None else os.path.abspath(formats),
        **dict.fromkeys(("executor", "scheduler", "jobs")),
    )
    return replace(order, options=options, **{name: _place(given) for name, given in _inputs(order).items()})


def _inputs(order: Any) -> dict[str, Any]:
    """The inputs of an order: the one, and a second one where it has such a field."""
    named = {name: getattr(order, name, None) for name in ("given", "base")}
    return {name: given for name, given in named.items() if given is not None}


def _place(given: str | Path) -> str:
    name = os.fspath(given)
    return name if is_url(name) else NamedPath(os.path.abspath(name), name=name)


def _for_a_worker(given: Input) -> bool:
    """Whether a worker can open an input: a URL or a file, also one that is not there."""
    if not isinstance(given, (str, Path)) or os.fspath(given) in ("", "-"):
        return False
    return os.path.isfile(given) or not os.path.exists(given)


def _size(order: Any) -> int:
    """The bytes of an order's inputs as they lie on disk, where these are files."""
    files = (given for given in _inputs(order).values() if isinstance(given, (str, Path)))
    return sum(os.path.getsize(given) for given in files if os.path.isfile(given))
