"""An allocator of intervals, the simplest there is: what is free is worked out anew from what is in use, each time it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from memlens.allocators.history import ChunkChange, Operation, RequestHistory
from memlens.allocators.rules import NO_LIMIT, AllocatorRules, IdleChunks, IdleSorting, Relief


@dataclass
class Piece:
    """A chunk, and when it became idle, counted in requests to its family."""

    base: int
    size: int
    group: int
    number: int
    idle_since: int = 0


@dataclass
class Plain:
    """Replays a history, new chunks where it is told; chunks are ordinary ones."""

    history: RequestHistory
    rules: AllocatorRules
    bases: list[int]
    limit: int | None = None
    pieces: list[Piece] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=dict)
    changes: list[tuple[int, int, int, int]] = field(default_factory=list)
    made: int = 0
    now: int = -1
    reserved_peak: int = 0
    allocated_peak: int = 0
    failed: int = -1

    @property
    def reserved(self) -> int:
        return sum(piece.size for piece in self.pieces)

    def gaps(self, piece: Piece) -> list[tuple[int, int]]:
        """What is free of a chunk, as large as can be: (bytes, address)."""
        found, at = [], piece.base
        for addr in sorted(addr for addr in self.used if piece.base <= addr < piece.base + piece.size):
            if addr > at:
                found.append((addr - at, at))
            assert addr >= at, "blocks lie on each other"
            at = addr + self.used[addr]
        assert at <= piece.base + piece.size, "a block sticks out of its chunk"
        if at < piece.base + piece.size:
            found.append((piece.base + piece.size - at, at))
        return found

    def free(self, group: int) -> list[tuple[int, int]]:
        oldest = self.rules.oldest_first
        gaps = sorted(
            (size, piece.number if oldest else 0, addr)
            for piece in self.pieces
            if piece.group == group
            for size, addr in self.gaps(piece)
        )
        return [(size, addr) for size, _, addr in gaps]

    def idle(self, groups: list[int]) -> list[Piece]:
        idle = [
            piece for piece in self.pieces if piece.group in groups and self.gaps(piece) == [(piece.size, piece.base)]
        ]
        by_size = self.rules.sorting == IdleSorting.SIZE
        family = self.rules.groups.family
        return sorted(
            idle,
            key=lambda one: (int(family[one.group]), *((one.group, one.size, one.number if self.rules.oldest_first else 0, one.base) if by_size else (one.number,))),
        )

    def groups(self, family: int | None) -> list[int]:
        table = self.rules.groups
        return [g for g in range(len(table)) if not table.kept[g] and (family is None or table.family[g] == family)]

    def drop(self, piece: Piece) -> None:
        self.pieces.remove(piece)
        self.changes.append((self.now, ChunkChange.GIVEN_BACK, piece.base, piece.size))

    def ask(self, group: int, growth: int) -> bool:
        most = min(limit for limit in (self.limit, self.rules.allowed, NO_LIMIT) if limit is not None)
        if self.reserved + growth > most:
            return False
        base = self.bases[self.made]
        for other in self.pieces:
            assert base + growth <= other.base or other.base + other.size <= base, "chunks lie on each other"
        family = int(self.rules.groups.family[group])
        self.pieces.append(Piece(base, growth, group, self.made, self.requests.get(family, 0)))
        self.made += 1
        self.changes.append((self.now, ChunkChange.TAKEN, base, growth))
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        return True

    def enough(self, group: int, size: int) -> bool:
        most = self.rules.max_split
        if most == NO_LIMIT:
            return False
        size = max(size, most)
        whole = {(piece.size, piece.base): piece for piece in self.pieces if piece.group == group}
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

    def serve(self, group: int, size: int, growth: int) -> int | None:
        """Where the block lies."""
        rules, table = self.rules, self.rules.groups
        family = int(table.family[group])
        if rules.collect_above >= 0:
            self.requests[family] = self.requests.get(family, 0) + 1
        fitting = [gap for gap in self.free(group) if gap[0] >= size][:1]
        if fitting and rules.max_split != NO_LIMIT:
            too_large = fitting[0][0] >= (rules.max_split if size < rules.max_split else size + rules.max_rounding)
            fitting = [] if too_large else fitting
        if not fitting:
            if rules.idle == IdleChunks.BEFORE_GROWTH:
                for piece in self.idle(self.groups(family)):
                    self.drop(piece)
            if rules.collect_above >= 0:
                self.collect()
            got = self.ask(group, growth)
            for relief in rules.relief:
                if got:
                    break
                if relief == Relief.ENOUGH:
                    if not self.enough(group, size):
                        continue
                else:
                    for piece in self.idle(self.groups(family if relief == Relief.FAMILY else None)):
                        self.drop(piece)
                got = self.ask(group, growth)
            if not got:
                return None
            fitting = [(growth, self.pieces[-1].base)]
        whole, addr = fitting[0]
        if whole - size >= table.min_remainder[group] and size < table.split_below[group]:
            addr, whole = (addr + whole - size if rules.take_high else addr), size
        self.used[addr] = whole
        self.allocated_peak = max(self.allocated_peak, sum(self.used.values()))
        return addr

    def run(self) -> list[int]:
        """The addresses of all requests, 0 for what is none."""
        self.requests: dict[int, int] = {}
        history, rules = self.history, self.rules
        address = [0] * len(history)
        ready = all(self.ask(group, size) for group, size in rules.preallocated)
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
                if not addr:
                    continue
                del self.used[addr]
                (piece,) = (piece for piece in self.pieces if piece.base <= addr < piece.base + piece.size)
                family = int(rules.groups.family[piece.group])
                piece.idle_since = self.requests.get(family, 0)
                if rules.idle == IdleChunks.AFTER_FREE:
                    for idle in self.idle(self.groups(family)):
                        self.drop(idle)
            else:
                for idle in self.idle(self.groups(None)):
                    self.drop(idle)
        return address
