"""What a snapshot does not say, found by replaying it: which of free blocks of one size serves, and the order in which the opening segments were taken.

PyTorch up to 2.11 takes the block at the lowest address, from 2.13 on that of the oldest segment, and a snapshot has neither a version nor the age of segments.  So
both are tried.  Where the second one gives another block than the recorded one, and both are in segments from before the trace, the recorded one's is the older one:
it is put in front of the other, and the replay begins anew, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens import native
from memlens.allocators.engine import replay
from memlens.allocators.history import ChunkChange, OpeningChunks, Operation, RequestHistory
from memlens.allocators.placing import Addresses, Placement
from memlens.allocators.torch.settings import recorded_values

if TYPE_CHECKING:
    from memlens.allocators.models import Values
    from memlens.allocators.rules import AllocatorRules

__all__ = ["settled"]

#: So many replays at most, and so many operations in all of them, but one replay of any history.
_MOST_REPLAYS, _MOST_OPERATIONS = 200, 20_000_000 if native.load("memlens._replay") else 1_000_000
_SHARES = {"garbage_collection_threshold", "per_process_memory_fraction"}
_OLDEST = {"oldest_segment_first": "True"}


def settled(
    histories: Sequence[RequestHistory], rules: Callable[[RequestHistory, Values], AllocatorRules]
) -> RequestHistory:
    """That one of some histories that is explained farthest, with what was found."""
    if _SHARES & recorded_values(histories[0].settings).keys():
        return histories[0]  # nothing can be replayed before it is known of what they are shares
    best, reached = histories[0], -2
    for history in histories:
        for tried, at in _tries(history, rules):
            if at < 0:
                return tried
            if at > reached:
                best, reached = tried, at
    return best


def _tries(
    history: RequestHistory, rules: Callable[[RequestHistory, Values], AllocatorRules]
) -> Iterator[tuple[RequestHistory, int]]:
    """A history under each assumption, and the first operation that is not explained, -1 where all are."""
    other = _first_other(history, rules)
    yield history, other.at if other is not None else -1
    tried = replace(history, settings={**history.settings, **_OLDEST})
    for _ in range(min(_MOST_REPLAYS, max(_MOST_OPERATIONS // len(history), 1))):
        other = _first_other(tried, rules)
        yield tried, other.at if other is not None else -1
        if other is None:
            return
        chunks = tried.opening_chunks
        newer, older = (_chunk_of(chunks, addr) for addr in (other.got, other.recorded))
        if newer < 0 or older < 0 or older <= newer:
            return
        order = np.arange(len(chunks.addr))
        order[newer : older + 1] = np.append(order[older], order[newer:older])
        tried = replace(tried, opening_chunks=chunks.at(order))


class _Other(NamedTuple):
    """The first thing that came out otherwise: during which operation, and where it was recorded and came out; 0 where it does not tell."""

    at: int
    recorded: int
    got: int


def _first_other(history: RequestHistory, rules: Callable[[RequestHistory, Values], AllocatorRules]) -> _Other | None:
    """The first block that does not lie where it was recorded, or segment that is given back instead of another; ``None`` where there is none."""
    own = rules(history, recorded_values(history.settings))
    got = replay(history, own, addresses=Addresses(Placement.RECORDED), limit=history.limit_bytes, trace=True)
    assert got.address is not None
    assert got.changes is not None
    other = np.flatnonzero(
        (history.operation == Operation.REQUEST) & (history.address != 0) & (got.address != history.address)
    )
    found = [_Other(int(at), int(history.address[at]), int(got.address[at])) for at in other[:1]]
    both = min(len(history.changes.at), len(got.changes.at))
    here, there = history.changes, got.changes
    pairs = ((getattr(changes, name)[:both] for changes in (here, there)) for name in ("at", "addr", "size"))
    differ = np.flatnonzero(np.logical_or.reduce([one != other for one, other in pairs]))
    for row in differ[:1].tolist():
        same = here.at[row] == there.at[row] and here.kind[row] == there.kind[row] == ChunkChange.GIVEN_BACK
        at = min(int(here.at[row]), int(there.at[row]))
        found.append(_Other(at, int(here.addr[row]), int(there.addr[row])) if same else _Other(at, 0, 0))
    return min(found, default=None)


def _chunk_of(chunks: OpeningChunks, addr: int) -> int:
    """Which chunk an address lies in, -1 for none."""
    found = np.flatnonzero(
        (chunks.addr <= np.uint64(addr)) & (chunks.addr + chunks.size.astype(np.uint64) > np.uint64(addr))
    )
    return int(found[0]) if len(found) else -1
