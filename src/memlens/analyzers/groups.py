"""Blocks alike put together, for the tables of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from msgspec import Struct

from memlens.claims.roles import NOT_SEEN, WORKSPACE, variable_of
from memlens.columns import Indices, Ints, distinct
from memlens.events import once
from memlens.results import OnDemand, Result
from memlens.text import innermost

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog


#: What results name as the owner of an opening block, where nothing more is known of it.
BEFORE_INPUT = "(before the input)"
#: … and of any other block without a call stack, in an input that has stacks.
NO_STACK = "(no stack)"
#: What stands where no owner is known.
UNOWNED = (None, BEFORE_INPUT, NO_STACK)
#: An index, a key or the number of a layer in the path of a holder.
_KEY = re.compile(r"\[(?:'[^']*'|\d+)\]|\.\d+(?=[.\[ ].* \()")
#: The name of a state of an optimizer, or of what an object in garbage has several of.
_STATE = re.compile(r"^(optimizer .+|garbage \w+)\.\w+\[\*\](?= \()")


#: Rows that are made at once.
_AT_ONCE = 64

T = TypeVar("T")


class SizeGroups(Struct, frozen=True, eq=False):
    """Groups of blocks alike, one entry a group.

    Attributes:
        size: The size of each of its blocks, int64.
        count: How many there are, int32 (int64 for logs of 2**31 events and more).
        first: The first event among theirs, the same.
        owner: Whom they belong to, an index of ``names``, int32.
        names: The owners.
        holder: Who holds half of its blocks or more, an index of ``holders``, int64, -1 where nobody does; ``None`` where nothing is known.
        holders: The holders.
        held: How many of its blocks it holds, int64.
        others: How many of its blocks somebody else was seen to hold, int64.
    """

    size: Ints
    count: Indices
    first: Indices
    owner: NDArray[np.int32]
    names: tuple[str | None, ...]
    holder: Ints | None = None
    holders: tuple[str, ...] = ()
    held: Ints | None = None
    others: Ints | None = None

    def __len__(self) -> int:
        return len(self.size)

    @property
    def total(self) -> Ints:
        """The bytes of each, int64."""
        total: Ints = self.size * self.count
        return total

    @property
    def blocks(self) -> int:
        """The blocks of all."""
        return int(self.count.sum())

    @property
    def bytes(self) -> int:
        """The bytes of all."""
        return int(self.size @ self.count)

    @property
    def is_owned(self) -> bool:
        """Whether an owner is known of some."""
        return any(map(self.names.__getitem__, distinct(self.owner).tolist()))

    def part(self, rows: slice | Ints) -> SizeGroups:
        """Some of them."""
        size, count, first, owner = self.size[rows], self.count[rows], self.first[rows], self.owner[rows]
        holder, *held = (None if column is None else column[rows] for column in (self.holder, self.held, self.others))
        return SizeGroups(size, count, first, owner, self.names, holder, self.holders, *held)

    def rows(self) -> Iterator[tuple[int, int, int, str | None]]:
        """Of each its size, its blocks, their bytes and their owner."""
        owners = map(self.names.__getitem__, self.owner.tolist())
        return zip(self.size.tolist(), self.count.tolist(), self.total.tolist(), owners, strict=True)

    def held_by(self) -> list[str | None]:
        """Of each who holds half of its blocks or more."""
        numbers = [-1] * len(self) if self.holder is None else self.holder.tolist()
        return [self.holders[number] if number >= 0 else None for number in numbers]


class Alike(Result, frozen=True):
    """Blocks of one size, how many they are, and their bytes."""

    size_bytes: int
    count: int
    total_bytes: int


class Groups(OnDemand[T]):
    """Groups of blocks as rows of a result, a few of which are made when one is asked for.

    Args:
        columns: The groups.
        rows: Makes the rows of some of them.
    """

    def __init__(self, columns: SizeGroups, rows: Callable[[SizeGroups], Iterable[T]]) -> None:
        self.columns = columns

        @lru_cache(maxsize=_AT_ONCE)
        def some(start: int) -> list[T]:
            return list(rows(columns.part(slice(start, start + _AT_ONCE))))

        super().__init__(len(columns), lambda k: some(k - k % _AT_ONCE)[k % _AT_ONCE])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


def columns_of(groups: Sequence[Any]) -> SizeGroups:
    """The columns of groups of blocks, which have ``size_bytes``, ``count`` and ``owner``."""
    if isinstance(groups, Groups):
        return groups.columns
    names = tuple(dict.fromkeys(group.owner for group in groups))
    rows = [(group.size_bytes, group.count, 0, names.index(group.owner)) for group in groups]
    size, count, first, owner = np.array(rows, np.int64).reshape(-1, 4).T
    return SizeGroups(size, count, first, owner.astype(np.int32), names)


def by_size_and_owner(
    log: EventLog, blocks: Ints, events: Ints | None = None, apart: NDArray[np.bool_] | None = None
) -> SizeGroups:
    """Group blocks by size, and by owner where the log has owners.

    The largest total comes first; among equal totals the larger blocks, then the group with the earlier event.

    Args:
        log: Their log.
        blocks: The event that says the size and the owner of each block, int64.
        events: An event of each block, rising, int64; ``None`` for ``blocks`` itself.
        apart: Blocks that are grouped by themselves; then among equal totals the group with the earlier event comes first.
    """
    group, sizes, owners = kinds_of_blocks(log, blocks, apart)
    names = owner_labels(log)
    index: Any = np.int32 if len(log) < 1 << 31 else np.int64
    first, count = np.empty(len(sizes), index), np.bincount(group, minlength=len(sizes)).astype(index)
    # Written from the back, so that the first event of a group is what stays.
    first[group[::-1]] = (blocks if events is None else events)[::-1]
    holder = commonest_holders(log, blocks, group, len(sizes)) or ()
    del group
    found = SizeGroups(sizes, count, first, (owners % len(names)).astype(np.int32), names, *holder)
    ties = () if apart is not None else (-sizes,)
    return found.part(np.lexsort((first, *ties, -found.total)))


@once
def holders_of(log: EventLog) -> tuple[Ints, tuple[str, ...]] | None:
    """Who holds the block of each event, as walks and call stacks tell: an index of the names, int64, -1 for none; ``None`` where the log names no holder."""
    if log.holder is None:
        return None
    from memlens.analyzers.roles.by_stack import workspaces_told

    return workspaces_told(log, log.holder)


def held_by(log: EventLog, event: int) -> str | None:
    """Who holds the block of one event; ``None`` where nothing is known."""
    holder, names = holders_of(log) or (None, ())
    return None if holder is None or holder[event] < 0 else names[holder[event]]


def commonest_holders(
    log: EventLog, blocks: Ints, group: Ints, groups: int
) -> tuple[Ints, tuple[str, ...], Ints, Ints] | None:
    """Who holds most blocks of each group, and half of them at least.

    Holders that differ by an index or a key alone are one where a group has several: ``cache['a']``, ``cache['b']`` are ``cache[*]``, ``net.0.weight``
    and ``net.2.weight`` are ``net[*].weight``; and all that an optimizer holds is the optimizer's: ``adam.moment1[*]`` and ``adam.moment2[*]`` are ``adam``.

    Args:
        log: Their log.
        blocks: An event of each block, int64.
        group: The number of its group, int64.
        groups: How many groups there are.

    Returns:
        An index of the names that follow for each group, int64, -1 for nobody, the names, how many blocks of each group that is,
        int64, and how many somebody else was seen to hold, int64; ``None`` where the log names no holder.
    """
    if (told := holders_of(log)) is None:
        return None
    holders, names = told
    count = len(names)
    every, kind, rank = holders_alike(names)
    known, blocks_of = holders[blocks] >= 0, np.bincount(group, minlength=groups)
    group, holder = group[known], holders[blocks][known]
    pairs, at, counts = np.unique(group * count + kind[holder], return_inverse=True, return_counts=True)
    lowest, highest = np.full(len(pairs), count), np.full(len(pairs), -1)
    np.minimum.at(lowest, at, holder)
    np.maximum.at(highest, at, holder)
    # That of all its blocks, or what these have in common.
    found, held = np.full(groups, -1), np.zeros(groups, np.int64)
    number = np.where(lowest == highest, lowest, count + pairs % count)
    # The last one that is written to a group stays: of as many the first.
    order = np.lexsort((-rank[number], counts))
    found[pairs[order] // count], held[pairs[order] // count] = number[order], counts[order]
    seen = np.array([name not in NOT_SEEN for name in (*every, "")])
    others = np.bincount(group, seen[holder], groups).astype(np.int64) - held * seen[found]
    found[2 * held < blocks_of] = -1
    return found, every, held, others


@lru_cache(maxsize=2)
def holders_alike(names: tuple[str, ...]) -> tuple[tuple[str, ...], Ints, Ints]:
    """Holders, and behind them what several of them have in common; of each the number of that, and of all their places by name, int64.

    Those that no walk saw come last.
    """
    common = [*map(in_common, names)]
    alike = {name: number for number, name in enumerate(dict.fromkeys(common))}
    every = (*names, *alike)
    rank = np.argsort(sorted(range(len(every)), key=lambda number: (every[number] in NOT_SEEN, every[number])))
    return every, np.array([alike[name] for name in common], np.int64), rank


def in_common(holder: str) -> str:
    """A holder without what tells it from others of a list, a dictionary, a model, or an optimizer; where that is garbage, too."""
    return _STATE.sub(r"\1", _KEY.sub("[*]", holder))


def largest_of(groups: Sequence[Any], whole: int) -> dict[str, Any]:
    """The largest part of the peak: the owner with the most bytes where owners are known of most, else the size; and how many have as many."""
    of = columns_of(groups)
    owners = by_label(of)
    if 2 * owners.pop(None, (0, 0))[0] <= whole and owners:
        owner, (size, blocks) = next(iter(owners.items()))
        with_stack = not owners.keys() <= {BEFORE_INPUT}
        ties = sum(total == size for total, _ in owners.values()) - 1
        holder, in_part = holder_of(of, owner, size)
        return {
            "total_bytes": size,
            "blocks": blocks,
            "ties": ties or None,
            "holder": holder,
            "held_in_part": in_part,
            **_whose(owner, with_stack),
        }
    sizes, counts = distinct(of.size), np.zeros(len(of), np.int64)
    np.add.at(counts, sizes.searchsorted(of.size), of.count)
    totals = sizes * counts[: len(sizes)]
    (most,) = (totals == totals.max()).nonzero()
    largest, blocks = sizes.item(most[-1]), counts.item(most[-1])
    return {"total_bytes": largest * blocks, "blocks": blocks, "block_bytes": largest, "ties": len(most) - 1 or None}


def holder_of(of: SizeGroups, label: str | None, whole: int) -> tuple[str | None, bool | None]:
    """Who holds most bytes of the groups that sentences give one owner, and whether somebody else was seen to hold a part."""
    if of.holder is None or of.held is None or of.others is None:
        return None, None
    theirs = [number for number, name in enumerate(of.names) if name is not None and innermost(name) == label]
    alike = np.isin(of.owner, theirs)
    rows = np.flatnonzero(alike & (of.holder >= 0))
    totals = np.bincount(of.holder[rows], (of.size * of.held)[rows], len(of.holders))
    held: dict[str, float] = {}
    for number in np.flatnonzero(totals).tolist():
        name = in_common(of.holders[number])
        held[name] = held.get(name, 0) + totals.item(number)
    most = max(held, key=held.__getitem__, default=None)
    if most is None or 2 * held[most] <= whole or (variable := variable_of(most)) is None:
        return None, None
    in_part = bool(of.others[alike].any()) or any(name not in (most, *NOT_SEEN) for name in held)
    # Workspaces are known by their sizes: what is none is somebody else's, seen or not.
    return variable, in_part or (most == WORKSPACE and held[most] < whole)


def _whose(owner: str | None, with_stack: bool = False) -> dict[str, Any]:
    before = owner == BEFORE_INPUT
    return {"owner": None if before else owner, "before_input": before, "no_stack": (before and with_stack) or None}


def by_label(of: SizeGroups) -> dict[str | None, tuple[int, int]]:
    """How many bytes and blocks there are of each owner as sentences name it, the most bytes first."""
    sums = np.zeros((2, len(of.names)), np.int64)
    first = np.zeros(len(of.names), np.int64)
    first[of.owner[::-1]] = np.arange(len(of))[::-1]
    for total, column in zip(sums, (of.total, of.count), strict=True):
        np.add.at(total, of.owner, column)
    found: dict[str | None, tuple[int, int]] = {}
    owners = distinct(of.owner)
    for number in owners[first[owners].argsort()].tolist():
        name = of.names[number]
        label = None if name is None else innermost(name)
        size, blocks = found.get(label, (0, 0))
        found[label] = size + int(sums[0, number]), blocks + int(sums[1, number])
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def kinds_of_blocks(
    log: EventLog, blocks: Ints, apart: NDArray[np.bool_] | None = None, sizes: Ints | None = None
) -> tuple[Ints, Ints, Ints]:
    """Number blocks so that those of equal size and owner have equal numbers.

    Args:
        log: Their log.
        blocks: An event of each block, int64.
        apart: Blocks that have numbers of their own.
        sizes: Their sizes, where these are at hand.

    Returns:
        ``(number, size, owner)``, int64: of each block its number; of each number its size and its owner, an index of
        :func:`owner_labels`.
    """
    sizes = log.size[blocks] if sizes is None else sizes
    kinds = distinct(sizes)
    number = kinds.searchsorted(sizes)
    apart = None if apart is None or not apart.any() else apart
    if log.owner is None and not log.facts.opening and apart is None:
        return number, kinds, np.broadcast_to(np.int64(-1), len(kinds))
    owners = len(log.owner_names) + 2
    both = 2 * (number * owners + owners_of(log, blocks) + 2)
    if apart is not None:
        both += apart
    pairs = distinct(both)
    of_pairs = pairs // 2
    return pairs.searchsorted(both), kinds[of_pairs // owners], of_pairs % owners - 2


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
