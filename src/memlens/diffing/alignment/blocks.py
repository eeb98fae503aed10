"""The allocations of many window pairs as symbols to align: what must be equal, what costs, and what speaks for a pair."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.analyzers.fates import until
from memlens.columns import Flags, Ints, Symbols, Words, mix, spans
from memlens.diffing.alignment.indices import starts_of, values_at
from memlens.diffing.alignment.tables import fate_counts, unordered_cost
from memlens.facts import Kind
from memlens.folding import bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.events import EventLog
    from memlens.windows.windows import Window


#: Events before and after one that count as its surroundings.
_AROUND = 2
#: A line number in the name of an owner.
_LINE = re.compile(r"(?<=:)\d+")


class Blocks(Struct, frozen=True, eq=False, dict=True):
    """Blocks of the windows of one run, one window after the other, in log order; one entry a block.

    Attributes:
        log: The log.
        starts: Where each window's blocks begin and where the last one's end, int64, one more than there are windows.
        event: What is aligned: their ALLOCs, or the FREEs of blocks carried in, int64.
        alloc: Their ALLOCs, int64.
        free: The FREEs that end them, -1 where none does, int64.
        held: Not freed in the window, bool.
        before: What stands before ``event``, as one word, uint64; 0 at a window's start.  Only events of the same thread count where
            both runs tell threads apart.
        after: What stands after it, likewise.
        life: Block events between the two, likewise, as one word; 0 for what is held.
        thread: The thread of each ``event``, int64; -1 where threads are not told apart.
    """

    log: EventLog
    starts: Ints
    event: Ints
    alloc: Ints
    free: Ints
    held: Flags
    before: Words
    after: Words
    life: Words
    thread: Ints

    def __len__(self) -> int:
        return len(self.event)

    @cached_property
    def size(self) -> Ints:
        """As the ALLOC says, int64."""
        return self.log.size[self.alloc]

    @cached_property
    def window(self) -> Ints:
        """The number of each block's window, int64."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def sums(self, values: Ints | Flags) -> Ints:
        """Values of blocks added up by window, exact int64."""
        before = starts_of(values)
        return before[self.starts[1:]] - before[self.starts[:-1]]


def tell_threads_apart(base: EventLog, head: EventLog) -> bool:
    """Return whether both logs say which thread each event is of, and both have several."""
    return all(
        log.thread is not None and len(log) > 0 and bool((log.thread != log.thread[0]).any()) for log in (base, head)
    )


