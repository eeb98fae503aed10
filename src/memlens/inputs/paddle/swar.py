"""Many numbers read out of text at once: eight characters to a 64-bit word, arithmetic on whole words.

Text is gathered from a block into ``uint64`` words, one row a number; a word's lowest byte is its first character
(little-endian).  Digits are then recognised and added up with a handful of word operations, for all rows together
("SIMD within a register").  Every function has a plain twin in ``tests/inputs/test_swar.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Block = NDArray[np.uint8]
    Positions = NDArray[np.int64]
    Words = NDArray[np.uint64]

__all__ = [
    "as_word",
    "decimal_after",
    "decimal_before",
    "decimal_from",
    "decimal_in",
    "gather",
    "hexadecimal_after",
    "hexadecimal_in",
]


def _repeat(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes(bytes([byte]) * 8, "little"))


_ONES = _repeat(0x01)
_LOW7 = _repeat(0x7F)
_HIGH = _repeat(0x80)
_ZERO_CHARS = _repeat(0x30)
_OVER_9 = _repeat(0x76)  # adding it carries into the high bit of every byte that is 10 or more
_BEFORE_A = _repeat(0x60)
_OVER_6 = _repeat(0x79)
_NIBBLES = _repeat(0x0F)
_ONE = np.uint64(1)
_EIGHT = np.uint64(8)
_NINE = np.uint64(9)
_SHIFTS = {bits: np.uint64(bits) for bits in (1, 2, 3, 4, 6, 7, 8, 16, 32, 56)}
_BYTE_PAIRS = np.uint64(0x00FF00FF00FF00FF)
_FOUR_PAIRS = np.uint64(0x0000FFFF0000FFFF)
_LOWER_HALF = np.uint64(0x00000000FFFFFFFF)
_POWERS_OF_TEN = 10 ** np.arange(9, dtype=np.uint64)


def as_word(text: bytes) -> np.uint64:
    """Eight characters as the word that :func:`gather` makes of them (shorter text is padded with zero bytes)."""
    return np.uint64(int.from_bytes(text, "little"))


def gather(block: Block, positions: Positions, width: int = 8) -> Words:
    """The ``width`` characters from each position on, as words.

    Args:
        block: uint8, the text; must reach ``width`` bytes past every position.
        positions: int64, ``(n,)``.
        width: A multiple of 8.

    Returns:
        uint64, ``(n,)`` for a width of 8, else ``(n, width // 8)``.
    """
    # An array of overlapping `width`-byte items, one starting at every byte.  Indexing it copies only the items asked for
    # (about 4 ns each), where .take() would copy the whole overlapping view first.
    items = np.ndarray((len(block) - width + 1,), f"V{width}", block, 0, (1,))
    words = items[positions].view("<u8")
    return words if width == 8 else words.reshape(len(positions), width // 8)


def _not_digits(values: Words) -> Words:
    """The high bit of every byte of ``values`` (characters exclusive-or ``0``) that is no decimal digit."""
    return (((values & _LOW7) + _OVER_9) | values) & _HIGH


def _leading(stop: Words) -> tuple[Words, Words]:
    """From high bits that mark bytes: the mask of the bytes before the first marked one, and how many these are."""
    # stop & -stop leaves the lowest marked high bit, 0x80 << 8k; shifted down and less one it covers k whole bytes.
    # No marked byte gives 0 - 1, all eight.
    keep = ((stop & (~stop + _ONE)) >> _SHIFTS[7]) - _ONE
    return keep, ((keep & _ONES) * _ONES) >> _SHIFTS[56]


def _sum_digits(digits: Words) -> Words:
    """Eight decimal digits a word, the most significant one in the lowest byte, as numbers.  Changes its argument."""
    digits *= np.uint64(10 * 2**8 + 1)
    digits >>= _SHIFTS[8]
    digits &= _BYTE_PAIRS
    digits *= np.uint64(100 * 2**16 + 1)
    digits >>= _SHIFTS[16]
    digits &= _FOUR_PAIRS
    digits *= np.uint64(10000 * 2**32 + 1)
    digits >>= _SHIFTS[32]
    return digits


def decimal_before(block: Block, ends: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The decimal numbers whose last digit stands right before each position.

    Returns:
        ``(values, digits)``, both int64.  ``digits`` is 0 where no digit stands there and 16 for 16 digits or more, where
        ``values`` means nothing.
    """
    words = gather(block, ends - 16, 16)
    return decimal_in(words[:, 1], words[:, 0])


def decimal_in(words: Words, before: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The decimal numbers that end with the last character of ``words``, where ``before`` holds the eight before those."""
    values, counts = _decimal_word_before(words)
    long = np.flatnonzero(counts == 8)
    if len(long):  # the rare numbers of more than eight digits
        upper, more = _decimal_word_before(before[long])
        values[long] += upper * np.int64(10**8)
        counts[long] += more
    return values, counts


def _decimal_word_before(words: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    words = words ^ _ZERO_CHARS
    other = _not_digits(words)
    other |= other >> _SHIFTS[8]  # smear the marks down: what stands before the last non-digit is not of the number
    other |= other >> _SHIFTS[16]
    other |= other >> _SHIFTS[32]
    other >>= _SHIFTS[7]
    counts = _EIGHT - ((other * _ONES) >> _SHIFTS[56])
    other *= np.uint64(0xFF)
    words &= ~other
    return _sum_digits(words).view(np.int64), counts.view(np.int64)


def decimal_after(block: Block, starts: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The decimal numbers whose first digit stands at each position; see :func:`decimal_before` for what comes back."""
    words = gather(block, starts, 16)
    return decimal_from(words[:, 0], words[:, 1])


def decimal_from(words: Words, after: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The decimal numbers that begin with the first character of ``words``, where ``after`` holds the next eight."""
    values, counts = _decimal_word_after(words)
    long = np.flatnonzero(counts == 8)
    if len(long):
        lower, more = _decimal_word_after(after[long])
        values[long] = values[long] * _POWERS_OF_TEN.view(np.int64)[more] + lower
        counts[long] += more
    return values, counts


def _decimal_word_after(words: Words) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    words = words ^ _ZERO_CHARS
    keep, counts = _leading(_not_digits(words))
    words &= keep
    shift = (_EIGHT - counts) << _SHIFTS[3]
    shifted = np.where(counts == 0, np.uint64(0), words << (shift & np.uint64(63)))
    return _sum_digits(shifted).view(np.int64), counts.view(np.int64)


def hexadecimal_after(block: Block, starts: Positions) -> tuple[Words, NDArray[np.int64]]:
    """The lower-case hexadecimal numbers whose first digit stands at each position.

    Returns:
        ``(values, digits)``, uint64 and int64.  ``digits`` is 17 where more than 16 digits stand there; ``values`` is then
        that of the first 16.
    """
    words = gather(block, starts, 24)
    return hexadecimal_in(words[:, 0], words[:, 1], words[:, 2])


def hexadecimal_in(first: Words, second: Words, third: Words) -> tuple[Words, NDArray[np.int64]]:
    """The hexadecimal numbers that begin with the first character of ``first``; the other words hold what follows."""
    values, counts = _hexadecimal_word(first)
    lower, more = _hexadecimal_word(second)
    if not (full := counts == 8).all():
        more *= full
        lower *= full
    values <<= more << _SHIFTS[2]
    values |= lower
    counts += more
    if (widest := np.flatnonzero(counts == 16)).size:
        _, beyond = _hexadecimal_word(third[widest])
        counts[widest] += beyond > 0
    return values, counts.view(np.int64)


def _hexadecimal_word(words: Words) -> tuple[Words, Words]:
    letters = words ^ _BEFORE_A  # a … f become 1 … 6
    low = letters & _LOW7
    no_letter = (low + _OVER_6) | ~(low + _LOW7) | letters
    no_letter &= _not_digits(words ^ _ZERO_CHARS)
    keep, counts = _leading(no_letter)
    digits = words >> _SHIFTS[6]
    digits &= _ONES  # 1 for a letter
    digits *= _NINE
    digits += words & _NIBBLES
    digits &= keep
    shift = (_EIGHT - counts) << _SHIFTS[3]
    digits <<= shift & np.uint64(63)  # no digit at all: `digits` is 0 whatever the shift
    digits = ((digits << _SHIFTS[4]) | (digits >> _SHIFTS[8])) & _BYTE_PAIRS
    digits = ((digits << _SHIFTS[8]) | (digits >> _SHIFTS[16])) & _FOUR_PAIRS
    digits = ((digits << _SHIFTS[16]) | (digits >> _SHIFTS[32])) & _LOWER_HALF
    return digits, counts
