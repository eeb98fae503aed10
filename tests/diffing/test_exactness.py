"""The comparison against judges of its own: the exact program, and every byte counted again from the events, one by one."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diff_judge import assert_mirrored, check, check_accounts
from exact_alignment import Born, alignments, cost_of, exact, plain_cost
from hypothesis import given, settings
from hypothesis import strategies as st
from long_logs import SIZES, cheapest_cost, cut, edited, half_freed, random_fates, repeated
from night import NIGHT, many, some
from real_windows import RELATIONS, real_windows

from memlens.diffing.alignment import align as alignment
from memlens.diffing.alignment import threads
from memlens.diffing.alignment.align import align
from memlens.diffing.result import WindowDiff
from memlens.diffing.run import diff, diff_windows
from memlens.events import Kind
from memlens.facts import Facts
from memlens.log import Log
from memlens.windows.windows import Window

# --- real logs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", some(RELATIONS))
def test_every_byte_of_real_windows_is_accounted_for_at_the_exact_cost(shared: Path, relation: str) -> None:
    pairs = [pair for pair in real_windows(shared, relations=[relation]) if pair.longest <= 1500]
    if len(pairs) > 200:
        pairs = pairs[::4]  # the steps of one log are much alike
    assert len(pairs) > 20
    for _, group in groupby(some(pairs, 8), key=lambda pair: (id(pair.base.log), id(pair.head.log))):
        same_logs = list(group)
        results = diff_windows([(pair.base, pair.head) for pair in same_logs])
        for pair, found in zip(same_logs, results, strict=True):
            check(pair.base, pair.head, found, pair.name)


@pytest.mark.parametrize("relation", ["two versions", "pt and pir", "ways to run"])
def test_real_windows_compared_the_other_way_round_mirror_each_other(shared: Path, relation: str) -> None:
    for pair in list(real_windows(shared, relations=[relation]))[:: 3 if NIGHT else 24]:
        assert_mirrored(diff(pair.base, pair.head).windows[0], diff(pair.head, pair.base).windows[0], pair.name)


# --- logs of any kind ----------------------------------------------------------------------------------------------------

Rows = list[tuple[Kind, int, int]]
_KINDS = st.sampled_from([Kind.ALLOC] * 8 + [Kind.FREE] * 7 + [Kind.RESERVE, Kind.RELEASE])
#: Blocks from before the input, by address.
_OPENING: st.SearchStrategy[list[tuple[int, int]]] = st.just([]) | st.lists(
    st.tuples(st.integers(1, 6), st.sampled_from([0, 1, 256, 300])), max_size=4, unique_by=lambda row: row[0]
)
_ROWS = st.lists(st.tuples(_KINDS, st.sampled_from([0, 1, 2, 3, 256, 300, 512, 2**40]), st.integers(1, 6)), max_size=30)


@st.composite
def windows(draw: st.DrawFn, rows: Rows | None = None) -> Window:
    """A window of a log sound or broken: few addresses, so that they are used again, freed unknown, freed as another size."""
    opening = draw(_OPENING)
    rows = [*((Kind.ALLOC, size, address) for address, size in opening), *(draw(_ROWS) if rows is None else rows)]
    first, last = len(opening), len(rows)
    edges = sorted(draw(st.tuples(st.integers(first, last), st.integers(first, last))))
    lo, hi = edges if draw(st.booleans()) else (first, last)
    first_line = 1 - first  # what comes before the input has no line
    columns: dict[str, Any] = {}
    if draw(st.booleans()):
        asked = draw(st.lists(st.sampled_from([-1, -1, 1, 2, 250]), min_size=len(rows), max_size=len(rows)))
        columns["requested"] = np.array(asked, np.int64)
    if draw(st.booleans()):
        owners = draw(st.lists(st.integers(-1, 2), min_size=len(rows), max_size=len(rows)))
        columns |= {"owner": np.array(owners, np.int32), "owner_names": ("add", "pd_op.add", "matmul")}
    threads = draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
    lines, facts = np.arange(first_line, first_line + len(rows)), Facts(opening=first)
    log = Log.from_rows(rows, thread=np.array(threads, np.int64), line=lines, facts=facts, **columns)
    return Window(log, f"{lo}-{hi}", lo, hi, lo, hi, lo + first_line, hi + first_line - 1)


@st.composite
def alike(draw: st.DrawFn) -> tuple[Window, Window]:
    """Two windows of which the second is the first with some rows left out, doubled or moved."""
    rows = draw(_ROWS)
    changed = list(rows)
    for _ in range(draw(st.integers(0, 6))):
        if changed:
            at = draw(st.integers(0, len(changed) - 1))
            row = changed.pop(at)
            if draw(st.booleans()):
                changed.insert(draw(st.integers(0, len(changed))), row)
    return draw(windows(rows)), draw(windows(changed))


any_pair = alike() | st.tuples(windows(), windows())


@settings(max_examples=many(200))
@given(any_pair)
def test_any_two_windows_are_aligned_at_the_exact_cost_and_every_byte_is_accounted_for(
    pair: tuple[Window, Window],
) -> None:
    check(*pair, diff_windows([pair])[0])


@settings(max_examples=many(75))
@given(st.lists(any_pair, max_size=5))
def test_many_pairs_at_once_are_compared_as_each_alone(pairs: list[tuple[Window, Window]]) -> None:
    if not pairs:
        assert diff_windows([]) == []
        return
    base, head = pairs[0][0].log, pairs[0][1].log
    cuts = [
        tuple(Window(log, w.name, lo, hi, lo, hi, lo + 1, hi) for log, w in zip((base, head), pair, strict=True)
              for lo, hi in [(min(w.lo, len(log)), min(w.hi, len(log)))])
        for pair in pairs
    ]  # fmt: skip
    together = diff_windows([(left, right) for left, right in cuts])
    for (left, right), found in zip(cuts, together, strict=True):
        check(left, right, found)
        assert without_partners(found) == without_partners(diff_windows([(left, right)])[0])


def without_partners(found: WindowDiff) -> dict[str, Any]:
    """A comparison, of its findings the effects of each size: what becomes of an older block in the other run is known where it is born."""
    values = found.to_dict()
    effects: Counter[tuple[int, str]] = Counter()
    for finding in values.pop("findings"):
        for name in ("d_remaining_bytes", "d_peak_bytes"):
            effects[finding["size_bytes"], name] += finding[name]
    return {**values, "effects": {key: effect for key, effect in effects.items() if effect}}


@settings(max_examples=many(100))
@given(windows())
def test_any_window_compared_with_itself_differs_in_nothing(window: Window) -> None:
    found = diff_windows([(window, window)])[0]
    assert found.same
    assert (found.cost_bytes, found.moved, len(found.findings)) == (0, 0, 0)


@settings(max_examples=many(100))
@given(any_pair)
def test_any_two_windows_compared_the_other_way_round_mirror_each_other(pair: tuple[Window, Window]) -> None:
    base, head = pair
    assert_mirrored(diff_windows([(base, head)])[0], diff_windows([(head, base)])[0])


# --- the judge itself ----------------------------------------------------------------------------------------------------

_BORN = st.tuples(st.sampled_from([0, 1, 2, 3, 5, 8]), st.sampled_from([-1, 0]), st.booleans()).map(
    lambda born: Born(born[:2], born[2], born[0])
)


@given(st.lists(_BORN, max_size=30), st.lists(_BORN, max_size=30))
def test_the_exact_program_agrees_with_its_plain_twin(base: list[Born], head: list[Born]) -> None:
    table = exact(base, head)
    assert table.cost == plain_cost(base, head) == cost_of(base, head, table.cheapest())


@given(st.lists(_BORN, max_size=6), st.lists(_BORN, max_size=6), st.data())
def test_the_exact_program_knows_what_some_and_what_every_cheapest_alignment_pairs(
    base: list[Born], head: list[Born], data: st.DataObject
) -> None:
    table = exact(base, head)
    each = {pairs: cost_of(base, head, pairs) for pairs in alignments(base, head)}
    best = [set(pairs) for pairs, cost in each.items() if cost == min(each.values())]
    assert table.cost == min(each.values())
    cells = [(i, j) for i in range(len(base)) for j in range(len(head))]
    assert {cell for cell in cells if table.some[cell]} == set.union(*best)
    assert {cell for cell in cells if table.every[cell]} == set.intersection(*best)
    for i in range(len(base)):
        assert table.base_alone[i] == any(i not in {left for left, _ in pairs} for pairs in best)
    for j in range(len(head)):
        assert table.head_alone[j] == any(j not in {right for _, right in pairs} for pairs in best)
    missing = {
        frozenset((i, j) for i, j in pairs if not base[i].held and head[j].held and base[i].size) for pairs in best
    }
    assert table.missing() == (next(iter(missing)) if len(missing) == 1 else None)
    wanted = np.zeros((len(base), len(head)), np.bool_)
    for cell in data.draw(st.sets(st.sampled_from(cells)) if cells else st.just(set())):
        wanted[cell] = True
    assert table.most_of(wanted) == max(sum(bool(wanted[cell]) for cell in pairs) for pairs in best)


# --- what is too long to be solved as a whole ------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [16, 400, 10_000])
def test_an_approximation_accounts_for_every_byte_and_says_how_far_from_the_cheapest_it_is_at_most(
    monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    monkeypatch.setattr(threads, "align", partial(align, cells=cells))
    monkeypatch.setattr(alignment, "EXACT_CELLS", cells)
    chance = np.random.default_rng(cells)
    run = random_fates(chance.choice(SIZES[:4], 700), 700, chance)
    one_size = [random_fates(np.full(700, 512), 700, chance) for _ in range(2)]
    step = random_fates(chance.choice(SIZES, 60), 60, chance)
    steps = repeated(step.log(), 700)
    pairs = [
        (run, edited(run, 0.1, chance)),
        (steps, edited(steps, 0.1, chance)),
        (one_size[0], one_size[1]),
        (half_freed(one_size[0], 500, chance), half_freed(one_size[1], 500, chance)),
        (run, random_fates(chance.choice(SIZES[:4], 700), 700, chance)),
    ]
    for base, head in ((cut(base.log(), 0, len(base)), cut(head.log(), 0, len(head))) for base, head in pairs):
        (found,) = diff_windows([(base, head)])
        check_accounts(base, head, found)
        cheapest = cheapest_cost(base, head)
        if found.approximation is None:
            assert found.cost_bytes == cheapest
        else:
            assert found.cost_bytes - found.approximation.excess_bytes <= cheapest <= found.cost_bytes
            assert found.approximation.allocs <= found.base.allocs + found.head.allocs
