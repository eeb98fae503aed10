"""Chunks, blocks and the gaps between them: by arithmetic, against a plain model, and against what the allocators report."""

from __future__ import annotations

import itertools
import pickle
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memlens
from memlens.analyzers import Segments, get
from memlens.analyzers.chunks import gaps_between
from memlens.analyzers.segments import segments
from memlens.events import EventLog, Kind
from memlens.facts import Facts, OutOfMemory
from memlens.inputs import Reading
from memlens.windows.windows import Window

A, F, R, X = Kind.ALLOC, Kind.FREE, Kind.RESERVE, Kind.RELEASE
Rows = list[tuple[Kind, int, int]]


def segments_of(log: EventLog, hi: int | None = None) -> Segments:
    stop = len(log) if hi is None else hi
    found = get("segments")(Window(log, "w", log.facts.opening, stop, 0, 1 << 40, 1, 1))
    assert isinstance(found, Segments)
    return found


def made(rows: Rows, **facts: Any) -> EventLog:
    return EventLog.from_rows(rows, line=np.arange(1, len(rows) + 1), facts=Facts(**facts))


#: Two chunks, [1000, 2000) and [2000, 2500), and three blocks, one of which is freed.
TWO_CHUNKS: Rows = [(R, 1000, 1000), (A, 200, 1000), (A, 300, 1200), (R, 500, 2000), (A, 500, 2000), (F, 200, 1000)]


def test_gaps_lie_between_blocks_and_end_with_their_chunk() -> None:
    peak, end = segments_of(made(TWO_CHUNKS)).moments
    # At the peak blocks cover [1000, 1500) and [2000, 2500); at the end [1200, 1500) and [2000, 2500).
    assert (peak.at, peak.event, peak.line, peak.reserved_bytes, peak.allocated_bytes) == ("peak", 4, 5, 1500, 1000)
    assert (peak.chunks, peak.gaps, peak.gap_bytes, peak.largest_gap_bytes, peak.free_bytes) == (2, 1, 500, 500, 500)
    assert (end.at, end.event, end.gaps, end.gap_bytes, end.largest_gap_bytes) == ("end", 5, 2, 700, 500)
    assert (end.outside_bytes, end.requested_bytes) == (0, None)


def test_a_chunk_beyond_the_address_space_ends_with_it() -> None:
    """As a torn line may say: 4096 bytes from 256 before the end of all addresses on, with a RELEASE that names its size alone."""
    begin = (1 << 64) - 256
    peak, end = segments_of(made([(R, 4096, begin), (A, 200, begin), (F, 200, begin), (X, 4096, 0)])).moments
    assert (peak.reserved_bytes, peak.allocated_bytes, peak.gap_bytes) == (
        4096,
        200,
        55,
    )  # the last address is no begin
    assert (end.reserved_bytes, end.chunks, end.gaps) == (0, 0, 0)


def test_gaps_of_neighbouring_chunks_are_two_unless_chunks_join() -> None:
    rows: Rows = [*TWO_CHUNKS, (F, 500, 2000)]
    end = segments_of(made(rows)).moments[1]
    assert (end.gaps, end.gap_bytes, end.largest_gap_bytes) == (3, 1200, 500)
    end = segments_of(made(rows, chunks_join=True)).moments[1]
    assert (end.gaps, end.gap_bytes, end.largest_gap_bytes) == (2, 1200, 1000)


def test_the_histogram_counts_each_gap_in_its_power_of_two() -> None:
    bins = [row for row in segments_of(made(TWO_CHUNKS)).histogram if row.moment == 1]
    assert [(b.low_bytes, b.high_bytes, b.gaps, b.gap_bytes) for b in bins] == [(128, 255, 1, 200), (256, 511, 1, 500)]


def test_blocks_that_occupy_more_than_their_size_leave_smaller_gaps() -> None:
    rows: Rows = [(R, 4096, 1 << 20), (A, 100, 1 << 20)]
    end = segments_of(made(rows, block_granularity=512)).moments[1]
    assert (end.free_bytes, end.gap_bytes) == (3996, 3584)


