"""When the FREEs of several threads took effect.

Lines of ALLOCs are written inside the allocator's lock, those of FREEs before it: so a FREE took effect anywhere between its line and the next line
of its thread.  Mostly it did at once.  Where that cannot be, because an ALLOC of another thread in between would have been served from another
free block than the one that its lines name, it took effect after that ALLOC.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Kind
from memlens.native import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["effects", "uncertain"]

#: FREEs that may wait at one time, and those of them that are looked at for one ALLOC; addresses from here on are not looked at.
_WAITING, _MOST, _FARTHEST = 64, 6, 1 << 62
_native = load("memlens._replay")


def uncertain(kind: NDArray[np.int8], until: Ints) -> NDArray[np.bool_]:
    """The FREEs that may have taken effect after an ALLOC that stands below them, bool.

    Args:
        kind: Kinds of events in file order, int8.
        until: For each event the index of the first event before which it must have taken effect, int64.
    """
    allocs = np.flatnonzero(kind == Kind.ALLOC)
    after = np.append(allocs, len(kind))[allocs.searchsorted(np.arange(len(kind)))]
    found: NDArray[np.bool_] = (kind == Kind.FREE) & (after < until)
    return found


def effects(
    kind: NDArray[np.int8],
    size: Ints,
    addr: NDArray[np.uint64],
    free: Ints,
    until: Ints,
    emptied: NDArray[np.bool_],
    preallocated: Iterable[int] = (),
) -> Ints:
    """The event after which each FREE took effect: itself, or the last ALLOC that did not find the block free yet.

    As far as the lines tell: what they do not explain is left as it stands.

    Args:
        kind: Kinds of events in file order, int8.
        size: Their sizes, int64.
        addr: Their addresses, uint64.
        free: Of an ALLOC the bytes of the free block that it was cut from, 0 where it got a chunk of its own, int64.
        until: As of :func:`uncertain`.
        emptied: FREEs after which their thread gave chunks back, bool: they took effect right before that.
        preallocated: Sizes of chunks that were made in advance.

    Returns:
        An index for each event, int64: its own, but for FREEs that took effect late.
    """
    late = uncertain(kind, until) & ~emptied
    found = np.where(emptied, until, np.arange(len(kind)))
    emptying = np.full(len(kind), -1)
    emptying[until[emptied]] = np.flatnonzero(emptied)
    work = _reference if _native is None else _native.effects
    work(
        np.ascontiguousarray(kind, np.int8),
        np.ascontiguousarray(size),
        np.ascontiguousarray(addr),
        np.ascontiguousarray(free),
        np.ascontiguousarray(until),
        late.astype(np.int8),
        emptying,
        np.array([*preallocated], np.int64),
        found,
    )
    return found


def _reference(
    kind: NDArray[np.int8],
    size: Ints,
    addr: NDArray[np.uint64],
    free: Ints,
    until: Ints,
    late: NDArray[np.int8],
    emptying: Ints,
    preallocated: Ints,
    found: Ints,
) -> None:
    """The reference implementation of ``_effects.c``: fills ``found``, which says already which FREEs took effect when their thread gave chunks back.

    ``late`` has the FREEs that may have taken effect late, ``emptying`` of a RELEASE the FREE that took effect right before it, -1 for none.
    """
    state = _Memory(preallocated.tolist())
    rows = zip(*(column.tolist() for column in (kind, size, addr, free, emptying)), strict=True)
    for row, (what, bytes_, address, whole, emptied) in enumerate(rows):
        state.pass_to(row)
        if emptied >= 0 and addr[emptied] < _FARTHEST:
            state.insert(int(addr[emptied]), int(addr[emptied]) + int(size[emptied]))
        if address >= _FARTHEST:
            continue
        if what == Kind.ALLOC:
            for early in state.allocate(address, bytes_, whole):
                found[early] = row
        elif what == Kind.RESERVE:
            state.add_chunk(address, bytes_)
        elif what == Kind.RELEASE:
            state.give_back(bytes_)
        elif found[row] == row:
            state.insert(address, address + bytes_)
            if late[row]:
                state.wait(row, int(until[row]), address, address + bytes_)


class _Memory:
    """The free blocks of all chunks, and the FREEs that may turn out to be early.

    Attributes:
        waiting: By row: until when it may be, where its block begins and ends.
    """

    def __init__(self, preallocated: Iterable[int]) -> None:
        self.waiting: dict[int, tuple[int, int, int]] = {}
        self._starts: list[int] = []  # of free blocks, rising
        self._ends: dict[int, int] = {}  # of free blocks, by where they begin
        self._chunks: dict[int, int] = {}  # their sizes by where they begin, in the order in which they were made
        self._unplaced = list(preallocated)
        self._newest = -1

    def pass_to(self, row: int) -> None:
        """Forget what must have been by now."""
        for each in [each for each, (until, _, _) in self.waiting.items() if until <= row]:
            del self.waiting[each]

    def wait(self, row: int, until: int, begin: int, stop: int) -> None:
        """A FREE may turn out to be early."""
        self.waiting[row] = until, begin, stop
        if len(self.waiting) > _WAITING:
            del self.waiting[next(iter(self.waiting))]

    def insert(self, start: int, end: int) -> None:
        """A block is free: it becomes one with its free neighbours in its chunk."""
        if end in self._ends and end not in self._chunks:
            end = self._remove(end)
        before = self._containing(start - 1)
        if before is not None and start not in self._chunks:
            self._remove(before)
            start = before
        self._add(start, end)

    def add_chunk(self, start: int, size: int) -> None:
        """A chunk is taken from the device, one free block."""
        self._chunks.pop(start, None)
        self._chunks[start] = size
        self._newest = start
        self._add(start, start + size)

    def give_back(self, size: int) -> None:
        """The oldest idle chunk of a size is given back."""
        for start, bytes_ in self._chunks.items():
            if bytes_ == size and self._ends.get(start) == start + size:
                self._remove(start)
                del self._chunks[start]
                self._settle(start, start + size)
                return

    def allocate(self, address: int, size: int, whole: int) -> tuple[int, ...]:
        """A block is allocated, cut from a free one of ``whole`` bytes or from the newest chunk; the waiting FREEs that cannot have been before."""
        start = address + size - whole if whole else self._newest
        if start >= 0 and whole and whole in self._unplaced and self._containing(address) is None:
            self._unplaced.remove(whole)
            self.add_chunk(start, whole)
        end = address + size
        early = self._early(start, start + whole if whole else self._ends.get(start, -1), size, grown=not whole)
        block = self._containing(address)
        if block is not None and end <= self._ends[block]:
            rest = self._remove(block)
            if block < address:
                self._add(block, address)
            if end < rest:  # not as it must be: lines are lost
                self._add(end, rest)
        for each in early:
            self.insert(*self.waiting[each][1:])
        self._settle(address, end)
        return early

    def _early(self, start: int, end: int, size: int, *, grown: bool) -> tuple[int, ...]:
        """The fewest waiting FREEs that must be undone for a block to be cut from the free one between two addresses, which are undone; none if that does not help."""
        rows = list(self.waiting)[-_MOST:]
        for count in range(len(rows) + 1):
            for some in combinations(reversed(rows), count):
                for row in some:
                    self._undo(row)
                if self._fits(start, end, size, rows, grown=grown):
                    return some
                for row in some:
                    if self._containing(self.waiting[row][1]) is None:
                        self.insert(*self.waiting[row][1:])
        return ()

    def _fits(self, start: int, end: int, size: int, rows: Sequence[int], *, grown: bool) -> bool:
        """Whether the free block between two addresses is there and is the best one, of it and those that a waiting FREE has to do with."""
        if self._ends.get(start) != end:
            return False
        for row in rows:
            _, begin, stop = self.waiting[row]
            for near in (begin - 1, begin, stop):
                block = self._containing(near)
                if block is None or block == start:
                    continue
                bytes_ = self._ends[block] - block
                if bytes_ >= size and (grown or (bytes_, block) < (end - start, start)):
                    return False
        return True

    def _undo(self, row: int) -> None:
        _, begin, stop = self.waiting[row]
        block = self._containing(begin)
        if block is None:
            return
        end = self._remove(block)
        if block < begin:
            self._add(block, begin)
        if stop < end:
            self._add(stop, end)

    def _settle(self, start: int, end: int) -> None:
        """What lay between two addresses was free for sure."""
        for each in [each for each, (_, begin, _) in self.waiting.items() if start <= begin < end]:
            del self.waiting[each]

    def _containing(self, address: int) -> int | None:
        """Where the free block begins that an address lies in."""
        at = bisect_right(self._starts, address) - 1
        return self._starts[at] if at >= 0 and address < self._ends[self._starts[at]] else None

    def _add(self, start: int, end: int) -> None:
        if start not in self._ends:
            insort(self._starts, start)
        self._ends[start] = end

    def _remove(self, start: int) -> int:
        del self._starts[bisect_right(self._starts, start) - 1]
        return self._ends.pop(start)
