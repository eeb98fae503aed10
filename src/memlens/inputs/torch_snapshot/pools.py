"""Which memory pool each event of a snapshot is of: the default one, or a private one (CUDA graphs, ``torch.cuda.MemPool``).

Memory that is free in one pool serves no other.  The newest torch names the pool with each entry.  Before that only the segments that are
there at the end name theirs: an event that lies in one of them is of its pool, unless it comes before the entry that allocated this very segment.
Of what lay in a segment that is gone at the end the pool is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import DEFAULT_POOL
from memlens.inputs.torch_snapshot.entries import Action, Entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.inputs.torch_snapshot.replay import DeviceEvents
    from memlens.inputs.torch_snapshot.segments import Final

__all__ = ["pools_of"]


def pools_of(
    events: DeviceEvents, entries: Entries, final: Final, pools: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.int32] | None, tuple[str, ...]]:
    """The pool of each event as a number of the names, int32, -1 where unknown; ``None`` where there is no private pool.

    Args:
        events: The events of a device.
        entries: Its trace.
        final: Its state at the end.
        pools: The pools that entries and segments have numbers of, as torch names them.
    """
    private = [number for number, pool in enumerate(pools) if pool != (0, 0)]
    if not private or not (np.isin(entries.pool, private).any() or np.isin(final.segment_pool, private).any()):
        return None, ()
    number = np.where(events.pool >= 0, events.pool, _by_segment(events, entries, final))
    used = np.unique(number[number >= 0])
    own = np.full(len(pools) + 1, -1, np.int32)  # the last one, too, is asked for: by -1
    own[used] = np.arange(len(used))
    return own[number], tuple(_name(pools[pool]) for pool in used.tolist())


def _name(pool: tuple[int, int]) -> str:
    return DEFAULT_POOL if pool == (0, 0) else f"private pool ({pool[0]}, {pool[1]})"


def _by_segment(events: DeviceEvents, entries: Entries, final: Final) -> NDArray[np.int32]:
    """The pools of the segments, at the end, that the events lie in, int32, -1 where that is not known."""
    order = np.argsort(final.segment_addr, kind="stable")
    begin, size, pool = (
        final.segment_addr[order],
        final.segment_size[order].astype(np.uint64),
        final.segment_pool[order],
    )
    if not len(begin):
        return np.full(len(events.addr), -1, np.int32)
    # The last entry that allocated each segment, -1 where it was there before the trace.
    since = np.full(len(begin), -1, np.int64)
    allocs = np.flatnonzero(entries.action == Action.SEGMENT_ALLOC)
    at = np.minimum(begin.searchsorted(entries.addr[allocs]), len(begin) - 1)
    same = begin[at] == entries.addr[allocs]
    np.maximum.at(since, at[same], allocs[same])
    place = begin.searchsorted(events.addr, "right").astype(np.int64) - 1
    segment = np.maximum(place, 0)
    within = (place >= 0) & (events.addr - begin[segment] < size[segment]) & (events.entry >= since[segment])
    return np.where(within, pool[segment], -1).astype(np.int32)
