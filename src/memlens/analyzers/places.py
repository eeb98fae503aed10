"""Where events stand: line numbers and times, looked up only for the events that are shown."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import distinct

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.windows.windows import Window


#: A year of stamps without a year, which has a 29th of February (see :mod:`memlens.inputs.paddle.lines`).
YEAR_US = 366 * 24 * 3600 * 10**6


class Lines:
    """The 1-based line numbers of some events of a log: the first one is looked up alone, for often it is the only one; then all together.

    Args:
        log: The log.
        events: The events that will be asked for; ``None`` among them is skipped.
    """

    def __init__(self, log: EventLog, events: Iterable[int | None] | NDArray[np.int64]) -> None:
        self._log = log
        self._events = events
        self._first: tuple[int, int | None] | None = None

    @cached_property
    def _known(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The events, rising, and the lines of all of them, -1 where one cannot be told; both int64."""
        events = distinct(np.array([event for event in self._events if event is not None], np.int64))
        lines = self._log.line_numbers(events.tolist())
        return events, np.array([-1 if line is None else line for line in lines], np.int64)

    def of(self, event: int | None) -> int | None:
        """The line of one of the events; ``None`` for ``None``, and where it cannot be told."""
        if event is None:
            return None
        if self._log.line is not None:
            return self._log.line_numbers([event])[0]
        if self._first is None:
            self._first = event, self._log.line_numbers([event])[0]
        if event == self._first[0]:
            return self._first[1]
        events, lines = self._known
        line = lines.item(int(events.searchsorted(event)))
        return line if line > 0 else None


def both_ends(
    log: EventLog, ends: Sequence[tuple[int, int | None]]
) -> list[tuple[int, int | None, int | None, int | None]]:
    """Of pairs of events, an ALLOC and its FREE say, both with their lines; ``None`` for one that is not there."""
    lines = Lines(log, [event for pair in ends for event in pair])
    return [(one, lines.of(one), other, lines.of(other)) for one, other in ends]


def lines_at(log: EventLog, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """The 1-based lines of some events, int64; 0 where one cannot be told, and of what was there before the input begins.

    Args:
        log: The log.
        events: Events in any order, int64; below 0 there are none.
    """
    lines = np.zeros(len(events), np.int64)
    logged = events >= log.facts.opening
    known, number = np.unique(events[logged], return_inverse=True)
    lines[logged] = np.array([line or 0 for line in log.line_numbers(known.tolist())], np.int64)[number]
    return lines


def time_of(log: EventLog, event: int | None) -> int | None:
    """When an event was logged, in microseconds; ``None`` where that is unknown or was not read."""
    if event is None or log.time_us is None or log.time_us[event] < 0:
        return None
    return int(log.time_us[event])


def elapsed_us(first: int | None, last: int | None) -> int | None:
    """Microseconds from one stamp to a later line's, ``None`` where one is unknown; never negative.

    Stamps step back a little, which counts as 0.  Stamps without a year step back by a year where a run crosses New Year:
    going back by more than half a year is that.  Such stamps count 366 days in every year.
    """
    if first is None or last is None:
        return None
    passed = last - first
    return max(passed + YEAR_US if passed < -YEAR_US // 2 else passed, 0)


def lasting_us(window: Window) -> int | None:
    """Microseconds from the first event of a window to its last; times that were not read are looked up in their lines."""
    return elapsed_us(*window.log.times_of([window.lo, window.hi - 1])) if len(window) else None


def all_elapsed_us(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """:func:`elapsed_us` of many pairs of stamps at once, int64; -1 stands for a stamp that is unknown, and for what is then."""
    passed = last - first
    passed = np.maximum(np.where(passed < -YEAR_US // 2, passed + YEAR_US, passed), 0)
    return np.where((first >= 0) & (last >= 0), passed, -1)


def rising_us(stamps: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Stamps in the order of the log as an axis of time that does not fall, int64; ``None`` where none is known.

    One that steps back is where those before it are, and so is one that is not known; before the first known one all are there.  Stamps without
    a year step back by one at New Year (see :func:`elapsed_us`), and forward again where a thread is late.

    Args:
        stamps: Microseconds, int64, -1 where unknown.
    """
    known = stamps >= 0
    if not known.any():
        return None
    last = np.maximum.accumulate(np.where(known, np.arange(len(stamps)), int(known.argmax())))
    times = stamps[last]
    step = np.diff(times, prepend=times[0])
    years = np.cumsum((step < -YEAR_US // 2).astype(np.int64) - (step > YEAR_US // 2))
    return np.maximum.accumulate(times + years * YEAR_US)
