"""The reader gives what the regular expressions give, on valid, broken and interleaved lines, wherever blocks are cut."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from in_threads import in_small_blocks
from night import many, some
from paddle import read
from plain_paddle import choose_plain, microseconds, read_plain, rows, rows_of
from texts import mutate

from memlens.inputs.paddle.layers import Layer
from memlens.inputs.paddle.lines import column_of_times

HEADER = "I1120 10:22:32.856307 13292 auto_growth_best_fit_allocator.cc:270] "


#: An event in front, so that there is a log.
FIRST = b"Alloc 7 bytes, ptr = 0x7\n"


def assert_same(text: bytes, size: int = 1 << 20, threads: int = 1) -> None:
    text = FIRST + text
    with in_small_blocks(size, threads):
        log = read(io.BytesIO(text), columns=("thread", "time_us"), layer="auto_growth")
    plain = read_plain(text)
    assert rows(log) == rows_of(choose_plain(text, Layer.AUTO_GROWTH)[0])  # with streams, which other layers name
    assert log.facts.malformed == len(plain.malformed)
    assert [sample.offset for sample in log.facts.malformed_samples] == plain.malformed[:5]
    assert log.facts.threads == tuple(sorted({event.thread for event in plain.events} - {-1}))
    assert log.facts.unstamped == sum(event.thread == -1 for event in plain.events)


threads = st.sampled_from(["13292", " 7128", "   42", "    7", "2778380", "2569728960", "123456789012345"])
dates = st.sampled_from(["1120", "0229", "0101", "1231", "20240229", "20220507", "1399", "0000", "19991231"])
stamps = st.sampled_from(["10:22:32.856307", "23:59:59.999999", "00:00:00.000000", "99:99:99.000001"])
files = st.sampled_from(
    ["auto_growth_best_fit_allocator.cc:270", "auto_growth_best_fit_allocator_v2.cc:9", "a.cc:1", "x" * 70 + ".cc:5"]
)
headers = st.one_of(
    st.builds("{}{} {} {} {}] ".format, st.sampled_from("IWEFX"), dates, stamps, threads, files),
    st.sampled_from(["", HEADER, HEADER + "   ", HEADER[:-1], HEADER[:-1] + "\t", "69: " + HEADER, "2024-11-20T10:22:32Z " + HEADER,
                     "\x1b[32m" + HEADER, "\x1b[32m" + HEADER + "\x1b[0m", HEADER[:-2] + "\x1b[0m] ", "STEP" + HEADER, "[alloc] ",
                     "270] ", HEADER[3:], "I1120 10:22:32.856307  13292 a.cc:1] ", "I1120 10:22:32.856307 1a a.cc:1] ",
                     "I1120 10:22:32.85630 13292 auto_growth_best_fit_allocator.cc:270] "]),
)  # fmt: skip
sizes = st.one_of(
    st.sampled_from(["256", "0", "3538944", "99999999", "100000000", "140737488355328", "140737488355329", "999999999999999",
                     "1234567890123456", "12345678901234567890", "", "25x", "-256", "0256"]),
    st.integers(0, 1 << 40).map(str),
)  # fmt: skip
addresses = st.one_of(
    st.sampled_from(["0x5606f8aeb000", "0x7f2b4c000000", "0x0", "0xffffffffffffffff", "0x1ffffffffffffffff", "0x", "0xG", "0",
                     "(nil)", "0x7F01", "0x7f01F", "0x12345678", "0x123456789"]),
    st.integers(0, 1 << 64).map(hex),
)  # fmt: skip
messages = st.one_of(
    st.builds("{} {} bytes, ptr = {}".format, st.sampled_from(["Alloc", "Free", "alloc", "ReAlloc", "cudaFree"]), sizes, addresses),
    st.builds("Allocate {} bytes, aligned to {}{}".format, sizes, sizes, st.sampled_from(["", ", extra size 0", "x"])),
    st.builds("Not found and reallocate {}({}), and remaining 0".format, sizes, addresses),
    st.builds("Not found and reallocate {}({}) by strict_matching_state.".format, sizes, addresses),
    st.builds("Not found and reallocate {}, and remaining 0".format, sizes),
    st.builds("Free chunk with size {}".format, sizes),
    st.builds("Free {} bytes and notify all waited threads, where waited_allocate_size_ = 0".format, sizes),
    st.builds("Free {} bytes on Place(gpu_pinned)".format, sizes),
    st.builds("Release 2 chunks, Free {} bytes.".format, sizes),
    st.builds("Allocate {} bytes from chunk size {}, remaining 0".format, sizes, sizes),
    st.builds("Thread 139 Allocate {} bytes at address {}  , stream: 0x55".format, sizes, addresses),
    st.builds("Free pointer={} on Place(hostdev:0)".format, addresses),
    st.sampled_from(["START SOT_CALL_0", "Alloc 25", "Free 2", "Alloc 256 bytes, pt", "Free 256 bytes", "Free 256 bytes.",
                     "6 bytes, ptr = 0x7f01", "Alloc 256 bytes, ptr = 0x", "Not found and reallocate", "Free chunk with siz",
                     "Allocator", "Alloc", "Free", ", ptr = 0x12", " bytes, ptr = 0x12", "", "\x00\x00", "\xff\xfe, ptr = 0x1"]),
)  # fmt: skip
lines = st.builds("{}{}{}".format, headers, messages, st.sampled_from(["", "", "", "\r", " trailing", "\x1b[0m"]))
#: A line, sometimes run together with the next one, or cut.
pieces = st.one_of(
    lines.map(lambda line: line + "\n"), lines, st.builds(lambda line, n: line[:n] + "\n", lines, st.integers(0, 120))
)
texts = st.lists(pieces, max_size=25).map(lambda parts: "".join(parts).encode("latin-1"))


#: Bytes of a block, and threads.
sizes_of_blocks = st.sampled_from([(150, 1), (400, 3), (1 << 20, 1)])


@given(texts, sizes_of_blocks)
@settings(max_examples=many(400))
@example(b"", (1 << 20, 1))
@example(b"Thread 139 Allocate 256 bytes at address 0x7  , stream: 0x55\n", (150, 1))
@example(b"Alloc 256 bytes, ptr = 0x7f01", (1 << 20, 1))
@example(b"Alloc 256 bytes, ptr = 0x7f01Free 256 bytes, ptr = 0x7f01Alloc 1 bytes, ptr = 0x2\n", (1 << 20, 1))
@example(HEADER.encode() + b"Alloc Alloc 256 bytes, ptr = 0x7f01\n", (1 << 20, 1))
def test_the_reader_gives_what_the_regular_expressions_give(text: bytes, how: tuple[int, int]) -> None:
    assert_same(text, *how)


@given(
    st.lists(
        st.tuples(st.sampled_from([11, 22, 33333]), st.sampled_from("rraf"), st.sampled_from([64, 200, 256])),
        max_size=60,
    ),
    sizes_of_blocks,
)
def test_requests_join_the_next_alloc_of_their_thread_within_and_across_blocks(
    said: list[tuple[int, str, int]], how: tuple[int, int]
) -> None:
    def line(thread: int, what: str, size: int) -> str:
        header = f"I1120 10:22:32.856307 {thread:5d} auto_growth_best_fit_allocator.cc:1] "
        message = {
            "r": f"Allocate {size - 8} bytes, aligned to {size}, extra size 0",
            "a": f"Alloc {size} bytes, ptr = 0x7f01",
            "f": f"Free {size} bytes, ptr = 0x7f01",
        }
        return header + message[what] + "\n"

    assert_same("".join(line(*item) for item in said).encode(), *how)


def test_requests_join_with_hundreds_of_threads_as_with_few() -> None:
    lines = []
    for step in range(900):
        header = f"I1120 10:22:32.856307 {10_000 + step * 7 % 300} auto_growth_best_fit_allocator.cc:1] "
        lines.append(header + f"Allocate {step} bytes, aligned to 1024, extra size 0")
        if step % 3:
            lines.append(
                header.replace(str(10_000 + step * 7 % 300), str(10_000 + step % 300)) + "Alloc 1024 bytes, ptr = 0x1"
            )
    assert_same("\n".join(lines).encode())
    assert any(event.requested >= 0 for event in read_plain("\n".join(lines).encode()).events)


REAL = (
    "01_first_venv_dygraph.log",
    "05_oom_331.log",
    "06_free_idle_chunk.log",
    "06_noprefix.log",
    "262_ast_cnn_pt.log",
    "331_parts_pir_transformer.log",
)


@pytest.mark.parametrize("name", some(REAL, 3))
def test_real_logs_and_mutations_of_them_are_read_as_the_regular_expressions_read_them(shared: Path, name: str) -> None:
    text = (shared / "data/paddle" / name).read_bytes()
    chance = random.Random(name)
    for _ in range(6):
        at = chance.randrange(max(len(text) - 60_000, 1))
        assert_same(text[at : at + 60_000])
        assert_same(mutate(text[at : at + 60_000], chance), 4096, 2)


def test_a_stamp_without_a_year_counts_from_new_year_and_one_with_a_year_from_1970() -> None:
    day = 24 * 3600 * 1_000_000
    assert microseconds(b"0102", b"00:00:01.000002") == day + 1_000_002
    assert microseconds(b"19700102", b"00:00:01.000002") == day + 1_000_002
    assert microseconds(b"1301", b"00:00:01.000002") == -1


@given(st.sampled_from([-1, 0, 1969, 1970, 2000, 2024, 9999]), st.integers(0, 9999), st.integers(0, 10**12 - 1))
def test_a_column_of_times_is_that_of_the_stamps(year: int, date: int, clock: int) -> None:
    stamp = f"{clock:012d}"
    time = f"{stamp[:2]}:{stamp[2:4]}:{stamp[4:6]}.{stamp[6:]}"
    one = microseconds(f"{f'{year:04d}' if year >= 0 else ''}{date:04d}".encode(), time.encode())
    column = column_of_times(*(np.array([number, -1]) for number in (year, date, clock)))
    assert column.tolist() == [one, -1]
