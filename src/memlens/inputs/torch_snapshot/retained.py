"""Bytes that blocks occupy of their segments beyond what was asked for, and longer than they are allocated.

A block occupies a multiple of 512 bytes.  torch splits off what lies behind a block of more than 1 MiB only where that is more than 1 MiB (but in
expandable segments): the rest stays with the block until it can be used again.  And a block that was given back may wait for a stream before it can.
Segments say what the blocks occupy that are there at the end; of the others it follows from what lay behind them when they were allocated.
In the history of Paddle sizes are what blocks occupy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Kept, Kind
from memlens.inputs.torch_snapshot.entries import Action, Entries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.columns import Ints
    from memlens.inputs.torch_snapshot.replay import Columns, Final

    Addresses = NDArray[np.uint64]


#: Bytes of which every block of torch's occupies a multiple.
BLOCK_GRANULARITY = 512
#: Larger blocks have segments of their own, in which no block lies behind which less than this is free.
_SMALL = 1 << 20


def kept_of(
    entries: Entries, final: Final, events: Columns, opening: int, *, expandable: bool, granularity: int
) -> Kept:
    """The stretches that blocks keep beyond their size, or after their FREE.

    Args:
        entries: The trace of a device.
        final: What it holds at the end.
        events: Its events, the opening ones first.
        opening: How many of them are opening events.
        expandable: Its segments are mapped in parts: blocks are always split.
        granularity: Bytes of which every block occupies a multiple.
    """

    def rounded(size: Ints) -> Ints:
        return -(-size // granularity) * granularity

    at = events.entry[opening:]
    is_event = np.zeros(len(entries), np.bool_)
    is_event[at] = True
    action, addr = entries.action, entries.addr
    waits, taken = np.array(final.waits, np.bool_), np.array(final.taken, np.int64)
    at_end = np.flatnonzero((taken > rounded(final.blocks.size)) | waits)
    # Completions that are no FREE: the FREE stands at the request, or the request was cut off.
    later = (action == Action.FREE_COMPLETED) & ~is_event
    known = np.concatenate((addr[later], final.blocks.addr[at_end]))
    wanted = (action <= Action.FREE_COMPLETED) & ((rounded(entries.size) > _SMALL) | np.isin(addr, known))
    index = np.flatnonzero(wanted)
    first, last = _lives(addr[index], action[index] == Action.ALLOC)
    first, last = index[first], index[last]
    begin, size = addr[first], rounded(entries.size[first])
    born = np.where(action[first] == Action.ALLOC, first, -1)
    ends = (action[last] != Action.ALLOC) & ~(
        (action[last] == Action.FREE_REQUESTED) & np.isin(begin, final.blocks.addr[waits])
    )
    dead = np.where(ends, last, len(entries))
    if not expandable:
        untouched = final.blocks.at((rounded(final.blocks.size) > _SMALL) & ~np.isin(final.blocks.addr, begin))
        blocks = (
            np.append(begin, untouched.addr),
            np.append(born, untouched.entry),
            np.append(dead, np.full(len(untouched.addr), len(entries))),
        )
        large = np.flatnonzero(ends & (size > _SMALL))
        asking = begin[large] + size[large].astype(np.uint64), np.maximum(born[large], 0)
        rest = np.minimum(behind(asking, blocks), behind(asking, _segment_ends(events, len(entries))))
        size[large] += np.where(rest <= _SMALL, rest, 0)
    rows = np.flatnonzero(ends & ((size > rounded(entries.size[first])) | ~is_event[last]))
    # Those that are there at the end: the last life of their address, or from before the trace.
    of_end = final.blocks.addr[at_end]
    order = np.argsort(begin, kind="stable")
    latest = np.searchsorted(begin[order], of_end, "right") - 1
    known = (latest >= 0) & (np.append(begin[order], 0)[latest] == of_end)
    born_at_end = np.where(known, np.append(born[order], -1)[latest], -1)
    births = np.concatenate((born[rows], born_at_end))
    return Kept(
        np.concatenate((begin[rows], of_end)),
        np.concatenate((size[rows], taken[at_end])),
        np.where(births < 0, -1, opening + np.searchsorted(at, births)),
        np.append(opening + np.searchsorted(at, last[rows], "right") - 1, np.full(len(at_end), len(events.kind))),
    )


def _lives(addr: Addresses, begins: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """The first and the last row of each life: a row that begins one, and the others of its address up to the next."""
    order = np.argsort(addr, kind="stable")
    fresh = begins[order].copy()
    fresh[1:] |= np.diff(addr[order]) != 0
    fresh[:1] = True
    first = np.flatnonzero(fresh)
    return order[first], order[np.append(first[1:], len(order))[: len(first)] - 1]


def _segment_ends(events: Columns, entries: int) -> tuple[Addresses, Ints, Ints]:
    """Where each segment ends, when it is allocated, -1 for before the trace, and when given back."""
    rows = np.flatnonzero(events.kind >= Kind.RESERVE)
    is_new = events.kind[rows] == Kind.RESERVE
    first, last = _lives(events.addr[rows], is_new)
    end = (events.addr[rows] + events.size[rows].astype(np.uint64))[first]
    return end, events.entry[rows][first], np.where(is_new[last], entries, events.entry[rows][last])


def behind(asking: tuple[Addresses, Ints], there: tuple[Addresses, Ints, Ints]) -> Ints:
    """How far behind each end something begins that is there at a time, int64, one entry an end; ``_SMALL + 1`` where it is farther.

    Args:
        asking: Ends of blocks, and the entry that allocates each, 0 for one from before the trace.
        there: Where something begins that may lie behind, of one address one at a time; the entries from which, -1 for before the trace,
            and up to which it is there.
    """
    (end, when), (begin, born, dead) = asking, there
    found = np.full(len(end), _SMALL + 1, np.int64)
    order = np.lexsort((born, begin))
    places, number = np.unique(begin[order], return_inverse=True)
    times = np.int64(max(when.max(initial=0), born.max(initial=0)) + 2)
    key = number.reshape(-1) * times + born[order] + 1
    place = np.searchsorted(places, end)
    left = np.arange(len(end))
    while len(left):  # on to the next address where something begins, until it is there at the time
        left = left[place[left] < len(places)]
        left = left[places[place[left]] - end[left] <= _SMALL]
        # The last one of this address that begins before.
        row = np.searchsorted(key, place[left] * times + when[left] + 1) - 1
        is_there = (row >= 0) & (number.reshape(-1)[row] == place[left]) & (dead[order][row] >= when[left])
        at = left[is_there]
        found[at] = (places[place[at]] - end[at]).astype(np.int64)
        left = left[~is_there]
        place[left] += 1
    return found
