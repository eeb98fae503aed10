"""The trust report once more, the plain way: one pass over the lines of a log, with regular expressions and dictionaries."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from texts import read_packed

BLOCK = re.compile(rb"(Alloc|Free) ([0-9]{1,15}) bytes, ptr = (0x[0-9a-f]{1,16})(?![0-9a-f])")
NEW_CHUNK = re.compile(rb"Not found and reallocate ([0-9]{1,15})(?:\(0x|, and)")
OLD_CHUNK = re.compile(rb"Free chunk with size ([0-9]{1,15})(?![0-9])")
THREAD = re.compile(rb"[IWEF][0-9]{4} [0-9:.]{15} +([0-9]+) \S+:[0-9]+\] *$")
STATS = re.compile(
    rb"DeviceMemoryStat(Allocated|Reserved)0: Update current_value with (-?[0-9]+), after update,"
    rb"(?: peak_value = ([0-9]+) ,)? current value = ([0-9]+)"
)


@dataclass
class Twin:
    """What the report must say; ``levels`` are ``(line, metric, theirs, ours)`` of all figures, stats lines included."""

    lines: int = 0
    allocs: int = 0
    frees: int = 0
    reserves: int = 0
    releases: int = 0
    unknown_frees: int = 0
    unknown_free_bytes: int = 0
    double_allocs: int = 0
    size_mismatches: int = 0
    threads: set[int] = field(default_factory=set)
    unstamped: int = 0
    figures: list[tuple[int, str, int, int]] = field(default_factory=list)


def read_twin(text: bytes) -> Twin:
    """Read a log line by line."""
    found = Twin()
    live: dict[bytes, int] = {}
    level = {"allocated": 0, "allocated_peak": 0, "reserved": 0, "reserved_peak": 0}

    def move(metric: str, change: int) -> None:
        level[metric] += change
        level[metric + "_peak"] = max(level[metric + "_peak"], level[metric])

    for number, line in enumerate(text.splitlines(keepends=True), 1):
        found.lines = number
        if match := re.search(rb'(\{"allocated": .*"reserved_peak": .*\})', line):
            theirs = json.loads(match[1])
            found.figures += [(number, metric, theirs[metric], ours) for metric, ours in level.items()]
        if match := STATS.search(line):
            metric, change = match[1].decode().lower(), int(match[2])
            # A block's total is written after its Alloc and before its Free, a chunk's before it is new and after it is old.
            ahead = change if (change < 0) != (metric == "reserved") else 0
            found.figures.append((number, metric, int(match[4]), level[metric] + ahead))
            if match[3]:
                ours = max(level[metric + "_peak"], level[metric] + ahead)
                found.figures.append((number, metric + "_peak", int(match[3]), ours))
        for match in BLOCK.finditer(line):
            size, addr = int(match[2]), match[3]
            count_thread(found, line[: match.start()])
            if match[1] == b"Alloc":
                found.allocs += 1
                found.double_allocs += addr in live
                live[addr] = size
                move("allocated", size)
                continue
            found.frees += 1
            move("allocated", -size)
            if addr in live:
                found.size_mismatches += live.pop(addr) != size
            else:
                found.unknown_frees += 1
                found.unknown_free_bytes += size
        if match := NEW_CHUNK.search(line):
            found.reserves += 1
            count_thread(found, line[: match.start()])
            move("reserved", int(match[1]))
        if match := OLD_CHUNK.search(line):
            found.releases += 1
            count_thread(found, line[: match.start()])
            move("reserved", -int(match[1]))
    return found


def count_thread(found: Twin, before: bytes) -> None:
    if header := THREAD.search(before):
        found.threads.add(int(header[1]))
    else:
        found.unstamped += 1


@pytest.fixture(scope="session")
def twin() -> Callable[[Path], Twin]:
    """The plain reading of a log file."""
    return cache(lambda path: read_twin(read_packed(path)))
