"""What lies where in the chunks of a device, at the peak, at the first failures and at the end: the figures of the segments analyzer as a picture.

A chunk is cut into *pieces* by rising address: a block, a gap, or what blocks keep beyond their size or after their FREE.  A picture holds so many pieces, the
largest ones; all between two of them are one piece, which says how many it stands for.  The pieces of a chunk always add up to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from memlens.analyzers.chunks import inside
from memlens.analyzers.segments import layout_before
from memlens.columns import distinct
from memlens.drawing.packing import pack, pack_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.analyzers.segments import Layout, Moment, Pool, Segments
    from memlens.drawing.owners import Owners
    from memlens.events import EventLog

    Ints = NDArray[np.int64]

__all__ = ["MemoryMap", "MemoryMaps", "Piece", "Pieces", "memory_maps", "pieces_of"]

#: Failures that are shown, chunks of a moment, pools of a moment, and pieces of all moments together, at most.
_FAILURES, _CHUNKS, _POOLS, _PIECES = 3, 2_000, 50, 24_000


class Piece(IntEnum):
    """What a piece of a chunk is: a block, nothing, what blocks keep beyond that, or several of these that are too small to be shown."""

    BLOCK = 0
    GAP = 1
    KEPT = 2
    SEVERAL = 3


@dataclass(frozen=True, eq=False)
class Pieces:
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


@dataclass(frozen=True, eq=False)
class MemoryMap:
    """One moment.

    Attributes:
        moment: Its figures, as the segments analyzer has them.
        pools: Those of its pools and streams, the largest reserved first.
        pieces: What lies where; ``None`` where the addresses are not known.
    """

    moment: Moment
    pools: tuple[Pool, ...]
    pieces: Pieces | None


@dataclass(frozen=True, eq=False)
class MemoryMaps:
    """The moments that matter.

    Attributes:
        log: The log that they are of.
        maps: One a moment, in the order of the log.
        left_failures: Failures that come after these.
    """

    log: EventLog
    maps: tuple[MemoryMap, ...]
    left_failures: int

    @property
    def missing(self) -> str:
        """Why there is nothing to be shown: ``no_chunks``, ``no_blocks`` or ``no_addresses``; empty where there is."""
        if not self.maps:
            return "no_blocks" if self.log.tells_of_chunks else "no_chunks"
        return "" if any(one.pieces for one in self.maps) else "no_addresses"

    def to_dict(self, owners: Owners) -> dict[str, Any]:
        """What the page gets: the figures of each moment, its pools, and the pieces in columns."""
        shown = [one.pieces.event for one in self.maps if one.pieces is not None]
        lines = _Lines(self.log, np.concatenate([*shown, np.zeros(0, np.int64)]))
        return {
            "missing": self.missing,
            "left_failures": self.left_failures,
            "moments": [
                {
                    **one.moment.to_dict(),
                    "pools": [pool.to_dict() for pool in one.pools],
                    "pieces": None if one.pieces is None else self._columns(one.pieces, owners, lines),
                }
                for one in self.maps
            ],
        }

    def _columns(self, pieces: Pieces, owners: Owners, lines: _Lines) -> dict[str, Any]:
        blocks, several = pieces.event[pieces.kind == Piece.BLOCK], pieces.kind == Piece.SEVERAL
        names = [self.log.pool_names[pool] if pool >= 0 else None for pool in pieces.place[:, 0].tolist()]
        return {
            "addresses": pack_json([f"{addr:x}" for addr in pieces.addr.tolist()]),
            "pools": pack_json(names),
            "streams": pack(pieces.place[:, 1]),
            "chunk_bytes": pack(pieces.chunk_size),
            "counts": pack(pieces.counts),
            "kinds": pack(pieces.kind),
            "size_bytes": pack(pieces.size),
            # One entry a block.
            "events": pack(blocks),
            "lines": pack(lines.of(blocks)),
            "owners": pack(owners.code(blocks)),
            # One entry for each piece that stands for several.
            "several": {
                name: pack(getattr(pieces, name)[several]) for name in ("blocks", "block_bytes", "gaps", "gap_bytes")
            },
            "left_chunks": pieces.left_chunks,
            "left_bytes": pieces.left_bytes,
        }


def memory_maps(log: EventLog, found: Segments) -> MemoryMaps:
    """The moments of a log as pictures.

    Args:
        log: The log.
        found: What the segments analyzer says of it, or of a window of it.
    """
    failed = [number for number, moment in enumerate(found.moments) if moment.at == "oom"]
    shown = sorted(
        set(range(len(found.moments))).difference(failed[_FAILURES:]),
        key=lambda number: (_stop(log, found.moments[number]), number),
    )
    maps = []
    for number in shown:
        moment = found.moments[number]
        layout = None if moment.chunks is None else layout_before(log, _stop(log, moment))
        pieces = None if layout is None else pieces_of(layout, _PIECES // len(shown))
        pools = tuple(islice((pool for pool in found.pools if pool.moment == number), _POOLS))
        maps.append(MemoryMap(moment, pools, pieces))
    return MemoryMaps(log, tuple(maps), len(failed[_FAILURES:]))


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
    ends = [addr + np.minimum(size.astype(np.uint64), ~addr) for addr, size in parts]
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


class _Lines:
    """The lines of the ALLOCs of blocks, looked up together."""

    def __init__(self, log: EventLog, events: Ints) -> None:
        self._events = distinct(events[events >= log.facts.opening])
        self._lines = [line or 0 for line in log.line_numbers(self._events.tolist())]

    def of(self, events: Ints) -> Sequence[int]:
        """The 1-based lines of some of the events, 0 where there is none or it cannot be told."""
        places = self._events.searchsorted(events).tolist()
        known = np.isin(events, self._events).tolist()
        return [self._lines[place] if there else 0 for place, there in zip(places, known, strict=True)]
