"""Events and request lines of a log of Paddle in file order, which belong together, and when FREEs of several threads took effect.

Lines of ALLOCs are written inside the allocator's lock, those of FREEs before it: so a FREE took effect anywhere between its line and the next line
of its thread.  Mostly it did at once.  Where that cannot be, because an ALLOC of another thread in between would have been served from another
free block than the one that its lines name, it took effect after that ALLOC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.allocators.engine import compiled
from memlens.columns import NOTHING, SET, TAKE, last_by_key
from memlens.facts import Kind, RequestLine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.events import EventLog
    from memlens.facts import RequestLines


class LogRows:
    """Events and request lines of a log in file order, and which belong together.

    Rows are events and lines of requests alone; they are numbered with 32 bits where that suffices, for there may be very many.

    Attributes:
        requests: Which of the lines of requests are rows, int64.
        is_event: Which rows are events, bool.
        kind: Kinds of events, -1 for a request, int8.
        event: Of each row its event, or for a request the first one after it.
        thread: int64.
        request: For each event that is an ALLOC the row of the request that it answers, else -1; int64.
        failed: Rows of the requests that got nothing, rising, int64.
        free: Of each ALLOC the bytes of the free block that it was cut from, 0 where it got a chunk of its own, int64.
        until: For each event the first one before which its thread wrote something again, int64.
        emptied: FREEs after which their thread gave chunks back, bool.
    """

    def __init__(self, log: EventLog, lines: RequestLines) -> None:
        assert log.thread is not None
        self.lines = lines
        wanted = RequestLine.REQUEST if log.facts.layer == "auto_growth" else RequestLine.STREAM_REQUEST
        self.requests = np.flatnonzero(lines.what == wanted)
        rows = lines.after[self.requests] + np.arange(len(self.requests))
        count = len(log) + len(rows)
        number = np.int32 if count < 1 << 31 else np.int64
        self.is_event = np.ones(count, np.bool_)
        self.is_event[rows] = False
        self.event: NDArray[Any] = np.cumsum(self.is_event, dtype=number) - self.is_event
        self.thread = np.empty(count, np.int64)
        self.thread[rows], self.thread[self.is_event] = lines.thread[self.requests], log.thread
        self.kind = np.full(count, -1, np.int8)
        self.kind[self.is_event] = log.kind
        role = np.array([TAKE, NOTHING, NOTHING, NOTHING, SET], np.int8)[self.kind]
        found = last_by_key(self.thread, role)
        self.request = found[self.is_event]
        unserved = ~self.is_event
        unserved[found[found >= 0]] = False
        del found, role
        self._by_thread = self.thread.argsort(kind="stable").astype(number)
        self.failed = self._tries(np.flatnonzero(unserved))
        if len(self.failed):
            self.failed = self.failed[self._refused(log)]
        self.free = _cut_from(log, lines)
        following = self._next_of_thread()
        self.until: Ints = np.append(self.event, len(log)).astype(np.int64)[following]
        self.emptied = (log.kind == Kind.FREE) & (np.append(self.kind, -1)[following] == Kind.RELEASE)

    def line(self, rows: Ints) -> Ints:
        """Of rows that are requests the numbers of their lines, int64."""
        found: Ints = self.requests[rows - self.event[rows]]
        return found

    def _refused(self, log: EventLog) -> NDArray[np.bool_]:
        """Which requests got nothing, and not only no line because the log ends: their thread went on, or a message of it follows."""
        last = np.zeros(len(self.thread), np.bool_)
        order = self._by_thread[self.kind[self._by_thread] <= Kind.FREE]  # a chunk may be all that came of it
        last[order[np.append(self.thread[order[1:]] != self.thread[order[:-1]], True)[: len(order)]]] = True
        message = max((oom.offset for oom in log.facts.ooms), default=-1)
        at_end, line = last[self.failed], self.line(self.failed)
        if (at_end & (self.lines.offset[line] <= message)).any():
            # Of several that wait when the run ends one was refused: most likely the one for most.
            sizes = np.where(at_end & (self.lines.offset[line] <= message), self.lines.first[line], -1)
            at_end[sizes.argmax()] = False
        return ~at_end

    def next_operation(self, rows: Ints) -> Ints:
        """For some rows the next one of their thread that is an ALLOC or a request that failed, int64, -1 for none."""
        order = self._by_thread
        ends = self.kind[order] == Kind.ALLOC
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        ends[place[self.failed]] = True
        at = np.append(np.flatnonzero(ends), len(order))
        following: Ints = np.append(order, -1)[at[at[:-1].searchsorted(place[rows])]]
        following[self.thread[following] != self.thread[rows]] = -1
        return following

    def _next_of_thread(self) -> Ints:
        """For each event the next row of its thread; the number of rows where there is none."""
        following, order = np.full(len(self.thread), len(self.thread)), self._by_thread
        thread = self.thread[order]
        following[order[:-1]] = np.where(thread[1:] == thread[:-1], order[1:], len(order))
        found: Ints = following[self.is_event]
        return found

    def _tries(self, unserved: Ints) -> Ints:
        """Those of the requests without a block that were the last try: one that is made again, for as much and with no block in between, is the same."""
        if not len(unserved):
            return unserved
        # Of rows that are a request, an ALLOC or a FREE: is the next one of the thread a request for as much?
        order = self._by_thread[self.kind[self._by_thread] <= Kind.FREE]
        place = np.empty(len(self.thread), np.int64)
        place[order] = np.arange(len(order))
        following = np.append(order, -1)[place[unserved] + 1]
        again = (following >= 0) & ~self.is_event[following] & (self.thread[following] == self.thread[unserved])
        sizes = self.lines.first
        again[again] = sizes[self.line(following[again])] == sizes[self.line(unserved[again])]
        last: Ints = unserved[~again]
        return last


def _cut_from(log: EventLog, lines: RequestLines) -> Ints:
    """Of each ALLOC the bytes of the free block that it was cut from: a line of its thread before it says so; else 0."""
    assert log.thread is not None
    found = np.zeros(len(log), np.int64)
    served = np.flatnonzero(lines.what == RequestLine.SERVED)
    allocs = np.flatnonzero(log.kind == Kind.ALLOC)
    is_line = np.zeros(len(served) + len(allocs), np.bool_)
    before = allocs.searchsorted(lines.after[served])
    is_line[before + np.arange(len(served))] = True
    thread = np.empty(len(is_line), np.int64)
    thread[is_line], thread[~is_line] = lines.thread[served], log.thread[allocs]
    line = last_by_key(thread, np.where(is_line, SET, TAKE).astype(np.int8))[~is_line]
    of = np.flatnonzero(line >= 0)
    number = np.cumsum(is_line) - 1  # of the line of each row
    found[allocs[of]] = lines.second[served[number[line[of]]]]
    return found


def uncertain(kind: NDArray[np.int8], until: Ints) -> NDArray[np.bool_]:
    """The FREEs that may have taken effect after an ALLOC that stands below them, bool.

    Args:
        kind: Kinds of events in file order, int8.
        until: For each event the index of the first event before which it must have taken effect, int64.
    """
    allocs = np.flatnonzero(kind == Kind.ALLOC)
    after = np.append(allocs, len(kind))[allocs.searchsorted(np.arange(len(kind)))]
    found: NDArray[np.bool_] = (kind == Kind.FREE) & (after < until)
    return found


def effects(
    kind: NDArray[np.int8],
    size: Ints,
    addr: NDArray[np.uint64],
    free: Ints,
    until: Ints,
    emptied: NDArray[np.bool_],
    preallocated: Iterable[int] = (),
) -> Ints:
    """The event after which each FREE took effect: itself, or the last ALLOC that did not find the block free yet.

    As far as the lines tell: what they do not explain is left as it stands.

    Args:
        kind: Kinds of events in file order, int8.
        size: Their sizes, int64.
        addr: Their addresses, uint64.
        free: Of an ALLOC the bytes of the free block that it was cut from, 0 where it got a chunk of its own, int64.
        until: As of :func:`uncertain`.
        emptied: FREEs after which their thread gave chunks back, bool: they took effect right before that.
        preallocated: Sizes of chunks that were made in advance.

    Returns:
        An index for each event, int64: its own, but for FREEs that took effect late.
    """
    late = uncertain(kind, until) & ~emptied
    found = np.where(emptied, until, np.arange(len(kind)))
    emptying = np.full(len(kind), -1)
    emptying[until[emptied]] = np.flatnonzero(emptied)
    compiled().effects(
        np.ascontiguousarray(kind, np.int8),
        np.ascontiguousarray(size),
        np.ascontiguousarray(addr),
        np.ascontiguousarray(free),
        np.ascontiguousarray(until),
        late.astype(np.int8),
        emptying,
        np.array([*preallocated], np.int64),
        found,
    )
    return found
