"""Made-up logs of Paddle with all that may happen to one: lost Frees, addresses given twice, torn lines, threads, chunks, steps, failures."""

from __future__ import annotations

import random

from logs import LogText

_SIZES = (256, 512, 4096, 65536, 1 << 20)
_OOM = (
    "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 2.000000GB memory on GPU 0, 10.000000GB memory has been"
    " allocated and available memory is only 1.000000GB."
)


def made_log(rng: random.Random, events: int, *, step: str = "START STEP_%d") -> str:
    """A log of so many events, or a few less.

    Args:
        rng: Decides everything.
        events: ALLOCs, FREEs and chunks.
        step: The line that begins a step.
    """
    log, live, idle, address = LogText(date="0710"), dict[int, int](), list[int](), 0x7F0000000000
    sizes = [rng.choice(_SIZES) * rng.randint(1, 3) for _ in range(rng.choice([2, 8]))]
    every, lost, doubled = rng.choice([0, 5, 40]), rng.choice([0, 0, 0.02]), rng.choice([0, 0, 0.02])
    chunks, growing = rng.random() < 0.6, rng.random() < 0.3
    for number in range(events):
        log.thread, log.line_us = 100 + rng.randrange(3), rng.randint(1, 99)
        if every and number % every == 0:
            log.lines.append(step % (number // every))
            log.lines += ["START BACKWARD"] * (rng.random() < 0.5) + ["END BACKWARD"] * (rng.random() < 0.2)
        what = rng.random()
        if chunks and what < 0.03:
            size = rng.choice([1 << 20, 4 << 20])
            log.chunk(size, address)
            idle += range(address, address + size, 65536)
            address += size
        elif live and what < (0.3 if growing else 0.5):
            freed = rng.choice(list(live)) if rng.random() < 0.5 else next(reversed(live))
            size = live.pop(freed) + 256 * (rng.random() < 0.01)
            idle.append(freed)
            if rng.random() >= lost:
                log.free(size, freed)
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
                log.request(size - 3, size)
            if rng.random() < 0.2:
                log.operator(rng.choice(["matmul", "add", "relu"]))
            log.alloc(size, given)
        log.lines += [_OOM] * (rng.random() < 0.002)
        log.lines += ["x auto_growth_best_fit_allocator.cc:177] Free xx bytes, ptr = 0x"] * (rng.random() < 0.01)
    if rng.random() < 0.2:
        log.lines.append(log.lines[-1][:40])
    return "\n".join(log.lines) + "\n" * (rng.random() < 0.8)
