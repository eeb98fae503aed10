"""Loops over whole columns that NumPy has no words for: compiled (``_columns.c``) where the module was built, else in Python.

Each function stands twice, compiled and as a reference implementation (``reference_…``), which is what runs with ``MEMLENS_PURE=1``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.native import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    _Indices = NDArray[np.int32] | Ints

__all__ = ["NOTHING", "SET", "TAKE", "USE", "last_by_key", "pair"]

#: What a row does with its key: nothing; become the latest row that set it; ask for that row; ask for it and clear the key.
NOTHING, SET, USE, TAKE = 0, 1, 2, 3

_native = load("_columns")
#: Where keys fall in the compiled hash tables is chance, so that no log can be made up to make them slow.
_SEED = int.from_bytes(os.urandom(8), "little")


def pair(kind: NDArray[np.int8], addr: NDArray[np.uint64]) -> tuple[_Indices, Ints]:
    """Pair ALLOCs (kind 0) with the FREEs (kind 1) that end them.

    A FREE ends the newest ALLOC of its address, if nothing has ended that one yet.

    Args:
        kind: Kinds of events in file order, int8; other kinds are not looked at.
        addr: Their addresses, uint64.

    Returns:
        For each event the index of its partner, -1 for none, int32 (int64 for 2**31 events and more); and the indices of the ALLOCs whose
        address was live, int64, rising.
    """
    if _native is None:
        return reference_pair(kind, addr)
    wide = len(kind) >= 1 << 31
    partner: _Indices = np.empty(len(kind), np.int64) if wide else np.empty(len(kind), np.int32)
    doubled = np.empty(len(kind), np.uint8)
    _native.pair(_as(kind, np.int8), _as(addr, np.uint64), partner, doubled, wide, _SEED)
    return partner, np.flatnonzero(doubled)


def reference_pair(kind: NDArray[np.int8], addr: NDArray[np.uint64]) -> tuple[_Indices, Ints]:
    """The reference implementation of :func:`pair`."""
    partner: _Indices = np.full(len(kind), -1, np.int64) if len(kind) >= 1 << 31 else np.full(len(kind), -1, np.int32)
    doubles = []
    live: dict[int, int] = {}
    for event, (what, address) in enumerate(zip(kind.tolist(), addr.tolist(), strict=True)):
        if what == 0:
            if address in live:
                doubles.append(event)
            live[address] = event
        elif what == 1 and address in live:
            alloc = live.pop(address)
            partner[alloc], partner[event] = event, alloc
    return partner, np.array(doubles, np.int64)


def last_by_key(key: Ints, role: NDArray[np.int8]) -> Ints:
    """For rows that use or take a key: which row before them set it last.

    Rows are worked through in order.  To go on where an earlier call ended, put a row that sets it in front for each key that carries
    something; rows that use the keys, put at the end, say what is carried on.

    Args:
        key: The key of each row, int64.
        role: What each row does with it, int8: 0 nothing, 1 set, 2 use, 3 take, which is to use and clear it.

    Returns:
        For rows of role 2 and 3 the index of the latest row of role 1 with the same key that nothing took since, else -1; int64.
    """
    if _native is None:
        return reference_last_by_key(key, role)
    found = np.empty(len(key), np.int64)
    _native.last_by_key(_as(key, np.int64), _as(role, np.int8), found, _SEED)
    return found


def reference_last_by_key(key: Ints, role: NDArray[np.int8]) -> Ints:
    """The reference implementation of :func:`last_by_key`."""
    found = np.full(len(key), -1, np.int64)
    latest: dict[int, int] = {}
    rows = np.flatnonzero(role)
    for row, name, what in zip(rows.tolist(), key[rows].tolist(), role[rows].tolist(), strict=True):
        if what == SET:
            latest[name] = row
        elif what == USE:
            found[row] = latest.get(name, -1)
        elif what == TAKE:
            found[row] = latest.pop(name, -1)
    return found


def _as(column: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A column as the compiled functions take it: of this type, without gaps."""
    return np.ascontiguousarray(column, dtype)
