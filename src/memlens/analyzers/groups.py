"""Blocks alike put together, for the tables of results."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from memlens.columns import distinct
from memlens.text import innermost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from memlens.events import EventLog


#: What results name as the owner of an opening block, where nothing more is known of it.
BEFORE_INPUT = "(before the input)"
#: … and of any other block without a call stack, in an input that has stacks.
NO_STACK = "(no stack)"


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
    names = owner_labels(log)
    rows = zip(*(column[order].tolist() for column in (sizes, count, total, first, owners)), strict=True)
    return [SizeGroup(size, alike, together, event, names[owner]) for size, alike, together, event, owner in rows]


def largest_of(groups: Sequence[Any], whole: int) -> dict[str, Any]:
    """The largest part of the peak: the owner with the most bytes where owners are known of most, else the size; and how many have as many."""
    owners = _by_label(groups)
    if 2 * owners.pop(None, (0, 0))[0] <= whole and owners:
        owner, (size, blocks) = next(iter(owners.items()))
        with_stack = not owners.keys() <= {BEFORE_INPUT}
        ties = sum(total == size for total, _ in owners.values()) - 1
        return {"total_bytes": size, "blocks": blocks, "ties": ties or None, **_whose(owner, with_stack)}
    sizes: Counter[int] = Counter()
    for group in groups:
        sizes[group.size_bytes] += group.count
    total = max(size * blocks for size, blocks in sizes.items())
    largest, *others = sorted((size for size, blocks in sizes.items() if size * blocks == total), reverse=True)
    return {"total_bytes": total, "blocks": sizes[largest], "block_bytes": largest, "ties": len(others) or None}


def _whose(owner: str | None, with_stack: bool = False) -> dict[str, Any]:
    before = owner == BEFORE_INPUT
    return {"owner": None if before else owner, "before_input": before, "no_stack": (before and with_stack) or None}


def _by_label(groups: Iterable[Any]) -> dict[str | None, tuple[int, int]]:
    """How many bytes and blocks there are of each owner as sentences name it, the most bytes first.

    Args:
        groups: Groups of blocks, with ``owner``, ``total_bytes`` and ``count``.
    """
    found: dict[str | None, tuple[int, int]] = {}
    for group in groups:
        label = None if group.owner is None else innermost(group.owner)
        size, blocks = found.get(label, (0, 0))
        found[label] = size + group.total_bytes, blocks + group.count
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def kinds_of_blocks(
    log: EventLog, blocks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Number blocks so that those of equal size and owner have equal numbers.

    Args:
        log: Their log.
        blocks: An event of each block, int64.

    Returns:
        ``(number, size, owner)``, int64: of each block its number; of each number its size and its owner, an index of
        :func:`owner_labels`.
    """
    sizes = log.size[blocks]
    kinds = distinct(sizes)
    number = kinds.searchsorted(sizes)
    if log.owner is None and not log.facts.opening:
        return number, kinds, np.full(len(kinds), -1, np.int64)
    owners = len(log.owner_names) + 2
    both = number * owners + owners_of(log, blocks) + 2
    pairs = distinct(both)
    return pairs.searchsorted(both), kinds[pairs // owners], pairs % owners - 2


def owners_of(log: EventLog, events: NDArray[np.int64]) -> NDArray[np.int64]:
    """The owner of each event as an index of :func:`owner_labels`, int64: -1 for none, -2 for none of an opening block."""
    owner = np.full(len(events), -1, np.int64) if log.owner is None else log.owner[events].astype(np.int64)
    owner[(owner < 0) & (events < log.facts.opening)] = -2
    return owner


def owner_labels(log: EventLog) -> tuple[str | None, ...]:
    """The owners of a log as results name them; the last two stand for -2 and -1 (see :func:`owners_of`).

    ``None``, no owner, is left only for inputs whose owners are context lines, or that have none at all.
    """
    has_stacks = log.owner is not None and log.marks is not None
    return (*log.owner_names, BEFORE_INPUT, NO_STACK if has_stacks else None)
