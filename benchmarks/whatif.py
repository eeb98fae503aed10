#!/usr/bin/env python3
"""How fast requests are replayed, and how long ``memlens whatif`` takes for a log of a million events.

See README.md beside this file.  Prints tables; it never fails on a slow machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from memlens.allocators.engine import replay
from memlens.allocators.history import RequestHistory
from memlens.allocators.models import AllocatorRules, Groups, IdleChunks, IdleSorting, Relief
from memlens.allocators.placing import Addresses, Placement

MIB = 1 << 20
#: What tensors ask for: few sizes that come again and again, as in training.
SIZES = [256, 512, 1024, 4096, 16384, 65536, 147456, 262144, 1048576, 3538944, 7077888, 28311552]


def history_of(operations: int, live: int, sizes: list[int], seed: int = 1) -> RequestHistory:
    """So many operations, at most so many blocks live at once, each of them freed at random."""
    rng = np.random.default_rng(seed)
    draws, turns = rng.integers(0, 1 << 30, operations).tolist(), (rng.random(operations) < 0.48).tolist()
    of, size, held = np.full(operations, -1, np.int64), np.zeros(operations, np.int64), list[int]()
    for at, (draw, turn) in enumerate(zip(draws, turns, strict=True)):
        if held and (turn or len(held) >= live):
            k = draw % len(held)
            held[k], held[-1] = held[-1], held[k]
            of[at] = held.pop()
        else:
            size[at] = sizes[draw % len(sizes)]
            held.append(at)
    none = np.zeros(operations, np.int32)
    kind = (of >= 0).astype(np.int8)
    return RequestHistory(
        kind,
        of,
        size,
        none,
        none,
        none.astype(np.int64),
        none.astype(np.int64),
        none.astype(np.uint64),
        none.astype(np.int64),
    )


def auto_growth(history: RequestHistory, chunk: int = 0, **changes: object) -> AllocatorRules:
    """Rules of the kind of Paddle's allocator, chunks of at least so many bytes."""
    rules = AllocatorRules(
        history.size,
        history.stream,
        np.maximum(history.size, chunk),
        Groups.alike(1),
        take_high=True,
        relief=(Relief.FAMILY,),
    )
    return replace(rules, **changes)


