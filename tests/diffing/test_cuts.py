"""Sequences too long for one table: cut where both say the same, and never worse than the pieces allow."""

import numpy as np
import pytest

from memlens.columns import Symbols
from memlens.diffing.alignment import align as alignment
from memlens.diffing.alignment.align import align
from memlens.diffing.alignment.tables import Problem, cut

SIZES = np.random.default_rng(7).integers(1, 4000, 60) * 256


def symbols(key: np.ndarray, held: np.ndarray) -> Symbols:
    weight = SIZES[key] if len(key) else np.zeros(0, np.int64)
    return Symbols(key.astype(np.int32), held, weight.astype(np.int64), np.zeros(len(key), np.uint64))


def program(rng: np.random.Generator, allocs: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and fates of a run that repeats one step."""
    return np.resize(rng.integers(0, 60, step), allocs), np.resize(rng.random(step) < 0.2, allocs)


def edited(rng: np.random.Generator, key: np.ndarray, held: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """The same run with some allocations left out, some put in, and some kept that were freed."""
    keep = rng.random(len(key)) > share / 2
    key, held = key[keep], held[keep] ^ (rng.random(int(keep.sum())) < share / 10)
    new = int(share / 2 * len(key))
    at = np.sort(rng.integers(0, len(key), new))
    return np.insert(key, at, rng.integers(0, 60, new)), np.insert(held, at, rng.random(new) < 0.2)


def saved(base: Symbols, head: Symbols, partner: np.ndarray) -> int:
    """What an alignment saves in half units, once it is seen to be one."""
    left = np.flatnonzero(partner >= 0)
    right = partner[left]
    assert (base.key[left] == head.key[right]).all()
    assert (np.diff(right) > 0).all()
    same = np.where(base.held[left], 4, 2)
    return int((np.where(base.held[left] == head.held[right], same, 1) * base.weight[left]).sum())


def both(base: Symbols, head: Symbols, cells: int) -> tuple[int, int, int]:
    """What is saved by the whole table and by pieces of at most ``cells``, and into how many pieces it was cut."""
    edges = np.array([0, len(base)]), np.array([0, len(head)])
    whole = align(base, head, *edges)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alignment, "MOST_CELLS", 0)  # what the pieces give, and not what can be found once they are known
        pieces = align(base, head, *edges, cells=cells)
    assert not whole.inexact
    return saved(base, head, whole.partner), saved(base, head, pieces.partner), pieces.inexact[0].pieces


@pytest.mark.parametrize("seed", range(3))
def test_a_long_run_with_a_twentieth_changed_is_aligned_in_pieces_as_well_as_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    key, held = program(rng, 7000, 7000)
    whole, pieces, count = both(symbols(key, held), symbols(*edited(rng, key, held, 0.05)), 1 << 22)
    assert count > 1
    # Where the cuts go both runs say the same for 16 allocations, and the cheapest alignment goes through there.
    assert pieces == whole


@pytest.mark.parametrize(
    ("seed", "at", "count"),
    [*((seed, 3000, 1500) for seed in range(3)), (1, 300, 3000)],  # a part of a step; six steps
)
def test_a_run_of_equal_steps_with_a_further_part_in_one_run_only_is_not_led_astray(
    seed: int, at: int, count: int
) -> None:
    rng = np.random.default_rng(seed)
    key, held = program(rng, 6000, 500)
    more, fates = edited(rng, key, held, 0.05)
    more = np.concatenate([more[:at], rng.integers(0, 60, count), more[at:]])
    fates = np.concatenate([fates[:at], np.zeros(count, np.bool_), fates[at:]])
    whole, pieces, _ = both(symbols(key, held), symbols(more, fates), 1 << 22)
    # A cut may fall on another step than the cheapest alignment would have it; what that costs is little.
    assert pieces >= 0.999 * whole


@pytest.mark.parametrize("seed", range(3))
def test_pieces_cover_both_sides_in_order_and_none_is_too_large(seed: int) -> None:
    rng = np.random.default_rng(seed)
    key, held = program(rng, 20000, 3000)
    rows, columns = symbols(key, held), symbols(*edited(rng, key, held, 0.2))
    both = rows.join(columns)
    found = cut(both, Problem(np.arange(len(rows)), np.arange(len(rows), len(both))), 1 << 21)
    for places in ([piece.rows for piece in found.pieces], [piece.columns for piece in found.pieces]):
        assert (np.diff(np.concatenate(places)) > 0).all()
    assert all(0 < piece.cells <= 1 << 21 for piece in found.pieces)
