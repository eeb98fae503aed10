"""ALLOC events paired with the FREE events that end them, by address, in file order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens import columns
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Ints

    Kinds = NDArray[np.int8]


#: Events looked at together: their temporaries stay in the cache.
_WALK = 1 << 17


class Lifetimes(Struct, frozen=True, eq=False):
    """Which FREE ends which ALLOC.

    A FREE ends the newest ALLOC of its address, if nothing has ended that one yet; else it is an unknown free.  An ALLOC of an address that is still live is a
    *double alloc*: the older ALLOC is left without a FREE (its Free line was lost, or another process wrote it).

    Attributes:
        partner: For an ALLOC the index of its FREE, for a FREE the index of its ALLOC, else -1; one entry an event, int32
            (int64 for logs of 2**31 events and more).
        double_allocs: Indices of the ALLOCs that came while their address was still live, int64, rising.
    """

    partner: NDArray[np.int32] | NDArray[np.int64]
    double_allocs: Ints


def pair(kind: Kinds, addr: NDArray[np.uint64], *, addresses: bool = True) -> Lifetimes:
    """Pair ALLOC and FREE events; none where events have no addresses.

    Args:
        kind: :class:`~memlens.facts.Kind` of each event, int8.
        addr: Its address.
        addresses: Blocks have addresses (:attr:`memlens.facts.Facts.addresses`).
    """
    if not addresses:
        return Lifetimes(np.full(len(kind), -1, np.int32), np.zeros(0, np.int64))
    return Lifetimes(*columns.pair(kind, addr))


class FreeAnomalies(NamedTuple):
    """The FREE events that do not simply end one ALLOC of their own size, indices rising, int64.

    Attributes:
        unknown: FREEs without an earlier ALLOC.
        mismatched: FREEs whose ALLOC has another size.
        excess: ALLOC size - FREE size of each of ``mismatched``.
    """

    unknown: Ints
    mismatched: Ints
    excess: Ints


def free_anomalies(kind: Kinds, size: Ints, lifetimes: Lifetimes) -> FreeAnomalies:
    """Gather the FREEs that stand out among events with these kinds and sizes."""
    partner, none = lifetimes.partner, np.zeros(0, np.int64)
    unknown, mismatched, excess = [none], [none], [none]
    for start in range(0, len(kind), _WALK):
        frees = np.flatnonzero(kind[start : start + _WALK] == Kind.FREE) + start
        alloc = partner[frees]
        if len(alloc) and alloc.min() < 0:
            unknown.append(frees[alloc < 0])
            frees, alloc = frees[alloc >= 0], alloc[alloc >= 0]
        difference = size[alloc] - size[frees]
        if difference.any():
            mismatched.append(frees[difference != 0])
            excess.append(difference[difference != 0])
    return FreeAnomalies(*map(np.concatenate, (unknown, mismatched, excess)))
