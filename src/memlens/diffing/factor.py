"""The factor between most sizes of two runs, as another dtype or another batch size makes it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from memlens.facts import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from memlens.windows.windows import Window

    Floats = NDArray[np.float64]


#: Most of some bytes are more than this share of them.
_MOST = 0.5
#: The largest numerator and denominator that are tried.
_LARGEST_TERM = 16
#: Allocators round sizes up to multiples of so many bytes at most.
_PADDING = 512
#: A factor shows in blocks of so many bytes, at least and at most, …
_LARGE, _LARGEST = 16 * _PADDING, 1 << 55
#: … where each run has so many sizes of them; of more it would take too long.
_LEAST_SIZES, _MOST_SIZES = 4, 20_000


def common_factor(base: Sequence[Window], head: Sequence[Window]) -> Fraction | None:
    """Return the factor by which most bytes of both runs pair off, the best one; ``None`` where it is 1 or there is none.

    Args:
        base: Windows of base; not empty.
        head: Windows of head.
    """
    left, right = _large_blocks(base), _large_blocks(head)
    if not all(_LEAST_SIZES <= len(sizes) <= _MOST_SIZES for sizes, _ in (left, right)):
        return None
    terms = range(1, _LARGEST_TERM + 1)
    fractions = sorted(
        {Fraction(p, q) for p in terms for q in terms}, key=lambda one: (sum(one.as_integer_ratio()), one)
    )
    shares = [_share(left, right, fraction) for fraction in fractions]
    best = max(range(len(fractions)), key=shares.__getitem__)
    return fractions[best] if shares[best] > _MOST and fractions[best] != 1 else None


def _large_blocks(windows: Sequence[Window]) -> tuple[Floats, Floats]:
    """Return the sizes of the large blocks that windows of one log allocate, rising, and how often each is allocated."""
    log = windows[0].log
    every = np.concatenate([log.size[w.lo : w.hi][log.kind[w.lo : w.hi] == Kind.ALLOC] for w in windows])
    sizes, counts = np.unique(every[(every >= _LARGE) & (every < _LARGEST)], return_counts=True)
    return sizes.astype(np.float64), counts.astype(np.float64)


def _share(left: tuple[Floats, Floats], right: tuple[Floats, Floats], factor: Fraction) -> float:
    """Return the share of bytes that pair off, in the run in which it is less, where head's sizes are base's times a factor."""
    (sizes, counts), (others, often) = left, right
    times, over = factor.as_integer_ratio()
    given, wanted = sizes * times, others * over
    above = np.minimum(np.searchsorted(given, wanted), len(given) - 1)
    below = np.maximum(above - 1, 0)
    nearest = np.where(wanted - given[below] < np.abs(given[above] - wanted), below, above)
    apart = wanted - given[nearest]
    # A size is the multiple of another one up to the padding of both.
    known = (apart > -_PADDING * times) & (apart < _PADDING * over)
    stands_for = np.bincount(nearest[known], often[known], len(sizes))
    paired = float((np.minimum(stands_for, counts) * sizes).sum())
    return min(paired / float((sizes * counts).sum()), paired * times / over / float((others * often).sum()))
