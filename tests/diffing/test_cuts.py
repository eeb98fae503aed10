"""Sequences too long for one table: cut where both say the same, and never worse than the pieces allow."""

import numpy as np
import pytest

from memlens.columns import Symbols
from memlens.diffing.alignment import align as alignment
from memlens.diffing.alignment import seeds, tables
from memlens.diffing.alignment.align import align, around_cuts
from memlens.diffing.alignment.seeds import cut
from memlens.diffing.alignment.tables import Corridor, Problem

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
        patch.setattr(tables, "_CELLS", 0)  # what the pieces give, and not what can be found once they are known
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


@pytest.mark.parametrize("seed", range(3))
def test_a_run_of_equal_steps_of_which_one_has_a_further_part_is_not_led_astray(seed: int) -> None:
    rng = np.random.default_rng(seed)
    key, held = program(rng, 6000, 500)
    more, fates = edited(rng, key, held, 0.05)
    validation = rng.integers(0, 60, 1500)
    more = np.concatenate([more[:3000], validation, more[3000:]])
    fates = np.concatenate([fates[:3000], np.zeros(1500, np.bool_), fates[3000:]])
    whole, pieces, _ = both(symbols(key, held), symbols(more, fates), 1 << 22)
    # A cut may fall on another step than the cheapest alignment would have it; what that costs is little.
    assert pieces >= 0.999 * whole


def test_the_place_of_a_repeated_step_is_found_though_six_steps_stand_before_it_in_one_run_only() -> None:
    rng = np.random.default_rng(1)
    key, held = program(rng, 6000, 500)
    more, fates = edited(rng, key, held, 0.05)
    more = np.concatenate([more[:300], rng.integers(0, 60, 3000), more[300:]])
    fates = np.concatenate([fates[:300], np.zeros(3000, np.bool_), fates[300:]])
    whole, pieces, _ = both(symbols(key, held), symbols(more, fates), 1 << 22)
    assert pieces >= 0.999 * whole


def test_where_all_sizes_are_alike_pieces_are_as_good_as_the_whole() -> None:
    rng = np.random.default_rng(0)
    held = rng.random(7000) < 0.5
    other = held.copy()
    other[[100, 3000, 6900]] ^= True
    one, two = symbols(np.zeros(7000, np.int64), held), symbols(np.zeros(7000, np.int64), other)
    whole, pieces, count = both(one, two, 1 << 22)
    assert count > 1
    assert pieces == whole


def test_of_a_run_of_which_much_was_changed_twelve_in_a_row_tell_the_place() -> None:
    rng = np.random.default_rng(0)
    key, fates = rng.integers(0, 60, 7000), np.zeros(7000, np.bool_)
    other = np.where(rng.random(7000) < 0.4, rng.integers(0, 60, 7000), key)
    thirteen = np.lib.stride_tricks.sliding_window_view(key == other, 13).all(axis=1)
    other[np.flatnonzero(thirteen)] += 1
    for changed, blind in ((0, 0), (1, 14000)):
        twelve = np.lib.stride_tricks.sliding_window_view(key == other % 60, 12).all(axis=1)
        other[np.flatnonzero(twelve)] += changed
        rows, columns = symbols(key, fates), symbols(other % 60, fates)
        found = cut(rows.join(columns), Problem(np.arange(7000), np.arange(7000, 14000)), 1 << 24)
        assert len(found.pieces) > 1
        assert found.blind == blind


def test_cuts_lie_about_a_thousand_entries_apart() -> None:
    rng = np.random.default_rng(0)
    key, held = program(rng, 16384, 16384)
    rows, columns = symbols(key, held), symbols(*edited(rng, key, held, 0.02))
    found = cut(rows.join(columns), Problem(np.arange(16384), np.arange(16384, 16384 + len(columns))), 1 << 23)
    # The first place of each 1,024 rows and then of each 1,024 columns: none at all in a few.
    assert 10 <= len(found.pieces) <= 17


