"""Long sequences of which an alignment is known: what is cheaper lies near it, and is found or bounded there."""

import random

import numpy as np
import pytest
from exact_alignment import Born, exact_cost
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many

from memlens.columns import Symbols, reference_align
from memlens.diffing.alignment import align as alignment
from memlens.diffing.alignment import tables
from memlens.diffing.alignment.align import align
from memlens.diffing.alignment.tables import WORTH, Problem, Tables, alone, savings, scale_of, solve, unordered_costs_of

SIZES = (0, 1, 3, 7, 256)
_ENTRY = st.tuples(st.integers(0, len(SIZES) - 1), st.booleans(), st.integers(0, 2))
_SEQUENCE = st.lists(_ENTRY, min_size=1, max_size=25)
_Entries = list[tuple[int, bool, int]]


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


def whole_table(rows: Symbols, columns: Symbols) -> list[list[int]]:
    """The pairs of the whole table, by the plain implementation."""
    scale = scale_of(float(rows.weight.sum()), min(len(rows), len(columns)))
    edges = np.array([0, len(rows)]), np.array([0, len(columns)])
    found = reference_align(rows, edges[0], columns, edges[1], WORTH, np.array([scale])).partner
    paired = np.flatnonzero(found >= 0)
    return [paired.tolist(), found[paired].tolist()]


@settings(max_examples=many(200))
@given(_SEQUENCE, _SEQUENCE, st.integers(0, 3))
def test_the_corridor_of_any_known_cost_holds_the_alignment_of_the_whole_table(
    one: _Entries, two: _Entries, more: int
) -> None:
    rows, columns = symbols(one), symbols(two)
    least = cheapest(rows, columns)
    both, problem = whole(rows, columns)
    first, last = Tables.of(both, [problem]).corridor(np.array([least + more]))
    assert (np.diff(first) >= 0).all()
    assert (np.diff(last) >= 0).all()
    pairs = pairs_of(rows, solve(both, [problem], least + more))
    assert cost_of(rows, columns, pairs) == least
    assert [side.tolist() for side in pairs] == whole_table(rows, columns)


@settings(max_examples=many(200))
@given(st.lists(st.tuples(_SEQUENCE, _SEQUENCE), min_size=1, max_size=4), st.sampled_from([1, 4, 16, 1 << 20]))
def test_a_cost_that_is_guessed_changes_nothing(problems: list[tuple[_Entries, _Entries]], share: int) -> None:
    sides = [(symbols(one), symbols(two)) for one, two in problems]
    both, made, expected = sides[0][0].take(slice(0)), [], [np.zeros((2, 0), np.int64)]
    for rows, columns in sides:
        start, middle = len(both), len(both) + len(rows)
        both = both.join(rows).join(columns)
        made.append(Problem(np.arange(start, middle), np.arange(middle, len(both))))
        expected.append(np.add(whole_table(rows, columns), [[start], [middle]]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_SMALL", 0)
        patch.setattr(tables, "_GUESS", share)
        found = np.stack(solve(both, made))
    assert found[:, np.argsort(found[0])].tolist() == np.concatenate(expected, axis=1).tolist()


@settings(max_examples=many(200))
@given(_SEQUENCE, _SEQUENCE, st.randoms(use_true_random=False), st.sampled_from([0, 20, 100, 1 << 20]))
def test_no_alignment_costs_less_than_its_bound(
    one: _Entries, two: _Entries, chance: random.Random, cells: int
) -> None:
    rows, columns = symbols(one), symbols(two)
    least = cheapest(rows, columns)
    both, problem = whole(rows, columns)
    unordered = int(unordered_costs_of(both, problem)[1].sum())
    pairs = np.stack(solve(both, [problem]))
    known = pairs[:, [chance.random() < 0.7 for _ in pairs[0]]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_CELLS_OF_BOUND", cells)
        patch.setattr(tables, "_CELLS_OF_A_ROW", 0)
        bound = tables.least_cost(both, problem, (known[0], known[1]))
    assert unordered <= bound <= least
    if cells > 1 << 10:
        assert bound == least


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
    monkeypatch.setattr(alignment, "MOST_CELLS", 0)
    edges = np.array([0, len(base)]), np.array([0, len(head)])
    found = align(base, head, *edges, cells=1 << 21)
    left = np.flatnonzero(found.partner >= 0)
    cost = cost_of(base, head, (left, found.partner[left]))
    least = cheapest(base, head)
    excess = found.inexact[0].excess()
    assert 0 <= cost - excess <= least <= cost
    # Without regard to order the two are the same blocks: that alone would bound nothing.
    assert not unordered_costs_of(*whole(base, head))[1].any()
    assert excess < 0.05 * cost
