"""What a program runs at each event of its log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.columns import rows_alike
from memlens.facts import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.columns import Flags, Ints

#: Where the stack of a backward function that is written in Python begins, and that of a whole pass.
_BACKWARD = re.compile(r"\btorch/autograd/(?:function\.py:\d+ apply\Z|__init__\.py:\d+ (?:backward|grad)\b)")


class Calls(NamedTuple):
    """What runs at each event of a log.

    Attributes:
        place: The line of the program that calls, as a number, int32; -1 for none.
        backward: How many backward passes run, one within the other as where layers are recomputed, int32; or whether one does, bool.
        outside: The program itself runs, and no operator, bool.
        told: Of a FREE at this event or behind it nothing is known.
        operator: The operator that runs, as an index of the operators, int32, -1 for none; ``None`` where that is not known.
        operators: Their names.
        alike: A number that calls of one operator at one line share, int32, where the place is that of a single call.
    """

    place: NDArray[np.int32]
    backward: Flags | NDArray[np.int32]
    outside: Flags
    told: int = 1 << 62
    operator: NDArray[np.int32] | None = None
    operators: Sequence[str] = ()
    alike: NDArray[np.int32] | None = None

    def operator_of(self, events: Ints) -> tuple[Ints, Sequence[str]]:
        """The operators that run at some events, and what their numbers mean; -1 where none does or that is not known."""
        numbers = np.full(len(events), -1) if self.operator is None else self.operator[events].astype(np.int64)
        return numbers, self.operators

    def let_go(self, after: Ints, free: Ints) -> Flags:
        """Whether blocks that operators were given were given back before the next one, bool: no variable had them.

        Args:
            after: How many events stand before the end of the operator of each, int64.
            free: Where it is given back, int64; past the last event where it is not.
        """
        inside = np.concatenate(([0], np.cumsum(~self.outside), [len(self.outside) + 1]))
        went: Flags = (inside[free + 1] == inside[after]) & (free < self.told)
        return went

    def within_a_line(self, alloc: Ints, free: Ints) -> Flags:
        """Whether blocks are given back while no operator runs, and none was called elsewhere meanwhile, bool: values within an expression.

        Args:
            alloc: Where each block is made, int64.
            free: Where it is given back, int64; past the last event where it is not.
        """
        changes = np.concatenate(([0], np.cumsum(np.diff(_latest(self.place)) != 0)))
        freed = free < min(self.told, len(changes))
        at = np.where(freed, free, 0)
        within: Flags = freed & self.outside[at] & (changes[at] == changes[alloc])
        return within

    def within_an_expression(self, alloc: Ints, free: Ints) -> Flags:
        """Which of such blocks others were called after, and what made it not again, as in a loop, bool; the arguments are those of :meth:`within_a_line`."""
        within = self.within_a_line(alloc, free)
        if self.operator is None:
            return within & False
        operator = _latest(self.operator)
        # The calls, one after the other, and where each operator is called next.
        first = np.flatnonzero(np.diff(operator, prepend=-2))
        order = np.argsort(operator[first], kind="stable")
        again = np.full(len(first), len(operator))
        same = np.diff(operator[first][order]) == 0
        again[order[:-1][same]] = first[order[1:][same]]
        at = np.where(within, free, alloc)
        call, end = first.searchsorted(alloc, "right") - 1, first.searchsorted(at, "right") - 1
        return within & (end > call) & (again[call] > at)

    def last_like(self, blocks: Ints, seen: Ints, alloc: Ints, size: Ints) -> Ints:
        """Of each of some blocks the last of others that the same operator at the same line made in the same size, int64, -1 where there is none.

        Args:
            blocks: The blocks, as indices of all.
            seen: The others.
            alloc: Where each of all blocks is made, int64.
            size: Its bytes, int64.
        """
        place = self.place if self.alike is None else self.alike
        seen = seen[np.isin(size[seen], size[blocks]) & (place[alloc[seen]] >= 0)]
        both = np.append(seen, blocks)
        _, key = rows_alike(self.operator_of(alloc[both])[0], place[alloc[both]], size[both])
        last = np.full(len(both), -1)
        last[key[: len(seen)]] = seen
        return last[key[len(seen) :]]

    def too_young(self, blocks: Ints, looked: Ints, alloc: Ints, size: Ints, before: Ints, block: Ints) -> Flags:
        """Which of some blocks that no walk had a row of were no older, when one last looked, than the last that the same call made was when it was found, bool of all.

        Args:
            blocks: The blocks, as indices of all.
            looked: How many events after the ALLOC of each of all blocks the last walk came that saw all.
            alloc: Where each is made, int64.
            size: Its bytes, int64.
            before: How many events stand before each row, int64, not falling.
            block: The block of each row, int64, -1 for none.
        """
        young: Flags = np.zeros(len(alloc), np.bool_)
        if not len(blocks):
            return young
        first = np.full(len(alloc), most := len(self.place) + 1)
        np.minimum.at(first, block[block >= 0], before[block >= 0])
        like = self.last_like(blocks, np.flatnonzero(first < most), alloc, size)
        young[blocks] = (like >= 0) & (looked[blocks] < first[like] - alloc[like])
        return young


def _latest(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Each number, and in place of -1 the last one before it that is none, int32."""
    return numbers[np.maximum.accumulate(np.where(numbers >= 0, np.arange(len(numbers)), 0))]


def calls_of_stacks(owner: NDArray[np.int32] | None, names: Sequence[str], kind: NDArray[np.int8]) -> Calls | None:
    """What runs where the owners are call stacks: threads of backward passes have none of Python, or one that begins with a function of autograd's.

    Args:
        owner: The owner of each event, int32, -1 for no stack; ``None`` where no event has one.
        names: The owners.
        kind: The kinds of the events, int8; stacks of FREEs may not be recorded at all, or not to the end.
    """
    if owner is None:
        return None
    backward = np.array([*(_BACKWARD.search(name) is not None for name in names), True])[owner]
    freed = np.flatnonzero((owner >= 0) & (kind == Kind.FREE))
    return Calls(owner, backward, ~backward, int(freed[-1]) + 1 if len(freed) else 0)