def test_what_lies_outside_of_all_known_chunks_is_counted_and_nothing_is_concluded_from_the_sums() -> None:
    end = segments_of(made([(R, 1000, 1000), (A, 300, 5000), (A, 100, 1000)])).moments[1]
    assert (end.outside_bytes, end.free_bytes, end.gap_bytes) == (300, None, 900)


def test_without_addresses_of_chunks_there_are_sums_and_no_gaps() -> None:
    found = segments_of(made([(R, 1000, 0), (A, 300, 5000)]))
    end = found.moments[1]
    assert (end.reserved_bytes, end.allocated_bytes, end.free_bytes) == (1000, 300, 700)
    assert (end.chunks, end.gaps, end.gap_bytes, end.largest_gap_bytes, end.outside_bytes) == (None,) * 5
    assert found.histogram == ()


def test_an_input_without_chunks_has_no_moments() -> None:
    assert segments_of(made([(A, 300, 5000)])).moments == ()


def test_chunks_alone_do_not_say_that_they_are_free() -> None:
    assert segments_of(made([(R, 300, 5000)])).moments == ()
    # Unless the input says what was there before its first event: no block.
    assert segments_of(made([(R, 300, 5000)], opening=1)).moments[1].free_bytes == 300


def test_a_failure_is_a_moment_of_its_own_with_what_was_asked_for() -> None:
    oom = OutOfMemory(4, 5, "GPU 0", 4096, None, "oom")
    _, _, failed = segments_of(made(TWO_CHUNKS, ooms=(oom,))).moments
    # Before the event at offset 4 the blocks of 200 and 300 bytes are there.
    assert (failed.at, failed.event, failed.line, failed.requested_bytes) == ("oom", 3, 5, 4096)
    assert (failed.allocated_bytes, failed.gap_bytes, failed.largest_gap_bytes) == (500, 1000, 500)


def test_chunks_of_several_streams_are_told_apart() -> None:
    stream = np.array([7, 7, 7, -1, 9, 7], np.int64)
    log = EventLog.from_rows(TWO_CHUNKS, line=np.arange(1, 7), stream=stream)
    at_end = [row for row in segments_of(log).pools if row.moment == 1]
    # The second chunk has no stream of its own; the block in it has.
    assert [(p.stream, p.reserved_bytes, p.allocated_bytes, p.gaps, p.gap_bytes) for p in at_end] == [
        (7, 1000, 300, 2, 700),
        (9, 500, 500, 0, 0),
    ]


def test_a_release_without_address_ends_the_chunk_that_is_not_used_again() -> None:
    rows: Rows = [
        (R, 100, 1000), (A, 100, 1000), (R, 100, 2000), (A, 100, 2000),
        (F, 100, 1000), (X, 100, 0), (F, 100, 2000), (A, 50, 2000),
    ]  # fmt: skip
    end = segments_of(made(rows)).moments[1]
    assert (end.chunks, end.gaps, end.gap_bytes, end.outside_bytes) == (1, 1, 50, 0)


def test_a_chunk_reserved_again_at_its_old_address_is_another_one() -> None:
    rows: Rows = [
        (R, 100, 1000), (A, 100, 1000), (F, 100, 1000), (X, 100, 0), (R, 100, 1000), (A, 60, 1000), (F, 60, 1000),
        (X, 100, 0), (R, 300, 900), (A, 10, 900),
    ]  # fmt: skip
    log = made(rows)
    assert [segments_of(log, hi).moments[1].chunks for hi in (3, 4, 5, 8, 9)] == [1, 0, 1, 0, 1]
    assert segments_of(log).moments[1].gap_bytes == 290


def test_a_release_of_no_known_chunk_leaves_gaps_unknown() -> None:
    assert segments_of(made([(R, 100, 1000), (A, 10, 1000), (F, 10, 1000), (X, 300, 0)])).moments[1].gaps is None
    # The only chunk of that size is still in use.
    assert segments_of(made([(R, 100, 1000), (A, 10, 1000), (X, 100, 0)])).moments[1].gaps is None


def test_a_part_of_a_chunk_that_is_unmapped_is_no_gap() -> None:
    rows: Rows = [(R, 1000, 1000), (A, 100, 1000), (X, 400, 1600), (F, 100, 1000)]
    end = segments_of(made(rows, chunks_join=True)).moments[1]
    assert (end.reserved_bytes, end.gaps, end.gap_bytes) == (600, 1, 600)


