"""Chunks in pieces: against every byte of a made device, the segments analyzer on every real log, and the blocks of the allocator itself."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from real_logs import real_logs
from unpacked import unpacked

from memlens.analyzers import Segments, get
from memlens.analyzers.segments import layout_before
from memlens.drawing.memory_map import MemoryMaps, Piece, Pieces, bars_in_rows, memory_maps, pieces_of, rows_of
from memlens.drawing.owners import Owners
from memlens.events import EventLog, Kind
from memlens.facts import Facts, OutOfMemory
from memlens.inputs import Reading
from memlens.units import format_bytes

BLOCK, GAP, KEPT, SEVERAL = Piece
Rows = list[tuple[Kind, int, int]]


def maps_of(log: EventLog) -> tuple[Segments, MemoryMaps]:
    found = get("segments")(log.whole)
    assert isinstance(found, Segments)
    return found, memory_maps(log, found)


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


@settings(deadline=None, max_examples=200)
@given(devices(), st.integers(0, 12))
def test_every_byte_of_a_device_is_in_the_piece_that_it_belongs_to(made: tuple[Rows, int, bool], most: int) -> None:
    rows, granule, joined = made
    log = EventLog.from_rows(rows, facts=Facts(block_granularity=granule, chunks_join=joined))
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


def test_pieces_of_a_chunk_by_arithmetic() -> None:
    rows: Rows = [(Kind.RESERVE, 100, 1000), (Kind.ALLOC, 10, 1000), (Kind.ALLOC, 6, 1016), (Kind.ALLOC, 40, 1040)]
    log = EventLog.from_rows(rows, facts=Facts(block_granularity=8))
    layout = layout_before(log, 4)
    assert layout is not None
    # 10 bytes take 16 and 6 take 8; behind them 16 bytes are free up to 1040, and 20 behind 1080.
    pieces = [(BLOCK, 10), (KEPT, 6), (BLOCK, 6), (KEPT, 2), (GAP, 16), (BLOCK, 40), (GAP, 20)]
    assert [(kind, size) for _, size, kind, _ in columns_of(pieces_of(layout, 9))] == pieces
    few = pieces_of(layout, 2)  # the block of 40 bytes and the gap of 20
    assert [(kind, size) for _, size, kind, _ in columns_of(few)] == [(SEVERAL, 40), (BLOCK, 40), (GAP, 20)]
    assert (few.blocks[0], few.block_bytes[0], few.gaps[0], few.gap_bytes[0]) == (2, 16, 1, 16)


def test_of_thousands_of_chunks_the_smallest_are_left_out_and_counted() -> None:
    sizes = [4096 + 16 * k for k in range(3000)]
    rows: Rows = [(Kind.RESERVE, size, (k + 1) << 20) for k, size in enumerate(sizes)]
    layout = layout_before(EventLog.from_rows([*rows, (Kind.ALLOC, 8, 1 << 20)]), 3001)
    assert layout is not None
    pieces = pieces_of(layout, 100)
    assert pieces.chunk_size.tolist() == sizes[1000:]
    assert (pieces.left_chunks, pieces.left_bytes) == (1000, sum(sizes[:1000]))


@pytest.mark.parametrize("folder", ["data/paddle", "data/torch/snapshots"])
def test_on_every_real_log_the_pieces_add_up_to_the_figures_of_the_segments_analyzer(shared: Path, folder: str) -> None:
    checked = 0
    for _, log in real_logs(shared / folder):
        found, maps = maps_of(log)
        assert bool(maps.maps) == bool(found.moments)
        events = [-1 if one.moment.event is None else one.moment.event for one in maps.maps]
        assert events == sorted(events)
        assert {one.moment for one in maps.maps} == set(found.moments)  # no real log has more than three failures
        for one in maps.maps:
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
    assert checked >= {"data/paddle": 60, "data/torch/snapshots": 26}[folder]


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise AssertionError(f"{module}.{name} in a file of plain data")


def test_at_the_end_of_a_snapshot_lies_what_the_allocator_says(shared: Path) -> None:
    blocks = 0
    for path in sorted((shared / "data/torch/snapshots").glob("*.pickle")):
        with path.open("rb") as file:
            made = _Plain(file).load()
        segments = made["segments"] if isinstance(made, dict) else made
        for log in Reading(()).read_all(path):
            _, maps = maps_of(log)
            (end,) = [one for one in maps.maps if one.moment.at == "end"]
            assert end.pieces is not None
            held: dict[int, int] = {}
            free: dict[int, int] = {}
            waiting: dict[int, int] = {}
            begins = {segment["address"] for segment in segments}
            for segment in segments:
                at = segment["address"]
                if segment.get("device", 0) != (log.device or 0):
                    continue
                for block in segment["blocks"]:
                    at = block.get("address", at)
                    of_state = {"active_allocated": held, "inactive": free}.get(block["state"], waiting)
                    of_state[at] = block["size"]
                    at += block["size"]
            seen: dict[int, int] = {}
            last = -1
            for addr, size, kind, _ in columns_of(end.pieces):
                if kind == GAP:
                    assert free.pop(addr) == size
                elif kind == BLOCK:
                    seen[addr], last = size, addr
                elif last >= 0 and last + seen[last] == addr and addr not in begins:
                    seen[last] += size  # what it keeps beyond its size
                else:
                    seen[addr], last = size, addr
            # What waits for a stream after its FREE is kept as well: one piece with what the block before it keeps.
            expected = dict(sorted((held | waiting).items()))
            before = {addr + size: addr for addr, size in expected.items()}
            for addr in sorted(waiting, reverse=True):
                if addr in before and addr not in begins:
                    expected[before[addr]] += expected.pop(addr)
            assert free == {}
            assert seen == expected
            blocks += len(held)
    assert blocks > 5_000


def test_what_the_page_gets_is_what_was_found() -> None:
    rows: Rows = [(Kind.ALLOC, 10, 1000), (Kind.RESERVE, 100, 1000), (Kind.RESERVE, 50, 2000), (Kind.ALLOC, 20, 1020)]
    log = EventLog.from_rows(
        rows,
        line=np.array([0, 0, 7, 9]),
        facts=Facts(opening=2),
        stream=np.array([0, 0, 3, 0]),
        owner=np.array([-1, -1, -1, 0], np.int32),
        owner_names=("</script>",),
    )
    _, maps = maps_of(log)
    shown = unpacked(maps.to_dict(Owners(log)))
    assert (shown["missing"], shown["left_failures"]) == ("", 0)
    peak, end = shown["moments"]
    assert (peak["at"], end["at"], peak["event"], peak["line"]) == ("peak", "end", 3, 9)
    assert peak["pieces"] == end["pieces"]
    pieces = peak["pieces"]
    assert pieces["addresses"] == ["3e8", "7d0"]
    assert pieces["chunk_bytes"] == [100, 50]
    assert [rows["chunks"] for rows in pieces["rows"]] == [[0, 1], [0, 1]]
    first, second = pieces["rows"][0]["captions"]
    assert first[1].startswith("stream 0: 100 B in 1 chunk")
    assert second[1].startswith("stream 3: 50 B in 1 chunk")
    assert [rows["starts"] for rows in pieces["rows"]] == [[0, second[0] * pieces["rows"][0]["row_bytes"]]] * 2
    assert (pieces["counts"], pieces["kinds"]) == ([4, 1], [BLOCK, GAP, BLOCK, GAP, GAP])
    assert pieces["size_bytes"] == [10, 10, 20, 60, 50]
    assert (pieces["events"], pieces["lines"], pieces["owners"]) == ([0, 3], [0, 9], [0, 1])


def test_of_many_failures_the_first_ones_are_shown_in_the_order_of_the_log() -> None:
    rows: Rows = [(Kind.RESERVE, 1 << 20, 4096)]
    ooms = []
    for k in range(6):
        rows.append((Kind.ALLOC, 512, 4096 + 512 * k))
        ooms.append(OutOfMemory(len(rows), 100 + k, "GPU 0", (k + 1) << 30, None, "out of memory"))
    rows += [(Kind.ALLOC, 512, 1 << 19), (Kind.FREE, 512, 1 << 19)]
    log = EventLog.from_rows(rows, facts=Facts(ooms=tuple(ooms), bytes=1000, lines=200))
    maps = maps_of(log)[1]
    assert [(one.moment.at, one.moment.event) for one in maps.maps] == [
        ("oom", 1),
        ("oom", 2),
        ("oom", 3),
        ("peak", 7),
        ("end", 8),
    ]
    assert maps.left_failures == 3
    assert [one.pieces.block_bytes.sum() for one in maps.maps if one.pieces] == [512, 1024, 1536, 3584, 3072]


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        ([(Kind.ALLOC, 10, 1000)], "no_chunks"),
        ([(Kind.RESERVE, 10, 1000)], "no_blocks"),
        ([(Kind.RESERVE, 10, 0), (Kind.ALLOC, 10, 1000)], "no_addresses"),
    ],
)
def test_where_there_is_no_map_the_page_is_told_why(rows: Rows, missing: str) -> None:
    log = EventLog.from_rows(rows)
    shown = maps_of(log)[1].to_dict(Owners(log))
    assert shown["missing"] == missing
    assert all(moment["pieces"] is None for moment in shown["moments"])


def test_bars_go_into_rows_and_one_that_does_not_fit_begins_the_next_row() -> None:
    # 30 in all and 3 rows: 10 a row. 6 and 4 fill one, 7 takes the next, 5 does not fit behind it, and 8 needs a row of its own: rows are made longer.
    length, rows, _, starts = bars_in_rows([[6, 4, 7, 5, 8]], 3)
    assert length >= 12
    assert rows <= 3
    assert starts[0] == 0


@settings(deadline=None, max_examples=300)
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


def test_chunks_go_by_pool_and_stream_those_that_reserve_most_first() -> None:
    sizes = [20, 70, 100, 60]
    rows: Rows = [(Kind.RESERVE, size, 1000 * (k + 1)) for k, size in enumerate(sizes)]
    rows.append((Kind.ALLOC, 10, 1000))
    log = EventLog.from_rows(rows, stream=np.array([0, 1, 0, 1, 0]))
    layout = layout_before(log, 5)
    assert layout is not None
    pieces = pieces_of(layout, 99)
    assert rows_of(log, (), pieces, by_address=False).chunks == (1, 3, 2, 0)  # 130 bytes in stream 1, 120 in stream 0
    assert rows_of(log, (), pieces, by_address=True).chunks == (1, 3, 0, 2)
    captions = rows_of(log, (), pieces, by_address=True).captions
    assert [text for _, text in captions] == ["stream 1: 130 B in 2 chunks", "stream 0: 120 B in 2 chunks"]


def test_of_many_pools_and_streams_the_smallest_are_one() -> None:
    rows: Rows = [(Kind.RESERVE, 100 + k, 1000 * (k + 1)) for k in range(20)]
    log = EventLog.from_rows([*rows, (Kind.ALLOC, 10, 1000)], stream=np.array([*range(20), 0]))
    layout = layout_before(log, 21)
    assert layout is not None
    laid = rows_of(log, (), pieces_of(layout, 99), by_address=True)
    assert len(laid.captions) == 8
    assert laid.captions[7][1] == f"13 others: {format_bytes(sum(range(100, 113)))} in 13 chunks"
    assert laid.chunks == (19, 18, 17, 16, 15, 14, 13, *range(13))
