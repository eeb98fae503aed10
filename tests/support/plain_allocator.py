"""The reference of ``_replay.c``, an allocator of intervals, the simplest there is: what is free is worked out anew from what is in use, each time it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from memlens.allocators.engine import Replay
from memlens.allocators.history import ChunkChange, ChunkChanges, Operation, RequestHistory
from memlens.allocators.models import NO_LIMIT, AllocatorRules, IdleChunks, IdleSorting, Relief
from memlens.allocators.placing import Addresses, Fixed, Placement, fixed

Gap = tuple[int, int]  # bytes and address
#: New chunks begin at multiples of this, those that lie anywhere below ``ANYWHERE``, and all end below ``END``.
STEP, ANYWHERE, END = 512, 1 << 62, 1 << 63
WORD = (1 << 64) - 1


def up(address: int, to: int = STEP) -> int:
    return -(-address // to) * to


@dataclass
class Places:
    """The addresses of new chunks, where none is there before."""

    by: Fixed
    held: list[tuple[int, int]] = field(default_factory=list)
    vacated: list[tuple[int, int]] = field(default_factory=list)
    taken: int = 0
    drawn: int = 0
    down: int = ANYWHERE

    def __post_init__(self) -> None:
        self.up = max(up(self.by.high), ANYWHERE if self.by.placement == Placement.SHUFFLED else 0)

    def range(self, size: int) -> int | None:
        """Where so many bytes lie, and nothing else; ``None`` where there is no room."""
        base = self.chosen(size)
        if base is None:
            if self.up > END - STEP - size:
                return None
            base, self.up = self.up, up(self.up + size)
        self.held.append((base, base + size))
        return base

    def chosen(self, size: int) -> int | None:
        placement = self.by.placement
        if placement == Placement.RECORDED and self.taken < len(self.by.recorded):
            base = int(self.by.recorded[self.taken])
            if not base or not self.vacant(base, size):
                return None
            self.up = max(self.up, up(base + size))
            return base
        if placement == Placement.DESCENDING and self.down - size >= STEP:
            self.down = (self.down - size) // STEP * STEP
            return self.down
        if placement == Placement.REUSE:
            for start, end in sorted(self.vacated, key=lambda one: (one[1] - one[0], one[0])):
                if end - start >= up(size):
                    self.vacated.remove((start, end))
                    self.vacated += [(start + up(size), end)] * (end - start > up(size))
                    return start
        if placement == Placement.SHUFFLED:
            for _ in range(64):
                self.drawn += 1
                base = mixed((self.by.seed + self.drawn * 0x9E3779B97F4A7C15) & WORD) % (ANYWHERE // STEP) * STEP
                if base and self.vacant(base, size):
                    return base
        return None

    def vacant(self, base: int, size: int) -> bool:
        return all(end <= base or base + size <= start for start, end in self.held)

    def give_back(self, base: int, size: int) -> None:
        self.held.remove((base, base + size))
        self.vacated = merged([*self.vacated, (base, base + up(size))])


def mixed(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals, those that touch as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


@dataclass
class Piece:
    """A chunk, and when it became idle, counted in requests to its family; or a range of addresses, and what is mapped of it."""

    base: int
    size: int
    group: int
    number: int
    idle_since: int = 0
    page: int = 0
    mapped: list[tuple[int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.base + self.size

    @property
    def memory(self) -> list[tuple[int, int]]:
        return self.mapped if self.page else [(self.base, self.end)]

    def change(self, start: int, end: int, *, mapped: bool) -> None:
        """Map a part of it that is not mapped, or unmap one that is."""
        pages = {at for low, high in self.mapped for at in range(low, high, self.page)}
        assert (start - self.base) % self.page == 0 == (end - start) % self.page
        part = set(range(start, end, self.page))
        assert part.isdisjoint(pages) if mapped else part <= pages
        pages = pages | part if mapped else pages - part
        self.mapped = merged([(at, at + self.page) for at in pages])

    def holes(self) -> list[tuple[int, int]]:
        """What is not mapped."""
        edges = [(self.base, self.base), *self.mapped, (self.end, self.end)] if self.page else []
        return [(one[1], two[0]) for one, two in pairwise(edges) if two[0] > one[1]]


@dataclass
class Plain:
    """Replays a history by rules that keep no opening."""

    history: RequestHistory
    rules: AllocatorRules
    addresses: Addresses
    limit: int | None = None
    pieces: list[Piece] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=dict)
    changes: list[tuple[int, int, int, int]] = field(default_factory=list)
    requests: dict[int, int] = field(default_factory=dict)
    made: int = 0
    now: int = -1
    reserved_peak: int = 0
    reserved_peak_at: int = -1
    allocated_peak: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.places = Places(fixed(self.history, self.addresses, np.zeros(0, np.uint64), np.zeros(0, np.int64)))

    def run(self) -> Replay:
        history, rules = self.history, self.rules
        address, block_bytes = np.zeros(len(history), np.uint64), np.zeros(len(history), np.int64)
        failed, left = -1, (0, 0, 0, 0, 0)
        ready = all(self.ask(group, size, size) for group, size in rules.preallocated)
        for at in range(len(history)):
            self.now = at
            operation = history.operation[at]
            if operation == Operation.REQUEST:
                row = int(rules.group[at]), int(rules.block[at]), int(rules.growth[at])
                addr = self.serve(*row) if ready else None
                if addr is not None:
                    address[at], block_bytes[at] = addr, self.used[addr]
                    continue
                if failed < 0:
                    largest = max(self.free(row[0]), default=(0, 0))[0]
                    failed = at
                    left = row[1], self.refused, self.reserved, self.reserved - sum(self.used.values()), largest
                if not ready or at not in history.failed:
                    break
            elif operation == Operation.FREE:
                addr = int(address[history.of[at]])
                del self.used[addr]
                (piece,) = (piece for piece in self.pieces if piece.base <= addr < piece.end)
                family = int(rules.groups.family[piece.group])
                piece.idle_since = self.requests.get(family, 0)
                if rules.idle == IdleChunks.AFTER_FREE:
                    self.give_back(family)
            else:
                self.give_back(None)
        taken, back = (
            [size for _, kind, _, size in self.changes if kind in kinds]
            for kinds in ((ChunkChange.TAKEN, ChunkChange.MAPPED), (ChunkChange.GIVEN_BACK, ChunkChange.UNMAPPED))
        )
        columns: Any = (address, block_bytes, self.changed())
        return Replay(
            *(self.reserved_peak, self.reserved_peak_at, self.reserved, self.allocated_peak, sum(self.used.values())),
            *(failed, *left, self.now + 1, len(taken), sum(taken), len(back), sum(back)),
            *columns,
        )

    def changed(self) -> ChunkChanges:
        types: Any = (np.int64, np.int8, np.uint64, np.int64)
        columns: Any = ([change[k] for change in self.changes] for k in range(4))
        return ChunkChanges(*(np.array(column, kind) for column, kind in zip(columns, types, strict=True)))

    def serve(self, group: int, size: int, growth: int) -> int | None:
        """Where the block lies."""
        rules, table = self.rules, self.rules.groups
        family = int(table.family[group])
        if rules.collect_above >= 0:
            self.requests[family] = self.requests.get(family, 0) + 1
        got = self.fitting(group, size)
        if got is None:
            if rules.idle == IdleChunks.BEFORE_GROWTH:
                self.give_back(family)
            if rules.collect_above >= 0:
                self.collect()
            got = self.ask(group, size, growth)
            for relief in rules.relief:
                if got is not None:
                    break
                if relief == Relief.ENOUGH:
                    if not self.enough(group, size):
                        continue
                else:
                    self.give_back(family if relief == Relief.FAMILY else None)
                got = self.ask(group, size, growth)
            if got is None:
                return None
        whole, addr = got
        if whole - size >= table.min_remainder[group] and size < table.split_below[group]:
            addr, whole = (addr + whole - size if rules.take_high else addr), size
        self.used[addr] = whole
        self.allocated_peak = max(self.allocated_peak, sum(self.used.values()))
        return addr

    # --- what there is ---

    @property
    def reserved(self) -> int:
        return sum(end - start for piece in self.pieces for start, end in piece.memory)

    def gaps(self, piece: Piece) -> list[Gap]:
        """What is free of a chunk, as large as can be."""
        found = []
        for start, end in piece.memory:
            at = start
            for addr in sorted(addr for addr in self.used if start <= addr < end):
                if addr > at:
                    found.append((addr - at, at))
                assert addr >= at, "blocks lie on each other"
                at = addr + self.used[addr]
            assert at <= end, "a block sticks out of its chunk"
            if at < end:
                found.append((end - at, at))
        return found

    def free(self, group: int) -> list[Gap]:
        return sorted(
            (gap for piece in self.pieces if piece.group == group for gap in self.gaps(piece)), key=self.order
        )

    def order(self, gap: Gap) -> tuple[int, ...]:
        """What decides between gaps: how large, perhaps how old their piece, and where."""
        number = next(piece.number for piece in self.pieces if piece.base <= gap[1] < piece.base + piece.size)
        return gap[0], number if self.rules.oldest_first else 0, gap[1]

    def reach(self, gap: Gap) -> int:
        """Bytes that a free block could have, if what follows it were mapped."""
        return gap[0] + sum(high - low for piece in self.pieces for low, high in piece.holes() if low == sum(gap))

    def expandable(self, gap: Gap) -> bool:
        return any(piece.page and piece.base <= gap[1] < piece.end for piece in self.pieces)

    def fitting(self, group: int, size: int) -> Gap | None:
        """The free block that serves a request; of expandable chunks the first one whose follower could not become less."""
        fitting = [gap for gap in self.free(group) if gap[0] >= size]
        while len(fitting) > 1 and self.expandable(fitting[0]) and self.reach(fitting[1]) < self.reach(fitting[0]):
            del fitting[0]
        most = self.rules.max_split
        if fitting and most != NO_LIMIT and fitting[0][0] >= (most if size < most else size + self.rules.max_rounding):
            return None
        return fitting[0] if fitting else None

    # --- growth ---

    def new(self, group: int, size: int, page: int) -> Piece | None:
        base = self.places.range(size)
        if base is None:
            return None
        for other in self.pieces:
            assert base + size <= other.base or other.end <= base, "chunks lie on each other"
        family = int(self.rules.groups.family[group])
        self.pieces.append(Piece(base, size, group, self.made, self.requests.get(family, 0), page))
        self.made += 1
        return self.pieces[-1]

    def note(self, kind: ChunkChange, base: int, size: int) -> None:
        self.changes.append((self.now, kind, base, size))
        self.places.taken += kind in (ChunkChange.TAKEN, ChunkChange.MAPPED)
        if self.reserved > self.reserved_peak:
            self.reserved_peak, self.reserved_peak_at = self.reserved, self.now

    def ask(self, group: int, size: int, growth: int) -> Gap | None:
        """A free block of new memory."""
        allowed, limit = (NO_LIMIT if most is None else most for most in (self.rules.allowed, self.limit))
        self.refused = growth
        if self.reserved + growth > allowed:
            return None
        if self.rules.groups.page[group]:
            return self.expand(group, size, limit)
        if self.reserved + growth > limit:
            return None
        piece = self.new(group, growth, 0)
        if piece is None:
            return None
        self.note(ChunkChange.TAKEN, piece.base, growth)
        return growth, piece.base

    def expand(self, group: int, size: int, limit: int) -> Gap | None:
        page = int(self.rules.groups.page[group])
        for hole, piece in sorted(
            ((start, one) for one in self.pieces if one.group == group for start, _ in one.holes()),
            key=lambda each: each[0],
        ):
            start = next((addr for length, addr in self.gaps(piece) if addr + length == hole), hole)
            if min([addr for addr in self.used if start <= addr < piece.end], default=piece.end) - start >= size:
                break
        else:
            whole = up(self.rules.range_bytes, page)
            made = self.new(group, whole, page) if whole >= size else None
            if made is None:
                return None
            piece, start = made, made.base
        needed = piece.base + up(start + size - piece.base, page)
        for low, high in piece.holes():
            if start <= low < start + size:
                end = min(high, needed)
                if self.reserved + end - low > limit:
                    self.refused = end - low
                    return None
                piece.change(low, end, mapped=True)
                self.note(ChunkChange.MAPPED, low, end - low)
        return next(gap for gap in self.gaps(piece) if gap[1] == start)

    # --- giving back ---

    def groups(self, family: int | None) -> list[int]:
        table = self.rules.groups
        return [g for g in range(len(table)) if not table.kept[g] and (family is None or table.family[g] == family)]

    def idle(self, groups: list[int]) -> list[Piece]:
        idle = [
            piece
            for piece in self.pieces
            if piece.group in groups and not piece.page and self.gaps(piece) == [(piece.size, piece.base)]
        ]
        by_size = self.rules.sorting == IdleSorting.SIZE
        family = self.rules.groups.family
        return sorted(
            idle,
            key=lambda one: (
                int(family[one.group]),
                *(
                    (one.group, one.size, one.number if self.rules.oldest_first else 0, one.base)
                    if by_size
                    else (one.number,)
                ),
            ),
        )

    def give_back(self, family: int | None) -> None:
        for one in range(max(self.rules.groups.family.tolist()) + 1) if family is None else [family]:
            for piece in self.idle(self.groups(one)):
                self.drop(piece)
            for group in self.groups(one):
                self.unmap_free(group)

    def drop(self, piece: Piece) -> None:
        self.pieces.remove(piece)
        self.places.give_back(piece.base, piece.size)
        self.note(ChunkChange.GIVEN_BACK, piece.base, piece.size)

    def unmap_free(self, group: int) -> None:
        expandable = [piece for piece in self.pieces if piece.group == group and piece.page]
        for (size, addr), piece in sorted(
            ((gap, one) for one in expandable for gap in self.gaps(one)), key=lambda each: each[0]
        ):
            start = piece.base + up(addr - piece.base, piece.page)
            end = piece.base + (addr + size - piece.base) // piece.page * piece.page
            if start < end:
                piece.change(start, end, mapped=False)
                self.note(ChunkChange.UNMAPPED, start, end - start)
                if not piece.mapped:
                    self.pieces.remove(piece)
                    self.places.give_back(piece.base, piece.size)

    def enough(self, group: int, size: int) -> bool:
        most = self.rules.max_split
        if most == NO_LIMIT:
            return False
        size = max(size, most)
        whole = {(piece.size, piece.base): piece for piece in self.pieces if piece.group == group and not piece.page}
        free = self.free(group)
        large = [gap for gap in free if gap[0] >= size]
        if large and large[0] in whole:
            self.drop(whole[large[0]])
            return True
        total = 0
        for gap in reversed([gap for gap in free if most <= gap[0] < size]):
            if total < size and gap in whole:
                total += gap[0]
                self.drop(whole[gap])
        return total >= size

    def collect(self) -> None:
        excess = self.reserved - self.rules.collect_above
        table = self.rules.groups
        idle = [piece for piece in self.idle(self.groups(None)) if table.collected[piece.group]]
        age = {piece.base: self.requests.get(int(table.family[piece.group]), 0) - piece.idle_since for piece in idle}
        while excess > 0 and idle:
            mean = sum(age[piece.base] for piece in idle) / len(idle)
            for piece in [piece for piece in idle if age[piece.base] >= mean]:
                excess -= piece.size
                idle.remove(piece)
                self.drop(piece)