stretches = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=6)


@given(stretches, stretches, st.booleans())
def test_gaps_equal_those_of_a_model_byte_by_byte(
    chunks: list[tuple[int, int]], blocks: list[tuple[int, int]], join: bool
) -> None:
    covered = {byte for begin, size in blocks for byte in range(begin, begin + size)}
    free = [byte in {b for begin, size in chunks for b in range(begin, begin + size)} - covered for byte in range(100)]
    edges = set() if join else {edge for begin, size in chunks for edge in (begin, begin + size)}
    expected: list[tuple[int, int]] = []
    for byte in range(100):
        if free[byte]:
            if byte and free[byte - 1] and byte not in edges:
                expected[-1] = (expected[-1][0], expected[-1][1] + 1)
            else:
                expected.append((byte, 1))
    # In an address space whose last byte is used.
    high = np.uint64((1 << 64) - 101)
    columns = [
        (np.array([b for b, _ in of], np.uint64) + high, np.array([s for _, s in of], np.int64))
        for of in (chunks, blocks)
    ]
    addr, size = gaps_between(columns[0], columns[1], join=join)
    assert list(zip((addr - high).tolist(), size.tolist(), strict=True)) == expected


def test_gaps_are_those_of_paddles_own_dumps(shared: Path) -> None:
    """``FLAGS_dump_chunk_info`` prints the blocks and the free stretches of every chunk after each Free and each new chunk."""
    log = memlens.read(shared / "data/paddle/06_dump_chunk_info.log.gz")
    raw = b"".join(text for _, text in log.source.blocks(0, log.facts.bytes)).split(b"\n")
    offsets = np.cumsum([0, *(len(line) + 1 for line in raw)]).tolist()
    dump: list[list[int]] = []
    dumps = checked = 0
    for offset, line in zip(offsets, raw, strict=False):
        if line.startswith(b"Chunk\t"):
            _, total, used, free, _, rest = line.split(b"\t")
            sizes = [int(size) for size in re.findall(rb"\((\d+),0x", rest)]
            assert sum(sizes) == int(free) == int(total) - int(used)
            dump.append(sizes)
        elif dump:
            stop = int(np.searchsorted(log.offset, offset))
            # After a Free only: when a chunk is new, the dump comes before the Alloc that it was made for is written.
            if log.kind[stop - 1] == Kind.FREE and dumps % 7 == 0:
                end = segments_of(log, stop).moments[1]
                gaps = sorted(size for sizes in dump for size in sizes)
                assert (end.chunks, end.gaps, end.gap_bytes) == (len(dump), len(gaps), sum(gaps))
                assert end.largest_gap_bytes == max(gaps, default=0)
                checked += 1
            dumps += 1
            dump = []
    assert checked > 50


def test_chunks_that_paddle_gives_back_by_size_alone_never_hold_a_block(shared: Path) -> None:
    log = memlens.read(shared / "data/paddle/06_free_idle_chunk.log")
    releases = np.flatnonzero(log.kind == X)
    assert len(releases) == 659  # the data's own count
    for stop in np.linspace(1, len(log), 60).astype(int).tolist():
        end = segments_of(log, stop).moments[1]
        assert end.outside_bytes == 0, stop
        assert end.gap_bytes == end.free_bytes, stop


def _segments_of(path: Path) -> list[dict[str, Any]]:
    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            raise AssertionError(f"{module}.{name} in a file of plain data")

    with path.open("rb") as file:
        loaded = Plain(file).load()
    found: list[dict[str, Any]] = loaded["segments"] if isinstance(loaded, dict) else loaded
    return found


