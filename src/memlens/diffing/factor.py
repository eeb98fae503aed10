"""One factor between nearly all sizes of two runs, as another dtype or another batch size makes it: found, and taken out.

Sizes are padded by the allocator, and small or constant ones stay as they are, so the factor is looked for among simple fractions and
must hold for nearly all bytes, in order as well as in number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from memlens.diffing.alignment.indices import grams, nth_with_nth
from memlens.facts import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memlens.windows.windows import Window

    Ints = NDArray[np.int64]

__all__ = ["Factor", "common_factor"]

#: Numerators and denominators that are tried.
_MOST = 16
#: Allocators round sizes up to multiples of so many bytes at most.
_PADDING = 512
#: Blocks of at least so many bytes tell a factor; there are to be so many of them in each run, of so many sizes, …
_LARGE, _LEAST_BLOCKS, _LEAST_SIZES = 16 * _PADDING, 16, 4
#: … and they are to hold half of all bytes.  Of a thousand of their bytes so many have a partner in the other run by the factor, …
_NEARLY_ALL = 900
#: … of a thousand places where so many of them follow each other so many are in both runs, …
_TOGETHER, _IN_ORDER = 3, 700
#: … and equal sizes leave so many times as much without a partner, and a tenth.
_BETTER = 3
#: Sizes beyond this are none of a real log, and would not fit into what is computed.
_LARGEST = 1 << 55


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor, and the size in base for each size in head.

    Attributes:
        value: Head's sizes are base's times this.
        head: The sizes of head, rising, int64.
        base: What each stands for in base, int64.
    """

    value: Fraction
    head: Ints
    base: Ints

    def taken_out(self, windows: Sequence[Window]) -> list[Window]:
        """The same windows of head, in a log whose blocks have the sizes that they stand for; requests are left out."""
        log = windows[0].log
        blocks = log.kind <= Kind.FREE
        size = log.size.copy()
        size[blocks] = self.base[np.searchsorted(self.head, size[blocks])]
        scaled = log.without_cache(size=size, requested=None)
        return [replace(window, log=scaled) for window in windows]


def common_factor(base: Sequence[Window], head: Sequence[Window]) -> Factor | None:
    """The factor between nearly all sizes of the windows of two runs; ``None`` where there is none but 1.

    Args:
        base: Windows of base; not empty.
        head: Windows of head.
    """
    left, right = _Sizes.of(base), _Sizes.of(head)
    if len(left.order) == len(right.order) and bool((left.order == right.order).all()):
        return None
    if not (left.sufficient and right.sufficient):
        return None
    best, value = 0, Fraction(1)
    for fraction in _fractions():
        share = _share(left, right, _scaled(left.sizes, right.sizes, fraction), fraction)
        if share > best:  # of several the simplest
            best, value = share, fraction
    equal = _share(left, right, _equal(left.sizes, right.sizes), Fraction(1))
    if best < _NEARLY_ALL or 1000 - equal < _BETTER * (1000 - best) + 100:
        return None
    log = head[0].log
    known = np.unique(log.size[log.kind <= Kind.FREE])
    factor = Factor(value, known, _stands_for(left, right, known, value))
    return factor if _in_order(left, factor, right) else None


@dataclass(frozen=True, eq=False)
class _Sizes:
    """The sizes that the windows of one run allocate, in order; and without order: each size, rising, and how often; int64."""

    order: Ints
    sizes: Ints
    counts: Ints

    @classmethod
    def of(cls, windows: Sequence[Window]) -> _Sizes:
        log = windows[0].log
        parts = [log.size[w.lo : w.hi][log.kind[w.lo : w.hi] == Kind.ALLOC] for w in windows]
        order = np.concatenate(parts)
        return cls(order, *np.unique(order, return_counts=True))

    @property
    def sufficient(self) -> bool:
        """Whether there are enough large blocks to tell a factor by."""
        large, total = self.sizes >= _LARGE, self.sizes * self.counts
        enough = int(large.sum()) >= _LEAST_SIZES and int(self.counts[large].sum()) >= _LEAST_BLOCKS
        return enough and 2 * int(total[large].sum()) >= int(total.sum()) and int(self.sizes[-1]) < _LARGEST

    def count(self, sizes: Ints) -> Ints:
        """How often each of some sizes is allocated."""
        at = np.minimum(np.searchsorted(self.sizes, sizes), len(self.sizes) - 1)
        found: Ints = np.where(self.sizes[at] == sizes, self.counts[at], 0)
        return found


def _fractions() -> list[Fraction]:
    """What is tried, the simplest first."""
    every = {Fraction(p, q) for p in range(1, _MOST + 1) for q in range(1, _MOST + 1)} - {Fraction(1)}
    return sorted(every, key=lambda value: (value.numerator + value.denominator, value))


def _equal(base: Ints, head: Ints) -> Ints:
    """Each size of head where base has it, too, else -1."""
    return np.where(np.isin(head, base), head, -1)


def _scaled(base: Ints, head: Ints, value: Fraction) -> Ints:
    """For each size of head the size of base that it is the multiple of, up to the padding of both; -1 where there is none."""
    times, over = value.numerator, value.denominator
    wanted, given = head * over, base * times
    above = np.minimum(np.searchsorted(given, wanted), len(given) - 1)
    below = np.maximum(above - 1, 0)
    nearest = np.where(wanted - given[below] < np.abs(given[above] - wanted), below, above)
    apart = wanted - given[nearest]
    return np.where((apart > -_PADDING * times) & (apart < _PADDING * over), base[nearest], -1)


def _share(left: _Sizes, right: _Sizes, stands_for: Ints, value: Fraction) -> int:
    """Of a thousand bytes of large blocks how many have a partner in the other run, in that run that has fewer."""
    known = stands_for >= 0
    counts = np.zeros(len(left.sizes), np.int64)
    np.add.at(counts, np.searchsorted(left.sizes, stands_for[known]), right.counts[known])
    large = left.sizes >= _LARGE
    paired = int((left.sizes * np.minimum(left.counts, counts))[large].sum())
    in_base = int((left.sizes * left.counts)[large].sum())
    others = ~known & (right.sizes * value.denominator >= _LARGE * value.numerator)
    alone = int((right.sizes * right.counts)[others].sum()) * value.denominator // value.numerator
    in_head = int((left.sizes * counts)[large].sum()) + alone
    return 1000 * paired // max(in_base, in_head, 1)


def _stands_for(left: _Sizes, right: _Sizes, head: Ints, value: Fraction) -> Ints:
    """The size in base for each size of head: the one that it is the multiple of, or itself, whichever comes about as often."""
    scaled, equal = _scaled(left.sizes, head, value), _equal(left.sizes, head)
    often = right.count(head)
    apart = [np.abs(often - left.count(sizes)) for sizes in (scaled, equal)]
    large = head >= _LARGE
    as_scaled = (scaled >= 0) & ((equal < 0) | (apart[0] < apart[1]) | ((apart[0] == apart[1]) & large))
    alone = np.where(large, head * value.denominator // value.numerator, head)
    return np.where(as_scaled, scaled, np.where(equal >= 0, equal, alone))


def _in_order(left: _Sizes, factor: Factor, right: _Sizes) -> bool:
    """Whether large blocks follow each other in both runs alike once the factor is taken out."""
    base, head = left.order, factor.base[np.searchsorted(factor.head, right.order)]
    one, two = (grams(sizes[sizes >= _LARGE].view(np.uint64), _TOGETHER).view(np.int64) for sizes in (base, head))
    both, _ = nth_with_nth(one, two)
    return 1000 * len(both) >= _IN_ORDER * max(len(one), len(two), 1)
