"""Which rank ran out of memory first, and how that is known.

1. *only*: one rank failed.
2. *time*: by the time stamp of the last event before each failure, where all ranks that failed have one and their logs overlap in time, each beginning before the first of
   these failures: else they are of different runs, or of clocks that have nothing to do with each other.  Ranks begin at about one time.  A lead over a rank that is not known to be on the same
   machine is therefore in doubt where it is less than a second, or than the times are apart at which the two logs begin: so much the clocks may differ by, and that is said with it.
3. *progress*: by the fewest allocations before the failure, where times do not tell, no other rank has as few, and what ran is one program: the ranks are peers.
4. *unknown*: else the first in the order of ranks is shown, and which one failed first is left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from memlens.analyzers.result import Row
from memlens.ranking.naming import is_machine

__all__ = ["Fall", "FirstFailure", "first_to_fail"]

HowKnown: TypeAlias = Literal["only", "time", "progress", "unknown"]
#: What the clocks of machines that are set by a network differ by at most.
CLOCKS_US = 1_000_000


@dataclass(frozen=True)
class Fall:
    """What is known of one rank's failure.

    Attributes:
        rank: Its index.
        time_us: When, or ``None``.
        begins_us: When its log begins, or ``None``.
        allocs: Allocations before it.
        fields: What its path says.
    """

    rank: int
    time_us: int | None
    begins_us: int | None
    allocs: int
    fields: Mapping[str, str]


@dataclass(frozen=True)
class FirstFailure(Row):
    """Which rank failed first.

    Attributes:
        rank: Its index.
        known_by: ``only``, ``time``, ``progress`` or ``unknown``.
        lead_us: How much later the next rank failed; ``None`` where times do not tell.
        lead_allocs: How many more allocations the next one made before it failed; ``None`` where that does not tell.
        within_clocks: The lead over another one, which is not known to be on the same machine, is less than their clocks may differ by.
        failed: How many ranks failed.
        next_rank: The index of the rank that failed next; ``None`` where that is not known.
    """

    rank: int
    known_by: HowKnown
    lead_us: int | None
    lead_allocs: int | None
    within_clocks: bool
    failed: int
    next_rank: int | None = None


def first_to_fail(falls: Sequence[Fall], *, alike: bool) -> FirstFailure | None:
    """The rank that failed first; ``None`` where none did.

    Args:
        falls: The failures, one a rank, in the order of ranks.
        alike: The ranks run one program: nothing tells that they are not peers.
    """
    if not falls:
        return None
    if len(falls) == 1:
        return FirstFailure(falls[0].rank, "only", None, None, False, 1)
    times = [fall.time_us for fall in falls if fall.time_us is not None]
    begins = [fall.begins_us for fall in falls if fall.begins_us is not None]
    if len(times) == len(begins) == len(falls) and max(begins) <= min(times):
        order = sorted(falls, key=lambda fall: (fall.time_us or 0, fall.allocs))
        first = order[0]
        lead = (order[1].time_us or 0) - (first.time_us or 0)
        close = any(_within_clocks(first, fall) for fall in order[1:])
        if lead > 0:
            return FirstFailure(first.rank, "time", lead, None, close, len(falls), order[1].rank)
    order = sorted(falls, key=lambda fall: fall.allocs)
    if alike and order[0].allocs < order[1].allocs:
        fewer = order[1].allocs - order[0].allocs
        return FirstFailure(order[0].rank, "progress", None, fewer, False, len(falls), order[1].rank)
    return FirstFailure(falls[0].rank, "unknown", None, None, False, len(falls))


def _within_clocks(first: Fall, later: Fall) -> bool:
    """Whether one failed so shortly after another that the clocks of their machines may tell the opposite."""
    machines = [tuple(value for name, value in fall.fields.items() if is_machine(name)) for fall in (first, later)]
    if machines[0] == machines[1] != ():
        return False
    apart = abs((first.begins_us or 0) - (later.begins_us or 0))
    return (later.time_us or 0) - (first.time_us or 0) < max(CLOCKS_US, apart)
