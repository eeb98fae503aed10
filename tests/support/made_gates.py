"""Made-up runs of one program for the gate: what two runs of it may differ in, and what is a regression.

A program is a list of blocks that it takes before its first step, and a list of events that every step repeats.  All that is random is
drawn from the generator of random numbers that is handed in.  Steps are marked ``STEP n START``; :data:`BY` cuts there.

The regressions are larger than the default limits, and what may differ is smaller, by the arithmetic that each function names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeAlias

from logs import LogText

BY = r"STEP (\d+) START"
MIB = 1 << 20
#: The floors of the default limits: of the peak and of growth, and of what a window leaves behind.
FLOOR, FLOOR_OF_WINDOWS = 64 << 10, MIB

#: A block that is taken (its number, its size) or given back (its number, 0).
Event: TypeAlias = tuple[str, int]
Series: TypeAlias = list[list[Event]]


@dataclass(frozen=True)
class Program:
    """What every step does.

    Attributes:
        held: Sizes of the blocks taken before the first step and kept.
        step: The events of a step; every block that it takes it gives back.
        warm: For each of the first steps, sizes of blocks that it takes and keeps: states of an optimizer, caches.
        cache: The size of a block that each step keeps, and every how many steps all of these are given back; 0 is none.
    """

    held: tuple[int, ...]
    step: tuple[Event, ...]
    warm: tuple[tuple[int, ...], ...] = ()
    cache: tuple[int, int] = (0, 1)

    @property
    def peak(self) -> int:
        """The highest level of a step, and of what is held and warm: at most the peak of a run."""
        level = best = 0
        live: dict[str, int] = {}
        for name, size in self.step:
            level += size or -live[name]
            live[name] = size
            best = max(best, level)
        return best + sum(self.held) + sum(map(sum, self.warm))


@dataclass(frozen=True)
class Case:
    """Runs to accept, and a run to judge by them.

    Attributes:
        base: The runs that are accepted.
        head: The run that is judged.
        exit_code: What the gate must give.
        metrics: Metrics of which one at least must fail.
    """

    base: tuple[Series, ...]
    head: Series
    exit_code: int
    metrics: frozenset[str] = field(default_factory=frozenset)


def allowance(made: Program, floor: int = FLOOR) -> int:
    """The most that the peak may grow by at default limits, or anything else at most that has this floor."""
    run = made.peak + made.cache[0] * made.cache[1]
    return max(floor, run * 2 // 100)


def program(chance: Random) -> Program:
    """A program whose blocks are of 256 bytes to 512 KiB: activations that a backward pass gives back, and temporaries."""

    def size() -> int:
        return 256 * round(2 ** chance.uniform(0, 11))

    step: list[Event] = []
    kept: list[str] = []
    for op in range(chance.randint(4, 12)):
        for n in range(chance.randint(0, 2)):
            step += [(f"t{op}.{n}", size()), (f"t{op}.{n}", 0)]
        step.append((f"a{op}", size()))
        kept.append(f"a{op}")
    for name in reversed(kept):
        if chance.random() < 0.7:
            step += [(f"g{name}", size()), (name, 0), (f"g{name}", 0)]
        else:
            step.append((name, 0))
    warm = tuple(tuple(size() for _ in range(chance.randint(0, 3))) for _ in range(chance.randint(0, 4)))
    cache = (size() // 8, chance.randint(2, 12)) if chance.random() < 0.3 else (0, 1)
    return Program(tuple(size() for _ in range(chance.randint(1, 40))), tuple(step), warm, cache)


def run(made: Program, steps: int, *, exits: bool = True) -> Series:
    """What a run of so many steps does: before the first one, in each, and, in the last one too, when the process ends."""
    series: Series = [[(f"h{n}", size) for n, size in enumerate(made.held)]]
    kept = [f"h{n}" for n in range(len(made.held))]
    cached: list[str] = []
    for at in range(steps):
        events = [(f"{at}.{name}", size) for name, size in made.step]
        for n, size in enumerate(made.warm[at] if at < len(made.warm) else ()):
            events.append((f"w{at}.{n}", size))
            kept.append(f"w{at}.{n}")
        if made.cache[0]:
            if at % made.cache[1] == made.cache[1] - 1:
                events += [(name, 0) for name in cached]
                cached = []
            cached.append(f"c{at}")
            events.append((f"c{at}", made.cache[0]))
        series.append(events)
    if exits:
        series[-1] = [*series[-1], *((name, 0) for name in (*kept, *cached))]
    return series


def swapped(chance: Random, series: Series, most: int = MIB) -> Series:
    """A tenth of the events of each step, of blocks of so many bytes at most, changed places with the one that follows.

    No level rises by more than one block.
    """
    large = {name for events in series for name, size in events if size > most}
    found = []
    for step in series:
        events, at = list(step), 0
        while at + 1 < len(events):
            one, other = events[at][0], events[at + 1][0]
            if chance.random() < 0.1 and one != other and large.isdisjoint((one, other)):
                events[at], events[at + 1] = events[at + 1], events[at]
                at += 1
            at += 1
        found.append(events)
    return found


def crossing(chance: Random, series: Series) -> Series:
    """The line that starts a step comes now and then an event earlier or later: the same events at the same levels, cut elsewhere."""
    found = [list(events) for events in series]
    for events, after in pairwise(found[1:]):
        if chance.random() < 0.2:
            events.append(after.pop(0))
        elif chance.random() < 0.2:
            after.insert(0, events.pop())
    return found


def delayed(chance: Random, series: Series) -> Series:
    """What gives back blocks runs on its own: each is given back up to 4 events later, in its step."""
    found = []
    for events in series:
        late = [at + (0.5 + chance.randint(0, 4) if not size else 0) for at, (_, size) in enumerate(events)]
        found.append([events[at] for at in sorted(range(len(events)), key=lambda at: late[at])])
    return found


def leaking(series: Series, size: int, steps: Sequence[int]) -> Series:
    """The same, with a block kept in each of these steps (0-based)."""
    found = [list(events) for events in series]
    for at in steps:
        found[at + 1].insert(0, (f"leak{at}", size))
    return found


def keeping(series: Series, size: int, first: Sequence[int], steps: int) -> Series:
    """The same, with a block kept at the end of each of these steps (0-based), and given back as the first thing so many steps later."""
    found = [list(events) for events in series]
    for at in first:
        found[at + 1].append((f"kept{at}", size))
        if at + steps + 1 < len(found):
            found[at + steps + 1].insert(0, (f"kept{at}", 0))
    return found


# What must pass


def _again(chance: Random) -> Case:
    made, steps = program(chance), chance.randint(2, 40)
    return Case((run(made, steps),), run(made, steps), 0)


def _jitter(chance: Random) -> Case:
    """Blocks of less than half of what is allowed: one fewer at the peak of base and one more at that of head are within; what remains stays."""
    made, steps = program(chance), chance.randint(2, 40)
    one, other = (swapped(chance, run(made, steps), allowance(made) * 2 // 5) for _ in range(2))
    return Case((one,), other, 0)


def _crossing(chance: Random) -> Case:
    """Lines that start a step come an event earlier or later; the blocks of these events are of half a MiB at most."""
    made, steps = program(chance), chance.randint(2, 40)
    plain = run(made, steps)
    one, other = (crossing(chance, plain) if chance.random() < 0.7 else plain for _ in range(2))
    return Case((one,), other, 0)


def _steps(chance: Random) -> Case:
    """More or fewer steps, with and without frees at exit."""
    made = replace(program(chance), cache=(0, 1))
    one, other = (run(made, chance.randint(5, 60), exits=chance.random() < 0.5) for _ in range(2))
    return Case((one,), other, 0)


def _cached(chance: Random) -> Case:
    """Caches that fill for some steps, and are given back together every so often."""
    made = program(chance)
    warm = tuple((1 << chance.randint(12, 19),) for _ in range(chance.randint(1, 8)))
    made = replace(made, warm=warm, cache=(256 * chance.randint(1, 400), chance.randint(2, 12)))
    one, other = (run(made, chance.randint(40, 80), exits=chance.random() < 0.5) for _ in range(2))
    return Case((one,), other, 0)


def _warming(chance: Random) -> Case:
    """Caches that fill for some steps, in a run that is over soon after, and in longer ones."""
    warm = tuple((1 << chance.randint(12, 19),) for _ in range(chance.randint(1, 8)))
    made = replace(program(chance), warm=warm, cache=(0, 1))
    lengths = [len(warm) + chance.randint(3, 10), len(warm) + chance.randint(3, 60)]
    chance.shuffle(lengths)
    one, other = (run(made, steps) for steps in lengths)
    return Case((one,), other, 0)


def _small_leak(chance: Random) -> Case:
    """A leak that adds up to less than the floor."""
    made, steps = program(chance), chance.randint(8, 60)
    plain = run(made, steps)
    return Case((plain,), leaking(plain, (FLOOR - 256) // steps // 256 * 256, range(steps)), 0)


# What passes by chance


def _asynchronous(chance: Random, runs: int) -> Case:
    """Frees that come some events later, of blocks up to half a MiB: they move the peak."""
    made, steps = program(chance), chance.randint(5, 40)
    head, *base = (delayed(chance, run(made, steps)) for _ in range(runs + 1))
    return Case(tuple(base), head, 0)


def _large_crossing(chance: Random, runs: int) -> Case:
    """Lines that start a step come an event earlier or later, in a third of the steps; the blocks of these events are larger than any limit."""
    made, steps = program(chance), chance.randint(2, 40)
    big = 4 * allowance(made, FLOOR_OF_WINDOWS)
    plain = run(replace(made, step=(("first", big), *made.step, ("first", 0))), steps)
    return Case(tuple(crossing(chance, plain) for _ in range(runs)), crossing(chance, plain), 0)


def _kept_shorter(chance: Random) -> Case:
    """Every few steps a block is kept for some steps; in head at most half of it, or for fewer steps: at no moment does it hold more."""
    made, every = program(chance), chance.randint(3, 10)
    size, steps = 4 * allowance(made, FLOOR_OF_WINDOWS), chance.randint(1, every - 1)
    plain = run(made, chance.randint(10, 40))
    first = range(every - 1, len(plain) - 1, every)
    if chance.random() < 0.5:
        head = keeping(plain, size // 2, first, steps) if chance.random() < 0.5 else plain
    else:
        head = keeping(plain, size, first, chance.randint(1, steps))
    return Case((swapped(chance, keeping(plain, size, first, steps)),), swapped(chance, head), 0)


# What must fail


def _each(made: Program, times: int, steps: int, floor: int = FLOOR) -> int:
    """What each of so many steps leaks, below the limit of a window: in all so many times what the peak may grow by and what caches give back."""
    return min(times * (allowance(made, floor) + made.cache[0] * made.cache[1]) // steps + 256, MIB - 256)


def _steady_leak(chance: Random) -> Case:
    """A leak below the limit of each window."""
    made, steps = program(chance), chance.randint(20, 80)
    noise = chance.choice([swapped, delayed, crossing])
    # What a step leaves behind differs by chance where blocks cross its end.
    size = _each(made, 3, steps, FLOOR_OF_WINDOWS if noise is crossing else FLOOR)
    plain = run(made, steps)
    head = leaking(plain, size, range(steps))
    return Case((noise(chance, plain),), noise(chance, head), 3, frozenset({"growth"}))


def _leak_that_stops(chance: Random) -> Case:
    """A leak below the limit of each step that stops, far below the peak of the first step."""
    made, steps = program(chance), chance.randint(30, 80)
    leaks = chance.randint(6, steps // 2)
    # What is gained in the first quarter of the steps is warm-up: it is the peaks of later steps that tell.
    size, first = _each(made, 4, leaks, FLOOR_OF_WINDOWS), chance.randint(1, steps // 5)
    plain = run(made, steps)
    plain[1] = [("compiled", 100 * allowance(made)), ("compiled", 0), *plain[1]]
    noise = chance.choice([swapped, delayed])
    head = leaking(plain, size, range(first, first + leaks))
    return Case((noise(chance, plain),), noise(chance, head), 3, frozenset({"peak", "growth"}))


def _late_leak(chance: Random) -> Case:
    """The same in the last ten closed steps or more."""
    made = program(chance)
    steps, late = chance.randint(25, 80), chance.randint(10, 20)
    size = _each(made, 4, late)
    plain = run(made, steps)
    return Case((plain,), leaking(plain, size, range(steps - 1 - late, steps - 1)), 3, frozenset({"growth", "peak"}))


def _longer_leak(chance: Random) -> Case:
    """A leak in a run that is longer or shorter than the one that was accepted."""
    made = replace(program(chance), cache=(0, 1))
    head, base = chance.randint(20, 80), chance.randint(8, 80)
    size = _each(made, 3, head)
    return Case((run(made, base),), leaking(run(made, head), size, range(head)), 3, frozenset({"growth"}))


def _one_window(chance: Random) -> Case:
    """One closed step keeps a block that is larger than anything may grow by."""
    made, steps = program(chance), chance.randint(2, 40)
    plain = swapped(chance, run(made, steps))
    head = leaking(plain, 2 * allowance(made, FLOOR_OF_WINDOWS) + 256, [chance.randrange(steps - 1)])
    return Case((plain,), head, 3, frozenset({"remaining"}))


def _kept_for_good(chance: Random) -> Case:
    """Every few steps a block is kept for some steps, and head does not give one of them back; in a first step both hold far more."""
    made, every = program(chance), chance.randint(3, 10)
    size, steps = 4 * allowance(made, FLOOR_OF_WINDOWS), chance.randint(1, every - 1)
    plain = run(made, chance.randint(2 * every + 2, 60))
    plain[1] = [("compiled", 9 * size), ("compiled", 0), *plain[1]]
    first = range(every - 1, len(plain) - 2 - steps, every)
    base, lost = keeping(plain, size, first, steps), chance.choice(first)
    head = [[event for event in events if event != (f"kept{lost}", 0)] for events in base]
    return Case((swapped(chance, base),), swapped(chance, head), 3, frozenset({"remaining"}))


def _higher_peak(chance: Random) -> Case:
    """One closed step has a temporary for its whole length that is larger than anything may grow by."""
    made, steps = program(chance), chance.randint(2, 40)
    plain, at = swapped(chance, run(made, steps)), chance.randrange(1, steps)
    head = [list(events) for events in plain]
    head[at] = [("more", 3 * allowance(made, FLOOR_OF_WINDOWS)), *head[at], ("more", 0)]
    return Case((plain,), head, 3, frozenset({"peak"}))


def _lost_step(chance: Random) -> Case:
    """A step in the middle is not there."""
    made, steps = program(chance), chance.randint(4, 40)
    plain = run(made, steps)
    head: Series = [list(events) for events in plain]
    at = chance.randrange(1, steps - 1)
    head[at] = [*head[at], *head[at + 1]]
    head[at + 1] = [("", -1)]  # no line that starts it
    return Case((plain,), head, 3)


def _held_more(chance: Random) -> Case:
    """More is held from before the first step on: no step shows it, and the device holds it."""
    made, steps = program(chance), chance.randint(2, 40)
    base = run(made, steps)
    head = [[("big", 2 * allowance(made) + 256), *base[0]], *base[1:]]
    return Case((base,), head, 3, frozenset({"peak"}))


PASSING: dict[str, Callable[[Random], Case]] = {
    "again": _again,
    "jitter": _jitter,
    "jitter at anchors": _crossing,
    "more or fewer steps": _steps,
    "caches": _cached,
    "warm-up": _warming,
    "small leak": _small_leak,
}
#: What passes more often the more runs are accepted, for the bytes of one window stand in its neighbour by chance; not among what must pass.
BY_CHANCE: dict[str, Callable[[Random], Case]] = {
    f"{name}, {runs}": partial(make, runs=runs)
    for name, make in (("asynchronous", _asynchronous), ("large at anchors", _large_crossing))
    for runs in (1, 3, 8)
} | {"kept shorter": _kept_shorter}
FAILING: dict[str, Callable[[Random], Case]] = {
    "steady leak": _steady_leak,
    "leak that stops": _leak_that_stops,
    "late leak": _late_leak,
    "leak, other length": _longer_leak,
    "one window": _one_window,
    "kept for good": _kept_for_good,
    "higher peak": _higher_peak,
    "lost step": _lost_step,
    "more held": _held_more,
}


def write(path: Path, series: Series) -> Path:
    """A run as a log of Paddle's, on chunks that hold it all."""
    addresses: dict[str, int] = {}
    sizes: dict[str, int] = {}
    log = LogText(line_us=0)
    log.chunk(1 << 40, 0x1)
    for at, events in enumerate(series):
        if at and events[:1] != [("", -1)]:
            log.lines.append(f"STEP {at - 1} START")
        for name, size in events:
            if size > 0:
                addresses[name], sizes[name] = 0x7F0000000000 + (len(addresses) << 24), size
                log.alloc(size, addresses[name])
            elif not size:
                log.free(sizes[name], addresses[name])
    path.write_text(log.text)
    return path
