"""Which rank ran out of memory first, and how that is known.

1. *only*: one rank failed.
2. *time*: by the time stamp of the last event before each failure, where all ranks that failed have one and their logs overlap in time, each beginning before the first of
   these failures: else they are of different runs, or of clocks that have nothing to do with each other.  Ranks begin at about one time.  A lead over a rank that is not known to be on the same
   machine is therefore in doubt where it is less than a second, or than the times are apart at which the two logs begin: so much the clocks may differ by, and that is said with it.
3. *progress*: by the fewest allocations before the failure, where times do not tell, no other rank has as few, and what ran is one program: the ranks are peers.
4. *unknown*: else the first in the order of ranks is shown, and which one failed first is left open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import Struct

from memlens.comparing.naming import is_machine
from memlens.results import Result
from memlens.text import LINES, Terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlens.analyzers.failures.failures import MemoryFailure


#: What the clocks of machines that are set by a network differ by at most.
CLOCKS_US = 1_000_000


class Failed(Struct, frozen=True):
    """One rank's failure, and when it was.

    Attributes:
        rank: What the rank is called.
        path: Its log.
        fields: What its path says.
        time_us: When, or ``None``.
        begins_us: When its log begins, or ``None``.
        allocs: Allocations before it.
    """

    rank: str
    path: str
    fields: Mapping[str, str]
    time_us: int | None
    begins_us: int | None
    allocs: int


class FirstFailure(Result, frozen=True):
    """Which rank failed first.

    Attributes:
        rank: What it is called; text from paths.
        path: Its log.
        known_by: ``only``, ``time``, ``progress`` or ``unknown``.
        failed: How many ranks failed.
        lead_us: How much later the next rank failed; ``None`` where times do not tell.
        lead_allocs: How many more allocations the next one made before it failed; ``None`` where that does not tell.
        within_clocks: The lead over another one, which is not known to be on the same machine, is less than their clocks may differ by.
        next_rank: The rank that failed next; ``None`` where that is not known.
        failure: The failure, without its lists of blocks.
        terms: What the lines of its input are called.
    """

    in_json: ClassVar[tuple[str, ...]] = (
        *("rank", "path", "known_by", "failed", "lead_us", "lead_allocs", "within_clocks", "next_rank", "failure"),
    )
    top: ClassVar[int] = 0  # of the failure: its figures, no lists

    rank: str
    path: str
    known_by: Literal["only", "time", "progress", "unknown"]
    failed: int
    lead_us: int | None = None
    lead_allocs: int | None = None
    within_clocks: bool = False
    next_rank: str | None = None
    failure: MemoryFailure | None = None
    terms: Terms = LINES


def first_to_fail(failed: Sequence[Failed], *, alike: bool) -> FirstFailure | None:
    """The rank that failed first; ``None`` where none did.

    Args:
        failed: The failures, one a rank, in the order of ranks.
        alike: The ranks run one program: nothing tells that they are not peers.
    """
    if not failed:
        return None
    if len(failed) == 1:
        return FirstFailure(failed[0].rank, failed[0].path, "only", 1)
    times = [one.time_us for one in failed if one.time_us is not None]
    begins = [one.begins_us for one in failed if one.begins_us is not None]
    if len(times) == len(begins) == len(failed) and max(begins) <= min(times):
        first, second, *_ = order = sorted(failed, key=lambda one: (one.time_us or 0, one.allocs))
        if lead := (second.time_us or 0) - (first.time_us or 0):
            close = any(_within_clocks(first, one) for one in order[1:])
            return FirstFailure(first.rank, first.path, "time", len(failed), lead, None, close, second.rank)
    first, second, *_ = sorted(failed, key=lambda one: one.allocs)
    if alike and first.allocs < second.allocs:
        fewer = second.allocs - first.allocs
        return FirstFailure(first.rank, first.path, "progress", len(failed), None, fewer, next_rank=second.rank)
    return FirstFailure(failed[0].rank, failed[0].path, "unknown", len(failed))


def _within_clocks(first: Failed, later: Failed) -> bool:
    """Whether one failed so shortly after another that the clocks of their machines may tell the opposite."""
    machines = [tuple(value for name, value in one.fields.items() if is_machine(name)) for one in (first, later)]
    if machines[0] == machines[1] != ():
        return False
    apart = abs((first.begins_us or 0) - (later.begins_us or 0))
    return (later.time_us or 0) - (first.time_us or 0) < max(CLOCKS_US, apart)
