"""ALLOC events paired with the FREE events that end them, by address, in file order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens import columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["Lifetimes", "pair"]


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """Which FREE ends which ALLOC.

    A FREE ends the newest ALLOC of its address, if nothing has ended that one yet; else it is an unknown free.  An ALLOC of an address that is still live is a
    *double alloc*: the older ALLOC is left without a FREE (its Free line was lost, or another process wrote it).

    Attributes:
        partner: For an ALLOC the index of its FREE, for a FREE the index of its ALLOC, else -1; one entry an event, int32
            (int64 for logs of 2**31 events and more).
        double_allocs: Indices of the ALLOCs that came while their address was still live, int64, rising.
    """

    partner: NDArray[np.int32] | NDArray[np.int64]
    double_allocs: NDArray[np.int64]


def pair(log: EventLog) -> Lifetimes:
    """Pair a log's ALLOC and FREE events; none where its lines have no addresses."""
    if not log.facts.addresses:
        return Lifetimes(np.full(len(log), -1, np.int32), np.zeros(0, np.int64))
    return Lifetimes(*columns.pair(log.kind, log.addr))
