"""What ``memlens whatif`` claims of random runs, held against worlds that it has not seen: new chunks at addresses drawn by other seeds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from made_allocator import DEFAULTS, made_log, random_program, recorded, run_made

import memlens
from memlens.allocators.engine import Replay
from memlens.allocators.history import RequestHistory
from memlens.allocators.placing import Addresses, Placement
from memlens.replaying.run import with_refused_served
from memlens.replaying.trials import scan_limits, summed_up

#: Seeds of worlds begin here; the verb uses a few small ones.
_FIRST = 1 << 20


@dataclass(frozen=True)
class World:
    """A run under one setting, its new chunks where one seed puts them."""

    asked: RequestHistory
    values: Mapping[str, Any]
    addresses: Addresses

    def within(self, limit: int | None) -> Replay:
        """The run with that much memory."""
        return run_made(self.asked, self.values, self.addresses, limit)

    def needs(self, lowest: int) -> int:
        """The limit from which on it completes, as far as 40 replays tell."""
        peak = self.within(None).reserved_peak
        return summed_up(scan_limits(self.within, peak, lowest, 40)).completes_from


def judge_case(seed: int, worlds: int, counts: Counter[str]) -> None:
    """Make one run, ask the verb, and count its claims and those that do not hold."""
    chance = random.Random(seed)
    values = {"relief": chance.random() < 0.7, "chunk_kib": chance.choice((0, 0, 0, 4, 16))}
    program = random_program(seed, chance.choice((60, 120, 240, 480)))
    free = recorded(program, seed, **values)
    found = memlens.whatif(made_log(free)).logs[0]
    assert found.proof.holds
    assert found.own is not None
    lowest = found.live_peak_bytes or 0
    limit = lowest + int(max(found.own.reserved_peak.high_bytes - lowest, 0) * chance.uniform(-0.05, 1.0))
    history = recorded(program, seed, limit, **values) if chance.random() < 0.5 else free
    found = memlens.whatif(made_log(history), memory=limit).logs[0]
    assert found.own is not None
    of = partial(World, with_refused_served(history))
    for world in range(worlds):
        addresses = Addresses(Placement.SHUFFLED, _FIRST + seed * worlds + world)
        own = of({**DEFAULTS, **values}, addresses)
        for trial in found.trials:
            one = of({**DEFAULTS, **values, **trial.values}, addresses)
            if trial.within_limit in ("completes", "fails"):
                wrong = one.within(limit).completed != (trial.within_limit == "completes")
                counts[f"would have {trial.within_limit}"] += 1
                counts[f"would have {trial.within_limit}: wrong"] += wrong
            assert trial.completes is not None
            high = trial.completes.high_bytes
            counts["completes from there on"] += 1
            counts["completes from there on: wrong"] += not one.within(
                chance.randint(high, high + max(high // 10, 256))
            ).completed
            if trial.better:
                carried = (trial.within_limit, found.own.within_limit) == ("completes", "fails")
                ahead = one.within(limit).completed if carried else one.needs(lowest) < own.needs(lowest)
                counts["better"] += 1
                counts["better: wrong"] += not ahead
