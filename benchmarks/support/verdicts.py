"""What a comparison of a damaged pair of windows finds of the damage, and whether the cost tells it at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from exact_alignment import Exact, cheapest_born, exact
from injected import Injected, Missing

from memlens.diffing.result import WindowDiff


@dataclass(frozen=True)
class Score:
    """What was found of what was injected; ``pairs`` counts pairs of ALLOCs, what is alike goes by size.

    Attributes:
        injected: Missing frees injected.
        reported: Missing frees reported that were not there before.
        pairs: Those reported that are exactly an injected one: base's ALLOC and head's.
        alike: Those reported that differ from an injected one at most in which of several blocks of a size it is.
        named: Injected ones for which a block of the size is reported, as missing a free or as held in head only.
        injected_bytes: Bytes of those injected.
        reported_bytes: Bytes of those reported.
        alike_bytes: Bytes of those alike.
    """

    injected: int = 0
    reported: int = 0
    pairs: int = 0
    alike: int = 0
    named: int = 0
    injected_bytes: int = 0
    reported_bytes: int = 0
    alike_bytes: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def score(injected: Injected, reported: Collection[Missing], held: Counter[int]) -> Score:
    """Hold what a comparison reports against what was injected.

    What was there before is taken off first, pair by pair and, where it is no longer the same pair, size by size: it is
    neither found nor false.

    Args:
        injected: What was done.
        reported: The missing frees reported.
        held: The sizes of the blocks reported as held and in head only.
    """
    known = set(injected.background)
    new = [found for found in reported if found not in known]
    stale = Counter(size for *_, size in known.difference(reported))
    by_size = Counter(size for *_, size in new) - stale
    truth = Counter(injected.sizes.values())
    alike = by_size & truth
    return Score(
        injected=truth.total(),
        reported=by_size.total(),
        pairs=sum(base in injected.truth.get(head, ()) for base, head, _ in new),
        alike=alike.total(),
        named=((by_size + held) & truth).total(),
        injected_bytes=_total(truth),
        reported_bytes=_total(by_size),
        alike_bytes=_total(alike),
    )


def _total(sizes: Counter[int]) -> int:
    return sum(size * count for size, count in sizes.items())


def story(injected: Injected, table: Exact, base_events: list[int], head_events: list[int]) -> str:
    """Whether the cost alone tells what was injected.

    ``unique``
        Every cheapest alignment names the same missing frees, and these are the injected ones and those from before.
    ``ambiguous``
        The cheapest alignments differ in the missing frees that they name; one of them names all that were injected.
    ``another``
        No cheapest alignment names all that were injected: the cost prefers another story.

    Args:
        injected: What was done.
        table: The exact program on the pair with the damaged head.
        base_events: Events of base's allocations.
        head_events: Events of head's allocations.
    """
    told = table.missing()
    row = {event: i for i, event in enumerate(base_events)}
    column = {event: j for j, event in enumerate(head_events)}
    truth = {(row[base], column[head]) for head, bases in injected.truth.items() for base in bases}
    before = {(row[base], column[head]) for base, head, _ in injected.background}
    if told is not None and told == truth | before:
        return "unique"
    wanted = np.zeros(table.pairing.shape, np.bool_)
    wanted[tuple(np.array(sorted(truth)).T)] = True
    return "ambiguous" if table.most_of(wanted) == len(injected.truth) else "another"


def causes(injected: Injected, table: Exact, base_events: list[int], head_events: list[int]) -> dict[int, str]:
    """What became of each injected missing free in one of the cheapest alignments, by its ALLOC in head.

    Where base's block pairs with another one in head, that one's own partner is looked at next, and so on, to the block that
    started it.

    Args:
        injected: What was done.
        table: The exact program on the pair with the damaged head.
        base_events: Events of base's allocations.
        head_events: Events of head's allocations.
    """
    pairs = table.cheapest()
    of_base, of_head = dict(pairs), {j: i for i, j in pairs}
    row = {event: i for i, event in enumerate(base_events)}
    column = {event: j for j, event in enumerate(head_events)}
    before = {event: j for j, event in enumerate(injected.pair.head_events)}
    found = {}
    for head, bases in injected.truth.items():
        left = of_head.get(column[head])
        if left is not None and table.base[left].held:
            found[head] = "paired with a block that base holds too"
        elif left is not None:
            exactly = base_events[left] in bases
            found[head] = "named" if exactly else "named, with another block of its size in base"
        else:
            found[head] = _displaced(injected, of_base, head_events, before, row[min(bases)])
    return found


def _displaced(
    injected: Injected, of_base: dict[int, int], head_events: list[int], before: dict[int, int], i: int
) -> str:
    """Why base's ``i``-th block does not pair with the block that it paired with before the damage."""
    seen: set[int] = set()
    original = injected.pair.exact
    while i not in seen:
        seen.add(i)
        j = of_base.get(i)
        if j is None:
            return "held in head only: a pair in order would cross dearer ones"
        event = head_events[j]
        if event in injected.inserted:
            return "held in head only: an inserted temporary took its place"
        was = before[injected.origin[event]]
        if original.head_alone[was]:
            return "held in head only: a temporary that only head had took its place"
        i = int(np.flatnonzero(original.some[:, was])[0])
    return "held in head only: alike blocks changed partners"


@dataclass(frozen=True)
class Verdict:
    """A comparison of a damaged pair, judged.

    Attributes:
        story: Whether the cost tells what was injected: ``unique``, ``ambiguous`` or ``another``.
        score: What was found.
        cheapest: Its cost is that of the cheapest alignment.
        faultless: It reports what was injected, pair by pair, what was there before, and nothing else.
        causes: What became of each injected missing free in one of the cheapest alignments, by its size.
    """

    story: str
    score: Score
    cheapest: bool
    faultless: bool
    causes: list[tuple[str, int]]


def verdict(injected: Injected, found: WindowDiff) -> Verdict:
    """Judge a comparison of the pair with the damaged head."""
    (left, base_events), (right, head_events) = cheapest_born(injected.pair.windows.base, injected.head)
    table = exact(left, right)
    reported: list[Missing] = []
    held: Counter[int] = Counter()
    for finding in found.findings:
        for base, head in ((member.base, member.head) for member in finding.members):
            if finding.kind == "missing_free" and base is not None and head is not None:
                reported.append((base.alloc_event or 0, head.alloc_event or 0, finding.size_bytes))
            elif finding.kind == "only_head" and finding.fate == "held":
                held[finding.size_bytes] += 1
    truth = {(base, head) for head, bases in injected.truth.items() for base in bases}
    truth |= {(base, head) for base, head, _ in injected.background}
    return Verdict(
        story(injected, table, base_events, head_events),
        score(injected, reported, held),
        found.cost_bytes * 2 == table.cost,
        {(base, head) for base, head, _ in reported} == truth,
        [(why, injected.sizes[head]) for head, why in causes(injected, table, base_events, head_events).items()],
    )
