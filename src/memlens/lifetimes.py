"""ALLOC events paired with the FREE events that end them, by address, in file order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["Lifetimes", "OddFrees", "Pairing", "odd_frees", "pair"]

#: Events paired at once: the sort of one batch stays in the cache.
_BATCH = 1 << 17


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """Who ends whom.

    A FREE ends the newest ALLOC of its address, if nothing has ended that one yet; else it is an unknown free.  An ALLOC of an address that is still live is a
    *double alloc*: the older ALLOC is left without a FREE (its Free line was lost, or another process wrote it).

    Attributes:
        partner: For an ALLOC the index of its FREE, for a FREE the index of its ALLOC, else -1; one entry an event, int32
            (int64 for logs of 2**31 events and more).
        double_allocs: Indices of the ALLOCs that came while their address was still live, int64, rising.
    """

    partner: NDArray[np.int32] | NDArray[np.int64]
    double_allocs: NDArray[np.int64]


class Pairing:
    """A fold that pairs events batch by batch; its state is the blocks that are live.

    Attributes:
        live_addr: Addresses of the live blocks, uint64.
        live_event: Indices of their ALLOCs, int64, in the same order.
    """

    def __init__(self) -> None:
        self.live_addr = np.zeros(0, np.uint64)
        self.live_event = np.zeros(0, np.int64)

    def feed(
        self, free: NDArray[np.bool_], addr: NDArray[np.uint64], event: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Take the next events, ALLOCs and FREEs only, in file order.

        Args:
            free: Whether each is a FREE.
            addr: Addresses, uint64.
            event: Indices in the log, int64.

        Returns:
            ``(allocs, frees, doubles)``, int64: indices of the pairs that these events complete, and of the double allocs.
        """
        known = len(self.live_addr)
        addr = np.concatenate((self.live_addr, addr))
        event = np.concatenate((self.live_event, event))
        free = np.concatenate((np.zeros(known, np.bool_), free))
        order = _order_by_address(addr)
        addr, event, free = addr[order], event[order], free[order]
        same = addr[1:] == addr[:-1]  # the next event in this order is of the same address
        after_alloc = same & ~free[:-1]
        ends = np.flatnonzero(after_alloc & free[1:])
        doubles = np.flatnonzero(after_alloc & ~free[1:]) + 1
        last = np.concatenate((~same, np.ones(min(len(addr), 1), np.bool_)))
        live = np.flatnonzero(last & ~free)
        self.live_addr, self.live_event = addr[live], event[live]
        return event[ends], event[ends + 1], event[doubles]


def _order_by_address(addr: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The order that sorts by address and, within one address, keeps the order given."""
    if not len(addr):
        return np.zeros(0, np.int64)
    # Addresses and positions fit into one word as a rule: blocks are aligned and lie in one stretch.  Sorting such words
    # is several times faster than a stable argsort.
    place_bits = int(len(addr) - 1).bit_length()
    low = addr.min()
    spread = addr - low
    used = int(np.bitwise_or.reduce(spread))
    trailing = (used & -used).bit_length() - 1 if used else 0
    if used.bit_length() - trailing + place_bits > 64:
        return addr.argsort(kind="stable")
    spread >>= np.uint64(trailing)
    spread <<= np.uint64(place_bits)
    spread |= np.arange(len(addr), dtype=np.uint64)
    spread.sort()
    places: NDArray[np.int64] = (spread & np.uint64((1 << place_bits) - 1)).view(np.int64)
    return places


def pair(log: EventLog) -> Lifetimes:
    """Pair a log's ALLOC and FREE events, in one pass over batches; none where its lines have no addresses."""
    partner: NDArray[np.int32] | NDArray[np.int64] = (
        np.full(len(log), -1, np.int32) if len(log) < 1 << 31 else np.full(len(log), -1, np.int64)
    )
    if not log.facts.addresses:
        return Lifetimes(partner, np.zeros(0, np.int64))
    doubles: list[NDArray[np.int64]] = []
    pairing = Pairing()
    for lo in range(0, len(log), _BATCH):
        kind = log.kind[lo : lo + _BATCH]
        block = np.flatnonzero(kind <= 1)  # ALLOC and FREE; the rest are chunks
        allocs, frees, more = pairing.feed(kind[block] == 1, log.addr[lo : lo + _BATCH][block], block + lo)
        partner[allocs] = frees
        partner[frees] = allocs
        doubles.append(more)
    return Lifetimes(partner, np.sort(np.concatenate(doubles)) if doubles else np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class OddFrees:
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


def odd_frees(log: EventLog) -> OddFrees:
    """The FREEs of a log that stand out, gathered once for the log."""
    if log not in _ODD:
        partner, none = log.lifetimes.partner, np.zeros(0, np.int64)
        unknown, mismatched, excess = [none], [none], [none]
        for start in range(0, len(log), _BATCH):
            frees = np.flatnonzero(log.kind[start : start + _BATCH] == Kind.FREE) + start
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
