"""Events and request lines of a log of Paddle in file order, and which belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import SET, TAKE, last_by_key
from memlens.facts import Kind, RequestLine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.facts import RequestLines

    Ints = NDArray[np.int64]

__all__ = ["LogRows"]


class LogRows:
    """Events and request lines of a log in file order, and which belong together.

    Attributes:
        is_event: Which rows are events, bool.
        event: Of each row its event, or for a line the first one after it, int64.
        thread: int64.
        line: Of each row the number of its line among the lines of requests, or for an event of the next one, int64.
        asked: For each event that is an ALLOC the row of the request that it answers, else -1; int64.
        failed: Rows of the requests that got nothing, rising, int64.
        until: For each event the first one after which its thread wrote something again, int64.
    """

    def __init__(self, log: EventLog, lines: RequestLines) -> None:
        assert log.thread is not None
        self.lines = lines
        request = RequestLine.REQUEST if log.facts.layer == "auto_growth" else RequestLine.STREAM_REQUEST
        count = len(log) + len(lines)
        line_rows = lines.after + np.arange(len(lines))
        self.is_event = np.ones(count, np.bool_)
        self.is_event[line_rows] = False
        self.event: Ints = np.cumsum(self.is_event) - self.is_event
        self.line: Ints = np.cumsum(~self.is_event) - ~self.is_event
        self.thread = np.empty(count, np.int64)
        self.thread[line_rows], self.thread[self.is_event] = lines.thread, log.thread
        what = np.full(count, -1, np.int8)
        what[line_rows] = lines.what
        kind = np.full(count, -1, np.int8)
        kind[self.is_event] = log.kind
        self.kind, self.what = kind, what
        self.is_request = is_request = what == request
        is_alloc = kind == Kind.ALLOC
        found = last_by_key(self.thread, np.where(is_request, SET, np.where(is_alloc, TAKE, 0)).astype(np.int8))
        self.asked = found[self.is_event]
        unanswered = is_request.copy()
        unanswered[found[is_alloc & (found >= 0)]] = False
        self._by_thread = self.thread.argsort(kind="stable")
        self.failed = self._tries(np.flatnonzero(unanswered), is_request)
        self.failed = self.failed[self._refused(log)]
        served = last_by_key(
            self.thread, np.where(what == RequestLine.SERVED, SET, np.where(is_alloc, TAKE, 0)).astype(np.int8)
        )[self.is_event]
        self.free = np.zeros(len(log), np.int64)
        of = np.flatnonzero(served >= 0)
        self.free[of] = lines.second[self.line[served[of]]]
        self.until = self._next_of_thread()

    def _refused(self, log: EventLog) -> NDArray[np.bool_]:
        """Which requests got nothing, and not only no line because the log ends: their thread went on, or a message of it follows."""
        last = np.zeros(len(self.thread), np.bool_)
        order = self._by_thread
        last[order[np.append(self.thread[order[1:]] != self.thread[order[:-1]], True)[: len(order)]]] = True
        message = max((oom.offset for oom in log.facts.ooms), default=-1)
        refused: NDArray[np.bool_] = ~last[self.failed] | (self.lines.offset[self.line[self.failed]] < message)
        return refused

    def next_operation(self, rows: Ints) -> Ints:
        """For some rows the next one of their thread that is an ALLOC or a request that failed, int64, -1 for none."""
        order = self._by_thread
        ends = self.kind[order] == Kind.ALLOC
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        ends[place[self.failed]] = True
        at = np.append(np.flatnonzero(ends), len(order))
        following = np.append(order, -1)[at[at[:-1].searchsorted(place[rows])]]
        following[self.thread[following] != self.thread[rows]] = -1
        found: Ints = following
        return found

    def _next_of_thread(self) -> Ints:
        following = np.full(len(self.thread), len(self.thread))
        order = self._by_thread
        same = self.thread[order[1:]] == self.thread[order[:-1]]
        following[order[:-1][same]] = order[1:][same]
        events = np.append(self.event, int(np.count_nonzero(self.is_event)))
        until: Ints = events[following[self.is_event]]
        return until

    def _tries(self, unanswered: Ints, is_request: NDArray[np.bool_]) -> Ints:
        """Those of the unanswered requests that were the last try: one that is made again, for as much and with no block in between, is the same."""
        if not len(unanswered):
            return unanswered
        # Of rows that are a request or an ALLOC or FREE: is the next one of the thread a request for as much?
        order = self._by_thread[
            is_request[self._by_thread]
            | (self.kind[self._by_thread] == Kind.ALLOC)
            | (self.kind[self._by_thread] == Kind.FREE)
        ]
        place = np.empty(len(self.thread), np.int64)
        place[order] = np.arange(len(order))
        following = np.append(order, -1)[place[unanswered] + 1]
        again = (following >= 0) & is_request[following] & (self.thread[following] == self.thread[unanswered])
        sizes = self.lines.first
        again[again] = sizes[self.line[following[again]]] == sizes[self.line[unanswered[again]]]
        last: Ints = unanswered[~again]
        return last
