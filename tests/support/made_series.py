"""Made-up series of live bytes at the ends of windows: leaks of many kinds, and what must not be called one.

Each kind draws its parameters widely from a generator of random numbers.  Memory is modelled as it is: a base, temporary memory
on top of it, and in a leak bytes that are never given back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memlens.analyzers.series.trend import judge

Chance = np.random.Generator
Floats = NDArray[np.floating[Any]]
Maker = Callable[[Chance, int], "tuple[Floats, int | None]"]
#: Series of these lengths are measured.
LENGTHS = (20, 30, 50, 100, 200, 1000)


def made(maker: Maker, chance: Chance, windows: int) -> tuple[NDArray[np.int64], int | None]:
    """One series of a kind, and the index of the window with the first leaked bytes where one can be named.

    The kinds are made in a unit of their own; here they get a base level and a block size.
    """
    values, since = maker(chance, windows)
    return in_bytes(values, chance), since


def in_bytes(values: Floats, chance: Chance) -> NDArray[np.int64]:
    """A series with a base level and a block size."""
    unit = 256 * 2 ** chance.integers(0, 17)  # 256 B to 16 MiB
    base = int(unit * 10 ** chance.uniform(0, 4))
    # Blocks come in multiples of 256 bytes, but nothing a series is about is lost to that: what is 1 is at least 16 blocks.
    live = base + np.round(values * 16).astype(np.int64) * unit
    return live - min(int(live.min()), 0)


def is_growing(live: NDArray[np.int64]) -> bool:
    """Whether a series is called growing."""
    return judge(live).verdict == "growing"


def grown(
    maker: Maker, windows: int, runs: int, seed: int, called: Callable[[NDArray[np.int64]], bool] = is_growing
) -> int:
    """How many of so many series of a kind are called growing."""
    chance = np.random.default_rng([seed, windows, *maker.__name__.encode()])
    return sum(called(made(maker, chance, windows)[0]) for _ in range(runs))


# Pieces that several kinds are made of


def wide(chance: Chance, low: float, high: float) -> float:
    """A number between two others, evenly on a logarithmic scale."""
    return float(np.exp(chance.uniform(np.log(low), np.log(high))))


def noise_of(chance: Chance, n: int) -> Floats:
    """Noise of about one unit's spread, of one of several shapes."""
    shape = chance.integers(0, 4)
    if shape == 0:
        return chance.normal(0, 1, n)
    if shape == 1:
        return chance.uniform(-1.7, 1.7, n)
    if shape == 2:
        return chance.exponential(1, n)
    return chance.choice([0.0, 2.0], n)  # two levels by chance


def _teeth(chance: Chance, n: int, period: float, jitter: float) -> tuple[Floats, NDArray[np.int64]]:
    """Sawteeth that rise by 1 a period and come back to 0, the first one from anywhere; and how many came back before."""
    rows: list[tuple[float, int]] = []
    count, phase = 0, chance.uniform(0, 1)
    length = max(2, round(period * (1 + jitter * chance.uniform(-1, 1))))
    at = int(phase * length)
    while len(rows) < n:
        rows.append((at / period, count))
        at += 1
        if at >= length:
            at, count = 0, count + 1
            length = max(2, round(period * (1 + jitter * chance.uniform(-1, 1))))
    values, counts = np.array(rows).T
    return values, counts.astype(np.int64)


def _swing(chance: Chance, n: int, longest: int) -> Floats:
    """A periodic swing between 0 and about 1."""
    period = int(chance.integers(2, max(longest, 3) + 1))
    if chance.random() < 0.5:
        profile = chance.uniform(0, 1, period)
    else:
        profile = 0.5 + 0.5 * np.sin(2 * np.pi * (np.arange(period) / period + chance.random()))
    return np.resize(profile, n)


def _reverting(chance: Chance, n: int, keep: float) -> Floats:
    values, level = np.zeros(n), 0.0
    for k, push in enumerate(chance.normal(0, np.sqrt(1 - keep * keep), n).tolist()):
        level = keep * level + push
        values[k] = level
    return values


def ramp(n: int, since: int) -> Floats:
    """0 before window ``since``, then 1, 2, 3, …"""
    return np.maximum(np.arange(n) - since + 1, 0).astype(np.float64)


def warm_up_of(chance: Chance, n: int, by: float) -> Floats:
    """Memory that fills within the first ``by`` of the series: in one, in steps, or ever more slowly."""
    shape, t, height = chance.integers(0, 3), np.arange(n), wide(chance, 1, 100)
    if shape == 0:
        return height * (t >= chance.integers(1, max(2, int(n * by))))
    if shape == 1:
        steps = chance.integers(0, max(1, int(n * by)), chance.integers(2, 6))
        return np.asarray(height * (t[:, None] >= steps).sum(1), np.float64)
    return height * (1 - np.exp(-t / wide(chance, 0.5, max(n * by / 7, 0.6))))


