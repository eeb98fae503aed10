"""Blocks alike put together, for the tables of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["SizeGroup", "by_size_and_owner", "kinds_of_blocks"]


class SizeGroup(NamedTuple):
    """Blocks alike: their size, how many, their bytes together, the first event among theirs, and whom they belong to."""

    size_bytes: int
    blocks: int
    total_bytes: int
    first_event: int
    owner: str | None


def by_size_and_owner(
    log: EventLog, blocks: NDArray[np.int64], events: NDArray[np.int64] | None = None
) -> list[SizeGroup]:
    """Group blocks by size, and by owner where the log has owners.

    The largest total comes first; among equal totals the larger blocks, then the group with the earlier event.

    Args:
        log: Their log.
        blocks: The event that says the size and the owner of each block, int64.
        events: An event of each block, rising, int64; ``None`` for ``blocks`` itself.
    """
    if not len(blocks):
        return []
    events = blocks if events is None else events
    group, sizes, owners = kinds_of_blocks(log, blocks)
    count = np.bincount(group)
    first = np.empty(len(sizes), np.int64)
    first[group[::-1]] = events[::-1]  # written from the back, so that the first event of a group is what stays
    total = sizes * count
    order = np.lexsort((first, -sizes, -total))
    names = (*log.owner_names, None)  # -1, no owner, is the last one
    columns = (sizes, count, total, first, owners)
    return [
        SizeGroup(size, blocks_alike, together, event, names[owner])
        for size, blocks_alike, together, event, owner in zip(
            *(column[order].tolist() for column in columns), strict=True
        )
    ]


def kinds_of_blocks(
    log: EventLog, blocks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number blocks so that those of equal size and owner have equal numbers.

    Args:
        log: Their log.
        blocks: An event of each block, int64.

    Returns:
        ``(number, size, owner)``, int64: of each block its number; of each number its size and its owner (-1 for none).
    """
    sizes = log.size[blocks]
    kinds = np.unique(sizes)
    number = kinds.searchsorted(sizes)
    if log.owner is None:
        return number, kinds, np.full(len(kinds), -1, np.int64)
    owners = len(log.owner_names) + 1
    both = number * owners + log.owner[blocks] + 1
    pairs = np.unique(both)
    return pairs.searchsorted(both), kinds[pairs // owners], pairs % owners - 1
