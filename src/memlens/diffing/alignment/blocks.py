"""The allocations of many window pairs as symbols to align: what must be equal, what costs, and what speaks for a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from memlens.analyzers.fates import until
from memlens.columns import Symbols, mix
from memlens.diffing.alignment.costs import unordered_cost
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]

__all__ = [
    "Blocks",
    "Keys",
    "as_symbols",
    "gather_windows",
    "nth_with_nth",
    "owner_names",
    "owners_of",
    "spans",
    "tell_threads_apart",
    "unordered_costs",
    "unpaired",
    "values_at",
]

#: Events before and after one that count as its surroundings.
_AROUND = 2


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of the windows of one run, one window after the other, in log order; one entry a block.

    Attributes:
        log: The log.
        starts: Where each window's blocks begin and where the last one's end, int64, one more than there are windows.
        event: What is aligned: their ALLOCs, or the FREEs of blocks carried in, int64.
        alloc: Their ALLOCs, int64.
        free: The FREEs that end them, -1 where none does, int64.
        held: Not freed in the window, bool.
        size: As the ALLOC says, int64.
        before: What stands before ``event``, as one word, uint64; 0 at a window's start.  Only events of the same thread count where
            both runs tell threads apart.
        after: What stands after it, likewise.
        life: Block events between the two, likewise, as one word; 0 for what is held.
    """

    log: EventLog
    starts: Ints
    event: Ints
    alloc: Ints
    free: Ints
    held: NDArray[np.bool_]
    size: Ints
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    life: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.event)

    @cached_property
    def window(self) -> Ints:
        """The number of each block's window, int64."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def thread(self) -> Ints:
        """The thread of each ``event``, int64; -1 where the log does not tell."""
        return np.full(len(self), -1, np.int64) if self.log.thread is None else self.log.thread[self.event]

    def sums(self, values: Ints | NDArray[np.bool_]) -> Ints:
        """Values of blocks added up by window, exact int64."""
        before = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
        return before[self.starts[1:]] - before[self.starts[:-1]]


@dataclass(frozen=True, eq=False)
class _Events:
    """The ALLOCs and FREEs of windows of one log, one window after the other; columns as in :class:`Blocks`.

    Where threads are told apart, ``program`` numbers the thread and window of each, and ``order`` sorts by it.
    """

    log: EventLog
    begins: Ints
    event: Ints
    free: NDArray[np.bool_]
    partner: Ints
    before: NDArray[np.uint64]
    after: NDArray[np.uint64]
    program: Ints | None = None
    order: Ints | None = None

    @cached_property
    def window(self) -> Ints:
        return np.repeat(np.arange(len(self.begins) - 1), np.diff(self.begins))

    def blocks(self, at: Ints, life: Ints) -> Blocks:
        """The blocks of some of the events; a ``life`` of 0 is held."""
        event, partner, free = self.event[at], self.partner[at], self.free[at]
        alloc = np.where(free, partner, event)
        return Blocks(
            self.log,
            np.searchsorted(at, self.begins),
            event,
            alloc,
            np.where(free, event, partner),
            life == 0,
            self.log.size[alloc],
            self.before[at],
            self.after[at],
            mix(life.view(np.uint64)),
        )


def tell_threads_apart(base: EventLog, head: EventLog) -> bool:
    """Whether both logs say which thread each event is of, and both have several."""
    return all(
        log.thread is not None and len(log) > 0 and bool((log.thread != log.thread[0]).any()) for log in (base, head)
    )


def gather_windows(windows: Sequence[Window], *, threads: bool = False) -> tuple[Blocks, Blocks]:
    """The allocations of windows of one log, and the frees in them of blocks carried in.

    Args:
        windows: Windows of one log, in any order; they may overlap.
        threads: What surrounds a block is what its own thread does: how threads interleave is chance.
    """
    lo = np.array([window.lo for window in windows], np.int64)
    hi = np.array([window.hi for window in windows], np.int64)
    events = _events(windows[0].log, lo, hi, threads)
    window = events.window
    # -1, no partner, is later than any window's end.
    born = np.flatnonzero((until(events.partner) < hi.astype(np.uint64)[window]) & ~events.free)
    life = np.zeros(len(events.event), np.int64)
    # Positions of both ends count block events only: chunks come and go by the allocator's state.
    life[born] = _lives(events, born)
    allocs = np.flatnonzero(~events.free)
    carried_in = np.flatnonzero(events.free & (events.partner >= 0) & (events.partner < lo[window]))
    return events.blocks(allocs, life[allocs]), events.blocks(carried_in, np.zeros(len(carried_in), np.int64))


def _events(log: EventLog, lo: Ints, hi: Ints, threads: bool) -> _Events:
    event = spans(lo, hi - lo)
    block = log.kind[event] <= Kind.FREE
    begins = np.concatenate(([0], np.cumsum(hi - lo)))
    if not block.all():
        begins = np.concatenate(([0], np.cumsum(block)))[begins]
        event = event[block]
    free = log.kind[event] == Kind.FREE
    # What tells an event in any run: its size and whether it is a FREE.
    code = mix((log.size[event].view(np.uint64) << np.uint64(1)) | free)
    partner = log.lifetimes.partner[event].astype(np.int64)
    if not threads or log.thread is None:
        return _Events(log, begins, event, free, partner, *_surroundings(code, begins))
    numbers, number = np.unique(log.thread[event], return_inverse=True)
    program = np.repeat(np.arange(len(lo)), np.diff(begins)) * len(numbers) + number
    order = np.argsort(program, kind="stable")
    edges = np.concatenate(([0], np.flatnonzero(np.diff(program[order])) + 1, [len(order)]))
    before, after = np.empty(len(event), np.uint64), np.empty(len(event), np.uint64)
    before[order], after[order] = _surroundings(code[order], edges)
    return _Events(log, begins, event, free, partner, before, after, program, order)


def _lives(events: _Events, born: Ints) -> Ints:
    """How many events of its window and thread an ALLOC and the FREE that ends it are apart; the FREE may be another thread's."""
    event, ends, place = events.event, events.partner[born], born
    if events.program is None or events.order is None:
        program = events.window
        if bool((np.diff(event) > 0).all()):
            return np.searchsorted(event, ends) - place
        programs = program[born]
    else:
        event, program, programs = event[events.order], events.program[events.order], events.program[born]
        places = np.empty(len(event), np.int64)
        places[events.order] = np.arange(len(event))
        place = places[born]
    # Programs overlap, or windows step back: with the program's number in front all is one rising sequence.
    top = np.int64(int(event.max(initial=0)) + 1)
    lives: Ints = np.searchsorted(program * top + event, programs * top + ends) - place
    return lives


