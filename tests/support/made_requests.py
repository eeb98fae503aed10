"""Histories of requests made up of choices, and rules of every kind for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from memlens.allocators.history import ChunkChanges, Operation, RequestHistory
from memlens.allocators.models import NO_LIMIT, AllocatorRules, Groups, IdleChunks, IdleSorting, Relief
from memlens.allocators.placing import Addresses, Placement

UNIT = 512
#: What is done (a request, a free, a trim, a request that failed as recorded), which live block or size, and which group.
Choice = tuple[int, int, int]
_CHOICE = st.tuples(st.integers(0, 19), st.integers(0, 30), st.integers(0, 2))
CHOICES = st.sampled_from([0, 30, 80]).flatmap(lambda least: st.lists(_CHOICE, min_size=least, max_size=120))
#: Where chunks were recorded: close to each other, so that larger ones do not fit there; and where none can be.
PLACES = st.lists(st.sampled_from([0, *range(UNIT, 400 * UNIT, 7 * UNIT), 1 << 62, (1 << 63) + UNIT]), max_size=12)
ADDRESSES = st.tuples(st.sampled_from(Placement), st.integers(0, 3)).map(lambda of: Addresses(*of))
#: Few sizes, so that blocks of one size meet.
SIZES = (1, 1, 2, 3, 4, 4, 7, 8, 16, 40)


def history_of(choices: Sequence[Choice], places: Sequence[int] = ()) -> RequestHistory:
    """The history that choices make; the group is told by the stream, and chunks of one unit were recorded at these places."""
    operation, of, size, stream, failed = [], [], [], [], []
    live: list[int] = []
    for at, (what, which, group) in enumerate(choices):
        freed = -1
        if what == 19:
            kind, bytes_asked = Operation.TRIM, 0
        elif what < 8 and live:
            kind, bytes_asked, freed = Operation.FREE, 0, live.pop(which % len(live))
        else:
            kind, bytes_asked = Operation.REQUEST, SIZES[which % len(SIZES)] * UNIT
            if what == 18:
                failed.append(at)
            else:
                live.append(at)
        operation.append(kind)
        of.append(freed)
        size.append(bytes_asked)
        stream.append(group)
    count = len(places)
    changes = ChunkChanges(
        np.zeros(count, np.int64), np.zeros(count, np.int8), np.array(places, np.uint64), np.full(count, UNIT, np.int64)
    )
    return history_from(
        operation, of, size, stream=np.array(stream, np.int32), failed=np.array(failed, np.int64), changes=changes
    )


def history_from(operation: Sequence[int], of: Sequence[int], size: Sequence[int], **columns: Any) -> RequestHistory:
    """A history of these columns, what is not told at its default."""
    count = len(operation)
    columns.setdefault("stream", np.zeros(count, np.int32))
    columns.setdefault("address", np.zeros(count, np.uint64))
    columns.setdefault("block_bytes", np.full(count, -1, np.int64))
    return RequestHistory(
        operation=np.array(operation, np.int8),
        of=np.array(of, np.int64),
        size=np.array(size, np.int64),
        pool=np.zeros(count, np.int32),
        event=np.arange(count, dtype=np.int64),
        line=10 * np.arange(count, dtype=np.int64),
        **columns,
    )


def requests_of(total: int, *, live: int, seed: int = 0, sizes: Sequence[int] = SIZES) -> RequestHistory:
    """A long history without choices of its own: so many operations, about so many blocks live at once."""
    rng = np.random.default_rng(seed)
    draws, chances = rng.integers(0, 1 << 30, total).tolist(), rng.random(total).tolist()
    held: list[int] = []
    operation, of, size = [], [], []
    for at, (draw, chance) in enumerate(zip(draws, chances, strict=True)):
        if held and (len(held) >= live or chance < 0.3):
            k = draw % len(held)
            held[k], held[-1] = held[-1], held[k]
            operation.append(1)
            of.append(held.pop())
            size.append(0)
        else:
            operation.append(0)
            of.append(-1)
            size.append(sizes[draw % len(sizes)] * UNIT)
            held.append(at)
    return history_from(operation, of, size)


@st.composite
def rules_for(draw: st.DrawFn, history: RequestHistory, *, expandable: bool = True) -> AllocatorRules:
    """Rules of any kind for a history whose streams are groups."""
    groups = 3
    family = draw(st.sampled_from([(0, 0, 0), (0, 0, 1), (0, 1, 2), (1, 1, 3)]))
    pages = st.sampled_from([0, 2 * UNIT, 8 * UNIT] if expandable else [0])
    table = Groups(
        np.array(family, np.int32),
        np.array([draw(st.sampled_from([1, UNIT, 3 * UNIT])) for _ in range(groups)], np.int64),
        np.array([draw(st.sampled_from([NO_LIMIT, 4 * UNIT])) for _ in range(groups)], np.int64),
        np.array([draw(pages) for _ in range(groups)], np.int64),
        np.array([draw(st.integers(0, 4)) == 0 for _ in range(groups)]),
        np.array([draw(st.booleans()) for _ in range(groups)]),
    )
    least = draw(st.sampled_from([1, 4 * UNIT, 32 * UNIT]))
    small = st.one_of(st.none(), st.integers(0, 120).map(lambda units: units * UNIT))
    return AllocatorRules(
        block=history.size,
        group=history.stream,
        growth=np.maximum(history.size, least),
        groups=table,
        take_high=draw(st.booleans()),
        max_split=draw(st.sampled_from([NO_LIMIT, 4 * UNIT, 8 * UNIT])),
        max_rounding=draw(st.sampled_from([UNIT, 5 * UNIT])),
        idle=draw(st.sampled_from(IdleChunks)),
        oldest_first=draw(st.booleans()),
        sorting=draw(st.sampled_from(IdleSorting)),
        relief=tuple(draw(st.lists(st.sampled_from(Relief), max_size=3))),
        collect_above=draw(st.sampled_from([-1, -1, 0, 20 * UNIT])),
        allowed=draw(small),
        range_bytes=draw(st.sampled_from([0, 30, 200])) * UNIT,
        preallocated=tuple(draw(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([UNIT, 9 * UNIT])), max_size=2))),
    )
