"""A few ranks read once more: what is live at the peak of those that stand out and of the ranks they are compared with, and how the first one failed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from memlens.analyzers.failures import failures
from memlens.analyzers.failures.words import most_telling
from memlens.analyzers.peak import peak
from memlens.comparing.ranks import HeldMore, Outlier, Ranks
from memlens.comparing.runs import Order, middle_window, read_logs
from memlens.errors import AnchorError, MemlensError
from memlens.scheduling.spreading import on_all_processors, spread_out
from memlens.text import LINES, Terms, innermost, terms_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memlens.analyzers.failures.failures import MemoryFailure
    from memlens.log import Log
    from memlens.options import Compare


#: Of so many ranks that stand out by their peak, the farthest, it is told what they hold that their peers do not.
_READ_AGAIN = 32
#: Characters of an owner that are kept.
_OF_OWNER = 200
#: Groups of blocks that are listed, the largest.
_MOST_HELD = 10

#: How many blocks of each size and owner.
Held: TypeAlias = "Counter[tuple[int, str | None]]"


class Details(Struct, frozen=True):
    """One rank's largest groups and its failure, beside its figures.

    Attributes:
        held: The blocks live at its peak; ``None`` where these are not known.
        failure: How it ran out of memory, without lists of blocks; ``None`` where it did not.
        terms: What the lines of its input are called.
    """

    held: Held | None = None
    failure: MemoryFailure | None = None
    terms: Terms = LINES


def with_details(
    outliers: Sequence[Outlier], ranks: Ranks, orders: Mapping[str, Order], options: Compare
) -> tuple[list[Outlier], Ranks]:
    """The same with what ranks hold that their peers do not, and with the first failure.

    Args:
        outliers: The ranks that stand out, the farthest first.
        ranks: What else is said of them.
        orders: By the path of each rank how its log is read.
        options: Who reads them.
    """
    highest = [one for one in outliers if one.metric == "peak_bytes" and one.off > 0][:_READ_AGAIN]
    first = ranks.first_failure
    paths = [path for one in highest for path in (one.path, one.median_path)]
    paths = [*dict.fromkeys([*paths, *([] if first is None else [first.path])])]
    again, known = [orders[path] for path in paths], {}
    for index, found in spread_out(_details_of, again, on_all_processors(options, len(again)), None):
        if not isinstance(found, MemlensError):
            known[paths[index]] = found
    if first is not None and (failed := known.get(first.path)) is not None:
        ranks = replace(ranks, first_failure=replace(first, failure=failed.failure, terms=failed.terms))
    holds = {id(one): _holds_more(known.get(one.path), known.get(one.median_path)) for one in highest}
    return [replace(one, holds=holds.get(id(one), ())) for one in outliers], ranks


def _details_of(order: Order) -> Details:
    """Read a log for its details, in a worker: one that has one device, or of which one was named.

    Raises:
        MemlensError: It cannot be read any more.
    """
    (log,), _ = read_logs(order)
    found = failures(log)
    failure = None
    if found:
        one = found[most_telling(found)]
        failure = replace(one, live=(), youngest=None, oldest=None, owner=_short(one.owner))
    return Details(_held(log, order), failure, terms_of(log.facts.has_lines))


def _held(log: Log, order: Order) -> Held | None:
    try:
        highest = peak([middle_window(log, order.options)])[0]
    except AnchorError:  # it failed before
        return None
    held: Held = Counter()
    for group in highest.live:
        held[group.size_bytes, _short(group.owner)] += group.count
    return held if held or not highest.peak_bytes else None


def _short(owner: str | None) -> str | None:
    """An operator, or the innermost frame of a call stack."""
    return None if owner is None else innermost(owner)[:_OF_OWNER]


def _holds_more(rank: Details | None, median_rank: Details | None) -> tuple[HeldMore, ...]:
    """The groups that a rank holds more of at its peak than another one, the most bytes first; nothing where either is not known."""
    own, usual = (None if one is None else one.held for one in (rank, median_rank))
    if own is None or usual is None:
        return ()
    more = (HeldMore(size, blocks, size * blocks, owner) for (size, owner), blocks in (own - usual).items())
    return tuple(sorted(more, key=lambda one: (-one.more_bytes, -one.size_bytes, one.owner or "")))[:_MOST_HELD]
