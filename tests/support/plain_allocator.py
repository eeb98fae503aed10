"""An allocator of intervals, the simplest there is: what is free is worked out anew from what is in use, each time it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from memlens.allocators.history import ChunkChange, Operation, RequestHistory
from memlens.allocators.rules import NO_LIMIT, AllocatorRules, IdleChunks, IdleSorting, Relief

Gap = tuple[int, int]  # bytes and address


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
        self.mapped = joined(sorted(pages | part if mapped else pages - part), self.page)

    def holes(self) -> list[tuple[int, int]]:
        """What is not mapped."""
        edges = [(self.base, self.base), *self.mapped, (self.end, self.end)] if self.page else []
        return [(one[1], two[0]) for one, two in pairwise(edges) if two[0] > one[1]]


def joined(starts: list[int], length: int) -> list[tuple[int, int]]:
    """Pieces of one length as the intervals that they make."""
    found: list[tuple[int, int]] = []
    for start in starts:
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], start + length
        else:
            found.append((start, start + length))
    return found


@dataclass
class Plain:
    """Replays a history; ``place`` says where a new chunk or range of so many bytes lies."""

    history: RequestHistory
    rules: AllocatorRules
    place: Callable[[int], int]
    limit: int | None = None
    pieces: list[Piece] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=dict)
    changes: list[tuple[int, int, int, int]] = field(default_factory=list)
    requests: dict[int, int] = field(default_factory=dict)
    made: int = 0
    now: int = -1
    reserved_peak: int = 0
    allocated_peak: int = 0
    failed: int = -1

    def run(self) -> list[int]:
        """The addresses of all requests, 0 for what is none."""
        history, rules = self.history, self.rules
        address = [0] * len(history)
        ready = all(self.ask(group, size, size) for group, size in rules.preallocated)
        for at in range(len(history)):
            self.now = at
            operation = history.operation[at]
            if operation == Operation.REQUEST:
                row = int(rules.group[at]), int(rules.block[at]), int(rules.growth[at])
                addr = self.serve(*row) if ready else None
                if addr is not None:
                    address[at] = addr
                    continue
                self.failed = at if self.failed < 0 else self.failed
                if not ready or at not in history.failed:
                    break
            elif operation == Operation.FREE:
                addr = address[int(history.of[at])]
                del self.used[addr]
                (piece,) = (piece for piece in self.pieces if piece.base <= addr < piece.end)
                family = int(rules.groups.family[piece.group])
                piece.idle_since = self.requests.get(family, 0)
                if rules.idle == IdleChunks.AFTER_FREE:
                    self.give_back(family)
            else:
                self.give_back(None)
        return address

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

    def new(self, group: int, size: int, page: int) -> Piece:
        base = self.place(size)
        for other in self.pieces:
            assert base + size <= other.base or other.end <= base, "chunks lie on each other"
        family = int(self.rules.groups.family[group])
        self.pieces.append(Piece(base, size, group, self.made, self.requests.get(family, 0), page))
        self.made += 1
        return self.pieces[-1]

    def note(self, kind: ChunkChange, base: int, size: int) -> None:
        self.changes.append((self.now, kind, base, size))
        self.reserved_peak = max(self.reserved_peak, self.reserved)

    def ask(self, group: int, size: int, growth: int) -> Gap | None:
        """A free block of new memory."""
        allowed, limit = (NO_LIMIT if most is None else most for most in (self.rules.allowed, self.limit))
        if self.reserved + growth > allowed:
            return None
        if self.rules.groups.page[group]:
            return self.expand(group, size, limit)
        if self.reserved + growth > limit:
            return None
        piece = self.new(group, growth, 0)
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
            whole = -(-self.rules.range_bytes // page) * page
            if whole < size:
                return None
            piece = self.new(group, whole, page)
            start = piece.base
        needed = piece.base + -(-(start + size - piece.base) // page) * page
        for low, high in piece.holes():
            if start <= low < start + size:
                end = min(high, needed)
                if self.reserved + end - low > limit:
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
        self.note(ChunkChange.GIVEN_BACK, piece.base, piece.size)

    def unmap_free(self, group: int) -> None:
        expandable = [piece for piece in self.pieces if piece.group == group and piece.page]
        for (size, addr), piece in sorted(
            ((gap, one) for one in expandable for gap in self.gaps(one)), key=lambda each: each[0]
        ):
            start = piece.base + -(-(addr - piece.base) // piece.page) * piece.page
            end = piece.base + (addr + size - piece.base) // piece.page * piece.page
            if start < end:
                piece.change(start, end, mapped=False)
                self.note(ChunkChange.UNMAPPED, start, end - start)
                if not piece.mapped:
                    self.pieces.remove(piece)

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
