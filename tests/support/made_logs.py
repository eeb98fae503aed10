"""Made-up logs of Paddle with all that may happen to one: lost Frees, addresses given twice, torn lines, threads, chunks, steps, failures."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

_SIZES = (256, 512, 4096, 65536, 1 << 20)
_OOM = (
    "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 2.000000GB memory on GPU 0, 10.000000GB memory has been"
    " allocated and available memory is only 1.000000GB."
)


@dataclass
class _Writer:
    rng: random.Random
    lines: list[str] = field(default_factory=list)
    micros: int = 0

    def line(self, text: str) -> None:
        """A line with a header, a little later than the one before."""
        self.micros += self.rng.randint(1, 99)
        clock = (
            f"{self.micros // 60_000_000 % 60:02d}:{self.micros // 1_000_000 % 60:02d}.{self.micros % 1_000_000:06d}"
        )
        self.lines.append(f"I0710 10:{clock} {100 + self.rng.randrange(3):5d} {text}")


def made_log(rng: random.Random, events: int, *, step: str = "START STEP_%d") -> str:
    """A log of so many events, or a few less.

    Args:
        rng: Decides everything.
        events: ALLOCs, FREEs and chunks.
        step: The line that begins a step.
    """
    writer, live, idle, address = _Writer(rng), dict[int, int](), list[int](), 0x7F0000000000
    sizes = [rng.choice(_SIZES) * rng.randint(1, 3) for _ in range(rng.choice([2, 8]))]
    every, lost, doubled = rng.choice([0, 5, 40]), rng.choice([0, 0, 0.02]), rng.choice([0, 0, 0.02])
    chunks, growing = rng.random() < 0.6, rng.random() < 0.3
    for number in range(events):
        if every and number % every == 0:
            writer.lines.append(step % (number // every))
            writer.lines += ["START BACKWARD"] * (rng.random() < 0.5) + ["END BACKWARD"] * (rng.random() < 0.2)
        what = rng.random()
        if chunks and what < 0.03:
            size = rng.choice([1 << 20, 4 << 20])
            writer.line(
                f"auto_growth_best_fit_allocator.cc:128] Not found and reallocate {size}({address:#x}), and remaining 0"
            )
            idle += range(address, address + size, 65536)
            address += size
        elif live and what < (0.3 if growing else 0.5):
            freed = rng.choice(list(live)) if rng.random() < 0.5 else next(reversed(live))
            size = live.pop(freed) + 256 * (rng.random() < 0.01)
            idle.append(freed)
            if rng.random() >= lost:
                writer.line(f"auto_growth_best_fit_allocator.cc:177] Free {size} bytes, ptr = {freed:#x}")
        else:
            size = rng.choice(sizes)
            if live and rng.random() < doubled:
                given = rng.choice(list(live))
            elif idle and rng.random() < 0.9:
                given = idle.pop()
            else:
                given, address = address, address + size
            live[given] = size
            if rng.random() < 0.3:
                writer.line(
                    f"auto_growth_best_fit_allocator.cc:96] Allocate {size - 3} bytes, aligned to {size}, extra size 0"
                )
            if rng.random() < 0.2:
                writer.line(f"dygraph_functions.cc:94539] Running AD API: {rng.choice(['matmul', 'add', 'relu'])}")
            writer.line(f"auto_growth_best_fit_allocator.cc:117] Alloc {size} bytes, ptr = {given:#x}")
        writer.lines += [_OOM] * (rng.random() < 0.002)
        writer.lines += ["x auto_growth_best_fit_allocator.cc:177] Free xx bytes, ptr = 0x"] * (rng.random() < 0.01)
    if rng.random() < 0.2:
        writer.lines.append(writer.lines[-1][:40])
    return "\n".join(writer.lines) + "\n" * (rng.random() < 0.8)
