"""Histograms of very many windows: those that are alike are one."""

from __future__ import annotations

import random
from unittest import mock

import numpy as np
import pytest

from memlens.folding import growing
from memlens.folding.condensed import Sizes
from memlens.folding.growing import GrowingSizes


def bins_of(sizes: Sizes) -> list[tuple[int, dict[int, tuple[int, int]]]]:
    """Of each histogram the first event, and count and bytes by bin."""
    found = []
    for first, which in zip(sizes.first.tolist(), sizes.which.tolist(), strict=True):
        part = slice(int(sizes.ends[which]), int(sizes.ends[which + 1]))
        columns = (column[part].tolist() for column in (sizes.code, sizes.count, sizes.total))
        found.append((first, {code: (count, total) for code, count, total in zip(*columns, strict=True)}))
    return found


@pytest.mark.parametrize("known", [1, 2, 256])
def test_they_are_those_that_were_added(known: int) -> None:
    rng = random.Random(known)
    kinds = [{rng.randrange(128): (rng.randint(1, 9), rng.randint(1, 1 << 40)) for _ in range(3)} for _ in range(4)]
    given = [rng.choice([*kinds, {}]) for _ in range(60)]  # a part without an event has none
    sizes, first = GrowingSizes(), 0
    with mock.patch.object(growing, "_KNOWN", known):
        while first < len(given):
            some = given[first : first + rng.randint(1, 7)]
            counts, totals = np.zeros((2, len(some), 128), np.int64)
            for row, bins in enumerate(some):
                for code, (count, total) in bins.items():
                    counts[row, code], totals[row, code] = count, total
            sizes.add(first, counts, totals)
            first += len(some)
    begins = np.arange(len(given)) * 10
    found = sizes.finish(begins)
    assert bins_of(found) == [(10 * part, bins) for part, bins in enumerate(given) if bins]
    if known == 256:
        assert len(found.ends) - 1 == len(kinds)  # each is kept once
