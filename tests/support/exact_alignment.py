"""The alignment of two windows by its definition: an exact, quadratic judge of the fast one, written without looking at it.

Costs are in **half bytes**, so that all of them are whole numbers.  With ``s`` the size of an allocation, in bytes:

=====================================================  ====
a pair of equal key and equal fate                        0
a pair of equal key and different fate                  2 s
an allocation without a partner that the window holds   2 s
a temporary without a partner                             s
=====================================================  ====

Allocations of different keys do not pair, and pairs do not cross.  The key is the size and, where both logs tell it, the
request; a request that is not known (-1) is a value of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memlens.events import Kind
from memlens.windows.windows import Window

#: More than any alignment costs, and far enough from the end of int64 to be added to.
NEVER = 1 << 61

#: Pairs ``(i, j)`` of base's i-th and head's j-th allocation, rising in both.
Alignment = tuple[tuple[int, int], ...]


class Born(NamedTuple):
    """An allocation of a window, as far as the cost looks at it.

    Attributes:
        key: What has to be equal for two to pair: the size, and the request where both logs have it.
        held: The window does not free it.
        size: Bytes.
    """

    key: tuple[int, ...]
    held: bool
    size: int

    @property
    def unpaired(self) -> int:
        """What it costs without a partner, in half bytes."""
        return 2 * self.size if self.held else self.size


def born_in(window: Window, *, requests: bool) -> tuple[list[Born], list[int]]:
    """The allocations of a window in log order, and their events; paired with their FREEs here, by address, line by line.

    Args:
        window: The window.
        requests: The request is part of the key: both logs tell it.
    """
    log = window.log
    live: dict[int, int] = {}
    ends: dict[int, int] = {}
    kinds, addresses, sizes = log.kind.tolist(), log.addr.tolist(), log.size.tolist()
    for event in range(window.hi):
        address = addresses[event]
        if kinds[event] == Kind.ALLOC:
            live[address] = event
        elif kinds[event] == Kind.FREE and address in live:
            ends[live.pop(address)] = event
    events = [event for event in range(window.lo, window.hi) if kinds[event] == Kind.ALLOC]
    asked = log.requested.tolist() if requests and log.requested is not None else None
    keys = [(sizes[event],) if asked is None else (sizes[event], asked[event]) for event in events]
    return [Born(key, event not in ends, sizes[event]) for key, event in zip(keys, events, strict=True)], events


def both_born(base: Window, head: Window) -> tuple[tuple[list[Born], list[int]], tuple[list[Born], list[int]]]:
    """The allocations of two windows with the keys that they are compared by, and their events."""
    requests = base.log.requested is not None and head.log.requested is not None
    return born_in(base, requests=requests), born_in(head, requests=requests)


_Side = tuple[list[Born], list[int]]


def cheapest_born(base: Window, head: Window) -> tuple[_Side, _Side]:
    """The allocations in the order that is cheaper to align: that of the windows, or that of each thread on its own."""
    whole = both_born(base, head)
    threads = by_thread(base, head)
    if threads is None or exact_cost(whole[0][0], whole[1][0]) <= exact_cost(threads[0][0], threads[1][0]):
        return whole
    return threads


def by_thread(base: Window, head: Window) -> tuple[_Side, _Side] | None:
    """The allocations thread by thread, those of threads that pair side by side; ``None`` where a side has one thread only.

    Threads pair so that the cost is least over all ways to pair them, tried one by one.  The number of the pair is put into the key:
    nothing else pairs across threads.
    """
    sides = both_born(base, head)
    programs: list[list[_Side]] = []
    for window, (born, events) in zip((base, head), sides, strict=True):
        if window.log.thread is None:
            return None
        threads: dict[int, _Side] = {}
        for block, event in zip(born, events, strict=True):
            own = threads.setdefault(int(window.log.thread[event]), ([], []))
            own[0].append(block)
            own[1].append(event)
        if len(threads) < 2:
            return None
        programs.append(list(threads.values()))
    fewer, more = sorted(programs, key=len)
    costs = [[exact_cost(one, two) - sum(b.unpaired for b in two) for two, _ in more] for one, _ in fewer]
    # The cheapest way to pair the first threads of the one side with a set of threads of the other, a bit each.
    best: dict[int, tuple[int, tuple[int, ...]]] = {0: (0, ())}
    for row in costs:
        following: dict[int, tuple[int, tuple[int, ...]]] = {}
        for taken, (cost, chosen) in best.items():
            for column, more_cost in enumerate(row):
                if not taken >> column & 1:
                    way = cost + more_cost, (*chosen, column)
                    with_it = taken | 1 << column
                    following[with_it] = min(following.get(with_it, way), way)
        best = following
    _, chosen = min(best.values())
    rest = [column for column in range(len(more)) if column not in chosen]
    ordered = {id(fewer): fewer, id(more): [more[column] for column in (*chosen, *rest)]}
    left, right = (_joined(ordered[id(side)]) for side in programs)
    return left, right


def _joined(threads: list[_Side]) -> _Side:
    numbered = [
        [block._replace(key=(*block.key, number)) for block in born] for number, (born, _) in enumerate(threads)
    ]
    return [block for born in numbered for block in born], [event for _, events in threads for event in events]


def pair_cost(left: Born, right: Born) -> int:
    """What a pair costs, in half bytes."""
    if left.key != right.key:
        return NEVER
    return 0 if left.held == right.held else 2 * left.size


def plain_cost(base: Sequence[Born], head: Sequence[Born]) -> int:
    """The cost of the cheapest alignment, in half bytes, one cell of the table at a time: the twin of :func:`exact`."""
    row = [0]
    for right in head:
        row.append(row[-1] + right.unpaired)
    for left in base:
        above, row = row, [row[0] + left.unpaired]
        for j, right in enumerate(head):
            row.append(min(above[j + 1] + left.unpaired, row[j] + right.unpaired, above[j] + pair_cost(left, right)))
    return row[-1]


def alignments(base: Sequence[Born], head: Sequence[Born], i: int = 0, j: int = 0) -> Iterator[Alignment]:
    """Every alignment there is, cheap or not; for a handful of allocations."""
    if i == len(base) or j == len(head):
        yield ()
        return
    yield from alignments(base, head, i + 1, j)  # base's i-th has no partner
    for k in range(j, len(head)):
        if base[i].key == head[k].key:
            yield from (((i, k), *rest) for rest in alignments(base, head, i + 1, k + 1))


def cost_of(base: Sequence[Born], head: Sequence[Born], pairs: Alignment) -> int:
    """What an alignment costs, in half bytes.

    Raises:
        ValueError: It is none: two pairs cross, or the keys of a pair differ.
    """
    if any(not (a < c and b < d) for (a, b), (c, d) in pairwise(pairs)):
        raise ValueError("pairs cross")
    cost = sum(pair_cost(base[i], head[j]) for i, j in pairs)
    if cost >= NEVER:
        raise ValueError("the keys of a pair differ")
    left, right = {i for i, _ in pairs}, {j for _, j in pairs}
    cost += sum(born.unpaired for i, born in enumerate(base) if i not in left)
    return cost + sum(born.unpaired for j, born in enumerate(head) if j not in right)


@dataclass(frozen=True, eq=False)
class Exact:
    """The whole table of a program over two windows of ``n`` and ``m`` allocations.

    Attributes:
        base: Base's allocations.
        head: Head's allocations.
        forward: int64, ``(n + 1, m + 1)``: what base's first ``i`` and head's first ``j`` cost at least.
        backward: int64, ``(n + 1, m + 1)``: what those from the ``i``-th and the ``j``-th on cost at least.
        pairing: int64, ``(n, m)``: what pairing the two costs; :data:`NEVER` where their keys differ.
    """

    base: Sequence[Born]
    head: Sequence[Born]
    forward: NDArray[np.int64]
    backward: NDArray[np.int64]
    pairing: NDArray[np.int64]

    @property
    def cost(self) -> int:
        """What the cheapest alignment costs, in half bytes."""
        return int(self.forward[-1, -1])

    @cached_property
    def some(self) -> NDArray[np.bool_]:
        """For each cell, ``(n, m)``, whether some cheapest alignment pairs the two."""
        some: NDArray[np.bool_] = self.forward[:-1, :-1] + self.pairing + self.backward[1:, 1:] == self.cost
        return some

    @cached_property
    def base_alone(self) -> NDArray[np.bool_]:
        """For each of base's allocations whether some cheapest alignment leaves it without a partner."""
        unpaired = np.array([born.unpaired for born in self.base], np.int64)[:, None]
        alone: NDArray[np.bool_] = (self.forward[:-1] + unpaired + self.backward[1:] == self.cost).any(axis=1)
        return alone

    @cached_property
    def head_alone(self) -> NDArray[np.bool_]:
        """For each of head's allocations whether some cheapest alignment leaves it without a partner."""
        unpaired = np.array([born.unpaired for born in self.head], np.int64)
        alone: NDArray[np.bool_] = (self.forward[:, :-1] + unpaired + self.backward[:, 1:] == self.cost).any(axis=0)
        return alone

    @cached_property
    def every(self) -> NDArray[np.bool_]:
        """For each cell, ``(n, m)``, whether every cheapest alignment pairs the two: base's has no other partner in any."""
        forced = (self.some.sum(axis=1) == 1) & ~self.base_alone
        every: NDArray[np.bool_] = self.some & forced[:, None]
        return every

    def fates(self, *, base_held: bool, head_held: bool) -> NDArray[np.bool_]:
        """The cells, ``(n, m)``, of such fates whose blocks hold any bytes: what is empty costs nothing wherever it is put."""
        left = np.array([born.held == base_held and born.size > 0 for born in self.base], np.bool_)
        right = np.array([born.held == head_held and born.size > 0 for born in self.head], np.bool_)
        return left[:, None] & right

    def missing(self) -> frozenset[tuple[int, int]] | None:
        """The missing frees that all cheapest alignments agree on; ``None`` where they do not agree.

        They agree if every pair (temporary in base, held in head) that one of them has is in all of them.
        """
        wanted = self.fates(base_held=False, head_held=True)
        some = self.some & wanted
        if (some & ~self.every).any():
            return None
        return frozenset(zip(*(places.tolist() for places in np.nonzero(some)), strict=True))

    def most_of(self, wanted: NDArray[np.bool_]) -> int:
        """How many of the wanted cells, ``(n, m)``, a cheapest alignment pairs at most.

        Costs are scaled up and each wanted pair is worth one below that: only among the cheapest does it decide.
        """
        scale = min(len(self.base), len(self.head)) + 1
        pairing = np.where(self.some, self.pairing * scale - wanted, NEVER)
        return self.cost * scale - int(_table(self.base, self.head, pairing, scale)[-1, -1])

    def cheapest(self) -> Alignment:
        """One of the cheapest alignments: walking from the end, pairs are taken as late as they come."""
        pairs, i, j = [], len(self.base), len(self.head)
        while i and j:
            here = self.forward[i, j]
            if here == self.forward[i - 1, j - 1] + self.pairing[i - 1, j - 1]:
                i, j = i - 1, j - 1
                pairs.append((i, j))
            elif here == self.forward[i - 1, j] + self.base[i - 1].unpaired:
                i -= 1
            else:
                j -= 1
        return tuple(reversed(pairs))


