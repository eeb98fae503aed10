"""Damage done on purpose to the head of a real pair of windows, and how much of it a comparison finds again.

The damage is what a run differs in for real: FREEs that are missing, temporaries that only one run has, events of several
threads in another order, other addresses.  What was injected is known, so what a comparison reports can be held against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from exact_alignment import Alignment, Exact, cheapest_born, exact
from real_windows import WindowPair

from memlens.events import EventLog, Kind
from memlens.log import Log
from memlens.windows.windows import Window

#: A missing free: base's ALLOC, head's ALLOC (events of their logs) and the block's size.
Missing = tuple[int, int, int]

#: Sizes and addresses are multiples of it.
_STEP = 256


@dataclass(frozen=True)
class Mix:
    """How much damage is done.

    Attributes:
        name: What it is called in tables.
        deletions: At most so many FREEs are deleted; how many is drawn from 1 on.
        edits: At most this share of the window's events is inserted or removed as temporaries; how much is drawn from 0 on.
        swaps: This share of the neighbours of different threads changes places.
        held: At most this share of the window's events is inserted as blocks that are never freed; how much is drawn from 0 on.
            Each of them is a chance to call a missing free what is none.
    """

    name: str
    deletions: int = 200
    edits: float = 0.0
    swaps: float = 0.0
    held: float = 0.0


MIXES = (
    Mix("deleted only"),
    Mix("few deleted, edits up to 5 %", deletions=5, edits=0.05),
    Mix("few deleted, edits up to 30 %", deletions=5, edits=0.3),
    Mix("edits up to 5 %", edits=0.05),
    Mix("edits up to 30 %", edits=0.3),
    Mix("swapped", swaps=0.3),
    Mix("swapped, edits up to 30 %", edits=0.3, swaps=0.3),
    Mix("few deleted, new held, edits up to 5 %", deletions=5, edits=0.05, held=0.02),
)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two windows as they are in the logs, and what tells them apart before anything is injected.

    Attributes:
        windows: The two windows; the damage is done to head.
        exact: The exact program on the two.
        base_events: Events of base's allocations.
        head_events: Events of head's allocations.
    """

    windows: WindowPair
    exact: Exact
    base_events: list[int]
    head_events: list[int]

    @classmethod
    def of(cls, windows: WindowPair) -> Pair:
        """Solve the pair once; it is used for many injections."""
        (left, base_events), (right, head_events) = cheapest_born(windows.base, windows.head)
        return cls(windows, exact(left, right), base_events, head_events)

    def partners(self) -> dict[int, frozenset[int]]:
        """Head's temporaries that pair with a temporary of base in every cheapest alignment: which ones these can be.

        A FREE deleted from any of them is a missing free by definition.  A temporary that is head's alone, or that is head's
        alone in one of several equally cheap alignments, has no FREE in base that could be named, and is not in here.
        """
        found = {}
        some, alone = self.exact.some, self.exact.head_alone
        for j, born in enumerate(self.exact.head):
            rows = np.flatnonzero(some[:, j]).tolist()
            if born.held or not born.size or alone[j] or any(self.exact.base[i].held for i in rows):
                continue
            found[self.head_events[j]] = frozenset(self.base_events[i] for i in rows)
        return found

    def background(self) -> list[Missing]:
        """The missing frees that there are before anything is injected, by one of the cheapest alignments."""
        return missing_of(self.exact, self.exact.cheapest(), self.base_events, self.head_events)


@dataclass(frozen=True, eq=False)
class Injected:
    """A pair whose head was damaged.

    Attributes:
        pair: What it was made from.
        head: The damaged window, in a log of its own.
        truth: The ALLOCs in the damaged head whose FREE was deleted: the ALLOCs in base that each may be paired with.
        sizes: The sizes of these blocks, by their ALLOC.
        background: Missing frees that were there before, in the events of the damaged log.
        inserted: ALLOCs in the damaged head that were inserted.
        origin: For each ALLOC of the damaged window the ALLOC of the undamaged log that it was, where it was one.
    """

    pair: Pair
    head: Window
    truth: dict[int, frozenset[int]]
    sizes: dict[int, int]
    background: list[Missing]
    inserted: frozenset[int]
    origin: dict[int, int]


def missing_of(table: Exact, pairs: Alignment, base_events: list[int], head_events: list[int]) -> list[Missing]:
    """The missing frees of an alignment."""
    return [
        (base_events[i], head_events[j], table.head[j].size)
        for i, j in pairs
        if not table.base[i].held and table.head[j].held
    ]


