"""Lines in blocks of bytes: how many there are, and where to cut between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PIECE", "count_lines", "line_end_after", "line_start_before", "pieces"]

#: Bytes looked at at once: they stay in the second-level cache while several passes go over them.
PIECE = 1 << 19


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
