"""Paddle's auto-growth allocator once more, in the plainest way, which writes its log: what models and readers are held against.

Memory is a list of stretches for each chunk, gone through from front to back.  Several threads take turns between any two lines, so that FREEs take
effect late and requests wait for the lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from logs import LogText

MIB = 1 << 20


@dataclass
class Stretch:
    """Bytes of a chunk that are one block, free or not."""

    start: int
    size: int
    free: bool


@dataclass
class Chunk:
    """What was taken from the device at once."""

    start: int
    size: int
    pool: int
    stretches: list[Stretch]

    @property
    def idle(self) -> bool:
        return len(self.stretches) == 1 and self.stretches[0].free


class DeviceRefusedError(Exception):
    """The device has no more."""


@dataclass
class PaddleAllocator:
    """One allocator.

    Attributes:
        chance: What it draws by: programs, addresses, the lines of its source.
        apart: What it draws addresses and lines by, so that programs of other settings are the same; by ``chance``, too, where it is ``None``.
        chunk: The least bytes of a chunk; with pools of one of the small and one of the large one.
        idle: Chunks are given back as soon as they are idle.
        miss: They are given back before one is taken.
        small: Bytes up to which a block comes from the small pool; 0: there is one pool.
        pad: Bytes behind each tensor.
        alignment: What blocks are a multiple of.
        advance: Bytes of chunks made at the start, of each pool.
        capacity: Bytes of the device.
        retry: A refusal is tried again.
        log: The log.
    """

    chance: Random
    chunk: tuple[int, int] = (0, 0)
    idle: bool = False
    miss: bool = False
    small: int = 0
    pad: int = 0
    alignment: int = 256
    advance: tuple[int, int] = (0, 0)
    capacity: int = 1 << 60
    retry: bool = True
    apart: Random | None = None
    log: LogText = field(default_factory=lambda: LogText(line_us=0))
    chunks: list[Chunk] = field(default_factory=list)
    addresses: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.own = self.chance if self.apart is None else self.apart
        self.reserved = self.peak = self.taken = self.given_back = 0
        self.by(1).say(f"chunk_size_:{max(self.chunk[0], self.alignment)}")
        for pool, name in enumerate(("small", "large")):
            if self.advance[pool]:
                self.take(self.advance[pool], pool)
                self.by(1).say(f"PreAlloc {name}_pool_pre_alloc_in_mb = {self.advance[pool] // MIB}")

    @property
    def lines(self) -> list[str]:
        return self.log.lines

    def by(self, thread: int) -> LogText:
        """The log, for a line of a thread from somewhere in the allocator's source."""
        self.log.thread, self.log.place = thread, self.own.randint(60, 400)
        return self.log

    def pool_of(self, size: int) -> int:
        return int(size > self.small) if self.small else 0

    def aligned(self, size: int) -> int:
        return -(-(size + self.pad) // self.alignment) * self.alignment

    def ask(self, thread: int, size: int) -> None:
        self.by(thread).request(size, self.aligned(size), self.pad)

    def serve(self, thread: int, size: int) -> int:
        """Serve a request, under the lock."""
        size = self.aligned(size)
        pool = self.pool_of(size)
        fitting = [
            (stretch.size, stretch.start, chunk)
            for chunk in self.chunks
            if chunk.pool == pool
            for stretch in chunk.stretches
            if stretch.free and stretch.size >= size
        ]
        if fitting:
            bytes_, start, chunk = min(fitting, key=lambda one: one[:2])
            self.by(thread).from_chunk(size, bytes_)
        else:
            least = self.chunk[pool] if self.small else self.chunk[0]
            chunk = self.grow(thread, max(size, least), pool)
            self.by(thread).chunk(chunk.size, chunk.start, chunk.size - size)
            bytes_, start = chunk.size, chunk.start
        at = next(k for k, stretch in enumerate(chunk.stretches) if stretch.start == start)
        address = start + bytes_ - size
        parts = [Stretch(start, bytes_ - size, True), Stretch(address, size, False)]
        chunk.stretches[at : at + 1] = [part for part in parts if part.size]
        self.by(thread).alloc(size, address)
        self.addresses.append(address)
        return address

    def grow(self, thread: int, size: int, pool: int) -> Chunk:
        if self.miss or (self.reserved + size > self.capacity and self.retry):
            self.give_back(thread)
        return self.take(size, pool)

    def take(self, size: int, pool: int) -> Chunk:
        if self.reserved + size > self.capacity:
            raise DeviceRefusedError
        taken = sorted((chunk.start, chunk.start + chunk.size) for chunk in self.chunks)
        while True:
            start = self.own.randrange(1, 1 << 20) << 12
            if all(end <= start or start + size <= begin for begin, end in taken):
                break
        if taken and self.own.random() < 0.3 and all(begin != taken[0][1] for begin, _ in taken):
            end = next((end for _, end in taken if all(e <= end or end + size <= b for b, e in taken)), start)
            start = end  # right behind another one: they must not become one
        chunk = Chunk(start, size, pool, [Stretch(start, size, True)])
        self.chunks.append(chunk)
        self.reserved += size
        self.peak = max(self.peak, self.reserved)
        self.taken += 1
        return chunk

    def give_back(self, thread: int) -> None:
        for chunk in [chunk for chunk in self.chunks if chunk.idle]:
            self.by(thread).release(chunk.size)
            self.chunks.remove(chunk)
            self.reserved -= chunk.size
            self.given_back += 1

    def announce(self, thread: int, address: int) -> None:
        """A FREE begins: its line, before the lock."""
        size = next(one.size for chunk in self.chunks for one in chunk.stretches if one.start == address)
        self.by(thread).free(size, address)

    def free(self, thread: int, address: int) -> None:
        """It takes effect, under the lock."""
        chunk = next(chunk for chunk in self.chunks if any(one.start == address for one in chunk.stretches))
        at = next(k for k, one in enumerate(chunk.stretches) if one.start == address)
        chunk.stretches[at].free = True
        for first in (at, at - 1):
            if 0 <= first < len(chunk.stretches) - 1 and all(one.free for one in chunk.stretches[first : first + 2]):
                one, other = chunk.stretches[first : first + 2]
                chunk.stretches[first : first + 2] = [Stretch(one.start, one.size + other.size, True)]
        if self.idle:
            self.give_back(thread)


def run(allocator: PaddleAllocator, steps: int, threads: int, most: int = 40) -> str:
    """A program of some threads, and the log it writes; it ends where the device refuses a request."""
    chance = allocator.chance
    live: list[int] = []
    waiting: dict[int, tuple[str, int]] = {}  # what a thread does when it has the lock
    sizes = [chance.randint(1, 300_000) for _ in range(6)] + [chance.randint(1, 3000) for _ in range(4)]
    for _ in range(steps):
        thread = chance.randint(1, threads)
        if thread in waiting:
            what, value = waiting.pop(thread)
            if what == "free":
                allocator.free(thread, value)
                continue
            try:
                live.append(allocator.serve(thread, value))
            except DeviceRefusedError:
                allocator.lines.append("OSError: (External)  CustomDevice error, the error code is : 2.  (at x.cc:387)")
                break
        elif live and (len(live) > most or chance.random() < 0.48):
            address = live.pop(chance.randrange(len(live)))
            allocator.announce(thread, address)
            if chance.random() < 0.5 and threads > 1:
                waiting[thread] = "free", address
            else:
                allocator.free(thread, address)
        else:
            size = chance.choice(sizes)
            allocator.ask(thread, size)
            waiting[thread] = "serve", size
    for thread, (what, value) in waiting.items():
        if what == "free":
            allocator.free(thread, value)
    return "\n".join(allocator.lines) + "\n"
