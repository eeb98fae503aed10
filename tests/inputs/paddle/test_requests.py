"""Lines of requests are read where they are asked for, as regular expressions of their own find them, wherever blocks are cut."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import pytest
from in_threads import in_small_blocks
from msgspec import structs
from night import some
from paddle import read

from memlens.facts import RequestLine, RequestLines

HEADER = rb"I\d{4} \S+ +(\d+) [\w.]+:\d+\] "
#: By what they are: how they begin (a header or anything), what stands after it, and which values are wanted in which order.
FORMS = {
    RequestLine.REQUEST: (rb"Allocate (\d+) bytes, aligned to (\d+)", (0, 1)),
    RequestLine.STREAM_REQUEST: (rb"Try allocate (\d+) bytes", (0,)),
    RequestLine.SERVED: (rb"Allocate (\d+) bytes from chunk size (\d+), remaining", (0, 1)),
    RequestLine.CHUNK_SIZE: (rb"chunk_size_:(\d+)", (0,)),
}
EVENT = re.compile(rb"(?:Alloc|Free) \d+ bytes, ptr = 0x|Not found and reallocate \d+\(|Free chunk with size \d")
#: All formats, on lines of two threads, one without a header, and numbers that no line can mean.
LINES = [
    b"I1120 10:22:32.856109 13292 init.cc:238] ENV [CUSTOM_DEVICE_ROOT]=/opt/device",
    b"I1120 10:22:32.856109 13292 auto_growth_best_fit_allocator.cc:99] chunk_size_:4194304",
    b"I1120 10:22:32.856109 13292 auto_growth_best_fit_allocator.cc:155] PreAlloc small_pool_pre_alloc_in_mb = 4",
    b"I1120 10:22:32.856109 13292 auto_growth_best_fit_allocator.cc:169] PreAlloc large_pool_pre_alloc_in_mb = 16",
    b"I1120 10:22:32.856109    77 auto_growth_best_fit_allocator.cc:191] Allocate 16 bytes, aligned to 256, extra size 32",
    b"I1120 10:22:32.856109 13292 auto_growth_best_fit_allocator.cc:191] Allocate 999999999999999 bytes, aligned to 256, extra size 0",
    b"I1120 10:22:32.856109    77 auto_growth_best_fit_allocator.cc:204] Allocate 256 bytes from chunk size 4194304, remaining 4194048",
    b"I1120 10:22:32.856109    77 auto_growth_best_fit_allocator.cc:270] Alloc 256 bytes, ptr = 0x1000",
    b"Allocate 1 bytes, aligned to 512, extra size 0",
    b"auto_growth_best_fit_allocator_v2.cc:90] Not found and reallocate 512(0x7f01) by strict_matching_state.",
]


def rows(lines: RequestLines) -> list[tuple[int, ...]]:
    return list(zip(*(column.tolist() for column in structs.astuple(lines)), strict=True))


@pytest.mark.parametrize("size", [64, 200, 1 << 20])
def test_all_kinds_of_lines_with_their_places(size: int) -> None:
    text = b"\n".join(LINES) + b"\n"
    starts = [0]
    for line in LINES:
        starts.append(starts[-1] + len(line) + 1)
    with in_small_blocks(size, 1):
        found = read(io.BytesIO(text), columns=("requests",)).facts.requests
    assert found is not None
    mebibyte = 1 << 20
    assert rows(found) == [
        (RequestLine.CUSTOM_DEVICE, starts[0], 0, 13292, 0, 0),
        (RequestLine.CHUNK_SIZE, starts[1], 0, 13292, 4 * mebibyte, 0),
        (RequestLine.PREALLOC, starts[2], 0, 13292, 0, 4 * mebibyte),
        (RequestLine.PREALLOC, starts[3], 0, 13292, 1, 16 * mebibyte),
        (RequestLine.REQUEST, starts[4], 0, 77, 16, 256),
        (RequestLine.PADDED, starts[4], 0, -1, 32, 0),
        (RequestLine.SERVED, starts[6], 0, 77, 256, 4 * mebibyte),
        (RequestLine.REQUEST, starts[8], 1, -1, 1, 512),
        (RequestLine.STRICT, starts[9], 2, -1, 0, 0),
    ]


def test_they_are_not_read_unless_they_are_asked_for() -> None:
    assert read(io.BytesIO(b"\n".join(LINES))).facts.requests is None


@pytest.mark.parametrize(
    "name", some(["04_threads_30_ast_pt_transformer.log.gz", "10_v8_dygraph_331.log.gz", "10_v10_ast_pt_30.log.gz"], 2)
)
def test_real_logs_give_what_regular_expressions_find(shared: Path, name: str) -> None:
    path = shared / "data" / "paddle" / name
    with in_small_blocks(10_000, 2):
        log = read(path, columns=("requests",))
    assert log.facts.requests is not None
    wanted, offset, events = [], 0, 0
    forms = {what: re.compile(HEADER + form) for what, (form, _) in FORMS.items()}
    for line in gzip.decompress(path.read_bytes()).splitlines(keepends=True):
        for what, form in forms.items():
            match = form.match(line)
            if match is not None:
                thread, *values = map(int, match.groups())
                wanted.append((what, offset, events, thread, *values, *[0] * (2 - len(values))))
        events += bool(EVENT.search(line)) and log.facts.layer == "auto_growth"
        offset += len(line)
    layers = {RequestLine.STREAM_REQUEST} if log.facts.layer == "auto_growth" else {RequestLine.REQUEST}
    found = [row for row in rows(log.facts.requests) if row[0] in FORMS and row[0] not in layers]
    if log.facts.layer != "auto_growth":  # its events are of other lines
        found, wanted = ([(*row[:2], *row[3:]) for row in part] for part in (found, wanted))
    assert found == [row for row in wanted if row[0] not in layers]
