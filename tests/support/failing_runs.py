"""Runs of Paddle's allocator in plain Python on a device that may run full: the log that it writes, and what is so at the failure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from paddle_allocator import DeviceRefusedError, PaddleAllocator

KIB = 1024


@dataclass
class FailedAt:
    """What is so when a request is refused: bytes, and the lines (1-based) of the request and of the blocks live then."""

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
    """A device of ``total`` bytes of which others hold some, and an allocator on it that takes a chunk for each block that fits nowhere.

    Attributes:
        live: By the addresses of blocks their bytes and the lines of their ALLOCs.
        asked_line: The line of the last request.
    """

    total: int
    others: int = 0
    live: dict[int, tuple[int, int]] = field(default_factory=dict)
    asked_line: int = 0

    def __post_init__(self) -> None:
        self.allocator = PaddleAllocator(random.Random(0), capacity=self.total - self.others, retry=False)
        self.lines = self.allocator.lines
        self.lines.clear()  # what it says of its settings

    @property
    def left(self) -> int:
        return self.total - self.others - self.allocator.reserved

    def alloc(self, size: int) -> int | None:
        """The address of a new block, ``None`` where there is no room."""
        self.allocator.ask(1, size - 16)
        self.asked_line = len(self.lines)
        try:
            addr = self.allocator.serve(1, size - 16)
        except DeviceRefusedError:
            return None
        self.live[addr] = size, len(self.lines)
        return addr

    def free(self, addr: int) -> None:
        del self.live[addr]
        self.allocator.announce(1, addr)
        self.allocator.free(1, addr)

    def fail(self, asked: int, message: str, freed: Sequence[int] = ()) -> FailedAt:
        """Write the message of a failure: ``full``, ``size`` alone, or ``none`` of the figures.

        Args:
            asked: The bytes that were refused.
            message: Which of the figures it has; they are those of the moment when the exception was made.
            freed: Blocks that are freed while the exception makes its way to where its message is printed.
        """
        failed, left = self._refused(asked), self.left
        for addr in freed:
            self.free(addr)
        frame = ['  File "/home/me/net.py", line 7, in forward', "    return _C_ops.conv2d(x)"]
        self.lines.extend(["Traceback (most recent call last):", *frame])
        if message == "full":
            used = self.total - left
            self.lines.append(
                f"Out of memory error on GPU 0. Cannot allocate {_kb(asked)} memory on GPU 0, {_kb(used)} memory has been"
                f" allocated and available memory is only {_kb(left)}."
            )
        elif message == "size":
            self.lines.append(f"Allocation of {asked} bytes failed after releasing memory from all streams.")
        else:
            self.lines.append(
                "OSError: (External)  CustomDevice error, the error code is : 2.  (at custom_device.cc:387)"
            )
        return failed

    def _refused(self, asked: int) -> FailedAt:
        chunks = self.allocator.chunks
        return FailedAt(
            self.asked_line,
            asked,
            sum(size for size, _ in self.live.values()),
            self.allocator.reserved,
            [stretch.size for chunk in chunks for stretch in chunk.stretches if stretch.free],
            self.left,
            self.total,
            self.others,
            list(self.live.values()),
            [chunk.size for chunk in chunks if chunk.idle],
        )

    @property
    def text(self) -> bytes:
        return self.allocator.log.text.encode()


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
            freed = chance.sample(list(machine.live), chance.randint(0, len(machine.live)))
            failed = machine.fail(size, message, freed)
            for addr in list(machine.live):
                machine.free(addr)
            return machine, failed
