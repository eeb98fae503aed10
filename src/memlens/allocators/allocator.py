"""An allocator that decides by the rules of :mod:`memlens.allocators.rules`, in plain Python: what ``_replay.c`` does, to read and to hold it against."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from memlens.allocators.free_blocks import Block, Chunk, FreeBlocks
from memlens.allocators.history import ChunkChange
from memlens.allocators.opening import FREE, UNMAPPED
from memlens.allocators.rules import NO_LIMIT, IdleChunks, IdleSorting, Relief

if TYPE_CHECKING:
    from memlens.allocators.opening import Tiling
    from memlens.allocators.placing import Places
    from memlens.allocators.rules import AllocatorRules

__all__ = ["Allocator"]


class Allocator(FreeBlocks):
    """An allocator that serves one history."""

    def __init__(self, rules: AllocatorRules, places: Places, limit: int | None) -> None:
        super().__init__(rules)
        groups = rules.groups
        self.page = groups.page.tolist()
        self.places, self.limit = places, NO_LIMIT if limit is None else limit
        self.allowed = NO_LIMIT if rules.allowed is None else rules.allowed
        self.kept, self.collected = groups.kept.tolist(), groups.collected.tolist()
        self.min_remainder, self.split_below = groups.min_remainder.tolist(), groups.split_below.tolist()
        self.chunks = 0
        self.reserved = self.allocated = self.reserved_peak = self.allocated_peak = 0
        self.operation = self.reserved_peak_at = -1
        self.refused = 0
        self.taken = self.taken_bytes = self.given_back = self.given_back_bytes = 0
        self.changes: list[tuple[int, int, int, int]] = []

    # --- the beginning and the end ---

    def open(self, tiling: Tiling, blocks: list[Block | None]) -> None:
        """Begin with these chunks; ``blocks`` gets what is in use of them, by its operation."""
        rows = zip(*(column.tolist() for column in (tiling.base, tiling.size, tiling.group, tiling.page)), strict=True)
        chunks = [Chunk(base, size, group, page, number) for number, (base, size, group, page) in enumerate(rows)]
        self.chunks = len(chunks)
        before: Block | None = None
        walk = []
        tiles = (column.tolist() for column in (tiling.tile_chunk, tiling.tile_addr, tiling.tile_size, tiling.tile_use))
        for chunk, addr, size, use in zip(*tiles, strict=True):
            block = Block(chunks[chunk], addr, size, used=True, mapped=use != UNMAPPED)
            if before is not None and before.chunk is block.chunk:
                block.follow(before, None)
            before = block
            walk.append(block)
            if use >= 0:
                blocks[use] = block
                self.allocated += size
            if block.mapped:
                self.reserved += size
        # Only now is it known which blocks fill a chunk.
        for block, use in zip(walk, tiling.tile_use.tolist(), strict=True):
            if use == FREE:
                self.put(block)
            elif use == UNMAPPED:
                self.put_unmapped(block)
        self.reserved_peak, self.allocated_peak = self.reserved, self.allocated

    def preallocate(self) -> bool:
        """Take the chunks that are there from the start: whether the device had room for them."""
        for group, size in self.rules.preallocated:
            block = self.take(group, size, size)
            if block is None:
                return False
            self.put(block)
        return True

    def report(self, group: int, size: int) -> dict[str, int]:
        """What there was when a request failed."""
        largest = self.free[group][-1][0] if self.free[group] else 0
        free = self.reserved - self.allocated
        return {"block": size, "growth": self.refused, "reserved": self.reserved, "free": free, "largest": largest}

    def trim(self, operation: int) -> None:
        """Give back all that is idle."""
        self.operation = operation
        self.give_back_all()

    # --- a request and a free ---

    def request(self, operation: int, group: int, size: int, growth: int) -> Block | None:
        """Serve a request."""
        self.operation = operation
        block = self.fitting(group, size) or self.grown(group, size, growth)
        if block is None:
            return None
        block.used = True
        rest = block.size - size
        if rest >= self.min_remainder[group] and size < self.split_below[group]:
            other = Block(block.chunk, block.addr, rest)
            block.size = size
            if self.rules.take_high:
                block.addr += rest
                other.follow(block.prev, block)
            else:
                other.addr += size
                other.follow(block, block.next)
            self.put(other)
        self.allocated += block.size
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        return block

    def give(self, operation: int, block: Block) -> None:
        """Take a block back."""
        self.operation = operation
        self.allocated -= block.size
        block.used = False
        self.merge(block, block.prev)
        self.merge(block, block.next)
        self.put(block)
        if self.rules.idle == IdleChunks.AFTER_FREE:
            self.give_back(self.family[block.chunk.group])

    def fitting(self, group: int, size: int) -> Block | None:
        """The free block that serves a request, taken out of the free ones."""
        rules, free = self.rules, self.free[group]
        if rules.collect_above >= 0:
            self.requests[self.family[group]] += 1
        at = bisect_left(free, (size,))
        if at == len(free):
            return None
        block = free[at][-1]
        if block.chunk.page and self.page[group]:
            # What can expand counts as large as it can become.
            while block.chunk.page and at + 1 < len(free) and free[at + 1][-1].reach < block.reach:
                at += 1
                block = free[at][-1]
        elif block.chunk.page:  # left from before expandable chunks were switched off
            while block.chunk.page:
                at += 1
                if at == len(free):
                    return None
                block = free[at][-1]
        if size < rules.max_split:
            if rules.max_split != NO_LIMIT and block.size >= rules.max_split:
                return None
        elif block.size >= size + rules.max_rounding:
            return None
        self.pull(block)
        return block

    # --- growth ---

    def grown(self, group: int, size: int, growth: int) -> Block | None:
        """A block of new memory, in no set: of a new chunk, or of more pages of an expandable one."""
        if self.rules.idle == IdleChunks.BEFORE_GROWTH:
            self.give_back(self.family[group])
        if self.rules.collect_above >= 0:
            self.collect()
        block = self.take(group, size, growth)
        for relief in self.rules.relief:
            if block is not None:
                break
            if relief == Relief.ENOUGH:
                if not self.give_back_enough(group, size):
                    continue
            elif relief == Relief.FAMILY:
                self.give_back(self.family[group])
            else:
                self.give_back_all()
            block = self.take(group, size, growth)
        return block

    def take(self, group: int, size: int, growth: int) -> Block | None:
        """Ask the device for memory."""
        self.refused = growth
        if growth > self.allowed - self.reserved:
            return None
        if self.page[group]:
            return self.expanded(group, size)
        if growth > self.limit - self.reserved:
            return None
        base = self.places.place(growth)
        if base is None:
            return None
        chunk = Chunk(base, growth, group, 0, self.chunks)
        self.chunks += 1
        self.count_taken(ChunkChange.TAKEN, base, growth)
        return Block(chunk, base, growth)

    def count_taken(self, kind: ChunkChange, base: int, size: int) -> None:
        """Note memory that was taken."""
        self.reserved += size
        self.taken += 1
        self.taken_bytes += size
        if self.reserved > self.reserved_peak:
            self.reserved_peak, self.reserved_peak_at = self.reserved, self.operation
        self.changes.append((self.operation, kind, base, size))

    def count_given_back(self, kind: ChunkChange, base: int, size: int) -> None:
        """Note memory that was given back."""
        self.reserved -= size
        self.given_back += 1
        self.given_back_bytes += size
        self.changes.append((self.operation, kind, base, size))

    # --- expandable chunks ---

    def expanded(self, group: int, size: int) -> Block | None:
        """A free block of at least this size, where the lowest address has room for it if pages are mapped."""
        block = self.room(group, size)
        if block is None or not (block.mapped or self.map(block, min(block.size, size))):
            return None
        while block.size < size:
            after = block.next
            assert after is not None
            if not self.map(after, min(size - block.size, after.size)):
                return None
            block = after
        self.pull(block)
        return block

    def room(self, group: int, size: int) -> Block | None:
        """The first free or unmapped block of a run of such that is large enough, of those that have anything unmapped; else a new range."""
        for _, block in self.unmapped[group]:
            first = block.prev if block.prev is not None and not block.prev.used else block
            room, part = 0, first
            while room < size and part is not None and not part.used:
                room += part.size
                part = part.next  # type: ignore[assignment]
            if room >= size:
                return first
        page = self.page[group]
        whole = -(-self.rules.range_bytes // page) * page
        base = self.places.range(whole) if whole >= size else None
        if base is None:
            return None
        chunk = Chunk(base, whole, group, page, self.chunks)
        self.chunks += 1
        block = Block(chunk, base, whole)
        self.put_unmapped(block)
        return block

    def map(self, block: Block, size: int) -> bool:
        """Map the first pages of an unmapped block, as many as hold this size, and put it among the free ones."""
        page, ahead = block.chunk.page, block.addr - block.chunk.base
        size = min(-(-(ahead + size) // page) * page - ahead, block.size)
        if size > self.limit - self.reserved:
            self.refused = size
            return False
        self.pull_unmapped(block)
        block.mapped = True
        base, rest = block.addr, block.size - size
        if rest:
            other = Block(block.chunk, base + size, rest, mapped=False)
            other.follow(block, block.next)
            block.size = size
            self.put_unmapped(other)
        self.merge(block, block.prev)
        self.merge(block, block.next)
        self.put(block)
        self.places.mapped()
        self.count_taken(ChunkChange.MAPPED, base, size)
        return True

    def unmap(self, block: Block) -> None:
        """Give back the whole pages of a free block of an expandable chunk; and its addresses, where nothing is left of it."""
        chunk = block.chunk
        page, ahead = chunk.page, block.addr - chunk.base
        first, last = -(-ahead // page) * page, (ahead + block.size) // page * page
        if first >= last:
            return
        self.pull(block)
        if first > ahead:
            before = Block(chunk, block.addr, first - ahead)
            before.follow(block.prev, block)
            self.put(before)
        if ahead + block.size > last:
            after = Block(chunk, chunk.base + last, ahead + block.size - last)
            after.follow(block, block.next)
            self.put(after)
        block.addr, block.size, block.mapped = chunk.base + first, last - first, False
        self.merge(block, block.prev)
        self.merge(block, block.next)
        self.put_unmapped(block)
        self.count_given_back(ChunkChange.UNMAPPED, chunk.base + first, last - first)
        if block.prev is None and block.next is None:
            self.pull_unmapped(block)
            self.places.give_back(chunk.base, chunk.size)

    # --- giving back ---

    def release(self, block: Block) -> None:
        """Give an idle chunk back."""
        self.pull(block)
        self.places.give_back(block.addr, block.size)
        self.count_given_back(ChunkChange.GIVEN_BACK, block.addr, block.size)

    def give_back(self, family: int) -> None:
        """Give back the idle chunks of a family, then whole free pages of its expandable ones."""
        for block in self.idle_of(family):
            self.release(block)
        groups = [group for group, of in enumerate(self.family) if of == family and not self.kept[group]]
        for block in [block for group in groups for *_, block in self.free[group] if block.chunk.page]:
            self.unmap(block)

    def idle_of(self, family: int) -> list[Block]:
        """The idle chunks of a family, in the order in which they are given back, without those of groups that keep theirs."""
        idle = [
            entry
            for group, of in enumerate(self.family)
            if of == family and not self.kept[group]
            for entry in self.idle[group]
        ]
        if self.rules.sorting == IdleSorting.CREATION:
            idle.sort()
        return [block for *_, block in idle]

    def give_back_all(self) -> None:
        """Give back the idle chunks of all families."""
        for family in range(len(self.requests)):
            self.give_back(family)

    def give_back_enough(self, group: int, size: int) -> bool:
        """Give back blocks of ``max_split`` bytes and more of a group, as much as is needed: whether there was as much."""
        most = self.rules.max_split
        if most == NO_LIMIT:
            return False
        size = max(size, most)
        free = self.free[group]
        at = bisect_left(free, (size,))
        if at < len(free) and free[at][-1].idle:
            self.release(free[at][-1])
            return True
        total = 0
        for *_, block in free[:at][::-1]:
            if total >= size or block.size < most:
                break
            if block.idle:
                total += block.size
                self.release(block)
        return total >= size

    def collect(self) -> None:
        """Give back idle chunks of collected groups by their age."""
        excess = self.reserved - self.rules.collect_above
        if excess <= 0:
            return
        idle = [
            (self.requests[family] - block.born, block)
            for family in range(len(self.requests))
            for block in self.idle_of(family)
            if self.collected[block.chunk.group]
        ]
        ages, freed = sum(age for age, _ in idle), True
        while excess > 0 and freed and idle:
            mean, freed, younger = ages / len(idle), False, []
            for age, block in idle:
                # The mean of a round is that of its beginning.
                if age < mean:
                    younger.append((age, block))
                    continue
                freed = True
                excess -= block.size
                ages -= age
                self.release(block)
            idle = younger