def test_chunks_are_told_apart_by_pool_and_stream() -> None:
    """Four chunks of 100 bytes: one of the default pool, three of a private one, of which one is of another stream."""
    rows: Rows = [(R, 100, 1000), (R, 100, 2000), (R, 100, 3000), (R, 100, 4000), (A, 30, 2000), (A, 50, 4010)]
    log = EventLog.from_rows(
        rows,
        stream=np.array([0, 0, 0, 7, 0, 7], np.int64),
        # The third and the last chunk name no pool; the block in the last one does.
        pool=np.array([0, 1, -1, -1, 1, 1], np.int32),
        pool_names=("default pool", "private pool (0, 1)"),
    )
    at_end = [row for row in segments_of(log).pools if row.moment == 1]
    figures = {(p.pool, p.stream): (p.reserved_bytes, p.allocated_bytes, p.chunks, p.gaps, p.gap_bytes) for p in at_end}
    assert figures == {
        ("default pool", 0): (100, 0, 1, 1, 100),
        ("private pool (0, 1)", 0): (100, 30, 1, 1, 70),
        ("private pool (0, 1)", 7): (100, 50, 1, 2, 50),
        (None, 0): (100, 0, 1, 1, 100),
    }
    assert max(p.largest_gap_bytes for p in at_end) == 100


@pytest.mark.parametrize("name", ["train_19464", "ring_3000", "without_frames", "state_only_2023", "segments_only"])
def test_every_segment_of_a_real_snapshot_has_its_stream_and_pool(shared: Path, name: str) -> None:
    path = shared / "data/torch/snapshots" / f"{name}.pickle"
    for log in Reading(()).read_all(path):
        expected: dict[tuple[str | None, int], int] = {}
        for one in _segments_of(path):
            if one.get("device", 0) == log.device:
                pool = None
                if log.pool is not None:
                    first, second = one["segment_pool_id"]
                    pool = f"private pool ({first}, {second})" if first or second else "default pool"
                key = pool, one["stream"]
                expected[key] = expected.get(key, 0) + one["total_size"]
        at_end = [row for row in segments_of(log).pools if row.moment == 1]
        assert {(row.pool, row.stream): row.reserved_bytes for row in at_end} == expected


