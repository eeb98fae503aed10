"""Blocks of chunks, and the sets of those that are free: what :mod:`memlens.allocators.reference` decides by."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from memlens.allocators.rules import IdleSorting

if TYPE_CHECKING:
    from memlens.allocators.rules import AllocatorRules

__all__ = ["Block", "Chunk", "FreeBlocks"]


class Block:
    """A part of a chunk: in use, free, or of an expandable one not mapped; its neighbours are those by address."""

    __slots__ = ("addr", "born", "chunk", "mapped", "next", "prev", "size", "used")

    def __init__(self, chunk: Chunk, addr: int, size: int, *, used: bool = False, mapped: bool = True) -> None:
        self.chunk, self.addr, self.size, self.used, self.mapped = chunk, addr, size, used, mapped
        self.prev: Block | None = None
        self.next: Block | None = None
        self.born = 0  # requests to its family when it became free

    @property
    def idle(self) -> bool:
        """Whether it is a whole chunk that can be given back."""
        return self.prev is None and self.next is None and not self.chunk.page

    @property
    def reach(self) -> int:
        """Bytes that it has or could have, if what follows it were mapped."""
        return self.size + (self.next.size if self.next is not None and not self.next.mapped else 0)

    def follow(self, before: Block | None, after: Block | None) -> None:
        """Stand between two neighbours."""
        self.prev, self.next = before, after
        if before is not None:
            before.next = self
        if after is not None:
            after.prev = self


class Chunk:
    """Memory of the device, or a range of addresses (``page`` > 0) of which pages are mapped."""

    __slots__ = ("base", "group", "number", "page", "size")

    def __init__(self, base: int, size: int, group: int, page: int, number: int) -> None:
        self.base, self.size, self.group, self.page, self.number = base, size, group, page, number


class FreeBlocks:
    """What is free of an allocator, by group, and what of that is idle or not mapped."""

    def __init__(self, rules: AllocatorRules) -> None:
        self.rules = rules
        self.family: list[int] = rules.groups.family.tolist()
        self.free: list[list[tuple[int, int, int, Block]]] = [[] for _ in self.family]  # by size, then chunk or address
        self.unmapped: list[list[tuple[int, Block]]] = [[] for _ in self.family]
        self.requests = [0] * (max(self.family, default=-1) + 1)
        self.idle: list[list[tuple[int, int, int, Block]]] = [
            [] for _ in self.family
        ]  # in the order in which a family's are given back

    def put(self, block: Block) -> None:
        """Add a block to the free ones of its group."""
        group = block.chunk.group
        block.used = False
        block.born = self.requests[self.family[group]]
        insort(self.free[group], (*self._free_key(block), block))
        if block.idle:
            insort(self.idle[group], self._idle_key(block))

    def pull(self, block: Block) -> None:
        """Take a block out of the free ones."""
        group = block.chunk.group
        del self.free[group][bisect_left(self.free[group], self._free_key(block))]
        if block.idle:
            del self.idle[group][bisect_left(self.idle[group], self._idle_key(block)[:3])]

    def _free_key(self, block: Block) -> tuple[int, int, int]:
        """By size, then where it lies, or first by the chunk."""
        return block.size, block.chunk.number if self.rules.oldest_first else 0, block.addr

    def _idle_key(self, block: Block) -> tuple[int, int, int, Block]:
        by_creation = self.rules.sorting == IdleSorting.CREATION
        return (block.chunk.number, 0, 0, block) if by_creation else (*self._free_key(block), block)

    def put_unmapped(self, block: Block) -> None:
        """Add a block to what is not mapped."""
        block.used = block.mapped = False
        insort(self.unmapped[block.chunk.group], (block.addr, block))

    def pull_unmapped(self, block: Block) -> None:
        """Take a block out of what is not mapped."""
        entries = self.unmapped[block.chunk.group]
        del entries[bisect_left(entries, (block.addr,))]

    def merge(self, block: Block, other: Block | None) -> None:
        """Let a block that is in no set take up a neighbour that is as free and as mapped as it is."""
        if other is None or other.used or other.mapped != block.mapped:
            return
        (self.pull if other.mapped else self.pull_unmapped)(other)
        if other is block.prev:
            block.addr = other.addr
            block.follow(other.prev, block.next)
        else:
            block.follow(block.prev, other.next)
        block.size += other.size
