"""Runs of a small model of Paddle's allocator on a device that may run full: the log that it writes, and what is so at the failure.

The model looks for room byte by byte among its blocks and keeps no free list, so that it shares nothing with what is tested.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from logs import LogText

KIB = 1024


@dataclass
class FailedAt:
    """What is so at a failure: bytes, and the lines (1-based) of the message and of the blocks live then."""

    line: int
    asked: int
    allocated: int
    reserved: int
    gaps: list[int]
    left: int
    total: int
    others: int
    live: list[tuple[int, int]]
    idle: list[int]


@dataclass
class Machine:
    """A device of ``total`` bytes of which others hold some, and an allocator on it that takes a chunk for each block that fits nowhere."""

    total: int
    others: int = 0
    log: LogText = field(default_factory=lambda: LogText(line_us=0))
    chunks: list[tuple[int, int]] = field(default_factory=list)
    live: dict[int, tuple[int, int]] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return self.total - self.others - sum(size for _, size in self.chunks)

    @property
    def lines(self) -> list[str]:
        return self.log.lines

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Size and beginning of each gap."""
        for begin, size in self.chunks:
            at = begin
            inside = sorted((addr, held) for addr, (held, _) in self.live.items() if begin <= addr < begin + size)
            for addr, held in [*inside, (begin + size, 0)]:
                if addr > at:
                    yield addr - at, at
                at = addr + held

    def alloc(self, size: int) -> int | None:
        """The address of a new block, ``None`` where there is no room."""
        self.log.request(size - 16, size)
        fitting = sorted(gap for gap in self.gaps() if gap[0] >= size)
        if fitting:
            gap, begin = fitting[0]
            self.log.from_chunk(size, gap)
        elif size <= self.left:
            gap, begin = size, 0x7F0000000000 + (len(self.chunks) << 24)
            self.chunks.append((begin, size))
            self.log.chunk(size, begin)
        else:
            return None
        addr = begin + gap - size
        self.log.alloc(size, addr)
        self.live[addr] = size, len(self.lines)
        return addr

    def free(self, addr: int) -> None:
        self.log.free(self.live.pop(addr)[0], addr)

    def fail(self, asked: int, message: str) -> FailedAt:
        """Write the message of a failure: ``full``, ``size`` alone, or ``none`` of the figures."""
        frame = ['  File "/home/me/net.py", line 7, in forward', "    return _C_ops.conv2d(x)"]
        self.lines.extend(["Traceback (most recent call last):", *frame])
        if message == "full":
            used = self.total - self.left
            self.lines.append(
                f"Out of memory error on GPU 0. Cannot allocate {_kb(asked)} memory on GPU 0, {_kb(used)} memory has been"
                f" allocated and available memory is only {_kb(self.left)}."
            )
        elif message == "size":
            self.lines.append(f"Allocation of {asked} bytes failed after releasing memory from all streams.")
        else:
            self.lines.append(
                "OSError: (External)  CustomDevice error, the error code is : 2.  (at custom_device.cc:387)"
            )
        held = [(begin, size, [a for a in self.live if begin <= a < begin + size]) for begin, size in self.chunks]
        return FailedAt(
            len(self.lines),
            asked,
            sum(size for size, _ in self.live.values()),
            sum(size for _, size in self.chunks),
            [size for size, _ in self.gaps()],
            self.left,
            self.total,
            self.others,
            list(self.live.values()),
            [size for _, size, blocks in held if not blocks],
        )

    @property
    def text(self) -> bytes:
        return self.log.text.encode()


def _kb(size: int) -> str:
    """A size as Paddle prints it, exactly: whole KiB of less than a MiB."""
    assert size % KIB == 0
    assert size < KIB * KIB
    return f"{size / KIB:.6f}KB" if size >= KIB else f"{size:.6f}B"


def run_until_full(seed: int, message: str = "full", *, others: int | None = None) -> tuple[Machine, FailedAt]:
    """A run by chance that allocates and frees until a request fails, and then frees all."""
    chance = random.Random(seed)
    total = chance.randrange(40, 1000) * KIB
    most = chance.choice((total // KIB // 12, total // KIB // 4, total // KIB // 2)) + 1
    held = chance.choice((0, 0, total // 16, total // 6, total // 2)) // KIB * KIB if others is None else others
    machine, keep = Machine(total, held), chance.random() ** 2
    machine.lines.append("STEP 0 START")
    while True:
        if machine.live and chance.random() < 0.45 * (1 - keep):
            machine.free(chance.choice(list(machine.live)))
            continue
        size = chance.randrange(1, most + 1) * KIB
        if machine.alloc(size) is None:
            failed = machine.fail(size, message)
            for addr in list(machine.live):
                machine.free(addr)
            return machine, failed


def replayed(text: str, line: int) -> tuple[int, int, list[int]]:
    """Allocated and reserved bytes and the gaps right before a line of a log of Paddle, by a plain walk over its lines."""
    import re

    live: dict[int, int] = {}
    chunks: dict[int, int] = {}
    for row in text.splitlines()[: line - 1]:
        if found := re.search(r"\b(Alloc|Free) (\d+) bytes, ptr = (0x[0-9a-f]+)", row):
            if found[1] == "Alloc":
                live[int(found[3], 16)] = int(found[2])
            else:
                live.pop(int(found[3], 16))
        elif found := re.search(r"Not found and reallocate (\d+)\((0x[0-9a-f]+)\)", row):
            chunks[int(found[2], 16)] = int(found[1])
    machine = Machine(0)
    machine.chunks = sorted(chunks.items())
    machine.live = {addr: (size, 0) for addr, size in live.items()}
    return sum(live.values()), sum(chunks.values()), [size for size, _ in machine.gaps()]
