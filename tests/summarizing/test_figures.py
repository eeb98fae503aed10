"""The table of windows is the rows that it is made of, and of the largest groups of blocks nothing is said that is not so."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping
from statistics import median_low

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.claims.roles import EITHER, GRAPH, UNSEEN
from memlens.summarizing.figures import COLUMNS, METRICS, NOT_KNOWN, WindowTable
from memlens.summarizing.largest import LargestGroups, holder_of_most

amounts = st.integers(0, 1 << 40)
rows = st.lists(st.tuples(*[amounts | st.just(NOT_KNOWN)] * (len(COLUMNS) - 2), st.booleans(), st.booleans()), min_size=1, max_size=9)  # fmt: skip
kinds = st.tuples(st.integers(1, 300), st.sampled_from(["linear", "relu", None]))
groups = st.dictionaries(kinds, st.integers(1, 50), max_size=400).map(Counter)


def largest(counts: Mapping[tuple[int, str | None], int]) -> LargestGroups:
    sizes = np.array([size for size, _ in counts], np.int64)
    return LargestGroups.of(sizes, np.array([*counts.values()], np.int64), [owner for _, owner in counts])


@given(rows)
def test_a_window_has_what_its_column_has_and_the_typical_one_the_median_of_each_figure(
    figures: list[tuple[int, ...]],
) -> None:
    table = WindowTable([str(k) for k in range(len(figures))], np.array(figures, np.int64).T)
    assert pickle.loads(pickle.dumps(table)) == table
    for k, (window, row) in enumerate(zip(table, figures, strict=True)):
        own = [getattr(window, name) for name in COLUMNS]
        assert own == [None if value == NOT_KNOWN else value for value in row]
        assert window == table.where(np.arange(len(table)) == k)[0] == table.part(slice(k, k + 1))[0]
    (typical,) = table.typical()
    for metric in METRICS:
        known = [figure for window in table if (figure := window.figure(metric)) is not None]
        assert typical.figure(metric) == (median_low(known) if known else None)
    peaks = sorted(window.peak_bytes or 0 for window in table)
    assert (table[table.middle].peak_bytes or 0) == peaks[(len(peaks) - 1) // 2]


@given(groups, groups)
def test_what_a_rank_holds_more_of_is_exact_however_many_groups_there_are(
    one: Counter[tuple[int, str | None]], other: Counter[tuple[int, str | None]]
) -> None:
    more, kept = one - other, [largest(counts) for counts in (one, other)]
    found = kept[0].more_than(kept[1])
    assert found.items() <= more.items()
    if max(len(one), len(other)) <= 128:
        assert found == more


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans()), max_size=12))
def test_who_is_said_to_hold_what_a_rank_has_more_of_holds_half_of_it(blocks: list[tuple[str, bool]]) -> None:
    """Blocks of one kind by who holds them, of the rank and of the one that it is compared with; one that ``a`` holds half of is said to be held."""

    def of_one(rank: bool) -> LargestGroups:
        held = Counter(holder for holder, own in blocks if own == rank)
        (holder, count), total = held.most_common(1)[0] if held else ("a", 0), held.total()
        which = -1 if 2 * count < total else "ab".index(holder)
        numbers = (np.array([which]), ("a", "b"), np.array([count]))
        return LargestGroups.of(np.array([512]), np.array([total]), ["relu"], numbers)

    more = Counter(holder for holder, own in blocks if own)
    more.subtract(holder for holder, own in blocks if not own)
    found = of_one(True).holders_of_more(of_one(False))
    if more.total() > 0 and found:
        assert 2 * more[found[512, "relu"]] >= more.total()
    if more.total() > 0 and not any(not own for _, own in blocks):
        assert found


def test_the_groups_of_a_rank_are_few_kilobytes() -> None:
    counts: dict[tuple[int, str | None], int] = {
        (size, f"operator_{size % 50} < a/long/path/of/a/program.py:{size} forward"): 3 for size in range(1, 9999)
    }
    held = largest(counts)
    assert (len(held.counts), held.left_out_bytes) == (128, 3 * (9998 - 128))
    assert len(pickle.dumps(held)) < 12_000
    assert pickle.loads(pickle.dumps(held)) == held


@pytest.mark.parametrize(
    ("name", "more"),
    [("self.preds[*] (result, a.py)", 3400), ("self.labels[*] (result, a.py)", 3900), ("preds[*] (a.py)", 3900)],
)
def test_what_the_base_holds_by_another_name_of_the_same_attribute_is_not_more(name: str, more: int) -> None:
    """Base peaks in a method of the object that has the list, which is ``self`` there."""
    most = "variable metric.preds[*] (a.py)"
    base = {f"variable {name}": 500, "variable x (a.py)": 64}
    assert holder_of_most({most: 3900, "variable x (a.py)": 64}, base, 3500) == (most, more, False)


@pytest.mark.parametrize(
    ("in_base", "in_head"),
    [
        ("saved loss.grad_fn (a.py)", GRAPH),
        (GRAPH, "saved out.grad_fn (a.py)"),
        ("optimizer opt (a.py)", "optimizer opts[*] (a.py)"),
    ],
)
def test_what_the_base_holds_by_another_name_for_the_same_purpose_is_not_more(in_base: str, in_head: str) -> None:
    assert holder_of_most({in_head: 3900}, {in_base: 3900}, 64) is None
    assert holder_of_most({in_head: 3900}, {in_base: 900}, 3000) == (in_head, 3000, False)


@pytest.mark.parametrize(("missed", "at_least"), [(699, False), (701, True)])
def test_what_walks_missed_of_the_head_may_be_more_that_is_held(missed: int, at_least: bool) -> None:
    most = "variable results[*] (main, a.py)"
    held, base = {most: 2810, UNSEEN: missed}, {"variable x (a.py)": 64, EITHER: 700}
    assert holder_of_most(held, base, 5500) == (most, 2810, at_least)


@pytest.mark.parametrize(("path", "at_least"), [("self.results[*] (answer, a.py)", True), ("rows[*] (a.py)", False)])
def test_what_is_held_by_another_name_of_the_same_attribute_may_be_more_of_it(path: str, at_least: bool) -> None:
    most = "variable server.results[*] (main, a.py)"
    assert holder_of_most({most: 2810, f"variable {path}": 900}, {}, 3710) == (most, 2810, at_least)
