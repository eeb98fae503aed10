"""The cost rule: what blocks and pairs cost, and what may never outweigh it."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.columns import Symbols
from memlens.diffing.alignment.costs import alone, in_bytes, savings, scale_of, unordered_cost

#: What a pair costs in halves of a block, by fate: nothing where it is equal.
PAIR = {(False, False): 0, (True, True): 0, (True, False): 2, (False, True): 2}
UNPAIRED = {False: 1, True: 2}


@pytest.mark.parametrize(("one", "two"), PAIR)
def test_a_pair_saves_what_both_cost_alone_less_what_it_costs(one: bool, two: bool) -> None:
    sides = [
        Symbols(np.zeros(1, np.int32), np.array([held]), np.array([300]), np.zeros(1, np.uint64)) for held in (one, two)
    ]
    assert [int(alone(side)[0]) for side in sides] == [300 * UNPAIRED[one], 300 * UNPAIRED[two]]
    zero = np.zeros(1, np.int64)
    saved = 300 * (UNPAIRED[one] + UNPAIRED[two] - PAIR[one, two])
    assert savings(sides[0], sides[1], zero, zero).tolist() == [saved]


@given(*[st.integers(0, 4)] * 4)
def test_without_order_blocks_cost_what_the_cheapest_of_all_pairings_costs(a: int, b: int, c: int, d: int) -> None:
    # Temporary and held ones of one run, a and b, and of the other, c and d; how many pair with which.
    costs = []
    for same_t, same_h, th, ht in product(range(min(a, c) + 1), range(min(b, d) + 1), range(a + 1), range(b + 1)):
        if same_t + th <= a and same_h + ht <= b and same_t + ht <= c and same_h + th <= d:
            temporary, held = a + c - 2 * same_t - th - ht, b + d - 2 * same_h - th - ht
            costs.append(2 * (th + ht) + temporary + 2 * held)
    assert unordered_cost(np.array([[a - c, b - d]])).tolist() == [min(costs)]


def test_the_marks_of_all_pairs_together_are_worth_less_than_a_unit() -> None:
    assert scale_of(1.0, 1) == 8
    assert scale_of(1.0, 1000) == 7001


def test_marks_do_not_count_where_sums_could_reach_the_sixty_third_bit() -> None:
    assert scale_of(2.0**57, 1) == 0
    assert scale_of(np.nextafter(2.0**57, 0), 1) == 8


def test_halves_of_bytes_are_shown_as_integers_where_they_are_whole() -> None:
    assert [in_bytes(6), in_bytes(7)] == [3, 3.5]
    assert isinstance(in_bytes(6), int)
