"""Bytes as text, and text as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.errors import UsageError
from memlens.text import format_bytes, parse_bytes

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "EiB": 1 << 60}


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (3538944, "3.38 MiB"),  # 3538944 / 2**20 = 3.375, as case 1 writes it
        (7077888, "6.75 MiB"),
        (10616832, "10.12 MiB"),  # 10.125: half to even, as the published figures
        (1048575, "1.00 MiB"),  # 1023.999 KiB would be written 1024.00
        (-640, "-640 B"),
        (14327037184, "13.34 GiB"),
    ],
)
def test_bytes_are_written_in_binary_units_with_two_decimals(count: int, text: str) -> None:
    assert format_bytes(count) == text


@given(st.integers(-(1 << 62), 1 << 62))
def test_what_is_written_is_right_to_half_a_hundredth_of_its_unit(count: int) -> None:
    number, unit = format_bytes(count).split()
    assert abs(float(number) * UNITS[unit] - count) <= 0.0051 * UNITS[unit]
    assert abs(float(number)) < 1024


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("64k", 65536),
        ("1.5MiB", 1572864),
        ("2 GB", 1 << 31),
        ("1t", 1 << 40),
        (" 7 b ", 7),
        (".5K", 512),
        ("10MIB", 10 << 20),
    ],
)
def test_sizes_are_read_as_people_type_them(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1e9", "1..5k", "12 parsecs", "0x10", "1,5k"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size") as caught:
        parse_bytes(text)
    assert "MiB" in caught.value.hint
