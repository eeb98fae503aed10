"""Made-up series of live bytes of a known shape, and whether the shape that is told of one is the one it was made with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from made_series import Chance, Floats, in_bytes, noise_of, ramp, random_walk, warm_up_of, wide
from numpy.typing import NDArray

from memlens.analyzers.series.trend import Trend, judge

Ints = NDArray[np.int64]
#: Series of these lengths are measured.
LENGTHS = (30, 50, 100, 200, 1000)


class Truth(NamedTuple):
    """What a series was made with; only what its shape has.

    Attributes:
        since: The window with the first leaked bytes.
        every: A leak is in every so manieth window.
        jumps: The windows in which the level rises for good.
        filled: The window in which it is full.
        period: It begins anew after so many windows.
    """

    since: int | None = None
    every: int | None = None
    jumps: tuple[int, ...] = ()
    filled: int | None = None
    period: int | None = None


Shape = Callable[[Chance, int], tuple[Floats, Truth]]


def leak(chance: Chance, n: int) -> tuple[Floats, Truth]:
    return ramp(n, 1), Truth(since=1)


def late_leak(chance: Chance, n: int) -> tuple[Floats, Truth]:
    since = n - int(chance.integers(10, n // 2 + 1))
    return ramp(n, since), Truth(since=since)


def every_fifth(chance: Chance, n: int) -> tuple[Floats, Truth]:
    first, t = int(chance.integers(1, 6)), np.arange(n)
    return np.where(t >= first, (t - first) // 5 + 1, 0).astype(np.float64), Truth(since=first, every=5)


def fills(chance: Chance, n: int) -> tuple[Floats, Truth]:
    """A cache that is full after a tenth to six tenths of the windows: as fast to the end, ever more slowly, or like a logarithm."""
    full, t = max(3, int(n * chance.uniform(0.1, 0.6))), np.arange(n)
    part = np.minimum(t, full) / full
    values = [part, 1 - np.exp(-4 * t / full), np.log1p(np.minimum(t, full)) / np.log1p(full)][chance.integers(0, 3)]
    above = wide(chance, 0.01, 0.1) * noise_of(chance, n) if chance.random() < 0.5 else 0.0
    return 10 * values + above, Truth(filled=full)


def step_up(chance: Chance, n: int) -> tuple[Floats, Truth]:
    """A copy that is made once and kept: beside nothing else, beside noise, or beside blocks of some steps that are far larger."""
    at, size = int(chance.integers(2, n - 2)), wide(chance, 0.5, 20)
    spikes = wide(chance, 1, 30) * (chance.random(n) < chance.uniform(0.02, 0.2))
    beside = [np.zeros(n), wide(chance, 0.01, 0.1) * size * noise_of(chance, n), spikes][chance.integers(0, 3)]
    return size * (np.arange(n) >= at) + beside, Truth(jumps=(at,))


def steps_up(chance: Chance, n: int) -> tuple[Floats, Truth]:
    """Two or three of them, none right after another."""
    while True:
        at = np.sort(chance.choice(np.arange(2, n - 2), int(chance.integers(2, 4)), replace=False))
        if np.diff(at).min() >= 2:
            return (np.arange(n)[:, None] >= at) @ chance.uniform(1, 3, len(at)), Truth(jumps=tuple(at.tolist()))


def sawtooth(chance: Chance, n: int) -> tuple[Floats, Truth]:
    period = int(chance.integers(2, min(30, n // 3) + 1))
    t = (np.arange(n) + chance.integers(0, period)) % period
    above = 0.02 * noise_of(chance, n) if chance.random() < 0.5 else 0.0
    return t * wide(chance, 0.5, 3) + above, Truth(period=period)


def warm_up(chance: Chance, n: int) -> tuple[Floats, Truth]:
    return warm_up_of(chance, n, 0.25), Truth(filled=n // 4)


def walk(chance: Chance, n: int) -> tuple[Floats, Truth]:
    return random_walk(chance, n)[0], Truth()


def batches(chance: Chance, n: int) -> tuple[Floats, Truth]:
    """Batches of random length."""
    spread = [chance.uniform(0, 1, n), np.minimum(chance.lognormal(0, 0.5, n), 5), chance.integers(1, 9, n) * 1.0]
    return spread[chance.integers(0, 3)] * wide(chance, 1, 20), Truth()


def flat(chance: Chance, n: int) -> tuple[Floats, Truth]:
    return np.zeros(n), Truth()


SHAPES: tuple[Shape, ...] = (
    *(leak, late_leak, every_fifth, fills, step_up, steps_up, sawtooth, warm_up, walk, batches, flat),
)


def told_right(shape: Shape, trend: Trend, live: Ints, truth: Truth) -> bool:
    """Whether a shape is told as what it is; what is hardly there, below a hundredth of the level, may be left out."""
    rise, hardly = trend.rise, 100 * int(live.max() - live.min()) <= 2 * int(live.max())
    if truth.since is not None:
        return (trend.verdict, trend.since, trend.every) == ("growing", truth.since, truth.every or 1)
    if trend.verdict == "growing":
        return False
    if truth.jumps:
        # A level that is far above both floors for a while does not say in which of these windows the lower one rose.
        ends = [] if rise is None else [(part.first, part.last) for part in rise.parts]
        above = [live[first:last].min() > live[last] for first, last in ends if first < last]
        found = len(ends) == len(truth.jumps) and all(above)
        return found and all(first <= at <= last for (first, last), at in zip(ends, truth.jumps, strict=True))
    if truth.filled is not None:
        last = truth.filled + max(2, len(live) // 20) if shape is fills else truth.filled + 1
        return rise is not None and rise.how == "stayed" and rise.first <= truth.filled and rise.last <= last
    if truth.period is not None:
        return rise is None and (trend.period == truth.period or (hardly and trend.verdict == "flat"))
    if shape is flat:
        return (trend.verdict, rise, trend.period) == ("flat", None, None)
    return rise is None and trend.period is None


def all_clear(trend: Trend) -> bool:
    """Whether it is told that nothing grows."""
    clear = trend.verdict == "flat" or (trend.verdict == "swinging" and 5 * trend.gained_bytes <= trend.swing_bytes)
    return trend.rise is None and (clear or trend.period is not None)


def rates(shape: Shape, windows: int, runs: int, seed: int) -> tuple[int, int]:
    """Of so many series of a shape how many are told right, and of how many is told that they do not grow though they rise for good."""
    chance = np.random.default_rng([seed, windows, *shape.__name__.encode()])
    right = clear = 0
    for _ in range(runs):
        values, truth = shape(chance, windows)
        live = in_bytes(values, chance)
        trend = judge(live, 0)
        right += told_right(shape, trend, live, truth)
        clear += truth.since is not None and all_clear(trend)
    return right, clear