def caching(history: RequestHistory, *, expandable: bool) -> AllocatorRules:
    """Rules of the kind of PyTorch's allocator: a large and a small pool, whole or expandable chunks."""
    block = -(-history.size // 512) * 512
    small = block <= MIB
    growth = np.where(small, 2 * MIB, np.where(block < 10 * MIB, 20 * MIB, -(-block // (2 * MIB)) * 2 * MIB))
    groups = Groups.alike(2, family=np.arange(2, dtype=np.int32), min_remainder=512)
    if expandable:
        groups.page[:] = 20 * MIB, 2 * MIB
    else:
        groups.min_remainder[0] = MIB + 1
    relief = (Relief.ENOUGH, Relief.ALL)
    return AllocatorRules(
        block, small.astype(np.int32), growth, groups, sorting=IdleSorting.SIZE, relief=relief, range_bytes=90 << 30
    )


def settings_of(history: RequestHistory) -> dict[str, AllocatorRules]:
    """Ten settings."""
    return {
        "chunks as asked for": auto_growth(history),
        "chunks of 4 MiB": auto_growth(history, 4 * MIB),
        "chunks of 16 MiB": auto_growth(history, 16 * MIB),
        "chunks of 64 MiB": auto_growth(history, 64 * MIB),
        "chunks of 256 MiB": auto_growth(history, 256 * MIB),
        "idle ones given back": auto_growth(history, idle=IdleChunks.AFTER_FREE),
        "given back on a miss": auto_growth(history, idle=IdleChunks.BEFORE_GROWTH),
        "4 MiB, given back": auto_growth(history, 4 * MIB, idle=IdleChunks.AFTER_FREE),
        "large and small pool": caching(history, expandable=False),
        "expandable": caching(history, expandable=True),
    }


def write_log(history: RequestHistory, path: Path) -> None:
    """The log of Paddle 3.3 that a run of these requests would have written."""
    got = replay(history, auto_growth(history), addresses=Addresses(Placement.SHUFFLED, 1), trace=True)
    assert got.address is not None
    assert got.changes is not None
    taken = set(got.changes.at.tolist())
    address, size = got.address.tolist(), history.size.tolist()
    with path.open("w") as out:
        for at, of in enumerate(history.of.tolist()):
            stamp = f"I1120 {at // 360_000_000 % 24:02d}:{at // 6_000_000 % 60:02d}:{at // 100_000 % 60:02d}.{at % 100_000:06d}"
            start = f"{stamp} 22168 auto_growth_best_fit_allocator.cc:"
            if of >= 0:
                out.write(f"{start}290] Free {size[of]} bytes, ptr = {address[of]:#x}\n")
                continue
            out.write(f"{start}191] Allocate {size[at]} bytes, aligned to {size[at]}, extra size 0\n")
            if at in taken:
                out.write(f"{start}260] Not found and reallocate {size[at]}({address[at]:#x}), and remaining 0\n")
            out.write(f"{start}270] Alloc {size[at]} bytes, ptr = {address[at]:#x}\n")


def memory() -> int:
    """Bytes of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def one_thread(operations: int) -> None:
    """Operations a second of one replay, and what it has of memory."""
    print("| one thread | live blocks | time | operations a second |\n|---|---|---|---|")
    many = np.random.default_rng(2).integers(1, 40_000, 1000) * 512
    for sizes, name in ((SIZES, "12 sizes"), (many.tolist(), "1,000 sizes")):
        for live in (300, 10_000):
            history = history_of(operations, live, sizes)
            best = {"auto-growth": auto_growth(history), "caching": caching(history, expandable=False)}
            for label, rules in best.items():
                took = min(timed(history, rules) for _ in range(5))
                print(f"| {label}, {name} | {live:,} | {took:.2f} s | {operations / took / 1e6:.1f} M |")


def timed(history: RequestHistory, rules: AllocatorRules, limit: int | None = None) -> float:
    """Seconds of a processor that a replay takes."""
    begin = time.thread_time()
    replay(history, rules, addresses=Addresses(Placement.ASCENDING), limit=limit)
    return time.thread_time() - begin


def ten_settings(operations: int) -> None:
    """Ten settings on two threads."""
    history = history_of(operations, 10_000, SIZES)
    settings = settings_of(history)
    with ThreadPoolExecutor(2) as workers:
        begin = time.perf_counter()
        found = list(
            workers.map(
                lambda rules: replay(history, rules, addresses=Addresses(Placement.ASCENDING)), settings.values()
            )
        )
        took = time.perf_counter() - begin
    print(f"\nTen settings on two threads, {operations:,} operations: {took:.2f} s")
    for name, each in zip(settings, found, strict=True):
        print(f"  {name:22} {each.reserved_peak / MIB:10,.0f} MiB reserved, {each.taken:9,} times taken")


def long(operations: int) -> None:
    """The memory of a replay of very many operations."""
    history = history_of(operations, 10_000, SIZES)
    rules = auto_growth(history)
    before, peak = memory(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    took = timed(history, rules)
    more = max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - max(before, peak), 0)
    columns = sum(column.nbytes for column in (history.operation, history.of, rules.block, rules.group, rules.growth))
    print(
        f"\n{operations:,} operations: {took:.2f} s; columns that it reads {columns / 1e6:.0f} MB, above what was used before {more / 1e6:.0f} MB"
    )


def whole_process(operations: int) -> None:
    """``memlens whatif`` of a log, from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.log"
        write_log(history_of(operations, 3_000, SIZES), log)
        megabytes = log.stat().st_size / 1e6
        print(f"\n| {operations:,} events, {megabytes:.0f} MB | wall | processors | peak memory |\n|---|---|---|---|")
        for verb in ("analyze", "whatif"):
            begin = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-m", "memlens", verb, str(log)], stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            first = process.stdout.read().split("\n", maxsplit=1)[0]
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            wall = time.perf_counter() - begin
            print(
                f"| `memlens {verb}` | {wall:.1f} s | {usage.ru_utime + usage.ru_stime:.1f} s | {usage.ru_maxrss / 1e3:.0f} MB |"
            )
            print(f"{first}\n" if process.returncode else "", end="", file=sys.stderr)


def main() -> int:
    """Measure as asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000, help="operations of a history (%(default)s)")
    parser.add_argument(
        "--long", type=int, default=10_000_000, help="those of the longest one, 0 for none (%(default)s)"
    )
    given = parser.parse_args()
    one_thread(given.events)
    ten_settings(given.events)
    whole_process(given.events)
    if given.long:
        long(given.long)
    return 0


if __name__ == "__main__":
    sys.exit(main())
