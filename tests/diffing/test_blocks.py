"""The blocks of windows, and what is known of their surroundings."""

import numpy as np
import pytest

from memlens.diffing.alignment.blocks import gather_windows
from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import Window

SIZES = [1, 2, 3, 4, 5, 6, 7]


def surroundings(sizes: list[int]) -> tuple[int, int]:
    """What stands before and what stands after the middle one of seven ALLOCs, as words."""
    log = Log.from_rows([(Kind.ALLOC, size, number) for number, size in enumerate(sizes, 1)])
    blocks, _ = gather_windows([Window(log, "all", 0, 7, 1, 7, 1, 7)])
    return int(blocks.before[3]), int(blocks.after[3])


@pytest.mark.parametrize(
    ("place", "before", "after"),
    [(0, True, True), (1, False, True), (2, False, True), (4, True, False), (5, True, False), (6, True, True)],
)
def test_the_two_events_before_and_the_two_after_a_block_are_its_surroundings(
    place: int, before: bool, after: bool
) -> None:
    changed = [*SIZES]
    changed[place] = 100
    kept = np.equal(surroundings(SIZES), surroundings(changed))
    assert kept.tolist() == [before, after]
