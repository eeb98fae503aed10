"""Out-of-memory messages and the framework's own figures, read from single lines."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_failures import read_messages

from memlens.facts import Figure
from memlens.inputs.paddle.message_formats import FORMATS
from memlens.inputs.paddle.messages import read_figures

MIB = 1 << 20
GIB = 1 << 30


FULL_BY_OTHERS = (
    "Out of memory error on GPU 2. Cannot allocate 1.000000kB memory on GPU 2, 7.782776GB memory has been allocated"
    "(actual using allocated memory 7.000000GB) and available memory is only 512.000000B."
)
FULL_CUSTOM_DEVICE = (
    "Out of memory error on npu 0. total memory is 32.000000GB, used memory is 31.500000GB, available memory is only"
    " 512.000000MB."
)


def figures(line: str) -> list[tuple[str, int, int]]:
    return [(each.metric, each.low_bytes, each.high_bytes) for each in read_figures(line.encode(), 0)]


def asked_and_free(line: str) -> tuple[str, int | None, int | None]:
    ((oom,), _) = read_messages(b"\n\n" + line.encode())
    assert (oom.offset, oom.line) == (2, 2)
    return oom.device, oom.requested_bytes, oom.free_bytes


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Out of memory error on GPU 0. Cannot allocate 3.125000GB memory on GPU 0, available memory is only 117.750000MB.",
            ("GPU 0", 3 * GIB + GIB // 8, 117 * MIB + MIB * 3 // 4),
        ),
        (
            "Out of memory error on GPU 0. Cannot allocate 145.468994MB GPU memory, available memory is 72.312500MB.",
            ("GPU 0", round(Fraction("145.468994") * MIB), 72 * MIB + MIB * 5 // 16),
        ),
        (FULL_BY_OTHERS, ("GPU 2", 1024, 512)),
        ("Out of memory error on GPU 1. Cannot allocate 2.000000GB memory.", ("GPU 1", 2 * GIB, None)),
        (FULL_CUSTOM_DEVICE, ("npu 0", None, GIB // 2)),
        (
            "Cannot allocate 1.000000GB in GPU 0, available 200.000000MB, total 16.000000GB, GpuMinChunkSize 256.000000B",
            ("GPU 0", GIB, 200 * MIB),
        ),
        ("Allocation of 4294967296 bytes failed after releasing memory from all streams.", ("", 4 * GIB, None)),
        ("stream_safe_cuda_allocator.cc:224] Allocation failed when allocating 4096 bytes", ("", 4096, None)),
        (
            "OSError: (External)  CustomDevice error, the error code is : 2.  (at custom_device.cc:387)",
            ("", None, None),
        ),
    ],
)
def test_a_wording_of_out_of_memory_gives_device_and_bytes(
    line: str, expected: tuple[str, int | None, int | None]
) -> None:
    assert asked_and_free(line) == expected


@pytest.mark.parametrize(
    "line", ["", "Alloc 256 bytes, ptr = 0x7f01", "RuntimeError: out of memory", '{"allocated": 5}']
)
def test_a_line_that_says_nothing_of_memory_gives_nothing(line: str) -> None:
    assert (figures(line), read_messages(line.encode())) == ([], ([], []))


def test_an_exit_line_in_megabytes_gives_the_range_of_its_six_digits() -> None:
    # 2266.72 covers 2266.715 to 2266.725, and 2237.15 covers 2237.145 to 2237.155, times 2**20.
    reserved = (round(Fraction("2266.715") * MIB + Fraction(1, 2)), int(Fraction("2266.725") * MIB))
    allocated = (round(Fraction("2237.145") * MIB + Fraction(1, 2)), int(Fraction("2237.155") * MIB))
    found = figures("[Memory Usage (MB)] gpu 0 : Reserved = 2266.72, Allocated = 2237.15")
    assert found == [("reserved_peak", *reserved), ("allocated_peak", *allocated)]


def test_an_exit_line_in_bytes_is_exact_and_has_a_device() -> None:
    assert list(read_figures(b"[Memory Usage (Byte)] gpu 1 : Reserved = 6403840, Allocated = 4467968", 7)) == [
        Figure(7, "reserved_peak", 6403840, 6403840, "memory_usage_byte", 1),
        Figure(7, "allocated_peak", 4467968, 4467968, "memory_usage_byte", 1),
    ]


@given(st.integers(0, 1 << 44))
def test_six_digits_of_a_count_cover_the_count_and_print_alike_at_both_ends(count: int) -> None:
    text = f"{count / MIB:g}"
    line = f"After launching op_name: relu, memory_allocated: {text} MB"
    ((metric, low, high),) = figures(line)
    assert metric == "allocated"
    assert low <= count <= high
    assert (f"{low / MIB:g}", f"{high / MIB:g}") == (text, text)
    assert f"{(high + 1) / MIB:g}" != text
    assert low == 0 or f"{(low - 1) / MIB:g}" != text


@given(st.integers(0, 1 << 44), st.sampled_from([MIB, GIB]))
def test_a_trainer_integer_is_rounded_down(count: int, unit: int) -> None:
    text = {MIB: "MB", GIB: "GB"}[unit]
    ((metric, low, high),) = figures(f"loss: 1, max_mem_allocated: {count // unit} {text}, ips: 3")
    assert (metric, low, high) == ("allocated_peak", count // unit * unit, count // unit * unit + unit - 1)
    assert low <= count <= high


@given(st.integers(0, 1 << 44), st.integers(1, 8))
def test_a_trainer_float_covers_all_counts_that_print_so(count: int, digits: int) -> None:
    text = f"{count / GIB:.{digits}f}"
    ((_, low, high),) = figures(f"loss: 1, current_memory_allocated: {text} GB")
    assert low <= count <= high
    assert high - low <= GIB // 10**digits + 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "ips: 18.17 images/s max_mem_reserved: 11613581568 max_mem_allocated: 10151881472",
            [("reserved_peak", 11613581568, 11613581568), ("allocated_peak", 10151881472, 10151881472)],
        ),
        (
            "words/sec, max_mem_reserved: 6720385536 B, max_mem_allocated: 5045607168 B",
            [("reserved_peak", 6720385536, 6720385536), ("allocated_peak", 5045607168, 5045607168)],
        ),
        (
            "Epoch: [0] [   0/6250] mem_allocated: 1021 MB mem_reserved: 3496 MB",
            [("allocated", 1021 * MIB, 1022 * MIB - 1), ("reserved", 3496 * MIB, 3497 * MIB - 1)],
        ),
        ("loss: 1, max_memory_allocated: 0.5", [("allocated_peak", 9 * GIB // 20 + 1, 11 * GIB // 20)]),
        ("loss: 1, max_mem_allocated: 0.5", []),  # neither bytes nor a unit
        ("loss: 1, max_mem_allocated: 11296 Mbit", []),
        ("max_mem_allocated: 99999999999999999999999", []),
        ("max_mem_allocated: 9223372036854775807 B", []),
    ],
)
def test_a_trainer_line_gives_its_figures(line: str, expected: list[tuple[str, int, int]]) -> None:
    assert figures(line) == expected


@given(st.binary(max_size=300), st.sampled_from([sample.line.encode() for line in FORMATS for sample in line.examples]))
def test_no_bytes_around_a_message_make_reading_fail(noise: bytes, message: bytes) -> None:
    for line in (noise, noise + message, message[: len(noise)] + noise, message[:40] + noise + message[40:]):
        assert all(0 <= each.low_bytes <= each.high_bytes < 1 << 62 for each in read_figures(line, 0))
        read_messages(line)


def test_a_line_of_megabytes_is_read_in_a_moment() -> None:
    for part in (
        b"Out of memory error on GPU 0. Cannot allocate 1MB memory ",
        b', "allocated": 1',
        b"max_mem_reserved: ",
        b"x",
    ):
        line = part * (2_000_000 // len(part))
        list(read_figures(line, 0))
        read_messages(line)
