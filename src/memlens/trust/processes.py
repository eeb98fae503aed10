"""Did several processes write one log file?

Their running totals then add up to nothing that any device saw.  Thread ids alone do not tell: one process has many threads.
What tells is that a group of threads whose blocks no other thread ever frees has just the total that the framework printed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from memlens.facts import Kind
from memlens.spool import walk
from memlens.windows import glog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memlens.columns import Ints, Words
    from memlens.events import EventLog
    from memlens.trust.agreement import Agreement


#: Events whose lines are read again to learn their threads, where the log was read without them.
MOST_LOOKED_UP = 1 << 16
#: Figures held against the totals of each group.
MOST_FIGURES = 8

_HEADER = f"{glog.STAMP} +([0-9]{{1,15}}) ".encode()


class Writers(Struct, frozen=True):
    """Who wrote a log.

    Attributes:
        groups: Thread ids by process, each sorted; empty where one process wrote the log, as far as is known.
        certain: Enough events were looked at to tell.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    certain: bool = True


def writers(log: EventLog, agreement: Agreement) -> Writers:
    """Find the processes that wrote a log, if its figures or its pairs are not those of one process."""
    if len(log.facts.threads) < 2:
        return Writers()
    found = _by_figures(log, agreement.levels) if agreement.levels else Writers()
    if found.groups:
        return found
    if not found.certain and agreement.falling:
        # The lines cannot be looked at again; but a peak of one process never falls.
        return Writers(tuple((thread,) for thread in log.facts.threads), certain=False)
    by_addresses = _by_addresses(log) if len(log.lifetimes.double_allocs) else Writers()
    return by_addresses if by_addresses.groups else found


def _by_figures(log: EventLog, levels: Sequence[tuple[int, int]]) -> Writers:
    """Groups of threads of which one holds just what each figure says."""
    if log.thread is None:
        levels = [(before, level) for before, level in levels if before <= MOST_LOOKED_UP]
    levels = levels[:MOST_FIGURES]
    count = max((before for before, _ in levels), default=0)
    thread = _threads(log, np.arange(count))
    if not levels or thread is None:
        return Writers(certain=False)
    groups = _groups(log, np.arange(count), thread)
    if len(groups) < 2:
        return Writers()
    kind, size = log.kind[:count], log.size[:count]
    change = np.where(kind == Kind.ALLOC, size, np.where(kind == Kind.FREE, -size, 0))
    sums = [np.concatenate(([0], np.cumsum(np.where(np.isin(thread, group), change, 0)))) for group in groups]
    explained = all(any(int(total[before]) == level for total in sums) for before, level in levels)
    return Writers(groups) if explained else Writers()


def _by_addresses(log: EventLog) -> Writers:
    """Groups of threads that hold the same address at the same time, each with a Free of its own."""
    doubles = log.lifetimes.double_allocs[:MOST_FIGURES]
    addr, clashing = log.addr[doubles], np.zeros(0, np.int64)
    for lo, hi in walk(0, len(log)):
        if len(clashing) >= MOST_LOOKED_UP // 2:
            break
        events = np.flatnonzero(np.isin(log.addr[lo:hi], addr) & (log.kind[lo:hi] <= Kind.FREE)) + lo
        clashing = np.append(clashing, events)[: MOST_LOOKED_UP // 2]
    partner = log.lifetimes.partner
    if not ((log.kind[clashing] == Kind.FREE) & (partner[clashing] < 0)).any():
        return Writers()  # a lost Free line leaves no second Free of the address
    # A sample of pairs, both ends, to learn which threads belong together: evenly spread over the log.
    step = max(1, sum(map(len, _frees_elsewhere(log, addr))) * 4 // MOST_LOOKED_UP)
    parts, seen = [clashing[:0]], 0
    for some in _frees_elsewhere(log, addr):
        parts.append(some[-seen % step :: step])
        seen += len(some)
    frees = np.concatenate(parts)
    events = np.unique(np.concatenate((frees, partner[frees].astype(np.int64), clashing)))
    thread = _threads(log, events)
    if thread is None:
        return Writers()
    groups = _groups(log, events, thread, without=addr)
    number = {one: index for index, group in enumerate(groups) for one in group}
    allocs = clashing[log.kind[clashing] == Kind.ALLOC]
    mine = {int(event): int(one) for event, one in zip(events, thread, strict=True)}
    for double in doubles.tolist():
        older = allocs[(allocs < double) & (log.addr[allocs] == log.addr[double])]
        if len(older) and number.get(mine[double]) != number.get(mine[int(older[-1])]):
            return Writers(groups)
    return Writers()


def _frees_elsewhere(log: EventLog, addr: Words) -> Iterator[Ints]:
    """The FREEs of other addresses that end an ALLOC, part by part."""
    for lo, hi in walk(0, len(log)):
        frees = np.flatnonzero((log.kind[lo:hi] == Kind.FREE) & (log.lifetimes.partner[lo:hi] >= 0)) + lo
        yield frees[~np.isin(log.addr[frees], addr)]


def _threads(log: EventLog, events: Ints) -> Ints | None:
    """The thread of each of some events (rising), int64, -1 where unknown; ``None`` where no line can be looked up."""
    if log.thread is not None:
        return log.thread[events]
    offsets, first, counts = np.unique(log.offset[events], return_index=True, return_counts=True)
    if not log.source.rereadable:
        return None
    thread = np.full(len(events), -1, np.int64)
    for line, begin, count in zip(log.source.lines(offsets.tolist()), first.tolist(), counts.tolist(), strict=True):
        ids = re.findall(_HEADER, line or b"")
        if len(ids) == count:  # one header an event, else there is no telling which is whose
            thread[begin : begin + count] = [int(text) for text in ids]
    return thread


def _groups(log: EventLog, events: Ints, thread: Ints, without: Words | None = None) -> tuple[tuple[int, ...], ...]:
    """Threads that belong together: one frees what another one has allocated."""
    partner = log.lifetimes.partner[events].astype(np.int64)
    at = np.minimum(np.searchsorted(events, partner), max(len(events) - 1, 0))
    paired = (log.kind[events] == Kind.FREE) & (partner >= 0) & (events[at] == partner)
    if without is not None:
        paired &= ~np.isin(log.addr[events], without)
    pairs = np.unique(np.stack((thread[paired], thread[at[paired]])), axis=1).T
    group = {int(one): {int(one)} for one in np.unique(thread[thread >= 0])}
    for one, other in pairs.tolist():
        if one >= 0 and other >= 0 and group[one] is not group[other]:
            group[one] |= group[other]
            for member in group[one]:
                group[member] = group[one]
    return tuple(sorted({tuple(sorted(members)) for members in group.values()}))
