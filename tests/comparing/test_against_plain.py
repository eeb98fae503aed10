"""The columns give what the rules give rank by rank (``tests/support/plain_ranks.py``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from made_ranks import LOUD, QUIET
from night import generator_of
from plain_ranks import plain_outliers, plain_peers

from memlens.comparing.outliers import Peers, codes_of, peers_of, standing_out

MIB, GIB = 1 << 20, 1 << 30


def test_the_same_ranks_stand_out(rounds: Callable[[int], range]) -> None:
    chance, some = generator_of("stand out"), 0
    for _ in rounds(300):
        count = int(chance.integers(1, 60))
        noise = chance.choice([0.0, 1.0, 10.0, 200.0]) * chance.standard_t(chance.integers(1, 5), count)
        figures = (chance.integers(1, 20) * GIB + MIB * noise).astype(np.int64)
        figures[chance.random(count) < 0.05] += int(chance.integers(1, 4000)) * MIB
        figures[chance.random(count) < 0.03] -= int(chance.integers(1, 900)) * MIB
        group = codes_of(chance.integers(0, chance.integers(1, 5), count))
        failed = chance.random(count) < 0.1
        found = {one.rank for one in standing_out(figures, Peers(group, group), MIB, failed)}
        plain = plain_outliers(figures.tolist(), group.tolist(), MIB, frozenset(np.flatnonzero(failed).tolist()))
        assert found == plain
        some += bool(found)
    assert some > 20  # of them have one


def test_the_same_fields_make_peers(rounds: Callable[[int], range]) -> None:
    chance, some = generator_of("peers"), 0
    for number in rounds(120):
        count = int(chance.choice([12, 16, 32, 64, 96]))
        fields = {
            "pp": np.arange(count) * int(chance.integers(1, 5)) // count,
            "tp": chance.permutation(count) % int(chance.integers(1, 4)),
            "dp": np.arange(count) % int(chance.integers(2, 9)),
        }
        steps = chance.choice([0, 30, 300, 2000], 3) * MIB
        figures = 10 * GIB + sum(step * codes for step, codes in zip(steps.tolist(), fields.values(), strict=True))
        figures = figures + (chance.choice([0, 1, 30, 500]) * MIB * chance.standard_normal(count)).astype(np.int64)
        if number % 3 == 0:
            figures[int(chance.integers(count))] += 40 * GIB
        codes = {name: codes_of(values) for name, values in fields.items()}
        found = peers_of(figures, codes, MIB).fields
        assert list(found) == plain_peers(figures.tolist(), {name: one.tolist() for name, one in codes.items()}, MIB)
        some += bool(found)
    assert some > 20


def test_the_same_of_made_up_jobs(rounds: Callable[[int], range]) -> None:
    chance = generator_of("jobs")
    for _ in rounds(3):
        for kind in (*QUIET, *LOUD):
            job = kind(chance, 64)
            fields = {name: codes for name, codes in job.fields.items() if name != "node"}
            peers = peers_of(job.peaks, fields, MIB)
            assert list(peers.fields) == plain_peers(
                job.peaks.tolist(), {k: v.tolist() for k, v in fields.items()}, MIB
            )
            found = {one.rank for one in standing_out(job.peaks, peers, MIB)}
            assert found == plain_outliers(job.peaks.tolist(), peers.group.tolist(), MIB)
