"""Chunks in pieces: against every byte of a made device, the segments analyzer on every real log, and the blocks of the allocator itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import NIGHT, many
from real_logs import real_logs

from memlens.analyzers import get
from memlens.analyzers.segments import Segments, layout_before
from memlens.drawing.memory_map import MemoryMap, Piece, Pieces, bars_in_rows, memory_maps, pieces_of
from memlens.events import Kind
from memlens.facts import Facts, OutOfMemory
from memlens.log import Log

BLOCK, GAP, KEPT, SEVERAL = Piece
Rows = list[tuple[Kind, int, int]]


def maps_of(log: Log) -> tuple[Segments, list[MemoryMap], int]:
    found = get("segments")(log.whole)
    assert isinstance(found, Segments)
    return found, *memory_maps(log, found)


def columns_of(pieces: Pieces) -> list[tuple[int, int, Piece, int]]:
    """Address, size, kind and ALLOC of each piece."""
    found, at = [], 0
    for begin, count in zip(pieces.addr.tolist(), pieces.counts.tolist(), strict=True):
        offset = 0
        for k in range(at, at + count):
            size = int(pieces.size[k])
            found.append((begin + offset, size, Piece(int(pieces.kind[k])), int(pieces.event[k])))
            offset += size
        at += count
    assert at == len(pieces.kind)
    return found


@st.composite
def devices(draw: st.DrawFn) -> tuple[Rows, int, bool]:
    """A log of a small device: its events, what sizes of blocks are rounded up to, and whether blocks may go from chunk to chunk."""
    granule, joined = draw(st.sampled_from([1, 4])), draw(st.booleans())
    rows: Rows = []
    at = 1000
    for _ in range(draw(st.integers(1, 6))):
        at += draw(st.sampled_from([0, 0, 8, 40]))
        size = 4 * draw(st.integers(1, 12))
        rows.append((Kind.RESERVE, size, at))
        at += size
    place = 1000 if joined else 1000 - 8
    while place < at:
        place += 4 * draw(st.integers(0, 6))
        size = draw(st.integers(1, 20))
        rows.append((Kind.ALLOC, size, place))
        place += -(-size // 4) * 4
    # Some are freed, and some lie over others, as in a doubtful log.
    rows += [(Kind.FREE, size, addr) for kind, size, addr in rows if kind == Kind.ALLOC and draw(st.booleans())]
    if draw(st.booleans()):
        rows.append((Kind.ALLOC, draw(st.integers(0, 30)), 4 * draw(st.integers(250, at // 4))))
    return rows, granule, joined


@settings(max_examples=many(200))
@given(devices(), st.integers(0, 12))
def test_every_byte_of_a_device_is_in_the_piece_that_it_belongs_to(made: tuple[Rows, int, bool], most: int) -> None:
    rows, granule, joined = made
    log = Log.from_rows(rows, facts=Facts(block_granularity=granule, chunks_join=joined))
    layout = layout_before(log, len(log))
    assert layout is not None
    # Byte by byte: the chunk, the blocks over it, and whether it is rounding.
    chunk_at: dict[int, int] = {}
    blocks_at: dict[int, set[int]] = {}
    taken: set[int] = set()
    live: dict[int, int] = {}
    for event, (kind, size, addr) in enumerate(rows):
        if kind == Kind.RESERVE:
            chunk_at |= dict.fromkeys(range(addr, addr + size), addr)
        elif kind == Kind.ALLOC:
            live[event] = addr
        else:
            newest = max(k for k, place in live.items() if place == addr)
            del live[newest]
    for event, addr in live.items():
        size = rows[event][1]
        for byte in range(addr, addr + size):
            blocks_at.setdefault(byte, set()).add(event)
        taken |= set(range(addr, addr + -(-size // granule) * granule))

    seen: set[int] = set()
    for addr, size, piece, event in columns_of(pieces_of(layout, 1 << 20)):
        assert size > 0
        for byte in range(addr, addr + size):
            seen.add(byte)
            if piece == BLOCK:
                assert event in blocks_at[byte]
            else:
                assert byte not in blocks_at
                assert event == -1
                assert (piece == KEPT) == (byte in taken)
    assert seen == set(chunk_at)

    whole, few = pieces_of(layout, 1 << 20), pieces_of(layout, most)
    for name in ("size", "blocks", "block_bytes", "gaps", "gap_bytes"):
        assert getattr(whole, name).sum() == getattr(few, name).sum()
    every, shown = columns_of(whole), [one for one in columns_of(few) if one[2] != SEVERAL]
    assert len(few.kind) <= 2 * most + len(few.counts)
    assert set(shown) <= set(every)  # what is shown by itself is as it was, and at least as large as what is not
    hidden = max((one[1] for one in every if one not in shown), default=0)
    assert all(size >= hidden for size in sorted((one[1] for one in shown), reverse=True)[:most])


@pytest.mark.parametrize("folder", ["data/paddle", "data/torch/snapshots"])
def test_on_every_real_log_the_pieces_add_up_to_the_figures_of_the_segments_analyzer(shared: Path, folder: str) -> None:
    checked = 0
    for _, log in real_logs(shared / folder):
        found, maps, _ = maps_of(log)
        assert bool(maps) == bool(found.moments)
        events = [-1 if one.moment.event is None else one.moment.event for one in maps]
        assert events == sorted(events)
        assert {one.moment for one in maps} == set(found.moments)  # no real log has more than three failures
        for one in maps:
            moment, pieces = one.moment, one.pieces
            assert (pieces is None) == (moment.gaps is None)
            if pieces is None:
                continue
            assert len(pieces.chunk_size) + pieces.left_chunks == moment.chunks
            assert pieces.chunk_size.sum() + pieces.left_bytes == pieces.size.sum() == moment.reserved_bytes
            assert (pieces.gaps.sum(), pieces.gap_bytes.sum()) == (moment.gaps, moment.gap_bytes)
            assert pieces.size[pieces.kind == GAP].max(initial=0) == moment.largest_gap_bytes
            if not log.trust.double_allocs:
                assert pieces.block_bytes.sum() == moment.allocated_bytes - (moment.outside_bytes or 0)
            checked += 1
    assert checked >= {"data/paddle": 60, "data/torch/snapshots": 26}[folder] / (1 if NIGHT else 4)


def test_of_many_failures_the_first_ones_are_shown_in_the_order_of_the_log() -> None:
    rows: Rows = [(Kind.RESERVE, 1 << 20, 4096)]
    ooms = []
    for k in range(6):
        rows.append((Kind.ALLOC, 512, 4096 + 512 * k))
        ooms.append(OutOfMemory(len(rows), 100 + k, "GPU 0", (k + 1) << 30, None, "out of memory"))
    rows += [(Kind.ALLOC, 512, 1 << 19), (Kind.FREE, 512, 1 << 19)]
    log = Log.from_rows(rows, facts=Facts(ooms=tuple(ooms), bytes=1000, lines=200))
    _, maps, left_failures = maps_of(log)
    assert [one.moment.at for one in maps] == ["oom", "oom", "oom", "peak", "end"]
    assert [one.moment.event for one in maps] == [1, 2, 3, 7, 8]
    assert left_failures == 3
    assert [one.pieces.block_bytes.sum() for one in maps if one.pieces] == [512, 1024, 1536, 3584, 3072]


@settings(max_examples=many(300))
@given(
    st.lists(st.lists(st.integers(1, 10).flatmap(lambda k: st.integers(1, 4**k)), min_size=1), min_size=1, max_size=5),
    st.integers(1, 20),
)
def test_rows_of_a_length_that_fits_hold_everything_in_order(groups: list[list[int]], most: int) -> None:
    length, rows, firsts, starts = bars_in_rows(groups, most)
    assert rows <= max(most, len(groups) + 1)
    bar, end = 0, 0
    for group, first in zip(groups, firsts, strict=True):
        assert starts[bar] == first * length  # each group begins a row
        for size in group:
            assert end <= starts[bar] < end + 2 * length  # no bar lies over the one before, and no row is left empty
            room = length - starts[bar] % length
            assert size <= room or (
                size > length and room == length
            )  # only a bar longer than a row is broken, and it begins one
            end = starts[bar] + size
            bar += 1
    assert end <= rows * length
