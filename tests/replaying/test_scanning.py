"""The limits that are said to complete or to fail do so: each of them is tried."""

from __future__ import annotations

from itertools import pairwise

import pytest
from made_allocator import DEFAULTS, MadeProgram, history_of, random_program, run_made

from memlens.allocators.placing import Addresses, Placement
from memlens.replaying.trials import TriedLimits, scan_limits, summed_up

UNIT = 256  # blocks are multiples of it, and so are all levels at which something changes


def scanned(program: MadeProgram, addresses: Addresses, most: int, **values: object) -> tuple[list[TriedLimits], int]:
    asked, own = history_of(program), {**DEFAULTS, **values}
    peak = run_made(asked, own, addresses)
    known = scan_limits(
        lambda limit: run_made(asked, own, addresses, limit), peak.reserved_peak, peak.allocated_peak, most
    )
    return known, peak.allocated_peak


@pytest.mark.parametrize("seed", range(12))
def test_what_is_known_of_limits_holds_for_each_of_them(seed: int) -> None:
    program, addresses = random_program(seed, 90), Addresses(Placement.SHUFFLED, seed)
    asked, own = history_of(program), {**DEFAULTS, "relief": True}
    known, lowest = scanned(program, addresses, 200, relief=True)
    truth = {
        limit: run_made(asked, own, addresses, limit).completed for limit in range(lowest, known[0].low + UNIT, UNIT)
    }
    for one in known:
        for limit, completes in truth.items():
            if one.low <= limit <= one.high:
                assert completes == one.completes
    found = summed_up(known)
    assert all(completes for limit, completes in truth.items() if limit >= found.completes_from) or not found.every
    assert truth.get(found.completes_least, True)


def gaps_of(known: list[TriedLimits]) -> list[tuple[int, int]]:
    return [(below.high + 1, above.low - 1) for above, below in pairwise(known) if below.high + 1 < above.low]


def test_few_replays_leave_gaps_of_which_nothing_is_said() -> None:
    known, _ = scanned(random_program(3, 90), Addresses(Placement.ASCENDING), 3, relief=True)
    assert len(known) <= 4
    found = summed_up(known)
    assert found.every == all(high < found.completes_from for _, high in gaps_of(known))


def test_a_run_may_complete_with_less_and_fail_with_more() -> None:
    """Completing is not monotone in the limit: somewhere among random programs a band shows, and it is said where it begins and ends."""
    bands = 0
    for seed in range(60):
        known, _ = scanned(random_program(seed, 120), Addresses(Placement.SHUFFLED, seed), 60, relief=True)
        found = summed_up(known)
        assert found.completes_least <= found.completes_from <= found.reserved_peak
        if found.completes_least < found.completes_from:
            failing = [one for one in known if not one.completes and one.low > found.completes_least]
            assert failing
            assert max(one.high for one in failing) < found.completes_from
            bands += 1
    assert bands
