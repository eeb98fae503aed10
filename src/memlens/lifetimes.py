"""ALLOC events paired with the FREE events that end them, by address, in file order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from memlens import columns
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["Lifetimes", "OddFrees", "odd_frees", "pair", "set_pairs"]

#: Events looked at together: their temporaries stay in the cache.
_WALK = 1 << 17


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


class OddFrees(NamedTuple):
    """The FREE events of a log that do not simply end one ALLOC of their own size, indices rising, int64.

    Attributes:
        unknown: FREEs without an earlier ALLOC.
        mismatched: FREEs whose ALLOC has another size.
        excess: ALLOC size - FREE size of each of ``mismatched``.
    """

    unknown: NDArray[np.int64]
    mismatched: NDArray[np.int64]
    excess: NDArray[np.int64]


_ODD: WeakKeyDictionary[EventLog, OddFrees] = WeakKeyDictionary()


def set_pairs(log: EventLog, lifetimes: Lifetimes, odd: OddFrees) -> None:
    """Give a log what :attr:`EventLog.lifetimes` and :func:`odd_frees` gave of the same events before."""
    vars(log)["lifetimes"] = lifetimes  # where the cached property would keep it
    _ODD[log] = odd


def odd_frees(log: EventLog) -> OddFrees:
    """The FREEs of a log that stand out, gathered once for the log."""
    if log not in _ODD:
        partner, none = log.lifetimes.partner, np.zeros(0, np.int64)
        unknown, mismatched, excess = [none], [none], [none]
        for start in range(0, len(log), _WALK):
            frees = np.flatnonzero(log.kind[start : start + _WALK] == Kind.FREE) + start
            alloc = partner[frees]
            if len(alloc) and alloc.min() < 0:
                unknown.append(frees[alloc < 0])
                frees, alloc = frees[alloc >= 0], alloc[alloc >= 0]
            difference = log.size[alloc] - log.size[frees]
            if difference.any():
                mismatched.append(frees[difference != 0])
                excess.append(difference[difference != 0])
        _ODD[log] = OddFrees(*map(np.concatenate, (unknown, mismatched, excess)))
    return _ODD[log]
