"""When the FREEs of several threads took effect.

Lines of ALLOCs are written inside the allocator's lock, those of FREEs before it: so a FREE took effect anywhere between its line and the next line
of its thread.  Mostly it did at once.  Where that cannot be, because an ALLOC of another thread in between would have been served from another
free block than the one that its lines name, it took effect after that ALLOC.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["effects", "uncertain"]


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
        preallocated: Sizes of chunks that were made in advance.

    Returns:
        An index for each event, int64: its own, but for FREEs that took effect late.
    """
    found = np.arange(len(kind))
    state = _Memory(preallocated)
    rows = zip(kind.tolist(), size.tolist(), addr.tolist(), free.tolist(), strict=True)
    late = uncertain(kind, until)
    for row, (what, bytes_, address, whole) in enumerate(rows):
        state.pass_to(row)
        if what == Kind.FREE:
            state.insert(address, address + bytes_)
            if late[row]:
                state.waiting[row] = (int(until[row]), address, address + bytes_)
        elif what == Kind.RELEASE:
            state.give_back(bytes_)
        elif what == Kind.RESERVE:
            state.add_chunk(address, bytes_)
        else:
            for early in state.allocate(address, bytes_, whole):
                found[early] = row
    return found


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

    def allocate(self, address: int, size: int, whole: int) -> list[int]:
        """A block is allocated, cut from a free one of ``whole`` bytes or from the newest chunk; the waiting FREEs that cannot have been before."""
        start = address + size - whole if whole else self._newest
        if whole in self._unplaced and self._containing(address) is None:
            self._unplaced.remove(whole)
            self.add_chunk(start, whole)
        end = address + size
        early: list[int] = []
        while (wrong := self._cannot_be(start, end, size, grown=not whole)) is not None:
            self._undo(wrong)
            early.append(wrong)
        if self._ends.get(start) == end:
            self._remove(start)
            if start < address:
                self._add(start, address)
        self._settle(address, end)
        for each in early:
            self.insert(*self.waiting[each][1:])
        return early

    def _cannot_be(self, start: int, end: int, size: int, *, grown: bool) -> int | None:
        """A waiting FREE because of which the block would not be cut from the free one between two addresses."""
        for row, (_, begin, _) in reversed(self.waiting.items()):
            block = self._containing(begin)
            if block is None or (block == start and self._ends[block] == end):
                continue
            if block <= start and end <= self._ends[block]:
                if not start <= begin < end:
                    return row
                continue
            bytes_ = self._ends[block] - block
            if bytes_ >= size and (grown or (bytes_, block) < (end - start, start)):
                return row
        return None

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
