"""Runs that free some blocks late, on purpose: in windows of real logs, in programs of threads, in steps that leak until the exit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from memlens.diffing.result import WindowDiff
from memlens.diffing.run import diff_windows
from memlens.events import EventLog, Kind
from memlens.windows.windows import Window

__all__ = ["Late", "Rates", "interleaved", "jittered", "leaking", "named", "rates", "with_late_frees"]

_COLUMNS = ("kind", "size", "addr", "thread", "requested", "owner")
#: What the docs call much later: so many common allocations, this part of the window's, …
_LEAST, _SHARE = 8, 100
#: … and twice the life, or this part of the window's.
_LONG_SHARE = 10


@dataclass(frozen=True, eq=False)
class Late:
    """A head whose blocks are freed late.

    Attributes:
        base: What it is compared with.
        head: The window with late frees.
        truth: The ALLOCs in head of the blocks that are freed much later, and by how many ALLOCs.
    """

    base: Window
    head: Window
    truth: dict[int, int]


def with_late_frees(base: Window, chance: Random, most: int) -> Late | None:
    """A copy of a window, at other addresses, in which up to so many temporaries are freed much later; ``None`` where none can be."""
    log, partner = base.log, base.log.lifetimes.partner
    events = list(range(base.lo, base.hi))
    allocs = [e for e in events if log.kind[e] == Kind.ALLOC]
    born = {e: number for number, e in enumerate(allocs)}
    # How many ALLOCs stand before each place.
    before = np.cumsum(log.kind[base.lo : base.hi] == Kind.ALLOC)
    moves: dict[int, int] = {}
    temporaries = [e for e in allocs if 0 <= partner[e] < base.hi]
    for alloc in chance.sample(temporaries, len(temporaries)):
        free = int(partner[alloc])
        life = int(before[free - base.lo]) - born[alloc] - 1
        least = max(_LEAST, len(allocs) // _SHARE, min(life, len(allocs) // _LONG_SHARE))
        left = len(allocs) - int(before[free - base.lo])
        if least <= left and len(moves) < most:
            moves[alloc] = chance.randint(least, left)
    if not moves:
        return None
    at = {int(partner[alloc]): int(before[int(partner[alloc]) - base.lo]) + later for alloc, later in moves.items()}
    rows, waiting, count = [], sorted(at, key=lambda free: at[free]), 0
    for event in events:
        if event in at:
            continue
        rows.append(event)
        count += log.kind[event] == Kind.ALLOC
        while waiting and log.kind[event] == Kind.ALLOC and at[waiting[0]] <= count:
            rows.append(waiting.pop(0))
    moved = {event: number for number, alloc in enumerate(moves) for event in (alloc, int(partner[alloc]))}
    head = _window(base, rows, moved)
    place = {event: base.lo + number for number, event in enumerate(rows)}
    return Late(base, head, {place[alloc]: later for alloc, later in moves.items()})


def jittered(window: Window, chance: Random, share: float) -> Window:
    """A copy in which so many neighbours of different addresses change places."""
    rows = list(range(window.lo, window.hi))
    addr = window.log.addr
    for i in range(len(rows) - 1):
        if chance.random() < share and addr[rows[i]] != addr[rows[i + 1]]:
            rows[i], rows[i + 1] = rows[i + 1], rows[i]
    return _window(window, rows, {})


def _window(window: Window, rows: list[int], moved: dict[int, int]) -> Window:
    """The window's events in this order; those of ``moved`` blocks get addresses of their own."""
    log = window.log
    order = np.concatenate((np.arange(window.lo), np.array(rows, np.int64), np.arange(window.hi, len(log))))
    columns: dict[str, Any] = {name: getattr(log, name)[order] for name in _COLUMNS if getattr(log, name) is not None}
    fresh = int(log.addr.max()) + (1 << 20)
    for place in range(window.lo, window.lo + len(rows)):
        if int(order[place]) in moved:
            columns["addr"][place] = fresh + 512 * moved[int(order[place])]
    columns["addr"] = columns["addr"] ^ np.uint64(1 << 62)
    places = np.arange(len(order), dtype=np.int64)
    copy = EventLog(**columns, offset=places, line=places + 1, owner_names=log.owner_names)
    hi = window.lo + len(rows)
    return Window(copy, window.name, window.lo, hi, window.lo, hi, window.lo + 1, hi)


Row = tuple[Kind, int, int]


