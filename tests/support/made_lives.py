"""Small made logs with everything that goes wrong in logs, and a plain account of what is live after each of their events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from logs import window_of

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


def plain_blocks(log: EventLog) -> list[PlainBlock]:
    """The blocks of a log, one event after the other: a FREE ends the newest block of its address."""
    live: dict[int, int] = {}
    ends: dict[int, int] = {}
    for event, (kind, addr) in enumerate(zip(log.kind.tolist(), log.addr.tolist(), strict=True)):
        if kind == Kind.ALLOC:
            live[addr] = event
        elif kind == Kind.FREE and addr in live:
            ends[live.pop(addr)] = event
    allocs = np.flatnonzero(log.kind == Kind.ALLOC).tolist()
    return [PlainBlock(event, int(log.size[event]), ends.get(event)) for event in allocs]


#: Events of any kind, of few sizes and addresses.
any_events = st.lists(
    st.tuples(st.sampled_from(list(Kind)), st.sampled_from([0, 1, 256, 3538944, 2**40]), st.integers(1, 5)), max_size=40
)


def plain_levels(events: list[tuple[Kind, int, int]]) -> list[tuple[int, int]]:
    """Allocated and reserved bytes before the first event and after each."""
    found, allocated, reserved = [(0, 0)], 0, 0
    for kind, size, _ in events:
        allocated += {Kind.ALLOC: size, Kind.FREE: -size}.get(kind, 0)
        reserved += {Kind.RESERVE: size, Kind.RELEASE: -size}.get(kind, 0)
        found.append((allocated, reserved))
    return found


def plain_level(log: EventLog, event: int) -> int:
    """The allocated level right after an event."""
    signs = {Kind.ALLOC: 1, Kind.FREE: -1}
    return sum(signs.get(Kind(int(log.kind[k])), 0) * int(log.size[k]) for k in range(event + 1))


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