def exact(base: Sequence[Born], head: Sequence[Born]) -> Exact:
    """Solve two windows: time and memory grow with the product of their allocations."""
    left, right = _columns(base, head)
    pairing = np.array([_pair_costs(left, right, i) for i in range(len(base))], np.int64)
    pairing = pairing.reshape(len(base), len(head))
    forward = _table(base, head, pairing)
    backward = _table(base[::-1], head[::-1], pairing[::-1, ::-1])[::-1, ::-1]
    return Exact(base, head, forward, backward, pairing)


def exact_cost(base: Sequence[Born], head: Sequence[Born]) -> int:
    """The cost alone, in half bytes: time grows with the product of the allocations, memory does not."""
    left, right = _columns(base, head)
    row = np.zeros(1, np.int64)
    for row in _rows(base, head, (_pair_costs(left, right, i) for i in range(len(base)))):  # noqa: B007
        pass
    return int(row[-1])


#: Allocations as numbers, one entry each: key, held, size.
_Columns = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]


def _columns(base: Sequence[Born], head: Sequence[Born]) -> tuple[_Columns, _Columns]:
    """Both sides, equal keys with equal numbers."""
    numbers = {key: number for number, key in enumerate({born.key for born in (*base, *head)})}
    left, right = (
        (
            np.array([numbers[born.key] for born in side], np.int64),
            np.array([born.held for born in side], np.bool_),
            np.array([born.size for born in side], np.int64),
        )
        for side in (base, head)
    )
    return left, right


