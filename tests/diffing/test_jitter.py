"""Two neighbours that changed places are no missing Free; ``benchmarks/order.py`` does more."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from diff_judge import check
from jitter import jittered
from made_threads import found_sizes
from paddle import read
from real_windows import real_windows

import memlens
from memlens.diffing.run import diff_windows
from memlens.events import EventLog, Kind
from memlens.windows.windows import Window


@pytest.fixture(scope="module")
def windows(shared: Path) -> list[Window]:
    return [pair.base for pair in real_windows(shared, ["same run"]) if pair.longest <= 1500]


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
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


@pytest.mark.parametrize(("blocks", "named"), [(1, 1), (4, 4), (5, 4)])
def test_four_blocks_alike_that_changed_places_with_a_larger_one_and_lost_their_frees_are_named(
    blocks: int, named: int
) -> None:
    windows: list[Window] = []
    for places in ([*range(1, blocks + 1), 9], [9, *range(1, blocks + 1)]):
        rows = [(Kind.ALLOC, 524288 if at == 9 else 256, 4096 * at) for at in places]
        rows += [(Kind.FREE, size, addr) for _, size, addr in rows if not windows or size > 256]
        windows.append(Window(EventLog.from_rows(rows), "all", 0, len(rows), 0, len(rows), 1, len(rows)))
    (found,) = diff_windows([(windows[0], windows[1])])
    assert found_sizes(found, "missing_free") == {256: named}
    check(windows[0], windows[1], found)


def test_held_blocks_and_a_temporary_among_which_neighbours_changed_places_miss_no_free() -> None:
    def window(program: str) -> Window:
        # Small blocks, held or temporary, and large temporaries; in order of their ALLOCs, the FREEs all at the end.
        sizes = {"h": 256, "t": 256, "L": 524288}
        rows = [(Kind.ALLOC, sizes[block], 4096 * at) for at, block in enumerate(program, 1)]
        rows += [(Kind.FREE, sizes[block], 4096 * at) for at, block in enumerate(program, 1) if block != "h"]
        return Window(EventLog.from_rows(rows), "all", 0, len(rows), 0, len(rows), 1, len(rows))

    # Cheapest is to pair the large blocks in order and, for 256 bytes, the held block after them with the temporary: with the one
    # unpaired block on each side (256 and 128 bytes) 640, where three more unpaired ones would be 768.
    (found,) = diff_windows([(window("LLhht"), window("LhLth"))])
    assert found.cost_bytes == 640
    assert found.findings == ()
    assert found.moved == 2


@pytest.mark.parametrize(("between", "missing"), [(1, 1), (2, 0)])
def test_of_two_blocks_that_changed_places_one_may_have_lost_its_free(between: int, missing: int) -> None:
    # The large blocks pair in order; the small one is across so many of them in head, and is not freed there.
    large = [row for n in range(between) for row in ((Kind.ALLOC, 1 << 20, 10 + n), (Kind.FREE, 1 << 20, 10 + n))]
    small = (Kind.ALLOC, 256, 1)
    rows = [small, (Kind.FREE, 256, 1), *large], [*large, small]
    base, head = (Window(EventLog.from_rows(of), "all", 0, len(of), 0, len(of), 1, len(of)) for of in rows)
    (found,), (back,) = diff_windows([(base, head)]), diff_windows([(head, base)])
    assert found_sizes(found, "missing_free") == found_sizes(back, "extra_free") == ({256: 1} if missing else {})
    # Farther away the one is a temporary that is gone, and the other one is new.
    assert found_sizes(found, "only_base", "only_head") == ({} if missing else {256: 2})


def small_and_large(program: str, **columns: Any) -> Window:
    """Blocks of 512 bytes (``s``) and larger ones (``L``), each freed at once."""
    rows = [
        (kind, {"s": 512, "L": 1 << 20}[block], 4096 * at)
        for at, block in enumerate(program, 1)
        for kind in (Kind.ALLOC, Kind.FREE)
    ]
    twice = {name: np.repeat(np.array(column), 2) for name, column in columns.items()}
    names = {"owner_names": ("add", "mul")} if "owner" in columns else {}
    return Window(EventLog.from_rows(rows, **twice, **names), "all", 0, len(rows), 0, len(rows), 1, len(rows))


def test_blocks_of_one_size_that_asked_for_another_pair_as_moved() -> None:
    base = small_and_large("sL", requested=np.array([500, 1 << 20], np.int64))
    head = small_and_large("sL", requested=np.array([400, 1 << 20], np.int64))
    (found,) = diff_windows([(base, head)])
    assert (found.pairs, found.moved, found.findings) == (1, 1, ())


def test_of_blocks_that_moved_those_of_one_owner_pair() -> None:
    base = small_and_large("sL", owner=np.array([0, 0], np.int32))
    head = small_and_large("Lss", owner=np.array([0, 1, 0], np.int32))
    for pair in ((base, head), (head, base)):
        (found,) = diff_windows([pair])
        assert (found.pairs, found.moved) == (1, 1)
        assert [(f.size_bytes, f.owner) for f in found.findings] == [(512, "mul")]


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


def test_its_threads_on_their_own_are_cheaper_still(shared: Path) -> None:
    paths = [shared / "data/traps" / f"cut_{side}.log.gz" for side in ("base", "head")]
    found = memlens.diff(*paths, whole=True).windows[0]
    # Neighbours of two threads that changed places are in order in each thread.
    assert found.cost_bytes < 321_946_112
    assert not found_sizes(found, "missing_free", "extra_free", "only_base", "only_head")
