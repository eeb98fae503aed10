"""One large file read by several processes: each takes stripes of it, and their readings come back in file order.

Threads would have to take turns for the interpreter lock between any two of the many short array operations; processes do
not.  Workers are forked, so they start at once and have everything loaded; where forking is not safe the file is read in
this process.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from memlens.errors import InputError
from memlens.inputs.blocks import BlockPool, Blocks
from memlens.inputs.streams import ByteStream, open_bytes

if TYPE_CHECKING:
    from concurrent.futures import Future

    from memlens.inputs.blocks import Block
    from memlens.inputs.paddle.assemble import BlockReading

__all__ = ["processors", "read_in_stripes", "worth_forking"]

#: A smaller file is read faster by one process.
_SMALLEST = 48 << 20
#: Bytes that a worker reads at a time; small enough to share out evenly, large enough to send little.
_STRIPE = 16 << 20
_MOST_WORKERS = 16
#: Freed memory that a worker keeps for its next array; glibc takes at most 32 MiB.
_KEPT = 30 << 20


class _Worker:
    """What a worker does with a block; a forked one has it from its parent, so nothing is sent."""

    work: Callable[[Block], BlockReading]
    pool: ClassVar[BlockPool]


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worth_forking(size: int) -> bool:
    """Whether to read a plain file of this many bytes by several processes."""
    if size < _SMALLEST or processors() == 1:
        return False
    import multiprocessing

    return (
        sys.platform == "linux"  # elsewhere a forked child may not use system libraries
        and threading.active_count() == 1  # a lock that another thread holds would stay locked in the child
        and not multiprocessing.current_process().daemon
    )


def read_in_stripes(path: str, size: int, work: Callable[[Block], BlockReading]) -> Generator[BlockReading, None, None]:
    """Read a plain file by several processes.

    Args:
        path: The file.
        size: Its bytes; what is written to it afterwards is not read.
        work: Reads one block, in a worker.

    Yields:
        The readings of its blocks, in file order.

    Raises:
        InputError: A worker was killed.
    """
    # Imported here, since a small log needs none of this.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    stripes = [(start, min(start + _STRIPE, size)) for start in range(0, size, _STRIPE)]
    workers = min(processors(), _MOST_WORKERS, len(stripes))
    waiting: deque[Future[list[BlockReading]]] = deque()
    with warnings.catch_warnings():
        # The threads that Python warns of are those of a linear algebra library, idle, and not used by the workers.
        warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), _begin, (work,))
        try:
            for stripe in stripes:
                waiting.append(pool.submit(_read_stripe, path, size, *stripe))
                if len(waiting) > workers + 1:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BrokenProcessPool:
            raise InputError(
                f"{path}: a process that read a part of it was ended from outside",
                "Perhaps memory ran out; the system log says. Read it again, or on a larger machine.",
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(work: Callable[[Block], BlockReading]) -> None:
    """In a new worker: know what to do.  Ctrl-C goes to all processes of a terminal; the parent alone answers it."""
    _Worker.work, _Worker.pool = work, BlockPool()
    _keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _keep_freed_memory() -> None:
    """Let the C library keep freed memory, instead of handing it back after each array operation and faulting it in again.

    Where that library is glibc, freeing an array that was mapped on its own raises the size up to which it keeps memory, to
    that of the array (``M_MMAP_THRESHOLD`` in mallopt(3)); elsewhere nothing happens.
    """
    array = np.empty(_KEPT, np.uint8)
    del array


def _read_stripe(path: str, size: int, start: int, end: int) -> list[BlockReading]:
    """In a worker: read the lines that begin in ``[start, end)``."""
    with open_bytes(path) as stream:
        begin = _line_start_from(stream, start)
        if begin >= end:
            return []
        stop = size if end >= size else _line_start_from(stream, end)
        readings = []
        blocks = Blocks(stream.part(begin, stop), begin, _Worker.pool)
        for block in blocks:
            reading = _Worker.work(block)
            readings.append(reading)
            blocks.pool.give_back(block)
            blocks.pool.expect(len(reading.decoded.kind), reading.size)
        return readings


def _line_start_from(stream: ByteStream, position: int) -> int:
    """The first line start at or after a position; the end of the file where there is none."""
    if position == 0:
        return 0
    at = position - 1
    part = stream.part(at, None)
    while chunk := part.read(1 << 16):
        if (found := chunk.find(b"\n")) >= 0:
            return at + found + 1
        at += len(chunk)
    return at