def _surroundings(code: NDArray[np.uint64], begins: Ints) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """What stands before and after each event in its window, as one word each; beyond the window there is nothing."""
    return _preceding(code, begins[:-1], begins[1:]), _preceding(
        code[::-1], len(code) - begins[1:], len(code) - begins[:-1]
    )[::-1]


def _preceding(code: NDArray[np.uint64], begins: Ints, ends: Ints) -> NDArray[np.uint64]:
    """The codes of the events before each, mixed into one word."""
    word = np.zeros(len(code), np.uint64)
    for distance in range(_AROUND, 0, -1):
        near = np.zeros(len(code), np.uint64)
        near[distance:] = code[:-distance]
        for place in range(distance):
            edge = begins + place
            near[edge[edge < ends]] = 0
        word = mix(word) ^ near
    return word


@dataclass(frozen=True, eq=False)
class Keys:
    """What must be equal for two blocks to pair, numbered over both runs.

    Attributes:
        base: The number of each block of base, int32.
        head: The same for head.
        size: The size that each number stands for, int64.
        requested: The request that it stands for, -1 where it is unknown or not looked at, int64.
        names: The owners of both runs, sorted.
        base_owner: The number of each block's owner among them, -1 where unknown, int64.
        head_owner: The same for head.
    """

    base: NDArray[np.int32]
    head: NDArray[np.int32]
    size: Ints
    requested: Ints
    names: tuple[str, ...]
    base_owner: Ints
    head_owner: Ints

    @cached_property
    def unit(self) -> int:
        """Bytes that all sizes are multiples of; at least 1."""
        return max(int(np.gcd.reduce(self.size)), 1) if len(self.size) else 1

    @classmethod
    def of(cls, base: Blocks, head: Blocks) -> Keys:
        """Number the blocks of both runs by size and, where both logs know any, by request."""
        sizes, number = np.unique(np.concatenate((base.size, head.size)), return_inverse=True)
        requested = np.full(len(number), -1, np.int64)
        if base.log.requested is not None and head.log.requested is not None:
            requested = np.concatenate([side.log.requested[side.alloc] for side in (base, head)])  # type: ignore[index]
        requests, of_request = np.unique(requested, return_inverse=True)
        both, number = np.unique(number * np.int64(max(len(requests), 1)) + of_request, return_inverse=True)
        names = owner_names(base.log, head.log)
        owners = [owners_of(side.log, names, side.alloc) for side in (base, head)]
        return cls(
            number[: len(base)].astype(np.int32),
            number[len(base) :].astype(np.int32),
            sizes[both // max(len(requests), 1)] if len(both) else np.zeros(0, np.int64),
            requests[both % max(len(requests), 1)] if len(both) else np.zeros(0, np.int64),
            names,
            *owners,
        )


def owner_names(base: EventLog, head: EventLog) -> tuple[str, ...]:
    """The owners of both runs, sorted, so that they are numbered alike whichever run is base."""
    return tuple(sorted({common_name(name) for log in (base, head) for name in log.owner_names}))


def owners_of(log: EventLog, names: Sequence[str], events: Ints) -> Ints:
    """The owners of some events (-1 has none) as indices of ``names``, -1 where unknown, int64."""
    if log.owner is None:
        return np.full(len(events), -1)
    place = {name: number for number, name in enumerate(names)}
    numbers = np.array([*(place[common_name(name)] for name in log.owner_names), -1], np.int64)
    return numbers[values_at(log.owner, events)]


def values_at(values: NDArray[np.integer | np.bool_], at: Ints, none: int = -1) -> Ints:
    """The values at some indices, and another one for -1, int64."""
    return np.where(at >= 0, values[at], none) if len(values) else np.full(len(at), none)


def common_name(owner: str) -> str:
    """An owner by the name that it has in all modes: Paddle's PIR puts its dialect in front, ``pd_op.add``."""
    return owner.removeprefix("pd_op.")


def as_symbols(keys: Keys, base: Blocks, head: Blocks) -> tuple[Symbols, Symbols]:
    """The blocks of both runs as symbols to align."""
    weight = keys.size // keys.unit
    # An owner that only one of the logs can know says nothing.
    owners = base.log.owner is not None and head.log.owner is not None
    return tuple(  # type: ignore[return-value]
        Symbols(key, side.held, weight[key], _marks(side, owner if owners else np.zeros(len(side), np.int64)))
        for key, side, owner in ((keys.base, base, keys.base_owner), (keys.head, head, keys.head_owner))
    )


def _marks(blocks: Blocks, owner: Ints) -> NDArray[np.uint64]:
    """Owner, what stands before, what stands after, and how long it lives: 16 bits of each in one word."""
    low = np.uint64(0xFFFF)
    word = (owner + 1).astype(np.uint64) & low
    for place, mark in enumerate((blocks.before, blocks.after, blocks.life), 1):
        word |= (mark & low) << np.uint64(16 * place)
    return word


def unordered_costs(keys: Keys, base: Blocks, head: Blocks) -> Ints:
    """What no alignment of each window can cost less than, in half bytes, int64: the cost if order did not matter."""
    numbers = len(keys.size) or 1
    codes = [blocks.window * numbers + key for blocks, key in ((base, keys.base), (head, keys.head))]
    kinds, kind = np.unique(np.concatenate(codes), return_inverse=True)
    more = _fate_counts(kind[len(base) :], head.held, len(kinds)) - _fate_counts(
        kind[: len(base)], base.held, len(kinds)
    )
    costs = np.zeros(len(base.starts) - 1, np.int64)
    np.add.at(costs, kinds // numbers, keys.size[kinds % numbers] * unordered_cost(more))
    return costs


def _fate_counts(kind: Ints, held: NDArray[np.bool_], kinds: int) -> Ints:
    """How many temporaries and held blocks of each kind there are, int64 (kinds, 2)."""
    return np.bincount(kind * 2 + held, minlength=2 * kinds).reshape(kinds, 2)


def nth_with_nth(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Where two columns hold the same number: the first place with the first, the second with the second.

    Returns:
        Places in ``left`` and in ``right``, int64.
    """
    ranked = []
    for given in (left, right):
        order = np.argsort(given, kind="stable")
        column = given[order]
        first = np.flatnonzero(np.concatenate((np.ones(min(len(column), 1), np.bool_), column[1:] != column[:-1])))
        rank = np.arange(len(column)) - np.repeat(first, np.diff(np.append(first, len(column))))
        ranked.append((order, column, rank))
    longest = int(max(rank.max(initial=0) for *_, rank in ranked)) + 1
    numbers = np.unique(np.concatenate((ranked[0][1], ranked[1][1])))
    codes = [np.searchsorted(numbers, column) * longest + rank for _, column, rank in ranked]
    _, at_left, at_right = np.intersect1d(codes[0], codes[1], assume_unique=True, return_indices=True)
    return ranked[0][0][at_left], ranked[1][0][at_right]


def unpaired(partner: Ints, heads: int) -> Ints:
    """Indices of head's entries, of so many, that are nobody's partner, rising, int64."""
    free = np.ones(heads, np.bool_)
    free[partner[partner >= 0]] = False
    return np.flatnonzero(free)


def spans(begins: Ints, lengths: Ints) -> Ints:
    """The indices of several stretches, one stretch after the other, int64."""
    offsets = np.cumsum(lengths) - lengths
    found: Ints = np.arange(lengths.sum()) + np.repeat(begins - offsets, lengths)
    return found
