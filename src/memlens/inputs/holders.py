"""Who holds the blocks of a log, as walks of the recorder found it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from memlens.events import pair
from memlens.facts import Kind
from memlens.inputs.joins import join_streams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.columns import Ints

#: Characters of a holder, at most.
_LONGEST = 240
#: Who holds a block that a walk found nobody to hold, though it saw all that variables lead to; and holders that are not said in each walk.
NO_VARIABLE = "no variable"
STAYING = ("parameter ", "optimizer ", "buffer ")
#: Who held a block that a walk found nobody to hold right before a backward pass, which gave it back.
GRAPH = "the backward graph"


def is_count(value: Any, below: int) -> TypeGuard[int]:
    """Whether a value is a whole number, not negative and below a bound."""
    return type(value) is int and 0 <= value < below


class Walks(NamedTuple):
    """What walks found, a row a block that is held, in order.

    Attributes:
        names: The holders.
        time_us: Microseconds since 1970 of each walk, int64, rising.
        walk: The walk of each row, int64.
        addr: Its address, uint64; 0 is that of the row after a walk that saw all.
        name: An index of the names, int64.
    """

    names: tuple[str, ...]
    time_us: Ints
    walk: Ints
    addr: NDArray[np.uint64]
    name: Ints


def read_walks(noted: Any) -> Walks | None:
    """What a program of PyTorch noted; ``None`` where that is nothing, or nothing that can be read."""
    found = noted.get("holders") if type(noted) is dict else None
    if type(found) is not dict:
        return None
    lists: list[Any] = [found.get(key) for key in ("names", "time_us", "rows", "address", "name")]
    if any(type(one) is not list for one in lists):
        return None
    names, *numbers = lists
    if any(type(text) is not str for text in names) or not all(is_count(n, 1 << 63) for some in numbers for n in some):
        return None
    time, rows, addr, name = (np.array(some, np.int64) for some in numbers)
    if (len(time), sum(numbers[1]), len(name)) != (len(rows), len(addr), len(addr)):
        return None
    if (name >= len(names)).any() or (time[1:] < time[:-1]).any():
        return None
    texts = tuple(" ".join(text[:_LONGEST].split()) for text in names)
    return Walks(texts, time, np.repeat(np.arange(len(rows)), rows), addr.view(np.uint64), name)


def held_at(
    walks: Walks | None, first: int, before: Ints, kind: NDArray[np.int8], addr: NDArray[np.uint64]
) -> dict[str, Any]:
    """The columns of who holds the blocks of a log that has times; see :func:`held`.

    Args:
        walks: What walks found; those before the first event are of memory that may have been given to others since.
        first: When that was, in microseconds.
        before: How many events stand before each walk, int64.
        kind: The kinds of the events, int8.
        addr: Their addresses, uint64.
    """
    if walks is None:
        return {}
    late = (walks.time_us >= first)[walks.walk]
    holder, names = held(before[walks.walk][late], walks.addr[late], walks.name[late], walks.names, kind, addr)
    return {"holder": holder, "holder_names": names}


def held(
    before: Ints,
    named: NDArray[np.uint64],
    name: Ints,
    names: Sequence[str],
    kind: NDArray[np.int8],
    addr: NDArray[np.uint64],
    backward: NDArray[np.bool_] | None = None,
) -> tuple[Ints, tuple[str, ...]]:
    """Who holds the block of each event, as the last walk that saw it says, an index of the names that follow, int64, -1 where unknown.

    What a walk that saw all has no row of is held by no variable.  What was so when a backward pass began, in which no code of the program runs, and was
    given back there, was saved for it.

    Args:
        before: How many events stand before each row of a walk, int64, not falling.
        named: The address of its block, uint64; 0 for the row after a walk that saw all.
        name: The number of who holds it, int64.
        names: The holders.
        kind: The kinds of the events, int8.
        addr: Their addresses, uint64.
        backward: Whether an operator of a backward pass is what each event is of, bool; ``None`` where what was saved is named.
    """
    row = join_streams(kind, addr, None, before, named, np.arange(len(named)))
    partner = pair(kind, addr).partner
    alloc = np.flatnonzero(kind == Kind.ALLOC)
    free = np.where(partner[alloc] >= 0, partner[alloc], len(kind))
    row = row[alloc]
    # The last walk that saw all while the block was live, and the end of the one before it.
    ends = np.flatnonzero(named == 0)
    began = np.concatenate(([-1], before[ends]))
    last = began[1:].searchsorted(free, "right")
    found = np.where(row >= 0, name[row], -1) if len(name) else row
    stays = np.array([*(text.startswith(STAYING) for text in names), False])
    nobody = (began[last] > alloc) & (row <= np.concatenate(([-1, -1], ends))[last]) & ~stays[found]
    found[nobody] = len(names)
    if backward is not None:
        others = np.concatenate(([0], np.cumsum(~backward)))  # before each event
        at = np.minimum(free, len(kind) - 1)
        found[nobody & (free < len(kind)) & backward[at] & (others[at] == others[began[last]])] = len(names) + 1
    holder = np.full(len(kind), -1, np.int64)
    holder[alloc] = found
    frees = np.flatnonzero((kind == Kind.FREE) & (partner >= 0))
    holder[frees] = holder[partner[frees]]
    return holder, (*names, NO_VARIABLE, GRAPH)
