"""The reference of ``_effects.c``: free blocks as a dict, gone through from front to back."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from memlens.facts import Kind

#: FREEs that may wait at one time, and those of them that are looked at for one ALLOC; addresses from here on are not looked at.
WAITING, LOOKED_AT, FARTHEST = 64, 6, 1 << 62


def effects(kind: Any, size: Any, addr: Any, free: Any, until: Any, late: Any, emptying: Any, preallocated: Any, found: Any) -> None:  # fmt: skip
    """Fill ``found``, which says already which FREEs took effect when their thread gave chunks back.

    ``late`` has the FREEs that may have taken effect late, ``emptying`` of a RELEASE the FREE that took effect right before it, -1 for none.
    """
    memory = Memory(preallocated.tolist())
    columns = (column.tolist() for column in (kind, size, addr, free, until, late, emptying))
    for row, (what, bytes_, address, whole, end, waits, emptied) in enumerate(zip(*columns, strict=True)):
        memory.waiting = {each: one for each, one in memory.waiting.items() if one[0] > row}
        if emptied >= 0 and addr[emptied] < FARTHEST:
            memory.insert(int(addr[emptied]), int(addr[emptied] + np.uint64(size[emptied])))
        if address >= FARTHEST:
            continue
        if what == Kind.ALLOC:
            found[list(memory.allocate(address, bytes_, whole))] = row
        elif what == Kind.RESERVE:
            memory.add_chunk(address, bytes_)
        elif what == Kind.RELEASE:
            memory.give_back(bytes_)
        elif found[row] == row:
            memory.insert(address, address + bytes_)
            if waits:
                memory.waiting[row] = end, address, address + bytes_
                memory.waiting = dict(list(memory.waiting.items())[-WAITING:])


class Memory:
    """The free blocks of all chunks, and the FREEs that may turn out to be early.

    Attributes:
        waiting: By row: until when it may be, where its block begins and ends.
        ends: Where free blocks end, by where they begin.
        chunks: Their sizes by where they begin, in the order in which they were made.
        unplaced: The sizes of chunks that were made in advance, and lie anywhere.
        newest: Where the newest chunk begins.
    """

    def __init__(self, preallocated: list[int]) -> None:
        self.waiting: dict[int, tuple[int, int, int]] = {}
        self.ends: dict[int, int] = {}
        self.chunks: dict[int, int] = {}
        self.unplaced, self.newest = preallocated, -1

    def containing(self, address: int) -> int | None:
        """Where the free block begins that an address lies in."""
        start = max((start for start in self.ends if start <= address), default=None)
        return start if start is not None and address < self.ends[start] else None

    def insert(self, start: int, end: int) -> None:
        """A block is free: it becomes one with its free neighbours in its chunk."""
        if end not in self.chunks:
            end = self.ends.pop(end, end)
        before = self.containing(start - 1)
        if before is not None and start not in self.chunks:
            del self.ends[before]
            start = before
        self.ends[start] = end

    def cut(self, begin: int, stop: int) -> None:
        """What lies between two addresses is not free, as far as one block has it."""
        block = self.containing(begin)
        if block is not None:
            end = self.ends.pop(block)
            self.ends |= {block: begin} if block < begin else {}
            self.ends |= {stop: end} if stop < end else {}

    def settle(self, start: int, end: int) -> None:
        """What lay between two addresses was free for sure."""
        self.waiting = {row: one for row, one in self.waiting.items() if not start <= one[1] < end}

    def add_chunk(self, start: int, size: int) -> None:
        self.chunks.pop(start, None)
        self.chunks[start], self.ends[start], self.newest = size, start + size, start

    def give_back(self, size: int) -> None:
        """The oldest idle chunk of a size is given back."""
        for start in [at for at, bytes_ in self.chunks.items() if bytes_ == size and self.ends.get(at) == at + size][
            :1
        ]:
            del self.ends[start], self.chunks[start]
            self.settle(start, start + size)

    def allocate(self, address: int, size: int, whole: int) -> tuple[int, ...]:
        """A block is allocated, cut from a free one of ``whole`` bytes or from the newest chunk; the waiting FREEs that cannot have been before."""
        start = address + size - whole if whole else self.newest
        if start >= 0 and whole and whole in self.unplaced and self.containing(address) is None:
            self.unplaced.remove(whole)
            self.add_chunk(start, whole)
        early = self.early(start, start + whole if whole else self.ends.get(start, -1), size, grown=not whole)
        block = self.containing(address)
        if block is not None and address + size <= self.ends[block]:
            self.cut(address, address + size)
        for row in early:
            self.insert(*self.waiting[row][1:])
        self.settle(address, address + size)
        return early

    def early(self, start: int, end: int, size: int, *, grown: bool) -> tuple[int, ...]:
        """The fewest waiting FREEs to undo for a block to be cut from the free one between two addresses, which are undone; none if that does not help."""
        rows = list(self.waiting)[-LOOKED_AT:]
        for count in range(len(rows) + 1):
            for some in combinations(reversed(rows), count):
                for row in some:
                    self.cut(*self.waiting[row][1:])
                if self.fits(start, end, size, rows, grown=grown):
                    return some
                for row in some:
                    if self.containing(self.waiting[row][1]) is None:
                        self.insert(*self.waiting[row][1:])
        return ()

    def fits(self, start: int, end: int, size: int, rows: list[int], *, grown: bool) -> bool:
        """Whether the free block between two addresses is there and is the best one, of it and those that a waiting FREE has to do with."""
        near = (at for row in rows for _, begin, stop in [self.waiting[row]] for at in (begin - 1, begin, stop))
        others = {block: self.ends[block] - block for at in near if (block := self.containing(at)) not in (None, start)}
        return self.ends.get(start) == end and not any(
            bytes_ >= size and (grown or (bytes_, block) < (end - start, start)) for block, bytes_ in others.items()
        )
