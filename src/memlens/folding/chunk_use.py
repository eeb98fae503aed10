"""Which chunk serves a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Ints

    Addresses = NDArray[np.uint64]


_LAST_ADDRESS = np.uint64((1 << 64) - 1)


def ends_of(addr: Addresses, size: Ints) -> Addresses:
    """The addresses after the last bytes of stretches, uint64; what a torn line made larger than the address space ends with it."""
    ends: Addresses = addr + np.minimum(size.astype(np.uint64), _LAST_ADDRESS - addr)
    return ends


def serving_chunks(chunks: tuple[Ints, Addresses, Ints], allocs: Ints, addr: Addresses) -> Ints:
    """The chunk that each block lies in: the one that was reserved over its address last.

    Args:
        chunks: The RESERVE of each, its address and its bytes.
        allocs: The ALLOC of each block.
        addr: Its address.

    Returns:
        Indices of ``chunks``, -1 where none is reserved there, int64.
    """
    born, begin, size = chunks
    end = ends_of(begin, size)
    edges = np.unique(np.concatenate((begin, end)))
    first, last = np.searchsorted(edges, begin), np.searchsorted(edges, end)
    # A row for each chunk and stretch between two edges that it covers, by stretch and then by event.
    chunk = np.repeat(np.arange(len(born)), last - first)
    stretch = spans(first, last - first)
    events = np.int64(max(int(born.max(initial=0)), int(allocs.max(initial=0))) + 2)
    key = stretch * events + born[chunk]
    order = np.argsort(key)
    key, chunk, stretch = key[order], chunk[order], stretch[order]
    of_alloc = np.searchsorted(edges, addr, "right") - 1
    row = np.searchsorted(key, of_alloc * events + allocs) - 1
    found = np.full(len(allocs), -1, np.int64)
    known = np.flatnonzero((row >= 0) & (of_alloc >= 0))
    known = known[stretch[row[known]] == of_alloc[known]]
    found[known] = chunk[row[known]]
    return found
