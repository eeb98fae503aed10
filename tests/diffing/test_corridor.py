"""Long sequences of which an alignment is known: what is cheaper lies near it, and is found or bounded there."""

import numpy as np
import pytest
from exact_alignment import Born, exact_cost
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many

from memlens.columns import Symbols
from memlens.diffing.alignment import tables
from memlens.diffing.alignment.align import align
from memlens.diffing.alignment.tables import Corridor, Problem, alone, savings, solve, unordered_costs_of

SIZES = (0, 1, 3, 7, 256)
_ENTRY = st.tuples(st.integers(0, len(SIZES) - 1), st.booleans(), st.integers(0, 2))
_SEQUENCE = st.lists(_ENTRY, min_size=1, max_size=25)


def symbols(entries: list[tuple[int, bool, int]]) -> Symbols:
    """Symbols of rows (key, held, owner)."""
    key, held, owner = (np.array(column) for column in zip(*entries, strict=True))
    weights = np.array(SIZES, np.int64)[key]
    return Symbols(key.astype(np.int32), held.astype(np.bool_), weights, owner.astype(np.uint64))


def cost_of(rows: Symbols, columns: Symbols, pairs: tuple[np.ndarray, np.ndarray]) -> int:
    """What pairs cost in halves of a unit of weight, once they are seen to be an alignment."""
    left, right = pairs
    assert (rows.key[left] == columns.key[right]).all()
    assert (np.diff(left) > 0).all()
    assert (np.diff(right) > 0).all()
    unpaired = alone(rows).sum() + alone(columns).sum()
    return int(unpaired - savings(rows, columns, left, right).sum())


def cheapest(rows: Symbols, columns: Symbols) -> int:
    """What the cheapest alignment costs, by the exact program of the judges."""
    left, right = (
        [Born((int(key),), bool(held), int(size)) for key, held, size in zip(s.key, s.held, s.weight, strict=True)]
        for s in (rows, columns)
    )
    return exact_cost(left, right)


def whole(rows: Symbols, columns: Symbols) -> tuple[Symbols, Problem]:
    """All symbols, the columns' after the rows', and the problem of aligning them."""
    both = rows.join(columns)
    return both, Problem(np.arange(len(rows)), np.arange(len(rows), len(both)))


def pairs_of(rows: Symbols, found: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the pairs in rows and in columns."""
    return found[0], found[1] - len(rows)


@settings(max_examples=many(200))
@given(_SEQUENCE, _SEQUENCE, st.integers(0, 3))
def test_the_corridor_of_any_known_cost_holds_a_cheapest_alignment(
    one: list[tuple[int, bool, int]], two: list[tuple[int, bool, int]], more: int
) -> None:
    rows, columns = symbols(one), symbols(two)
    least = cheapest(rows, columns)
    both, problem = whole(rows, columns)
    corridor = Corridor.of(both, problem, least + more)
    assert (np.diff(corridor.first) >= 0).all()
    assert (np.diff(corridor.last) >= 0).all()
    pairs = pairs_of(rows, corridor.solve(both))
    assert cost_of(rows, columns, pairs) == least
    # Of several cheapest ones that with the most marks in common, as the whole table finds it.
    table = pairs_of(rows, solve(both, [problem]))
    assert worth(rows, columns, pairs) == worth(rows, columns, table)


def worth(rows: Symbols, columns: Symbols, pairs: tuple[np.ndarray, np.ndarray]) -> int:
    """What the marks of pairs are worth: the owner 4, the other three, which are all equal here, 1 each."""
    return int((3 + 4 * (rows.marks[pairs[0]] == columns.marks[pairs[1]])).sum())


@settings(max_examples=many(200))
@given(_SEQUENCE, _SEQUENCE, st.integers(0, 3), st.integers(1, 9), st.sampled_from([0, 20, 100, 1 << 20]))
def test_no_alignment_costs_less_than_its_bound(
    one: list[tuple[int, bool, int]], two: list[tuple[int, bool, int]], more: int, stretch: int, cells: int
) -> None:
    rows, columns = symbols(one), symbols(two)
    least = cheapest(rows, columns)
    both, problem = whole(rows, columns)
    unordered = int(unordered_costs_of(both, problem)[1].sum())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_STRETCH", stretch)
        patch.setattr(tables, "_CELLS_OF_BOUND", cells)
        assert unordered <= tables.least_cost(both, problem, least + more) <= least


def jittered(seed: int, allocs: int, share: float) -> tuple[Symbols, Symbols]:
    """A run of random blocks, and the same with neighbours that changed places."""
    chance = np.random.default_rng(seed)
    key, held = chance.integers(0, 40, allocs), chance.random(allocs) < 0.1
    order = np.arange(allocs)
    at = np.flatnonzero(chance.random(allocs // 2) < share) * 2
    order[at], order[at + 1] = at + 1, at
    weight = np.random.default_rng(7).integers(1, 4000, 40)[key]
    none = np.zeros(allocs, np.uint64)
    base = Symbols(key.astype(np.int32), held, weight, none)
    return base, base.take(order)


@pytest.mark.parametrize("seed", range(3))
def test_a_long_run_whose_neighbours_changed_places_is_aligned_exactly(seed: int) -> None:
    base, head = jittered(seed, 3000, 0.2)
    edges = np.array([0, len(base)]), np.array([0, len(head)])
    found = align(base, head, *edges, cells=1 << 21)
    assert not found.inexact
    left = np.flatnonzero(found.partner >= 0)
    assert cost_of(base, head, (left, found.partner[left])) == cheapest(base, head)


def test_where_the_corridor_is_too_wide_to_be_solved_the_bound_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    base, head = jittered(4, 6000, 0.2)
    monkeypatch.setattr(tables, "_CELLS", 0)
    edges = np.array([0, len(base)]), np.array([0, len(head)])
    found = align(base, head, *edges, cells=1 << 21)
    left = np.flatnonzero(found.partner >= 0)
    cost = cost_of(base, head, (left, found.partner[left]))
    least = cheapest(base, head)
    assert 0 <= cost - found.inexact[0].excess <= least <= cost
    # Without regard to order the two are the same blocks: that alone would bound nothing.
    assert not unordered_costs_of(*whole(base, head))[1].any()
    assert found.inexact[0].excess < 0.05 * cost
