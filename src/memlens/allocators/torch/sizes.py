"""How large blocks and segments of PyTorch's caching allocator are: rules 1 to 3 and 5 of :mod:`memlens.allocators.torch.caching`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memlens.allocators.torch.settings import MEBIBYTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

__all__ = ["LARGE_REST", "SMALL", "SMALL_REST", "SMALL_SEGMENT", "rounded", "segment_bytes"]

#: Rules 1 to 3: what blocks are multiples of, the largest one of the small pool, its segments, the first size with a segment of its own, what that is a multiple of.
BLOCK, SMALL, SMALL_SEGMENT, OWN_SEGMENT, MULTIPLE = 512, MEBIBYTE, 2 * MEBIBYTE, 10 * MEBIBYTE, 2 * MEBIBYTE
#: Rule 5: the smallest rest that is split off.
SMALL_REST, LARGE_REST = BLOCK, SMALL + 1


def rounded(size: Ints, divisions: Ints) -> Ints:
    """Rule 1: bytes of the blocks for requests of so many bytes, int64.

    Args:
        size: What was asked for, at least 0 and below 2**48.
        divisions: Steps by interval.
    """
    plain = np.maximum(-(-size // BLOCK), 1) * BLOCK
    exponent = np.frexp(np.maximum(size, 1).astype(np.float64))[1].astype(np.int64) - 1  # exact below 2**53
    steps = divisions[np.clip(exponent - 20, 0, len(divisions) - 1)]
    divided = (steps > 1) & (size > BLOCK * steps)
    if not divided.any():
        return plain
    step = np.maximum(np.left_shift(np.int64(1), exponent) // np.maximum(steps, 1), 1)
    return np.where(divided, -(-size // step) * step, plain)


def segment_bytes(block: Ints, large_segment: int) -> Ints:
    """Rule 3: bytes of the segments that are asked for, for blocks of so many bytes, int64."""
    own = -(-block // MULTIPLE) * MULTIPLE
    return np.where(block <= SMALL, SMALL_SEGMENT, np.where(block < OWN_SEGMENT, large_segment, own))
