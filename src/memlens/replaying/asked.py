"""What a replay under another setting is given to serve: the requests of a run, with those that failed as if they had got a block.

What a program would have asked for, had a request not failed, is not in its log.  Where the run ended in a failure, the history ends with that
request: the question is whether the run would have got past it.  Where it caught a failure and went on, the block is given back at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.allocators.history import ChunkChanges, Operation
from memlens.analyzers.failures.failures import STILL_GOING

if TYPE_CHECKING:
    from memlens.allocators.history import RequestHistory

__all__ = ["as_asked", "ending_failure"]


def ending_failure(history: RequestHistory) -> int | None:
    """The request on whose failure the run ended, by what counts as that in the report on failures; the first one of several tries, ``None`` where there is none."""
    requests = np.flatnonzero(history.operation == Operation.REQUEST)
    answered = requests[~np.isin(requests, history.failed)]
    for failed in history.failed.tolist():
        after = len(answered) - int(np.searchsorted(answered, failed))
        if after * STILL_GOING <= len(requests):
            return int(failed)
    return None


def as_asked(history: RequestHistory) -> RequestHistory:
    """The history to replay under other settings: no request in it has failed."""
    if not len(history.failed):
        return history
    last = ending_failure(history)
    stop = len(history) if last is None else last + 1
    caught = history.failed[history.failed < stop - (last is not None)]
    # Behind each failure that was caught stands a FREE.
    at = np.arange(stop) + np.searchsorted(caught, np.arange(stop))
    count = stop + len(caught)
    freed = at[caught] + 1
    operation = np.full(count, Operation.FREE, np.int8)
    of = np.full(count, -1, np.int64)
    operation[at] = history.operation[:stop]
    earlier = history.of[:stop]
    of[at] = np.where(earlier >= 0, at[np.maximum(earlier, 0)], -1)
    of[freed] = at[caught]

    def spread(name: str, fill: int) -> Any:
        column = getattr(history, name)
        wide = np.full(count, fill, column.dtype)
        wide[at] = column[:stop]
        return wide

    changes = history.changes
    kept = changes.at < stop
    moved = np.where(changes.at >= 0, at[np.clip(changes.at, 0, stop - 1)], -1)[kept]
    size, stream, pool = spread("size", 0), spread("stream", 0), spread("pool", 0)
    stream[freed], pool[freed] = history.stream[caught], history.pool[caught]
    return replace(
        history,
        operation=operation,
        of=of,
        size=size,
        stream=stream,
        pool=pool,
        event=spread("event", -1),
        line=spread("line", -1),
        address=spread("address", 0),
        occupied=spread("occupied", -1),
        failed=np.zeros(0, np.int64),
        changes=ChunkChanges(moved, changes.kind[kept], changes.addr[kept], changes.size[kept]),
    )
