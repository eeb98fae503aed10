"""The processes that wrote one log, told apart by the threads of their lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from memlens import columns
from memlens.facts import Kind, RequestLine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.events import EventLog

__all__ = ["processes", "writers"]


def writers(log: EventLog) -> tuple[tuple[int, ...], ...]:
    """The threads of each process that wrote a log, rising; empty where it is one process, or they cannot be told apart.

    They are those of the trust report.  Where that has no figures to tell by: each process makes its allocator and says so, and where several
    threads do, and each frees what it allocated itself, they are processes of one thread.

    Args:
        log: A log that was read with the columns ``thread`` and ``requests``.
    """
    lines, thread = log.facts.requests, log.thread
    if lines is None or thread is None or len(log.facts.threads) < 2:
        return ()
    if log.trust.processes:
        return log.trust.processes
    makers = np.unique(lines.thread[lines.what == RequestLine.CHUNK_SIZE])
    if len(makers) < 2 or not np.isin(thread, makers).all():
        return ()
    for maker in makers.tolist():
        chosen = thread == maker
        kind = log.kind[chosen]
        partner, _ = columns.pair(kind, log.addr[chosen])
        if ((kind == Kind.FREE) & (partner < 0)).any():
            return ()
    return tuple((maker,) for maker in makers.tolist())


def processes(log: EventLog) -> tuple[EventLog, ...]:
    """The log of each process that wrote a log, as :func:`writers` tells them apart; none where it is one process."""
    return tuple(_of_threads(log, threads) for threads in writers(log))


def _of_threads(log: EventLog, threads: tuple[int, ...]) -> EventLog:
    assert log.thread is not None
    lines = log.facts.requests
    assert lines is not None
    chosen, mine = np.isin(log.thread, threads), np.isin(lines.thread, threads)
    after = np.append(0, np.cumsum(chosen))[lines.after[mine]]
    requests = replace(lines, **{name: column[mine] for name, column in vars(lines).items()})
    names = ("kind", "size", "addr", "offset", "time_us", "thread", "requested", "owner", "stream", "pool", "line")
    parts: dict[str, NDArray[np.generic]] = {
        name: column[chosen] for name in names if (column := getattr(log, name)) is not None
    }
    facts = replace(log.facts, threads=threads, requests=replace(requests, after=after))
    return log.without_cache(**parts, facts=facts)
