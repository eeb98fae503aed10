"""Two neighbours that changed places are no missing Free; ``benchmarks/order.py`` does more."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from diff_judge import check
from jitter import jittered
from made_threads import found_sizes
from night import some
from paddle import read
from real_windows import real_windows

import memlens
from memlens.diffing.run import diff_windows
from memlens.windows.windows import Window


@pytest.fixture(scope="module")
def windows(shared: Path) -> list[Window]:
    return [pair.base for pair in real_windows(shared, ["same run"]) if pair.longest <= 1500]


@pytest.mark.parametrize("share", some([0.1, 0.02, 0.3]))
def test_real_windows_whose_neighbours_changed_places_miss_no_free(windows: list[Window], share: float) -> None:
    chance = Random(f"jitter {share}")
    for number in range(40):
        base = chance.choice(windows)
        head = jittered(base, share, chance)
        (found,) = diff_windows([(base, head)])
        assert not found_sizes(found, "missing_free", "extra_free")
        assert not found_sizes(found, "only_base", "only_head")
        if number < 10:
            check(base, head, found)


@pytest.mark.parametrize("direction", [1, -1])
def test_a_long_window_whose_neighbours_changed_places_is_aligned_at_the_exact_cost(
    shared: Path, direction: int
) -> None:
    paths = [shared / "data/traps" / f"cut_{side}.log.gz" for side in ("base", "head")][::direction]
    base, head = (read(path).whole for path in paths)
    found = memlens.diff(base, head).windows[0]
    # The exact program gives it; cut into pieces it is dearer.
    assert found.cost_bytes == 321_946_112
    assert found.approximation is None
    assert not found_sizes(found, "missing_free", "extra_free", "only_base", "only_head")
