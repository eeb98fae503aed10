"""The cheapest alignment of two sequences of allocations, for many pairs of sequences at once.

Three things are done before a table is filled, none of which can make the alignment dearer:

* What is alike in every respect at the start and at the end of both sequences pairs (exchanging any other partner for the one
  at the same end never costs more).
* What has a key that the other sequence lacks stays unpaired.
* The two sequences of a pair are put in an order that does not depend on which is base, so that turning the comparison round
  gives the same pairs.

Tables that would be too large are cut into pieces first (:func:`memlens.diffing.alignment.tables.cut`), and the result says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from memlens.columns import Flags, Ints, Symbols, Words, mix, spans
from memlens.diffing.alignment.indices import starts_of
from memlens.diffing.alignment.tables import (
    MOST_CELLS,
    Cutting,
    Problem,
    Tables,
    alone,
    cells_of,
    cut,
    least_cost,
    savings,
    solve,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


#: Tables of up to so many cells are solved as a whole, however many there are …
EXACT_CELLS = 1 << 21
#: … and larger ones as long as no more than this is spent on all of them.
_CELLS_OF_ONE = 1 << 28
_CELLS_OF_ALL = 1 << 31
#: How often ends are paired and lonely keys taken out by turns; each turn may bring out more of the other.
_TURNS = 4


class Inexact(NamedTuple):
    """A part that was not aligned as a whole.

    Attributes:
        entries: Entries of both sides that were dealt out to pieces.
        pieces: How many of these there are.
        blind: Entries in pieces that were cut with nothing to go by.
        excess: Works out how much the cost is above the lowest at most, in halves of a unit of weight.
    """

    entries: int
    pieces: int
    blind: int
    excess: Callable[[], int]

    def plus(self, other: Inexact | None) -> Inexact:
        """Two parts of one window together."""
        if other is None:
            return self
        entries, pieces, blind = (one + two for one, two in zip(self[:3], other[:3], strict=True))
        return Inexact(entries, pieces, blind, lambda: self.excess() + other.excess())


class Alignment(Struct, frozen=True, eq=False):
    """Who pairs with whom.

    Attributes:
        partner: For each entry of base its place in head, -1 where it is unpaired, int64.
        inexact: What was not aligned as a whole, by the number of the pair of sequences.
    """

    partner: Ints
    inexact: dict[int, Inexact]


def align(
    base: Symbols, head: Symbols, base_starts: Ints, head_starts: Ints, *, cells: int = _CELLS_OF_ONE
) -> Alignment:
    """Align pairs of sequences.

    Args:
        base: The symbols of all sequences of base, one sequence after the other.
        head: The same for head.
        base_starts: Where each sequence begins, and where the last one ends, int64, one more than there are sequences.
        head_starts: The same for head; sequence ``k`` of base is aligned with sequence ``k`` of head.
        cells: The largest table to fill.
    """
    partner = np.full(len(base), -1, np.int64)
    # Places of what is not settled yet, and where each sequence's begin.
    left, right = np.arange(len(base), dtype=np.int64), np.arange(len(head), dtype=np.int64)
    left_starts, right_starts = base_starts, head_starts
    # All that is known of each entry, mixed into one word.
    looks_base, looks_head = (mix(mix(keys_and_fates(side)) ^ side.marks) for side in (base, head))
    for _ in range(_TURNS):
        before = len(left) + len(right)
        of_left, of_right = _common_ends(looks_base[left], looks_head[right], left_starts, right_starts)
        partner[left[of_left]] = right[of_right]
        left, left_starts = _kept(left, left_starts, partner[left] < 0)
        unlike = np.ones(len(right), np.bool_)
        unlike[of_right] = False
        right, right_starts = _kept(right, right_starts, unlike)
        mutual_left, mutual_right = _mutual(base.key[left], head.key[right], left_starts, right_starts)
        left, left_starts = _kept(left, left_starts, mutual_left)
        right, right_starts = _kept(right, right_starts, mutual_right)
        if len(left) + len(right) == before:
            break
    turned = _turned(looks_base[left], looks_head[right], left_starts, right_starts)
    del looks_base, looks_head
    inexact = _solve(base.join(head), (left, left_starts), (right + len(base), right_starts), partner, turned, cells)
    return Alignment(partner, inexact)


def _solve(
    both: Symbols, left: tuple[Ints, Ints], right: tuple[Ints, Ints], partner: Ints, turned: Flags, cells: int
) -> dict[int, Inexact]:
    """Fill ``partner`` for what the ends left over, and say what was not solved as a whole; head's symbols stand after base's."""
    sizes = np.diff(left[1]) * np.diff(right[1])
    some = np.flatnonzero(sizes)
    limit = _limit(sizes[some], cells)
    problems: list[Problem] = []
    long: dict[int, tuple[Problem, Cutting]] = {}
    for number in some.tolist():
        sides = [at[starts[number] : starts[number + 1]] for at, starts in (left, right)]
        problem = Problem(*(sides[::-1] if turned[number] else sides))
        if problem.cells <= limit:
            problems.append(problem)
        else:
            long[number] = problem, cut(both, problem, limit)
            problems.extend(long[number][1].pieces)
    mate = np.full(len(both), -1, np.int64)  # of each row its column
    rows, columns = solve(both, problems)
    mate[rows] = columns
    inexact = {number: _refine(both, problem, cutting, mate) for number, (problem, cutting) in long.items()}
    rows = np.flatnonzero(mate >= 0)
    partner[np.minimum(rows, mate[rows])] = np.maximum(rows, mate[rows]) - len(partner)
    return {number: part for number, part in inexact.items() if part is not None}


def _refine(symbols: Symbols, problem: Problem, cutting: Cutting, mate: Ints) -> Inexact | None:
    """Align again what was cut apart, in the corridor of what that costs, and change ``mate`` accordingly; or say how far it may be from the cheapest."""
    rows = problem.rows[mate[problem.rows] >= 0]
    unpaired = int(alone(symbols, problem.rows).sum() + alone(symbols, problem.columns).sum())
    cost = unpaired - int(savings(symbols, symbols, rows, mate[rows]).sum())
    tables = Tables.of(symbols, [problem])
    if cells_of(tables.corridor(np.array([cost]))) > MOST_CELLS:
        entries, pairs = len(problem.rows) + len(problem.columns), (rows, mate[rows])
        return Inexact(entries, len(cutting.pieces), cutting.blind, lambda: cost - least_cost(symbols, problem, pairs))
    mate[problem.rows] = -1
    rows, columns = solve(symbols, [problem], cost)
    mate[rows] = columns
    return None


def _limit(sizes: Ints, largest: int) -> int:
    """The largest table to fill as a whole, so that all of them together stay within what is spent at most."""
    limit = largest
    while limit > EXACT_CELLS and int(sizes[sizes <= limit].sum()) > _CELLS_OF_ALL:
        limit //= 2
    return limit


def keys_and_fates(symbols: Symbols) -> Words:
    """Key and fate of each entry as one word."""
    return (symbols.key.astype(np.uint64) << np.uint64(1)) | symbols.held.astype(np.uint64)


def _common_ends(left: Words, right: Words, left_starts: Ints, right_starts: Ints) -> tuple[Ints, Ints]:
    """Pair what is alike at the start, and then at the end, of each two sequences: the places of the pairs, int64."""
    shorter = np.minimum(np.diff(left_starts), np.diff(right_starts))
    head = _run_of_equals(left, right, left_starts[:-1], right_starts[:-1], shorter, 1)
    tail = _run_of_equals(left, right, left_starts[1:] - 1, right_starts[1:] - 1, shorter - head, -1)
    lengths = np.concatenate((head, tail))
    of_left, of_right = (
        spans(np.concatenate((starts[:-1], starts[1:] - tail)), lengths) for starts in (left_starts, right_starts)
    )
    return of_left, of_right


def _run_of_equals(left: Words, right: Words, left_from: Ints, right_from: Ints, most: Ints, step: int) -> Ints:
    """For each pair of sequences, how many entries are equal from two places on (``step`` 1) or back (-1), at most ``most``."""
    begins = starts_of(most)
    within = np.arange(begins[-1]) - np.repeat(begins[:-1], most)
    unlike = np.flatnonzero(
        left[np.repeat(left_from, most) + step * within] != right[np.repeat(right_from, most) + step * within]
    )
    first = np.append(unlike, begins[-1])[np.searchsorted(unlike, begins[:-1])]
    run: Ints = np.minimum(first - begins[:-1], most)
    return run


def _mutual(
    left: NDArray[np.int32], right: NDArray[np.int32], left_starts: Ints, right_starts: Ints
) -> tuple[Flags, Flags]:
    """Return the entries whose key the other sequence of their pair has too, as flags."""
    keys = int(max(left.max(initial=0), right.max(initial=0))) + 1
    of_left = np.repeat(np.arange(len(left_starts) - 1) * keys, np.diff(left_starts)) + left
    of_right = np.repeat(np.arange(len(right_starts) - 1) * keys, np.diff(right_starts)) + right
    return np.isin(of_left, of_right), np.isin(of_right, of_left)


def _kept(places: Ints, starts: Ints, mask: Flags) -> tuple[Ints, Ints]:
    """The places that a mask keeps, and where each sequence begins among them."""
    return places[mask], starts_of(mask)[starts]


def _turned(left: Words, right: Words, left_starts: Ints, right_starts: Ints) -> Flags:
    """Return the pairs of sequences to turn round, as flags: the shorter one gives the rows, of equal ones that whose first difference is less."""
    heights, widths = np.diff(left_starts), np.diff(right_starts)
    turned = heights > widths
    even = np.flatnonzero((heights == widths) & (heights > 0))
    if len(even):
        run = _run_of_equals(left, right, left_starts[even], right_starts[even], heights[even], 1)
        run = np.minimum(run, heights[even] - 1)
        turned[even] = left[left_starts[even] + run] > right[right_starts[even] + run]
    return turned