# Leaks


def steady(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return ramp(n, 1), 1


def steady_uneven(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return np.cumsum(chance.gamma(wide(chance, 0.5, 10), 1, n)), None


def late(chance: Chance, n: int) -> tuple[Floats, int | None]:
    since = n - int(chance.integers(10, max(11, n // 2 + 1)))
    return ramp(n, since), since


def late_ten(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return ramp(n, n - 10), n - 10


def late_in_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    since = n - int(chance.integers(10, max(11, n // 2 + 1)))
    return ramp(n, since) + wide(chance, 0.02, 1) * chance.uniform(0, 1, n), since


def late_after_warm_up(chance: Chance, n: int) -> tuple[Floats, int | None]:
    since = n - int(chance.integers(10, max(11, n // 2 + 1)))
    return ramp(n, since) + warm_up_of(chance, n, 0.25), since


def late_in_swing(chance: Chance, n: int) -> tuple[Floats, int | None]:
    since = n - int(chance.integers(max(10, n // 3), max(11, n // 2 + 1)))
    return ramp(n, since) + wide(chance, 0.1, 3) * _swing(chance, n, max(2, n // 20)), since


def periodic(chance: Chance, n: int) -> tuple[Floats, int | None]:
    every = int(chance.integers(2, max(3, n // 5 + 1)))
    first = int(chance.integers(1, every + 1))
    t = np.arange(n)
    return np.where(t >= first, (t - first) // every + 1, 0).astype(np.float64), first


def by_epoch(chance: Chance, n: int) -> tuple[Floats, int | None]:
    every = int(chance.integers(2, max(3, n // 6 + 1)))
    t = np.arange(n)
    within = np.resize(chance.uniform(0, wide(chance, 0.3, 3), every), n)
    return t // every + within, None


def in_small_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return wide(chance, 20, 200) * ramp(n, 1) / n + noise_of(chance, n), None


def in_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return wide(chance, 10, 20) * ramp(n, 1) / n + noise_of(chance, n), None


def in_large_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return wide(chance, 6, 10) * ramp(n, 1) / n + noise_of(chance, n), None


def in_correlated_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    keep = chance.uniform(0.2, 0.7)
    return wide(chance, 15, 60) * ramp(n, 1) / n + _reverting(chance, n, keep), None


def in_spikes(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return ramp(n, 1) + wide(chance, 1, 3 * n) * (chance.random(n) < chance.uniform(0.02, 0.3)), None


def sawteeth_rising(chance: Chance, n: int) -> tuple[Floats, int | None]:
    teeth, count = _teeth(chance, n, chance.uniform(3, max(3.1, n / 6)), 0.0)
    return teeth + count * wide(chance, 0.05, 2), None


def uneven_sawteeth_rising(chance: Chance, n: int) -> tuple[Floats, int | None]:
    teeth, count = _teeth(chance, n, chance.uniform(3, max(3.1, n / 8)), 0.4)
    return teeth + count * wide(chance, 0.1, 2), None


def accelerating(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return (np.arange(n) / 3) ** chance.uniform(1.3, 3), None


def beside_a_swing(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return wide(chance, 0.1, 1) * ramp(n, 1) / n * 10 + 10 * _swing(chance, n, max(2, n // 6)), None


def beside_two_levels(chance: Chance, n: int) -> tuple[Floats, int | None]:
    high = chance.random(n) < chance.uniform(0.2, 0.6)
    return ramp(n, 1) + n * wide(chance, 0.2, 3) * high, None


def after_warm_up(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return ramp(n, 1) * wide(chance, 0.2, 3) + warm_up_of(chance, n, 0.25), None


def with_a_jump(chance: Chance, n: int) -> tuple[Floats, int | None]:
    at = int(chance.integers(1, n))
    return ramp(n, 1) + wide(chance, 1, n) * (np.arange(n) >= at), None


def given_back_in_part(chance: Chance, n: int) -> tuple[Floats, int | None]:
    every, back = int(chance.integers(2, max(3, n // 8))), chance.uniform(0.2, 0.8)
    step = np.where(np.arange(n) % every == every - 1, -back * (every - 1), 1.0)
    return np.cumsum(step), None


def now_and_then_back(chance: Chance, n: int) -> tuple[Floats, int | None]:
    step = np.where(chance.random(n) < chance.uniform(0.05, 0.25), -chance.uniform(0, 1, n), 1.0)
    return np.cumsum(step), None


def with_dips(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """What is always there at the end of a window, but not of the last one of an epoch, and never as much as has leaked since the beginning."""
    values, epoch = 50 + ramp(n, 1), int(chance.integers(8, max(9, n // 2)))
    dips = np.arange(epoch, n - 1, epoch)
    values[dips] -= chance.uniform(0.1, 0.9) * (dips - 1)
    return values, None


def in_evaluation(chance: Chance, n: int) -> tuple[Floats, int | None]:
    every = int(chance.integers(2, max(3, n // 6 + 1)))
    t = np.arange(n)
    return (t + 1) // every + wide(chance, 0.5, 10) * (t % every == every - 1), None


def train_and_evaluation(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return ramp(n, 1) + (np.arange(n) % 2) * wide(chance, 0.5, n), None


def in_bursts(chance: Chance, n: int) -> tuple[Floats, int | None]:
    every = int(chance.integers(3, max(4, n // 6 + 1)))
    on = (np.arange(n) + chance.integers(0, every)) % every < max(1, every * chance.uniform(0.3, 0.7))
    return np.cumsum(on).astype(np.float64), None


def by_chance(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return np.cumsum(chance.random(n) < max(8 / n, chance.uniform(0.2, 0.9))).astype(np.float64), None


LEAKS: tuple[Maker, ...] = (
    *(steady, steady_uneven, late, late_ten, late_in_noise, late_after_warm_up, late_in_swing, periodic, by_epoch),
    *(in_small_noise, in_noise, in_large_noise, in_correlated_noise, in_spikes, sawteeth_rising),
    *(uneven_sawteeth_rising, accelerating, beside_a_swing, beside_two_levels, after_warm_up, with_a_jump),
    *(given_back_in_part, now_and_then_back, in_evaluation, train_and_evaluation, in_bursts, by_chance, with_dips),
)


# No leaks


def flat(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return np.zeros(n), None


def noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return wide(chance, 0.1, 10) * noise_of(chance, n), None


def one_jump(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return 5.0 * (np.arange(n) >= chance.integers(1, n)), None


def two_jumps(chance: Chance, n: int) -> tuple[Floats, int | None]:
    at, size = chance.integers(1, n, 2), chance.uniform(1, 5, 2)
    return ((np.arange(n)[:, None] >= at) * size).sum(1), None


def jump_in_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return wide(chance, 1, 100) * (np.arange(n) >= chance.integers(1, n)) + noise_of(chance, n), None


def jumps_in_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    at, size = chance.integers(1, n, 2), [wide(chance, 0.3, 20), wide(chance, 0.3, 20)]
    return ((np.arange(n)[:, None] >= at) * size).sum(1) + noise_of(chance, n), None


def jumps_beside_a_swing(chance: Chance, n: int) -> tuple[Floats, int | None]:
    at, size = chance.integers(1, n, 2), chance.uniform(0.1, 5, 2)
    return ((np.arange(n)[:, None] >= at) * size).sum(1) + _swing(chance, n, 4), None


def late_plateau(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return 5.0 * (np.arange(n) >= n - chance.integers(1, max(2, n // 4))) + 0.1 * noise_of(chance, n), None


def saturating(chance: Chance, n: int) -> tuple[Floats, int | None]:
    t = np.arange(n)
    return 20 * (1 - np.exp(-t / wide(chance, 0.5, n / 6))), None


def saturating_in_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return saturating(chance, n)[0] + wide(chance, 0.05, 2) * noise_of(chance, n), None


def staircase_that_ends(chance: Chance, n: int) -> tuple[Floats, int | None]:
    steps = chance.integers(0, max(2, int(n * chance.uniform(0.1, 0.6))), chance.integers(2, 9))
    return ((np.arange(n)[:, None] >= steps) * chance.uniform(0.5, 2, len(steps))).sum(1), None


def cache_that_fills(chance: Chance, n: int) -> tuple[Floats, int | None]:
    full = int(n * chance.uniform(0.05, 0.65))
    return np.minimum(np.arange(n), full).astype(np.float64) + wide(chance, 0.01, 1) * noise_of(chance, n), None


def logarithmic(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return wide(chance, 5, 100) * np.log(1 + np.arange(n) / wide(chance, 0.2, 3)), None


def cache_by_chance(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """A new shape comes ever more seldom."""
    soon = wide(chance, 0.5, max(n / 15, 0.6))
    return np.cumsum(chance.random(n) < 1 / (1 + np.arange(n) / soon)).astype(np.float64), None


def swinging(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return 5 * _swing(chance, n, max(3, n // 3)), None


def swinging_in_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return 5 * _swing(chance, n, max(3, n // 3)) + wide(chance, 0.05, 2) * noise_of(chance, n), None


def swinging_unevenly(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """A sine whose period wanders."""
    turn = np.cumsum(wide(chance, min(3 / n, 0.3), 0.4) * chance.uniform(0.3, 1.7, n))
    return 5 * np.sin(2 * np.pi * (turn + chance.random())), None


def two_levels(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """Changes between two levels by chance, several times."""
    changes = chance.random(n) < max(4 / n, chance.uniform(0.05, 0.5))
    return 5.0 * (np.cumsum(changes) % 2), None


def random_walk(chance: Chance, n: int) -> tuple[Floats, int | None]:
    steps = chance.normal(0, 1, n) if chance.random() < 0.5 else chance.choice([-1.0, 1.0], n)
    return np.cumsum(steps), None


def lazy_walk(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """A random walk that mostly stands still."""
    return np.cumsum(chance.choice([-1.0, 1.0], n) * (chance.random(n) < chance.uniform(0.2, 0.8))), None


def reverting_walk(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return 5 * _reverting(chance, n, chance.uniform(0.3, 0.97)), None


def sawteeth(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return _teeth(chance, n, chance.uniform(3, max(n / 2.2, 3.1)), 0.0)[0], None


def uneven_sawteeth(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return _teeth(chance, n, chance.uniform(3, max(n / 4, 3.1)), chance.uniform(0.1, 0.6))[0], None


def cut_in_mid_tooth(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """Two whole teeth or more, and the last one nearly done."""
    whole = int(chance.integers(2, max(3, n // 8)))
    period = max(3, round(n / (whole + chance.uniform(0.6, 0.98))))
    return (np.arange(n) % period).astype(np.float64), None


def sawteeth_in_noise(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return _teeth(chance, n, chance.uniform(3, max(n / 3, 3.1)), 0.1)[0] + wide(chance, 0.01, 0.3) * noise_of(
        chance, n
    ), None


def alternating(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return 5.0 * (np.arange(n) % 2) + wide(chance, 0.01, 2) * noise_of(chance, n), None


def every_kth(chance: Chance, n: int) -> tuple[Floats, int | None]:
    every = int(chance.integers(2, max(3, n // 2)))
    return 5.0 * ((np.arange(n) + chance.integers(0, every)) % every == 0), None


def heavy_tails(chance: Chance, n: int) -> tuple[Floats, int | None]:
    up = chance.pareto(chance.uniform(1, 3), n)
    return np.minimum(up if chance.random() < 0.5 else up * chance.choice([-1, 1], n), 1e4), None


def one_outlier(chance: Chance, n: int) -> tuple[Floats, int | None]:
    values = 0.1 * noise_of(chance, n) if chance.random() < 0.5 else np.zeros(n)
    values[chance.integers(0, n)] += wide(chance, 1, 100) * chance.choice([-1, 1])
    return values, None


def shrinking(chance: Chance, n: int) -> tuple[Floats, int | None]:
    return -np.cumsum(chance.gamma(1, 1, n)) + wide(chance, 0.01, 2) * noise_of(chance, n), None


def freed_and_back(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """Falls for a while and then fills up to where it was."""
    a, b = sorted(chance.integers(1, n, 2).tolist())
    ramp = np.clip((np.arange(n) - b) / max(1, (n - b) * chance.uniform(0.01, 0.7)), 0, 1)
    return np.where(np.arange(n) < a, 1.0, ramp) * 10, None


def plateau_with_dips(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """Goes up once or twice and stays, but for the ends of epochs."""
    values, epoch = two_jumps(chance, n)[0] + 10, int(chance.integers(8, max(9, n // 2)))
    values[np.arange(epoch, n - 1, epoch)] -= wide(chance, 0.01, 9)
    return values, None


def widening(chance: Chance, n: int) -> tuple[Floats, int | None]:
    """Temporary memory that varies more and more above the same floor."""
    return np.arange(n) / n * 5 * chance.uniform(0, 1, n) ** 2, None


NO_LEAKS: tuple[Maker, ...] = (
    *(flat, noise, one_jump, two_jumps, jump_in_noise, jumps_in_noise, jumps_beside_a_swing, late_plateau),
    *(
        saturating,
        saturating_in_noise,
        staircase_that_ends,
        cache_that_fills,
        logarithmic,
        cache_by_chance,
        swinging,
        swinging_in_noise,
    ),
    *(swinging_unevenly, two_levels, random_walk, lazy_walk, reverting_walk, sawteeth, uneven_sawteeth),
    *(cut_in_mid_tooth, sawteeth_in_noise, alternating, every_kth, heavy_tails, one_outlier, shrinking),
    *(freed_and_back, widening, plateau_with_dips),
)
