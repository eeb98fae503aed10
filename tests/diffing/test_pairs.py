"""Windows pair by name, and where names come again, in order: what is missing on one side shifts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlens.diffing.window_order import longest_common
from memlens.diffing.window_pairs import WindowPairs, pair_by_name_or_work
from memlens.errors import AnchorError
from memlens.log import Log
from memlens.windows.anchors import numbered
from memlens.windows.windows import Window

LOG = Log.from_rows([])


def series(names: Sequence[str]) -> list[Window]:
    """Windows as :func:`memlens.windows.windows.windows` names them; ``start_line`` tells which one it is."""
    return [Window(LOG, name, 0, 0, 0, 0, k, k) for k, name in enumerate(numbered(names))]


def places(found: WindowPairs) -> list[tuple[int, int]]:
    return [(one.start_line, other.start_line) for one, other in found.pairs]


def alone(found: WindowPairs) -> tuple[list[str], list[str]]:
    return [window.name for window in found.only_base], [window.name for window in found.only_head]


def pair_windows(base: Sequence[Window], head: Sequence[Window]) -> WindowPairs:
    return pair_by_name_or_work(base, head)


def pair(base: Sequence[str], head: Sequence[str]) -> WindowPairs:
    return pair_windows(series(base), series(head))


# -- by order --------------------------------------------------------------------------------------------------------------


def test_a_window_missing_in_the_middle_does_not_shift_the_rest() -> None:
    base = [name for k in range(6) for name in (f"STEP {k}", "LOSS", "BACKWARD", "OPT")]
    head = base[:11] + base[12:]  # the OPT of STEP 2
    found = pair(base, head)
    assert places(found) == [(k, k - (k > 11)) for k in range(24) if k != 11]
    assert alone(found) == (["OPT #3"], [])


def test_numbers_that_start_again_pair_step_by_step() -> None:
    base = [f"CALL_{k}" for _ in range(4) for k in range(3)]
    head = [f"CALL_{k}" for _ in range(4) for k in range(2)]  # one graph break less
    found = pair(base, head)
    assert places(found) == [(3 * step + k, 2 * step + k) for step in range(4) for k in range(2)]
    assert alone(found) == (["CALL_2", "CALL_2 #2", "CALL_2 #3", "CALL_2 #4"], [])


def test_a_name_of_a_log_that_looks_like_a_repeated_one_is_left_as_it_is() -> None:
    found = pair(["RUN #2", "RUN #3", "RUN #3"], ["RUN #3", "RUN #3", "RUN #2"])
    assert (0, 2) in places(found)
    assert len(found.pairs) == 3


@given(st.lists(st.sampled_from("ABCDE"), max_size=30), st.lists(st.sampled_from("ABCDEF"), max_size=30))
def test_every_window_is_in_one_pair_or_alone_and_paired_names_are_equal(base: list[str], head: list[str]) -> None:
    if not set(base) & set(head):
        with pytest.raises(AnchorError):
            pair(base, head)
        return
    found = pair(base, head)
    ours = [one for one, _ in found.pairs]
    theirs = [other for _, other in found.pairs]
    assert sorted(w.start_line for w in (*ours, *found.only_base)) == list(range(len(base)))
    assert sorted(w.start_line for w in (*theirs, *found.only_head)) == list(range(len(head)))
    assert all(base[one.start_line] == head[other.start_line] for one, other in found.pairs)
    assert [w.start_line for w in ours] == sorted(w.start_line for w in ours)
    assert sorted(places(pair(head, base))) == sorted((j, i) for i, j in places(found))  # whichever is called base


# -- the longest common subsequence ----------------------------------------------------------------------------------------


def longest_plain(base: Sequence[str], head: Sequence[str]) -> list[tuple[int, int]]:
    """By the whole table of the textbook, back from its end: as far back in base as the length allows, then in head."""
    table = [[0] * (len(base) + 1)]
    for name in head:
        row = [0]
        for i, other in enumerate(base):
            row.append(table[-1][i] + 1 if name == other else max(row[i], table[-1][i + 1]))
        table.append(row)
    pairs, i = [], len(base)
    for j in range(len(head), 0, -1):
        i = table[j].index(table[j][i])
        if table[j - 1][i] < table[j][i]:
            i -= 1
            pairs.append((i, j - 1))
    return pairs[::-1]


@given(st.text("ABC", max_size=60), st.text("ABCD", max_size=60))
def test_it_is_common_in_order_and_as_long_as_can_be(base: str, head: str) -> None:
    """Of several that are as long it is one; also with nothing alike at either end, which would pair beforehand."""
    for one, other in ((base, head), (f"x{base}x", f"y{head}y")):
        same = longest_common(one, other)
        assert all(one[i] == other[j] for i, j in same)
        assert all(i < k and j < m for (i, j), (k, m) in pairwise(same))
        assert len(same) == len(longest_plain(one, other))
