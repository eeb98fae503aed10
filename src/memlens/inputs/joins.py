"""Which earlier line an event belongs to, carried from block to block: requests, sizes and owners by thread; sizes, devices and streams by address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from memlens import columns
from memlens.columns import NOTHING, SET, TAKE, USE, Ints, last_by_key
from memlens.spool import empty, walk

if TYPE_CHECKING:
    from numpy.typing import NDArray


#: Up to so many different numbers a pass over a column for each is quicker than a sort.
_FEW = 16


class ThreadLines(Struct, frozen=True):
    """Values that lines of one block give for later events of their threads, in order.

    Attributes:
        before: How many events of the block stand before each, int64, not falling.
        thread: Their threads, int64.
        values: What they say, int64, shape (lines, values).
    """

    before: Ints
    thread: Ints
    values: Ints


def last_before_events(before: Ints, thread: Ints) -> NDArray[np.bool_]:
    """Which of some lines are not followed by another one of their thread before any event."""
    last = np.ones(len(before), np.bool_)
    last[:-1] = (before[1:] != before[:-1]) | (thread[1:] != thread[:-1])
    return last


class ByThread:
    """Joins events with what a line of their thread said last, and carries that from block to block.

    Args:
        values: How many numbers a line says.
        once: An event takes what was said: the next one of its thread does not find it any more.
    """

    def __init__(self, values: int = 1, *, once: bool) -> None:
        self._role = TAKE if once else USE
        self._thread, self._values = np.empty(0, np.int64), np.empty((0, values), np.int64)

    @property
    def carries(self) -> bool:
        """Whether lines of earlier blocks said something that waits for an event."""
        return len(self._thread) > 0

    def join(
        self, lines: ThreadLines | None, thread: Ints, chosen: NDArray[np.bool_] | None = None
    ) -> tuple[Ints, Ints]:
        """Join the events of the next block.

        Args:
            lines: What its lines say; ``None`` where they say nothing.
            thread: The threads of its events, int64.
            chosen: Which of them are joined, bool; ``None`` for all.

        Returns:
            The events for which something was said, int64, and what, int64 of shape (events, values).
        """
        if lines is None and not len(self._thread):
            return self._thread, self._values
        if lines is None:
            lines = ThreadLines(self._thread[:0], self._thread[:0], self._values[:0])
        before, given, events = len(self._thread), len(lines.thread), len(thread)
        # Rows: what earlier blocks said, lines and events as they stand in the block, and a question for each thread.
        line_rows = lines.before + np.arange(before, before + given)
        is_event = np.ones(before + given + events, np.bool_)
        is_event[:before] = is_event[line_rows] = False
        event_rows = np.flatnonzero(is_event)
        threads = np.array(distinct(self._thread, lines.thread), np.int64)
        key, role = np.empty(len(is_event), np.int64), np.full(len(is_event), SET, np.int8)
        key[:before], key[line_rows], key[event_rows] = self._thread, lines.thread, thread
        role[event_rows] = self._role if chosen is None else np.where(chosen, self._role, NOTHING)
        found = last_by_key(np.concatenate((key, threads)), np.concatenate((role, np.full(len(threads), USE, np.int8))))
        index = np.empty(len(is_event), np.int64)  # of the values of each row
        index[:before], index[line_rows] = np.arange(before), np.arange(before, before + given)
        values = np.concatenate((self._values, lines.values))
        of_events, kept = found[event_rows], found[len(is_event) :]
        self._thread, self._values = threads[kept >= 0], values[index[kept[kept >= 0]]]
        joined = np.flatnonzero(of_events >= 0)
        return joined, values[index[of_events[joined]]]


class LatestByAddress:
    """Knows what the latest row that set an address says of it.

    Args:
        role: What other rows do: ask (``USE``), or ask and clear the address (``TAKE``).
    """

    def __init__(self, role: int) -> None:
        self._role = role
        self._addr, self._tag, self._value = np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64)

    def before(self, addr: NDArray[np.uint64], tag: Ints, value: Ints, sets: NDArray[np.bool_]) -> Ints:
        """Take the next rows, in order.

        Args:
            addr: Addresses, uint64.
            tag: What else tells them apart, less than 2**17.
            value: What rows that set it say.
            sets: Which ones do.

        Returns:
            For the other rows the value of the latest row before with the same address and tag, else -1, int64.
        """
        kept = len(self._addr)
        addr, tag = np.concatenate([self._addr, addr]), np.concatenate([self._tag, tag])
        value = np.concatenate([self._value, value])
        sets = np.concatenate([np.ones(kept, np.bool_), sets])
        low = addr.astype(np.int64) if int(addr.max(initial=0)) < 1 << 46 else np.unique(addr, return_inverse=True)[1]
        key = low << 17 | tag
        setters = key[sets]
        # What is asked for at the end is what the next block needs.
        role = np.concatenate([np.where(sets, SET, self._role), np.full(len(setters), USE)]).astype(np.int8)
        found = last_by_key(np.concatenate([key, setters]), role)
        last = np.zeros(len(addr), np.bool_)
        last[found[len(addr) :][found[len(addr) :] >= 0]] = True
        self._addr, self._tag, self._value = addr[last], tag[last], value[last]
        latest = found[kept : len(addr)]
        return np.where(latest >= 0, value[latest], -1)


def distinct(*columns: Ints) -> list[int]:
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


def join_streams(
    kind: NDArray[np.int8],
    addr: NDArray[np.uint64],
    rows: NDArray[np.bool_] | None,
    before: Ints,
    named_addr: NDArray[np.uint64],
    stream: Ints,
) -> Ints:
    """The stream of each event, int64, -1 where unknown.

    A line that names the stream of a block stands after the ALLOC of the block and before its FREE, or is the ALLOC line itself.  So it
    belongs to the ALLOC of its address before it, if no FREE stands between them; a FREE has its ALLOC's.

    Args:
        kind: The kinds of the events, int8.
        addr: Their addresses, uint64.
        rows: Which events count, bool; ``None`` for all.
        before: How many events stand before each line, int64, not falling.
        named_addr: The addresses that they name, uint64.
        stream: The streams, int64.
    """
    named = empty(len(kind), np.int64)
    named.fill(-1)
    # What earlier events leave live: its addresses and ALLOCs.
    live, allocs = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    first = 0
    for start, stop in walk(0, max(len(kind), 1)):
        last = len(before) if stop >= len(kind) else int(np.searchsorted(before, stop, "right"))
        lines, count = slice(first, last), stop - start if len(kind) else 0
        at = len(live) + before[lines] - start + np.arange(last - first)
        is_event = np.ones(len(live) + count + last - first, np.bool_)
        is_event[: len(live)] = is_event[at] = False
        key, role = np.empty(len(is_event), np.uint64), np.full(len(is_event), USE, np.int8)
        key[: len(live)], key[at], key[is_event] = live, named_addr[lines], addr[start:stop]
        role[: len(live)] = SET
        role[is_event] = np.array([SET, TAKE, NOTHING, NOTHING], np.int8)[kind[start:stop]]
        if rows is not None:
            role[np.flatnonzero(is_event)[~rows[start:stop]]] = NOTHING
        event = np.empty(len(is_event), np.int64)  # of each row
        event[: len(live)], event[is_event] = allocs, np.arange(start, start + count)
        # What is asked for at the end is what the next events need.
        addresses = columns.distinct(key[role == SET])
        found = last_by_key(
            np.concatenate((key, addresses)).view(np.int64),
            np.concatenate((role, np.full(len(addresses), USE, np.int8))),
        )
        fits = found[at] >= 0
        named[event[found[at[fits]]]] = stream[lines][fits]
        frees = np.flatnonzero(is_event & (role == TAKE) & (found[: len(role)] >= 0))
        named[event[frees]] = named[event[found[frees]]]
        kept = found[len(role) :]
        live, allocs = addresses[kept >= 0], event[kept[kept >= 0]]
        first = last
    return named
