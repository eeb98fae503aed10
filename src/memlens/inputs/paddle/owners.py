"""Which owner an event has: what the nearest earlier context line of its thread names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.inputs.growing import GrowingColumn
from memlens.inputs.paddle.context import read_names
from memlens.inputs.paddle.nearest import NO_HEADER
from memlens.inputs.paddle.requests import by_thread, distinct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.inputs.paddle.context import Contexts

    Integers = NDArray[np.int64]

__all__ = ["OwnerColumn", "Owners", "join_owners", "thread_numbers"]


#: Events renumbered at once.
_PART = 1 << 18


@dataclass(frozen=True)
class Owners:
    """The context lines of one block, joined with its events as far as the block goes.

    Attributes:
        names: The owners that the lines below name.
        owner: For each event which of them it has, int32, -1 where no context line of its thread stands before it in the block;
            ``None`` for all.
        last: For each thread with a context line here, which owner its last one names: ``(thread, owner)``.
        orphans: The context lines before the first header of the block: how many events stand before each, and which owner it names,
            int64 and int32.  They belong to the thread of the last header before the block.
        last_thread: The thread of the last header in the block; :data:`~memlens.inputs.paddle.nearest.NO_HEADER` where it has none.
    """

    names: tuple[str, ...] = ()
    owner: NDArray[np.int32] | None = None
    last: tuple[tuple[int, int], ...] = ()
    orphans: tuple[Integers, NDArray[np.int32]] | None = None
    last_thread: int = NO_HEADER


def join_owners(
    block: NDArray[np.uint8],
    event_at: Integers,
    event_thread: Integers,
    contexts: Contexts,
    context_thread: Integers,
    last_thread: int,
) -> Owners:
    """Join the events and the context lines of one block, each given by position and thread (int64, in file order)."""
    if not len(contexts.start):
        return Owners(last_thread=last_thread)
    # For each event its line among the context lines, -1 for none; for each thread its last line.
    row, last = np.full(len(event_at), -1, np.int64), []
    threads = distinct(event_thread, context_thread)
    for thread, lines, events in zip(
        threads, by_thread(context_thread, threads), by_thread(event_thread, threads), strict=True
    ):
        if len(lines) and thread != NO_HEADER:
            before = contexts.start[lines].searchsorted(event_at[events])
            row[events] = np.concatenate(([-1], lines))[before]
            last.append((thread, int(lines[-1])))
    lost = np.flatnonzero(context_thread == NO_HEADER)
    # Most lines own nothing, for the next one comes before any event: their names are never read.
    used = np.zeros(len(contexts.start) + 1, np.bool_)
    for rows in (row, [line for _, line in last], lost):
        used[rows] = True
    chosen = np.flatnonzero(used[:-1])
    number = np.full(len(used), -1, np.int32)
    number[chosen], names = read_names(block, contexts, chosen)
    orphans = (event_at.searchsorted(contexts.start[lost]), number[lost]) if len(lost) else None
    return Owners(names, number[row], tuple((thread, int(number[line])) for thread, line in last), orphans, last_thread)


def thread_numbers(column: Integers, threads: Sequence[int]) -> NDArray[np.unsignedinteger] | None:
    """For each event which of the threads it has, in as few bytes as will do; ``None`` where there is one thread at most."""
    if len(threads) <= 1:
        return None
    numbers = np.zeros(len(column), np.min_scalar_type(len(threads)))
    for number, events in enumerate(by_thread(column, list(threads))):
        numbers[events] = number
    return numbers


class OwnerColumn:
    """Puts the owners of blocks together, in file order, and carries the last one of each thread from block to block.

    As long as no context line comes there is no column, and nothing is kept an event.
    """

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._last: dict[int, int] = {}
        self._last_thread = -1
        self._events = 0
        self._column: GrowingColumn | None = None

    def add(
        self,
        found: Owners,
        events: int,
        threads: Sequence[int],
        numbers: NDArray[np.unsignedinteger] | None,
        done: float,
    ) -> None:
        """Take the next block.

        Args:
            found: Its context lines.
            events: How many events it has.
            threads: Its threads.
            numbers: As :func:`thread_numbers` gives them.
            done: The share of the input read with it, 0 to 1.
        """
        if found.names or self._column is not None:
            if self._column is None:
                self._column = GrowingColumn(np.int32)
                self._column.append(np.full(self._events, -1, np.int32), done)
            self._column.append(self._settle(found, events, threads, numbers), done)
        self._events += events
        if found.last_thread != NO_HEADER:
            self._last_thread = found.last_thread

    def _settle(
        self, found: Owners, events: int, threads: Sequence[int], numbers: NDArray[np.unsignedinteger] | None
    ) -> NDArray[np.int32]:
        """The owners of a block's events, int32, numbered as in :attr:`names`."""
        numbering = np.array([*(self._names.setdefault(name, len(self._names)) for name in found.names), -1], np.int32)
        column = np.full(events, -1, np.int32) if found.owner is None else numbering[found.owner]
        if numbers is None:
            numbers = np.zeros(events, np.uint8)
        if found.orphans is not None:
            rows, names = found.orphans[0], numbering[found.orphans[1]]
            if self._last_thread >= 0:
                # Its events of this block stand after a header of the block, and so after all of these lines.
                self._last[self._last_thread] = int(names[-1])
            elif -1 in threads:
                open_events = np.flatnonzero((column < 0) & (numbers == threads.index(-1)))
                before = rows.searchsorted(open_events, "right")
                column[open_events] = np.concatenate(([-1], names))[before]
        carried = np.array([self._last.get(thread, -1) for thread in threads] or [-1], np.int32)
        if (carried >= 0).any():
            column = np.where(column < 0, carried[numbers], column)
        if found.orphans is not None and self._last_thread < 0:
            self._last[-1] = int(names[-1])
        for thread, name in found.last:
            self._last[thread] = int(numbering[name])
        return column

    def finish(self) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
        """The owner of each event as a number of the names, -1 where it has none, and the names in the order of the alphabet.

        ``None`` and no names where no event has an owner.  Takes what was put together: to be called once.
        """
        if self._column is None:
            return None, ()
        column = self._column.entries()
        parts = [column[start : start + _PART] for start in range(0, len(column), _PART)]
        used = np.zeros(len(self._names) + 1, np.bool_)
        for part in parts:
            used[part] = True
        names = sorted(name for name, number in self._names.items() if used[number])
        if not names:
            return None, ()
        numbering = np.full(len(used), -1, np.int32)
        numbering[[self._names[name] for name in names]] = np.arange(len(names))
        for part in parts:
            part[:] = numbering[part]
        return column, tuple(names)
