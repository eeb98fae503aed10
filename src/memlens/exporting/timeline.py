"""The time axis of a trace: the log's times made to rise, or event numbers where it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.analyzers.places import rising_us

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

    Ints = NDArray[np.int64]

__all__ = ["Axis", "axis"]


class Axis(NamedTuple):
    """Where the events of a log, or of a part of it, stand on the axis.

    Attributes:
        ns: Nanoseconds, from 0, one entry an event, rising, int64.
        words: What the axis is.
    """

    ns: Ints
    words: str


def axis(log: EventLog, lo: int, hi: int) -> Axis:
    """The axis of events ``lo … hi-1``.

    Events stand in the order of the log, each at a time of its own: one whose time is not later than that of the event before comes a nanosecond
    after that.  An event without a time stands where the one before it does.
    """
    count = np.arange(hi - lo, dtype=np.int64)
    time = None if log.time_us is None else rising_us(log.time_us[lo:hi])
    if time is None:
        return Axis(count * 1000, "event numbers, 1 µs an event, for no event in it has a time")
    ns = np.maximum.accumulate((time - time[0]) * 1000 - count) + count
    return Axis(ns, "the log's times, from the first event on")
