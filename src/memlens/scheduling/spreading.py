"""Inputs read by this process, or shared out to an executor, with one count of the bytes read.

A worker opens its log itself; what only this process has (standard input, an open file, a log already read) is read here.  So is, beside
processes of this machine, a large plain log of Paddle: its reader shares it out among all processors, and neither processes nor logs in
memory multiply.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from memlens.errors import MemlensError, UsageError
from memlens.inputs import Input, input_name
from memlens.inputs.blocks import processors
from memlens.inputs.file_source import open_source
from memlens.inputs.remote import is_url
from memlens.inputs.streams import NamedPath

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from memlens.options import ReadAs, Spread

__all__ = ["Order", "on_all_processors", "spread_out"]

Result = TypeVar("Result")

#: After a log of more bytes than this memory is tidied up; after each of very many small ones that would cost more than it gives.
_LARGE = 16 << 20
#: A smaller log is read as fast by one process of many.
_SHARED_OUT = 48 << 20


class Order(Protocol):
    """A frozen dataclass that says what to read, and how."""

    @property
    def given(self) -> Input:
        """A path, or anything else that can be read."""

    @property
    def options(self) -> Any:
        """Options of a verb that reads: a :class:`~memlens.options.ReadAs` that is a :class:`~memlens.options.Spread`."""


AnOrder = TypeVar("AnOrder", bound=Order)
ASpread = TypeVar("ASpread", bound="Spread")


def spread_out(
    work: Callable[[AnOrder], Result], orders: Sequence[AnOrder], spread: Spread, progress: Callable[[int], None] | None
) -> Iterator[tuple[int, Result | MemlensError]]:
    """Do something with each of several inputs, where options say.

    Args:
        work: A function of a module; what it gives is small, and can be pickled.  It tells ``progress`` of the order's options how much is read.
        orders: The inputs.
        spread: Who reads them.
        progress: Called with the bytes read so far over all inputs, as they lie on disk.

    Yields:
        The index of each input with its result, or with the error that it alone ends in, as they come.

    Raises:
        UsageError: Of any of them: it would be that of all.
        MemlensError: The executor cannot be had.
    """
    count = _Count(progress)
    if (spread.executor, spread.scheduler, spread.jobs) == (None, None, None):
        for index, order in enumerate(orders):
            yield index, _here(work, order, count)
        return
    # Imported here, since one log needs none of this.
    from memlens.scheduling.executors import LocalProcesses, opened

    with opened(spread) as executor:
        there = [] if executor is None else [k for k, order in enumerate(orders) if _for_a_worker(order, executor)]
        if isinstance(executor, LocalProcesses) and len(there) < 2:
            there = []
        for index in sorted(set(range(len(orders))).difference(there)):
            yield index, _here(work, orders[index], count)
        if executor is not None and there:
            yield from _there(work, [(k, orders[k]) for k in there], executor, count)


def on_all_processors(spread: ASpread, inputs: int) -> ASpread:
    """Who reads so many inputs: where options say nothing, a process a processor."""
    if (spread.executor, spread.scheduler, spread.jobs) == (None, None, None):
        return replace(spread, jobs=max(min(processors(), inputs), 1))
    return spread


class _Count:
    """The bytes read so far: of inputs that are done, and of those that are being read."""

    def __init__(self, report: Callable[[int], None] | None) -> None:
        self._report, self._done, self._shown = report, 0, 0

    def reading(self, size: int) -> None:
        # What a lost worker had read is read once more, and counted once.
        if self._report is not None and self._done + size > self._shown:
            self._shown = self._done + size
            self._report(self._shown)

    def done(self, size: int) -> None:
        self._done += size
        self.reading(0)


def _here(work: Callable[[Any], Result], order: Any, count: _Count) -> Result | MemlensError:
    found: Result | MemlensError
    try:
        found = work(replace(order, options=replace(order.options, progress=count.reading)))
    except UsageError:
        raise
    except MemlensError as error:
        found = error
    count.done(size := _size(order))
    if size > _LARGE:
        gc.collect()  # what readers leave behind is in cycles, and as large as the log
    return found


def _there(
    work: Callable[[Any], Result], orders: Sequence[tuple[int, Any]], executor: Executor, count: _Count
) -> Iterator[tuple[int, Result | MemlensError]]:
    from memlens.scheduling.executors import LocalProcesses
    from memlens.scheduling.jobs import run_jobs

    jobs = [(work, packed(order)) for _, order in orders]
    look = (lambda: count.reading(executor.reading)) if isinstance(executor, LocalProcesses) else None
    with closing(run_jobs(_at_worker, jobs, executor, look=look)) as answers:
        for number, answer in answers:
            index, order = orders[number]
            if isinstance(answer, MemlensError):  # of the executor, which knows no logs
                yield index, MemlensError(f"{input_name(order.given)}: {answer.message}", answer.hint)
                continue
            found, size = answer
            if isinstance(found, UsageError):
                raise found
            count.done(size)
            yield index, found


def _at_worker(job: tuple[Callable[[Any], Any], Any]) -> tuple[Any, int]:
    """In a worker: do what is to be done with one input; that, or the error that it ends in, with the bytes read."""
    from memlens.scheduling.executors import count_here

    work, order = job
    with count_here() as count:
        try:
            found = work(replace(order, options=replace(order.options, progress=count)))
        except MemlensError as error:
            found = error
        return found, max(count.bytes, _size(order))


def packed(order: Any) -> Any:
    """An order as another process can carry it out, in another working directory and on another machine."""
    from memlens.inputs.custom.formats import formats_file, user_formats

    how: ReadAs = order.options
    formats = formats_file(how.formats) if how.formats is not None or user_formats() else None
    options = replace(
        how,
        progress=None,
        formats=None if formats is None else os.path.abspath(formats),
        **dict.fromkeys(("executor", "scheduler", "jobs")),
    )
    places = {name: _place(given) for name, given in _inputs(order).items()}
    return replace(order, options=options, **places)


def _inputs(order: Any) -> dict[str, Any]:
    """The inputs of an order: the one, and a second one where it has such a field."""
    named = {name: getattr(order, name, None) for name in ("given", "base")}
    return {name: given for name, given in named.items() if given is not None}


def _place(given: str | Path) -> str:
    name = os.fspath(given)
    return name if is_url(name) else NamedPath(os.path.abspath(name), name=name)


def _for_a_worker(order: Any, executor: Executor) -> bool:
    """Whether a worker should read an input: it can be opened there, and is not one that the reader shares out among processors."""
    from memlens.scheduling.executors import LocalProcesses

    inputs = _inputs(order).values()
    if any(
        not isinstance(given, (str, Path)) or os.fspath(given) in ("", "-") or os.path.isdir(given) for given in inputs
    ):
        return False
    if not isinstance(executor, LocalProcesses):
        return True
    return not any(_shared_out(os.fspath(given), order.options) for given in inputs if os.path.exists(given))


def _shared_out(path: str, how: ReadAs) -> bool:
    """Whether the reader shares a file out: large plain text of Paddle.  What is no regular file is not for several processes either."""
    if not os.path.isfile(path) or size_of(path) < _SHARED_OUT:
        return not os.path.isfile(path)
    from memlens.inputs.registry import PADDLE, recognise

    try:
        with closing(open_source(path)) as source:
            return not source.compression and recognise(source, how).format is PADDLE
    except MemlensError:  # reported when it is read
        return True


def _size(order: Any) -> int:
    """The bytes of an order's inputs as they lie on disk, where these are files."""
    return sum(map(size_of, _inputs(order).values()))


def size_of(given: Input) -> int:
    """The bytes of a file as they lie on disk; 0 of anything else."""
    try:
        return os.path.getsize(given) if isinstance(given, (str, Path)) else 0
    except (OSError, ValueError):
        return 0
