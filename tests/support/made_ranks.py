"""Peaks of the ranks of made-up jobs, with the ranks of which "stands out" must be said, drawn with fresh seeds.

A job has 8 to 10,000 ranks.  Each maker takes a source of chance and the number of ranks, and gives the peaks (int64 bytes), the fields that paths would name,
and the ranks that stand out by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Chance = np.random.Generator

MIB, GIB = 1 << 20, 1 << 30
SIZES = (8, 16, 64, 256, 1024, 10_000)


@dataclass(frozen=True)
class Job:
    """The peaks of a job, the fields of its ranks by name, and which ranks stand out."""

    peaks: Ints
    fields: dict[str, Ints] = field(default_factory=dict)
    outliers: frozenset[int] = frozenset()


Maker = Callable[[Chance, int], Job]


def _base(chance: Chance) -> int:
    return int(chance.integers(2 * GIB, 80 * GIB))


def _noise(chance: Chance, ranks: int, base: int) -> Ints:
    """What ranks differ by that do the same work: nothing, or up to a few percent."""
    share = chance.choice([0.0, 1e-6, 1e-4, 1e-3, 5e-3, 2e-2])
    noise: Ints = (base * share * chance.standard_normal(ranks)).astype(np.int64)
    return noise


def _sites(ranks: int) -> dict[str, Ints]:
    return {"node": np.arange(ranks) // 8, "local_rank": np.arange(ranks) % 8}


def alike(chance: Chance, ranks: int) -> Job:
    """All to the byte."""
    return Job(np.full(ranks, _base(chance), np.int64), _sites(ranks))


def normal(chance: Chance, ranks: int) -> Job:
    """Noise of a normal distribution, up to 5 %."""
    base = _base(chance)
    return Job(
        (base * (1 + chance.uniform(1e-4, 0.05) * chance.standard_normal(ranks))).astype(np.int64), _sites(ranks)
    )


def uniform(chance: Chance, ranks: int) -> Job:
    """Evenly spread over up to a tenth."""
    base = _base(chance)
    return Job((base * (1 + chance.uniform(1e-3, 0.1) * chance.random(ranks))).astype(np.int64), _sites(ranks))


def long_tails(chance: Chance, ranks: int) -> Job:
    """Noise with longer tails than the normal distribution has (Laplace)."""
    base = _base(chance)
    return Job((base * (1 + chance.uniform(1e-3, 0.02) * chance.laplace(size=ranks))).astype(np.int64), _sites(ranks))


def skewed(chance: Chance, ranks: int) -> Job:
    """Noise to one side (log-normal)."""
    base = _base(chance)
    return Job(
        (base * (1 + chance.uniform(1e-3, 0.05) * np.exp(0.5 * chance.standard_normal(ranks)))).astype(np.int64),
        _sites(ranks),
    )


def stages(chance: Chance, ranks: int) -> Job:
    """A pipeline: the first and the last stage hold more, and each stage what it holds; the paths name the stage."""
    base, count = _base(chance), int(chance.choice([2, 4] if ranks < 64 else [2, 4, 8, 16]))
    stage = np.arange(ranks) * count // ranks
    extra = chance.integers(0, base // 4, count)
    return Job(base + extra[stage] + _noise(chance, ranks, base), {**_sites(ranks), "pp": stage})


def first_stage(chance: Chance, ranks: int) -> Job:
    """Only the first stage holds more than the others: the embedding."""
    base, count = _base(chance), 2 if ranks < 64 else 8
    stage = np.arange(ranks) * count // ranks
    more = int(chance.integers(base // 20, base // 2))
    return Job(base + more * (stage == 0) + _noise(chance, ranks, base), {**_sites(ranks), "pp": stage})


def two_modes(chance: Chance, ranks: int) -> Job:
    """A part of the ranks holds more, at least a fifth (of a few ranks three and more), and no field says which."""
    base = _base(chance)
    share = chance.uniform(0.4 if ranks < 64 else 0.2, 0.5)
    more = int(chance.integers(base // 10, base // 2))
    shifted = chance.permutation(ranks) < max(round(share * ranks), 4)
    noise = (base * chance.choice([0, 1e-5, 1e-3]) * chance.standard_normal(ranks)).astype(np.int64)
    return Job(base + more * shifted + noise, _sites(ranks))


def first_of_node(chance: Chance, ranks: int) -> Job:
    """The first rank of each machine holds more, as one that writes checkpoints does; the paths name its place."""
    if ranks < 32:
        return normal(chance, ranks)
    base = _base(chance)
    more = int(chance.integers(base // 20, base // 2))
    return Job(base + more * (np.arange(ranks) % 8 == 0) + _noise(chance, ranks, base), _sites(ranks))


def _with_outliers(job: Job, chance: Chance, count: int, *, sizes: tuple[float, float]) -> Job:
    """Some ranks hold more than their peers, by so many times what ranks are usually off their stage's median and at least 2 %."""
    peaks = job.peaks.copy()
    chosen = chance.choice(len(peaks), count, replace=False)
    stage = job.fields.get("pp", np.zeros(len(peaks), np.int64))
    usual = max(float(np.std(peaks[stage == one])) for one in np.unique(stage))
    for rank in chosen.tolist():
        peaks[rank] += int(max(0.02 * peaks[rank], usual * chance.uniform(*sizes), 2 * MIB))
    return Job(peaks, job.fields, frozenset(chosen.tolist()))


def _noisy(chance: Chance, ranks: int) -> Job:
    base = _base(chance)
    return Job(base + _noise(chance, ranks, base), _sites(ranks))


def one_leaks(chance: Chance, ranks: int) -> Job:
    """One rank gains memory: 20 to 100 times what ranks usually differ by."""
    return _with_outliers(_noisy(chance, ranks), chance, 1, sizes=(20, 100))


def one_block(chance: Chance, ranks: int) -> Job:
    """One rank holds a block more: 12 to 40 times what ranks usually differ by."""
    return _with_outliers(_noisy(chance, ranks), chance, 1, sizes=(12, 40))


def some_leak(chance: Chance, ranks: int) -> Job:
    """Up to 1 % of the ranks, at least two of sixteen and more."""
    return _with_outliers(_noisy(chance, ranks), chance, max(min(ranks // 8, 2), ranks // 100), sizes=(20, 100))


def leak_in_a_stage(chance: Chance, ranks: int) -> Job:
    """One rank of a pipeline, and less than its stage may differ from others."""
    return _with_outliers(stages(chance, ranks), chance, 1, sizes=(20, 40))


def one_holds_less(chance: Chance, ranks: int) -> Job:
    """One rank holds less than its peers."""
    job = _noisy(chance, ranks)
    peaks = job.peaks.copy()
    rank = int(chance.integers(ranks))
    peaks[rank] -= int(max(0.02 * peaks[rank], chance.uniform(12, 20) * float(np.std(peaks)), 2 * MIB))
    return Job(peaks, job.fields, frozenset([rank]))


QUIET: tuple[Maker, ...] = (alike, normal, uniform, long_tails, skewed, stages, first_stage, two_modes, first_of_node)
LOUD: tuple[Maker, ...] = (one_leaks, one_block, some_leak, leak_in_a_stage, one_holds_less)