def whole(rows: list[Row], threads: list[int] | None = None) -> Window:
    """A window that is all of a log."""
    columns = {} if threads is None else {"thread": np.array(threads, np.int64)}
    log = EventLog.from_rows(rows, line=np.arange(1, len(rows) + 1), **columns)
    return Window(log, "all", 0, len(rows), 0, len(rows), 1, len(rows))


def interleaved(chance: Random, threads: int, blocks: int) -> tuple[Window, Window]:
    """Two runs of threads that each run the same program in both; only how they interleave is chance."""
    programs = []
    for thread in range(threads):
        rows: list[Row] = []
        live: list[tuple[int, int]] = []
        for number in range(blocks):
            block = (256 * chance.randint(1, 6), (thread + 1) * 1_000_000 + number)
            rows.append((Kind.ALLOC, *block))
            live.append(block)
            while live and chance.random() < 0.5:
                rows.append((Kind.FREE, *live.pop(chance.randrange(len(live)))))
        programs.append(rows)

    def merged() -> Window:
        left = [thread for thread, rows in enumerate(programs) for _ in rows]
        chance.shuffle(left)
        sources = [iter(rows) for rows in programs]
        return whole([next(sources[thread]) for thread in left], left)

    return merged(), merged()


def leaking(chance: Random, steps: int, *, at_exit: bool = True) -> tuple[Window, Window, dict[int, int]]:
    """A program of steps, and one that keeps some of each step's blocks until the exit: both, and how many it keeps, by size."""
    shapes = [256 * chance.randint(1, 40) for _ in range(chance.randint(8, 20))]
    kept = chance.sample(range(len(shapes)), chance.randint(1, 3))
    extra = [256 * chance.randint(1, 40) for _ in range(chance.randint(0, 3))]
    weights = [256 * chance.randint(40, 90) for _ in range(6)]
    runs = []
    for leaks in (False, True):
        rows: list[Row] = [(Kind.ALLOC, size, 1 + n) for n, size in enumerate(weights)]
        held = [(size, 1 + n) for n, size in enumerate(weights)]
        address = 1000
        for _ in range(steps):
            blocks = []
            for number, size in enumerate(shapes):
                address += 1
                rows.append((Kind.ALLOC, size, address))
                blocks.append((size, address, leaks and number in kept))
            for size in extra if leaks else []:
                address += 1
                rows.append((Kind.ALLOC, size, address))
                blocks.append((size, address, True))
            for size, block, keeps in reversed(blocks):
                if keeps:
                    held.append((size, block))
                else:
                    rows.append((Kind.FREE, size, block))
            address += 1  # what ends a step lets the frees of the last one be no part of the exit
            rows += [(Kind.ALLOC, 256 * 100, address), (Kind.FREE, 256 * 100, address)]
        runs.append(whole([*rows, *((Kind.FREE, *block) for block in held)] if at_exit else rows))
    truth: dict[int, int] = {}
    for size in [*(shapes[number] for number in kept), *extra]:
        truth[size] = truth.get(size, 0) + steps
    return runs[0], runs[1], truth


def named(found: WindowDiff) -> Counter[int]:
    """How many blocks of each size are named as freed late by head."""
    sizes: Counter[int] = Counter()
    for finding in found.findings:
        if finding.kind == "late_free":
            sizes[finding.size_bytes] += finding.count
    return sizes


@dataclass(frozen=True)
class Rates:
    """What came of some runs: late frees that there were, that were named, and pairs that were called late and were not."""

    runs: int = 0
    late: int = 0
    found: int = 0
    false: int = 0


def rates(windows: list[Window], chance: Random, runs: int, *, most: int, swaps: float = 0.0) -> Rates:
    """Inject late frees (none where ``most`` is 0) into real windows, let neighbours change places, and compare."""
    total = Rates()
    for made in _made(windows, chance, runs, most, swaps):
        found = diff_windows([(made.base, made.head)])[0]
        # Which of several blocks alike is late no log tells where neighbours changed places: sizes and counts are compared.
        right = (named(found) & Counter(int(made.head.log.size[alloc]) for alloc in made.truth)).total()
        total = Rates(
            total.runs + 1,
            total.late + len(made.truth),
            total.found + right,
            total.false + max(found.late_frees - right, 0),
        )
    return total


def _made(windows: list[Window], chance: Random, runs: int, most: int, swaps: float) -> Iterator[Late]:
    for _ in range(runs):
        base = chance.choice(windows)
        made = with_late_frees(base, chance, chance.randint(1, most)) if most else Late(base, base, {})
        if made is None:
            continue
        # Base is the one that is jittered, so that the places in head stay.
        yield Late(jittered(made.base, chance, swaps) if swaps else made.base, made.head, made.truth)
