"""What the latest row that sets an address said of it, carried from block to block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import SET, USE, last_by_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["LatestByAddress"]


class LatestByAddress:
    """What the latest row that sets an address says of it.

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
        # What is asked for at the end is what is carried on.
        role = np.concatenate([np.where(sets, SET, self._role), np.full(len(setters), USE)]).astype(np.int8)
        found = last_by_key(np.concatenate([key, setters]), role)
        carried = np.zeros(len(addr), np.bool_)
        carried[found[len(addr) :][found[len(addr) :] >= 0]] = True
        self._addr, self._tag, self._value = addr[carried], tag[carried], value[carried]
        latest = found[kept : len(addr)]
        return np.where(latest >= 0, value[latest], -1)
