"""Blocks of equal size put together, for the tables of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SizeGroup", "by_size"]


class SizeGroup(NamedTuple):
    """Blocks alike: their size, how many, their bytes together, and the first event among theirs."""

    size_bytes: int
    blocks: int
    total_bytes: int
    first_event: int


def by_size(sizes: NDArray[np.int64], events: NDArray[np.int64]) -> list[SizeGroup]:
    """Group blocks by size, the largest total first; among equal totals the larger blocks first.

    Args:
        sizes: Bytes of each block, int64.
        events: An event of each block, rising, int64.
    """
    if not len(sizes):
        return []
    kinds = np.unique(sizes)
    group = np.searchsorted(kinds, sizes)
    count = np.bincount(group)
    first = np.empty(len(kinds), np.int64)
    first[group[::-1]] = events[::-1]  # written from the back, so that the first event of a group is what stays
    total = kinds * count
    order = np.lexsort((-kinds, -total))
    columns = (kinds[order].tolist(), count[order].tolist(), total[order].tolist(), first[order].tolist())
    return [SizeGroup(*row) for row in zip(*columns, strict=True)]
