"""RMM's CSV logs: real ones, those of all years, rows amid other text, and damaged ones."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many, some
from texts import read_packed

from memlens.errors import InputError, MemlensError, NoEventsError
from memlens.events import Kind
from memlens.inputs.file_source import FileSource
from memlens.inputs.input_format import Request
from memlens.inputs.registry import get_format
from memlens.inputs.rmm import microseconds, recognise
from memlens.log import Log
from memlens.windows.patterns import Pattern

FOLDER = "data/rmm"
LOGS = ("rmm_log.dev0.csv", "rmm_log_large.dev0.csv.gz")
HEADER = b"Thread,Time,Action,Pointer,Size,Stream\n"


#: One line without its end, as one expression: what the formats of the module are held against.
ROW = re.compile(
    rb"(?:.*?\W)??"
    rb"(?:(?P<thread>[0-9]{1,15}),)?"
    rb"(?P<time>[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}[.:][0-9]{1,6}|[0-9]{1,12}(?:\.[0-9]{1,9})?)"
    rb",(?P<action>allocate failure|allocate|free|deallocate)"
    rb",(?P<pointer>0x[0-9a-f]{1,16}|\(nil\)|[0-9]{1,15})"
    rb",(?P<size>[0-9]{1,15})"
    rb",(?P<stream>0x[0-9a-f]{1,15}|\(nil\)|[0-9]{1,15})[ \t]*",
    re.DOTALL,
)
FAILURE = -1
KINDS = {b"allocate": Kind.ALLOC, b"free": Kind.FREE, b"deallocate": Kind.FREE, b"allocate failure": FAILURE}
HOUR_US = 3600 * 10**6


def read_source(where: object, patterns: tuple[Pattern, ...] = (), *, strict: bool = False) -> Log:
    (log,) = get_format("rmm").read(FileSource(where), Request(patterns, strict=strict))  # type: ignore[arg-type]
    return log


def read(text: bytes, patterns: tuple[Pattern, ...] = ()) -> Log:
    return read_source(io.BytesIO(text), patterns)


def looks_like(head: bytes) -> bool:
    return bool(recognise(head))


def number(text: bytes) -> int:
    return 0 if text == b"(nil)" else int(text, 0) if text.startswith(b"0x") else int(text)


def read_row(line: bytes) -> tuple[int, int, int, int, int, int] | None:
    """One line as (kind, size, addr, time, thread, stream)."""
    found = ROW.fullmatch(line)
    if found is None or int(found["size"]) > 1 << 47:
        return None
    thread = int(found["thread"]) if found["thread"] else -1
    return (
        *(KINDS[found["action"]], int(found["size"]), number(found["pointer"])),
        *(microseconds(found["time"]), thread, number(found["stream"])),
    )


@pytest.mark.parametrize(
    ("text", "time_us"),
    [(b"01:02:03.5", 3723_500_000), (b"1:2:3:000004", 3723_000_004), (b"17", 17_000_000), (b"1.0000019", 1_000_001)],
)
def test_times_are_microseconds(text: bytes, time_us: int) -> None:
    assert microseconds(text) == time_us


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


@pytest.mark.parametrize("name", some(LOGS))
def test_a_real_log_is_read_as_line_by_line(shared: Path, name: str) -> None:
    assert_as_plain(read_packed(shared / FOLDER / name))


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


@pytest.mark.parametrize(
    ("hours", "days"),
    [
        # A step back by more than twelve hours is midnight; one by less is a thread that is late with its row.
        ((13, 1), (0, 0)),
        ((13.5, 1), (0, 1)),
        ((23, 1, 23, 2), (0, 1, 0, 1)),
        ((23, 12, 23), (0, 0, 0)),
        ((20, 7, 19), (0, 1, 1)),
        # One forward by more than twelve hours is a row of the day before.
        ((1, 13, 1), (0, 0, 0)),
        ((1, 13.5, 1), (0, -1, 0)),
    ],
)
def test_a_step_by_more_than_half_a_day_is_midnight(hours: tuple[float, ...], days: tuple[int, ...]) -> None:
    text = b"".join(
        b"1,%02d:%02d:00.000000,allocate,0x%x,8,0\n" % (int(hour), hour % 1 * 60, 16 * k + 16)
        for k, hour in enumerate(hours)
    )
    log = read(text)
    assert log.time_us is not None
    assert log.time_us.tolist() == [(hour + 24 * day) * HOUR_US for hour, day in zip(hours, days, strict=True)]


def test_seconds_do_not_go_over_midnight() -> None:
    log = read(b"1,1700000000.5,allocate,0x10,8,0\n1,1699950000,allocate,0x20,8,0\n")
    assert log.time_us is not None
    assert np.diff(log.time_us).tolist() == [-50_000_500_000]


def test_failures_are_told_and_are_no_events() -> None:
    fail = b"1,00:00:01.000000,allocate failure,%b,4096,0\n"
    log = read(HEADER + fail % b"(nil)" + fail % b"0x0" + b"1,00:00:01.000000,allocate,0x10,8,0\n")
    assert len(log) == 1
    assert [(oom.line, oom.requested_bytes) for oom in log.facts.ooms] == [(2, 4096), (3, 4096)]


def test_a_log_cut_short_gives_what_there_is(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    path.write_bytes((shared / FOLDER / LOGS[1]).read_bytes()[:-100_000])
    log = read_source(path)
    assert "gzip" in log.facts.cut_short
    with pytest.raises(InputError, match="gzip"):
        read_source(path, strict=True)


@pytest.mark.parametrize("text", [b"", HEADER, b"\x00" * 1000, b"x" * 100_000, b",free,\n" * 1000])
def test_no_row_is_an_error_with_words(text: bytes) -> None:
    with pytest.raises(NoEventsError) as raised:
        read(text)
    assert "log_file_name" in raised.value.hint


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
parts: tuple[st.SearchStrategy[bytes], ...] = (
    st.sampled_from([b"", b"", b"", b"[x] ", b"word", b"1,", b"12:00:00.000000,", b"\x1b[31m", b"1,\x1b[0m"]),
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
rows = st.tuples(*parts).map(b"".join)
lines = st.one_of(
    rows, rows, rows, st.builds(lambda a, b: a + b, rows, rows), st.sampled_from([b"", b"text", HEADER[:-1]])
)


@settings(max_examples=many(300))
@given(st.lists(lines, min_size=1, max_size=12), st.booleans())
def test_made_rows_are_read_as_line_by_line(made: list[bytes], ends: bool) -> None:
    assert_as_plain(b"\n".join(made) + b"\n" * ends)
