"""Which ALLOC a requested size belongs to: the next one of the same thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

__all__ = ["PendingRequests", "Requests", "by_thread", "distinct", "join"]

#: Up to so many threads a pass over the events for each is quicker than a sort.
_FEW = 16


@dataclass(frozen=True)
class Requests:
    """The requests of one block, joined as far as the block goes.

    Attributes:
        rows: Event numbers of the block's ALLOCs whose requested size is known, int64, in no order.
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
    found_rows, found_sizes = [rows[:0]], [rows[:0]]
    first: list[tuple[int, int, int]] = []
    last: list[tuple[int, int, int]] = []
    threads = distinct(alloc_thread, request_thread)
    for thread, allocs, requests in zip(
        threads, by_thread(alloc_thread, threads), by_thread(request_thread, threads), strict=True
    ):
        # For each ALLOC, how many requests stand before it.  Its own is the last of these, unless an earlier ALLOC took it.
        before = request_at[requests].searchsorted(alloc_at[allocs])
        taken = np.concatenate(([0], before[:-1]))
        own = np.flatnonzero(before > taken)
        alloc, request = allocs[own], requests[before[own] - 1]
        fits = aligned[request] == alloc_size[alloc]
        found_rows.append(rows[alloc[fits]])
        found_sizes.append(requested[request[fits]])
        if len(allocs) and before[0] == 0:
            first.append((thread, int(rows[allocs[0]]), int(alloc_size[allocs[0]])))
        if len(requests) > (before[-1] if len(allocs) else 0):
            last.append((thread, int(requested[requests[-1]]), int(aligned[requests[-1]])))
    return Requests(np.concatenate(found_rows), np.concatenate(found_sizes), tuple(first), tuple(last), tuple(threads))


def distinct(*columns: Integers) -> list[int]:
    """The different numbers in some columns; quicker than sorting where they are few, as threads are."""
    found: list[int] = []
    for column in columns:
        for known in found:
            column = column.compress(column != known)  # noqa: PLW2901
        while len(column):
            if len(found) >= _FEW:
                every: list[int] = np.unique(np.concatenate(columns)).tolist()
                return every
            found.append(int(column[0]))
            column = column.compress(column != column[0])  # noqa: PLW2901
    return found


def by_thread(column: Integers, threads: list[int]) -> list[Integers]:
    """For each thread, where a column holds it, rising; the threads must be all that the column holds, and may be more."""
    if len(threads) == 1:
        return [np.arange(len(column))]
    if len(threads) <= _FEW:
        return [np.flatnonzero(column == thread) for thread in threads]
    order = column.argsort(kind="stable")
    ends = column[order].searchsorted(threads, "right")
    starts = column[order].searchsorted(threads, "left")
    return [order[start:end] for start, end in zip(starts, ends, strict=True)]


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
