"""Logs that reports are made of, and what their lines come to, counted one by one."""

from __future__ import annotations

import gzip
import random
import re
import subprocess
import sys
from pathlib import Path

from snapshots import Allocator, pickled, snapshot

EVENT = re.compile(r"\] (?:(Alloc|Free) (\d+) bytes, ptr = 0x|Not found and reallocate )")


def plain_levels(path: Path) -> tuple[list[int], list[int]]:
    """The allocated level after each event of a log of Paddle, and the line of each, 1-based."""
    levels, lines, level = [], [], 0
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as log:
        for number, line in enumerate(log, 1):
            if (found := EVENT.search(line)) is not None:
                if found[1]:
                    level += int(found[2]) if found[1] == "Alloc" else -int(found[2])
                levels.append(level)
                lines.append(number)
    return levels, lines


def small_log(folder: Path) -> Path:
    """Two steps of five events: 1 MiB stays, 3 and 5 MiB are temporary; 4 + 8 MiB are reserved."""
    text, clock = "", 0
    for step in range(2):
        text += f"START STEP_{step}\n"
        for what in (
            "Not found and reallocate 8388608(0x7f0000000000), and remaining 0" if step == 0 else "",
            "Alloc 3145728 bytes, ptr = 0x7f0000000000",
            "Alloc 5242880 bytes, ptr = 0x7f0000300000",
            "Free 5242880 bytes, ptr = 0x7f0000300000",
            "Free 3145728 bytes, ptr = 0x7f0000000000",
        ):
            if what:
                clock += 250_000
                text += f"I0712 10:54:{clock // 1_000_000:02d}.{clock % 1_000_000:06d} 1120 auto_growth_best_fit_allocator.cc:169] {what}\n"
    path = folder / "small.log"
    path.write_text(text)
    return path


def three_devices(folder: Path) -> Path:
    """A snapshot of three GPUs that allocate one after the other, as the stages of a pipeline do."""
    allocators = []
    for device in range(3):
        made = Allocator(random.Random(device), device)
        made.time += 4_000 * device
        for k in range(600):
            if k % 3 and k < 500:
                made.alloc(made.chance.randrange(1, 1 << 20))
            else:
                made.free()
        allocators.append(made)
    path = folder / "three.pickle"
    path.write_bytes(pickled(snapshot(allocators)))
    return path


#: What :func:`million_events` holds for two events in the middle, beside some GiB of other blocks.
SPIKE = 1 << 40


def million_events(folder: Path, shared: Path) -> Path:
    """A log of a million events, with a peak that lasts one event."""
    path = folder / "million.log"
    command = [sys.executable, str(shared / "bench/make_log.py"), str(path), "95", "--calls", "20000"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    lines = path.read_bytes().splitlines(keepends=True)
    stamp = b"I0710 %b auto_growth_best_fit_allocator.cc:%d] %b %d bytes, ptr = 0x10000000000000\n"
    at = len(lines) // 2 + random.Random(0).randrange(1000)
    clock = next(line for line in lines[at:] if line.startswith(b"I0710")).split()[1] + b" 12345"
    lines[at:at] = [stamp % (clock, 169, b"Alloc", SPIKE), stamp % (clock, 177, b"Free", SPIKE)]
    path.write_bytes(b"".join(lines))
    return path
