"""RMM's CSV logs: real ones, those of all years, rows amid other text, and damaged ones."""

from __future__ import annotations

import gzip
import io
import random
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from texts import mutate, read_packed

from memlens.analyzers import get
from memlens.errors import InputError, MemlensError, NoEventsError
from memlens.events import EventLog, Kind
from memlens.inputs import blocks
from memlens.inputs.file_source import open_source
from memlens.inputs.rmm import looks_like, read_rmm
from memlens.inputs.rmm_rows import FAILURE, ROW, read_row
from memlens.windows.patterns import Pattern

FOLDER = "data/rmm"
LOGS = ("rmm_log.dev0.csv", "rmm_log_large.dev0.csv.gz")
SECONDS = 2.0
HEADER = b"Thread,Time,Action,Pointer,Size,Stream\n"


def read(text: bytes, patterns: tuple[Pattern, ...] = ()) -> EventLog:
    (log,) = read_rmm(open_source(io.BytesIO(text)), patterns=patterns)
    return log


def plain(text: bytes) -> tuple[list[tuple[int, ...]], list[int], int]:
    """Line by line: events as (kind, size, addr, time, thread, stream, line), lines of failures, malformed lines."""
    events: list[tuple[int, ...]] = []
    failures: list[int] = []
    malformed = 0
    for number, line in enumerate(text.split(b"\n"), 1):
        line = line.rstrip(b"\r")  # noqa: PLW2901
        row, found = read_row(line), ROW.fullmatch(line)
        actions = [
            m.start() for m in re.finditer(rb"(?<=[0-9]),(?=(?:allocate|allocate failure|free|deallocate),)", line)
        ]
        if row is not None and found is not None:
            actions.remove(found.start("action") - 1)
            if row[0] == FAILURE:
                failures.append(number)
            elif row[1] or row[2]:
                events.append((*row, number))
        malformed += bool(actions)
    return events, failures, malformed


def assert_as_plain(text: bytes) -> None:
    events, failures, malformed = plain(text)
    if not events:
        with pytest.raises(MemlensError):
            read(text)
        return
    log = read(text)
    columns = (log.kind, log.size, log.addr, log.time_us, log.thread, log.stream, log.line)
    found = list(zip(*(column.tolist() for column in columns if column is not None), strict=True))
    days = [(mine[3] - wanted[3]) % (24 * 3600 * 10**6) for mine, wanted in zip(found, events, strict=True)]
    assert not any(days)
    assert [(*row[:3], *row[4:]) for row in found] == [(*row[:3], *row[4:]) for row in events]
    assert [oom.line for oom in log.facts.ooms] == failures
    assert log.facts.malformed == malformed
    starts = [0, *(match.end() for match in re.finditer(rb"\n", text))]
    assert log.offset.tolist() == [starts[row[-1] - 1] for row in events]
    assert log.facts.lines == text.count(b"\n") + (not text.endswith(b"\n"))


@pytest.mark.parametrize("name", LOGS)
def test_a_real_log_is_read_as_line_by_line(shared: Path, name: str) -> None:
    assert_as_plain(read_packed(shared / FOLDER / name))


@pytest.mark.parametrize(("name", "rows"), [(LOGS[0], 1203), (LOGS[1], 240_003)])
def test_a_real_log_pairs_by_row_order(shared: Path, name: str, rows: int) -> None:
    (log,) = read_rmm(open_source(shared / FOLDER / name))
    trust = log.trust
    assert (len(log) + len(log.facts.ooms), log.device, log.facts.layer) == (rows, 0, "rmm")
    assert (trust.unknown_frees, trust.double_allocs, trust.size_mismatches, trust.malformed) == (0, 0, 0, 0)
    (oom,) = log.facts.ooms
    assert (oom.line, oom.requested_bytes, oom.device) == (2, 2147483648, "GPU 0")
    assert log.time_us is not None
    assert (np.diff(log.time_us) < 0).sum() == (2210 if rows > 100_000 else (np.diff(log.time_us) < 0).sum())