def test_chunks_that_are_mapped_and_unmapped_in_parts_are_those_of_a_model_page_by_page() -> None:
    """Stretches of twenty pages are mapped and unmapped, never in the pieces that they were mapped in."""
    page = 100
    for seed in range(60):
        chance = random.Random(seed)
        mapped: set[int] = set()
        rows: Rows = []
        for _ in range(30):
            begin = chance.randrange(20)
            stop = chance.randrange(begin, 20) + 1
            alike = {number in mapped for number in range(begin, stop)}
            if len(alike) == 1:
                rows.append((X if alike == {True} else R, (stop - begin) * page, (1 + begin) * page))
                mapped.symmetric_difference_update(range(begin, stop))
        chosen = sorted(chance.sample(sorted(mapped), k=len(mapped) // 2))
        rows += [(A, 60, (1 + number) * page) for number in chosen]
        log = EventLog.from_rows(
            rows, stream=np.full(len(rows), 5), line=np.arange(1, len(rows) + 1), facts=Facts(chunks_join=True)
        )
        found = segments_of(log)
        end, pools = found.moments[1], [row for row in found.pools if row.moment == 1]
        free = [number in mapped and not (number in chosen and at < 60) for number in range(20) for at in range(page)]
        gaps = sum(here and not before for before, here in itertools.pairwise([False, *free]))
        assert (end.reserved_bytes, end.gaps, end.gap_bytes) == (len(mapped) * page, gaps, sum(free)), seed
        assert sum(row.reserved_bytes for row in pools) == len(mapped) * page
        assert (end.outside_bytes, sum(row.allocated_bytes for row in pools)) == (0, 60 * len(chosen))


def test_a_window_that_never_rises_has_its_peak_where_it_starts() -> None:
    # Two blocks of 1,000 bytes from the second and third event on, of which the window frees one after the other.
    rows: Rows = [(R, 2000, 1000), (A, 1000, 1000), (A, 1000, 2000), (F, 1000, 1000), (A, 500, 1000), (F, 1000, 2000)]
    (found,) = segments([Window(made(rows), "w", 3, 6, 0, 1 << 40, 1, 1)])
    peak = found.moments[0]
    assert (peak.event, peak.allocated_bytes, peak.gaps) == (2, 2000, 0)


def test_before_the_first_recorded_event_there_is_no_event_to_name() -> None:
    log = EventLog.from_rows([(R, 1000, 1000), (A, 400, 1000), (F, 400, 1000)], facts=Facts(opening=2))
    peak, end = segments_of(log).moments
    assert (peak.event, peak.line, peak.allocated_bytes, peak.largest_gap_bytes) == (None, None, 400, 600)
    assert (end.event, end.allocated_bytes) == (2, 0)


def test_where_blocks_hold_more_than_chunks_nothing_is_said_to_be_free() -> None:
    end = segments_of(made([(R, 100, 0), (A, 300, 5000)])).moments[1]
    assert (end.reserved_bytes, end.allocated_bytes, end.free_bytes) == (100, 300, None)


def test_a_failure_belongs_to_the_window_that_holds_its_line() -> None:
    log = made(TWO_CHUNKS, ooms=(OutOfMemory(4, 5, "GPU 0", 4096, None, "oom"),))
    # Offsets [0, 4), [4, 5) and [5, 6).
    cut = [Window(log, "w", lo, hi, lo, hi, lo + 1, hi) for lo, hi in ((0, 4), (4, 5), (5, 6))]
    assert [sum(moment.at == "oom" for moment in one.moments) for one in segments(cut)] == [0, 1, 0]


def test_what_is_unmapped_after_a_moment_is_there_at_that_moment() -> None:
    log = made([(R, 1000, 1000), (A, 100, 1000), (X, 400, 1600)], chunks_join=True)
    assert [segments_of(log, hi).moments[1].gap_bytes for hi in (2, 3)] == [900, 500]


def test_a_gap_right_below_a_power_of_two_is_in_the_row_below() -> None:
    """2 ** 54 - 1 is no floating-point number; the nearest one is 2 ** 54."""
    log = made([(R, 1 << 54, 1 << 20), (A, 1, 1 << 20)])
    (row,) = [row for row in segments_of(log).histogram if row.moment == 1]
    assert (row.low_bytes, row.gap_bytes) == (1 << 53, (1 << 54) - 1)


def test_a_block_that_begins_where_a_chunk_ends_is_outside() -> None:
    assert segments_of(made([(R, 1000, 1000), (A, 10, 2000)])).moments[1].outside_bytes == 10


def test_releases_of_which_only_some_have_an_address_leave_gaps_unknown() -> None:
    rows: Rows = [(R, 100, 1000), (R, 100, 2000), (A, 10, 1000), (F, 10, 1000), (X, 100, 0), (X, 100, 2000)]
    assert segments_of(made(rows)).moments[1].gaps is None


def test_a_chunk_that_a_torn_line_makes_too_long_ends_with_the_address_space() -> None:
    begin = (1 << 64) - 10
    addr, size = gaps_between(
        (np.array([begin], np.uint64), np.array([1 << 40])), (np.array([begin + 2], np.uint64), np.array([3]))
    )
    assert list(zip(addr.tolist(), size.tolist(), strict=True)) == [(begin, 2), (begin + 5, 4)]


def test_a_failure_that_is_printed_twice_is_one_moment_that_says_what_was_asked_for() -> None:
    printed = [(4, None), (4, 4096), (5, 4096), (6, 4096), (6, 8192)]  # after the ALLOC at offset 4 it is another one
    ooms = tuple(OutOfMemory(at, at + 1, "", size, None, "oom") for at, size in printed)
    moments = segments_of(made(TWO_CHUNKS, ooms=ooms)).moments[2:]
    assert [(moment.line, moment.requested_bytes) for moment in moments] == [(5, 4096), (6, 4096), (7, 8192)]


def test_a_window_before_the_first_event_has_moments() -> None:
    (found,) = segments([Window(made(TWO_CHUNKS), "w", 0, 0, 0, 0, 1, 0)])
    assert [(moment.event, moment.reserved_bytes, moment.gaps) for moment in found.moments] == [(None, 0, 0)] * 2


def test_chunks_over_each_other_leave_gaps_unknown() -> None:
    """As two processes in one log write them: [1000, 2000) and [1500, 1800)."""
    rows: Rows = [(R, 1000, 1000), (A, 100, 1000), (R, 300, 1500), (X, 300, 1500), (R, 500, 2000)]
    ends = [segments_of(made(rows), hi).moments[1] for hi in (2, 3, 4, 5)]
    assert [(end.reserved_bytes, end.chunks, end.gap_bytes) for end in ends] == [
        (1000, 1, 900),
        (1300, None, None),
        (1000, 1, 900),
        (1500, 2, 1400),
    ]
