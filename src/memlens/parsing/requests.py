"""Which ALLOC a requested size belongs to: the next one of the same thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = ["PendingRequests", "Requests", "join"]


@dataclass(frozen=True)
class Requests:
    """The requests of one block, joined as far as the block goes.

    Attributes:
        rows: Event numbers of the block's ALLOCs whose requested size is known, int64.
        requested: Their requested bytes, int64.
        first: For each thread whose first word in the block is an ALLOC: ``(thread, event number, its size)``; a request of
            an earlier block may belong to it.
        last: For each thread whose last word in the block is a request: ``(thread, requested, aligned)``; it waits for an
            ALLOC of a later block.
        threads: All threads that said anything here: what waited for them from earlier blocks is settled.
    """

    rows: Integers
    requested: Integers
    first: tuple[tuple[int, int, int], ...] = ()
    last: tuple[tuple[int, int, int], ...] = ()
    threads: tuple[int, ...] = ()


def join(
    rows: Integers,
    alloc_at: Integers,
    alloc_thread: Integers,
    alloc_size: Integers,
    request_at: Integers,
    request_thread: Integers,
    requested: Integers,
    aligned: Integers,
) -> Requests:
    """Join the requests and ALLOCs of one block, each given by position, thread and sizes (int64, in file order).

    A request belongs to the next ALLOC of its thread, if that one has the aligned size.
    """
    if not len(request_at):
        return _only_allocs(rows, alloc_thread, alloc_size)
    at, thread = np.concatenate((alloc_at, request_at)), np.concatenate((alloc_thread, request_thread))
    single = bool((thread == thread[0]).all())
    # Two rising runs: a stable sort merges them in linear time.
    order = at.argsort(kind="stable") if single else np.lexsort((at, thread))
    is_request = order >= len(rows)
    thread = thread[order]
    starts = np.concatenate(([True], thread[1:] != thread[:-1]))
    # An ALLOC right after a request, in the order of one thread, is that request's.
    joined = np.flatnonzero(~is_request[1:] & is_request[:-1] & ~starts[1:])
    alloc, request = order[joined + 1], order[joined] - len(rows)
    fits = aligned[request] == alloc_size[alloc]
    alloc, request = alloc[fits], request[fits]
    by_row = rows[alloc].argsort(kind="stable") if not single else slice(None)
    heads = np.flatnonzero(starts)
    tails = np.concatenate((heads[1:] - 1, [len(order) - 1]))
    return Requests(
        rows[alloc][by_row],
        requested[request][by_row],
        first=tuple(
            (int(thread[k]), int(rows[order[k]]), int(alloc_size[order[k]])) for k in heads if not is_request[k]
        ),
        last=tuple(
            (int(thread[k]), int(requested[order[k] - len(rows)]), int(aligned[order[k] - len(rows)]))
            for k in tails
            if is_request[k]
        ),
        threads=tuple(thread[heads].tolist()),
    )


def _only_allocs(rows: Integers, thread: Integers, size: Integers) -> Requests:
    """A block without requests: only the first ALLOC of each thread may have one, from an earlier block."""
    if not len(rows):
        return Requests(rows, rows)
    if bool((thread == thread[0]).all()):
        threads, first = thread[:1], np.zeros(1, np.int64)
    else:
        threads, first = np.unique(thread, return_index=True)
    heads = tuple((int(thread[k]), int(rows[k]), int(size[k])) for k in first)
    return Requests(rows[:0], rows[:0], first=heads, threads=tuple(threads.tolist()))


class PendingRequests:
    """Carries the requests that wait for their ALLOC from one block to the next."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[int, int]] = {}

    def settle(self, requests: Requests) -> list[tuple[int, int]]:
        """Take a block's requests, in file order; gives ``(event number in the block, requested)`` for the late joins."""
        late = []
        for thread, row, size in requests.first:
            requested, aligned = self._waiting.get(thread, (-1, -1))
            if aligned == size:
                late.append((row, requested))
        for thread in requests.threads:
            self._waiting.pop(thread, None)
        for thread, requested, aligned in requests.last:
            self._waiting[thread] = requested, aligned
        return late
