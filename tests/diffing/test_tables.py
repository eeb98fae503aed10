"""The alignment of sequences against a table filled cell by cell."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from night import many

from memlens.columns import Symbols, mix
from memlens.diffing.alignment import tables
from memlens.diffing.alignment.align import align
from memlens.diffing.alignment.tables import Problem, solve

#: Key, held, and the four marks: owner, what stands before, what stands after, how long it lives.
Entry = tuple[int, bool, int, int, int, int]
Entries = list[Entry]
SIZES = (0, 1, 3, 256, 1 << 40)
_MARK = st.integers(0, 1)
_ENTRY = st.tuples(st.integers(0, len(SIZES) - 1), st.booleans(), st.integers(0, 3), _MARK, _MARK, _MARK)
_SEQUENCE = st.lists(_ENTRY, max_size=14)


def symbols(entries: Entries) -> Symbols:
    """Symbols of rows."""
    key, held, *marks = (np.array([entry[i] for entry in entries], np.int64) for i in range(6))
    word = sum((mark << 16 * place for place, mark in enumerate(marks)), np.zeros(len(key), np.int64))
    weights = np.array(SIZES, np.int64)[key]
    return Symbols(key.astype(np.int32), held.astype(np.bool_), weights, word.astype(np.uint64))


def saved(row: Entry, column: Entry) -> tuple[int, int]:
    """What a pair saves in half bytes, and what its marks are worth: the owner 4, the other three 1 each."""
    same = (4 if row[1] else 2) if row[1] == column[1] else 1
    return same * SIZES[row[0]], 4 * (row[2] == column[2]) + sum(row[i] == column[i] for i in (3, 4, 5))


def best(rows: Entries, columns: Entries) -> tuple[int, int]:
    """The most that can be saved, and among such alignments the most that marks can be worth, cell by cell."""
    table = [[(0, 0)] * (len(columns) + 1) for _ in range(len(rows) + 1)]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            value = max(table[i][j + 1], table[i + 1][j])
            if row[0] == column[0]:
                more = saved(row, column)
                value = max(value, (table[i][j][0] + more[0], table[i][j][1] + more[1]))
            table[i + 1][j + 1] = value
    return table[-1][-1]


def worth(rows: Entries, columns: Entries, pairs: list[tuple[int, int]]) -> tuple[int, int]:
    """What given pairs save, once they are seen to be in order and of equal keys."""
    assert all(rows[i][0] == columns[j][0] for i, j in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
    values = [saved(rows[i], columns[j]) for i, j in pairs]
    return sum(value[0] for value in values), sum(value[1] for value in values)


@given(st.lists(st.tuples(_SEQUENCE, _SEQUENCE), min_size=1, max_size=6), st.sampled_from([1, 100, 1 << 28]))
@settings(max_examples=many(300))
def test_every_pair_of_sequences_saves_as_much_as_the_table_filled_cell_by_cell_and_the_same_turned_round(
    problems: list[tuple[Entries, Entries]], cells_of_a_call: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "_CELLS_OF_A_CALL", cells_of_a_call)
        found = aligned(problems)
        turned = aligned([(columns, rows) for rows, columns in problems])
    for (rows, columns), pairs in zip(problems, found, strict=True):
        assert worth(rows, columns, pairs) == best(rows, columns)
    assert found == [sorted((i, j) for j, i in pairs) for pairs in turned]


def aligned(problems: list[tuple[Entries, Entries]]) -> list[list[tuple[int, int]]]:
    """The pairs of each two sequences, counted from their starts."""
    base_starts = np.cumsum([0, *(len(rows) for rows, _ in problems)])
    head_starts = np.cumsum([0, *(len(columns) for _, columns in problems)])
    base = symbols([row for rows, _ in problems for row in rows])
    head = symbols([column for _, columns in problems for column in columns])
    partner = align(base, head, base_starts, head_starts).partner
    return [
        [(i - a, int(partner[i]) - c) for i in range(a, b) if partner[i] >= 0]
        for a, b, c in zip(base_starts.tolist(), base_starts[1:].tolist(), head_starts.tolist(), strict=False)
    ]


def test_where_marks_could_overflow_they_do_not_count_and_bytes_still_do() -> None:
    # 2**47 is the largest size that is read; eight of them, times what marks need, are more than 63 bits hold.
    weights = np.full(8, 1 << 58, np.int64)
    rows = Symbols(np.zeros(8, np.int32), np.zeros(8, np.bool_), weights, np.arange(8, dtype=np.uint64))
    pairs = solve(rows, [Problem(np.arange(8), np.arange(8))])
    assert list(zip(*(side.tolist() for side in pairs), strict=True)) == [(i, i) for i in range(8)]


def test_mixing_sends_no_two_numbers_to_one() -> None:
    numbers = np.concatenate([np.arange(1 << 16, dtype=np.uint64), ~np.arange(1 << 16, dtype=np.uint64)])
    assert len(np.unique(mix(numbers))) == len(numbers)
