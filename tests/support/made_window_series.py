"""Pairs of series of windows whose true partners are known: numbers inserted, lost or starting elsewhere, and regressions.

A series is made of *programs*: what a window allocates and frees, as a tuple of ``(size, freed)``.  Head's series is base's with
edits and regressions; which window of base each window of head comes from is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from msgspec import structs

from memlens.diffing.window_pairs import WindowPairs, named_pairs
from memlens.events import Kind
from memlens.log import Log
from memlens.windows.windows import BEFORE, Window

#: What a window allocates, in order: the size, and how many ALLOCs later it is freed (-1: never in it).
Program = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Made:
    """Two series.

    Attributes:
        words: How they were made.
        base: What base's windows do.
        head: What head's windows do.
        clean: The same without regressions.
        origin: For each window of head the one of base that it comes from, -1 for an inserted one.
        start: The number of head's first window; base's is 0.
    """

    words: str
    base: tuple[Program, ...]
    head: tuple[Program, ...]
    clean: tuple[Program, ...]
    origin: tuple[int, ...]
    start: int = 0

    @property
    def windows(self) -> tuple[list[Window], list[Window]]:
        """The windows of base and of head."""
        return series_of(self.base), series_of(self.head, start=self.start)


def series_of(programs: Sequence[Program], *, start: int = 0, name: str = "CALL_{}") -> list[Window]:
    """A log of such windows, cut; what comes first is ``(before)``, and the last one is open."""
    rows, ends = [(Kind.ALLOC, 4096, 1)], [1]
    for program in programs:
        due: dict[int, list[tuple[int, int]]] = {}
        for number, (size, life) in enumerate(program):
            address = len(rows) + 2
            rows.append((Kind.ALLOC, size, address))
            if life >= 0:
                due.setdefault(number + life, []).append((size, address))
            rows += [(Kind.FREE, *block) for block in due.pop(number, ())]
        rows += [(Kind.FREE, *block) for blocks in due.values() for block in blocks]
        ends.append(len(rows))
    log = Log.from_rows(rows)
    found = [Window(log, BEFORE, 0, 1, 0, 1, 1, 1)]
    found += [
        Window(log, name.format(start + k), lo, hi, lo, hi, lo + 1, hi) for k, (lo, hi) in enumerate(pairwise(ends))
    ]
    found[-1] = structs.replace(found[-1], open_end=True)
    return found


# -- what a run does -------------------------------------------------------------------------------------------------------

_SIZES = [256 * k for k in (1, 2, 4, 7, 16, 36, 64, 100, 256, 400, 1024, 2304, 4096, 9216, 13824, 30000)]


def _program(chance: Random, least: int = 2, most: int = 24) -> Program:
    """A subgraph: sizes of its own beside those that all share."""
    own = [256 * chance.randint(1, 200_000) for _ in range(chance.randint(1, 4))]
    return tuple(
        (chance.choice([*_SIZES, *own, *own]), chance.choice([-1, 0, 1, 2, 5]))
        for _ in range(chance.randint(least, most))
    )


def _distinct(chance: Random, count: int) -> list[Program]:
    return [_program(chance) for _ in range(count)]


def _steps(chance: Random, count: int) -> list[Program]:
    """Subgraphs that come again in each step, the first step with more to do."""
    calls = [_program(chance) for _ in range(chance.randint(2, 6))]
    return [(*_program(chance), *calls[k]) if k < len(calls) else calls[k % len(calls)] for k in range(count)]


def _layers(chance: Random, count: int) -> list[Program]:
    """One layer again and again between what comes first and last in a step."""
    first, layer, last = (_program(chance) for _ in range(3))
    step = [first, *[layer] * chance.randint(2, 12), last]
    return [step[k % len(step)] for k in range(count)]


def _steady(chance: Random, count: int) -> list[Program]:
    first, step = _program(chance), _program(chance, 10, 40)
    return [(*step, *first), *[step] * (count - 1)]


def _sized(chance: Random, count: int) -> list[Program]:
    """The same work on tensors of another size in each window."""
    lives = [chance.choice([-1, 0, 1]) for _ in range(chance.randint(1, 5))]
    return [tuple((256 * chance.randint(1, 10**6), life) for life in lives) for _ in range(count)]


def _growing(chance: Random, count: int) -> list[Program]:
    step, by = _program(chance), chance.randint(1, 8)
    return [tuple((size * (8 + by * k), life) for size, life in step) for k in range(count)]


def _buckets(chance: Random, count: int) -> list[Program]:
    """Lengths of sentences: each step falls into one of some buckets, by chance."""
    step, buckets = _program(chance), chance.randint(2, 8)
    return [tuple((size * b, life) for size, life in step) for b in chance.choices(range(1, buckets + 1), k=count)]


KINDS: dict[str, Callable[[Random, int], list[Program]]] = {
    "distinct": _distinct,
    "steps": _steps,
    "layers": _layers,
    "steady": _steady,
    "sized": _sized,
    "growing": _growing,
    "buckets": _buckets,
}

# -- what happened to the numbers ------------------------------------------------------------------------------------------

EDITS = (
    "none", "insert", "lose", "both", "every step", "offset", "offset, insert", "resumed", "shorter", "longer", "redrawn", "ahead",
)  # fmt: skip


def _edited(chance: Random, base: list[Program], edit: str) -> tuple[list[int], int]:
    """Which windows of base come in head, -1 for new ones, and the number of the first one."""
    origin, start = list(range(len(base))), 0
    if edit in ("insert", "both", "offset, insert"):
        for _ in range(chance.randint(1, 3)):
            origin[(at := chance.randint(0, len(origin))) : at] = [-1]
    if edit in ("lose", "both"):
        for _ in range(chance.randint(1, 3)):
            del origin[chance.randrange(len(origin))]
    if edit == "every step":
        each = chance.randint(3, 8)
        origin = [k for n, place in enumerate(origin) for k in ([place, -1] if n % each == each - 1 else [place])]
    if edit.startswith("offset"):
        start = chance.randint(1, 3 * len(base))
    if edit == "resumed":  # a part of the run, from some step on, with its own numbers
        start = chance.randint(1, len(base) // 2)
        origin = origin[start:]
    if edit == "shorter":
        del origin[chance.randint(2, len(base)) :]
    return origin, start


# -- what head does wrong --------------------------------------------------------------------------------------------------

REGRESSIONS = ("none", "lost free", "lost frees", "bigger", "all bigger", "another", "first ones")


def _keeps(program: Program, chance: Random) -> Program:
    freed = [k for k, (_, life) in enumerate(program) if life >= 0]
    lost = chance.choice(freed) if freed else -1
    return tuple((size, -1 if k == lost else life) for k, (size, life) in enumerate(program))


def _grows(program: Program, factor: int = 3) -> Program:
    largest = max(size for size, _ in program)
    return tuple((size * factor if size == largest else size, life) for size, life in program)


def _regressed(chance: Random, head: list[Program], regression: str) -> list[Program]:
    one = chance.randrange(len(head))
    worse: Callable[[int, Program], Program] = {
        "none": lambda _, program: program,
        "lost free": lambda k, program: _keeps(program, chance) if k == one else program,
        "lost frees": lambda _, program: _keeps(program, Random(hash(program))),
        "bigger": lambda k, program: _grows(program) if k == one else program,
        "all bigger": lambda _, program: _grows(program),
        "another": lambda k, program: _program(chance) if k == one else program,
        "first ones": lambda k, program: (*program, *program, (1 << 28, -1)) if k < len(head) // 4 else program,
    }[regression]
    return [worse(k, program) for k, program in enumerate(head)]


def made(chance: Random, kind: str, edit: str, regression: str, count: int) -> Made:
    """Two series of about ``count`` windows."""
    longer = KINDS[kind](chance, count + (chance.randint(3, count) if edit in ("longer", "ahead") else 0))
    if (edit == "redrawn" and kind not in ("steps", "buckets")) or (
        edit == "ahead" and kind not in ("sized", "growing")
    ):
        edit = "none"  # what one call does instead of another is what a comparison of the two is for
    base = longer[:count]
    origin, start = _edited(chance, base, edit)
    if edit == "longer":  # what base was killed before
        origin = list(range(len(longer)))
    clean = [longer[k] if k >= 0 else _program(chance) for k in origin]
    head = clean
    if (
        edit == "redrawn"
    ):  # the same kinds of windows, in another order: each is to be compared with the one of its name
        head = chance.sample(base, len(base))
    if edit == "ahead":  # head does what base does later: each window is to be compared with the one of its name
        ahead = chance.randint(1, 3)
        head = longer[ahead : ahead + count]
    head = _regressed(chance, head, regression)
    known = tuple(k if k < len(base) else -1 for k in origin)
    words = f"{kind}, {edit}, {regression}, {len(base)} and {len(head)} windows"
    return Made(words, tuple(base), tuple(head), tuple(clean), known, start)


# -- what is right ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """How two series were paired.

    Attributes:
        story: ``names`` where names pair all windows with those that they come from (or that do the same), ``work`` where they
            mislead in three windows or more, ``few`` where they mislead in one or two.
        by_work: They were paired by what they do.
        closed: Closed windows of head that come from a closed window of base.
        wrong: Of these, those that are not compared with one that does what they should do.
        hidden: Of these, those with a regression that are compared with one that does the same all the same: nothing shows.
        edits: Windows inserted and lost.
    """

    story: str
    by_work: bool
    closed: int
    wrong: int
    hidden: int
    edits: int


def judged(case: Made, found: WindowPairs) -> Verdict:
    """Judge how two series were paired; the last window of each is open and tells nothing."""
    base, head = case.windows
    named = {j - 1: i - 1 for i, j in named_pairs(base, head).items() if i and j}
    closed = {j: i for j, i in enumerate(case.origin[:-1]) if 0 <= i < len(case.base) - 1}
    named_head = {i: j for j, i in named.items()}

    def fits(i: int, j: int) -> bool:
        return case.base[i] == case.clean[j]

    # Neither of the two windows is paired by name with one that does what it does.
    misled = sum(
        not (j in named and fits(named[j], j)) and not (i in named_head and fits(i, named_head[i]))
        for j, i in closed.items()
    )
    at, at_head = ({w.start_line: k - 1 for k, w in enumerate(side)} for side in (base, head))
    partner = {at_head[other.start_line]: at[one.start_line] for one, other in found.pairs}
    wrong = [j for j in closed if j not in partner or not fits(partner[j], j)]
    lost = len(set(range(max(case.origin, default=0))) - set(case.origin))
    return Verdict(
        "work" if misled >= 3 else "few" if misled else "names",
        found.by_work,
        len(closed),
        len(wrong),
        sum(case.head[j] != case.clean[j] and j in partner and case.head[j] == case.base[partner[j]] for j in wrong),
        sum(k < 0 for k in case.origin) + lost,
    )