def inject(pair: Pair, mix: Mix, chance: Random) -> Injected | None:
    """Damage a pair's head; ``None`` where it has no FREE whose loss could be told."""
    head = pair.windows.head
    log = head.log
    partners = pair.partners()
    if not partners:
        return None
    partner = log.lifetimes.partner
    events = range(head.lo, head.hi)
    temporaries = [e for e in events if log.kind[e] == Kind.ALLOC and head.lo <= partner[e] < head.hi]
    edits = int(chance.uniform(0, mix.edits) * len(events)) // 2  # a temporary is two events
    removals = chance.randint(0, edits)
    removed = set(chance.sample(temporaries, min(removals, len(temporaries) // 2)))
    candidates = sorted(set(partners) - removed)
    if not candidates:
        return None
    deleted = set(chance.sample(candidates, min(chance.randint(1, mix.deletions), len(candidates))))
    gone = removed | {int(partner[e]) for e in removed | deleted}
    rows = [_row(log, e) for e in events if e not in gone]
    unfreed = int(chance.uniform(0, mix.held) * len(events))
    rows = _insert(rows, edits - len(removed), unfreed, log, chance)
    if mix.swaps and log.thread is not None:
        _swap(rows, mix.swaps, chance)
    return _assemble(pair, rows, deleted, partners, chance)


Row = dict[str, int]
_COLUMNS = ("kind", "size", "addr", "thread", "requested", "owner")


def _row(log: EventLog, event: int) -> Row:
    """An event as a row; ``from`` is the event that it was, -1 for one that is new."""
    row = {name: int(getattr(log, name)[event]) for name in _COLUMNS if getattr(log, name) is not None}
    return row | {"from": event}


def _insert(rows: list[Row], temporaries: int, held: int, log: EventLog, chance: Random) -> list[Row]:
    """Put blocks between the rows: half of them as large as blocks of the window, half of any size up to the largest."""
    sizes = [row for row in rows if row["kind"] == Kind.ALLOC]
    if not sizes:
        return rows
    fresh_address = int(log.addr.max()) + (1 << 20)
    most = max(row["size"] for row in sizes).bit_length()
    for number in range(temporaries + held):
        like = chance.choice(sizes)
        size, asked = like["size"], like.get("requested", -1)
        if chance.random() < 0.5:
            size = -(-int(2 ** chance.uniform(8, max(most, 9))) // _STEP) * _STEP
            asked = size - chance.randrange(_STEP)
        at = chance.randint(0, len(rows))
        until = min(at + 1 + int(chance.expovariate(1 / 10)), len(rows) + 1)
        near = rows[min(at, len(rows) - 1)]
        row = {"size": size, "addr": fresh_address + number * _STEP, "from": -1}
        row |= {name: near[name] for name in ("thread", "owner") if name in near}
        rows.insert(at, {**row, "kind": int(Kind.ALLOC), "requested": asked})
        if number < temporaries:
            rows.insert(until, {**row, "kind": int(Kind.FREE), "requested": -1})
    return rows


def _swap(rows: list[Row], share: float, chance: Random) -> None:
    """Let neighbours of different threads change places; events of one address stay in their order."""
    for i in range(len(rows) - 1):
        left, right = rows[i], rows[i + 1]
        if left["thread"] != right["thread"] and left["addr"] != right["addr"] and chance.random() < share:
            rows[i], rows[i + 1] = right, left


def _assemble(
    pair: Pair, rows: list[Row], deleted: set[int], partners: dict[int, frozenset[int]], chance: Random
) -> Injected:
    """The damaged log: what comes before the window, its rows, what comes after, all at other addresses."""
    head, log = pair.windows.head, pair.windows.head.log
    mask = np.uint64(chance.getrandbits(63) | 1)
    columns: dict[str, Any] = {}
    for name in _COLUMNS:
        old = getattr(log, name)
        if old is not None:
            edited = np.array([row[name] for row in rows], old.dtype)
            columns[name] = np.concatenate((old[: head.lo], edited, old[head.hi :]))
    columns["addr"] ^= mask
    events = len(columns["kind"])
    places = np.arange(events, dtype=np.int64)
    damaged = Log(**columns, offset=places, line=places + 1, owner_names=log.owner_names)
    hi = head.lo + len(rows)
    window = Window(damaged, head.name, head.lo, hi, head.lo, hi, head.lo + 1, hi)
    now = {row["from"]: at for at, row in enumerate(rows, head.lo) if row["from"] >= 0 and row["kind"] == Kind.ALLOC}
    new = [at for at, row in enumerate(rows, head.lo) if row["from"] < 0 and row["kind"] == Kind.ALLOC]
    return Injected(
        pair,
        window,
        truth={now[event]: partners[event] for event in deleted},
        sizes={now[event]: int(log.size[event]) for event in deleted},
        background=[(i, now[j], size) for i, j, size in pair.background() if j in now],
        inserted=frozenset(new),
        origin={at: event for event, at in now.items()},
    )
