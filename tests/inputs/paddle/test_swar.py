"""Numbers read by word arithmetic equal the ones that a regular expression reads."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memlens.inputs.paddle import swar

CHARACTERS = st.text("0123456789abcdefABGg :()/x~\x00\x7f\xff\xb0", min_size=0, max_size=40).map(
    lambda t: t.encode("latin-1")
)
PAD = b"\n" * 32


def block_of(text: bytes) -> np.ndarray:
    return np.frombuffer(PAD + text + PAD, np.uint8)


@given(CHARACTERS)
def test_decimals_before_every_position_are_those_of_the_regex(text: bytes) -> None:
    padded = PAD + text + PAD
    ends = np.arange(len(PAD), len(PAD) + len(text) + 1)
    values, digits = swar.decimal_before(block_of(text), ends)
    for end, value, count in zip(ends, values, digits, strict=True):
        run = re.search(rb"[0-9]*\Z", padded[:end])
        assert run is not None
        assert count == min(len(run[0]), 16)
        if 0 < count < 16:
            assert value == int(run[0])


@given(CHARACTERS)
def test_decimals_after_every_position_are_those_of_the_regex(text: bytes) -> None:
    padded = PAD + text + PAD
    starts = np.arange(len(PAD), len(PAD) + len(text) + 1)
    values, digits = swar.decimal_after(block_of(text), starts)
    for start, value, count in zip(starts, values, digits, strict=True):
        run = re.match(rb"[0-9]*", padded[start:])
        assert run is not None
        assert count == min(len(run[0]), 16)
        if 0 < count < 16:
            assert value == int(run[0])


@given(CHARACTERS)
def test_hexadecimals_after_every_position_are_those_of_the_regex(text: bytes) -> None:
    padded = PAD + text + PAD
    starts = np.arange(len(PAD), len(PAD) + len(text) + 1)
    values, digits = swar.hexadecimal_after(block_of(text), starts)
    for start, value, count in zip(starts, values, digits, strict=True):
        run = re.match(rb"[0-9a-f]*", padded[start:])
        assert run is not None
        assert count == min(len(run[0]), 17)
        if 0 < count <= 16:
            assert value == int(run[0], 16)


@given(st.lists(st.integers(0, 10**15 - 1), min_size=1, max_size=20))
def test_numbers_of_up_to_fifteen_digits_are_read_exactly(numbers: list[int]) -> None:
    text = b" ".join(b"%d" % number for number in numbers)
    starts = np.array([len(PAD) + m.start() for m in re.finditer(rb"[0-9]+", text)])
    assert swar.decimal_after(block_of(text), starts)[0].tolist() == numbers


def test_gather_gives_the_characters_from_each_position_lowest_byte_first() -> None:
    block = np.frombuffer(b"0123456789abcdefghij", np.uint8)
    assert swar.gather(block, np.array([0, 3])).tolist() == [
        int(swar.as_word(b"01234567")),
        int(swar.as_word(b"3456789a")),
    ]
    assert swar.gather(block, np.array([2]), 16).tolist() == [
        [int(swar.as_word(b"23456789")), int(swar.as_word(b"abcdefgh"))]
    ]
