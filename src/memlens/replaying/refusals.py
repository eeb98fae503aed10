"""Requests that the device refused: a history in which they are served, for replays under other settings, and what the device had then.

What a program would have asked for, had a request not failed, is not in its log.  Where the run ended in a failure, the history ends with that
request: the question is whether the run would have got past it.  Where it caught a failure and went on, the block is given back at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from memlens.allocators.history import ChunkChange, Operation
from memlens.analyzers.failures.failures import STILL_GOING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.history import RequestHistory
    from memlens.allocators.rules import AllocatorRules


def ending_failure(history: RequestHistory) -> int | None:
    """The request on whose failure the run ended, by what counts as that in the report on failures; the first one of several tries, ``None`` where there is none."""
    requests = np.flatnonzero(history.operation == Operation.REQUEST)
    answered = requests[~np.isin(requests, history.failed)]
    for failed in history.failed.tolist():
        after = len(answered) - int(np.searchsorted(answered, failed))
        if after * STILL_GOING <= len(requests):
            return int(failed)
    return None


def with_refused_served(history: RequestHistory) -> RequestHistory:
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
    fills = {"size": 0, "stream": 0, "pool": 0, "event": -1, "line": -1, "address": 0, "block_bytes": -1}
    columns = {name: spread(name, fill) for name, fill in fills.items()}
    columns["stream"][freed], columns["pool"][freed] = history.stream[caught], history.pool[caught]
    columns["changes"] = changes.take(kept)._replace(at=moved)
    return replace(history, operation=operation, of=of, failed=np.zeros(0, np.int64), **columns)


def limit_of(history: RequestHistory, failed: int) -> int:
    """Bytes that the device surely had when it refused a request: what it is known to have, or else the most that was reserved until then."""
    return int(_levels(history, failed).max()) if history.limit_bytes is None else history.limit_bytes


def most_of(history: RequestHistory, rules: AllocatorRules, failed: int) -> int:
    """The most that the device may have had when it refused a request: what it is known to have, or else less than the refused chunk would have made it."""
    levels, least = _levels(history, failed), limit_of(history, failed)
    if least > levels.max():
        return least  # it said what it had left
    page = int(rules.groups.page[rules.group[failed]])
    growth = -(-int(rules.block[failed]) // page) * page if page else int(rules.growth[failed])
    return max(int(levels[-1]) + growth - 1, least)


def _levels(history: RequestHistory, operation: int) -> NDArray[np.int64]:
    """Bytes reserved at the beginning, and after each change of chunks until an operation, int64."""
    changes, opening = history.changes, int(history.opening_chunks.size.sum())
    sign = np.where((changes.kind == ChunkChange.TAKEN) | (changes.kind == ChunkChange.MAPPED), 1, -1)
    return np.append(0, np.cumsum((sign * changes.size)[changes.at <= operation])) + opening
