"""Where chunks lie: those from which a replay starts, tiled by blocks and by what is free between them; and new ones.

Of new ones it is what a driver might have done, for a replay cannot know what it would have done.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.allocators.history import ChunkChange, OpeningChunks
from memlens.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.allocators.history import RequestHistory
    from memlens.allocators.models import AllocatorRules
    from memlens.columns import Ints


#: Chunks that lie anywhere lie below this; where others begin if nothing lies anywhere.
_ANYWHERE, _START = 1 << 62, 1 << 44
_WORD = (1 << 64) - 1
#: What a tile is that is no block.
FREE, UNMAPPED = -1, -2


class Placement(IntEnum):
    """Where new chunks lie, which decides between free blocks of one size.

    ``RECORDED``: the k-th one where the k-th one was recorded, if nothing lies there, else as ``ASCENDING``.  ``ASCENDING`` and ``DESCENDING``: above or
    below all others.  ``REUSE``: in the smallest range that was given back and is large enough, at its low end, else as ``ASCENDING``.  ``SHUFFLED``:
    anywhere.
    """

    RECORDED = 0
    ASCENDING = 1
    DESCENDING = 2
    REUSE = 3
    SHUFFLED = 4


class Addresses(Struct, frozen=True):
    """A rule for the addresses of new chunks, and for ``SHUFFLED`` what it draws by."""

    placement: Placement = Placement.RECORDED
    seed: int = 0


class Fixed(NamedTuple):
    """The choice of addresses.

    Attributes:
        placement: The rule.
        seed: What ``SHUFFLED`` draws by, below 2**64.
        low: Nothing that lies anywhere at the beginning begins below it.
        high: Nor ends, now or as recorded, above it.
        recorded: Where memory that was taken lay as recorded, uint64.
    """

    placement: Placement
    seed: int
    low: int
    high: int
    recorded: NDArray[np.uint64]


def fixed(history: RequestHistory, addresses: Addresses, base: NDArray[np.uint64], size: NDArray[np.int64]) -> Fixed:
    """The choice of addresses for new chunks, for chunks that are there from the beginning."""
    low, high = _START, _START
    if len(base):
        low, high = int(base.min()), int((base + size.astype(np.uint64)).max())
    recorded = np.zeros(0, np.uint64)
    if addresses.placement == Placement.RECORDED:
        changes = history.changes
        taken = (changes.kind == ChunkChange.TAKEN) | (changes.kind == ChunkChange.MAPPED)
        recorded, sizes = np.ascontiguousarray(changes.addr[taken], np.uint64), changes.size[taken]
        known = (recorded > 0) & (recorded < np.uint64(_ANYWHERE)) & (sizes > 0) & (sizes < 1 << 49)
        recorded = np.where(known, recorded, np.uint64(0))
        high = max(high, int((recorded[known] + sizes[known].astype(np.uint64)).max(initial=0)))
    return Fixed(addresses.placement, addresses.seed & _WORD, low, high, recorded)


class Tiling(NamedTuple):
    """Chunks, and the tiles that fill them.

    Attributes:
        base: Where each chunk begins, uint64.
        size: Its bytes, of an expandable one those of its range of addresses, int64.
        group: Its group, int32.
        page: 0, or of an expandable one the bytes of a page, int64.
        tile_chunk: The chunk of each tile, not falling, int64.
        tile_addr: Where the tile begins, rising within a chunk, uint64.
        tile_size: Its bytes, int64.
        tile_use: The operation that asked for it, :data:`FREE`, or :data:`UNMAPPED`; int64.
    """

    base: NDArray[np.uint64]
    size: Ints
    group: NDArray[np.int32]
    page: Ints
    tile_chunk: Ints
    tile_addr: NDArray[np.uint64]
    tile_size: Ints
    tile_use: Ints


def tiled(history: RequestHistory, rules: AllocatorRules) -> Tiling:
    """The chunks of the opening, tiled; none where the rules do not keep them.

    Pieces of one group that are mapped within one range of addresses are one expandable chunk.

    Raises:
        UsageError: Blocks lie outside of the chunks or on each other, or chunks overlap.
    """
    chunks, live = (history.opening_chunks, history.opening) if rules.keep_opening else (OpeningChunks.none(), 0)
    # Addresses are below 2**63, so that sums stay in int64.
    start, size, page = chunks.addr.astype(np.int64), chunks.size.astype(np.int64), chunks.page.astype(np.int64)
    group = np.ascontiguousarray(rules.opening_group, np.int32)
    if len(group) != len(size):
        raise UsageError("each opening chunk needs a group")
    if live and not len(size):
        raise UsageError("opening blocks do not lie in the opening chunks")
    by_address = np.argsort(start, kind="stable")
    ends = start + size
    chunk_of, base, whole, first = _ranges(start, size, group, page, max(rules.range_bytes, 0))

    at, held = history.address[:live].astype(np.int64), history.block_bytes[:live].astype(np.int64)
    order = np.argsort(at, kind="stable")
    at, held = at[order], held[order]
    piece = by_address[np.searchsorted(start[by_address], at, "right") - 1]

    # What is free lies between neighbours in one piece, and before the first and after the last of them.
    edges_piece = np.concatenate([piece, np.arange(len(size)), np.arange(len(size))])
    edge_from = np.concatenate([at, start, ends])
    edge_to = np.concatenate([at + held, start, ends])
    sorting = np.lexsort(
        (np.concatenate([np.ones(live), np.zeros(len(size)), np.full(len(size), 2)]), edge_from, edges_piece)
    )
    edges_piece, edge_from, edge_to = edges_piece[sorting], edge_from[sorting], edge_to[sorting]
    gap = (edges_piece[1:] == edges_piece[:-1]) & (edge_from[1:] > edge_to[:-1])
    free_at, free_to, free_piece = edge_to[:-1][gap], edge_from[1:][gap], edges_piece[:-1][gap]

    # What is not mapped lies between the pieces of a range, and after the last one.
    pieces = np.flatnonzero(page > 0)
    pieces = pieces[np.lexsort((start[pieces], chunk_of[pieces]))]
    last = np.append(chunk_of[pieces][1:] != chunk_of[pieces][:-1], True)[: len(pieces)]
    hole_at = ends[pieces]
    hole_to = np.where(last, (base + whole)[chunk_of[pieces]], np.append(start[pieces][1:], 0)[: len(pieces)])
    hole = hole_to > hole_at

    tile_chunk = np.concatenate([chunk_of[piece], chunk_of[free_piece], chunk_of[pieces][hole]])
    tile_addr = np.concatenate([at, free_at, hole_at[hole]])
    tile_size = np.concatenate([held, free_to - free_at, (hole_to - hole_at)[hole]])
    tile_use = np.concatenate([order, np.full(len(free_at), FREE), np.full(int(hole.sum()), UNMAPPED)])
    tiles = np.lexsort((tile_addr, tile_chunk))
    return Tiling(
        base.astype(np.uint64),
        whole,
        group[first],
        page[first],
        *(tile_chunk[tiles].astype(np.int64), tile_addr[tiles].astype(np.uint64), tile_size[tiles].astype(np.int64)),
        tile_use[tiles].astype(np.int64),
    )


def _ranges(
    start: Ints, size: Ints, group: NDArray[np.int32], page: Ints, bytes_of_range: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """For each piece its chunk; for each chunk where it begins, its bytes, and its first piece.  An ordinary piece is a chunk by itself."""
    # Few pieces are expandable, and few ranges a group: a loop over these alone.
    leader = np.arange(len(size))
    expandable = np.flatnonzero(page > 0)
    reach: dict[int, tuple[int, int]] = {}
    for k in expandable[np.lexsort((start[expandable], group[expandable]))].tolist():
        first, until = reach.get(int(group[k]), (-1, -1))
        if first < 0 or page[k] != page[first] or start[k] + size[k] > until:
            reserved = max(bytes_of_range, int(size[k]))
            first, until = k, int(start[k]) - (-reserved // int(page[k])) * int(page[k])
        reach[int(group[k])] = first, until
        leader[k] = first
    first_of = np.flatnonzero(leader == np.arange(len(size)))
    chunk_of = np.searchsorted(first_of, leader)
    whole = size[first_of].copy()
    ranges = page[first_of] > 0
    pages = page[first_of][ranges]
    whole[ranges] = -(-np.maximum(whole[ranges], bytes_of_range) // pages) * pages
    # A range that is taken for larger than it was ends where the next chunk begins.
    base = start[first_of]
    order = np.argsort(base, kind="stable")
    whole[order[:-1]] = np.minimum(whole[order[:-1]], np.diff(base[order]))
    return chunk_of.astype(np.int64), base, whole, first_of
