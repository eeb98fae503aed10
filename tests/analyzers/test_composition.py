"""What live memory consists of, by role and by holder, is that of a plain count."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import window_of

from memlens.analyzers import growth
from memlens.analyzers.composition import Share, composition
from memlens.analyzers.peak import live_before
from memlens.claims.roles import GRAPH, NO_VARIABLE, OF_BACKWARD, ROLES, TEMPORARY, UNSEEN, role_of, variable_of
from memlens.facts import Kind
from memlens.log import Log

OWNERS = ("add < a.py:1 main", "mul < a.py:2 main")
#: Holders, with the role and the name in common that is expected of each.
HOLDERS = {
    "parameter net.w (a.py)": ("parameter", "parameter net.w (a.py)"),
    "gradient net.w.grad (a.py)": ("gradient", "gradient net.w.grad (a.py)"),
    "optimizer adam.moment1[*] (a.py)": ("optimizer", "optimizer adam (a.py)"),
    "optimizer adam.moment2[*] (a.py)": ("optimizer", "optimizer adam (a.py)"),
    "garbage Adam.moment1[*] (a cycle)": ("garbage", "garbage Adam (a cycle)"),
    "garbage Adam.moment2[*] (a cycle)": ("garbage", "garbage Adam (a cycle)"),
    "variable cache['a'] (a.py)": ("variable", "variable cache[*] (a.py)"),
    "variable cache['b'] (a.py)": ("variable", "variable cache[*] (a.py)"),
    "saved loss.grad_fn (main, a.py)": ("saved", "saved loss.grad_fn (main, a.py)"),
    "something of another kind": (None, "something of another kind"),
    NO_VARIABLE: ("nobody", NO_VARIABLE),
    GRAPH: ("saved", GRAPH),
    TEMPORARY: ("temporary", TEMPORARY),
    OF_BACKWARD: ("temporary", OF_BACKWARD),
    UNSEEN: ("variable", UNSEEN),
}
NAMES = (*HOLDERS,)
#: Size, owner and holder of a block, and whether it is freed before the last one is allocated.
BLOCKS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(-1, 1), st.integers(-1, len(NAMES) - 1), st.booleans()),
    min_size=1,
    max_size=60,
)


def log_of(blocks: list[tuple[int, int, int, bool]]) -> Log:
    rows, owner, holder = [], [], []
    for k, (size, owned, held, freed) in enumerate(blocks):
        for kind in (Kind.ALLOC, *([Kind.FREE] if freed else [])):
            rows.append((kind, size, 4096 * k))
            owner.append(owned)
            holder.append(held)
    columns = {"owner": np.array(owner, np.int32), "owner_names": OWNERS}
    return Log.from_rows(rows, **columns, holder=np.array(holder, np.int64), holder_names=NAMES)


def plain(blocks: list[tuple[int, int, int]], by: int) -> list[tuple[Any, ...]]:
    """The groups of blocks by role (0) or holder (1), their count and bytes; the most bytes first."""
    groups: dict[str | None, list[int]] = defaultdict(list)
    for size, _, held in blocks:
        groups[None if held < 0 else HOLDERS[NAMES[held]][by]].append(size)
    return sorted(((name, len(sizes), sum(sizes)) for name, sizes in groups.items()), key=lambda row: -row[2])


@given(BLOCKS)
def test_the_composition_is_that_of_a_count(blocks: list[tuple[int, int, int, bool]]) -> None:
    found = composition([window_of(log := log_of(blocks), 0, len(log))])[0]
    # All that stays is live at the end.  At the peak, so is a block that is freed right after it comes.
    stay: list[tuple[int, int, int]] = []
    peaks = []
    for size, owner, held, freed in blocks:
        peaks.append([*stay, (size, owner, held)])
        if not freed:
            stay.append((size, owner, held))
    peak = max(peaks, key=lambda those: sum(size for size, _, _ in those))
    for at, those in (("peak", peak), ("end", stay)):
        for by, shares in enumerate((found.roles, found.holders)):
            rows = [share for share in shares if share.at == at]
            counted = [(row.role if by == 0 else row.holder, row.count, row.total_bytes) for row in rows]
            assert sorted(counted, key=str) == sorted(plain(those, by), key=str)
            totals = [row.total_bytes for row in rows]
            assert totals == sorted(totals, reverse=True)
            for row in rows:
                check_most(row, those, by)


def check_most(row: Share, blocks: list[tuple[int, int, int]], by: int) -> None:
    """The owner and the holder of a share have the most bytes of its blocks."""
    owners: dict[str | None, int] = defaultdict(int)
    holders: dict[str | None, int] = defaultdict(int)
    for size, owner, held in blocks:
        names = (None, None) if held < 0 else HOLDERS[NAMES[held]]
        if names[by] == (row.role, row.holder)[by]:
            owners[None if owner < 0 else OWNERS[owner]] += size
            holders[names[1]] += size
    assert (owners[row.owner], holders[row.holder]) == (max(owners.values()), max(holders.values()))


@given(st.lists(st.lists(st.integers(-1, len(NAMES) - 1), min_size=4, max_size=4), min_size=8, max_size=12))
def test_what_piles_up_is_what_most_of_its_blocks_are(steps: list[list[int]]) -> None:
    log = log_of([(1 + k % 2, -1, held, False) for step in steps for k, held in enumerate(step)])
    found = growth([window_of(log, 4 * k, 4 * k + 4, str(k)) for k in range(len(steps))])
    assert found.since_window is not None
    assert {pile.size_bytes for pile in found.piling} == {1, 2}
    for pile in found.piling:
        held = [one for step in steps[found.since_window :] for one in step[pile.size_bytes - 1 :: 2]]
        roles = Counter(HOLDERS[NAMES[one]][0] if one >= 0 else None for one in held)
        assert pile.count == roles.total()
        role, count = roles.most_common(1)[0]
        assert pile.role == (role if 2 * count > pile.count else None)


def test_a_log_without_holders_has_no_composition() -> None:
    log = Log.from_rows([(Kind.ALLOC, 256, 1)])
    (found,) = composition([window_of(log, 0, 1)])
    assert (found.roles, found.holders) == ((), ())


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_role_is_that_of_its_holder(holder: str) -> None:
    role = role_of(holder)
    assert role == HOLDERS[holder][0]
    assert role is None or role in ROLES


def test_a_sentence_names_variables_and_graphs_alone() -> None:
    assert variable_of("variable feats[*] (main, a.py)") == "feats[*] (main, a.py)"
    assert variable_of("saved loss.grad_fn (main, a.py)") == "loss.grad_fn (main, a.py)"
    assert [variable_of(one) for one in (GRAPH, NO_VARIABLE)] == [GRAPH, NO_VARIABLE]
    assert {variable_of(one) for one in (TEMPORARY, OF_BACKWARD, UNSEEN, None)} == {None}


def test_of_as_many_blocks_a_holder_that_was_seen_goes_before_one_that_was_not() -> None:
    seen, unseen = NAMES.index("variable cache['a'] (a.py)"), NAMES.index(UNSEEN)
    log = log_of([(256, 0, held, False) for held in (seen, unseen, seen, unseen)])
    (group,) = live_before(log, len(log))
    assert (group.holder, group.count) == ("variable cache['a'] (a.py)", 4)
    (group,) = live_before(log_of([(256, 0, held, False) for held in (seen, unseen, unseen)]), 3)
    assert group.holder == UNSEEN
