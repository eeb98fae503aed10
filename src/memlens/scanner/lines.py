"""Lines and texts in blocks of bytes: how many lines there are, where to cut between them, and which of some texts are alike."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from memlens.columns import mix
from memlens.scanner.expressions import TEXT_LENGTH, TEXT_PLACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


#: Bytes looked at at once: they stay in the second-level cache while several passes go over them.
PIECE = 1 << 19

_MASKS = np.array([(1 << 8 * count) - 1 for count in range(8)], np.uint64)
#: Which texts share a word of 64 bits is chance, so that no log can be made up in which they do.
_SEED = np.uint64(int.from_bytes(os.urandom(8), "little"))


def pieces(block: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Cut a block into pieces of whole lines, of about :data:`PIECE` bytes; longer only where a line is."""
    begin = 0
    while begin < len(block):
        end = min(begin + PIECE, len(block))
        if end < len(block):
            end = line_start_before(block, begin, end) or line_end_after(block, end)
        yield begin, end
        begin = end


def line_start_before(block: NDArray[np.uint8], begin: int, end: int) -> int:
    """The position after the last line end in ``begin … end``, or 0."""
    step = 1024
    while begin < end:
        low = max(end - step, begin)
        at = block[low:end].tobytes().rfind(b"\n")
        if at >= 0:
            return low + at + 1
        end = low
        step *= 4
    return 0


def line_end_after(block: NDArray[np.uint8], position: int) -> int:
    """The position after the first line end from ``position`` on, or the length of the block."""
    step = 1024
    while position < len(block):
        at = block[position : position + step].tobytes().find(b"\n")
        if at >= 0:
            return position + at + 1
        position += step
        step *= 4
    return len(block)


def count_lines(block: NDArray[np.uint8]) -> int:
    """Line ends in a block."""
    return sum(
        int(np.count_nonzero(block[begin : begin + PIECE] == ord("\n"))) for begin in range(0, len(block), PIECE)
    )


def distinct_texts(block: NDArray[np.uint8], texts: NDArray[np.int64]) -> tuple[list[bytes], NDArray[np.int64]]:
    """The different ones of some texts, in no order, and which of them each is, int64.

    Args:
        block: uint8, at least seven bytes longer than the texts need.
        texts: Where they stand, int64, as :attr:`~memlens.scanner.expressions.Conversion.TEXT` says.
    """
    start, length = texts & TEXT_PLACE, texts >> TEXT_LENGTH
    windows = np.ndarray((len(block) - 7,), "<u8", block, 0, (1,))
    keys = length.view(np.uint64) ^ _SEED
    rows = np.arange(len(texts))
    done = 0
    while len(rows):
        left = length[rows] - done
        word = windows[start[rows] + done]
        keys[rows] = mix(keys[rows] ^ np.where(left < 8, word & _MASKS[np.minimum(left, 7)], word))
        rows, done = rows[left > 8], done + 8
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    places = zip(start[first].tolist(), length[first].tolist(), strict=True)
    return [block[at : at + size].tobytes() for at, size in places], index.reshape(-1)
