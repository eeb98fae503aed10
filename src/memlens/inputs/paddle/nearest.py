"""The thread of the nearest glog header before a place, whether that header stands on its line or on a line above."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from memlens.inputs.paddle.events import HEADER
from memlens.inputs.paddle.headers import header_threads
from memlens.inputs.paddle.plain import ANSI

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Block = NDArray[np.uint8]
    Positions = NDArray[np.int64]

__all__ = ["NO_HEADER", "last_thread", "nearest_threads"]

#: No header stands before that place in its block; one in an earlier block may be the nearest.
NO_HEADER = -2
#: How far back from the end of a block its last header is looked for, one after the other.
_REACHES = (1 << 10, 1 << 16)
_HEADER = re.compile(HEADER.regex.encode())
_BEFORE_BRACKET = np.zeros(256, np.bool_)
_BEFORE_BRACKET[list(b"0123456789m")] = True  # a line number, or a colour after it
_NEWLINE, _RETURN, _BRACKET = 0x0A, 0x0D, 0x5D


def nearest_threads(block: Block, begin: int, at: Positions) -> Positions:
    """The thread of the nearest header before each place, int64; :data:`NO_HEADER` where the block has none before it.

    Args:
        block: uint8; must have 128 bytes before ``begin``.
        begin: Where the text begins.
        at: Places, int64, rising.
    """
    # As a rule the header stands right before, or right before the line break that the message begins with.
    first = block[at - 1] == _NEWLINE
    returned = first & (block[at - 2] == _RETURN)
    threads = header_threads(block, at - first - returned)
    missing = np.flatnonzero(threads < 0)
    if len(missing):
        threads[missing] = _by_search(block, begin, at[missing])
    return threads


def _by_search(block: Block, begin: int, at: Positions) -> Positions:
    """The same by looking at every header of the block."""
    ends = np.flatnonzero(block[begin : int(at[-1])] == _BRACKET) + (begin + 1)
    ends = ends.compress(_BEFORE_BRACKET[block[ends - 2]])
    threads = header_threads(block, ends)
    ends, threads = ends[threads >= 0], threads[threads >= 0]
    return np.concatenate(([NO_HEADER], threads))[ends.searchsorted(at, "right")]


def last_thread(block: Block, begin: int, end: int) -> int:
    """The thread of the last header between two positions; :data:`NO_HEADER` where none is found near the end."""
    for reach in _REACHES:
        text = ANSI.sub(b"", block[max(end - reach, begin) : end].tobytes())
        found = None
        for found in _HEADER.finditer(text):  # noqa: B007 - the last one counts
            pass
        if found is not None:
            return int(found["thread"])
        if end - reach <= begin:
            break
    return NO_HEADER