def _pair_costs(base: _Columns, head: _Columns, i: int) -> NDArray[np.int64]:
    """What base's ``i``-th allocation costs with each of head's, in half bytes."""
    keys, held, sizes = base
    costs = np.where(head[1] == held[i], 0, 2 * sizes[i])
    costs[head[0] != keys[i]] = NEVER
    return costs


def _table(base: Sequence[Born], head: Sequence[Born], pairing: NDArray[np.int64], scale: int = 1) -> NDArray[np.int64]:
    """What the first ``i`` and the first ``j`` allocations cost at least, ``(n + 1, m + 1)``."""
    return np.array(list(_rows(base, head, pairing, scale)), np.int64)


def _rows(
    base: Sequence[Born], head: Sequence[Born], pairing: Iterable[NDArray[np.int64]], scale: int = 1
) -> Iterator[NDArray[np.int64]]:
    """The rows of the table, the one before base's first allocation first."""
    alone = scale * np.concatenate(([0], np.cumsum([born.unpaired for born in head], dtype=np.int64)))
    row = alone
    yield row
    for born, costs in zip(base, pairing, strict=True):
        # The last step of base, up to (i + 1, k): its i-th alone, or paired with head's k-th …
        best = row + scale * born.unpaired
        np.minimum(best[1:], row[:-1] + costs, out=best[1:])
        # … and from there head's next ones alone, up to the j-th: the least over all k ≤ j of best[k] + alone[j] - alone[k].
        row = np.minimum.accumulate(best - alone) + alone
        yield row