def test_lines_of_a_file_can_be_looked_up(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.dev3.csv"
    path.write_bytes(gzip.decompress((shared / FOLDER / LOGS[1]).read_bytes()))
    (log,) = read_rmm(open_source(path))
    lines = path.read_bytes().split(b"\n")
    chosen = [0, 1, 1000, 123_456, len(log) - 1]
    numbers = log.source.line_numbers(log.offset[chosen].tolist())
    assert log.source.lines(log.offset[chosen].tolist()) == [lines[(number or 0) - 1] for number in numbers]
    assert (log.device, log.line) == (3, None)
    assert log.source.parts([(0, 6)]) == [b"Thread"]


def test_anchors_among_the_rows_cut_windows() -> None:
    row = b"1,00:00:0%d.000000,allocate,0x%x,8,0\n"
    text = b"STEP 1\n" + row % (1, 16) + b"STEP 2\n" + row % (2, 32) + row % (3, 48)
    by = Pattern(r"STEP (\d+)", regex=True)
    log = read(text, (by,))
    assert [(window.name, len(window)) for window in log.windows(by.text)] == [("1", 1), ("2", 2)]


@pytest.mark.parametrize(
    "text",
    [
        b"Time,Action,Pointer,Size,Stream\n10:00:00:000001,allocate,0x10,256,0\n10:00:00:000002,free,0x10,256,0\n",
        HEADER + b"7,10:00:00:000001,allocate,0x10,256,0x0\n7,10:00:00:000002,free,0x10,256,0x0\n",
        HEADER + b"7,10:00:00.000001,allocate,0x10,256,0x2\n7,10:00:00.000002,free,0x10,256,0x2\n",
        b"starting\n7,10:00:00.000001,allocate,0x10,256,0x2\nother, text\n7,10:00:00.000002,free,0x10,256,0x2\n",
        b"7,10:00:00.000001,allocate,0x10,256,0x2\r\n7,10:00:00.000002,free,0x10,256,0x2\r\n",
        b"[stderr] 7,10:00:00.000001,allocate,0x10,256,0\n[stderr] 7,10:00:00.000002,free,0x10,256,0\n",
        b"7,1700000000.000001,allocate,0x10,256,0\n7,1700000000.000002,deallocate,0x10,256,0\n",
        HEADER + b"7,10:00:00.000001,allocate,16,256,139637976727552\n7,10:00:00.000002,free,16,256,139637976727552",
    ],
    ids=["0.13", "0.14", "2021", "no header", "CRLF", "prefix", "seconds", "numbers, no line end"],
)
def test_every_era_is_read(text: bytes) -> None:
    log = read(text)
    assert [Kind(kind).name for kind in log.kind] == ["ALLOC", "FREE"]
    assert (log.size.tolist(), log.addr.tolist()) == ([256, 256], [16, 16])
    assert log.time_us is not None
    assert np.diff(log.time_us).tolist() == [1]
    assert log.trust.unknown_frees == 0
    assert looks_like(text[: text.index(b"free")] if b"free" in text else text)
    assert_as_plain(text)


def test_times_go_on_over_midnight() -> None:
    stamps = (b"23:59:59.999999", b"00:00:00.000001", b"23:59:59.999998", b"00:00:00.000003")
    log = read(b"".join(b"1,%b,allocate,0x%x,8,0\n" % (stamp, 16 * k + 16) for k, stamp in enumerate(stamps)))
    assert log.time_us is not None
    assert np.diff(log.time_us).tolist() == [2, -3, 5]


def test_failures_are_told_and_are_no_events() -> None:
    fail = b"1,00:00:01.000000,allocate failure,%b,4096,0\n"
    log = read(HEADER + fail % b"(nil)" + fail % b"0x0" + b"1,00:00:01.000000,allocate,0x10,8,0\n")
    assert len(log) == 1
    assert [(oom.line, oom.requested_bytes) for oom in log.facts.ooms] == [(2, 4096), (3, 4096)]


def test_what_looks_like_a_row_and_is_none_is_counted_and_shown() -> None:
    good = b"1,00:00:01.000000,allocate,0x10,8,0\n"
    torn = [
        b"1,00:00:01.000000,allocate,0x10,8\n",
        b"1,00:00:01.000000,free,0x10,99999999999999999999,0\n",
        good[:-1] + good,
    ]
    log = read(good + b"".join(torn))
    assert log.facts.malformed == 3
    assert [sample.line for sample in log.facts.malformed_samples] == [2, 3, 4]
    assert "99999999999999999999" in log.facts.malformed_samples[1].text


def test_a_log_cut_short_gives_what_there_is(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    path.write_bytes((shared / FOLDER / LOGS[1]).read_bytes()[:-100_000])
    (log,) = read_rmm(open_source(path))
    assert "gzip" in log.facts.cut_short
    with pytest.raises(InputError, match="gzip"):
        read_rmm(open_source(path), strict=True)


@pytest.mark.parametrize("text", [b"", HEADER, b"\x00" * 1000, b"x" * 100_000, b",free,\n" * 1000])
def test_no_row_is_an_error_with_words(text: bytes) -> None:
    with pytest.raises(NoEventsError) as raised:
        read(text)
    assert "log_file_name" in raised.value.hint


def test_the_interface_of_2019_is_named() -> None:
    text = b"Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,Current Allocs,Start,End,Elapsed,Location\nAlloc,0\n"
    assert looks_like(text)
    with pytest.raises(InputError, match="2019"):
        read(text)


def test_sizes_beyond_all_memory_are_an_error() -> None:
    row = b"1,00:00:01.000000,allocate,0x10,140000000000000,0\n"
    with pytest.raises(InputError, match="4 EiB"):
        read(row * 40_000)


@pytest.mark.parametrize("head", [b"", b"a,b,c\n1,2,3\n", b"I0712 Alloc 5 bytes, ptr = 0x5\n", b'{"traceEvents": ['])
def test_other_text_is_not_taken_for_it(head: bytes) -> None:
    assert not looks_like(head)


numbers = st.one_of(st.integers(0, 9), st.integers(0, 10**16)).map(lambda n: b"%d" % n)
pointers = st.one_of(
    st.sampled_from([b"0x10", b"0xffffffffffffffff", b"(nil)", b"0x0", b"16", b"0x", b"0x1G", b"0X10"]),
    st.integers(0, 1 << 64).map(lambda n: b"0x%x" % n),
)
rows = st.builds(
    lambda *parts: b"".join(parts),
    st.sampled_from([b"", b"", b"", b"[x] ", b"word", b"1,", b"12:00:00.000000,"]),
    st.sampled_from([b"5563,", b"5563,", b"", b"-1,", b"x,", b"1234567890123456,"]),
    st.sampled_from(
        [b"10:29:36.035616", b"10:29:36:035616", b"1:2:3.4", b"1700000000.5", b"17", b"", b"a", b"23:59:59.999999"]
    ),
    st.sampled_from([b",allocate,", b",free,", b",deallocate,", b",allocate failure,", b",Allocate,", b",free"]),
    pointers,
    st.sampled_from([b",", b",", b",", b"", b";"]),
    numbers,
    st.sampled_from([b",", b",", b",", b""]),
    st.one_of(pointers, numbers),
    st.sampled_from([b"", b"", b"", b"\r", b" ", b" \t", b"x", b","]),
)
lines = st.one_of(
    rows, rows, rows, st.builds(lambda a, b: a + b, rows, rows), st.sampled_from([b"", b"text", HEADER[:-1]])
)


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, min_size=1, max_size=12), st.booleans())
def test_made_rows_are_read_as_line_by_line(made: list[bytes], ends: bool) -> None:
    assert_as_plain(b"\n".join(made) + b"\n" * ends)


def test_it_does_not_matter_where_blocks_end(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (shared / FOLDER / LOGS[0]).read_bytes()
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 10)
    assert_as_plain(text)


def test_damaged_logs_give_figures_that_agree_or_words(shared: Path) -> None:
    text = (shared / FOLDER / LOGS[0]).read_bytes()
    chance = random.Random(5)
    end = time.monotonic() + SECONDS
    rounds = 0
    while rounds < 3 or time.monotonic() < end:
        damaged = mutate(text[: chance.randrange(1, len(text))], chance)
        try:
            log = read(damaged)
            (remaining,), (unmatched,) = (get(name).many([log.whole]) for name in ("remaining", "unmatched"))
            held = (
                unmatched.held_bytes
                - unmatched.released_bytes
                - unmatched.unknown_free_bytes
                + unmatched.mismatch_bytes
            )
            assert remaining.remaining_bytes == held
            assert log.trust.allocs + log.trust.frees == len(log)
        except MemlensError as error:
            assert error.message
        rounds += 1