def test_a_chain_is_trusted_where_its_offset_changes_by_an_eighth_of_the_way_at_most() -> None:
    at = np.arange(0, 700, 100)
    found = at + np.array([0, 12, 24, 37, 37, 37, 50])  # 12 and 13 of 100
    assert seeds._steady(at, found).tolist() == [0, 1, 4]


def test_with_nothing_to_go_by_the_sequences_are_cut_in_proportion_and_that_is_told() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.integers(0, 30, 4000), rng.integers(30, 60, 6000)
    # One key in common, so rare that no four keys in a row are.
    one[::50], two[::50] = 0, 0
    rows, columns = (symbols(key, np.zeros(len(key), np.bool_)) for key in (one, two))
    found = cut(rows.join(columns), Problem(np.arange(4000), np.arange(4000, 10000)), 1 << 20)
    assert found.blind == found.entries == 10000
    assert all(piece.cells <= 1 << 20 for piece in found.pieces)
    assert np.array_equal(np.concatenate([piece.rows for piece in found.pieces]), np.arange(4000))
    assert np.array_equal(np.concatenate([piece.columns for piece in found.pieces]), np.arange(4000, 10000))


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


def test_around_a_cut_256_rows_on_each_side_are_aligned_again_with_all_columns_between_their_partners() -> None:
    # Each row pairs with the column of its number, 100 more columns stand before row 1,000, and there the problem was cut.
    rows, columns = np.arange(2000), np.arange(2000, 4100)
    mate = np.where(rows < 1000, columns[rows], columns[rows + 100])
    pieces = [Problem(rows[:1000], columns[:1050]), Problem(rows[1000:], columns[1050:])]
    (stretch,) = around_cuts(Problem(rows, columns), pieces, mate, 1 << 20)
    assert stretch.rows.tolist() == list(range(744, 1256))
    assert stretch.columns.tolist() == list(range(2744, 3356))
    assert around_cuts(Problem(rows, columns), pieces, mate, stretch.cells - 1) == []


# --- what is solved as a whole -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("allocs", "whole"), [(1 << 14, True), ((1 << 14) + 64, False)])
def test_a_table_of_up_to_268_million_cells_is_filled_as_a_whole(
    monkeypatch: pytest.MonkeyPatch, allocs: int, whole: bool
) -> None:
    monkeypatch.setattr(tables, "_CELLS", 0)  # what is cut cannot be exact after all
    rng = np.random.default_rng(0)
    base, head = (symbols(rng.integers(0, 60, allocs), np.zeros(allocs, np.bool_)) for _ in range(2))
    edges = np.array([0, allocs])
    assert (not align(base, head, edges, edges).inexact) == whole


def test_many_large_tables_are_solved_as_a_whole_only_as_long_as_two_thousand_million_cells_are_enough() -> None:
    large, small = 1 << 28, 1 << 21
    assert alignment._limit(np.full(8, large), large) == large
    # One more is too much, and none of this size is solved as a whole then …
    assert alignment._limit(np.full(9, large), large) < large
    assert alignment._limit(np.append(np.full(9, large), np.full(4, 1 << 27)), large) == 1 << 27
    # … but small ones always are.
    assert alignment._limit(np.full(10_000, small), large) == small


def test_a_corridor_is_solved_where_it_has_at_most_268_million_cells_and_a_row_counts_512_more() -> None:
    nothing, rows = Problem(np.zeros(0, np.int64), np.zeros(0, np.int64)), np.zeros(1 << 10, np.int64)
    wide = rows + (1 << 18) - 512
    assert Corridor(nothing, rows, wide).solvable
    assert not Corridor(nothing, rows, np.append(wide[1:], wide[0] + 1)).solvable


def test_a_bound_takes_stretches_of_a_thousand_rows_or_of_as_many_as_the_corridor_is_wide() -> None:
    rows = np.arange(5000)
    for wide, stretches in ((10, 4), (2500, 2), (5000, 1)):
        corridor = Corridor(Problem(rows, rows), np.zeros(5001, np.int64), np.full(5001, wide))
        assert [len(stretch.rows) for stretch in corridor.stretches()] == [5000 // stretches] * stretches
