"""Blocks and gaps in the chunks of a device, at the peak, at the first failures and at the end: the figures of the segments analyzer as a picture.

A chunk is cut into *pieces* by rising address: a block, a gap, or what blocks keep beyond their size or after their FREE.  A picture holds so many pieces, the
largest ones; all between two of them are one piece, which says how many it stands for.  The pieces of a chunk always add up to it.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.analyzers.chunks import ends_of, inside
from memlens.analyzers.places import lines_at
from memlens.analyzers.segments import layout_before
from memlens.columns import Ints, distinct
from memlens.drawing.page import pack_json
from memlens.text import format_bytes, terms_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.segments import Layout, Moment, Pool, Segments
    from memlens.drawing.lifetimes import BlockRoles
    from memlens.drawing.page import Owners
    from memlens.events import EventLog


#: Failures that are shown, chunks of a moment, pools and streams that are set apart, and pieces of all moments together, at most.
_FAILURES, _CHUNKS, _PLACES, _PIECES = 3, 2_000, 8, 24_000
#: What moments are called.
_NAMES = {"peak": "The peak", "oom": "Out of memory", "end": "The end"}
#: Rows of a picture; more where each pool and stream needs one of its own.
_ROWS = 16


class Piece(IntEnum):
    """The kind of a piece of a chunk: a block, nothing, what blocks keep beyond that, or several of these that are too small to be shown."""

    BLOCK = 0
    GAP = 1
    KEPT = 2
    SEVERAL = 3


class Pieces(Struct, frozen=True, eq=False):
    """Chunks in pieces, by rising address.

    Attributes:
        addr: Where each chunk begins, uint64.
        chunk_size: Its bytes, int64.
        place: Its pool and its stream, -1 where unknown; two columns, int64.
        counts: Its pieces, int64.
        kind: What each piece is (:class:`Piece`), int64.
        size: Its bytes, int64.
        event: The ALLOC of a block, -1 of other pieces, int64.
        blocks: Blocks in each piece, int64; one that reaches over the end of a chunk is in a piece of either.
        block_bytes: Their bytes, int64.
        gaps: Gaps in each piece, int64.
        gap_bytes: Their bytes, int64.
        left_chunks: Chunks that are not among these, the smallest ones.
        left_bytes: Their bytes.
    """

    addr: NDArray[np.uint64]
    chunk_size: Ints
    place: Ints
    counts: Ints
    kind: Ints
    size: Ints
    event: Ints
    blocks: Ints
    block_bytes: Ints
    gaps: Ints
    gap_bytes: Ints
    left_chunks: int
    left_bytes: int


class MemoryMap(NamedTuple):
    """One moment.

    Attributes:
        moment: Its figures, as the segments analyzer has them.
        pools: Those of its pools and streams, the largest reserved first.
        pieces: What lies where; ``None`` where the addresses are not known.
    """

    moment: Moment
    pools: tuple[Pool, ...]
    pieces: Pieces | None


def maps_view(
    log: EventLog, maps: Sequence[MemoryMap], left_failures: int, owners: Owners, roles: BlockRoles
) -> dict[str, Any]:
    """Return the page's memory maps: the figures of each moment, and its pieces in columns.

    Args:
        log: The log that they are of.
        maps: The moments, in the order of the log.
        left_failures: Failures that come after these.
        owners: Gives the owners their numbers.
        roles: Gives the roles of blocks theirs.
    """
    shown = [one.pieces.event[one.pieces.kind == Piece.BLOCK] for one in maps if one.pieces is not None]
    # Of all moments together: a text that is packed is gone through once.
    lines = lines_at(log, np.concatenate([*shown, np.zeros(0, np.int64)]))
    lines_of = iter(np.split(lines, np.cumsum([*map(len, shown)])))
    term = terms_of(log.facts.has_lines).chunk
    why = {
        "no_chunks": f"There is no map: this input does not say which {term}s are reserved.",
        "no_blocks": "There is no map: this input does not say which blocks are allocated.",
        "no_addresses": f"There is no map, only figures: it is not known at which addresses the {term}s lie, or several lie over each other.",
    }
    missing = "no_addresses" if maps else "no_blocks" if log.tells_of_chunks else "no_chunks"
    return {
        "missing": "" if shown else missing,
        "why": why[missing],
        "left_failures": left_failures,
        "moments": [
            {
                **one.moment.to_dict(),
                "name": _NAMES[one.moment.at],
                "pieces": None
                if one.pieces is None
                else _columns(log, one.pools, one.pieces, owners, roles, next(lines_of)),
            }
            for one in maps
        ],
    }


def _columns(
    log: EventLog, pools: Sequence[Pool], pieces: Pieces, owners: Owners, roles: BlockRoles, lines: Ints
) -> dict[str, Any]:
    blocks, several = pieces.event[pieces.kind == Piece.BLOCK], pieces.kind == Piece.SEVERAL
    return {
        # The largest chunks first, and by address.
        "rows": [rows_of(log, pools, pieces, by_address=order) for order in (False, True)],
        "addresses": pack_json([f"{addr:x}" for addr in pieces.addr.tolist()]),
        "chunk_bytes": pieces.chunk_size,
        "counts": pieces.counts,
        "kinds": pieces.kind,
        "size_bytes": pieces.size,
        # One entry a block.
        "events": blocks,
        "lines": lines,
        "owners": owners.code(blocks),
        "roles": roles.code(blocks),
        # One entry for each piece that stands for several.
        "several": {name: getattr(pieces, name)[several] for name in ("blocks", "block_bytes", "gaps", "gap_bytes")},
        "left_chunks": pieces.left_chunks,
        "left_bytes": pieces.left_bytes,
    }


def memory_maps(log: EventLog, found: Segments) -> tuple[list[MemoryMap], int]:
    """The moments of a log that matter, in its order, and how many failures come after those among them.

    Args:
        log: The log.
        found: What the segments analyzer says of it, or of a window of it.
    """
    failed = [number for number, moment in enumerate(found.moments) if moment.at == "oom"]
    kept = set(range(len(found.moments))).difference(failed[_FAILURES:])
    shown = sorted(kept, key=lambda number: (_stop(log, found.moments[number]), number))
    maps = []
    for number in shown:
        moment = found.moments[number]
        layout = None if moment.chunks is None else layout_before(log, _stop(log, moment))
        pieces = None if layout is None else pieces_of(layout, _PIECES // len(shown))
        pools = tuple(pool for pool in found.pools if pool.moment == number)
        maps.append(MemoryMap(moment, pools, pieces))
    return maps, len(failed[_FAILURES:])


def _stop(log: EventLog, moment: Moment) -> int:
    """The event before which a moment is."""
    return log.facts.opening if moment.event is None else moment.event + 1


def pieces_of(layout: Layout, most: int) -> Pieces:
    """Cut chunks into pieces.

    Args:
        layout: What lies where.
        most: How many pieces are shown by themselves, the largest ones; there are about twice as many in all.
    """
    chunk, kind, size, event = _stretches(layout)
    kept = np.sort(np.argsort(-layout.chunk_size, kind="stable")[:_CHUNKS])
    within = np.isin(chunk, kept)
    chunk, kind, size, event = np.searchsorted(kept, chunk[within]), kind[within], size[within], event[within]
    shown = np.zeros(len(size), np.bool_)
    shown[np.argsort(-size, kind="stable")[:most]] = True
    # What is not shown goes together with its neighbour, if that is not shown either and in the same chunk.
    begins = np.append(True, shown[1:] | shown[:-1] | (chunk[1:] != chunk[:-1]))[: len(size)].nonzero()[0]
    alone = np.diff(np.append(begins, len(size))) == 1

    def together(values: Ints) -> Ints:
        return np.add.reduceat(values, begins) if len(begins) else values

    is_block, is_gap = (kind == what for what in (Piece.BLOCK, Piece.GAP))
    return Pieces(
        addr=layout.chunk_addr[kept],
        chunk_size=layout.chunk_size[kept],
        place=layout.chunk_place[kept],
        counts=np.bincount(chunk[begins], minlength=len(kept)).astype(np.int64),
        kind=np.where(alone, kind[begins], Piece.SEVERAL),
        size=together(size),
        event=np.where(alone, event[begins], -1),
        blocks=together(is_block.astype(np.int64)),
        block_bytes=together(size * is_block),
        gaps=together(is_gap.astype(np.int64)),
        gap_bytes=together(size * is_gap),
        left_chunks=len(layout.chunk_size) - len(kept),
        left_bytes=int(layout.chunk_size.sum() - layout.chunk_size[kept].sum()),
    )


def _stretches(layout: Layout) -> tuple[Ints, Ints, Ints, Ints]:
    """All pieces of all chunks by rising address: the number of the chunk, the kind, the size and the ALLOC of each, int64.

    Where blocks lie over each other, as a doubtful log may say, the one that begins last is taken, or else the one that reaches farthest.
    """
    filled = np.flatnonzero(layout.block_size > 0)
    order = filled[np.lexsort((layout.block_event[filled], layout.block_addr[filled]))]
    parts = (
        (layout.chunk_addr, layout.chunk_size),
        (layout.block_addr[order], layout.block_size[order]),
        (layout.gap_addr, layout.gap_size),
    )
    ends = [ends_of(addr, size) for addr, size in parts]
    edges = distinct(np.concatenate([*(addr for addr, _ in parts), *ends]))
    begin, size = edges[:-1], np.diff(edges).astype(np.int64)
    of_chunk, of_block, of_gap = (inside(begin, *part) for part in parts)
    uncovered = np.flatnonzero((of_block < 0) & (of_chunk >= 0) & (of_gap < 0))
    if len(uncovered) and len(order):
        farthest = np.maximum.accumulate(np.where(ends[1] == np.maximum.accumulate(ends[1]), np.arange(len(order)), 0))
        number = np.searchsorted(parts[1][0], begin[uncovered], "right") - 1
        over = farthest[np.maximum(number, 0)]
        of_block[uncovered] = np.where((number >= 0) & (ends[1][over] > begin[uncovered]), over, -1)
    kind = np.where(of_block >= 0, Piece.BLOCK, np.where(of_gap >= 0, Piece.GAP, Piece.KEPT)).astype(np.int64)
    event = np.full(len(begin), -1, np.int64)
    event[of_block >= 0] = layout.block_event[order][of_block[of_block >= 0]]
    held = of_chunk >= 0
    return of_chunk[held], kind[held], size[held], event[held]


def rows_of(log: EventLog, pools: Sequence[Pool], pieces: Pieces, *, by_address: bool) -> dict[str, Any]:
    """Return the page's rows of chunks, all of one length: those of the pool and stream with the most bytes first; of many the smallest ones together.

    Args:
        log: The log, for the names of pools.
        pools: The figures of its pools and streams.
        pieces: Its chunks.
        by_address: The chunks of a pool by rising address, and not the largest first.

    Returns:
        ``row_bytes``, the length; how many ``rows`` there are; ``captions``, of each pool and stream its first row and what is said of it, none where
        there is only one; ``chunks``, the chunks in the order in which they lie; and ``starts``, where each of them begins, in bytes, if rows lie one after
        the other.
    """
    sizes = pieces.chunk_size.tolist()
    places: dict[tuple[int, int], list[int]] = {}
    for chunk, (pool, stream) in enumerate(pieces.place.tolist()):
        places.setdefault((pool, stream), []).append(chunk)
    groups = sorted(places.values(), key=lambda chunks: -sum(sizes[chunk] for chunk in chunks))
    others = groups[_PLACES - 1 :] if len(groups) > _PLACES else []
    if others:
        groups[_PLACES - 1 :] = [sorted(chunk for chunks in others for chunk in chunks)]
    if not by_address:
        groups = [sorted(chunks, key=lambda chunk: -sizes[chunk]) for chunks in groups]
    length, rows, firsts, starts = bars_in_rows([[sizes[chunk] for chunk in chunks] for chunks in groups], _ROWS)
    captions = []
    for row, chunks in zip(firsts, groups if len(groups) > 1 else (), strict=False):
        pool, stream = pieces.place[chunks[0]].tolist()
        name = log.pool_names[pool] if pool >= 0 else None
        own = name, stream if stream >= 0 else None
        known = next((one for one in pools if (one.pool, one.stream) == own), None)
        if others and chunks is groups[-1]:
            name, stream, known = f"{len(others):,} others", -1, None
        parts = [*([] if name is None else [name]), *([] if stream < 0 else [f"stream {stream}"])]
        reserved, count = (
            (known.reserved_bytes, known.chunks) if known else (sum(sizes[one] for one in chunks), len(chunks))
        )
        text = f"{', '.join(parts) or 'not known'}: {format_bytes(reserved)} in {count:,} {terms_of(log.facts.has_lines).chunk}s"
        if known and known.gaps:
            text += f", {known.gaps:,} gaps, the largest of {format_bytes(known.largest_gap_bytes)}"
        captions.append((row, text))
    order = np.array([*chain.from_iterable(groups)], np.int64)
    starts_at = np.array(starts, np.int64)
    return {"row_bytes": length, "rows": rows, "captions": captions, "chunks": order, "starts": starts_at}


def bars_in_rows(groups: Sequence[Sequence[int]], most: int) -> tuple[int, int, list[int], list[int]]:
    """Bars in rows of one length, in order: one that does not fit into the rest of its row begins the next one, and one longer than a row goes on there.

    Args:
        groups: The lengths of the bars; each group begins a row.
        most: How many rows there are at most, or one more than groups if that is more.

    Returns:
        The length of a row, how many there are, the first row of each group, and where each bar begins if rows lie one after the other.
    """
    rows = max(most, len(groups) + 1)
    fair = max(-(-sum(map(sum, groups)) // rows), 1)
    largest = max(map(max, filter(None, groups)), default=0)
    # A bar is better not broken, unless that would make all others narrow.
    length = max(fair, largest) if largest <= 3 * fair else fair
    while True:
        at, firsts, starts = 0, [], []
        for group in groups:
            at = -(-at // length) * length
            firsts.append(at // length)
            for size in group:
                left = length - at % length
                if left < size and left < length:
                    at += left
                starts.append(at)
                at += size
        if -(-at // length) <= rows:
            return length, max(-(-at // length), 1), firsts, starts
        length += length // 25 + 1
