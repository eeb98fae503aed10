"""Find the few places of a block that matter, at several gigabytes a second.

Every text that memlens looks for in an allocator log begins with one of a few bytes (as a rule ``,`` and ``A F G N O``).  One pass
of comparisons marks these bytes, the eight characters from each tell what it may be, and only these *candidates* are read any
further.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memlens.inputs.paddle.swar import as_word, gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PIECE", "Found", "Scanner"]

#: Bytes compared at once: they and what is made of them stay in the second-level cache.
PIECE = 1 << 18

#: ``,`` and ``A`` and, alike but for two bits, ``F G N O`` (0x46 0x47 0x4E 0x4F).
_FIRST = ((0xFF, ord(",")), (0xFF, ord("A")), (0xF6, ord("F")))
_KEY_BYTES = 6
_KEY_MASK = np.uint64((1 << 8 * _KEY_BYTES) - 1)
_TABLE_BITS = 10
_TABLE_SHIFT = np.uint64(64 - _TABLE_BITS)


class _Scratch(threading.local):
    """Two work arrays a thread, kept from block to block: fresh ones would cost a page fault every 4 KiB."""

    def __init__(self) -> None:
        self.marks = np.empty(PIECE, np.bool_)
        self.bytes = np.empty(PIECE, np.uint8)
        self.more = self.bytes.view(np.bool_)


_scratch = _Scratch()


class Found(NamedTuple):
    """What a scan found.

    Attributes:
        positions: Where a text begins, int64, rising.
        classes: The class numbers of these texts, uint8.
        lines: Line ends.
    """

    positions: NDArray[np.int64]
    classes: NDArray[np.uint8]
    lines: int


class Scanner:
    """Tells where in a block one of many texts may begin.

    Args:
        texts: For each class number (1 to 255) the texts that belong to it, six to eight bytes long.  No two texts may share their
            first six bytes.
        first: What the texts begin with, each ``(mask, value)``: the bytes that give the value under the mask.  Few, and bytes that are
            rare in logs: each costs a pass, and each place a look.

    Raises:
        ValueError: A text is too short or too long, begins with another byte, or shares its beginning with another one.
    """

    def __init__(self, texts: Mapping[int, Sequence[bytes]], first: Sequence[tuple[int, int]] = _FIRST) -> None:
        self._first = [(np.uint8(mask), np.uint8(value)) for mask, value in first]
        numbers: dict[bytes, int] = {}
        for number, group in texts.items():
            for text in group:
                if not _KEY_BYTES <= len(text) <= 8 or not any(text[0] & mask == value for mask, value in first):
                    raise ValueError(f"cannot scan for {text!r}")
                numbers[text] = number
        keys = [int(as_word(text[:_KEY_BYTES])) for text in numbers]
        if len(set(keys)) < len(keys):
            raise ValueError("two texts share their first six bytes")
        self._multiplier = _perfect_multiplier(keys)
        # By slot: the whole text, the mask that covers it, and its class.  A free slot has a text that no mask lets through.
        self._texts = np.full(1 << _TABLE_BITS, ~np.uint64(0))
        self._masks = np.zeros(1 << _TABLE_BITS, np.uint64)
        self._classes = np.zeros(1 << _TABLE_BITS, np.uint8)
        self._likely = np.zeros(1 << 16, np.bool_)
        for key, (text, number) in zip(keys, numbers.items(), strict=True):
            slot = _slot(key, int(self._multiplier))
            self._likely[int.from_bytes(text[2:4], "little")] = True
            self._texts[slot] = as_word(text)
            self._masks[slot] = (1 << 8 * len(text)) - 1
            self._classes[slot] = number

    def find(self, block: NDArray[np.uint8], begin: int, end: int) -> Found:
        """Where one of the texts begins.

        Args:
            block: uint8; must reach 8 bytes past ``end``.
            begin: First position to look at.
            end: Position after the last one.
        """
        # Each piece is looked at from all sides while it is in the cache.
        parts = [self._likely_in(block, start, min(start + PIECE, end)) for start in range(begin, end, PIECE)]
        if not parts:
            return Found(np.zeros(0, np.int64), np.zeros(0, np.uint8), 0)
        positions = np.concatenate([part[0] for part in parts])
        words = np.concatenate([part[1] for part in parts])
        hashes = words & _KEY_MASK
        hashes *= self._multiplier
        hashes >>= _TABLE_SHIFT
        slots = hashes.view(np.int64)
        words &= self._masks.take(slots)
        known = np.flatnonzero(self._texts.take(slots) == words)
        return Found(positions.take(known), self._classes.take(slots.take(known)), sum(part[2] for part in parts))

    def _likely_in(
        self, block: NDArray[np.uint8], begin: int, end: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint64], int]:
        """Where in one piece a text may begin, the eight characters from there, and the piece's line ends."""
        text = block[begin:end]
        marks, work, more = (array[: end - begin] for array in (_scratch.marks, _scratch.bytes, _scratch.more))
        np.equal(text, np.uint8(0x0A), out=marks)
        lines = int(np.count_nonzero(marks))
        for number, (mask, value) in enumerate(self._first):
            alike = text if mask == 0xFF else np.bitwise_and(text, mask, out=work)
            np.equal(alike, value, out=more if number else marks)
            if number:
                np.logical_or(marks, more, out=marks)
        positions = marks.nonzero()[0]
        positions += begin
        words = gather(block, positions)
        # The third and fourth character, a number of 16 bits, rule out most places at little cost.
        likely = np.flatnonzero(self._likely.take(words.view("<u2")[1::4]))
        return positions.take(likely), words.take(likely), lines


def _slot(key: int, multiplier: int) -> int:
    return (key * multiplier & (1 << 64) - 1) >> (64 - _TABLE_BITS)


def _perfect_multiplier(keys: list[int]) -> np.uint64:
    """A multiplier that sends every key to a slot of its own (found by trying; deterministic)."""
    multiplier = 0x9E3779B97F4A7C15
    while len({_slot(key, multiplier) for key in keys}) < len(keys):
        multiplier = (multiplier * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
    return np.uint64(multiplier)
