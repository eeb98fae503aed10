"""What is live at the peak of each rank, in columns, and what one rank holds there that its peers do not.

Ten thousand ranks with 64 groups each are ten megabytes.  What a rank holds is compared with the *median rank* of its peers: the first one, in the order of the ranks,
whose peak is their median.  Of a group that is not among those kept of the median rank no more is known than that it is no larger
than the smallest kept one, and than all that was not kept: the difference is then at least what is left beyond that, and marked so.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memlens.analyzers.result import Row
from memlens.columns import spans

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.analyzers.peak import LiveGroup

    Ints = NDArray[np.int64]

__all__ = ["HeldBlocks", "HeldMore"]


@dataclass(frozen=True)
class HeldMore(Row):
    """Blocks of one size and owner of which a rank holds more at its peak than the median rank of its peers.

    Attributes:
        size_bytes: Of each block.
        blocks: How many more.
        more_bytes: Their bytes.
        owner: Whom they belong to, ``None`` where unknown; text from the log.
        at_least: The median rank holds so many groups that not all are known: this is the least that it can be.
        peers_alike: Other ranks among the peers that hold as many of them as this one, as far as is kept of them.
    """

    size_bytes: int
    blocks: int
    more_bytes: int
    owner: str | None
    at_least: bool
    peers_alike: int


class HeldBlocks:
    """The groups of all ranks, added rank by rank in any order."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[int, int, int]] = {}
        self._size, self._count, self._owner = array("q"), array("q"), array("l")
        self._owners: dict[str | None, int] = {None: 0}

    def add(self, rank: int, groups: Sequence[LiveGroup], rest_bytes: int) -> None:
        """Add what one rank holds.

        Args:
            rank: Its number, by which it is asked for.
            groups: The largest total first.
            rest_bytes: What it holds beside these.
        """
        self._first[rank] = len(self._size), len(groups), rest_bytes
        self._size.extend(group.size_bytes for group in groups)
        self._count.extend(group.count for group in groups)
        self._owner.extend(self._owners.setdefault(group.owner, len(self._owners)) for group in groups)

    def _of(self, rank: int) -> dict[tuple[int, int], int]:
        """The blocks of each size and owner that are known of a rank, the largest total first."""
        first, length, _ = self._first.get(rank, (0, 0, 0))
        span = slice(first, first + length)
        return dict(zip(zip(self._size[span], self._owner[span], strict=True), self._count[span], strict=True))

    def more(self, rank: int, median_rank: int, peers: Ints, top: int) -> list[HeldMore]:
        """What a rank holds more of than another one, the most bytes first.

        Args:
            rank: The rank.
            median_rank: The one that it is compared with.
            peers: All its peers, itself included, int64.
            top: Groups to give at most.
        """
        own, usual = self._of(rank), self._of(median_rank)
        rest = self._first.get(median_rank, (0, 0, 0))[2]
        unknown = min(rest, min((size * count for (size, _), count in usual.items()), default=rest))
        names = list(self._owners)
        found = []
        for (size, owner), count in own.items():
            known = usual.get((size, owner))
            more = count - (min(unknown // size, count) if known is None and size else known or 0)
            if more > 0:
                found.append((size, more, owner, known is None and unknown >= size > 0, count))
        found = sorted(found, key=lambda one: -one[0] * one[1])[:top]
        alike = self._holding([(size, owner, count) for size, _, owner, _, count in found], peers)
        return [
            HeldMore(size, more, size * more, names[owner], least, holding - 1)
            for (size, more, owner, least, _), holding in zip(found, alike, strict=True)
        ]

    def _holding(self, wanted: Sequence[tuple[int, int, int]], peers: Ints) -> list[int]:
        """How many of some ranks hold at least so many blocks of each size and owner."""
        if not wanted:
            return []
        known = np.array([self._first.get(rank, (0, 0, 0))[:2] for rank in peers.tolist()], np.int64)
        at = spans(known[:, 0], known[:, 1])
        size, count, owner = (
            np.frombuffer(column, column.typecode)[at] for column in (self._size, self._count, self._owner)
        )
        return [
            int(np.count_nonzero((size == of_size) & (owner == of_owner) & (count >= least)))
            for of_size, of_owner, least in wanted
        ]
