"""Small made logs with everything that goes wrong in logs, and a plain account of what is live after each of their events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from logs import window_of

from memlens import folding, spool
from memlens.events import EventLog
from memlens.facts import Facts, Kind
from memlens.log import Log
from memlens.windows.windows import Window


@dataclass(frozen=True)
class PlainBlock:
    """A block: its ALLOC, its size and its FREE, if there is one."""

    alloc: int
    size: int
    free: int | None


def plain_pairs(rows: Iterable[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    """By a dictionary of live addresses: the other event of each pair, -1 for none, and the ALLOCs of addresses that are still live."""
    partner: list[int] = []
    doubles: list[int] = []
    live: dict[int, int] = {}
    for event, (kind, _, addr) in enumerate(rows):
        partner.append(-1)
        if kind == Kind.ALLOC:
            if addr in live:
                doubles.append(event)
            live[addr] = event
        elif kind == Kind.FREE and addr in live:
            partner[event] = live.pop(addr)
            partner[partner[event]] = event
    return partner, doubles


def rows_of(log: EventLog) -> list[tuple[int, int, int]]:
    """The kind, the size and the address of each event."""
    return list(zip(log.kind.tolist(), log.size.tolist(), log.addr.tolist(), strict=True))


def plain_blocks(log: EventLog) -> list[PlainBlock]:
    """The blocks of a log, one event after the other: a FREE ends the newest block of its address."""
    rows = rows_of(log)
    partner, _ = plain_pairs(rows)
    return [
        PlainBlock(event, size, None if partner[event] < 0 else partner[event])
        for event, (kind, size, _) in enumerate(rows)
        if kind == Kind.ALLOC
    ]


def random_rows(chance: Random, events: int) -> list[tuple[Kind, int, int]]:
    """ALLOCs and FREEs by chance, a chunk now and then, and a FREE of nothing."""
    rows: list[tuple[Kind, int, int]] = []
    live: dict[int, int] = {}
    for address in range(1, events + 1):
        what = chance.random()
        if live and what < 0.45:
            freed = chance.choice(list(live))
            rows.append((Kind.FREE, live.pop(freed), freed))
        elif what > 0.97:
            rows.append((chance.choice([Kind.RESERVE, Kind.FREE]), 256, 10_000 + address))
        else:
            live[address] = 256 * chance.randint(1, 9)
            rows.append((Kind.ALLOC, live[address], address))
    return rows


@contextmanager
def batches_of(size: int) -> Iterator[None]:
    """Few events in a batch, so that small logs have many, and two batches in a stretch of a column, as in large logs."""
    defaults = EventLog.batches.__kwdefaults__
    assert defaults is not None
    with (
        mock.patch.dict(defaults, size=size),
        mock.patch.object(folding, "BATCH", size),
        mock.patch.object(spool, "_AT_ONCE", 2 * size),
    ):
        yield


#: Events of any kind, of few sizes and addresses.
any_events = st.lists(
    st.tuples(st.sampled_from(list(Kind)), st.sampled_from([0, 1, 256, 3538944, 2**40]), st.integers(1, 5)), max_size=40
)


def plain_levels(events: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Allocated and reserved bytes before the first event and after each."""
    found, allocated, reserved = [(0, 0)], 0, 0
    for kind, size, _ in events:
        allocated += {Kind.ALLOC: size, Kind.FREE: -size}.get(Kind(kind), 0)
        reserved += {Kind.RESERVE: size, Kind.RELEASE: -size}.get(Kind(kind), 0)
        found.append((allocated, reserved))
    return found


def plain_level(log: EventLog, event: int) -> int:
    """The allocated level right after an event."""
    return plain_levels(rows_of(log)[: event + 1])[-1][0]


@st.composite
def windows_of_made_logs(draw: st.DrawFn) -> Window:
    """A window of a log with frees of nothing, addresses allocated twice, sizes that differ, chunks and opening blocks."""
    rows = st.tuples(st.sampled_from(Kind), st.integers(0, 5), st.integers(1, 6))
    events = draw(st.lists(rows, max_size=60))
    opening = draw(st.integers(0, min(3, len(events))))
    events[:opening] = [(Kind.ALLOC, size, 100 + k) for k, (_, size, _) in enumerate(events[:opening])]
    owner = np.array([draw(st.integers(-1, 1)) for _ in events], np.int32)
    facts = Facts(opening=opening, addresses=draw(st.sampled_from([True, True, True, False])))
    log = Log.from_rows(events, owner=owner, owner_names=("relu", "matmul"), facts=facts)
    lo = draw(st.integers(opening, len(log)))
    return window_of(log, lo, draw(st.integers(lo, len(log))))
