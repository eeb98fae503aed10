"""Items alike are put together, whatever their window: the same as one by one."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from memlens.diffing.differences import FATES, KINDS, Items, group

#: What may be in a column, from the least to below the end.
RANGES = {
    "kind": (0, len(KINDS)),
    "fate": (-1, len(FATES)),
    "size": (1, 3),
    "requested": (-1, 2),
    "owner": (-1, 2),
    "freed_by": (-1, 2),
    "ends": (0, 3),
    "remaining": (-2, 3),
    "peak": (-2, 3),
}
#: For kinds whose blocks count at one peak as a rule its sign.
RAISES = {"only_head": 1, "late_free": 1, "only_base": -1, "early_free": -1}


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_those_of_equal_traits_the_largest_effect_first(seed: int) -> None:
    rng, count = np.random.default_rng(seed), 400
    narrow = [name for name in RANGES if rng.random() < 0.5]
    columns = {
        name: rng.integers(*((0, 2) if name in narrow else RANGES.get(name, (0, 5))), count) for name in Items._fields
    }
    items = Items(**columns)
    wanted: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for number in range(count):
        row = {name: int(column[number]) for name, column in columns.items()}
        sign = int(np.sign(row["peak"]))
        at_peak = 0 if sign == RAISES.get(KINDS[row["kind"]], 0) else sign
        traits = "kind", "fate", "size", "requested", "owner", "freed_by", "ends"
        wanted[*(row[name] for name in traits), at_peak].append(number)

    def weight(own: list[int]) -> tuple[int, ...]:
        remaining, peak = abs(int(items.remaining[own].sum())), abs(int(items.peak[own].sum()))
        total, kind = int(items.size[own].sum()), int(items.kind[own[0]])
        return -max(remaining, peak), -remaining, -total, kind, own[0]

    assert [own.tolist() for own in group(items)] == sorted(wanted.values(), key=weight)
