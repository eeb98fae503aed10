"""Jobs, a log each, run by any executor: each comes back once, as its result or as the error that it alone ends in.

What is handed to an executor is made of the standard library alone, ``pickle.loads`` and bytes, for some of them wait for ever where a
worker, or the scheduler in between, cannot load what they are handed.  Loaded, the bytes are a call of :func:`at_worker`, with the
version of memlens that asks; it gives bytes back.  What the function raises is part of those; so what a future raises is trouble of the
executor: a worker was lost, or has no memlens.  A job
whose worker was lost is tried again, the last time with nothing else running: then only what ends its worker by itself fails, and not
what ran beside it.
"""

from __future__ import annotations

import pickle
import platform
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from memlens import __version__
from memlens.errors import MemlensError
from memlens.scheduling.executors import LocalProcesses

__all__ = ["at_worker", "run_jobs"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_LOOK_SECONDS = 0.1
#: Characters of what an executor raises that are shown.
_MOST_SHOWN = 300
_SAME = (
    f"Install memlens {__version__} where the workers run (pip install memlens=={__version__}), and start them again."
)


def run_jobs(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    executor: Executor,
    *,
    retries: int = 2,
    look: Callable[[], None] | None = None,
) -> Generator[tuple[int, Result | MemlensError], None, None]:
    """Run a function over items, each in a worker.

    Args:
        work: A function of a module.
        items: What it is called with, one after another; small, and made of what can be pickled.
        executor: Whatever runs it.
        retries: How often a job is tried again whose worker was lost.
        look: Called about ten times a second while jobs run.

    Yields:
        The index of each item with its result, as they come; what fails for good is the error of that item alone.  When the iterator is
        closed early, what has not begun is cancelled.
    """
    return _Jobs(work, items, executor, retries, look).run()


def at_worker(version: str, payload: bytes, ticket: str) -> bytes:  # noqa: ARG001
    """In a worker: run one job.

    Args:
        version: The memlens that asks for it.
        payload: The function and its item, pickled.
        ticket: Unlike that of any other job or try, since some executors give what has run before as the answer to an equal call.

    Returns:
        What the function gives, pickled, or the error that it raises.
    """
    if version != __version__:
        where = f"the worker on {platform.node()}"
        return pickle.dumps(MemlensError(f"{where} has memlens {__version__}, and it is asked by {version}", _SAME))
    try:
        work, item = pickle.loads(payload)  # noqa: S301  made by run_jobs
        return pickle.dumps(work(item))
    except MemlensError as error:
        return pickle.dumps(error)
    except MemoryError:
        return pickle.dumps(MemlensError("not enough memory for this log", "Give its worker more memory."))
    except Exception as error:  # noqa: BLE001  it costs this log alone
        return pickle.dumps(MemlensError(f"it failed in its worker: {_in_words(error)}"))


class _Call:
    """A call of :func:`at_worker`: made by pickling it, and carried out by loading that."""

    def __init__(self, *args: object) -> None:
        self._args = args

    def __reduce__(self) -> tuple[Any, ...]:
        return at_worker, self._args


class _Jobs:
    """One run over items; see :func:`run_jobs`."""

    def __init__(
        self,
        work: Callable[[Any], Any],
        items: Sequence[Any],
        executor: Executor,
        retries: int,
        look: Callable[[], None] | None,
    ) -> None:
        self._work, self._items, self._executor, self._look = work, items, executor, look
        self._ahead = executor.ahead if isinstance(executor, LocalProcesses) else len(items)
        self._waiting = deque(range(len(items)))
        self._alone: deque[int] = deque()  # those whose last try is to come
        self._losses, self._left = [0] * len(items), [retries] * len(items)
        self._running: dict[int, Future[bytes]] = {}
        self._ended: SimpleQueue[tuple[int, Future[bytes]]] = SimpleQueue()
        self._ticket = uuid.uuid4().hex

    def run(self) -> Generator[tuple[int, Any], None, None]:
        try:
            while self._waiting or self._alone or self._running:
                yield from self._submit()
                if not self._running:
                    continue
                if (ended := self._next()) is None:
                    yield from self._broken(BrokenExecutor("its client has lost the scheduler"))
                else:
                    yield from self._ended_one(*ended)
        finally:
            for future in self._running.values():
                future.cancel()

    def _submit(self) -> Iterator[tuple[int, MemlensError]]:
        """Hand over as many jobs as the executor should have; yields what fails of that."""
        while True:
            if self._waiting and len(self._running) < self._ahead:
                index = self._waiting.popleft()
            elif self._alone and not self._waiting and not self._running:
                index = self._alone.popleft()
            else:
                return
            try:
                payload = pickle.dumps((self._work, self._items[index]))
                ticket = f"{self._ticket} {index} {self._losses[index]}"
                call = pickle.dumps(_Call(__version__, payload, ticket))
                future: Future[bytes] = self._executor.submit(pickle.loads, call)
            except BrokenExecutor as error:
                self._waiting.appendleft(index)
                yield from self._broken(error)
            except Exception as error:  # noqa: BLE001  executors raise what they like
                yield index, MemlensError(f"it was not taken by the executor: {_in_words(error)}")
            else:
                self._running[index] = future
                future.add_done_callback(lambda ended, index=index: self._ended.put((index, ended)))  # type: ignore[misc]

    def _next(self) -> tuple[int, Future[bytes]] | None:
        """The next job that has ended; ``None`` where no other one will."""
        while True:
            try:
                return self._ended.get(timeout=_LOOK_SECONDS)
            except Empty:
                if self._look is not None:
                    self._look()
                # The futures of a Dask client that has given its scheduler up wait for ever.
                if getattr(getattr(self._executor, "_client", None), "status", "") == "closed":
                    return None

    def _ended_one(self, index: int, future: Future[bytes]) -> Iterator[tuple[int, Any]]:
        """What comes of a job that has ended; nothing where it is tried again."""
        if self._running.get(index) is not future:
            return  # a try that was given up
        error = None if future.cancelled() else future.exception()
        if isinstance(error, BrokenExecutor):
            yield from self._broken(error)
            return
        del self._running[index]
        if future.cancelled():
            yield from self._lost(index, MemlensError("the executor cancelled it"))
        elif error is None:
            yield index, _unpacked(future.result())
        elif isinstance(error, (ImportError, AttributeError)):
            yield index, MemlensError(f"its worker cannot load memlens: {_in_words(error)}", _SAME)
        else:
            yield from self._lost(index, error)

    def _broken(self, error: BrokenExecutor) -> Iterator[tuple[int, MemlensError]]:
        """The executor broke, and takes no more jobs: make it anew where it is ours, and give up what is left where it is not."""
        done = {index for index, future in self._running.items() if _succeeded(future)}  # to be looked at yet
        lost = [index for index in self._running if index not in done]
        for index in lost:
            del self._running[index]
        if isinstance(self._executor, LocalProcesses):
            self._executor.shutdown()  # the next job starts new ones
            for index in lost:
                yield from self._lost(index, error)
            return
        lost += [*self._waiting, *self._alone]
        self._waiting.clear()
        self._alone.clear()
        for index in sorted(lost):
            yield (
                index,
                MemlensError(f"the executor broke before it was done: {_in_words(error)}", "Try again with a new one."),
            )

    def _lost(self, index: int, error: BaseException) -> Iterator[tuple[int, MemlensError]]:
        """Try a job again whose worker was lost; its error where that was its last try."""
        self._losses[index] += 1
        if not self._left[index]:
            tries = "once" if self._losses[index] == 1 else f"{self._losses[index]} times"
            hint = "Perhaps memory ran out there: the system log of that machine says. Give workers more memory, or read this log by itself."
            yield index, MemlensError(f"its worker was lost, {tries}: {_in_words(error)}", hint)
            return
        # Dask tries a job on several workers by itself, and says so.
        self._left[index] = 0 if hasattr(error, "allowed_failures") else self._left[index] - 1
        (self._waiting if self._left[index] else self._alone).append(index)


def _succeeded(future: Future[bytes]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _unpacked(packed: bytes) -> Any:
    try:
        return pickle.loads(packed)  # noqa: S301  of a worker that runs what this process gave it
    except Exception as error:  # noqa: BLE001  pickles raise whatever they are made of
        return MemlensError(
            f"what its worker found cannot be read here: {_in_words(error)}",
            "Have the same versions of Python, NumPy and memlens here and where the workers run.",
        )


def _in_words(error: BaseException) -> str:
    if isinstance(error, MemlensError):
        return error.message
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001  it was made by others
        lines = []
    return f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"[:_MOST_SHOWN]
