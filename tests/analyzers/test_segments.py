"""Chunks, blocks and the gaps between them: by arithmetic, against a plain model, and against what the allocators report."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import memlens
from memlens.analyzers import get
from memlens.analyzers.chunks import gaps_between
from memlens.analyzers.segments import Segments, segments
from memlens.events import Kind
from memlens.facts import Facts, OutOfMemory
from memlens.log import Log
from memlens.windows.windows import Window

A, F, R, X = Kind.ALLOC, Kind.FREE, Kind.RESERVE, Kind.RELEASE
Rows = list[tuple[Kind, int, int]]


def segments_of(log: Log, hi: int | None = None) -> Segments:
    stop = len(log) if hi is None else hi
    found = get("segments")(Window(log, "w", log.facts.opening, stop, 0, 1 << 40, 1, 1))
    assert isinstance(found, Segments)
    return found


def made(rows: Rows, **facts: Any) -> Log:
    return Log.from_rows(rows, line=np.arange(1, len(rows) + 1), facts=Facts(**facts))


#: Two chunks, [1000, 2000) and [2000, 2500), and three blocks, one of which is freed.
TWO_CHUNKS: Rows = [(R, 1000, 1000), (A, 200, 1000), (A, 300, 1200), (R, 500, 2000), (A, 500, 2000), (F, 200, 1000)]


def test_a_chunk_beyond_the_address_space_ends_with_it() -> None:
    """As a torn line may say: 4096 bytes from 256 before the end of all addresses on, with a RELEASE that names its size alone."""
    begin = (1 << 64) - 256
    peak, end = segments_of(made([(R, 4096, begin), (A, 200, begin), (F, 200, begin), (X, 4096, 0)])).moments
    # The last address is no begin.
    assert (peak.reserved_bytes, peak.allocated_bytes, peak.gap_bytes) == (4096, 200, 55)
    assert (end.reserved_bytes, end.chunks, end.gaps) == (0, 0, 0)


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


def test_chunks_are_told_apart_by_pool_and_stream() -> None:
    """Four chunks of 100 bytes: one of the default pool, three of a private one, of which one is of another stream."""
    rows: Rows = [(R, 100, 1000), (R, 100, 2000), (R, 100, 3000), (R, 100, 4000), (A, 30, 2000), (A, 50, 4010)]
    log = Log.from_rows(
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
        log = Log.from_rows(
            rows, stream=np.full(len(rows), 5), line=np.arange(1, len(rows) + 1), facts=Facts(chunks_join=True)
        )
        found = segments_of(log)
        end, pools = found.moments[1], [row for row in found.pools if row.moment == 1]
        free = [number in mapped and not (number in chosen and at < 60) for number in range(20) for at in range(page)]
        gaps = sum(here and not before for before, here in itertools.pairwise([False, *free]))
        assert (end.reserved_bytes, end.gaps, end.gap_bytes) == (len(mapped) * page, gaps, sum(free)), seed
        assert sum(row.reserved_bytes for row in pools) == len(mapped) * page
        assert (end.outside_bytes, sum(row.allocated_bytes for row in pools)) == (0, 60 * len(chosen))


def test_where_blocks_hold_more_than_chunks_nothing_is_said_to_be_free() -> None:
    end = segments_of(made([(R, 100, 0), (A, 300, 5000)])).moments[1]
    assert (end.reserved_bytes, end.allocated_bytes, end.free_bytes) == (100, 300, None)


def test_a_failure_belongs_to_the_window_that_holds_its_line() -> None:
    log = made(TWO_CHUNKS, ooms=(OutOfMemory(4, 5, "GPU 0", 4096, None, "oom"),))
    # Offsets [0, 4), [4, 5) and [5, 6).
    cut = [Window(log, "w", lo, hi, lo, hi, lo + 1, hi) for lo, hi in ((0, 4), (4, 5), (5, 6))]
    assert [sum(moment.at == "oom" for moment in one.moments) for one in segments(cut)] == [0, 1, 0]


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
