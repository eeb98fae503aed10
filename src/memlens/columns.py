"""Loops over whole columns that NumPy has no words for: compiled (``_columns.c``) where the module was built, else in Python.

Each function stands twice, compiled and as a reference implementation (``reference_…``), which is what runs with ``MEMLENS_PURE=1``.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct, structs

from memlens.native import load
from memlens.spool import empty

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of the usual types.
Flags: TypeAlias = "NDArray[np.bool_]"
Ints: TypeAlias = "NDArray[np.int64]"
Words: TypeAlias = "NDArray[np.uint64]"
Indices: TypeAlias = "NDArray[np.int32] | Ints"

#: What a row does with its key: nothing; become the latest row that set it; ask for that row; ask for it and clear the key.
NOTHING, SET, USE, TAKE = 0, 1, 2, 3

_native = load("memlens._columns")
#: Where keys fall in the compiled hash tables is chance, so that no log can be made up to make them slow.
_SEED = np.frombuffer(os.urandom(8), np.uint64)


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """The different numbers of a column, rising: ``np.unique``, which would load the masked arrays first, a moment of each start."""
    ordered: NDArray[Any] = np.sort(numbers)
    first: NDArray[np.bool_] = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    return ordered[first]


def among(numbers: NDArray[Any], some: NDArray[Any]) -> Flags:
    """Whether each number is one of some: ``np.isin``, which would load the masked arrays, too."""
    ordered = np.sort(some)
    if not len(ordered):
        return np.zeros(len(numbers), np.bool_)
    found: Flags = ordered[np.minimum(ordered.searchsorted(numbers), len(ordered) - 1)] == numbers
    return found


def rows_alike(*columns: NDArray[Any]) -> tuple[Ints, Ints]:
    """Number the rows of some columns in the order of their values, rows that are alike the same: ``np.unique`` of rows compares them byte by byte.

    Returns:
        The first row of each number, and the number of each row, int64.
    """
    order = np.lexsort(columns[::-1])
    new = np.arange(len(order)) == 0
    for column in columns:
        ordered = column[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return order[new], number


def rank_of(numbers: Ints) -> Ints:
    """Return how many equal numbers stand before each, int64."""
    order = np.argsort(numbers, kind="stable")
    ranked, rank = numbers[order], np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    return rank


def spans(begins: Ints, lengths: Ints) -> Ints:
    """The indices of several stretches, one stretch after the other, int64."""
    offsets = np.cumsum(lengths) - lengths
    found: Ints = np.arange(lengths.sum()) + np.repeat(begins - offsets, lengths)
    return found


def first_highest(values: Ints, begins: Ints) -> Ints:
    """Where in each of some stretches, which end where the next one begins, the highest value first stands, int64."""
    tops = np.repeat(np.maximum.reduceat(values, begins), np.diff(np.append(begins, len(values))))
    at = np.flatnonzero(values == tops)
    found: Ints = at[at.searchsorted(begins)]
    return found


def pair(kind: NDArray[np.int8], addr: NDArray[np.uint64]) -> tuple[Indices, Ints]:
    """Pair ALLOCs (kind 0) with the FREEs (kind 1) that end them.

    A FREE ends the newest ALLOC of its address, if nothing has ended that one yet.

    Args:
        kind: Kinds of events in file order, int8; other kinds are not looked at.
        addr: Their addresses, uint64.

    Returns:
        For each event the index of its partner, -1 for none, int32 (int64 for 2**31 events and more); and the indices of the ALLOCs whose
        address was live, int64, rising.
    """
    if _native is None:
        return reference_pair(kind, addr)
    partner: Indices = empty(len(kind), np.int64 if len(kind) >= 1 << 31 else np.int32)
    doubled = empty(len(kind), np.uint8)
    _native.latest(_as(addr, np.uint64), _as(kind, np.int8), partner, doubled, _SEED)
    return partner, np.flatnonzero(doubled.view(np.bool_))


def reference_pair(kind: NDArray[np.int8], addr: NDArray[np.uint64]) -> tuple[Indices, Ints]:
    """The reference implementation of :func:`pair`."""
    partner: Indices = np.full(len(kind), -1, np.int64) if len(kind) >= 1 << 31 else np.full(len(kind), -1, np.int32)
    doubles = []
    live: dict[int, int] = {}
    for event, (what, address) in enumerate(zip(kind.tolist(), addr.tolist(), strict=True)):
        if what == 0:
            if address in live:
                doubles.append(event)
            live[address] = event
        elif what == 1 and address in live:
            alloc = live.pop(address)
            partner[alloc], partner[event] = event, alloc
    return partner, np.array(doubles, np.int64)


def last_by_key(key: Ints, role: NDArray[np.int8]) -> Ints:
    """For rows that use or take a key: which row before them set it last.

    Rows are worked through in order.  To go on where an earlier call ended, put a row that sets it in front for each key that carries
    something; rows that use the keys, put at the end, say what is carried on.

    Args:
        key: The key of each row, int64.
        role: What each row does with it, int8: 0 nothing, 1 set, 2 use, 3 take, which is to use and clear it.

    Returns:
        For rows of role 2 and 3 the index of the latest row of role 1 with the same key that nothing took since, else -1; int64.
    """
    if _native is None:
        return reference_last_by_key(key, role)
    found = np.empty(len(key), np.int64)
    _native.latest(_as(key, np.int64), _as(role, np.int8), found, np.zeros(0, np.uint8), _SEED)
    return found


def reference_last_by_key(key: Ints, role: NDArray[np.int8]) -> Ints:
    """The reference implementation of :func:`last_by_key`."""
    found = np.full(len(key), -1, np.int64)
    latest: dict[int, int] = {}
    rows = np.flatnonzero(role)
    for row, name, what in zip(rows.tolist(), key[rows].tolist(), role[rows].tolist(), strict=True):
        if what == SET:
            latest[name] = row
        elif what == USE:
            found[row] = latest.get(name, -1)
        elif what == TAKE:
            found[row] = latest.pop(name, -1)
    return found


class Symbols(Struct, frozen=True, eq=False):
    """Things to align, one entry each.

    Attributes:
        key: Only equal keys pair, int32, not negative.
        held: Their fate; pairs of equal fate save more, bool.
        weight: Bytes in any common unit; equal for equal keys, int64.
        marks: Four marks of 16 bits each in a word, uint64: among alignments that save as much the one whose pairs share most of
            them wins.
    """

    key: NDArray[np.int32]
    held: NDArray[np.bool_]
    weight: Ints
    marks: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.key)

    def take(self, at: Ints | slice) -> Symbols:
        """Some of them, in the order given."""
        return Symbols(self.key[at], self.held[at], self.weight[at], self.marks[at])

    def join(self, other: Symbols) -> Symbols:
        """These, and the other ones after them."""
        return Symbols(
            *(np.concatenate(pair) for pair in zip(structs.astuple(self), structs.astuple(other), strict=True))
        )


class Aligned(Struct, frozen=True):
    """The columns of tables that were filled.

    Attributes:
        partner: For each row the column that it pairs with, counted from the start of its sequence, -1 for none, int64; empty where the
            way back was not asked for.
        saved: The most that each table saves, int64.
    """

    partner: Ints
    saved: Ints


def mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers of 64 bits sent to others that look random (the finaliser of SplitMix64), one to one."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def align(
    rows: Symbols,
    row_starts: Ints,
    columns: Symbols,
    column_starts: Ints,
    worth: Ints,
    scale: Ints,
    *,
    band: tuple[Ints, Ints] | None = None,
    way_back: bool = True,
) -> Aligned:
    """Align each sequence of rows with the one of columns of its number, in order, so that their pairs save most.

    With ``best[i, j]`` the most that the first ``i`` rows and ``j`` columns can save,

        best[i+1, j+1] = max(best[i, j+1], best[i+1, j], best[i, j] + saved(i, j) where row i and column j have one key)

    and of several ways to the same value the way back prefers the row above, then the column to the left, then the pair.

    Args:
        rows: The sequences that give the tables' rows, laid end to end.
        row_starts: Where each begins and where the last one ends, int64.
        columns: The sequences that give their columns, likewise.
        column_starts: Likewise.
        worth: Eight numbers, int64: what a unit of weight saves where the row and the column are (temporary, temporary), (temporary, held),
            (held, temporary), (held, held); and what each mark that both have is worth, the lowest one first.
        scale: What a unit of weight counts in each table, int64; 0: one, and marks do not count.
        band: After each number of rows of each table the least and the largest number of columns to look at, int64 (rows + 1 for each table),
            rising in each; all by default.
        way_back: Keep what tells who pairs with whom.
    """
    if _native is None:
        return reference_align(rows, row_starts, columns, column_starts, worth, scale, band=band, way_back=way_back)
    partner, saved = np.empty(len(rows) if way_back else 0, np.int64), np.empty(len(scale), np.int64)
    _native.align(
        *(_as(rows.key, np.int32), _as(rows.held, np.bool_), _as(rows.weight, np.int64), _as(rows.marks, np.uint64)),
        _as(row_starts, np.int64),
        *(_as(columns.key, np.int32), _as(columns.held, np.bool_), _as(columns.marks, np.uint64)),
        *(
            _as(column, np.int64)
            for column in (column_starts, worth, scale, *(band or _all(row_starts, column_starts)))
        ),
        np.array([1 + max(int(side.key.max(initial=-1)) for side in (rows, columns))]),
        *(partner, saved),
    )
    return Aligned(partner, saved)


def reference_align(
    rows: Symbols,
    row_starts: Ints,
    columns: Symbols,
    column_starts: Ints,
    worth: Ints,
    scale: Ints,
    *,
    band: tuple[Ints, Ints] | None = None,
    way_back: bool = True,
) -> Aligned:
    """The reference implementation of :func:`align`, a row at a time.

    A row depends on itself only through the running maximum.
    """
    partner, saved = np.full(len(rows) if way_back else 0, -1, np.int64), np.zeros(len(scale), np.int64)
    band = band or _all(row_starts, column_starts)
    for number, ((top, bottom), (left, right)) in enumerate(
        zip(pairwise(row_starts.tolist()), pairwise(column_starts.tolist()), strict=True)
    ):
        sides = rows.take(slice(top, bottom)), columns.take(slice(left, right))
        first, last = (edge[top + number : bottom + number + 1] for edge in band)
        best, kept = _filled(*sides, worth, int(scale[number]), first, last)
        saved[number] = best[last[-1]]
        if way_back:
            partner[top:bottom] = _way_back(kept, right - left)
    return Aligned(partner, saved)


def _all(row_starts: Ints, column_starts: Ints) -> tuple[Ints, Ints]:
    """The band that is the whole of each table."""
    last = np.repeat(np.diff(column_starts), np.diff(row_starts) + 1)
    return np.zeros(len(last), np.int64), last


#: Of a row of a table: its first and last cell, which of its cells save more than those above, and the columns whose pair makes the difference.
_Row = tuple[int, int, "NDArray[np.bool_]", "Ints"]


def _filled(
    rows: Symbols, columns: Symbols, worth: Ints, scale: int, of_first: Ints, of_last: Ints
) -> tuple[Ints, list[_Row]]:
    """Return the saving after the last row for each number of columns, and the table of steps back."""
    by_fates, of_marks = worth[:4].reshape(2, 2), worth[4:]
    best, kept, filled = np.zeros(len(columns) + 1, np.int64), [], int(of_last[0])
    for row, (first, last) in enumerate(zip(of_first[1:].tolist(), of_last[1:].tolist(), strict=True)):
        # A band that moves on: what no row has come to yet saves as much as what is left of it.
        best[filled + 1 : last + 1] = best[filled]
        filled = max(filled, last)
        start = max(first - 1, 0)
        at = np.flatnonzero(columns.key[start:last] == rows.key[row]) + start
        value = by_fates[int(rows.held[row]), columns.held[at].astype(np.intp)] * (rows.weight[row] * (scale or 1))
        if scale:
            differing = columns.marks[at] ^ rows.marks[row]
            for mark, each in enumerate(of_marks.tolist()):
                value += np.where(differing >> np.uint64(16 * mark) & np.uint64(0xFFFF), 0, each)
        value += best[at]
        over = best[at + 1]
        here = best[first : last + 1]
        above = here.copy()
        best[at + 1] = np.maximum(over, value)
        np.maximum.accumulate(here, out=here)
        decides = (value > np.maximum(over, best[at])) & (best[at + 1] == value)
        kept.append((first, last, here > above, at[decides]))
    return best, kept


def _way_back(kept: list[_Row], width: int) -> Ints:
    """For each row of a table the column that it pairs with, -1 for none."""
    partner = np.full(len(kept), -1, np.int64)
    at = width
    for row in range(len(kept) - 1, -1, -1):
        first, last, raised, pairs = kept[row]
        at = min(at, last)
        if at >= first and raised[at - first]:
            # The pair that raised a cell is the last one before it: between the two nothing changes.
            at = int(pairs[np.searchsorted(pairs, at - 1, "right") - 1])
            partner[row] = at
    return partner


def chain(at: Ints, places: Ints, gram: int, back: int, last_offset: int) -> Ints:
    """Choose a place for grams, or none, such that places rise with the grams and their offset changes least.

    The offset of a gram is how much further on it stands in the columns than in the rows.  A chain is worth the symbols that its grams
    cover, less what its offset changes from 0 at the start over all of its grams to that of the end.

    Args:
        at: Where the grams stand in the rows, int64, rising.
        places: Where each may stand in the columns, int64 (grams, candidates), -1 for none.
        gram: Symbols in a gram.
        back: A gram follows one of so many before it, or the best chain up to there.
        last_offset: The offset at the end of both sequences.

    Returns:
        Which of its candidates each gram takes, -1 for none, int64.
    """
    if _native is None:
        return reference_chain(at, places, gram, back, last_offset)
    chosen = np.empty(len(at), np.int64)
    _native.chain(_as(at, np.int64), _as(places, np.int64), np.array([gram, back, last_offset], np.int64), chosen)
    return chosen


def reference_chain(at: Ints, places: Ints, gram: int, back: int, last_offset: int) -> Ints:
    """The reference implementation of :func:`chain`, all candidates of a gram at once."""
    never, each = -(1 << 50), places.shape[1]
    offset = np.where(places >= 0, places - at[:, None], 0)
    # Every chain begins at offset 0, where both sequences do.
    score = np.where(places >= 0, gram - np.abs(offset), never)
    before = np.full(places.shape, -1, np.int64)  # (gram, candidate) as one number
    flat_places, flat_offset, flat_score = places.ravel(), offset.ravel(), score.ravel()
    best = -1
    for k in range(1, len(at)):
        start = max(k - back, 0) * each
        near = slice(start, k * each)
        # Grams that overlap cover no more than they take together.
        way = places[k][:, None] - flat_places[near]
        gain = flat_score[near] - np.abs(offset[k][:, None] - flat_offset[near])
        gain += np.minimum(np.minimum(way, np.repeat(at[k] - at[start // each : k], each)), gram)
        gain[way <= 0] = never
        which = gain.argmax(axis=1)
        value, origin = gain[np.arange(each), which], which + start
        if best >= 0:  # the best chain so far, if it ended longer ago
            way = np.minimum(places[k] - flat_places[best], at[k] - at[best // each])
            far = flat_score[best] - np.abs(offset[k] - flat_offset[best]) + np.minimum(way, gram)
            far[way <= 0] = never
            origin = np.where(far > value, best, origin)
            value = np.maximum(value, far)
        follows = (value > score[k]) & (places[k] >= 0)
        score[k][follows] = value[follows]
        before[k][follows] = origin[follows]
        leader = (k - 1) * each + int(score[k - 1].argmax())
        if best < 0 or flat_score[leader] > flat_score[best]:
            best = leader
    chosen = np.full(len(at), -1, np.int64)
    if len(at):
        here = int((flat_score - np.abs(flat_offset - last_offset)).argmax())
        while here >= 0 and flat_score[here] > never // 2:
            chosen[here // each] = here % each
            here = int(before.ravel()[here])
    return chosen


def _as(column: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A column as the compiled functions take it: of this type, without gaps."""
    return np.ascontiguousarray(column, dtype)