def gather_windows(windows: Sequence[Window], *, threads: bool = False) -> tuple[Blocks, Blocks]:
    """The allocations of windows of one log, and the frees in them of blocks carried in.

    Args:
        windows: Windows of one log, in any order; they may overlap.
        threads: What surrounds a block is what its own thread does: how threads interleave is chance.
    """
    log, lo, hi = bounds(windows)
    event, window = spans(lo, hi - lo), np.repeat(np.arange(len(lo)), hi - lo)
    # Chunks come and go by the allocator's state.
    block = log.kind[event] <= Kind.FREE
    if not block.all():
        event, window = event[block], window[block]
    free, partner = log.kind[event] == Kind.FREE, log.lifetimes.partner[event].astype(np.int64)
    thread, program = np.full(len(event), -1), window
    if threads and log.thread is not None:
        thread = log.thread[event]
        numbers, number = np.unique(thread, return_inverse=True)
        program = window * len(numbers) + number
    order = np.argsort(program, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    # What tells an event in any run: its size and whether it is a FREE.
    code, ranked = mix((log.size[event].view(np.uint64) << np.uint64(1)) | free)[order], program[order]
    before, after = _preceding(code, ranked)[place], _preceding(code[::-1], ranked[::-1])[::-1][place]
    # -1, no partner, is later than any window's end.
    freed = np.flatnonzero((until(partner) < hi.astype(np.uint64)[window]) & ~free)
    # How many events of its window and thread an ALLOC and the FREE that ends it, which may be another thread's, are apart.
    top = int(event.max(initial=0)) + 1
    life = np.zeros(len(event), np.int64)
    life[freed] = np.searchsorted(ranked * top + event[order], program[freed] * top + partner[freed]) - place[freed]

    def blocks(at: Ints, alloc: Ints, free: Ints) -> Blocks:
        starts = np.searchsorted(window[at], np.arange(len(lo) + 1))
        lives = life[at]
        around = before[at], after[at], mix(lives.view(np.uint64))
        return Blocks(log, starts, event[at], alloc[at], free[at], lives == 0, *around, thread[at])

    carried_in = free & (partner >= 0) & (partner < lo[window])
    return blocks(np.flatnonzero(~free), event, partner), blocks(np.flatnonzero(carried_in), partner, event)


def _preceding(code: Words, program: Ints) -> Words:
    """The codes of the events of one program before each, mixed into one word; before its start there is nothing."""
    word = np.zeros(len(code), np.uint64)
    for distance in range(_AROUND, 0, -1):
        near = np.zeros(len(code), np.uint64)
        near[distance:] = code[:-distance] * (program[distance:] == program[:-distance])
        word = mix(word) ^ near
    return word


class Owners(NamedTuple):
    """The owners of two runs.

    Attributes:
        names: Sorted, so that they are numbered alike whichever run is base; of one that stands at other lines in head, head's name.
        number: The index of each among them, by its name in either run.
    """

    names: tuple[str, ...]
    number: dict[str, int]


class Keys(Struct, frozen=True, eq=False, dict=True):
    """Size and request, which are equal where two blocks pair, numbered over both runs.

    Attributes:
        base: The number of each block of base, int32.
        head: The same for head.
        size: The size that each number stands for, int64.
        requested: The request that it stands for, -1 where it is unknown or not looked at, int64.
        owners: The owners of both runs.
        base_owner: The number of each block's owner among them, -1 where unknown, int64.
        head_owner: The same for head.
    """

    base: NDArray[np.int32]
    head: NDArray[np.int32]
    size: Ints
    requested: Ints
    owners: Owners
    base_owner: Ints
    head_owner: Ints

    @cached_property
    def unit(self) -> int:
        """Bytes that all sizes are multiples of; at least 1."""
        return max(int(np.gcd.reduce(self.size)), 1) if len(self.size) else 1

    @classmethod
    def of(cls, base: Blocks, head: Blocks) -> Keys:
        """Number the blocks of both runs by size and, where both logs know any, by request."""
        sizes, of_size = np.unique(np.concatenate((base.size, head.size)), return_inverse=True)
        requested = np.full(len(of_size), -1, np.int64)
        if base.log.requested is not None and head.log.requested is not None:
            requested = np.concatenate([side.log.requested[side.alloc] for side in (base, head)])  # type: ignore[index]
        requests, of_request = np.unique(requested, return_inverse=True)
        both, number = np.unique(of_size * len(requests) + of_request, return_inverse=True)
        size, request = np.divmod(both, len(requests))
        owners = owner_names(base.log, head.log)
        of_base, of_head = np.split(number.astype(np.int32), [len(base)])
        of_sides = (owners_of(side.log, owners, side.alloc) for side in (base, head))
        return cls(of_base, of_head, sizes[size], requests[request], owners, *of_sides)


def owner_names(base: EventLog, head: EventLog) -> Owners:
    """The owners of both runs.

    Those that one run alone has are the same where they differ by line numbers alone (``relu < net.py:25 forward``), in the order of these,
    and both runs have as many of them: the program has lines more or less above.
    """
    names = [{common_name(name) for name in log.owner_names} for log in (base, head)]
    alone: tuple[dict[str, list[str]], ...] = ({}, {})
    for found, own, others in zip(alone, names, reversed(names), strict=True):
        for name in sorted(own - others, key=_lines_of):
            found.setdefault(_LINE.sub("", name), []).append(name)
    moved = {
        theirs: ours
        for place, those in alone[0].items()
        if len(those) == len(alone[1].get(place, ()))
        for theirs, ours in zip(those, alone[1][place], strict=True)
    }
    first = {ours: min(ours, theirs) for theirs, ours in moved.items()}
    every = sorted((names[0] | names[1]) - moved.keys(), key=lambda name: first.get(name, name))
    number = {name: number for number, name in enumerate(every)}
    return Owners(tuple(every), number | {theirs: number[ours] for theirs, ours in moved.items()})


def _lines_of(owner: str) -> list[int]:
    """The line numbers in an owner."""
    return [int(number) for number in _LINE.findall(owner)]


def owners_of(log: EventLog, owners: Owners, events: Ints) -> Ints:
    """The owners of some events (-1 has none) by their numbers, -1 where unknown, int64."""
    if log.owner is None:
        return np.full(len(events), -1)
    numbers = np.array([*(owners.number[common_name(name)] for name in log.owner_names), -1], np.int64)
    return numbers[values_at(log.owner, events)]


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


def _marks(blocks: Blocks, owner: Ints) -> Words:
    """Owner, what stands before, what stands after, and how long it lives: 16 bits of each in one word."""
    low = np.uint64(0xFFFF)
    word = (owner + 1).astype(np.uint64) & low
    for place, mark in enumerate((blocks.before, blocks.after, blocks.life), 1):
        word |= (mark & low) << np.uint64(16 * place)
    return word


def unordered_costs(keys: Keys, base: Blocks, head: Blocks) -> Ints:
    """Return the cost of each window if order did not matter, which no alignment is below, in halves of a unit of weight, int64."""
    numbers, of_base = len(keys.size) or 1, len(base)
    codes = np.concatenate((base.window * numbers + keys.base, head.window * numbers + keys.head))
    kinds, kind = np.unique(codes, return_inverse=True)
    counts = [fate_counts(of, side.held, len(kinds)) for of, side in ((kind[:of_base], base), (kind[of_base:], head))]
    costs = np.zeros(len(base.starts) - 1, np.int64)
    np.add.at(costs, kinds // numbers, keys.size[kinds % numbers] // keys.unit * unordered_cost(counts[1] - counts[0]))
    return costs
